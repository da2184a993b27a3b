/* SPDX-License-Identifier: Apache-2.0
 * checkpoint.c - see checkpoint.h. */
#include "runtime/learn/checkpoint.h"

static void walk_adam(struct mo_learn_io *io, struct mo_adam *adam) {
    mo_learn_long(io, &adam->steps);
    mo_learn_floats(io, "the mean of a slope", adam->mean, adam->n);
    mo_learn_floats(io, "the square of a slope", adam->square, adam->n);
}

static void walk_net(struct mo_learn_io *io, struct mo_net *net) {
    mo_learn_floats(io, "a net", net->values, net->n);
}

static void walk_experience(struct mo_learn_io *io, struct mo_experience *e) {
    mo_learn_same(io, "the replay rows' width", e->width);
    mo_learn_int(io, "the number of replay rows", &e->n, 0, e->room);
    mo_learn_int(io, "the next replay row", &e->next, 0, e->room - 1);
    if (io->code) return;
    if (e->n < e->room && e->next != e->n) {
        mo_learn_refuse(io, MOIRE_EFORMAT, "its replay buffer has a gap");
        return;
    }
    mo_learn_floats(io, "the replay buffer", e->rows, (size_t)e->n * (size_t)e->width);
}

void mo_checkpoint_sacd(struct mo_learn_io *io, struct mo_sacd *agent) {
    const struct mo_sacd_options *o = &agent->options;
    const struct {
        const char *what;
        double v;
    } same[] = {{"state size", o->n_state}, {"actions", o->n_actions},  {"hidden width", o->hidden},
                {"mini-batch", o->batch},   {"replay rows", o->room},   {"gamma", o->gamma},
                {"soft factor", o->soft},   {"learning rate", o->rate}, {"entropy", o->entropy}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        mo_learn_same(io, same[i].what, same[i].v);
    mo_learn_word(io, &agent->rng);
    mo_learn_long(io, &agent->updates);
    mo_learn_floats(io, "the temperature", &agent->log_tau, 1);
    walk_adam(io, &agent->tau_adam);
    walk_net(io, &agent->actor);
    walk_adam(io, &agent->actor_adam);
    for (int v = 0; v < 2; v++) {
        walk_net(io, &agent->critic[v]);
        walk_net(io, &agent->target[v]);
        walk_adam(io, &agent->critic_adam[v]);
    }
    walk_experience(io, &agent->experience);
    if (!io->code && !mo_sacd_rows_valid(agent))
        mo_learn_refuse(io, MOIRE_EFORMAT, "its replay buffer has an action that there is not");
}

void mo_checkpoint_td3(struct mo_learn_io *io, struct mo_td3 *agent) {
    const struct mo_td3_options *o = &agent->options;
    const struct {
        const char *what;
        double v;
    } same[] = {{"state size", o->n_state},  {"slots", o->n_slots},      {"hidden width", o->hidden},
                {"mini-batch", o->batch},    {"replay rows", o->room},   {"gamma", o->gamma},
                {"soft factor", o->soft},    {"learning rate", o->rate}, {"exploring noise", o->explore},
                {"policy noise", o->smooth}, {"noise clip", o->limit},   {"policy delay", o->every}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        mo_learn_same(io, same[i].what, same[i].v);
    mo_learn_word(io, &agent->rng);
    mo_learn_long(io, &agent->updates);
    walk_net(io, &agent->actor);
    walk_net(io, &agent->actor_target);
    walk_adam(io, &agent->actor_adam);
    for (int v = 0; v < 2; v++) {
        walk_net(io, &agent->critic[v]);
        walk_net(io, &agent->target[v]);
        walk_adam(io, &agent->critic_adam[v]);
    }
    walk_experience(io, &agent->experience);
}
