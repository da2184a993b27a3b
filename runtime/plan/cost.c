/* SPDX-License-Identifier: Apache-2.0
 * cost.c - nominal work and least traffic of a layer; and which layers move nothing at all. */
#include <string.h>
#include "runtime/ops/attention.h"
#include "runtime/plan/plan_impl.h"

static int64_t dim(const struct mo_tensor *t, int i) {
    return t->shape.rank > i && t->shape.d[i] > 0 ? t->shape.d[i] : 1;
}

static int64_t saturating(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX / 4 : product;
}

static int64_t elements(const struct mo_tensor *t) {
    int64_t n = mo_shape_count(&t->shape);
    return n > 0 ? n : 0;
}

/* Every element of the result costs a sum over the keys, and its share of the scores of its query. */
static int64_t attention_macs(const struct mo_graph *graph, const struct mo_node *node) {
    const struct mo_shape *s[3];
    struct mo_attention_view w;
    for (int i = 0; i < 3; i++) {
        if (i >= node->n_in || node->in[i] < 0) return 0;
        s[i] = &graph->tensors[node->in[i]]->shape;
    }
    if (!mo_attention_view_of(node, s[0], s[1], s[2], &w) || w.width < 1) return 0;
    return saturating(w.keys, (w.depth + w.width) / w.width);
}

/* A tensor that an earlier input names too. */
static bool is_repeated(const struct mo_node *node, int i) {
    for (int k = 0; k < i && i < node->n_in; k++)
        if (node->in[k] == node->in[i]) return true;
    return false;
}

/* Multiply-adds behind one output element of the operators that have them; 0 for all others. */
static int64_t macs_each(const struct mo_graph *graph, const struct mo_node *node) {
    if (node->n_in < 2 || node->in[0] < 0 || node->in[1] < 0) return 0;
    const struct mo_tensor *a = graph->tensors[node->in[0]], *b = graph->tensors[node->in[1]];
    if (!strcmp(node->op_type, "Conv") || !strcmp(node->op_type, "ConvTranspose")) {
        bool transposed = node->op_type[4] != 0;
        int64_t taps = transposed ? saturating(dim(b, 0), dim(b, 1)) : dim(b, 1);
        for (int i = 2; i < b->shape.rank; i++)
            taps = saturating(taps, dim(b, i));
        return taps;
    }
    if (!strcmp(node->op_type, "MatMul")) return a->shape.rank > 0 ? dim(a, a->shape.rank - 1) : 1;
    if (!strcmp(node->op_type, "Gemm")) return mo_attr_int(node, "transA", 0) ? dim(a, 0) : dim(a, 1);
    if (!strcmp(node->op_type, "Attention")) return attention_macs(graph, node);
    return 0;
}

void mo_plan_cost(const struct mo_graph *graph, const struct mo_node *node, int64_t *flops, int64_t *bytes) {
    int64_t out = 0, moved = 0;
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (id < 0 || is_repeated(node, i)) continue;
        int64_t size = mo_tensor_bytes(graph->tensors[id]);
        if (size > 0) moved += size;
        if (i >= node->n_in) out += elements(graph->tensors[id]);
    }
    int64_t macs = macs_each(graph, node);
    if (!strcmp(node->op_type, "ConvTranspose") && node->n_in > 1 && macs && node->n_out &&
        node->out[0] >= 0) {
        /* every *input* pixel meets all taps: [IC, OC/g, kh, kw] counted once */
        const struct mo_tensor *x = graph->tensors[node->in[0]];
        int64_t pixels = dim(x, 0);
        for (int i = 2; i < x->shape.rank; i++)
            pixels = saturating(pixels, dim(x, i));
        *flops = saturating(2 * pixels, macs);
    } else {
        *flops = saturating(macs ? 2 * macs : 1, out);
    }
    /* a gather reads what it writes, not its whole table */
    if (!strcmp(node->op_type, "Gather") && node->n_out && node->out[0] >= 0)
        moved = 2 * mo_tensor_bytes(graph->tensors[node->out[0]]);
    *bytes = moved;
}

bool mo_plan_is_view(const struct mo_graph *graph, const struct mo_node *node) {
    bool concat = !strcmp(node->op_type, "Concat");
    if (!node->op || node->n_out < 1 || (!concat && !(node->op->flags & MO_OP_VIEW))) return false;
    for (int i = 0; !concat && i < node->n_out; i++)
        if (node->out[i] < 0 || node->in[0] < 0 || !mo_alias_lies_at(graph, node->out[i], node->in[0], 0))
            return false;
    int64_t before = 0; /* in every image of the concat's output */
    for (int i = 0; concat && i < node->n_in; i++) {
        int in = node->in[i];
        if (in < 0 || node->out[0] < 0 || graph->tensors[in]->alias < 0 ||
            !mo_alias_lies_at(graph, in, node->out[0], before))
            return false;
        before += mo_tensor_image_bytes(graph->tensors[in]);
    }
    return true;
}
