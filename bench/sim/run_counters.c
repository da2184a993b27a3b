/* SPDX-License-Identifier: Apache-2.0
 * run_counters.c - counters of runs by load; see run_counters.h. */
#include "bench/sim/run_counters.h"

#include <math.h>
#include "bench/data/json_read.h"

static const double same_load = 1e-9;

static int find(const struct mo_bench_run_counters *c, double load) {
    for (int i = 0; i < c->n; i++)
        if (fabs(c->run[i].load - load) < same_load) return i;
    return -1;
}

void mo_bench_run_counters_note(struct mo_bench_run_counters *c, double load,
                                const struct mo_bench_played *played) {
    const struct mo_sched_stats *s = &played->stats;
    int at = find(c, load);
    if (at < 0 && c->n == MO_BENCH_RUNS) return;
    if (at < 0) at = c->n++;
    c->run[at].load = load;
    c->run[at].conflict_rate = s->blocks ? (double)s->conflicts / (double)s->blocks : 0;
    c->run[at].conflict_us = s->conflicts ? (double)s->conflict_ns / (double)s->conflicts * 1e-3 : -1;
    c->run[at].watts = played->joules > 0 ? played->joules / played->seconds : 0;
    c->run[at].joules_query = s->ok ? played->joules / (double)s->ok : 0;
    c->run[at].core_ms = s->accepted ? (double)s->kernel_core_ns / (double)s->accepted * 1e-6 : 0;
}

void mo_bench_run_counters_add(const struct mo_bench_run_counters *c, json_t *row) {
    size_t i;
    json_t *point;
    json_array_foreach(json_object_get(row, "loads"), i, point) {
        int at = find(c, mo_json_number(point, "load"));
        if (at < 0 || json_is_true(json_object_get(point, "stopped_early"))) continue;
        json_object_set_new(point, "conflict_rate", json_real(c->run[at].conflict_rate));
        json_object_set_new(point, "conflict_us",
                            mo_json_known(c->run[at].conflict_us >= 0, c->run[at].conflict_us));
        json_object_set_new(point, "core_ms", json_real(c->run[at].core_ms));
        if (!(c->run[at].watts > 0)) continue;
        json_object_set_new(point, "watts", json_real(c->run[at].watts));
        json_object_set_new(point, "joules_query", json_real(c->run[at].joules_query));
    }
}
