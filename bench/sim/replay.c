/* SPDX-License-Identifier: Apache-2.0
 * replay.c - plays a trace's arrivals on the simulated engine and scores them as the real ones; see replay.h.
 *
 * Queries that arrived less than the longest target before the last one are not scored: the recording ended
 * before they could. */
#include "bench/sim/replay.h"

#include <stdio.h>
#include <string.h>
#include "bench/sim/replay_gpus.h"
#include "bench/sim/replay_score.h"
#include "bench/report/report_page.h"
#include "bench/sim/simulate.h"

static const double block_us = 3;

struct replay {
    const struct mo_env *env;
    struct mo_trace trace, costs;    /* costs: what blocks take, of another recording; may be empty */
    const struct mo_trace *measured; /* of the two; NULL: as the profiles say */
    struct mo_sim_spread *spread;
    struct mo_sim_pace pace;
    struct mo_bench_schedule schedule;
    struct mo_bench_record *records;
    int64_t qos_ns[MO_BENCH_MAX_TENANTS];
    int64_t *late_ns;
    bool shifted; /* some of them are not 0 */
    bool *touched;
    struct mo_replay_run run; /* for scores: of the above */
};

/* What came before it was due was there then in any case. */
static int64_t came_late(const struct mo_trace_query *q, const struct mo_bench_replay_options *o) {
    if (q->comes < q->arrival) return q->comes - q->arrival;
    return o->pieces & MO_REPLAY_LATE ? q->accepted - q->arrival : 0;
}

static int make_schedule(struct replay *r, const struct mo_bench_replay_options *o, moire_error *err) {
    const struct mo_trace *t = &r->trace;
    int64_t first = t->queries[0].comes, last = first, longest = 0;
    size_t room = (size_t)t->n_queries + 1;
    r->schedule.items = mo_alloc(r->env, room * sizeof *r->schedule.items);
    r->records = mo_alloc(r->env, room * sizeof *r->records);
    r->touched = mo_alloc(r->env, room * sizeof *r->touched);
    r->late_ns = mo_alloc(r->env, room * sizeof *r->late_ns);
    if (!r->schedule.items || !r->records || !r->touched || !r->late_ns)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the replay");
    for (int i = 0; i < t->n_queries; i++)
        if (t->queries[i].arrival > last) last = t->queries[i].arrival;
    for (int i = 0; i < t->n_tenants; i++) {
        const struct mo_trace_tenant *tenant = &t->tenants[i];
        r->qos_ns[i] = tenant->qos_ns > 0 ? tenant->qos_ns : last - first + 1;
        if (tenant->qos_ns > longest) longest = tenant->qos_ns;
    }
    for (int i = 0; i < t->n_queries; i++)
        r->shifted |= (r->late_ns[i] = came_late(&t->queries[i], o)) != 0;
    for (int i = 0; i < t->n_queries; i++)
        r->schedule.items[i] = (struct mo_bench_arrival){t->queries[i].arrival - first, t->queries[i].tenant};
    r->schedule.n = t->n_queries;
    r->schedule.window_ns = last - first > 2 * longest ? last - first - longest : last - first + 1;
    r->schedule.total_ns = last - first + longest;
    r->run = (struct mo_replay_run){r->env, t, &r->schedule, r->qos_ns, r->touched, false};
    r->run.any_touched = mo_replay_touch(t, r->touched);
    return MOIRE_OK;
}

static void real_records(struct replay *r) {
    const struct mo_trace *t = &r->trace;
    int64_t first = t->queries[0].comes;
    for (int i = 0; i < t->n_queries; i++) {
        const struct mo_trace_query *q = &t->queries[i];
        r->records[i] = (struct mo_bench_record){.issue_ns = q->arrival - first,
                                                 .start_ns = q->start ? q->start - first : -1,
                                                 .end_ns = q->end && !q->code ? q->end - first : -1,
                                                 .code = q->code};
    }
}

/* bound: what no scheduler exceeds; NULL = not known. */
static int append(struct replay *r, const char *kind, const char *policy, int cores,
                  const struct mo_replay_shares *all, const struct mo_replay_shares *calm,
                  const struct mo_bound_shares *bound, json_t *results, moire_error *err) {
    json_t *row = json_pack("{s:s, s:s, s:i, s:o*}", "kind", kind, "policy", policy, "cores", cores, "calm",
                            mo_replay_shares_json(&r->run, calm));
    json_t *shares = mo_replay_shares_json(&r->run, all);
    bool bad = !row || !shares || json_object_update(row, shares) || json_array_append(results, row);
    if (!bad && bound) bad = json_object_set_new(row, "bound", json_real(bound->overall)) != 0;
    json_decref(row);
    json_decref(shares);
    return bad ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}

/* Costs beside the kernels, and how many cores: the machine's, or as recorded. */
static int open_machine(struct replay *r, const struct mo_bench_replay_options *o, int *cores,
                        struct mo_bench_simulation *m, moire_error *err) {
    bool gpus = r->trace.gpus.n_gpus > 0;
    int code = MOIRE_OK;
    if (gpus && o->cores)
        return mo_fail(err, MOIRE_EINVAL, "--cores: the recording is of GPUs; --machine has others");
    if (o->machine)
        code = gpus ? mo_bench_machine_open(r->env, o->machine, &m->machine, err)
                    : mo_bench_machine_load(r->env, o->machine, &m->machine, err);
    if (code) return code;
    if (o->machine_profiles) *cores = m->machine.sim.n_cores;
    if (!o->machine) m->machine.sim.block_ns = (int64_t)(block_us * 1e3);
    if (!o->machine) m->machine.sim.cache_bytes = (double)r->trace.cache;
    m->machine.sim.n_cores = m->mix.cores = *cores;
    return code;
}

static int describe_tenants(const struct replay *r, const struct mo_bench_replay_options *o,
                            struct mo_bench_simulation *m, moire_error *err) {
    m->mix.scenario.n_tenants = r->trace.n_tenants;
    for (int i = 0; i < r->trace.n_tenants; i++) {
        const struct mo_trace_tenant *t = &r->trace.tenants[i];
        if (!t->name[0]) return mo_fail(err, MOIRE_EFORMAT, "%s: tenant %d is missing", o->trace, i);
        m->mix.scenario.tenants[i] =
            (struct mo_bench_tenant){.name = t->name,
                                     .model = t->name,
                                     .cls = t->best_effort ? MOIRE_BEST_EFFORT : MOIRE_LATENCY_CRITICAL,
                                     .priority = t->priority,
                                     .shed_late = t->shed_late,
                                     .cores = t->cores,
                                     .share = t->weight,
                                     .qos.ms = (double)t->qos_ns * 1e-6};
        m->mix.qos_ns[i] = t->qos_ns;
    }
    return MOIRE_OK;
}

/* The simulation that the trace describes, on so many cores. */
static int describe(struct replay *r, const struct mo_bench_replay_options *o, int cores,
                    struct mo_bench_simulation *m, moire_error *err) {
    const struct mo_trace *t = &r->trace;
    memset(m, 0, sizeof *m);
    m->env = r->env;
    int code = open_machine(r, o, &cores, m, err);
    m->spread = r->spread;
    m->starts = (o->pieces & MO_REPLAY_STARTS) != 0;
    if (o->pieces & MO_REPLAY_SPEED) m->pace = &r->pace;
    if (r->shifted) m->late_ns = r->late_ns;
    if (!code) code = describe_tenants(r, o, m, err);
    if (!code && t->gpus.n_gpus) code = mo_replay_gpus(t, &r->schedule, o->machine_profiles, m, err);
    for (int i = 0; !code && !m->side && i < t->n_tenants; i++)
        code = o->machine_profiles
                   ? mo_bench_machine_profile(r->env, &m->machine, t->tenants[i].name, &m->profile[i], err)
                   : mo_trace_profile(r->env, &t->tenants[i], cores, &m->profile[i], err);
    if (!code && m->pace && m->machine.sim.n_cores != r->pace.n_cores)
        code = mo_fail(err, MOIRE_EINVAL, "how fast %d cores were says nothing about %d", r->pace.n_cores,
                       m->machine.sim.n_cores);
    if (code) mo_bench_simulation_close(m);
    return code;
}

/* GPUs need a policy for them, and cores one for cores. */
static int find_policy(const struct replay *r, const char *name, const struct mo_policy **out,
                       moire_error *err) {
    bool gpus = r->trace.gpus.n_gpus > 0;
    *out = mo_policy_find(name);
    if (!*out) return mo_fail(err, MOIRE_EINVAL, "no policy '%s'", name);
    if ((*out)->gpus == gpus) return MOIRE_OK;
    return mo_fail(err, MOIRE_EINVAL, "policy '%s' is one for %s, the recording is of %s", name,
                   gpus ? "cores" : "GPUs", gpus ? "GPUs" : "cores");
}

static int play_one(struct replay *r, const struct mo_bench_replay_options *o, const char *name, int cores,
                    json_t *results, moire_error *err) {
    const struct mo_policy *policy;
    struct mo_bench_simulation m;
    struct mo_replay_shares all = {0}, calm = {0};
    struct mo_bench_need need[MO_BENCH_MAX_TENANTS];
    struct mo_bench_limits limits;
    int64_t cut;
    int code = find_policy(r, name, &policy, err);
    if (!code) code = describe(r, o, cores, &m, err);
    if (code) return code;
    for (int k = 0; !code && k < (o->draws > 1 ? o->draws : 1); k++) {
        code = mo_bench_simulate_play(&m, policy, (uint64_t)k + 1, &r->schedule, NULL, r->records, &cut, NULL,
                                      err);
        if (!code) code = mo_replay_add(&r->run, r->records, &all, &calm, err);
    }
    bool limited = !m.side; /* the limit knows cores */
    cores = m.machine.sim.n_cores;
    if (limited) mo_bench_simulation_needs(&m, r->qos_ns, need);
    if (!code && limited)
        code = mo_bench_limit(r->env, &r->schedule, need, r->trace.n_tenants, r->qos_ns, cores, &limits, err);
    mo_bench_simulation_close(&m);
    return code
               ? code
               : append(r, "predicted", name, cores, &all, &calm, limited ? &limits.any : NULL, results, err);
}

/* Where block times come from.  With SPEED what a tenant's blocks take is what the machine's speed at the
 * time leaves to explain, in the recording of the costs as in this one. */
static int choose_costs(struct replay *r, const struct mo_bench_replay_options *o, moire_error *err) {
    int code = MOIRE_OK;
    struct mo_sim_pace pace;
    if (!o->pieces) return MOIRE_OK;
    if (o->costs) code = mo_trace_read(r->env, o->costs, &r->costs, err);
    if (code) return code;
    r->measured = o->costs ? &r->costs : &r->trace;
    for (int i = 0; o->costs && i < r->trace.n_tenants; i++)
        if (strcmp(r->trace.tenants[i].name, r->costs.tenants[i].name) != 0)
            return mo_fail(err, MOIRE_EINVAL, "%s: tenant %d is '%s', that of %s is '%s'", o->costs, i,
                           r->costs.tenants[i].name, o->trace, r->trace.tenants[i].name);
    code = mo_trace_spread(r->measured, NULL, &r->spread, err);
    if (code || !(o->pieces & MO_REPLAY_SPEED)) return code;
    code = mo_trace_pace(r->measured, r->spread, false, &pace, err);
    if (!code) code = mo_trace_spread(r->measured, &pace, &r->spread, err);
    return code ? code
                : mo_trace_pace(&r->trace, r->spread, (o->pieces & MO_REPLAY_STALLS) != 0, &r->pace, err);
}

/* What the recorded pressure was, and how long blocks took at it: in bands of a quarter, the first without
 * any. */
static json_t *pressure_json(const struct mo_trace *t) {
    enum { BANDS = 5 };
    static const double below[BANDS] = {0, 0.25, 0.5, 0.75, 1};
    double most = 0, sum[BANDS] = {0};
    int n[BANDS] = {0}, at = 0;
    for (int i = 0; i < t->n_pressures; i++)
        if (t->pressures[i].value > most) most = t->pressures[i].value;
    for (int i = 0, band = 0; i < t->n_blocks; i++, band = 0) {
        while (at < t->n_pressures && t->pressures[at].time <= t->blocks[i].end)
            at++;
        double p = at ? t->pressures[at - 1].value : 0;
        while (band < BANDS - 1 && p > below[band])
            band++;
        sum[band] += (double)t->blocks[i].observed / t->blocks[i].predicted;
        n[band]++;
    }
    json_t *bands = json_array();
    for (int i = 0; i < BANDS; i++)
        if (n[i])
            json_array_append_new(bands, json_pack("{s:f, s:i, s:f}", "up_to", below[i], "blocks", n[i],
                                                   "ratio", sum[i] / n[i]));
    const char *from = !t->n_pressures                            ? "none"
                       : t->pressures[t->n_pressures - 1].counted ? "counters"
                                                                  : "slowdown";
    int64_t end = t->n_blocks ? t->blocks[t->n_blocks - 1].end : t->since;
    return json_pack("{s:s, s:f, s:f, s:o}", "from", from, "mean", mo_trace_mean_pressure(t, t->since, end),
                     "most", most, "bands", bands);
}

static void close_replay(struct replay *r) {
    mo_free(r->env, r->schedule.items);
    mo_free(r->env, r->records);
    mo_free(r->env, r->touched);
    mo_free(r->env, r->late_ns);
    mo_trace_free(&r->trace);
    mo_trace_free(&r->costs);
}

int mo_bench_replay(const struct mo_env *env, const struct mo_bench_replay_options *o, json_t **out,
                    moire_error *err) {
    struct replay r = {.env = env};
    int code = mo_trace_read(env, o->trace, &r.trace, err);
    if (code) return code;
    json_t *results = json_array();
    struct mo_replay_shares all = {0}, calm = {0};
    const char *const recorded[] = {r.trace.policy};
    const char *const *policies = o->n_policies ? o->policies : recorded;
    code = choose_costs(&r, o, err);
    if (!code) code = make_schedule(&r, o, err);
    if (!code) {
        real_records(&r);
        code = mo_replay_add(&r.run, r.records, &all, &calm, err);
    }
    if (!code) code = append(&r, "recorded", r.trace.policy, r.trace.cores, &all, &calm, NULL, results, err);
    for (int i = 0; !code && i < (o->n_policies ? o->n_policies : 1); i++)
        code = play_one(&r, o, policies[i], o->cores ? o->cores : r.trace.cores, results, err);
    if (!code)
        *out = json_pack(
            "{s:s, s:s, s:i, s:i, s:s, s:f, s:i, s:f, s:f, s:o, s:I, s:I, s:O}", "kind", "replay", "trace",
            o->trace, "gpus", r.trace.gpus.n_gpus, "cores", r.trace.cores, "policy", r.trace.policy,
            "block_ratio", r.trace.predicted_ns > 0 ? r.trace.block_ns / r.trace.predicted_ns : 0.0, "stalls",
            r.trace.n_stalls, "stall_ms", r.trace.stall_ns * 1e-6, "late_us", r.trace.late_ns * 1e-3,
            "pressure", pressure_json(&r.trace), "layers", (json_int_t)r.trace.layers, "adapted",
            (json_int_t)r.trace.adapted, "results", results);
    if (!code && !*out) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    json_decref(results);
    close_replay(&r);
    return code;
}

/* --- as parts ------------------------------------------------------------------------------------------- */
struct mo_bench_replay {
    struct replay replay;
    struct mo_bench_simulation simulation;
    const struct mo_policy *policy;
    struct mo_bench_system system, recorded;
    char label[64];
};

static int play_other(void *self, const struct mo_bench_schedule *schedule,
                      const struct mo_bench_budget *budget, struct mo_bench_record *records, int64_t *cut_ns,
                      moire_error *err) {
    struct mo_bench_replay *o = self;
    return mo_bench_simulate_play(&o->simulation, o->policy, 1, schedule, budget, records, cut_ns, NULL, err);
}

static int play_recorded(void *self, const struct mo_bench_schedule *schedule,
                         const struct mo_bench_budget *budget, struct mo_bench_record *records,
                         int64_t *cut_ns, moire_error *err) {
    const struct replay *r = &((struct mo_bench_replay *)self)->replay;
    (void)schedule, (void)budget, (void)err;
    memcpy(records, r->records, (size_t)r->schedule.n * sizeof *records);
    *cut_ns = INT64_MAX;
    return MOIRE_OK;
}

/* The recording as a scenario: what its tenants ask for, at load 1. */
static int as_scenario(struct mo_bench_replay *o, const char *path, moire_error *err) {
    struct replay *r = &o->replay;
    struct mo_bench_mix *mix = &o->simulation.mix;
    mix->scenario.name = path;
    mix->scenario.about = "recorded arrivals";
    mix->scenario.rated = true;
    for (int i = 0; i < r->schedule.n; i++)
        mix->scenario.tenants[r->schedule.items[i].tenant].rate += 1e9 / (double)r->schedule.total_ns;
    for (int i = 0; i < mix->scenario.n_tenants; i++)
        mix->scenario.tenants[i].qos.ms = (double)r->qos_ns[i] * 1e-6;
    if (!o->simulation.side) return mo_bench_simulation_aim(&o->simulation, err);
    return mix->calibration ? MOIRE_OK : mo_bench_gpu_side_aim(o->simulation.side, mix, err);
}

static int open_replay(struct mo_bench_replay *r, const struct mo_bench_replay_options *o, moire_error *err) {
    struct replay *p = &r->replay;
    int code = mo_trace_read(p->env, o->trace, &p->trace, err);
    const char *name = o->n_policies ? o->policies[0] : p->trace.policy;
    if (code) return code;
    code = find_policy(p, name, &r->policy, err);
    if (code) return code;
    r->system =
        (struct mo_bench_system){r->policy->name, "moire", r->policy->name, r->policy->description, NULL};
    snprintf(r->label, sizeof r->label, "recorded/%.47s", p->trace.policy);
    r->recorded = (struct mo_bench_system){r->label, "moire", p->trace.policy, "what happened", NULL};
    code = choose_costs(p, o, err);
    if (!code) code = make_schedule(p, o, err);
    if (!code) real_records(p);
    if (!code) code = describe(p, o, o->cores ? o->cores : p->trace.cores, &r->simulation, err);
    return code ? code : as_scenario(r, o->trace, err);
}

int mo_bench_replay_open(const struct mo_env *env, const struct mo_bench_replay_options *o,
                         struct mo_bench_replay **out, moire_error *err) {
    struct mo_bench_replay *r = mo_alloc(env, sizeof *r);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the replay");
    r->replay.env = env;
    int code = open_replay(r, o, err);
    if (code)
        mo_bench_replay_close(r);
    else
        *out = r;
    return code;
}

void mo_bench_replay_close(struct mo_bench_replay *r) {
    if (!r) return;
    const struct mo_env *env = r->replay.env;
    mo_bench_simulation_close(&r->simulation);
    close_replay(&r->replay);
    mo_free(env, r);
}

const struct mo_bench_simulation *mo_bench_replay_simulation(const struct mo_bench_replay *r) {
    return &r->simulation;
}

const struct mo_bench_schedule *mo_bench_replay_schedule(const struct mo_bench_replay *r) {
    return &r->replay.schedule;
}

const char *mo_bench_replay_policy(const struct mo_bench_replay *r) {
    return r->replay.trace.policy;
}

struct mo_bench_player mo_bench_replay_recorded(struct mo_bench_replay *r) {
    return (struct mo_bench_player){.system = &r->recorded, .play = play_recorded, .self = r};
}

struct mo_bench_player mo_bench_replay_player(struct mo_bench_replay *r) {
    return (struct mo_bench_player){.system = &r->system, .play = play_other, .self = r};
}
