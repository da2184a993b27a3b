/* SPDX-License-Identifier: Apache-2.0
 * fronts.c - fronts of a mix's models, from the store; see fronts.h. */
#include "bench/choice/fronts.h"

#include <string.h>
#include "codegen/frontend.h"
#include "variants/store_format.h"

static json_t *point_json(const struct mo_store_point *p, int version) {
    char kernel[sizeof p->family + sizeof p->knobs + 1];
    json_t *us = json_array();
    for (int k = 0; k < MO_STORE_LEVELS; k++)
        json_array_append_new(us, p->ns[k] > 0 ? json_real(p->ns[k] * 1e-3) : json_null());
    snprintf(kernel, sizeof kernel, "%s %s", p->family, p->knobs);
    return json_pack("{s:s, s:o, s:s, s:f, s:f, s:f, s:o}", "state", mo_point_state_name(p->state), "version",
                     version < 0 ? json_null() : json_integer(version), "kernel", kernel, "parallelism",
                     (double)p->parallelism_milli * 1e-3, "block_kib", (double)p->block_bytes / 1024,
                     "beyond_kib", (double)p->l3_bytes / 1024, "us", us);
}

/* Versions count in the order in which the runtime has them: as they lie in the front. */
static json_t *front_json(const struct mo_store_front *f) {
    json_t *points = json_array();
    int version = 0;
    for (int i = 0; i < f->n; i++)
        json_array_append_new(
            points, point_json(&f->point[i], f->point[i].state == MO_POINT_VERSION ? version++ : -1));
    return json_pack("{s:s, s:i, s:o}", "layer", f->signature, "uses", 1, "points", points);
}

/* Counts the layer where a front of its kind is listed already. */
static bool listed(const json_t *fronts, const char *signature) {
    size_t i;
    json_t *front;
    json_array_foreach((json_t *)fronts, i, front) {
        if (strcmp(json_string_value(json_object_get(front, "layer")), signature) != 0) continue;
        json_int_t uses = json_integer_value(json_object_get(front, "uses"));
        json_object_set_new(front, "uses", json_integer(uses + 1));
        return true;
    }
    return false;
}

static json_t *layers_json(const struct mo_store *store, const struct mo_graph *graph) {
    json_t *fronts = json_array();
    char signature[MO_STORE_TEXT];
    struct mo_store_front front;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (!mo_layer_signature(graph, graph->nodes[i], signature, sizeof signature)) continue;
        if (listed(fronts, signature)) continue;
        if (!mo_store_read_front(store, signature, mo_isa_detect(), &front)) continue;
        json_array_append_new(fronts, front_json(&front));
    }
    return fronts;
}

static struct mo_store *open_store(const struct mo_bench_session *s) {
    char path[MO_CACHES_PATH];
    struct mo_store *store = NULL;
    int code = s->store ? mo_caches_real(s->env->sys, s->store, path, sizeof path, NULL)
                        : mo_caches_folder(s->env->sys, "store", path, sizeof path, NULL);
    return code || mo_store_open(s->env, path, &store, NULL) ? NULL : store;
}

/* Whether a result says that layers of that tenant have versions to choose among. */
static bool chooses(const json_t *results, int tenant) {
    size_t i;
    json_t *result;
    json_array_foreach((json_t *)results, i, result) {
        const json_t *list = json_object_get(json_object_get(result, "choices"), "tenants");
        const json_t *row = json_array_get(list, (size_t)tenant);
        if (json_integer_value(json_object_get(row, "choices")) > 0) return true;
    }
    return false;
}

json_t *mo_bench_fronts(const struct mo_bench_session *session, const struct mo_bench_mix *mix,
                        const json_t *results) {
    json_t *list = json_array();
    struct mo_store *store = session->generic || session->gpus ? NULL : open_store(session);
    for (int i = 0; store && i < mix->scenario.n_tenants; i++) {
        const struct mo_bench_tenant *t = &mix->scenario.tenants[i];
        const struct mo_frontend_options front = {
            .shapes = t->shapes, .n_shapes = t->n_shapes, .exact = session->exact};
        struct mo_graph *graph;
        if (!t->model || !chooses(results, i) ||
            mo_frontend_load(session->env, t->model, &front, &graph, NULL))
            continue;
        json_array_append_new(list, json_pack("{s:s, s:i, s:o}", "tenant", t->name, "index", i, "layers",
                                              layers_json(store, graph)));
        mo_graph_destroy(graph);
    }
    mo_store_close(store);
    return list;
}
