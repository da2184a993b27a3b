/* SPDX-License-Identifier: Apache-2.0
 * inss_train.c - see inss_train.h.
 *
 * A decision about a model leads to the one about the next model, and that about the last to the first of the
 * next step (Algorithm 1, lines 7-10 and 16), so the last one waits until that is known; and so does what
 * each GPU did.  Rewards are kept a tenth of their size, for a temperature of 1 to be neither nothing nor
 * all.  Checkpoints are written between episodes, when nothing waits.
 *
 * The two agents are updated on two threads, for half of the time.  Each has its own nets, steps and stream
 * of random numbers, so the bytes are those of one thread. */
#include "bench/learn/inss_train.h"

#include <stdio.h>
#include <string.h>
#include "bench/learn/inss_curves.h"
#include "runtime/learn/checkpoint.h"
#include "runtime/planner/inss/inss_plan.h"

static const double reward_scale = 0.1;

/* A decision of either stage whose consequence is not known yet. */
struct placing {
    float state[MO_INSS_PLACE_STATE], mask[MO_INSS_GROUP];
    int action, party;
    double reward;
};
struct dividing {
    bool there;
    float state[MO_INSS_DIVIDE_STATE], mask[MO_INSS_SLOTS], action[2 * MO_INSS_SLOTS];
    double reward;
};

struct trainer {
    const struct mo_env *env;
    const struct mo_inss_train_options *o;
    struct mo_inss_world world;
    struct mo_inss_outcome outcome;
    struct mo_sacd *sacd;
    struct mo_td3 *td3;
    struct mo_sgemm sgemm;
    struct placing placing[MO_INSS_CROWD + 1]; /* of this step; the last place has the one that waits */
    int n_placing;
    bool waits;
    struct dividing dividing[MO_INSS_GROUP];
    int episode;
    struct mo_inss_point *points; /* [episodes] */
    int64_t ns[2];                /* spent in updates of either agent, since this program began */
    int64_t n_timed;
    char checkpoint[MO_OUTPUT_PATH];
};

struct mo_inss_train_options mo_inss_train_options(void) {
    return (struct mo_inss_train_options){
        .seed = 1, .episodes = 1600, .steps = 100, .hidden = 256, .batch = 256, .room = 100000, .every = 50};
}

/* --- a step --------------------------------------------------------------------------------------------- */
static void keep_placing(struct trainer *t, const struct placing *p, const struct placing *next) {
    mo_sacd_keep(t->sacd, &(struct mo_sacd_step){p->state, p->mask, p->action, p->reward * reward_scale,
                                                 !next, next ? next->state : NULL, next ? next->mask : NULL});
}

static void place(struct trainer *t) {
    struct mo_inss_scene *s = &t->world.scene;
    t->n_placing = 0;
    for (int i = 0; i < s->n; i++) {
        struct placing *p = &t->placing[t->n_placing];
        if (!mo_inss_place_state(s, i, p->state, p->mask)) continue; /* no room anywhere: not placed */
        p->party = i;
        p->action = s->party[i].gpu = mo_sacd_explore(t->sacd, p->state, p->mask);
        if (t->waits && !t->n_placing) keep_placing(t, &t->placing[MO_INSS_CROWD], p);
        t->n_placing++;
    }
    t->waits = false;
}

static void divide(struct trainer *t) {
    struct mo_inss_scene *s = &t->world.scene;
    for (int g = 0; g < s->n_there; g++) {
        struct dividing *d = &t->dividing[g], now = {0};
        int member[MO_INSS_SLOTS];
        const int n = mo_inss_divide_state(s, g, now.state, now.mask, member);
        if (d->there)
            mo_td3_keep(t->td3, &(struct mo_td3_step){d->state, d->mask, d->action, d->reward * reward_scale,
                                                      !n, now.state, now.mask});
        now.there = n > 0;
        if (n) {
            mo_td3_explore(t->td3, now.state, now.mask, now.action);
            mo_inss_divide(s, member, n, now.action);
        }
        *d = now;
    }
}

/* What the decisions of this step came to. */
static void reward(struct trainer *t) {
    const struct mo_inss_scene *s = &t->world.scene;
    mo_inss_world_apply(&t->world, &t->outcome);
    for (int i = 0; i < s->n; i++)
        if (s->party[i].gpu >= 0) t->dividing[s->party[i].gpu].reward += t->outcome.reward[i];
    for (int j = 0; j < t->n_placing; j++) {
        t->placing[j].reward = t->outcome.reward[t->placing[j].party];
        if (j) keep_placing(t, &t->placing[j - 1], &t->placing[j]);
    }
    if (!t->n_placing) return;
    t->placing[MO_INSS_CROWD] = t->placing[t->n_placing - 1];
    t->waits = true;
}

/* The update of one agent, which may run beside the other's: they share nothing but the products' code. */
struct placing_update {
    const struct trainer *t;
    struct mo_sacd_losses losses;
    moire_error err;
    int code;
    int64_t ns;
};

static void *update_placing(void *arg) {
    struct placing_update *u = arg;
    const int64_t begin = mo_now(u->t->env);
    u->code = mo_sacd_update(u->t->sacd, &u->losses, &u->err);
    u->ns = mo_now(u->t->env) - begin;
    return NULL;
}

/* Without a second thread it only takes longer. */
static int update(struct trainer *t, moire_error *err) {
    const struct mo_sys *sys = t->env->sys;
    struct placing_update placing = {.t = t};
    struct mo_td3_losses dividing;
    struct mo_thread thread;
    if (t->sacd->experience.n < t->o->batch || t->td3->experience.n < t->o->batch) return MOIRE_OK;
    const bool beside = !sys->thread_start(sys->self, &thread, update_placing, &placing);
    const int64_t begin = mo_now(t->env);
    int code = mo_td3_update(t->td3, &dividing, err);
    t->ns[1] += mo_now(t->env) - begin;
    if (beside)
        sys->thread_join(sys->self, thread);
    else
        update_placing(&placing);
    t->ns[0] += placing.ns;
    t->n_timed++;
    if (!placing.code) return code;
    if (err) *err = placing.err;
    return placing.code;
}

static int episode(struct trainer *t, struct mo_inss_point *out, moire_error *err) {
    double came = 0, served = 0, late = 0;
    int code = MOIRE_OK, n = 0;
    *out = (struct mo_inss_point){0};
    mo_inss_world_begin(&t->world);
    for (int step = 0; !code && step < t->o->steps; step++) {
        if (step) mo_inss_world_move(&t->world);
        place(t);
        divide(t);
        reward(t);
        for (int i = 0; i < t->world.scene.n; i++, n++)
            out->reward += t->outcome.reward[i];
        came += t->outcome.came;
        served += t->outcome.served;
        late += t->outcome.late;
        code = update(t, err);
    }
    if (t->waits) keep_placing(t, &t->placing[MO_INSS_CROWD], NULL);
    for (int g = 0; g < t->world.scene.n_there; g++) {
        const struct dividing *d = &t->dividing[g];
        if (d->there)
            mo_td3_keep(t->td3, &(struct mo_td3_step){d->state, d->mask, d->action, d->reward * reward_scale,
                                                      true, NULL, NULL});
    }
    t->waits = false;
    memset(t->dividing, 0, sizeof t->dividing);
    out->reward /= n;
    out->served_pct = 100 * served / came;
    out->late_pct = 100 * late / came;
    out->temperature = exp((double)t->sacd->log_tau);
    return code;
}

/* --- files ---------------------------------------------------------------------------------------------- */
static void walk(void *data, struct mo_learn_io *io) {
    struct trainer *t = data;
    char machine[MO_POLICY_NAME], name[MO_POLICY_NAME];
    snprintf(machine, sizeof machine, "%s", t->o->machine);
    mo_learn_text(io, "the machine's name", machine, sizeof machine);
    if (!io->code && strcmp(machine, t->o->machine) != 0)
        mo_learn_refuse(io, MOIRE_EINVAL, "is of the machine '%s', not of '%s'", machine, t->o->machine);
    mo_learn_same(io, "the number of models", t->o->n_models);
    for (int i = 0; !io->code && i < t->o->n_models; i++) {
        snprintf(name, sizeof name, "%s", t->o->names[i]);
        mo_learn_text(io, "a model's name", name, sizeof name);
        if (!io->code && strcmp(name, t->o->names[i]) != 0)
            mo_learn_refuse(io, MOIRE_EINVAL, "has the model '%s' where this has '%s'", name, t->o->names[i]);
    }
    mo_learn_same(io, "tenants", t->o->n_tenants);
    for (int i = 0; i < t->o->n_tenants; i++)
        mo_learn_same(io, "a tenant's rate", t->o->tenants[i].rate);
    mo_learn_same(io, "seed", (double)t->o->seed);
    mo_learn_same(io, "steps", t->o->steps);
    mo_learn_word(io, &t->world.rng);
    mo_learn_int(io, "the number of episodes", &t->episode, 0, t->o->episodes);
    for (int i = 0; !io->code && i < t->episode; i++) {
        mo_learn_real(io, "a reward", &t->points[i].reward);
        mo_learn_real(io, "a part served", &t->points[i].served_pct);
        mo_learn_real(io, "a part late", &t->points[i].late_pct);
        mo_learn_real(io, "a temperature", &t->points[i].temperature);
    }
    if (io->code) return;
    mo_checkpoint_sacd(io, t->sacd);
    if (!io->code) mo_checkpoint_td3(io, t->td3);
}

static int write_policy(const struct trainer *t, moire_error *err) {
    struct mo_policy_file p = {.n_models = t->o->n_models,
                               .n_gpus = t->o->n_gpus,
                               .n_slots = t->world.scene.n_slots,
                               .seed = t->o->seed,
                               .updates = t->sacd->updates,
                               .place = t->sacd->actor,
                               .divide = t->td3->actor};
    mo_inss_gpus(t->o->kind, p.gpus);
    for (int i = 0; i < p.n_models; i++)
        snprintf(p.model[i], sizeof p.model[i], "%s", t->o->names[i]);
    return mo_policy_write(t->env, t->o->output, &p, err);
}

static int write_all(struct trainer *t, moire_error *err) {
    int code = mo_learn_write(t->env, t->checkpoint, MO_LEARN_CHECKPOINT, walk, t, err);
    if (!code) code = write_policy(t, err);
    if (!code) code = mo_inss_curves_write(t->env, t->o->output, t->points, t->episode, err);
    return code;
}

/* --- all of it ------------------------------------------------------------------------------------------ */
static int open_trainer(struct trainer *t, moire_error *err) {
    const struct mo_inss_train_options *o = t->o;
    if (o->n_gpus < 1 || o->n_gpus > MO_INSS_GROUP || o->episodes < 1 || o->episodes > MO_INSS_EPISODES ||
        o->steps < 1 || o->every < 1 || strlen(o->machine) >= MO_POLICY_NAME)
        return mo_fail(err, MOIRE_EINVAL, "train inss: an option is out of its range");
    int code =
        mo_inss_world_open(&t->world, o->kind, o->n_gpus, o->names, o->profiles, o->n_models, o->seed, err);
    if (!code && o->n_tenants > o->n_gpus * t->world.scene.n_slots)
        code = mo_fail(err, MOIRE_EINVAL, "%d tenants, and %d GPUs hold %d", o->n_tenants, o->n_gpus,
                       o->n_gpus * t->world.scene.n_slots);
    t->world.tenants = o->n_tenants ? o->tenants : NULL;
    t->world.n_tenants = o->n_tenants;
    if (!code && !o->plain) code = mo_sgemm_open(t->env, &t->sgemm, err);
    if (code) return code;
    struct mo_sacd_options s = mo_sacd_options(mo_inss_place_state_size(o->n_gpus), o->n_gpus);
    struct mo_td3_options d =
        mo_td3_options(mo_inss_divide_state_size(t->world.scene.n_slots), t->world.scene.n_slots);
    s.learn.hidden = d.learn.hidden = o->hidden;
    s.learn.batch = d.learn.batch = o->batch;
    s.learn.room = d.learn.room = o->room;
    code = mo_sacd_create(t->env, &t->sgemm, &s, o->seed, &t->sacd, err);
    if (!code) code = mo_td3_create(t->env, &t->sgemm, &d, o->seed, &t->td3, err);
    if (code) return code;
    t->points = mo_alloc(t->env, (size_t)o->episodes * sizeof *t->points);
    if (!t->points) return mo_fail(err, MOIRE_ENOMEM, "train inss: out of memory");
    if (snprintf(t->checkpoint, sizeof t->checkpoint, "%s.checkpoint", o->output) >=
        (int)sizeof t->checkpoint)
        return mo_fail(err, MOIRE_EINVAL, "'%.300s': too long a path", o->output);
    return o->resume ? mo_learn_read(t->env, t->checkpoint, MO_LEARN_CHECKPOINT, walk, t, err) : MOIRE_OK;
}

static int train(struct trainer *t, moire_error *err) {
    const struct mo_inss_train_options *o = t->o;
    int code = MOIRE_OK, kept = t->episode;
    while (!code && t->episode < o->episodes && !(o->stop && o->stop(o->ctx))) {
        code = episode(t, &t->points[t->episode], err);
        if (code)
            return mo_fail_context(err, code, "the last checkpoint, after %d episodes, is '%.200s'", kept,
                                   t->checkpoint);
        if (o->progress) o->progress(o->ctx, t->episode, &t->points[t->episode]);
        t->episode++;
        if (t->episode % o->every) continue;
        code = mo_learn_write(t->env, t->checkpoint, MO_LEARN_CHECKPOINT, walk, t, err);
        kept = t->episode;
    }
    return code ? code : write_all(t, err);
}

int mo_inss_train(const struct mo_env *env, const struct mo_inss_train_options *options,
                  struct mo_inss_trained *out, moire_error *err) {
    struct trainer *t = mo_alloc(env, sizeof *t);
    if (!t) return mo_fail(err, MOIRE_ENOMEM, "train inss: out of memory");
    t->env = env;
    t->o = options;
    int code = open_trainer(t, err);
    if (!code) code = train(t, err);
    if (!code) {
        const double timed = t->n_timed ? (double)t->n_timed : 1;
        *out = (struct mo_inss_trained){
            .episodes = t->episode,
            .updates = t->sacd->updates,
            .update_ms = {(double)t->ns[0] * 1e-6 / timed, (double)t->ns[1] * 1e-6 / timed}};
        if (t->episode) out->last = t->points[t->episode - 1];
    }
    mo_sacd_destroy(t->sacd);
    mo_td3_destroy(t->td3);
    mo_sgemm_close(&t->sgemm);
    mo_free(env, t->points);
    mo_free(env, t);
    return code;
}
