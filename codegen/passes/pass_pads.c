/* SPDX-License-Identifier: Apache-2.0
 * pass_pads.c - two passes over padding.
 *
 * explicit_pads: shapes are static, so auto_pad of conv and pool becomes a pads attribute; kernels then know
 * one form. absorb_pad: a Pad by zeros around the spatial axes disappears into the conv or pool that alone
 * reads it.  An average pool then counts the padding, as it did; a max pool takes it only where zeros cannot
 * win: the padded value is -inf, or the input is known not to be negative and every window meets the input.
 */
#include <math.h>
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

enum { SPATIAL = MOIRE_MAX_RANK - 2 };

struct window {
    int n; /* spatial dimensions */
    int64_t k[SPATIAL], stride[SPATIAL], dilation[SPATIAL], pads[2 * SPATIAL];
};

static bool is_pool(const struct mo_node *node) {
    return mo_is(node, "MaxPool") || mo_is(node, "AveragePool") || mo_is(node, "LpPool");
}

static bool read_window(const struct mo_graph *g, const struct mo_node *node, struct window *w) {
    const struct mo_tensor *x = mo_node_in(g, node, 0),
                           *weights = mo_is(node, "Conv") ? mo_node_in(g, node, 1) : NULL;
    if (!mo_is(node, "Conv") && !is_pool(node)) return false;
    if (!x || x->dynamic || x->shape.rank < 3) return false;
    w->n = x->shape.rank - 2;
    if (weights && weights->shape.rank != w->n + 2) return false;
    bool ok =
        mo_ints_or(node, "kernel_shape", 1, w->k, w->n) && mo_ints_or(node, "strides", 1, w->stride, w->n) &&
        mo_ints_or(node, "dilations", 1, w->dilation, w->n) && mo_ints_or(node, "pads", 0, w->pads, 2 * w->n);
    for (int i = 0; weights && i < w->n; i++)
        w->k[i] = weights->shape.d[2 + i];
    return ok;
}

int mo_pass_explicit_pads(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        struct window w;
        const char *mode = mo_attr_string(node, "auto_pad", "NOTSET");
        if (!strcmp(mode, "NOTSET") || !read_window(g, node, &w)) continue;
        const struct mo_shape *in = &g->tensors[node->in[0]]->shape, *out = &g->tensors[node->out[0]]->shape;
        for (int d = 0; d < w.n; d++) {
            int64_t total =
                (out->d[2 + d] - 1) * w.stride[d] + (w.k[d] - 1) * w.dilation[d] + 1 - in->d[2 + d];
            if (total < 0 || !strcmp(mode, "VALID")) total = 0;
            w.pads[d] = !strcmp(mode, "SAME_LOWER") ? total - total / 2 : total / 2;
            w.pads[w.n + d] = total - w.pads[d];
        }
        int rc = mo_set_ints(g, node, "pads", w.pads, 2 * w.n, err);
        if (!rc) rc = mo_set_string(g, node, "auto_pad", "NOTSET", err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* Amounts of a constant-mode Pad with static arguments; negative ones crop and are not taken. */
static bool read_pad(const struct mo_graph *g, const struct mo_node *node, int64_t *pads, float *value) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *amounts = mo_node_in(g, node, 1);
    *value = mo_attr_float(node, "value", 0);
    if (!mo_is(node, "Pad") || !mo_is_f32(x) || strcmp(mo_attr_string(node, "mode", "constant"), "constant"))
        return false;
    if (node->n_in > 3 && node->in[3] >= 0) return false; /* axes: opset 18 */
    if (mo_node_in(g, node, 2) && !mo_scalar(g, node->in[2], value)) return false;
    int want = 2 * x->shape.rank;
    if (node->n_in < 2) {
        if (mo_attr_ints(node, "pads", pads, want) != want) return false;
    } else {
        if (!amounts || !amounts->data || amounts->dtype != MOIRE_I64 ||
            mo_shape_count(&amounts->shape) != want)
            return false;
        memcpy(pads, amounts->data, (size_t)want * sizeof *pads);
    }
    for (int i = 0; i < want; i++)
        if (pads[i] < 0 || pads[i] > 1 << 20) return false;
    int r = x->shape.rank;
    return r >= 3 && !pads[0] && !pads[1] && !pads[r] && !pads[r + 1];
}

static bool never_negative(const struct mo_graph *g, int tensor) {
    const struct mo_node *p = mo_producer(g, tensor);
    if (mo_is(p, "Relu") || mo_is(p, "Sigmoid")) return true;
    if (!p || p->fuse.residual_last) return false;
    return p->fuse.act == MO_ACT_RELU || p->fuse.act == MO_ACT_SIGMOID || p->fuse.act == MO_ACT_HSIGMOID ||
           (p->fuse.act == MO_ACT_CLIP && p->fuse.a >= 0);
}

static bool may_take(const struct mo_graph *g, const struct mo_node *node, const struct window *w, int source,
                     float value) {
    if (mo_is(node, "Conv")) return value == 0;
    if (mo_attr_int(node, "ceil_mode", 0)) return false;
    for (int d = 0; d < w->n; d++)
        if (w->pads[d] >= w->k[d] || w->pads[w->n + d] >= w->k[d]) return false;
    if (mo_is(node, "MaxPool"))
        return node->n_out == 1 && (value == -INFINITY || (value == 0 && never_negative(g, source)));
    return mo_is(node, "AveragePool") && value == 0;
}

static int take(struct mo_graph *g, struct mo_node *pad, struct mo_node *node, const struct window *w,
                moire_error *err) {
    struct mo_attr *count = NULL;
    int rc = mo_set_ints(g, node, "pads", w->pads, 2 * w->n, err);
    if (rc) return rc;
    if (mo_is(node, "AveragePool") && !mo_attr_int(node, "count_include_pad", 0)) {
        for (int i = 0; i < node->n_attrs; i++) /* given as 0 */
            if (!strcmp(node->attrs[i].name, "count_include_pad")) count = &node->attrs[i];
        if (!count) count = mo_node_add_attr(g, node, "count_include_pad", MO_ATTR_INT);
        if (!count) return mo_no_memory(err);
        count->type = MO_ATTR_INT;
        count->i = 1;
    }
    node->in[0] = pad->in[0];
    pad->dead = true;
    return MOIRE_OK;
}

int mo_pass_absorb_pad(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *pad = g->nodes[i];
        int64_t amounts[2 * MOIRE_MAX_RANK];
        float value;
        struct window w;
        if (!read_pad(g, pad, amounts, &value)) continue;
        struct mo_node *node = mo_graph_sole_consumer(g, pad->out[0]);
        if (!node || node->in[0] != pad->out[0] || !read_window(g, node, &w)) continue;
        bool own = false;
        for (int d = 0; d < w.n; d++) {
            own = own || w.pads[d] || w.pads[w.n + d];
            w.pads[d] += amounts[2 + d];
            w.pads[w.n + d] += amounts[2 + w.n + 2 + d];
        }
        if (own && !mo_is(node, "Conv")) continue;
        if (!may_take(g, node, &w, pad->in[0], value)) continue;
        int rc = take(g, pad, node, &w, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
