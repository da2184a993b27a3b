/* SPDX-License-Identifier: Apache-2.0
 * tables_rows.c - results of a simulation as rows of `moire tables`; see tables.h.
 *
 * All means are over seeds.  Ratios are of loads found with the same seed, then averaged, for the seeds'
 * arrivals differ more than the policies do. */
#include "bench/sim/tables.h"

#include <math.h>
#include <string.h>
#include "bench/data/mean.h"
#include "bench/report/report_page.h"
#include "bench/report/series.h"
#include "bench/sim/by_load.h"
#include "bench/sim/simulate_summary.h"

static const char overall[] = "max_load_overall", every[] = "max_load_every_tenant";

static double ratio(const json_t *row, const json_t *other, const char *key) {
    double below = mo_json_number(other, key);
    return below > 0 ? mo_json_number_or_nan(row, key) / below : NAN;
}

static double per(const json_t *counters, const char *key, const char *each) {
    double n = mo_json_number(counters, each);
    return n > 0 ? mo_json_number_or_nan(counters, key) / n : NAN;
}

/* The columns of a table that are means over seeds. */
enum column {
    OF_BOUND,
    OF_BOUND_EVERY,
    OF_OFFLINE,
    OF_OFFLINE_EVERY,
    OVER_LAYERWISE,
    OVER_VELTAIR,
    OVER_VELTAIR_EVERY,
    LATENCY,
    CONFLICTS,
    CONFLICT_RATE,
    CONFLICT_US,
    COLUMNS
};
static const char *const keys[COLUMNS] = {
    [OF_BOUND] = "of_bound_overall",
    [OF_BOUND_EVERY] = "of_bound_every_tenant",
    [OF_OFFLINE] = "of_offline_overall",
    [OF_OFFLINE_EVERY] = "of_offline_every_tenant",
    [OVER_LAYERWISE] = "over_layerwise",
    [OVER_VELTAIR] = "over_veltair_overall",
    [OVER_VELTAIR_EVERY] = "over_veltair_every_tenant",
    [LATENCY] = "latency_over_solo",
    [CONFLICTS] = "conflicts_a_query",
    [CONFLICT_RATE] = "conflict_rate",
    [CONFLICT_US] = "conflict_us",
};

static void add_seed(struct mo_mean m[COLUMNS], const json_t *simulation, const json_t *row) {
    const json_t *seed = json_object_get(row, "seed");
    const json_t *bound = mo_bench_result(simulation, "bound", seed),
                 *offline = mo_bench_result(simulation, "offline", seed),
                 *layer = mo_bench_result(simulation, "layerwise", seed),
                 *veltair = mo_bench_result(simulation, "veltair", seed);
    const json_t *counters = json_object_get(row, "scheduling");
    const json_t *point = mo_doc_point(row, mo_json_number(row, overall));
    mo_mean_add_known(&m[OF_BOUND], ratio(row, bound, overall));
    mo_mean_add_known(&m[OF_BOUND_EVERY], ratio(row, bound, every));
    mo_mean_add_known(&m[OF_OFFLINE], ratio(row, offline, overall));
    mo_mean_add_known(&m[OF_OFFLINE_EVERY], ratio(row, offline, every));
    mo_mean_add_known(&m[OVER_LAYERWISE], ratio(row, layer, overall));
    mo_mean_add_known(&m[OVER_VELTAIR], ratio(row, veltair, overall));
    mo_mean_add_known(&m[OVER_VELTAIR_EVERY], ratio(row, veltair, every));
    mo_mean_add_known(&m[LATENCY], mo_bench_over_solo(simulation, row, point));
    mo_mean_add_known(&m[CONFLICTS], per(counters, "conflicts", "accepted"));
    mo_mean_add_known(&m[CONFLICT_RATE], per(counters, "conflicts", "blocks"));
    if (mo_json_number(counters, "conflicts") > 0)
        mo_mean_add_known(&m[CONFLICT_US], mo_json_number_or_nan(counters, "conflict_mean_us"));
}

static json_t *reduce(const json_t *simulation, const char *policy) {
    struct mo_mean m[COLUMNS] = {{0}};
    size_t i;
    json_t *row, *out = json_pack("{s:s}", "policy", policy);
    json_array_foreach(json_object_get(simulation, "results"), i,
                       row) if (!strcmp(mo_json_text(row, "policy"), policy)) add_seed(m, simulation, row);
    for (int c = 0; c < COLUMNS; c++)
        json_object_set_new(out, keys[c], mo_bench_mean_json(&m[c]));
    return out;
}

double mo_bench_tables_few_versions(const json_t *simulation) {
    double layers = 0, few = 0;
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(json_object_get(simulation, "calibration"), "tenants"), i, t) {
        layers += mo_json_number(t, "layers");
        few += mo_json_number(t, "layers_of_three_versions");
    }
    return layers > 0 ? few / layers : 1;
}

/* Shares in time of tenant `index` at the highest load that `key` names, over seeds; *name: its name. */
static json_t *attained(const json_t *simulation, const char *policy, const char *key, size_t index,
                        const char **name) {
    struct mo_mean mean = {0};
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(simulation, "results"), i, row) {
        const json_t *point = mo_doc_point(row, mo_json_number(row, key));
        const json_t *t = json_array_get(json_object_get(point, "tenants"), index);
        if (!t || strcmp(mo_json_text(row, "policy"), policy) != 0) continue;
        *name = mo_json_text(t, "name");
        mo_mean_add_known(&mean, mo_json_number_or_nan(t, "within_qos"));
    }
    return mo_bench_mean_json(&mean);
}

static json_t *tenants_of(const json_t *simulation, const char *policy) {
    json_t *list = json_array();
    size_t n = json_array_size(json_object_get(json_object_get(simulation, "calibration"), "tenants"));
    for (size_t i = 0; i < n; i++) {
        const char *name = "";
        json_t *at_overall = attained(simulation, policy, overall, i, &name);
        json_t *at_every = attained(simulation, policy, every, i, &name);
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "name", name, "at_overall", at_overall,
                                              "at_every_tenant", at_every));
    }
    return list;
}

json_t *mo_bench_tables_rows(const json_t *simulation) {
    json_t *rows = json_array(), *one, *summary = mo_bench_summary(json_object_get(simulation, "results"));
    size_t i;
    json_array_foreach(summary, i, one) {
        const char *policy = mo_series_policy(mo_json_text(one, "name"));
        json_t *row = reduce(simulation, policy);
        json_object_set(row, "seeds", json_object_get(one, "seeds"));
        json_object_set(row, overall, json_object_get(one, overall));
        json_object_set(row, every, json_object_get(one, every));
        json_object_set_new(row, "tenants", tenants_of(simulation, policy));
        json_array_append_new(rows, row);
    }
    json_decref(summary);
    return rows;
}
