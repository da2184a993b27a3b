/* SPDX-License-Identifier: Apache-2.0
 * plan.c - from a graph of layers to a plan: memory, then one kernel a layer.
 *
 * A layer is bound to a generic kernel or, failing that, to its operator's reference.  A compiled variant
 * from the store then replaces the generic kernel; it may want the weights packed otherwise. */
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/plan/plan_impl.h"
#include "runtime/plan/versions.h"
#include "variants/conv_geometry.h"
#include "variants/matrix/matrix.h"
#include "variants/packed.h"
#include "variants/store.h"

/* A tensor whose size is not known now: it is allocated by the layer that makes it. */
static bool unsized(const struct mo_tensor *t) {
    return t->dynamic || mo_shape_count(&t->shape) < 0 || t->dtype == MOIRE_NONE;
}

static int mark_dynamic(struct mo_plan *plan, moire_error *err) {
    const struct mo_graph *graph = plan->graph;
    for (int k = 0; k < graph->n_nodes; k++) {
        const struct mo_node *node = graph->nodes[k];
        bool dynamic = false;
        for (int i = 0; i < node->n_in; i++)
            dynamic = dynamic || (node->in[i] >= 0 && plan->dynamic[node->in[i]]);
        for (int i = 0; i < node->n_out; i++)
            dynamic = dynamic || (node->out[i] >= 0 && unsized(graph->tensors[node->out[i]]));
        plan->steps[k].dynamic = dynamic;
        for (int i = 0; i < node->n_out; i++)
            if (node->out[i] >= 0) plan->dynamic[node->out[i]] = dynamic;
    }
    for (int i = 0; i < graph->n_inputs; i++) {
        const struct mo_tensor *t = graph->tensors[graph->inputs[i]];
        if (unsized(t))
            return mo_fail(err, MOIRE_ESHAPE,
                           "input '%s' has an open shape: give it in moire_tenant_config.shapes (of the "
                           "command: --shape "
                           "%s=d,d,...)",
                           t->name, t->name);
    }
    return MOIRE_OK;
}

static int check_runnable(const struct mo_node *node, moire_error *err) {
    if (node->op && node->op->run) return MOIRE_OK;
    return mo_fail(err, MOIRE_EUNSUPPORTED, "node '%s': operator %s%s%s is not supported", node->name,
                   node->domain, *node->domain ? "." : "", node->op_type);
}

/* The layer's weights as the variant reads them, in place of the generic kernel's.  False: not possible. */
static bool repack(struct mo_plan *plan, const struct mo_variant *variant, struct mo_step *step) {
    const void *before = step->weights;
    bool known = variant->packing > MO_PACK_NONE && variant->packing < MO_PACK_COUNT;
    if (variant->packing == (int32_t)step->packing) return true;
    if (!before || !known ||
        mo_pack_weights((enum mo_packing)variant->packing, plan->graph, step->node, plan->region,
                        &step->weights, &step->bias, NULL))
        return false;
    mo_packed_drop(plan->graph, before);
    mo_region_release(plan->region, (void *)before);
    step->packing = (enum mo_packing)variant->packing;
    return true;
}

static bool find_variant(const struct mo_plan_options *options, const char *signature,
                         struct mo_variant *out) {
    if (options->variant) return options->variant(options->variant_ctx, signature, out);
    return mo_store_find(options->store, signature, options->isa, out);
}

/* A compiled variant takes over a bound layer. */
static void specialise(struct mo_plan *plan, const struct mo_plan_options *options, struct mo_step *step) {
    char signature[256];
    struct mo_variant variant;
    if (!options->store && !options->variant) return;
    if (!mo_layer_signature(plan->graph, step->node, signature, sizeof signature)) return;
    if (!find_variant(options, signature, &variant)) return;
    if (variant.units < 1 || !variant.run || (plan->graph->exact && variant.mixes)) return;
    if (mo_is_qconv(step->node) && !step->compiled_params) return; /* which such a kernel reads */
    if (!repack(plan, &variant, step)) return;
    step->run = variant.run;
    step->kernel = variant.name;
    step->kind = "specialised";
    step->params = step->compiled_params;
    step->units = variant.units;
    step->scratch_bytes = variant.scratch_bytes;
    step->executed = variant.flops_executed;
    step->mixes = variant.mixes;
    step->joint = false;
    if (!options->variant) mo_plan_versions(plan, options, signature, step);
}

static int bind_step(struct mo_plan *plan, const struct mo_plan_options *options,
                     const struct mo_binder *binder, int k, moire_error *err) {
    struct mo_step *step = &plan->steps[k];
    const struct mo_node *node = plan->graph->nodes[k];
    bool dynamic = step->dynamic;
    step->node = node;
    step->units = 1;
    mo_plan_cost(plan->graph, node, &step->flops, &step->bytes);
    if (!dynamic && mo_plan_is_view(plan->graph, node)) {
        step->kernel = step->kind = "view";
        step->flops = step->bytes = step->units = 0;
        return MOIRE_OK;
    }
    if (!dynamic && !options->reference_only) {
        int rc = mo_bind_generic(binder, node, step, err);
        if (rc && rc != MOIRE_EUNSUPPORTED) return rc;
    }
    if (!step->run) {
        step->kernel = step->kind = "reference";
        step->units = 1;
        step->executed = step->flops;
        int rc = check_runnable(node, err);
        if (!rc && options->reference_only)
            step->parts = mo_op_parts_of(node->op);
        else if (!rc)
            rc = mo_bind_parts(binder, node, step, err);
        return rc ? rc : mo_plan_bodies(plan, options, step, err);
    }
    step->node = node;
    step->kind = "generic";
    specialise(plan, options, step);
    if (step->executed <= 0) step->executed = step->flops;
    return MOIRE_OK;
}

/* Rounds share memory behind the activations: only one layer of a query runs at a time. */
static int add_rounds(struct mo_plan *plan, moire_error *err) {
    int64_t most = 0;
    for (int k = 0; k < plan->n_steps; k++)
        if (plan->steps[k].rounds && plan->steps[k].rounds->shared_bytes > most)
            most = plan->steps[k].rounds->shared_bytes;
    plan->rounds_at = mo_round_up(plan->arena_bytes, 64);
    if (!most) return MOIRE_OK;
    plan->arena_bytes = plan->rounds_at + most;
    return mo_plan_check_arena(plan, err);
}

static int fill(struct mo_plan *plan, const struct mo_plan_options *options, moire_error *err) {
    struct mo_graph *graph = plan->graph;
    size_t tensors = (size_t)graph->n_tensors;
    if (graph->n_nodes > plan->env->limits.layers)
        return mo_fail(err, MOIRE_ELIMIT, "%d layers (limit layers)", graph->n_nodes);
    plan->n_steps = graph->n_nodes;
    plan->steps = mo_region_array(plan->region, (size_t)graph->n_nodes, sizeof *plan->steps);
    plan->offset = mo_region_array(plan->region, tensors, sizeof *plan->offset);
    plan->image = mo_region_array(plan->region, tensors, sizeof *plan->image);
    plan->dynamic = mo_region_array(plan->region, tensors, sizeof *plan->dynamic);
    if (!plan->steps || !plan->offset || !plan->image || !plan->dynamic)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory while planning %d layers", graph->n_nodes);
    int rc = mark_dynamic(plan, err);
    if (!rc) rc = mo_plan_memory(plan, err);
    size_t before = mo_region_bytes(plan->region);
    struct mo_binder binder = {
        .env = plan->env, .region = plan->region, .isa = options->isa, .graph = plan->graph};
    for (int type = 0; type < MO_MATRIX_TYPES; type++)
        binder.unit[type] = mo_matrix_choose(options->units, options->isa, (enum mo_matrix_type)type);
    for (int k = 0; !rc && k < plan->n_steps; k++) {
        rc = bind_step(plan, options, &binder, k, err);
        if (plan->steps[k].scratch_bytes > plan->scratch_bytes)
            plan->scratch_bytes = plan->steps[k].scratch_bytes;
    }
    if (!rc) rc = add_rounds(plan, err);
    plan->weight_bytes = (int64_t)(mo_region_bytes(plan->region) - before);
    plan->shared_bytes = mo_packed_shared(graph);
    if (!rc) rc = mo_plan_check_packed(plan, err);
    if (!rc) mo_plan_trim(plan);
    return rc;
}

int mo_plan_build(struct mo_graph *graph, const struct mo_plan_options *options, struct mo_plan **out,
                  moire_error *err) {
    const struct mo_env *env = graph->env;
    struct mo_region *region = mo_region_create(env);
    struct mo_plan *plan = region ? mo_region_alloc(region, sizeof *plan) : NULL;
    *out = NULL;
    if (!plan) {
        mo_region_destroy(region);
        mo_graph_destroy(graph);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory while building a plan");
    }
    mo_graph_compact(graph);
    *plan = (struct mo_plan){.env = env, .region = region, .graph = graph};
    int rc = fill(plan, options, err);
    if (rc)
        mo_plan_destroy(plan);
    else
        *out = plan;
    return rc;
}

void mo_plan_destroy(struct mo_plan *plan) {
    if (!plan) return;
    struct mo_region *region = plan->region;
    mo_plan_free_bodies(plan);
    mo_packed_leave(plan->graph);
    mo_graph_destroy(plan->graph);
    mo_region_destroy(region);
}
