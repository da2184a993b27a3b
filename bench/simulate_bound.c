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

int mo_bench_simulate_bound(const struct mo_bench_simulation *m, const struct mo_bench_schedule *s,
                            struct mo_bench_record *records, moire_error *err) {
    struct mo_bound_query *q = mo_alloc(m->env, ((size_t)s->n + 1) * sizeof *q);
    double seen[MO_BENCH_MAX_TENANTS] = {0}, share = 0;
    int n = q ? gather(m, s, q) : 0;
    if (!q || mo_bound_solve(m->env, q, n, m->machine.sim.n_cores)) {
        mo_free(m->env, q);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the bound of %d queries", s->n);
    }
    for (int i = 0; i < n; i++)
        share += q[i].fraction / n;
    mo_free(m->env, q);
    for (int i = 0; i < s->n; i++) {
        const struct mo_bench_arrival *a = &s->items[i];
        records[i] = (struct mo_bench_record){a->at_ns, a->at_ns, -1, MOIRE_ESHED};
        if (!mo_bench_counts(s, a->at_ns)) continue;
        double before = ceil(seen[a->tenant] * share - 1e-9);
        seen[a->tenant] += 1;
        if (!(ceil(seen[a->tenant] * share - 1e-9) > before)) continue;
        records[i].end_ns = a->at_ns + m->mix.qos_ns[a->tenant];
        records[i].code = MOIRE_OK;
    }
    return MOIRE_OK;
}
