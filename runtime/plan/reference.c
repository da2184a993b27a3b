/* SPDX-License-Identifier: Apache-2.0
 * reference.c - runs a layer by its operator's plain C.
 *
 * Operators see plain, contiguous tensors.  Where the plan put a blocked tensor or a slice of a concat, a
 * copy stands in: gathered before the operator runs, scattered after.  Slow and always right: the seam that
 * lets any operator stand anywhere in a graph.  One worker at a time. */
#include <string.h>
#include "runtime/ops/control/body.h"
#include "runtime/plan/plan_impl.h"
#include "variants/matrix/matrix.h"

enum direction { GATHER, SCATTER };

static void convert_half(uint16_t *half, float *x, enum direction way) {
    if (way == SCATTER)
        *half = mo_bfloat16(*x);
    else
        *x = mo_bfloat16_wide(*half);
}

/* Copies between a tensor's storage and a plain contiguous buffer. */
static void repack(const struct mo_plan *plan, int id, char *storage, char *plain, enum direction way) {
    const struct mo_tensor *t = plan->graph->tensors[id];
    size_t size = mo_dtype_bytes(t->dtype);
    int64_t images = t->shape.rank > 0 ? t->shape.d[0] : 1;
    int64_t image = images > 0 ? mo_shape_count(&t->shape) / images : 0;
    int64_t channels = t->layout != MO_PLAIN ? t->shape.d[1] : 1, area = channels ? image / channels : 0;
    for (int64_t n = 0; n < images; n++) {
        char *there = storage + n * plan->image[id], *here = plain + n * image * (int64_t)size;
        if (t->layout == MO_PLAIN) {
            memcpy(way == GATHER ? here : there, way == GATHER ? there : here, (size_t)image * size);
            continue;
        }
        for (int64_t c = 0; c < channels; c++)
            for (int64_t p = 0; p < area; p++) {
                char *b = here + (c * area + p) * (int64_t)size;
                int64_t at = (c / 16 * area + p) * 16 + c % 16;
                if (t->layout == MO_C16_HALVES) {
                    convert_half((uint16_t *)there + at, (float *)b, way);
                    continue;
                }
                char *a = there + at * (int64_t)size;
                memcpy(way == GATHER ? b : a, way == GATHER ? a : b, size);
            }
    }
}

static bool needs_copy(const struct mo_plan *plan, int id) {
    const struct mo_tensor *t = plan->graph->tensors[id];
    if (plan->offset[id] < 0) return false;
    if (t->layout != MO_PLAIN) return true;
    return t->shape.rank > 0 && t->shape.d[0] > 1 && plan->image[id] != mo_tensor_image_bytes(t);
}

static int stand_in(struct mo_instance *instance, int slot, int id) {
    int64_t count = mo_shape_count(&instance->io[slot].shape);
    void *plain = mo_alloc(instance->env, (size_t)count * mo_dtype_bytes(instance->io[slot].dtype) + 64);
    if (!plain)
        return mo_fail(&instance->err, MOIRE_ENOMEM, "out of memory for a copy of '%s'",
                       instance->plan->graph->tensors[id]->name);
    instance->temp[slot] = plain;
    instance->io[slot].data = plain;
    return MOIRE_OK;
}

/* Where operand i, inputs first, lies in io and temp. */
static int slot_of(const struct mo_node *node, int i) {
    return i < node->n_in ? i : i + MO_SPARE_OPERANDS;
}

static int gather_io(struct mo_instance *instance, const struct mo_node *node) {
    const struct mo_plan *plan = instance->plan;
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (id >= 0) instance->io[slot_of(node, i)] = instance->value[id];
    }
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in], slot = slot_of(node, i);
        if (id < 0 || !needs_copy(plan, id)) continue;
        char *storage = instance->io[slot].data;
        int rc = stand_in(instance, slot, id);
        if (rc) return rc;
        if (i < node->n_in) repack(plan, id, storage, instance->io[slot].data, GATHER);
    }
    return MOIRE_OK;
}

struct mo_op_ctx mo_instance_operands(struct mo_instance *instance, const struct mo_node *node) {
    const size_t n = (size_t)node->n_in + (size_t)node->n_out + 2 * MO_SPARE_OPERANDS;
    memset(instance->io, 0, n * sizeof *instance->io);
    memset(instance->temp, 0, n * sizeof *instance->temp);
    return (struct mo_op_ctx){.node = node,
                              .env = instance->env,
                              .n_in = node->n_in,
                              .n_out = node->n_out,
                              .in = instance->io,
                              .out = instance->io + slot_of(node, node->n_in),
                              .err = &instance->err,
                              .host = &instance->host};
}

int mo_reference_run(struct mo_instance *instance, const struct mo_step *step) {
    const struct mo_node *node = step->node;
    struct mo_op_ctx ctx = mo_instance_operands(instance, node);
    int rc = gather_io(instance, node);
    if (!rc) rc = step->parts ? mo_op_run_parts(&ctx, step->parts) : mo_run_made(&ctx);
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        void **temp = &instance->temp[slot_of(node, i)];
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (*temp && !rc && i >= node->n_in)
            repack(instance->plan, id, instance->value[id].data, *temp, SCATTER);
        mo_free(instance->env, *temp);
        *temp = NULL;
    }
    return rc;
}
