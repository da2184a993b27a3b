/* SPDX-License-Identifier: Apache-2.0
 * replay_score.c - shares in time and percentiles, means over several plays of one run; see replay_score.h.
 */
#include "bench/sim/replay_score.h"

#include <stdlib.h>
#include "runtime/base/numbers.h"

/* Latency over target of all queries together; targets of 0 have none. */
static int p95_target(const struct mo_replay_run *run, const struct mo_bench_score *s, double *out,
                      moire_error *err) {
    double *all = mo_alloc(run->env, ((size_t)s->n + 1) * sizeof *all);
    int n = 0;
    if (!all) return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d latencies", s->n);
    for (int i = 0; i < s->n_tenants; i++)
        for (int k = 0; run->qos_ns[i] > 0 && k < s->tenants[i].n_latency; k++)
            all[n++] = s->tenants[i].latency_ms[k] * 1e6 / (double)run->qos_ns[i];
    qsort(all, (size_t)n, sizeof *all, mo_rising);
    *out = mo_bench_percentile(all, n, 95);
    mo_free(run->env, all);
    return MOIRE_OK;
}

/* Takes one more value into a mean of `before` values. */
static void mean(double *of, double value, int before) {
    *of += (value - *of) / (before + 1);
}

static int add(const struct mo_replay_run *run, const struct mo_bench_schedule *schedule,
               const struct mo_bench_record *records, struct mo_replay_shares *to, moire_error *err) {
    struct mo_bench_score s;
    double p95 = 0;
    int code =
        mo_bench_score(run->env, schedule, records, run->qos_ns, run->trace->n_tenants, INT64_MAX, &s, err);
    if (code) return code;
    code = p95_target(run, &s, &p95, err);
    int before = to->scores++;
    to->n = s.n;
    mean(&to->overall, s.overall, before);
    mean(&to->worst, s.worst, before);
    mean(&to->p95_target, p95, before);
    for (int i = 0; i < s.n_tenants; i++) {
        const struct mo_bench_tenant_score *t = &s.tenants[i];
        struct mo_replay_tenant *m = &to->tenant[i];
        m->n = t->n;
        mean(&m->within, t->within, before);
        mean(&m->p50_ms, t->p50_ms, before);
        mean(&m->p95_ms, t->p95_ms, before);
        mean(&m->p99_ms, t->p99_ms, before);
        if (!before || t->p95_ms < m->low_ms) m->low_ms = t->p95_ms;
        if (!before || t->p95_ms > m->high_ms) m->high_ms = t->p95_ms;
    }
    mo_bench_score_free(run->env, &s);
    return code;
}

/* The untouched queries, scored as a schedule of their own. */
static int add_calm(const struct mo_replay_run *run, const struct mo_bench_record *records,
                    struct mo_replay_shares *to, moire_error *err) {
    struct mo_bench_schedule calm = *run->schedule;
    size_t room = (size_t)calm.n + 1;
    calm.items = mo_alloc(run->env, room * sizeof *calm.items);
    struct mo_bench_record *kept = mo_alloc(run->env, room * sizeof *kept);
    int code = calm.items && kept ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for a score");
    calm.n = 0;
    for (int i = 0; !code && i < run->schedule->n; i++)
        if (!run->touched[i]) {
            kept[calm.n] = records[i];
            calm.items[calm.n++] = run->schedule->items[i];
        }
    if (!code) code = add(run, &calm, kept, to, err);
    mo_free(run->env, calm.items);
    mo_free(run->env, kept);
    return code;
}

int mo_replay_add(const struct mo_replay_run *run, const struct mo_bench_record *records,
                  struct mo_replay_shares *all, struct mo_replay_shares *calm, moire_error *err) {
    int code = add(run, run->schedule, records, all, err);
    if (!code && !run->any_touched) *calm = *all;
    return code || !run->any_touched ? code : add_calm(run, records, calm, err);
}

json_t *mo_replay_shares_json(const struct mo_replay_run *run, const struct mo_replay_shares *s) {
    json_t *tenants = json_array();
    for (int i = 0; i < run->trace->n_tenants; i++) {
        const struct mo_replay_tenant *t = &s->tenant[i];
        const char *name = run->trace->tenants[i].name;
        if (!name[0]) continue;
        json_array_append_new(tenants, json_pack("{s:s, s:i, s:o, s:f, s:f, s:f, s:f, s:f}", "name", name,
                                                 "n", t->n, "within_qos", mo_json_known(t->n > 0, t->within),
                                                 "p50_ms", t->p50_ms, "p95_ms", t->p95_ms, "p95_low_ms",
                                                 t->low_ms, "p95_high_ms", t->high_ms, "p99_ms", t->p99_ms));
    }
    return json_pack("{s:i, s:o, s:o, s:f, s:o}", "n", s->n, "overall", mo_json_known(s->n > 0, s->overall),
                     "worst_tenant", mo_json_known(s->n > 0, s->worst), "p95_target", s->p95_target,
                     "tenants", tenants);
}

bool mo_replay_touch(const struct mo_trace *t, bool *touched) {
    bool any = false;
    for (int k = 0; k < t->n_spans; k++) {
        const struct mo_trace_span *s = &t->spans[k];
        for (int i = 0; s->stalled && i < t->n_queries && t->queries[i].arrival < s->end; i++)
            if (t->queries[i].end > s->begin || !t->queries[i].end) touched[i] = any = true;
    }
    return any;
}
