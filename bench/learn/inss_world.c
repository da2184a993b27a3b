/* SPDX-License-Identifier: Apache-2.0
 * inss_world.c - see inss_world.h. */
#include "bench/learn/inss_world.h"

#include <string.h>
#include "bench/inss/inss_demand.h"
#include "runtime/learn/draws.h"

enum { RUNS = 3, RUN_BATCH = 8, RUN_SHARE = 500 };
const double mo_inss_omega = 40, mo_inss_step_s = 10;
/* The paper's targets are 3 to 4 times the time of a batch of 8 on a fifth of its GPU (its section 6.1,
 * tables 3 and 4).  Episodes vary them, and their load as part of what the GPUs could serve at best. */
static const double usual_target = 3.5, least_target = 0.5, most_target = 2, least_load = 0.1,
                    most_load = 0.8;
static const double unrest = 0.15, most_change = 2; /* of rates, from step to step and from the first */
static const double least_part = 0.5;               /* of the rates of tenants that are given */

/* Three runs of each model, beside three others. */
static int fit_beside(struct mo_inss_world *w, moire_error *err) {
    struct mo_inss_run runs[MO_INSS_WORLD_MODELS * RUNS];
    for (int i = 0; i < w->n_models * RUNS; i++) {
        const int self = i / RUNS, other = (self + i % RUNS) % w->n_models;
        const struct mo_share_profile *p = w->model[self].profile, *q = w->model[other].profile;
        const struct mo_share_use own = mo_share_use_at(p, RUN_BATCH, RUN_SHARE),
                                  its = mo_share_use_at(q, RUN_BATCH, RUN_SHARE);
        const double alone = (double)mo_share_latency(p, RUN_BATCH, RUN_SHARE) * 1e-6;
        runs[i] = (struct mo_inss_run){.self = {self, RUN_BATCH, RUN_SHARE},
                                       .other = {{other, RUN_BATCH, RUN_SHARE}},
                                       .n_others = 1,
                                       .ms = alone * mo_interference(&w->kind->interference, &own, &its, 1)};
    }
    return mo_inss_fit_beside(w->latency, w->n_models, runs, w->n_models * RUNS, NULL, NULL, err);
}

/* Root mean square of queries/s over all batches and all sizes of lets. */
static double rms_of(const struct mo_inss_world *w, int i) {
    const int units = w->kind->units;
    double sum = 0;
    for (int b = 1; b <= MO_INSS_BATCH; b++)
        for (int u = 1; u <= units; u++)
            sum += pow(1e3 * b / mo_inss_alone_ms(&w->latency[i], b, mo_share_of_units(u, units)), 2);
    return sqrt(sum / (MO_INSS_BATCH * units));
}

int mo_inss_world_open(struct mo_inss_world *w, const struct mo_plan_kind *kind, int n_gpus,
                       const char *const *names, const struct mo_share_profile *const *profiles, int n,
                       uint64_t seed, moire_error *err) {
    const struct mo_inss_grid grid = mo_inss_grid();
    moire_error why = {0};
    memset(w, 0, sizeof *w);
    if (n < 1 || n > MO_INSS_WORLD_MODELS)
        return mo_fail(err, MOIRE_EINVAL, "%d models to learn; 1 to %d", n, MO_INSS_WORLD_MODELS);
    w->kind = kind;
    w->n_models = n;
    w->rng = mo_mix(seed + 1);
    w->scene = (struct mo_inss_scene){
        .kind = kind, .n_gpus = n_gpus, .n_there = n_gpus, .n_slots = mo_inss_slots(kind)};
    for (int i = 0; i < n; i++) {
        w->model[i] = (struct mo_inss_world_model){.name = names[i], .profile = profiles[i]};
        if (profiles[i]->memory_bytes > kind->memory_bytes)
            return mo_fail(err, MOIRE_EINVAL, "'%s' does not fit into the memory of '%s'", names[i],
                           kind->name);
        int code = mo_inss_fit_alone(profiles[i], &grid, NULL, &w->latency[i], &why);
        if (code) return mo_fail(err, code, "'%s' on '%s': %.300s", names[i], kind->name, why.message);
    }
    int code = fit_beside(w, err);
    for (int i = 0; !code && i < n; i++) {
        w->model[i].rms = rms_of(w, i);
        w->model[i].target_ns =
            (int64_t)(1e6 * usual_target * mo_inss_alone_ms(&w->latency[i], 8, MO_SHARE_WHOLE / 5));
    }
    return code;
}

static void look(struct mo_inss_world *w) {
    for (int i = 0; i < w->scene.n; i++)
        mo_inss_party_look(&w->scene.party[i], w->kind);
    mo_inss_sort(w->scene.party, w->scene.n);
}

static double between(uint64_t *rng, double least, double most) {
    return least + (most - least) * mo_draw_unit(rng);
}

static double factor_of_step(uint64_t *rng) {
    return between(rng, mo_inss_least_factor, mo_inss_most_factor);
}

static void begin_given(struct mo_inss_world *w) {
    struct mo_inss_scene *s = &w->scene;
    const double part = between(&w->rng, least_part, 1);
    s->n = w->n_tenants;
    for (int i = 0; i < s->n; i++) {
        const struct mo_inss_world_tenant *t = &w->tenants[i];
        w->of[i] = t->model;
        w->first_rate[i] = part * t->rate;
        s->party[i] =
            (struct mo_inss_party){.profile = w->model[t->model].profile, .target_ns = t->target_ns, .at = i};
        s->party[i].rate = w->first_rate[i] * factor_of_step(&w->rng);
    }
    look(w);
}

static void begin_drawn(struct mo_inss_world *w) {
    struct mo_inss_scene *s = &w->scene;
    const int most = s->n_there * s->n_slots;
    double part[MO_INSS_CROWD], sum = 0;
    s->n = most < 2 ? 1 : most / 2 + mo_draw_below(&w->rng, most - most / 2 + 1);
    for (int i = 0; i < s->n; i++) {
        w->of[i] = mo_draw_below(&w->rng, w->n_models);
        const struct mo_inss_world_model *m = &w->model[w->of[i]];
        const double scale = between(&w->rng, least_target, most_target);
        s->party[i] = (struct mo_inss_party){
            .profile = m->profile, .target_ns = (int64_t)((double)m->target_ns * scale), .at = i};
        mo_inss_party_look(&s->party[i], w->kind);
        sum += part[i] = 0.1 - log(1 - mo_draw_unit(&w->rng));
    }
    const double load = between(&w->rng, least_load, most_load) * s->n_there;
    for (int i = 0; i < s->n; i++)
        s->party[i].rate = w->first_rate[i] = load * part[i] / sum / s->party[i].cost;
    look(w);
}

void mo_inss_world_begin(struct mo_inss_world *w) {
    w->step = 0;
    if (w->tenants)
        begin_given(w);
    else
        begin_drawn(w);
}

/* The rate of a party in the next step. */
static double next_rate(struct mo_inss_world *w, const struct mo_inss_party *p) {
    const double first = w->first_rate[p->at];
    if (!w->tenants)
        return mo_within(first / most_change, first * most_change,
                         p->rate * exp(unrest * mo_draw_normal(&w->rng)));
    const int steps_alike = (int)((double)MO_INSS_DEMAND_STEP_NS * 1e-9 / mo_inss_step_s);
    return w->step % steps_alike ? p->rate : first * factor_of_step(&w->rng);
}

void mo_inss_world_move(struct mo_inss_world *w) {
    w->step++;
    for (int i = 0; i < w->scene.n; i++) { /* in the order of `at`, whatever the order of the scene */
        struct mo_inss_party *p = w->scene.party;
        while (p->at != i)
            p++;
        p->rate = next_rate(w, p);
    }
    look(w);
}

/* Time of a party's batch on its GPU, transfers included, beside the others there. */
static double batch_ms(const struct mo_inss_world *w, const struct mo_inss_party *p) {
    struct mo_inss_use others[MO_INSS_SLOTS];
    int n = 0;
    for (int i = 0; i < w->scene.n; i++) {
        const struct mo_inss_party *q = &w->scene.party[i];
        const struct mo_inss_model *its = &w->latency[w->of[q->at]];
        if (q != p && q->gpu == p->gpu)
            others[n++] = mo_inss_use_of(its, q->batch, mo_inss_alone_ms(its, q->batch, q->share));
    }
    return mo_inss_batch_ms(&w->latency[w->of[p->at]], p->batch, p->share, others, n);
}

void mo_inss_world_apply(struct mo_inss_world *w, struct mo_inss_outcome *out) {
    *out = (struct mo_inss_outcome){0};
    for (int i = 0; i < w->scene.n; i++) {
        struct mo_inss_party *p = &w->scene.party[i];
        const double comes = p->rate + p->queued;
        double served = 0, late = 1;
        if (p->gpu >= 0 && p->share > 0) {
            const double ms = batch_ms(w, p);
            served = fmin(comes, 1e3 * p->batch / ms);
            late = mo_within(0, 1, mo_inss_late(p->batch, comes, ms, (double)p->target_ns * 1e-6));
        }
        out->reward[i] = served / w->model[w->of[p->at]].rms - mo_inss_omega * late;
        out->came += p->rate;
        out->served += fmin(served, p->rate);
        out->late += p->rate * late;
    }
    for (int i = 0; i < w->scene.n; i++) { /* no more waits than comes in a step: older ones are dropped */
        struct mo_inss_party *p = &w->scene.party[i];
        const double comes = p->rate + p->queued;
        const double most = p->gpu >= 0 && p->share > 0 ? 1e3 * p->batch / batch_ms(w, p) : 0;
        p->queued = mo_within(0, p->rate, comes - most);
    }
}
