/* SPDX-License-Identifier: Apache-2.0
 * limit.c - the counted queries of a schedule as the bound sees them; see limit.h. */
#include "bench/load/limit.h"

int mo_bench_limit(const struct mo_env *env, const struct mo_bench_schedule *s,
                   const struct mo_bench_need *need, int n_tenants, const int64_t *qos_ns, int cores,
                   struct mo_bench_limits *out, moire_error *err) {
    struct mo_bound_query *q = mo_alloc(env, ((size_t)s->n + 1) * sizeof *q);
    struct mo_bound_tenant tenants[MO_BOUND_TENANTS];
    bool known = n_tenants <= MO_BOUND_TENANTS;
    int n = 0;
    *out = (struct mo_bench_limits){{-1, -1}, {-1, -1}};
    for (int i = 0; known && i < n_tenants; i++)
        tenants[i] = (struct mo_bound_tenant){need[i].core_ns, need[i].late_ns};
    for (int i = 0; q && i < s->n; i++) {
        const struct mo_bench_arrival *a = &s->items[i];
        if (!mo_bench_counts(s, a->at_ns)) continue;
        int64_t qos = qos_ns[a->tenant];
        known = known && need[a->tenant].core_ns > 0;
        q[n++] = (struct mo_bound_query){.arrival = a->at_ns,
                                         .deadline = a->at_ns + (need[a->tenant].least_ns > qos ? 0 : qos),
                                         .tenant = a->tenant};
    }
    double can = (double)s->total_ns * cores;
    double spare = can + mo_bench_backlog_limit(s, need, n_tenants, qos_ns) - mo_bench_due(s, need, qos_ns);
    const struct mo_bound_case of = {q, n, tenants, n_tenants, cores, spare};
    bool bad = !q || (known && mo_bound_solve(env, &of, &out->any, &out->keeping));
    mo_free(env, q);
    return bad ? mo_fail(err, MOIRE_ENOMEM, "out of memory for the bound of %d queries", s->n) : MOIRE_OK;
}
