/* SPDX-License-Identifier: Apache-2.0
 * inss_run.c - see inss_run.h.
 *
 * A policy has no place for the bench's notes but its options: the run hands in a struct that begins with
 * them. */
#include "bench/inss/inss_run.h"

#include <string.h>
#include "bench/data/device_kinds.h"
#include "runtime/sim/sim.h"

enum { START_NS = 1 }; /* 0 means "never" to the core */

/* Begins with what the policy takes for its options. */
struct noted {
    struct mo_gpulet_options own;
    void (*plan)(void *state, const struct mo_view *view);
    void (*dispatch)(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out);
    const struct mo_env *env;
    struct mo_inss_ran *out;
    double fragments; /* summed over `looks` */
    int looks;
};

struct run {
    const struct mo_inss_bed *bed;
    const struct mo_inss_run_options *options;
    struct mo_inss_ran *out;
    struct mo_gpus gpus;
    struct mo_inss_demand demand;
    struct mo_profile *profile[MO_PLAN_TENANTS]; /* by model */
    const struct mo_share_profile *share[MO_PLAN_TENANTS][MO_PLAN_KINDS];
    struct mo_sim *sim;
    int64_t from, to; /* arrivals that count, as the engine has time */
};

bool mo_inss_system_find(const char *name, struct mo_inss_system *out) {
    const struct mo_policy *p = mo_policy_find(name);
    const struct mo_planner *planner = mo_planner_find(name);
    memset(out, 0, sizeof *out);
    if (p && p->plan == mo_gpulet_plan) {
        out->policy = *p;
        out->options = *(const struct mo_gpulet_options *)p->options;
    } else if (planner) {
        out->policy = *mo_policy_find("gpulet");
        out->policy.name = planner->name;
        out->options = (struct mo_gpulet_options){.planner = planner->name};
    } else {
        return false;
    }
    out->name = out->policy.name;
    return true;
}

/* --- what is noted -------------------------------------------------------------------------------------- */
/* Of the GPUs that have lets, the share that is in none. */
static double fragments_of(const struct mo_view *view) {
    const struct mo_lets_plan *plan = view->lets;
    int taken[MO_PLAN_GPUS] = {0};
    double sum = 0, used = 0;
    for (int i = 0; i < plan->n_lets; i++)
        taken[plan->lets[i].gpu] += plan->lets[i].units;
    for (int g = 0; g < view->gpus->n_gpus; g++) {
        if (!taken[g]) continue;
        sum += 1 - (double)taken[g] / mo_gpus_kind(view->gpus, g)->units;
        used++;
    }
    return used > 0 ? sum / used : 0;
}

/* A call that finds the plan in force good enough is no decision: it leaves `fresh` alone. */
static void plan(void *state, const struct mo_view *view) {
    struct noted *n = (struct noted *)(uintptr_t)view->options;
    struct mo_gpulet_state *s = state;
    const struct mo_sys *sys = n->env->sys;
    const int tenants = s->fresh.n_tenants;
    s->fresh.n_tenants = -1;
    const int64_t begin = sys->thread_time(sys->self);
    n->plan(state, view);
    const double ms = (double)(sys->thread_time(sys->self) - begin) * 1e-6;
    if (view->lets) {
        n->fragments += fragments_of(view);
        n->looks++;
    }
    if (s->fresh.n_tenants < 0)
        s->fresh.n_tenants = tenants;
    else if (n->out->n_decisions < MO_INSS_DECISIONS)
        n->out->decision_ms[n->out->n_decisions++] = ms;
}

/* The server makes its first plan within its first dispatch, where it could not be told from that. */
static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    const struct noted *n = view->options;
    if (!((struct mo_gpulet_state *)state)->begun) plan(state, view);
    n->dispatch(state, view, event, out);
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct run *r = ctx;
    const int64_t target = r->demand.tenant[tenant].model->target_ns;
    if (a->arrival < r->from || a->arrival >= r->to || a->code != MOIRE_OK) return;
    if (a->end - a->arrival <= target)
        r->out->in_time++;
    else
        r->out->late++;
}

/* --- a run ---------------------------------------------------------------------------------------------- */
static int describe(struct run *r, moire_error *err) {
    const struct mo_bench_machine *m = r->bed->machine;
    mo_bench_kinds(m, r->gpus.kinds, &r->gpus.n_kinds, r->gpus.kind, &r->gpus.n_gpus);
    for (int k = 0; k < m->n_gpus; k++)
        r->gpus.prepare_ns[k] = m->gpus[k].reorganise_ns;
    r->gpus.ahead_ns = m->ahead_ns;
    r->gpus.learned = r->bed->learned;
    return mo_gpus_finish(&r->gpus, err);
}

/* Batches are not cut, so a model is one layer. */
static int make_profiles(struct run *r, moire_error *err) {
    const int units = r->gpus.kinds[0].units;
    for (int i = 0; i < r->bed->n_models; i++) {
        struct mo_profile *p = r->profile[i] = mo_profile_create(r->bed->env, 1, units);
        if (!p) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
        for (int u = 1; u <= units; u++) {
            const int64_t ns = mo_share_latency(r->bed->model[i].profile, 1, mo_share_of_units(u, units));
            mo_profile_record(p, u, &ns);
        }
        mo_profile_finish(p);
    }
    return MOIRE_OK;
}

static int open_tenants(struct run *r, moire_error *err) {
    const struct mo_env *env = r->bed->env;
    int code = MOIRE_OK, index;
    for (int i = 0; !code && i < r->demand.n; i++) {
        const struct mo_inss_demand_tenant *t = &r->demand.tenant[i];
        r->share[i][0] = t->model->profile;
        const struct mo_sched_tenant_config c = {.qos_ns = t->model->target_ns,
                                                 .shed_late = true,
                                                 .queue = (int)env->limits.queue,
                                                 .instances = (int)env->limits.queue,
                                                 .profile = r->profile[t->model - r->bed->model],
                                                 .share = r->share[i],
                                                 .declared = t->rate * t->factor[0]};
        code = mo_sim_open(r->sim, &c, &index, err);
    }
    return code;
}

static void drive(struct run *r) {
    int64_t at = 0;
    for (int t; (t = mo_inss_demand_next(&r->demand, &at)) >= 0;) {
        mo_sim_advance(r->sim, at + START_NS);
        r->out->came += at + START_NS >= r->from && at + START_NS < r->to;
        (void)mo_sim_submit(r->sim, t, NULL, NULL, NULL); /* refused: it came, and is never in time */
    }
    mo_sim_drain(r->sim);
}

static int play(struct run *r, const struct mo_policy *policy, moire_error *err) {
    const struct mo_env *env = r->bed->env;
    struct mo_sim_config config = {.env = env,
                                   .policy = policy,
                                   .machine = r->bed->machine->sim,
                                   .max_queries = (int)env->limits.queries,
                                   .max_tenants = r->demand.n,
                                   .seed = r->options->seed,
                                   .answer = answer,
                                   .ctx = r};
    config.machine.gpus = &r->gpus;
    config.machine.n_cores = r->gpus.n_units;
    config.machine.slowdown = r->options->true_time;
    int code = mo_sim_create(&config, &r->sim, err);
    if (code) return code;
    code = open_tenants(r, err);
    if (!code) drive(r);
    if (!code && mo_sim_broken(r->sim))
        code = mo_fail(err, MOIRE_EFAILED, "policy '%s': blocks that no machine could run", policy->name);
    r->out->plans = (int)mo_sched_stats(mo_sim_sched(r->sim))->reorganised;
    mo_sim_destroy(r->sim);
    return code;
}

int mo_inss_run(const struct mo_inss_bed *bed, const struct mo_inss_system *system,
                const struct mo_inss_run_options *o, struct mo_inss_ran *out, moire_error *err) {
    struct noted noted = {.own = system->options,
                          .plan = system->policy.plan,
                          .dispatch = system->policy.dispatch,
                          .env = bed->env,
                          .out = out};
    struct mo_policy policy = system->policy;
    struct run *r = mo_alloc(bed->env, sizeof *r);
    memset(out, 0, sizeof *out);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a run");
    policy.options = &noted;
    policy.plan = plan;
    policy.dispatch = dispatch;
    r->bed = bed;
    r->options = o;
    r->out = out;
    r->from = START_NS + (int64_t)(o->warmup_s * 1e9);
    r->to = r->from + (int64_t)(o->seconds * 1e9);
    mo_inss_demand_begin(&r->demand, &(struct mo_inss_demand_options){.model = bed->model,
                                                                      .n_models = bed->n_models,
                                                                      .n_tenants = o->n_tenants,
                                                                      .gpus_a_tenant = o->load,
                                                                      .process = o->process,
                                                                      .total_ns = r->to - START_NS,
                                                                      .seed = o->seed,
                                                                      .needs = o->needs});
    int code = describe(r, err);
    if (!code) code = make_profiles(r, err);
    if (!code) code = play(r, &policy, err);
    out->dropped = out->came - out->in_time - out->late;
    out->fragments = noted.looks ? noted.fragments / noted.looks : 0;
    for (int i = 0; i < bed->n_models; i++)
        mo_profile_destroy(r->profile[i]);
    mo_free(bed->env, r);
    return code;
}
