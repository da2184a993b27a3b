/* SPDX-License-Identifier: Apache-2.0
 * by_load.c - policies at the same loads; see by_load.h. */
#include "bench/sim/by_load.h"

#include <math.h>
#include <string.h>
#include "bench/data/mean.h"
#include "bench/report/report_page.h"
#include "bench/report/series.h"
#include "bench/sim/simulate_summary.h"

static const char reference[] = "layerwise";

/* The queries that a tenant's mean is of: those that were answered, and those that still waited in the end.
 */
static double with_latency(const json_t *tenant) {
    return mo_json_number(tenant, "n") - mo_json_number(tenant, "shed") - mo_json_number(tenant, "failed");
}

double mo_bench_over_solo(const json_t *simulation, const json_t *result, const json_t *point) {
    const json_t *solo = json_object_get(json_object_get(simulation, "calibration"), "tenants");
    double sum = 0, n = 0;
    size_t i;
    json_t *t;
    if (!mo_series_has_latency(mo_json_text(result, "name"))) return NAN;
    json_array_foreach(json_object_get(point, "tenants"), i, t) {
        double alone = mo_json_number(json_array_get(solo, i), "fastest_ms"), count = with_latency(t),
               mean = mo_json_number_or_nan(t, "mean_ms");
        if (!(alone > 0) || !isfinite(mean)) continue;
        sum += count * mean / alone;
        n += count;
    }
    return n > 0 ? sum / n : NAN;
}

double mo_bench_held(const json_t *simulation, const char *policy) {
    struct mo_mean held = {0};
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(simulation, "results"), i, row) {
        if (!strcmp(mo_json_text(row, "policy"), policy))
            mo_mean_add_known(&held, mo_json_number_or_nan(row, "max_load_overall"));
    }
    return held.n ? held.mean : 0;
}

const json_t *mo_bench_result(const json_t *simulation, const char *policy, const json_t *seed) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(simulation, "results"), i, row) {
        if (!strcmp(mo_json_text(row, "policy"), policy) && json_equal(json_object_get(row, "seed"), seed))
            return row;
    }
    return NULL;
}

enum value { IN_TIME, LATENCY, CONFLICT_RATE, CONFLICT_US, CORE_GAP, VALUES };
static const char *const keys[VALUES] = {[IN_TIME] = "in_time",
                                         [LATENCY] = "latency_over_solo",
                                         [CONFLICT_RATE] = "conflict_rate",
                                         [CONFLICT_US] = "conflict_us",
                                         [CORE_GAP] = "core_use_gap"};

static json_t *row_of(const json_t *simulation, const char *policy, double load) {
    struct mo_mean mean[VALUES] = {{0}};
    json_t *out = json_pack("{s:s}", "policy", policy), *row;
    size_t i;
    json_array_foreach(json_object_get(simulation, "results"), i, row) {
        const json_t *point = mo_doc_point(row, load), *seed = json_object_get(row, "seed");
        if (!point || strcmp(mo_json_text(row, "policy"), policy) != 0) continue;
        const json_t *first = mo_bench_result(simulation, reference, seed);
        const json_t *other = first ? mo_doc_point(first, load) : NULL;
        mo_mean_add_known(&mean[IN_TIME], mo_json_number_or_nan(point, "overall"));
        mo_mean_add_known(&mean[LATENCY], mo_bench_over_solo(simulation, row, point));
        mo_mean_add_known(&mean[CONFLICT_RATE], mo_json_number_or_nan(point, "conflict_rate"));
        mo_mean_add_known(&mean[CONFLICT_US], mo_json_number_or_nan(point, "conflict_us"));
        mo_mean_add_known(&mean[CORE_GAP],
                          mo_json_number_or_nan(point, "core_ms") / mo_json_number_or_nan(other, "core_ms") -
                              1);
    }
    for (int v = 0; v < VALUES; v++)
        json_object_set_new(out, keys[v], mo_bench_mean_json(&mean[v]));
    return out;
}

json_t *mo_bench_by_load_rows(const json_t *simulation) {
    json_t *list = json_array(), *point, *one;
    const json_t *summary = json_object_get(simulation, "summary");
    const json_t *first = json_array_get(json_object_get(simulation, "results"), 0);
    size_t i, k;
    json_array_foreach(json_object_get(first, "loads"), i, point) {
        double load = mo_json_number(point, "load");
        json_t *rows = json_array();
        json_array_foreach(summary, k, one) {
            const char *policy = mo_series_policy(mo_json_text(one, "name"));
            json_array_append_new(rows, row_of(simulation, policy, load));
        }
        json_array_append_new(list, json_pack("{s:f, s:f, s:o}", "load", load, "qps",
                                              mo_json_number(point, "qps"), "rows", rows));
    }
    return list;
}
