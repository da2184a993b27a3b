/* SPDX-License-Identifier: Apache-2.0
 * concat.c - concatenation: producers write where the result lies; what cannot is brought there in one
 * launch.
 *
 * Before anything is lowered, tensors that only one concatenation over channels reads, and whose producer
 * writes with any stride (products, generated kernels), get their places: mo_lower_out() hands out a slice of
 * the result then.  Libraries' convolutions write dense maps; those are copied. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

enum { ALIGN = 16 }; /* bytes, of a slice: what vectors and products want */

static bool writes_anywhere(struct mo_lower *l, const struct mo_node *node) {
    static const char *const plain[] = {"MaxPool", "AveragePool", "Concat", "Resize", "BatchNormalization"};
    if (!strcmp(node->op_type, "Conv")) return mo_lower_conv_strides(l, node);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(plain[i], node->op_type)) return true;
    return !strcmp(node->op_type, "Fused") || mo_gpu_is_step(node);
}

/* The node that makes each tensor, when one place reads it; -1: none, or several do. */
static int *sole_producers(struct mo_lower *l) {
    const struct mo_graph *g = l->graph;
    int *of = mo_region_array(l->program->region, (size_t)g->n_tensors + 1, sizeof *of);
    int *uses = of ? mo_region_array(l->program->region, (size_t)g->n_tensors + 1, sizeof *uses) : NULL;
    if (!uses) return NULL;
    for (int i = 0; i < g->n_tensors; i++)
        of[i] = -1;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        for (int k = 0; k < node->n_out && !node->dead; k++)
            if (node->out[k] >= 0) of[node->out[k]] = i;
        for (int k = 0; k < node->n_in && !node->dead; k++)
            if (node->in[k] >= 0) uses[node->in[k]]++;
    }
    for (int i = 0; i < g->n_outputs; i++)
        uses[g->outputs[i]] += 2;
    for (int i = 0; i < g->n_tensors; i++)
        if (uses[i] != 1) of[i] = -1;
    return of;
}

static void plan_one(struct mo_lower *l, const struct mo_node *node, const int *producer) {
    const struct mo_tensor *y = l->graph->tensors[node->out[0]];
    const int64_t bytes = (int64_t)mo_dtype_bytes(mo_lower_dtype(l, y->dtype));
    int64_t axis = mo_attr_int(node, "axis", 1), at = 0;
    if (y->shape.rank != 4 || (axis != 1 && axis != -3) || y->dynamic || y->shape.d[1] * bytes % ALIGN)
        return;
    for (int i = 0; i < node->n_in; i++) {
        const int t = node->in[i], from = t >= 0 ? producer[t] : -1;
        if (t < 0 || l->graph->tensors[t]->shape.rank != 4) return;
        if (from >= 0 && at * bytes % ALIGN == 0 && l->graph->nodes[from]->out[0] == t &&
            writes_anywhere(l, l->graph->nodes[from]))
            l->into[t] = (struct mo_gpu_into){.whole = node->out[0] + 1, .at = at};
        at += l->graph->tensors[t]->shape.d[1];
    }
}

void mo_lower_plan_concats(struct mo_lower *l) {
    const struct mo_graph *g = l->graph;
    int *producer = l->rc ? NULL : sole_producers(l);
    l->into =
        producer ? mo_region_array(l->program->region, (size_t)g->n_tensors + 1, sizeof *l->into) : NULL;
    if (!l->into) {
        mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
        return;
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead && !strcmp(g->nodes[i]->op_type, "Concat")) plan_one(l, g->nodes[i], producer);
}

/* Where a tensor lies that has a place in a concatenation, or is one; made when first asked for. */
static struct mo_gpu_view place_of(struct mo_lower *l, int tensor) {
    const struct mo_tensor *t = l->graph->tensors[tensor];
    const struct mo_gpu_into *into = &l->into[tensor];
    if (l->views[tensor].rank >= 0 || l->rc) return l->views[tensor];
    if (into->whole) {
        const struct mo_gpu_view whole = place_of(l, into->whole - 1);
        if (l->rc) return whole;
        return l->views[tensor] = mo_gpu_slice(&whole, 1, into->at, t->shape.d[1], 1);
    }
    return l->views[tensor] =
               mo_lower_new(l, mo_lower_dtype(l, t->dtype), 4, t->shape.d, mo_gpu_channels_last(4));
}

bool mo_lower_placed(struct mo_lower *l, int tensor, struct mo_gpu_view *out) {
    if (l->rc || !l->into || !l->into[tensor].whole) return false;
    *out = place_of(l, tensor);
    return true;
}

/* --- the operator --------------------------------------------------------------------------------------- */

struct part {
    struct mo_gpu_view x;
    int64_t at;
};

/* Parts [0, n) of y in one launch; they need not lie beside one another. */
static void copy_parts(struct mo_lower *l, const struct mo_gpu_view *y, const struct part *parts, int n,
                       int axis) {
    char name[MO_EACH_ARGS][32];
    const char *at[MO_VIEW_RANK];
    struct mo_gpu_view over = *y;
    struct mo_each e;
    int64_t sum = 0;
    over.d[axis] = 0;
    for (int i = 0; i < n; i++)
        over.d[axis] += parts[i].x.d[axis];
    mo_each_init(l, &e, &over);
    for (int i = 0; i < n; i++)
        mo_each_arg(&e, &parts[i].x, false);
    const int out = mo_each_arg(&e, y, true);
    mo_gpu_printf(&e.body, "    %s r;\n    int to;\n    ", mo_gpu_value_type(e.arg[0].dtype));
    memcpy(at, mo_each_here, sizeof at);
    for (int i = 0; i < n; i++) {
        const int64_t end = sum + parts[i].x.d[axis];
        snprintf(name[i], sizeof name[i], "o%d - %lld", axis, (long long)sum);
        at[axis] = name[i];
        if (i < n - 1) mo_gpu_printf(&e.body, "if (o%d < %lld) ", axis, (long long)end);
        mo_gpu_printf(&e.body, "{\n        r = ");
        mo_each_value(&e, i, at);
        mo_gpu_printf(&e.body, ";\n        to = o%d + (%lld);\n    }%s", axis, (long long)(parts[i].at - sum),
                      i < n - 1 ? " else " : "\n");
        sum = end;
    }
    at[axis] = "to";
    mo_each_store(&e, out, at, "r");
    e.flops = 0;
    mo_each_done(l, &e);
}

void mo_lower_concat(struct mo_lower *l) {
    struct part parts[MO_EACH_ARGS];
    struct mo_gpu_view first = mo_lower_in(l, 0), y;
    int order[MO_VIEW_RANK], n = 0;
    int64_t at = 0, axis = mo_attr_int(l->node, "axis", 1);
    if (l->rc) return;
    if (axis < 0) axis += first.rank;
    y = l->views[l->node->out[0]]; /* there when a producer wrote into it */
    mo_gpu_order_of(&first, order);
    if (y.rank < 0) y = mo_lower_out(l, 0, order);
    for (int i = 0; i < l->node->n_in && !l->rc; i++) {
        const struct mo_gpu_view x = mo_lower_in(l, i);
        if (l->rc) return;
        const int t = l->node->in[i];
        if (!l->into[t].whole || l->into[t].whole != l->node->out[0] + 1)
            parts[n++] = (struct part){.x = x, .at = at};
        at += x.d[axis];
        if (n == MO_EACH_ARGS - 1 || (n && i == l->node->n_in - 1)) {
            copy_parts(l, &y, parts, n, (int)axis);
            n = 0;
        }
    }
}
