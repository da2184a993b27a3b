/* SPDX-License-Identifier: Apache-2.0
 * simulate_play.c - one schedule on the simulated engine; see simulate.h. */
#include "bench/load/closed_loop.h"
#include "bench/load/flow.h"
#include "bench/sim/simulate.h"

#include <string.h>

enum { LOOK_EVERY = 32, START_NS = 1, INSTANCES_SPARE = 8 };

/* One run.  Times of the engine are those of the schedule plus START_NS, for 0 means "never" to the core. */
struct run {
    const struct mo_bench_simulation *simulation;
    const struct mo_bench_schedule *schedule;
    struct mo_bench_record *records;
    struct mo_sim *sim;
    struct mo_bench_flow_app apps[MO_BENCH_MAX_TENANTS];
    struct mo_bench_flow *flow; /* of applications; NULL = there are none */
    struct mo_bench_loops loops;
    const struct mo_bench_budget *budget;     /* NULL = it is played to its end */
    int misses, missed[MO_BENCH_MAX_TENANTS]; /* of all, and of each tenant's queries */
    int64_t judged_ns;                        /* what was due before and open is among them */
    int judged[MO_BENCH_MAX_TENANTS];         /* and the tenant's queries before this one */
};

static bool open_still(const struct mo_bench_record *r) {
    return r->end_ns < 0 && r->code == MOIRE_OK;
}

static int64_t due(const struct run *run, int index) {
    const struct mo_bench_arrival *a = &run->schedule->items[index];
    return a->at_ns + run->simulation->mix.qos_ns[a->tenant];
}

static void miss(struct run *run, int index) {
    const struct mo_bench_arrival *a = &run->schedule->items[index];
    if (!mo_bench_counts(run->schedule, a->at_ns)) return;
    run->misses++;
    run->missed[a->tenant]++;
}

static void note(struct run *run, int index, int code, int64_t start_ns, int64_t end_ns) {
    struct mo_bench_record *r = &run->records[index];
    r->code = code;
    r->start_ns = start_ns;
    if (code == MOIRE_OK) r->end_ns = end_ns;
    if (code == MOIRE_OK) mo_bench_loops_answered(&run->loops, index);
    if (index >= run->schedule->n) return;
    if (due(run, index) >= run->judged_ns && (code != MOIRE_OK || end_ns > due(run, index))) miss(run, index);
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct run *run = ctx;
    const struct mo_bench_gpu_side *side = run->simulation->side;
    if (side && side->tenant[tenant].stage >= 0) {
        mo_bench_flow_answer(run->flow, a->user, a->code, a->start, a->end);
        return;
    }
    int index = (int)((struct mo_bench_record *)a->user - run->records);
    note(run, index, a->code, a->start ? a->start - START_NS : -1, a->end - START_NS);
}

static void application_done(void *ctx, int index, int code, int64_t start_ns, int64_t end_ns) {
    note(ctx, index, code, start_ns ? start_ns - START_NS : -1, end_ns - START_NS);
}

/* Counts what is overdue without an answer; a tenant's queries are due in the order in which they arrive. */
static void judge(struct run *run, int issued, int64_t now_ns) {
    for (int t = 0; t < run->simulation->mix.scenario.n_tenants; t++) {
        int i = run->judged[t];
        for (; i < issued; i++) {
            if (run->schedule->items[i].tenant != t) continue;
            if (due(run, i) >= now_ns) break;
            if (open_still(&run->records[i])) miss(run, i);
        }
        run->judged[t] = i;
    }
    run->judged_ns = now_ns;
}

/* The goal is out of reach, whatever comes. */
static bool is_lost(struct run *run, int issued, int64_t now_ns) {
    const struct mo_bench_budget *b = run->budget;
    if (!b || b->all < 0) return false;
    judge(run, issued, now_ns);
    return mo_bench_spent(b, run->misses, run->missed);
}

static int submit_stage(void *ctx, int tenant, int64_t deadline, struct mo_bench_flow_part *part) {
    return mo_sim_submit_by(((struct run *)ctx)->sim, tenant, deadline, part, NULL, NULL);
}

static int64_t sim_clock(void *ctx) {
    return mo_sim_now(((struct run *)ctx)->sim);
}

/* What closed loops ask by now. */
static void ask(struct run *run, struct mo_sim *sim) {
    for (int i; (i = mo_bench_loops_next(&run->loops)) >= 0;) {
        const int64_t now = mo_sim_now(sim);
        run->records[i].issue_ns = now - START_NS;
        int code =
            mo_sim_submit_late(sim, mo_bench_tenant_of(run->schedule, i), now, &run->records[i], NULL, NULL);
        if (code) note(run, i, code, -1, now - START_NS);
    }
}

/* Lets the clock come to `to`; stages of applications begin when they become ready, and closed loops go on,
 * after the simulator's answers, which must not call it back. */
static void advance(struct run *run, struct mo_sim *sim, int64_t to) {
    const bool stops = run->flow || run->schedule->n_closed;
    for (int64_t next; stops && (next = mo_sim_next(sim)) <= to && next != MO_NEVER;) {
        mo_sim_advance(sim, next);
        if (run->flow) mo_bench_flow_go_on(run->flow);
        ask(run, sim);
    }
    mo_sim_advance(sim, to);
}

static void issue(struct run *run, struct mo_sim *sim, int i, int64_t late) {
    const struct mo_bench_arrival *a = &run->schedule->items[i];
    const struct mo_bench_gpu_side *side = run->simulation->side;
    run->records[i].issue_ns = a->at_ns + late;
    if (run->simulation->mix.scenario.tenants[a->tenant].app) {
        mo_bench_flow_begin(run->flow, a->tenant, i, a->at_ns + START_NS);
        return;
    }
    int tenant = side ? side->first[a->tenant] : a->tenant;
    const bool *put_off = run->simulation->put_off;
    int code = put_off && put_off[i]
                   ? mo_sim_submit_by(sim, tenant, MO_NEVER, &run->records[i], NULL, NULL)
                   : mo_sim_submit_late(sim, tenant, a->at_ns + START_NS, &run->records[i], NULL, NULL);
    if (code) note(run, i, code, -1, a->at_ns);
}

/* The drawn schedule against the engine; the answer to what is still open at its end is "unfinished". */
static void drive(struct run *run, struct mo_sim *sim, int64_t *cut_ns) {
    const struct mo_bench_schedule *s = run->schedule;
    mo_sim_advance(sim, START_NS);
    ask(run, sim);
    for (int i = 0; i < s->n; i++) {
        int64_t at = s->items[i].at_ns;
        int64_t late = run->simulation->late_ns ? run->simulation->late_ns[i] : 0;
        advance(run, sim, at + late + START_NS);
        if (i % LOOK_EVERY == 0 && is_lost(run, i, at)) {
            *cut_ns = at;
            return;
        }
        issue(run, sim, i, late);
    }
    advance(run, sim, s->total_ns + START_NS);
}

/* Of one model. */
static double first_rate(const struct mo_bench_tenant *t, const struct mo_bench_gpu_tenant *g, double rate) {
    if (g->declared > 0) return g->declared;
    rate = mo_bench_first_rate(t, rate);
    return t->app ? rate * t->app->dag.stage[g->stage].count : rate;
}

/* A batch holds an instance a query, so there are as many as may wait. */
static int open_gpu_tenants(const struct mo_bench_simulation *m, struct mo_sim *sim, double load,
                            moire_error *err) {
    double rates[MO_BENCH_MAX_TENANTS];
    mo_bench_rates(&m->mix, load, rates);
    for (int i = 0; i < m->side->n; i++) {
        const struct mo_bench_gpu_tenant *g = &m->side->tenant[i];
        const struct mo_bench_tenant *t = &m->mix.scenario.tenants[g->source];
        struct mo_sched_tenant_config c = {.qos_ns = g->qos_ns,
                                           .best_effort = t->cls == MOIRE_BEST_EFFORT,
                                           .shed_late = t->shed_late,
                                           .priority = t->priority,
                                           .queue = (int)m->env->limits.queue,
                                           .instances = (int)m->env->limits.queue,
                                           .profile = g->profile,
                                           .share = (const struct mo_share_profile *const *)g->share,
                                           .declared = first_rate(t, g, rates[g->source])};
        int index, code = mo_sim_open(sim, &c, &index, err);
        if (code) return code;
    }
    return MOIRE_OK;
}

static int open_tenants(const struct mo_bench_simulation *m, struct mo_sim *sim, double load,
                        moire_error *err) {
    if (m->side) return open_gpu_tenants(m, sim, load, err);
    for (int i = 0; i < m->mix.scenario.n_tenants; i++) {
        const struct mo_bench_tenant *t = &m->mix.scenario.tenants[i];
        int64_t arenas = m->machine.sim.n_cores + INSTANCES_SPARE, most = m->env->limits.arenas;
        struct mo_sched_tenant_config c = {.qos_ns = m->mix.qos_ns[i],
                                           .best_effort = t->cls == MOIRE_BEST_EFFORT,
                                           .shed_late = t->shed_late,
                                           .priority = t->priority,
                                           .cores = t->cores,
                                           .weight = t->share,
                                           .queue = (int)m->env->limits.queue,
                                           .instances = (int)(arenas < most ? arenas : most),
                                           .profile = m->profile[i]};
        int index, code = mo_sim_open(sim, &c, &index, err);
        if (code) return code;
    }
    return MOIRE_OK;
}

/* How many of the arrivals are applications'. */
static int applications(const struct run *run) {
    const struct mo_bench_scenario *s = &run->simulation->mix.scenario;
    int n = 0;
    for (int i = 0; i < run->schedule->n; i++)
        n += s->tenants[run->schedule->items[i].tenant].app != NULL;
    return n;
}

/* run->flow stays NULL where there are none. */
static int make_flow(struct run *run, moire_error *err) {
    const struct mo_bench_simulation *m = run->simulation;
    int n = applications(run);
    if (!n) return MOIRE_OK;
    for (int i = 0; i < m->mix.scenario.n_tenants; i++) {
        const struct mo_bench_application *app = m->mix.scenario.tenants[i].app;
        if (app)
            run->apps[i] = (struct mo_bench_flow_app){.dag = &app->dag,
                                                      .split = m->side->split[i],
                                                      .target_ns = m->mix.qos_ns[i],
                                                      .first = m->side->first[i]};
    }
    run->flow = mo_bench_flow_create(&(struct mo_bench_flow_config){.env = m->env,
                                                                    .apps = run->apps,
                                                                    .n = n,
                                                                    .now = sim_clock,
                                                                    .submit = submit_stage,
                                                                    .done = application_done,
                                                                    .ctx = run});
    return run->flow ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

static int64_t real_clock(void *ctx) {
    return mo_now(((const struct run *)ctx)->simulation->env);
}

/* The speed of a machine that stalls; drawn->done is freed by the caller, NULL when there is nothing. */
static int draw_stalls(const struct mo_bench_simulation *m, uint64_t seed,
                       const struct mo_bench_schedule *schedule, struct mo_sim_config *config,
                       struct mo_sim_pace *drawn, moire_error *err) {
    drawn->done = NULL;
    if (!mo_bench_stalls_any(&m->machine.stalls)) return MOIRE_OK;
    config->pace = drawn;
    return mo_bench_stalls_draw(m->env, &m->machine.stalls, m->machine.sim.n_cores, schedule->total_ns, seed,
                                drawn, err);
}

int mo_bench_simulate_play(const struct mo_bench_simulation *m, const struct mo_policy *policy, uint64_t seed,
                           const struct mo_bench_schedule *schedule, const struct mo_bench_budget *budget,
                           struct mo_bench_record *records, int64_t *cut_ns, struct mo_bench_played *out,
                           moire_error *err) {
    struct run run = {.simulation = m, .schedule = schedule, .records = records, .budget = budget};
    struct mo_sim_config config = {.env = m->env,
                                   .policy = policy,
                                   .machine = m->machine.sim,
                                   .max_queries = (int)m->env->limits.queries,
                                   .max_tenants = m->side ? m->side->n : m->mix.scenario.n_tenants,
                                   .objective = m->mix.scenario.objective,
                                   .seed = seed,
                                   .ring = m->ring,
                                   .spread = m->spread,
                                   .pace = m->pace,
                                   .starts = m->starts,
                                   .cost_clock = m->cost ? real_clock : NULL,
                                   .answer = answer,
                                   .ctx = &run};
    struct mo_sim_pace drawn;
    struct mo_sim *sim;
    int code = draw_stalls(m, seed, schedule, &config, &drawn, err);
    if (!code && (code = mo_sim_create(&config, &sim, err))) mo_free(m->env, drawn.done);
    if (code) return code;
    mo_bench_records_clear(records, mo_bench_slots(schedule));
    mo_bench_loops_begin(&run.loops, schedule);
    *cut_ns = INT64_MAX;
    code = open_tenants(m, sim, schedule->load, err);
    run.sim = sim;
    if (!code) code = make_flow(&run, err);
    if (!code) drive(&run, sim, cut_ns);
    if (!code) code = mo_bench_loops_check(&run.loops, err);
    if (!code && mo_sim_broken(sim))
        code = mo_fail(err, MOIRE_EFAILED, "policy '%s': %lld blocks that no machine could run", policy->name,
                       (long long)mo_sim_broken(sim));
    if (!code && out)
        *out = (struct mo_bench_played){.stats = *mo_sched_stats(mo_sim_sched(sim)),
                                        .joules = mo_sim_joules(sim),
                                        .seconds = (double)(mo_sim_now(sim) - START_NS) * 1e-9};
    mo_bench_flow_destroy(run.flow);
    mo_sim_destroy(sim);
    mo_free(m->env, drawn.done);
    return code;
}
