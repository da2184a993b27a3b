/* SPDX-License-Identifier: Apache-2.0
 * cost.c - nominal work and least traffic of a layer; and which layers move nothing at all. */
#include <string.h>
#include "runtime/ops/moire/attention.h"
#include "runtime/ops/decoder/scaled_attention.h"
#include "runtime/ops/einsum.h"
#include "runtime/plan/plan_impl.h"

static int64_t dim(const struct mo_tensor *t, int i) {
    return t->shape.rank > i && t->shape.d[i] > 0 ? t->shape.d[i] : 1;
}

/* --- multiply-adds -------------------------------------------------------------------------------------- */
/* Operators that multiply and add, and which of their inputs is the right factor. */
enum form { CONV, CONV_TRANSPOSE, MATMUL, GEMM, ATTENTION, RECURRENT, EINSUM };
struct product {
    const char *op;
    enum form form;
    int right;
};
static const struct product products[] = {
    {"Conv", CONV, 1},
    {"ConvInteger", CONV, 1},
    {"QLinearConv", CONV, 3},
    {"MatMul", MATMUL, 1},
    {"MatMulInteger", MATMUL, 1},
    {"QLinearMatMul", MATMUL, 3},
    {"Gemm", GEMM, 1},
    {"Attention", ATTENTION, 1},
    {"ConvTranspose", CONV_TRANSPOSE, 1},
    {"LSTM", RECURRENT, 1},
    {"GRU", RECURRENT, 1},
    {"RNN", RECURRENT, 1},
    {"Einsum", EINSUM, 0},
    {"QConv", CONV, 1},
    {"QMatMul", MATMUL, 1},
    {"QAttention", ATTENTION, 1},
};

static const struct product *product_of(const struct mo_node *node) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (!strcmp(node->op_type, products[i].op)) return &products[i];
    return NULL;
}

bool mo_plan_multiplies(const struct mo_node *node) {
    return product_of(node) != NULL;
}

/* Product of the dimensions from `first` on. */
static int64_t span(const struct mo_tensor *t, int first) {
    int64_t n = 1;
    for (int i = first; i < t->shape.rank; i++)
        n = mo_cost_times(n, dim(t, i));
    return n;
}

/* The same of ONNX's Attention, where no pass has taken it. */
static int64_t scaled_attention_macs(const struct mo_graph *graph, const struct mo_node *node) {
    struct mo_value in[MO_SDPA_INPUTS] = {0};
    struct mo_sdpa a;
    for (int i = 0; i < node->n_in && i < MO_SDPA_INPUTS; i++) {
        const struct mo_tensor *t = mo_node_in(graph, node, i);
        if (t && t->dynamic) return 0;
        if (t) in[i] = mo_tensor_value(t);
    }
    if (mo_sdpa_of(node, in, &a) || a.width < 1) return 0;
    return mo_cost_times(a.keys, (a.depth + a.width) / a.width);
}

/* Every element of the result costs a sum over the keys, and its share of the scores of its query. */
static int64_t attention_macs(const struct mo_graph *graph, const struct mo_node *node) {
    const struct mo_shape *s[3];
    struct mo_attention_view w;
    if (!*node->domain) return scaled_attention_macs(graph, node);
    for (int i = 0; i < 3; i++) {
        if (i >= node->n_in || node->in[i] < 0) return 0;
        s[i] = &graph->tensors[node->in[i]]->shape;
    }
    if (!mo_attention_view_of(node, s[0], s[1], s[2], &w) || w.width < 1) return 0;
    return mo_cost_times(w.keys, (w.depth + w.width) / w.width);
}

/* All directions: every step of every sequence meets all weights W and R once.  In domain "moire" R is where
 * W was, and the products with W are another layer. */
static int64_t recurrent_macs(const struct mo_graph *graph, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(graph, node, 0), *w = mo_node_in(graph, node, 1),
                           *r = mo_node_in(graph, node, 2);
    if (!x || !w) return 0;
    int64_t each = mo_cost_elements(w) + (r ? mo_cost_elements(r) : 0);
    return mo_cost_times(mo_cost_times(dim(x, 0), dim(x, 1)), each);
}

/* One product for each combination of the labels. */
static int64_t einsum_macs(const struct mo_graph *graph, const struct mo_node *node) {
    struct mo_value in[MO_EINSUM_OPERANDS] = {{0}};
    struct mo_op_ctx ctx = {.node = node, .env = graph->env, .n_in = node->n_in, .in = in};
    struct mo_einsum e;
    int64_t n = 1;
    for (int i = 0; i < node->n_in && i < MO_EINSUM_OPERANDS; i++) {
        const struct mo_tensor *t = mo_node_in(graph, node, i);
        if (!t || mo_cost_elements(t) < 1) return 0;
        in[i] = (struct mo_value){.dtype = t->dtype, .shape = t->shape};
    }
    if (mo_einsum_describe(&ctx, &e)) return 0;
    for (int i = 0; i < e.n_labels; i++)
        n = mo_cost_times(n, e.size[i]);
    return n;
}

/* Multiply-adds of a node whose results have `out` elements; 0 for operators without. */
static int64_t macs_of(const struct mo_graph *graph, const struct mo_node *node, int64_t out) {
    const struct product *p = product_of(node);
    const struct mo_tensor *a = mo_node_in(graph, node, 0), *b = p ? mo_node_in(graph, node, p->right) : NULL;
    if (!p || !a || !b) return 0;
    switch (p->form) {
    case CONV:
        return mo_cost_times(span(b, 1), out);
    case CONV_TRANSPOSE: /* every pixel of the *input* meets all taps of [IC, OC/g, kh, kw], counted once */
        return mo_cost_times(mo_cost_times(dim(a, 0), span(a, 2)), span(b, 0));
    case MATMUL:
        return mo_cost_times(a->shape.rank > 0 ? dim(a, a->shape.rank - 1) : 1, out);
    case GEMM:
        return mo_cost_times(mo_attr_int(node, "transA", 0) ? dim(a, 0) : dim(a, 1), out);
    case ATTENTION:
        return mo_cost_times(attention_macs(graph, node), out);
    case RECURRENT:
        return recurrent_macs(graph, node);
    case EINSUM:
        return einsum_macs(graph, node);
    }
    return 0;
}

/* A tensor that an earlier input names too. */
static bool is_repeated(const struct mo_node *node, int i) {
    for (int k = 0; k < i && i < node->n_in; k++)
        if (node->in[k] == node->in[i]) return true;
    return false;
}

void mo_plan_cost(const struct mo_graph *graph, const struct mo_node *node, int64_t *flops, int64_t *bytes) {
    int64_t out = 0, moved = 0;
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (id < 0 || is_repeated(node, i)) continue;
        int64_t size = mo_tensor_bytes(graph->tensors[id]);
        if (size > 0) moved += size;
        if (i >= node->n_in) out += mo_cost_elements(graph->tensors[id]);
    }
    int64_t macs = macs_of(graph, node, out);
    *flops = macs ? mo_cost_times(2, macs) : out;
    /* a gather or a slice reads what it writes, not its whole table */
    if ((!strcmp(node->op_type, "Gather") || !strcmp(node->op_type, "Slice")) && node->n_out &&
        node->out[0] >= 0)
        moved = 2 * mo_tensor_bytes(graph->tensors[node->out[0]]);
    *bytes = moved;
}

/* Of a Concat all of whose inputs lie in its output: one behind the other there, or in every image. */
static bool is_joined(const struct mo_graph *graph, const struct mo_node *node) {
    const struct mo_tensor *out = mo_node_out(graph, node, 0);
    const int64_t axis = mo_attr_int(node, "axis", 1);
    int64_t before = 0;
    for (int i = 0; i < node->n_in; i++) {
        const struct mo_tensor *in = mo_node_in(graph, node, i);
        if (!in || !out || in->alias < 0 || !mo_alias_lies_at(graph, in->id, out->id, before)) return false;
        const bool images = axis == 0 || axis == -out->shape.rank;
        before += images ? mo_tensor_bytes(in) : mo_tensor_image_bytes(in);
    }
    return true;
}

/* A part that lies in the whole: the pass that placed it there knows that it is the right one. */
static bool is_part(const struct mo_node *node, const struct mo_tensor *out) {
    static const char *const moves[] = {"Slice", "Split", "Transpose"};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (mo_node_is(node, moves[i])) return out->alias == node->in[0];
    return false;
}

bool mo_plan_is_view(const struct mo_graph *graph, const struct mo_node *node) {
    if (!node->op || node->n_out < 1) return false;
    if (mo_node_is(node, "Concat")) return is_joined(graph, node);
    const bool whole = node->op->flags & MO_OP_VIEW;
    for (int i = 0; i < node->n_out; i++) {
        const struct mo_tensor *out = mo_node_out(graph, node, i);
        if (!out || node->n_in < 1 || node->in[0] < 0) return false;
        if (!is_part(node, out) && !(whole && mo_alias_lies_at(graph, out->id, node->in[0], 0))) return false;
    }
    return true;
}
