/* SPDX-License-Identifier: Apache-2.0
 * ways.c - runs a model by its references or by a plan. */
#include "codegen/region_graph.h"
#include "tools/moire/verify/ways.h"

#include <string.h>
#include "runtime/ops/interpret.h"

const char *mo_way_name(enum mo_way way) {
    static const char *const names[] = {[MO_WAY_REFERENCE] = "reference",
                                        [MO_WAY_PASSES] = "reference after passes",
                                        [MO_WAY_PLAN] = "generic",
                                        [MO_WAY_STORE] = "specialised"};
    return way >= 0 && way < MO_WAYS ? names[way] : "unknown";
}

void mo_way_free(const struct mo_env *env, moire_tensor *outputs, int n) {
    for (int i = 0; i < n; i++) {
        mo_free(env, outputs[i].data);
        outputs[i].data = NULL;
    }
}

int mo_way_run_reference(const struct mo_graph *g, const moire_tensor *inputs, int n_inputs,
                         moire_tensor *outputs, moire_error *err) {
    struct mo_value *values = mo_alloc(g->env, (size_t)g->n_outputs * sizeof *values + 1);
    if (!values) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int rc = mo_interpret(g, inputs, n_inputs, values, err);
    for (int i = 0; !rc && i < g->n_outputs; i++) {
        outputs[i] =
            (moire_tensor){.dtype = values[i].dtype, .rank = values[i].shape.rank, .data = values[i].data};
        outputs[i].bytes = (size_t)mo_shape_count(&values[i].shape) * mo_dtype_bytes(values[i].dtype);
        memcpy(outputs[i].shape, values[i].shape.d, sizeof outputs[i].shape);
    }
    mo_free(g->env, values);
    return rc;
}

int mo_way_copy_outputs(struct mo_instance *instance, const struct mo_graph *g, moire_tensor *outputs,
                        moire_error *err) {
    for (int i = 0; i < g->n_outputs; i++) {
        moire_tensor t;
        int rc = mo_instance_output(instance, i, &t);
        if (rc) return mo_fail(err, rc, "output %d was not computed", i);
        void *copy = mo_alloc(g->env, t.bytes + 1);
        if (!copy) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
        if (t.bytes) memcpy(copy, t.data, t.bytes);
        outputs[i] = t;
        outputs[i].data = copy;
    }
    return MOIRE_OK;
}

int mo_way_run_in(const struct mo_plan *plan, void *arena, void *scratch, const moire_tensor *inputs,
                  int n_inputs, moire_tensor *outputs, moire_error *err) {
    struct mo_instance *instance = NULL;
    int rc = mo_instance_create_bare(plan, &instance, err);
    if (!rc) mo_instance_bind(instance, arena);
    for (int i = 0; !rc && i < n_inputs; i++)
        rc = mo_instance_set_input(instance, i, &inputs[i], err);
    if (!rc && (rc = mo_instance_run(instance, 0, plan->n_steps, scratch)))
        mo_fail(err, rc, "%s", mo_instance_message(instance));
    if (!rc) rc = mo_way_copy_outputs(instance, plan->graph, outputs, err);
    mo_instance_destroy(instance);
    return rc;
}

int mo_way_run_built(const struct mo_plan *plan, const moire_tensor *inputs, int n_inputs,
                     moire_tensor *outputs, moire_error *err) {
    void *scratch = mo_alloc_scratch(plan->env, (size_t)plan->scratch_bytes + 64);
    void *arena = mo_alloc_scratch(plan->env, mo_instance_arena_bytes(plan));
    int rc = scratch && arena ? mo_way_run_in(plan, arena, scratch, inputs, n_inputs, outputs, err)
                              : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    mo_free(plan->env, arena);
    mo_free(plan->env, scratch);
    return rc;
}

int mo_way_run_plan(struct mo_graph *g, const struct mo_plan_options *options, const moire_tensor *inputs,
                    int n_inputs, moire_tensor *outputs, moire_error *err) {
    struct mo_plan *plan;
    int rc = mo_plan_build(g, options, &plan, err);
    if (rc) return rc;
    rc = mo_way_run_built(plan, inputs, n_inputs, outputs, err);
    mo_plan_destroy(plan);
    return rc;
}

int mo_way_run(const struct mo_env *env, const struct mo_way_target *target, const char *model,
               const struct mo_frontend_options *options, const moire_tensor *inputs, int n_inputs,
               moire_tensor *outputs, int cap, int *n_outputs, moire_error *err) {
    struct mo_frontend_options front = *options;
    struct mo_plan_options plan = {.isa = target->isa,
                                   .store = target->way == MO_WAY_STORE ? target->store : NULL,
                                   .shaped = mo_region_graph};
    struct mo_graph *g;
    front.no_passes = target->way == MO_WAY_REFERENCE;
    *n_outputs = 0;
    memset(outputs, 0, (size_t)cap * sizeof *outputs);
    int rc = mo_frontend_load(env, model, &front, &g, err);
    if (rc) return rc;
    if (g->n_inputs != n_inputs)
        rc = mo_fail(err, MOIRE_EINVAL, "the model has %d inputs, %d are given", g->n_inputs, n_inputs);
    else if (g->n_outputs > cap)
        rc = mo_fail(err, MOIRE_ELIMIT, "the model has more than %d outputs", cap);
    *n_outputs = rc ? 0 : g->n_outputs;
    bool planned = !rc && target->way >= MO_WAY_PLAN;
    if (planned)
        rc = mo_way_run_plan(g, &plan, inputs, n_inputs, outputs, err);
    else if (!rc)
        rc = mo_way_run_reference(g, inputs, n_inputs, outputs, err);
    if (!planned) mo_graph_destroy(g);
    if (rc) mo_way_free(env, outputs, *n_outputs);
    return rc;
}
