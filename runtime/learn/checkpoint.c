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

static void walk_twin(struct mo_learn_io *io, struct mo_twin *twin) {
    for (int v = 0; v < 2; v++) {
        walk_net(io, &twin->critic[v]);
        walk_net(io, &twin->target[v]);
        walk_adam(io, &twin->adam[v]);
    }
}

/* The options of both agents, with what the outputs of the actor are about and how many of that there are. */
static void walk_options(struct mo_learn_io *io, const struct mo_learn_options *o, const char *what, int n) {
    mo_learn_same(io, "state size", o->n_state);
    mo_learn_same(io, what, n);
    mo_learn_same(io, "hidden width", o->hidden);
    mo_learn_same(io, "mini-batch", o->batch);
    mo_learn_same(io, "replay rows", o->room);
    mo_learn_same(io, "gamma", o->gamma);
    mo_learn_same(io, "soft factor", o->soft);
    mo_learn_same(io, "learning rate", o->rate);
}

void mo_checkpoint_sacd(struct mo_learn_io *io, struct mo_sacd *agent) {
    walk_options(io, &agent->options.learn, "actions", agent->options.n_actions);
    mo_learn_same(io, "entropy", agent->options.entropy);
    mo_learn_word(io, &agent->rng);
    mo_learn_long(io, &agent->updates);
    mo_learn_floats(io, "the temperature", &agent->log_tau, 1);
    walk_adam(io, &agent->tau_adam);
    walk_net(io, &agent->actor);
    walk_adam(io, &agent->actor_adam);
    walk_twin(io, &agent->twin);
    walk_experience(io, &agent->experience);
    if (!io->code && !mo_sacd_rows_valid(agent))
        mo_learn_refuse(io, MOIRE_EFORMAT, "its replay buffer has an action that there is not");
}

void mo_checkpoint_td3(struct mo_learn_io *io, struct mo_td3 *agent) {
    const struct mo_td3_options *o = &agent->options;
    walk_options(io, &o->learn, "slots", o->n_slots);
    mo_learn_same(io, "exploring noise", o->explore);
    mo_learn_same(io, "policy noise", o->smooth);
    mo_learn_same(io, "noise clip", o->limit);
    mo_learn_same(io, "policy delay", o->every);
    mo_learn_word(io, &agent->rng);
    mo_learn_long(io, &agent->updates);
    walk_net(io, &agent->actor);
    walk_net(io, &agent->actor_target);
    walk_adam(io, &agent->actor_adam);
    walk_twin(io, &agent->twin);
    walk_experience(io, &agent->experience);
}
