/* SPDX-License-Identifier: Apache-2.0
 * simulate_bound.c - the upper limit on a schedule; see simulate.h. */
#include <math.h>
#include "bench/simulate.h"
#include "runtime/sim/bound.h"

/* The counted queries of the schedule as the bound sees them; returns how many. */
static int gather(const struct mo_bench_simulation *m, const struct mo_bench_schedule *s,
                  struct mo_bound_query *out) {
    double need[MO_BENCH_MAX_TENANTS];
    int64_t least[MO_BENCH_MAX_TENANTS];
    int n = 0, cores = m->machine.sim.n_cores;
    double fast = 1 - 0.5 * m->machine.sim.noise; /* the fast end of the spread */
    for (int i = 0; i < m->mix.scenario.n_tenants; i++) {
        need[i] = fast * mo_bound_need(m->profile[i], cores, (double)m->mix.qos_ns[i] / fast);
        least[i] = (int64_t)(fast * (double)mo_bound_least_time(m->profile[i], cores));
    }
    for (int i = 0; i < s->n; i++) {
        const struct mo_bench_arrival *a = &s->items[i];
        if (!mo_bench_counts(s, a->at_ns)) continue;
        int64_t qos = m->mix.qos_ns[a->tenant];
        out[n++] = (struct mo_bound_query){.arrival = a->at_ns,
                                           .deadline = a->at_ns + (least[a->tenant] > qos ? 0 : qos),
                                           .need = need[a->tenant]};
    }
    return n;
}

/* Shares of its queries that each tenant gets: `overall` in all, and the tenant with most work no more than
 * `least` as far as that leaves the others something to have. */
static void deal(const struct mo_bench_simulation *m, const struct mo_bench_schedule *s, double overall,
                 double least, double share[MO_BENCH_MAX_TENANTS]) {
    double count[MO_BENCH_MAX_TENANTS] = {0}, n = 0, most = -1;
    int tenants = m->mix.scenario.n_tenants, heaviest = 0;
    for (int i = 0; i < s->n; i++)
        if (mo_bench_counts(s, s->items[i].at_ns)) count[s->items[i].tenant] += 1;
    for (int i = 0; i < tenants; i++) {
        n += count[i];
        if (!(count[i] > 0) || m->mix.solo_ms[i] <= most) continue;
        most = m->mix.solo_ms[i];
        heaviest = i;
    }
    double own = count[heaviest], others = n - own, rest = overall;
    if (least < overall && others > 0) {
        rest = (overall * n - least * own) / others;
        if (rest > 1) rest = 1;
    }
    for (int i = 0; i < tenants; i++)
        share[i] = rest;
    if (own > 0 && others > 0) share[heaviest] = (overall * n - rest * others) / own;
}

int mo_bench_simulate_bound(const struct mo_bench_simulation *m, const struct mo_bench_schedule *s,
                            struct mo_bench_record *records, moire_error *err) {
    struct mo_bound_query *q = mo_alloc(m->env, ((size_t)s->n + 1) * sizeof *q);
    double seen[MO_BENCH_MAX_TENANTS] = {0}, share[MO_BENCH_MAX_TENANTS];
    struct mo_bound_shares limit;
    int n = q ? gather(m, s, q) : 0;
    if (!q || mo_bound_solve(m->env, q, n, m->machine.sim.n_cores)) {
        mo_free(m->env, q);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the bound of %d queries", s->n);
    }
    limit = mo_bound_shares(q, n);
    mo_free(m->env, q);
    deal(m, s, limit.overall, limit.every, share);
    for (int i = 0; i < s->n; i++) {
        const struct mo_bench_arrival *a = &s->items[i];
        records[i] = (struct mo_bench_record){a->at_ns, a->at_ns, -1, MOIRE_ESHED};
        if (!mo_bench_counts(s, a->at_ns)) continue;
        double before = ceil(seen[a->tenant] * share[a->tenant] - 1e-9);
        seen[a->tenant] += 1;
        if (!(ceil(seen[a->tenant] * share[a->tenant] - 1e-9) > before)) continue;
        records[i].end_ns = a->at_ns + m->mix.qos_ns[a->tenant];
        records[i].code = MOIRE_OK;
    }
    return MOIRE_OK;
}
