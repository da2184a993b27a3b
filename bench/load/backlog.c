/* SPDX-License-Identifier: Apache-2.0
 * backlog.c - what a run leaves unanswered; see backlog.h. */
#include "bench/load/backlog.h"

#include <math.h>

static const double part = 0.01;

static bool due(const struct mo_bench_schedule *s, const struct mo_bench_arrival *a, const int64_t *qos_ns) {
    return a->at_ns + qos_ns[a->tenant] <= s->total_ns;
}

double mo_bench_due(const struct mo_bench_schedule *s, const struct mo_bench_need *need,
                    const int64_t *qos_ns) {
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        if (due(s, &s->items[i], qos_ns)) sum += need[s->items[i].tenant].late_ns;
    return sum;
}

double mo_bench_backlog_limit(const struct mo_bench_schedule *s, const struct mo_bench_need *need,
                              int n_tenants, const int64_t *qos_ns) {
    double largest = 0;
    for (int i = 0; i < n_tenants; i++)
        largest = fmax(largest, need[i].late_ns);
    return part * mo_bench_due(s, need, qos_ns) + largest;
}

struct mo_bench_backlog mo_bench_backlog(const struct mo_bench_schedule *s,
                                         const struct mo_bench_record *records,
                                         const struct mo_bench_need *need, int n_tenants,
                                         const int64_t *qos_ns) {
    struct mo_bench_backlog out = {0, 0, mo_bench_backlog_limit(s, need, n_tenants, qos_ns)};
    for (int i = 0; i < s->n; i++) {
        const struct mo_bench_arrival *a = &s->items[i];
        bool answered = records[i].end_ns >= 0 && records[i].code == MOIRE_OK;
        if (answered || !due(s, a, qos_ns) || !(need[a->tenant].late_ns > 0)) continue;
        out.queries++;
        out.core_ns += need[a->tenant].late_ns;
    }
    return out;
}
