/* SPDX-License-Identifier: Apache-2.0
 * model_plan.c - see model_plan.h. */
#include "codegen/model_plan.h"

/* Why no compiled model can be what is asked for; NULL: one may. */
static const char *why_unfit(const struct mo_frontend_options *front,
                             const struct mo_plan_options *planning) {
    if (front->no_passes || front->no_layout) return "a compiled model has all passes";
    if (front->batch > 1) return "a compiled model has no batch but that of its shapes";
    if (front->only_import || front->bundles || front->any_unit || front->share)
        return "a compiled model has the graph of a server";
    if (planning->reference_only || planning->variant || planning->units != MO_UNITS_OWN)
        return "a compiled model has the kernels of a server";
    return NULL;
}

static int from_store(const struct mo_model_ask *ask, struct mo_model_plan *out, moire_error *err) {
    const struct mo_frontend_options *front = ask->front;
    const struct mo_compiled_request request = {.path = ask->path,
                                                .shapes = front->shapes,
                                                .n_shapes = front->n_shapes,
                                                .exact = front->exact,
                                                .isa = ask->planning->isa,
                                                .precision = front->precision};
    const struct mo_compiled_ask wanted = {.env = ask->env,
                                           .request = &request,
                                           .planning = ask->planning,
                                           .n_found = ask->n_found,
                                           .helper = true,
                                           .look = ask->look,
                                           .look_ctx = ask->look_ctx};
    const char *why = why_unfit(front, ask->planning);
    if (!why) return mo_compiled_plan(&wanted, &out->compiled, &out->plan, err);
    mo_compiled_say_packed(ask->env, ask->path, why);
    return MOIRE_OK;
}

static int from_onnx(const struct mo_model_ask *ask, struct mo_plan **out, moire_error *err) {
    struct mo_graph *graph;
    int rc = mo_frontend_load(ask->env, ask->path, ask->front, &graph, err);
    if (rc) return rc;
    mo_graph_compact(graph);
    rc = ask->look ? ask->look(ask->look_ctx, graph, err) : MOIRE_OK;
    if (!rc) return mo_plan_build(graph, ask->planning, out, err);
    mo_graph_destroy(graph);
    return rc;
}

int mo_model_plan_open(const struct mo_model_ask *ask, struct mo_model_plan *out, moire_error *err) {
    *out = (struct mo_model_plan){.plan = NULL};
    int rc = ask->planning->store ? from_store(ask, out, err) : MOIRE_OK;
    return rc || out->plan ? rc : from_onnx(ask, &out->plan, err);
}

void mo_model_plan_close(struct mo_model_plan *model) {
    mo_plan_destroy(model->plan);
    mo_compiled_close(&model->compiled);
    *model = (struct mo_model_plan){.plan = NULL};
}
