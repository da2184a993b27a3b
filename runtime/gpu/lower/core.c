/* SPDX-License-Identifier: Apache-2.0
 * core.c - a layer that no lowering takes: a core computes it in the midst of the program (core_layer.h). Its
 * operands are dense and of the model's types, whatever the program's precision. */
#include <string.h>
#include "runtime/gpu/core_layer.h"
#include "runtime/gpu/lower/lower.h"

/* Inputs and outputs fit into an operation, and lie in memory as kernels know it. */
static bool fits(const struct mo_lower *l) {
    const struct mo_node *node = l->node;
    int n = 0;
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        const int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (id < 0 || l->graph->tensors[id]->data) continue;
        if (!mo_gpu_memory_type(l->graph->tensors[id]->dtype) || ++n > MO_GPU_ARGS) return false;
    }
    /* what is refused of a Dropout, training, cores refuse too, but only when they run */
    return mo_core_layer_takes(node->op) && !mo_node_is(node, "Dropout");
}

static void add_operand(struct mo_gpu_op *op, const struct mo_gpu_view *v) {
    const int i = op->launch.n_args++;
    op->launch.args[i] = v->place;
    op->core.bytes[i] = mo_gpu_count(v) * (int64_t)mo_dtype_bytes(v->dtype);
}

static void operands(struct mo_lower *l, struct mo_gpu_op *core, struct mo_gpu_view *made) {
    const struct mo_node *node = l->node;
    for (int i = 0; i < node->n_in && !l->rc; i++) {
        const struct mo_tensor *t = node->in[i] < 0 ? NULL : l->graph->tensors[node->in[i]];
        if (!t || t->data) continue;
        const struct mo_gpu_view v = mo_lower_ordered(l, mo_lower_in(l, i), NULL, t->dtype);
        if (!l->rc) add_operand(core, &v);
    }
    core->core.n_in = core->launch.n_args;
    for (int k = 0; k < node->n_out && !l->rc; k++) {
        if (node->out[k] < 0) continue;
        const struct mo_tensor *t = l->graph->tensors[node->out[k]];
        made[k] = mo_lower_out(l, k, NULL);
        if (made[k].dtype != t->dtype) /* aside: cores write the model's types */
            made[k] = mo_lower_new(l, t->dtype, t->shape.rank, t->shape.d, NULL);
        if (!l->rc) add_operand(core, &made[k]);
    }
}

bool mo_lower_core(struct mo_lower *l) {
    struct mo_gpu_op core = {.kind = MO_GPU_CORE, .launch = {.kernel = -1}};
    struct mo_gpu_view made[MO_GPU_ARGS];
    size_t bytes;
    if (l->rc || l->node->n_out > MO_GPU_ARGS || !fits(l)) return false;
    core.core.layer = mo_core_layer_pack(l->graph, l->node, l->program->region, &bytes);
    core.core.layer_bytes = (int64_t)bytes;
    if (!core.core.layer) return false;
    operands(l, &core, made);
    struct mo_gpu_op *op = mo_lower_op(l, MO_GPU_CORE);
    if (!op) return true;
    op->core = core.core;
    op->launch = core.launch;
    for (int i = 0; i < op->launch.n_args; i++)
        mo_lower_use(l, op->launch.args[i]);
    for (int k = 0; k < l->node->n_out && !l->rc; k++) {
        if (l->node->out[k] < 0) continue;
        const struct mo_gpu_view y = l->views[l->node->out[k]];
        if (memcmp(&y.place, &made[k].place, sizeof y.place) != 0) mo_lower_copy(l, &made[k], &y);
    }
    return true;
}
