/* SPDX-License-Identifier: Apache-2.0
 * cluster_plan.c - the documents of a plan; see cluster.h. */
#include "bench/cluster/cluster_plan.h"

#include <stdio.h>
#include <string.h>

/* As a file: a zoo name gets its ending. */
static json_t *file_of(const char *model) {
    const size_t n = strlen(model);
    return json_sprintf("%s%s", model, n > 5 && !strcmp(model + n - 5, ".onnx") ? "" : ".onnx");
}

static json_t *known(double value) {
    return mo_json_known(isfinite(value), value);
}

/* A whole number as one: readers may want memory so. */
static json_t *whole(double value) {
    return value == floor(value) ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *models_json(const struct mo_cluster_planning *c) {
    const struct mo_bench_mix *mix = &c->simulation.mix;
    json_t *list = json_array();
    for (int m = 0; m < mix->scenario.n_tenants; m++)
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:f, s:i, s:o}", "name", mix->scenario.tenants[m].name, "file",
                            file_of(mix->scenario.tenants[m].model), "qos_ms",
                            mo_json_known(mix->qos_ns[m] > 0, (double)mix->qos_ns[m] * 1e-6), "qps",
                            c->qps[m], "replicas", c->placed.list[m].n, "attainment",
                            known(mo_cluster_attainment(&c->result[c->best]->model[m]))));
    return list;
}

static json_t *nodes_json(const struct mo_cluster_planning *c) {
    json_t *list = json_array();
    for (int i = 0; i < c->nodes.n; i++) {
        const struct mo_cluster_node *n = &c->nodes.node[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:o, s:[]}", "name", n->name, "address",
                                              n->address, "port", n->port, "cores", n->cores, "memory_mb",
                                              whole(n->memory_mb), "models"));
    }
    for (int m = 0; m < c->simulation.mix.scenario.n_tenants; m++)
        for (int i = 0; i < c->placed.list[m].n; i++) {
            const struct mo_replica *r = &c->placed.list[m].replica[i];
            json_array_append_new(json_object_get(json_array_get(list, (size_t)r->node), "models"),
                                  json_pack("{s:s, s:f}", "name", c->models[m].name, "qps", r->qps));
        }
    return list;
}

static json_t *count_json(const char *key, const char *name, const struct mo_cluster_count *count) {
    return json_pack("{s:s, s:o, s:o, s:o}", key, name, "attainment", known(mo_cluster_attainment(count)),
                     "p50_ms", known(mo_cluster_quantile_ms(count, 0.5)), "p99_ms",
                     known(mo_cluster_quantile_ms(count, 0.99)));
}

static json_t *simulated_json(const struct mo_cluster_planning *c) {
    json_t *list = json_array();
    for (int r = 0; r < MO_ROUTINGS; r++) {
        const struct mo_cluster_result *result = c->result[r];
        if (!result) continue;
        json_t *row = count_json("routing", mo_routing_name((enum mo_routing)r), &result->all);
        json_t *models = json_array();
        for (int m = 0; m < c->simulation.mix.scenario.n_tenants; m++)
            json_array_append_new(models, count_json("name", c->models[m].name, &result->model[m]));
        json_object_set_new(row, "events_per_s",
                            json_real((double)result->events * 1e9 / (double)result->real_ns));
        json_object_set_new(row, "models", models);
        json_array_append_new(list, row);
    }
    return list;
}

json_t *mo_cluster_plan_json(const struct mo_cluster_planning *c) {
    return json_pack("{s:i, s:f, s:s, s:o, s:o, s:o}", "plan", 1, "qps", c->qps_all, "routing",
                     mo_routing_name((enum mo_routing)c->best), "models", models_json(c), "nodes",
                     nodes_json(c), "simulated", simulated_json(c));
}

static json_t *holds_json(const struct mo_cluster_planning *c) {
    json_t *list = json_array();
    for (int m = 0; m < c->simulation.mix.scenario.n_tenants; m++) {
        json_t *kinds = json_array();
        for (int k = 0; k < c->nodes.n_kinds; k++)
            json_array_append_new(kinds, json_pack("{s:i, s:f}", "cores", c->nodes.cores[k], "qps",
                                                   c->holds[(size_t)m * c->nodes.n_kinds + k]));
        json_array_append_new(list, json_pack("{s:s, s:f, s:o}", "name", c->models[m].name, "memory_mb",
                                              c->models[m].memory_mb, "kinds", kinds));
    }
    return list;
}

json_t *mo_cluster_summary_json(const struct mo_cluster_planning *c) {
    const struct mo_cluster_result *r = c->result[c->best];
    const double real_s = (double)r->real_ns * 1e-9;
    return json_pack("{s:f, s:f, s:i, s:f, s:I, s:I, s:f, s:o}", "target", c->target, "fill", c->placed.fill,
                     "fewest", c->placed.fewest, "seconds", MO_CLUSTER_WARMUP_S + c->seconds, "queries",
                     (json_int_t)r->sent, "events", (json_int_t)r->events, "real_s", real_s, "holds",
                     holds_json(c));
}
