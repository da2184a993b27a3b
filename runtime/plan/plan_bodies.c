/* SPDX-License-Identifier: Apache-2.0
 * plan_bodies.c - plans for the bodies of control flow.
 *
 * A body all of whose inputs have fixed shapes has a plan of its own, made of a shallow copy of its graph:
 * its layers are bound to kernels like those around it.  Its activations lie in the scratch of the layer that
 * runs it, so a query's arena and what is kept of a preempted query know nothing of them.  A body of other
 * shapes is run by the references (runtime/ops/control/body.c). */
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/graph/copy.h"
#include "runtime/ops/control/body.h"
#include "runtime/plan/plan_impl.h"

enum { ALIGN = 64 };

static bool is_fixed(const struct mo_graph *body) {
    for (int i = 0; i < body->n_inputs; i++) {
        const struct mo_tensor *t = body->tensors[body->inputs[i]];
        if (t->dynamic || t->dtype == MO_BUNDLE || !mo_dtype_bytes(t->dtype) || mo_shape_count(&t->shape) < 0)
            return false;
    }
    return true;
}

int64_t mo_plan_body_scratch(const struct mo_plan *plan) {
    return mo_round_up((int64_t)mo_instance_arena_bytes(plan), ALIGN) + plan->scratch_bytes + ALIGN;
}

static struct mo_plan_body *add(struct mo_plan *plan) {
    struct mo_plan_body *wider = mo_region_array(plan->region, (size_t)plan->n_bodies + 1, sizeof *wider);
    if (!wider) return NULL;
    if (plan->n_bodies) memcpy(wider, plan->bodies, (size_t)plan->n_bodies * sizeof *wider);
    plan->bodies = wider;
    return &wider[plan->n_bodies];
}

static int plan_body(struct mo_plan *plan, const struct mo_plan_options *options, struct mo_step *step,
                     const struct mo_graph *body, moire_error *err) {
    struct mo_graph *copy = mo_graph_copy(body, false);
    struct mo_plan_body *own = copy ? add(plan) : NULL;
    if (!own) {
        mo_graph_destroy(copy);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory planning a body");
    }
    int rc = mo_plan_build(copy, options, &own->plan, err);
    if (rc) return mo_fail_context(err, rc, "node '%.64s' (%.40s)", step->node->name, step->node->op_type);
    own->body = body;
    plan->n_bodies++;
    const int64_t scratch = mo_plan_body_scratch(own->plan);
    if (scratch > step->scratch_bytes) step->scratch_bytes = scratch;
    for (int k = 0; k < own->plan->n_steps; k++)
        if (step->flops < INT64_MAX / 2 - own->plan->steps[k].flops) step->flops += own->plan->steps[k].flops;
    step->executed = step->flops;
    return MOIRE_OK;
}

int mo_plan_bodies(struct mo_plan *plan, const struct mo_plan_options *options, struct mo_step *step,
                   moire_error *err) {
    const struct mo_graph *body;
    int at = 0, rc = MOIRE_OK;
    if (options->reference_only || !(step->node->op->flags & MO_OP_BODIES)) return MOIRE_OK;
    if (mo_node_is_ours(step->node, "Region")) return mo_plan_add_region(plan, options, step->node, err);
    while (!rc && (body = mo_node_next_body(step->node, &at)))
        if (is_fixed(body)) rc = plan_body(plan, options, step, body, err);
    return rc;
}

void mo_plan_free_bodies(struct mo_plan *plan) {
    for (int i = 0; i < plan->n_bodies; i++)
        mo_plan_destroy(plan->bodies[i].plan);
    plan->n_bodies = 0;
    mo_plan_free_regions(plan);
}

bool mo_plan_has_bodies(const struct mo_plan *plan, const struct mo_node *node) {
    const struct mo_graph *body;
    int at = 0;
    while ((body = mo_node_next_body(node, &at)))
        for (int i = 0; i < plan->n_bodies; i++)
            if (plan->bodies[i].body == body) return true;
    body = mo_node_is_ours(node, "Region") ? mo_node_body(node, "body") : NULL;
    return body && mo_plan_region_of(plan, body);
}

/* --- running one ---------------------------------------------------------------------------------------- */

static int find(const struct mo_plan *plan, const struct mo_graph *body) {
    for (int i = 0; i < plan->n_bodies; i++)
        if (plan->bodies[i].body == body) return i;
    return -1;
}

bool mo_plan_fits(const struct mo_plan *plan, const struct mo_value *in) {
    const struct mo_graph *g = plan->graph;
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        if (in[i].dtype != t->dtype || !mo_shape_equal(&in[i].shape, &t->shape)) return false;
    }
    return true;
}

int mo_plan_body_outputs(struct mo_instance *instance, const struct mo_op_ctx *ctx, struct mo_value *out) {
    const struct mo_graph *g = instance->plan->graph;
    int rc = MOIRE_OK;
    for (int i = 0; i < g->n_outputs && !rc; i++) {
        const struct mo_value *made = mo_instance_value(instance, g->outputs[i]);
        rc = made->data ? mo_value_copy(ctx, made, &out[i])
                        : mo_op_fail(ctx, MOIRE_EFAILED, "its body has no output %d", i);
    }
    if (rc) mo_values_free(ctx->env, out, g->n_outputs);
    return rc;
}

/* A region's layers have the names of the model, and need no other. */
int mo_plan_body_tell(const struct mo_instance *instance, const struct mo_op_ctx *ctx, int rc) {
    if (mo_node_is_ours(ctx->node, "Region"))
        return mo_fail(ctx->err, rc, "%s", mo_instance_message(instance));
    return mo_fail(ctx->err, rc, "node '%.64s' (%.40s): %s", ctx->node->name, ctx->node->op_type,
                   mo_instance_message(instance));
}

void mo_plan_body_begin(struct mo_instance *instance, const struct mo_op_ctx *ctx, void *arena,
                        const struct mo_value *in) {
    mo_instance_bind(instance, arena);
    instance->host.left = ctx->host->left;
    instance->host.unwanted = ctx->host->unwanted;
    for (int i = 0; i < instance->plan->graph->n_inputs; i++)
        instance->given[i] = in[i].data;
    mo_instance_read_inputs(instance, instance->given);
}

int mo_plan_body_run(struct mo_instance *instance, const struct mo_op_ctx *ctx, char *scratch,
                     const struct mo_value *in, struct mo_value *out) {
    const struct mo_plan *plan = instance->plan;
    char *layers = scratch + mo_round_up((int64_t)mo_instance_arena_bytes(plan), ALIGN);
    int rc = MOIRE_OK;
    mo_plan_body_begin(instance, ctx, scratch, in);
    for (int k = 0; k < plan->n_steps && !rc; k++) {
        if (mo_body_unwanted(ctx->host))
            rc = mo_body_cancelled(ctx);
        else if (mo_instance_run(instance, k, k + 1, layers))
            rc = mo_plan_body_tell(instance, ctx, instance->rc);
    }
    if (!rc) rc = mo_plan_body_outputs(instance, ctx, out);
    mo_instance_reset(instance);
    return rc;
}

int mo_instance_run_body(void *self, const struct mo_op_ctx *ctx, const struct mo_graph *body,
                         const struct mo_value *in, struct mo_value *out) {
    struct mo_instance *around = self;
    struct mo_plan_region *region = mo_plan_region_of(around->plan, body);
    const int i = region ? -1 : find(around->plan, body);
    if (region) return mo_plan_region_run(region, ctx, in, out);
    if (i < 0 || !around->scratch || !mo_plan_fits(around->plan->bodies[i].plan, in)) return MO_NEED_DATA;
    if (!around->body[i]) {
        int rc = mo_instance_create_bare(around->plan->bodies[i].plan, &around->body[i], ctx->err);
        if (rc) return rc;
    }
    return mo_plan_body_run(around->body[i], ctx, around->scratch, in, out);
}
