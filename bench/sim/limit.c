/* SPDX-License-Identifier: Apache-2.0
 * limit.c - the counted queries of a schedule as the bound sees them; see limit.h. */
#include "bench/sim/limit.h"

int mo_bench_limit(const struct mo_env *env, const struct mo_bench_schedule *s,
                   const struct mo_bench_need *need, const int64_t *qos_ns, int cores,
                   struct mo_bound_shares *out, moire_error *err) {
    *out = (struct mo_bound_shares){-1, -1};
    struct mo_bound_query *q = mo_alloc(env, ((size_t)s->n + 1) * sizeof *q);
    bool known = true;
    int n = 0;
    for (int i = 0; q && i < s->n; i++) {
        const struct mo_bench_arrival *a = &s->items[i];
        if (!mo_bench_counts(s, a->at_ns)) continue;
        int64_t qos = qos_ns[a->tenant];
        known = known && need[a->tenant].core_ns > 0;
        q[n++] = (struct mo_bound_query){.arrival = a->at_ns,
                                         .deadline = a->at_ns + (need[a->tenant].least_ns > qos ? 0 : qos),
                                         .need = need[a->tenant].core_ns};
    }
    bool bad = !q || (known && mo_bound_solve(env, q, n, cores));
    if (!bad && known) *out = mo_bound_shares(q, n);
    mo_free(env, q);
    return bad ? mo_fail(err, MOIRE_ENOMEM, "out of memory for the bound of %d queries", s->n) : MOIRE_OK;
}
