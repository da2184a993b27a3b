/* SPDX-License-Identifier: Apache-2.0
 * dynamic.c - layers whose output shapes are known only when their inputs are: shapes are inferred again
 * with the actual contents, outputs allocated, and the reference runs.  The storage stays until the
 * instance is reset or the layer runs again. */
#include "runtime/plan/plan_impl.h"

enum { PARTS_EACH = 4 }; /* pieces for each of a team: parts differ in their work */

static int allocate_output(struct mo_instance *instance, const struct mo_node *node, int index,
                           struct mo_value *out) {
    int id = node->out[index];
    int64_t count = mo_shape_count(&out->shape), bytes;
    const char *name = instance->plan->graph->tensors[id]->name;
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)mo_dtype_bytes(out->dtype), &bytes))
        return mo_fail(&instance->err, MOIRE_ESHAPE, "node '%s' (%s): output '%s' has no definite shape",
                       node->name, node->op_type, name);
    if (bytes > instance->env->limits.tensor_bytes)
        return mo_fail(&instance->err, MOIRE_ELIMIT, "tensor '%s' is too large (limit tensor_bytes)", name);
    if (instance->owned[id]) mo_free(instance->env, instance->owned[id]);
    instance->owned[id] = mo_alloc(instance->env, (size_t)bytes + 64);
    if (!instance->owned[id]) {
        instance->value[id] = mo_tensor_value(instance->plan->graph->tensors[id]);
        return mo_fail(&instance->err, MOIRE_ENOMEM, "out of memory for '%s' (%lld bytes)", name,
                       (long long)bytes);
    }
    out->data = instance->owned[id];
    instance->value[id] = *out;
    return MOIRE_OK;
}

void mo_dynamic_take(struct mo_instance *instance, const struct mo_op_ctx *ctx, int rc) {
    for (int i = 0; i < ctx->n_out; i++) {
        const int id = ctx->node->out[i];
        if (id < 0 || rc) {
            mo_free(instance->env, ctx->out[i].data);
            continue;
        }
        if (instance->owned[id]) mo_free(instance->env, instance->owned[id]);
        instance->owned[id] = ctx->out[i].data;
        instance->value[id] = ctx->out[i];
    }
}

struct mo_op_ctx mo_dynamic_operands(struct mo_instance *instance, const struct mo_node *node) {
    const struct mo_op_ctx ctx = mo_instance_operands(instance, node);
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) instance->io[i] = instance->value[node->in[i]];
    for (int i = 0; i < node->n_out; i++)
        ctx.out[i] = (struct mo_value){.shape.rank = -1};
    return ctx;
}

/* The shapes of the outputs from what the inputs hold, and their storage. */
static int make_room(struct mo_instance *instance, const struct mo_op_ctx *ctx) {
    const struct mo_node *node = ctx->node;
    int rc = mo_op_infer(ctx);
    if (rc > 0)
        rc = mo_fail(&instance->err, MOIRE_EFAILED, "node '%s' (%s): its output shape stays unknown",
                     node->name, node->op_type);
    for (int i = 0; !rc && i < node->n_out; i++)
        if (node->out[i] >= 0) rc = allocate_output(instance, node, i, &ctx->out[i]);
    return rc;
}

int mo_dynamic_run(struct mo_instance *instance, const struct mo_step *step) {
    const struct mo_node *node = step->node;
    struct mo_op_ctx ctx = mo_dynamic_operands(instance, node);
    if (node->op->flags & MO_OP_MAKES) {
        const int rc = node->op->run(&ctx);
        mo_dynamic_take(instance, &ctx, rc);
        return rc;
    }
    void *kept = NULL;
    ctx.kept = &kept;
    int rc = make_room(instance, &ctx);
    if (!rc) rc = step->parts ? mo_op_run_parts(&ctx, step->parts) : node->op->run(&ctx);
    mo_free(instance->env, kept);
    return rc;
}

int mo_dynamic_parts(struct mo_instance *instance, const struct mo_step *step, int width) {
    const struct mo_op_parts *parts = step->parts;
    instance->shared = mo_dynamic_operands(instance, step->node);
    int64_t n = make_room(instance, &instance->shared);
    if (!n) n = parts->count(&instance->shared);
    if (n < 0) return instance->rc = (int)n;
    if (!n) return 0;
    instance->parts = parts;
    instance->n_parts = n;
    return (int)(n < PARTS_EACH * width ? n : PARTS_EACH * width);
}
