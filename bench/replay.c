/* SPDX-License-Identifier: Apache-2.0
 * replay.c - plays a trace's arrivals on the simulated engine and scores them as the real ones; see replay.h.
 *
 * Queries that arrived less than the longest target before the last one are not scored: the recording ended
 * before they could. */
#include "bench/replay.h"

#include <stdio.h>
#include <string.h>
#include "bench/report_page.h"
#include "bench/simulate.h"

static const double block_us = 3;

struct replay {
    const struct mo_env *env;
    struct mo_trace trace, costs;    /* costs: what blocks take, of another recording; may be empty */
    const struct mo_trace *measured; /* of the two; NULL: as the profiles say */
    struct mo_sim_spread *spread;
    struct mo_bench_schedule schedule;
    struct mo_bench_record *records;
    int64_t qos_ns[MO_BENCH_MAX_TENANTS];
};

static int make_schedule(struct replay *r, moire_error *err) {
    const struct mo_trace *t = &r->trace;
    int64_t first = t->queries[0].arrival, last = t->queries[t->n_queries - 1].arrival, longest = 0;
    size_t room = (size_t)t->n_queries + 1;
    r->schedule.items = mo_alloc(r->env, room * sizeof *r->schedule.items);
    r->records = mo_alloc(r->env, room * sizeof *r->records);
    if (!r->schedule.items || !r->records) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the replay");
    for (int i = 0; i < t->n_tenants; i++) {
        const struct mo_trace_tenant *tenant = &t->tenants[i];
        r->qos_ns[i] = tenant->qos_ns > 0 ? tenant->qos_ns : last - first + 1;
        if (tenant->qos_ns > longest) longest = tenant->qos_ns;
    }
    for (int i = 0; i < t->n_queries; i++)
        r->schedule.items[i] = (struct mo_bench_arrival){t->queries[i].arrival - first, t->queries[i].tenant};
    r->schedule.n = t->n_queries;
    r->schedule.window_ns = last - first > 2 * longest ? last - first - longest : last - first + 1;
    r->schedule.total_ns = last - first + longest;
    return MOIRE_OK;
}

static void real_records(struct replay *r) {
    const struct mo_trace *t = &r->trace;
    int64_t first = t->queries[0].arrival;
    for (int i = 0; i < t->n_queries; i++) {
        const struct mo_trace_query *q = &t->queries[i];
        r->records[i] = (struct mo_bench_record){.issue_ns = q->arrival - first,
                                                 .start_ns = q->start ? q->start - first : -1,
                                                 .end_ns = q->end && !q->code ? q->end - first : -1,
                                                 .code = q->code};
    }
}

static json_t *score_json(struct replay *r, const char *policy, int cores, const char *kind,
                          moire_error *err) {
    struct mo_bench_score s;
    json_t *tenants = json_array();
    if (mo_bench_score(r->env, &r->schedule, r->records, r->qos_ns, r->trace.n_tenants, INT64_MAX, &s, err)) {
        json_decref(tenants);
        return NULL;
    }
    for (int i = 0; i < r->trace.n_tenants; i++) {
        const struct mo_bench_tenant_score *t = &s.tenants[i];
        if (!r->trace.tenants[i].name[0]) continue;
        json_array_append_new(tenants,
                              json_pack("{s:s, s:i, s:f, s:f, s:f, s:f}", "name", r->trace.tenants[i].name,
                                        "n", t->n, "within_qos", t->within, "p50_ms", t->p50_ms, "p95_ms",
                                        t->p95_ms, "p99_ms", t->p99_ms));
    }
    json_t *row = json_pack("{s:s, s:s, s:i, s:f, s:f, s:o}", "kind", kind, "policy", policy, "cores", cores,
                            "overall", s.overall, "worst_tenant", s.worst, "tenants", tenants);
    mo_bench_score_free(r->env, &s);
    if (!row) mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return row;
}

/* The simulation that the trace describes, on so many cores. */
static int describe(struct replay *r, const struct mo_bench_replay_options *o, int cores,
                    struct mo_bench_simulation *m, moire_error *err) {
    int code = MOIRE_OK;
    memset(m, 0, sizeof *m);
    m->env = r->env;
    if (o->machine) code = mo_bench_machine_load(r->env, o->machine, &m->machine, err);
    if (!o->machine) m->machine.sim.block_ns = (int64_t)(block_us * 1e3);
    m->machine.sim.n_cores = m->mix.cores = cores;
    if (r->measured) {
        double first = r->measured->first_wait_ns - r->measured->wait_ns;
        m->spread = r->spread;
        m->machine.sim.block_ns = (int64_t)r->measured->wait_ns;
        m->machine.sim.query_ns = first > 0 ? (int64_t)first : 0;
    }
    for (int i = 0; !code && i < r->trace.n_tenants; i++) {
        const struct mo_trace_tenant *t = &r->trace.tenants[i];
        m->mix.scenario.tenants[i] =
            (struct mo_bench_tenant){.name = t->name,
                                     .model = t->name,
                                     .cls = t->best_effort ? MOIRE_BEST_EFFORT : MOIRE_LATENCY_CRITICAL,
                                     .priority = t->priority,
                                     .shed_late = t->shed_late};
        m->mix.qos_ns[i] = t->qos_ns;
        code = t->name[0] ? mo_trace_profile(r->env, t, cores, &m->profile[i], err)
                          : mo_fail(err, MOIRE_EFORMAT, "%s: tenant %d is missing", o->trace, i);
    }
    m->mix.scenario.n_tenants = r->trace.n_tenants;
    if (code) mo_bench_simulation_close(m);
    return code;
}

static int play_one(struct replay *r, const struct mo_bench_replay_options *o, const char *name, int cores,
                    json_t *results, moire_error *err) {
    const struct mo_policy *policy = mo_policy_find(name);
    struct mo_bench_simulation m;
    int64_t cut;
    if (!policy) return mo_fail(err, MOIRE_EINVAL, "no policy '%s'", name);
    int code = describe(r, o, cores, &m, err);
    if (code) return code;
    code = mo_bench_simulate_play(&m, policy, 1, &r->schedule, -1, r->records, &cut, NULL, err);
    mo_bench_simulation_close(&m);
    json_t *row = code ? NULL : score_json(r, name, cores, "predicted", err);
    if (!code && (!row || json_array_append_new(results, row))) code = MOIRE_ENOMEM;
    return code;
}

/* Where block times come from. */
static int choose_costs(struct replay *r, const struct mo_bench_replay_options *o, moire_error *err) {
    int code = MOIRE_OK;
    if (!o->measured && !o->costs) return MOIRE_OK;
    if (o->costs) code = mo_trace_read(r->env, o->costs, &r->costs, err);
    if (code) return code;
    r->measured = o->costs ? &r->costs : &r->trace;
    for (int i = 0; o->costs && i < r->trace.n_tenants; i++)
        if (strcmp(r->trace.tenants[i].name, r->costs.tenants[i].name) != 0)
            return mo_fail(err, MOIRE_EINVAL, "%s: tenant %d is '%s', that of %s is '%s'", o->costs, i,
                           r->costs.tenants[i].name, o->trace, r->trace.tenants[i].name);
    return mo_trace_spread(r->measured, &r->spread, err);
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

int mo_bench_replay(const struct mo_env *env, const struct mo_bench_replay_options *o, json_t **out,
                    moire_error *err) {
    struct replay r = {.env = env};
    int code = mo_trace_read(env, o->trace, &r.trace, err);
    if (code) return code;
    json_t *results = json_array(), *real = NULL;
    const char *const recorded[] = {r.trace.policy};
    const char *const *policies = o->n_policies ? o->policies : recorded;
    code = choose_costs(&r, o, err);
    if (!code) code = make_schedule(&r, err);
    if (!code) {
        real_records(&r);
        real = score_json(&r, r.trace.policy, r.trace.cores, "recorded", err);
        if (!real || json_array_append_new(results, real)) code = MOIRE_ENOMEM;
    }
    for (int i = 0; !code && i < (o->n_policies ? o->n_policies : 1); i++)
        code = play_one(&r, o, policies[i], o->cores ? o->cores : r.trace.cores, results, err);
    if (!code)
        *out = json_pack("{s:s, s:s, s:i, s:s, s:f, s:i, s:f, s:o, s:I, s:I, s:O}", "kind", "replay", "trace",
                         o->trace, "cores", r.trace.cores, "policy", r.trace.policy, "block_ratio",
                         r.trace.predicted_ns > 0 ? r.trace.block_ns / r.trace.predicted_ns : 0.0, "stalls",
                         r.trace.n_stalls, "stall_ms", r.trace.stall_ns * 1e-6, "pressure",
                         pressure_json(&r.trace), "layers", (json_int_t)r.trace.layers, "adapted",
                         (json_int_t)r.trace.adapted, "results", results);
    if (!code && !*out) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    json_decref(results);
    mo_free(env, r.schedule.items);
    mo_free(env, r.records);
    mo_trace_free(&r.trace);
    mo_trace_free(&r.costs);
    return code;
}

static void print_pressure(const json_t *document) {
    const json_t *p = json_object_get(document, "pressure"), *band;
    double layers = mo_doc_number(document, "layers");
    size_t i;
    printf("pressure from %s: %.2f in the mean, %.2f at most; %.1f %% of layers in another version than "
           "their first\n",
           mo_doc_text(p, "from"), mo_doc_number(p, "mean"), mo_doc_number(p, "most"),
           layers > 0 ? 100 * mo_doc_number(document, "adapted") / layers : 0.0);
    json_array_foreach(json_object_get(p, "bands"), i, band)
        printf("  up to %.2f: %8.0f blocks, %.3f x their profile\n", mo_doc_number(band, "up_to"),
               mo_doc_number(band, "blocks"), mo_doc_number(band, "ratio"));
}

void mo_bench_replay_print(const json_t *document) {
    const json_t *results = json_object_get(document, "results"), *real = json_array_get(results, 0);
    size_t i, k;
    json_t *row, *t;
    printf("recorded on %.0f cores with policy %s; its blocks took %.3f x their profile",
           mo_doc_number(document, "cores"), mo_doc_text(document, "policy"),
           mo_doc_number(document, "block_ratio"));
    if (mo_doc_number(document, "stalls") > 0)
        printf("; %.0f of them stalled for %.0f ms in all: the machine was not theirs alone",
               mo_doc_number(document, "stalls"), mo_doc_number(document, "stall_ms"));
    printf("\n");
    print_pressure(document);
    json_array_foreach(results, i, row) {
        printf("\n%s: policy %s, %.0f cores: %.2f %% of all queries in time\n", mo_doc_text(row, "kind"),
               mo_doc_text(row, "policy"), mo_doc_number(row, "cores"), 100 * mo_doc_number(row, "overall"));
        printf("  %-26s %7s %9s %9s %9s %s\n", "tenant", "n", "within", "p50 ms", "p95 ms",
               i ? " against recorded: within, p50, p95" : "");
        json_array_foreach(json_object_get(row, "tenants"), k, t) {
            const json_t *was = json_array_get(json_object_get(real, "tenants"), k);
            double p50 = mo_doc_number(was, "p50_ms"), p95 = mo_doc_number(was, "p95_ms");
            printf("  %-26.26s %7.0f %7.2f %% %9.2f %9.2f", mo_doc_text(t, "name"), mo_doc_number(t, "n"),
                   100 * mo_doc_number(t, "within_qos"), mo_doc_number(t, "p50_ms"),
                   mo_doc_number(t, "p95_ms"));
            if (i && p50 > 0 && p95 > 0)
                printf("  %+8.2f points, %+6.1f %%, %+6.1f %%",
                       100 * (mo_doc_number(t, "within_qos") - mo_doc_number(was, "within_qos")),
                       100 * (mo_doc_number(t, "p50_ms") / p50 - 1),
                       100 * (mo_doc_number(t, "p95_ms") / p95 - 1));
            printf("\n");
        }
    }
}
