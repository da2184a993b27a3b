/* SPDX-License-Identifier: Apache-2.0
 * signature.c - the canonical text of a layer: the name under which its variants are stored and shared.
 *
 * Two layers with the same signature can run the same machine code: it holds everything static that may
 * shape the code and nothing else.  Weights, tensor names and node names are no part of it, so no byte of
 * a model reaches the store or emitted C, and equal layers of different models share one variant.
 * Parameters of the epilogue are written as hexadecimal floats: exact, and the same in every locale.
 *
 *   conv:f32:n1:c64:h56:w56:o64:k3x3:s1x1:p1,1,1,1:d1x1:g1:relu:c16>c16
 *   gemm:f32:m128:k768:n3072:gelu:res-plain:plain>plain
 *
 *   gemm:f32:i2:m8:k16:n16:none:plain>plain           two images of 8 rows, one of the tensors is a slice
 *   gemm:f32:m16:k16:n5:x48:none:plain>plain          rows of the left operand begin 48 floats apart
 *   conv:u8>i8:n1:c64:...:g1:fill:c16>c16             of 8-bit numbers; pads hold a zero point that is not 0
 *   gemm:u8>f32:m128:k768:n3072:plain>plain           likewise
 *
 * Where a tensor lies is the business of mo_kargs, but for the rows of a product, whose strides kernels have
 * built in (matmul_rows.h).  A layer that could go by Winograd's or Strassen's algorithm but must not
 * (graph->exact) ends in ":exact": its variants are others. */
#include "runtime/base/text.h"
#include "variants/conv_geometry.h"
#include "variants/matmul_rows.h"
#include "variants/matrix/matrix_walk.h"

#include <string.h>

static const char *const layout_names[] = {[MO_PLAIN] = "plain", [MO_C16] = "c16", [MO_C16_HALVES] = "c16h"};

/* Name of an activation and how many of its parameters (a, b) count. */
static const struct {
    const char *name;
    int params;
} acts[MO_ACT_COUNT] = {
    [MO_ACT_NONE] = {"none", 0},         [MO_ACT_RELU] = {"relu", 0},          [MO_ACT_CLIP] = {"clip", 2},
    [MO_ACT_LEAKY] = {"leaky", 1},       [MO_ACT_SIGMOID] = {"sigmoid", 0},    [MO_ACT_SILU] = {"silu", 0},
    [MO_ACT_HSIGMOID] = {"hsigmoid", 2}, [MO_ACT_HSWISH] = {"hswish", 2},      [MO_ACT_TANH] = {"tanh", 0},
    [MO_ACT_GELU] = {"gelu", 0},         [MO_ACT_GELU_TANH] = {"gelutanh", 0},
};

/* A float tensor whose every dimension is known and positive. */
static bool solid(const struct mo_tensor *t, int min_rank, int max_rank) {
    if (!t || t->dtype != MOIRE_F32 || t->dynamic) return false;
    if (t->shape.rank < min_rank || t->shape.rank > max_rank) return false;
    for (int i = 0; i < t->shape.rank; i++)
        if (t->shape.d[i] < 1) return false;
    return mo_shape_count(&t->shape) > 0;
}

/* Absent, or a constant vector of n floats (leading dimensions of 1 allowed). */
static bool bias_fits(const struct mo_tensor *bias, int64_t n) {
    if (!bias) return true;
    if (!bias->data || !solid(bias, 1, MOIRE_MAX_RANK)) return false;
    return mo_shape_count(&bias->shape) == n && bias->shape.d[bias->shape.rank - 1] == n;
}

static bool put_epilogue(struct mo_text *t, const struct mo_graph *graph, const struct mo_node *node,
                         const struct mo_tensor *in, const struct mo_tensor *out) {
    const struct mo_fuse *f = &node->fuse;
    if (f->act < 0 || f->act >= MO_ACT_COUNT) return false;
    mo_text_put(t, ":%s", acts[f->act].name);
    if (acts[f->act].params == 1) mo_text_put(t, "(%a)", (double)f->a);
    if (acts[f->act].params == 2) mo_text_put(t, "(%a,%a)", (double)f->a, (double)f->b);
    if (f->residual >= 0) {
        const struct mo_tensor *r = mo_node_in(graph, node, f->residual);
        if (!solid(r, 1, MOIRE_MAX_RANK) || !mo_shape_equal(&r->shape, &out->shape)) return false;
        mo_text_put(t, ":%s-%s", f->residual_last ? "reslast" : "res", layout_names[r->layout]);
    }
    mo_text_put(t, ":%s>%s", layout_names[in->layout], layout_names[out->layout]);
    return true;
}

/* Two ints of an attribute, both `fallback` when it is absent; false when it has another length. */
static bool pair(const struct mo_node *node, const char *name, int64_t fallback, int64_t out[2]) {
    out[0] = out[1] = fallback;
    int n = mo_attr_ints(node, name, out, 2);
    return n == -1 || n == 2;
}

static bool conv_pads(const struct mo_node *node, const struct mo_tensor *x, const struct mo_tensor *y,
                      const int64_t k[2], const int64_t s[2], const int64_t d[2], int64_t p[4]) {
    memset(p, 0, 4 * sizeof *p);
    const char *mode = mo_attr_string(node, "auto_pad", "NOTSET");
    if (!strcmp(mode, "VALID")) return true;
    if (!strcmp(mode, "SAME_UPPER") || !strcmp(mode, "SAME_LOWER")) {
        for (int i = 0; i < 2; i++)
            mo_same_pads(x->shape.d[2 + i], y->shape.d[2 + i], k[i], s[i], d[i], !strcmp(mode, "SAME_UPPER"),
                         &p[i], &p[2 + i]);
        return true;
    }
    int n = mo_attr_ints(node, "pads", p, 4);
    return n == -1 || n == 4;
}

static bool put_gate(struct mo_text *t, const struct mo_tensor *gate, const struct mo_tensor *x) {
    mo_text_put(t, ":gated");
    return solid(gate, 4, 4) && gate->shape.d[0] == x->shape.d[0] && gate->shape.d[1] == x->shape.d[1] &&
           gate->shape.d[2] * gate->shape.d[3] == 1 && gate->layout == x->layout && !gate->data;
}

/* Whether a filter has a form of Winograd's. */
static bool may_winograd(const int64_t k[2], const int64_t s[2], const int64_t d[2]) {
    int64_t longer = k[0] > k[1] ? k[0] : k[1];
    if (s[0] != s[1] || s[0] > 2) return false;
    if (s[0] == 2) return k[0] == 3 && k[1] == 3 && d[0] == 1 && d[1] == 1;
    if (k[0] == k[1]) return longer == 3 || longer == 5;
    return (k[0] == 1 || k[1] == 1) && (longer == 3 || longer == 5 || longer == 7);
}

static bool conv_signature(const struct mo_graph *graph, const struct mo_node *node, struct mo_text *t) {
    const struct mo_tensor *x = mo_node_in(graph, node, 0), *w = mo_node_in(graph, node, 1);
    const struct mo_tensor *b = node->fuse.residual == 2 ? NULL : mo_node_in(graph, node, 2);
    const struct mo_tensor *y = mo_node_out(graph, node, 0);
    if (!solid(x, 4, 4) || !solid(w, 4, 4) || !solid(y, 4, 4) || !w->data) return false;
    int64_t k[2], s[2], d[2], p[4], g = mo_attr_int(node, "group", 1);
    k[0] = w->shape.d[2], k[1] = w->shape.d[3];
    if (!pair(node, "strides", 1, s) || !pair(node, "dilations", 1, d)) return false;
    if (!conv_pads(node, x, y, k, s, d, p)) return false;
    if (g < 1 || x->shape.d[1] % g || w->shape.d[1] != x->shape.d[1] / g || w->shape.d[0] != y->shape.d[1])
        return false;
    if (!bias_fits(b, y->shape.d[1])) return false;
    mo_text_put(t, "conv:f32:n%lld:c%lld:h%lld:w%lld:o%lld:k%lldx%lld", (long long)x->shape.d[0],
                (long long)x->shape.d[1], (long long)x->shape.d[2], (long long)x->shape.d[3],
                (long long)y->shape.d[1], (long long)k[0], (long long)k[1]);
    mo_text_put(t, ":s%lldx%lld:p%lld,%lld,%lld,%lld:d%lldx%lld:g%lld", (long long)s[0], (long long)s[1],
                (long long)p[0], (long long)p[1], (long long)p[2], (long long)p[3], (long long)d[0],
                (long long)d[1], (long long)g);
    if (node->fuse.gated && !put_gate(t, mo_node_in(graph, node, MO_GATE_IN), x)) return false;
    bool winograd = g == 1 && may_winograd(k, s, d);
    bool strassen = k[0] == 1 && k[1] == 1 && g == 1;
    if (!put_epilogue(t, graph, node, x, y)) return false;
    if ((winograd || strassen) && graph->exact) mo_text_put(t, ":exact");
    return true;
}

/* Bytes in; out bytes or floats.  Activation and numbers are in mo_kargs.params (small_args.h). */
static bool qconv_signature(const struct mo_graph *graph, const struct mo_node *node, struct mo_text *t) {
    struct mo_conv c;
    struct mo_qconv q;
    if (!mo_qconv_geometry(graph, node, &c, &q) || c.x_zero) return false;
    const char *to = q.to == MOIRE_U8 ? "u8" : q.to == MOIRE_I8 ? "i8" : q.to == MOIRE_F32 ? "f32" : NULL;
    if (!to || (c.rows && !(mo_dense(graph, c.x) && mo_dense(graph, c.y)))) return false;
    if (c.rows) {
        mo_text_put(t, "gemm:u8>%s:m%lld:k%lld:n%lld:%s>%s", to, (long long)c.w, (long long)c.c,
                    (long long)c.o, layout_names[c.x->layout], layout_names[c.y->layout]);
        return true;
    }
    const int64_t groups = c.groups * c.merge;
    mo_text_put(t, "conv:u8>%s:n%lld:c%lld:h%lld:w%lld:o%lld:k%lldx%lld", to, (long long)c.n, (long long)c.c,
                (long long)c.h, (long long)c.w, (long long)c.o, (long long)c.kh, (long long)c.kw);
    mo_text_put(t, ":s%lldx%lld:p%lld,%lld,%lld,%lld:d%lldx%lld:g%lld", (long long)c.sh, (long long)c.sw,
                (long long)c.pt, (long long)c.pl, (long long)c.pb, (long long)c.pr, (long long)c.dh,
                (long long)c.dw, (long long)groups);
    if (q.x_zero && c.pt + c.pl + c.pb + c.pr) mo_text_put(t, ":fill");
    mo_text_put(t, ":%s>%s", layout_names[c.x->layout], layout_names[c.y->layout]);
    return true;
}

/* Images where slices keep them apart, row strides where these are not the rows' own lengths.  A residual is
 * walked with the strides of the result. */
static bool put_rows(struct mo_text *t, const struct mo_product *p, int64_t k, int64_t n) {
    if (p->images > 1) mo_text_put(t, "gemm:f32:i%lld:m%lld", (long long)p->images, (long long)p->rows);
    if (p->images == 1) mo_text_put(t, "gemm:f32:m%lld", (long long)p->rows);
    mo_text_put(t, ":k%lld:n%lld", (long long)k, (long long)n);
    if (p->x_row != k) mo_text_put(t, ":x%lld", (long long)p->x_row);
    if (p->y_row != n) mo_text_put(t, ":y%lld", (long long)p->y_row);
    return p->residual_row == p->y_row;
}

/* Gemm, MatMul and moire.MatMul (which has a bias row) with a constant right operand; leading dimensions of
 * the left one count as rows. */
static bool gemm_signature(const struct mo_graph *graph, const struct mo_node *node, struct mo_text *t) {
    bool gemm = !strcmp(node->op_type, "Gemm");
    const struct mo_tensor *a = mo_node_in(graph, node, 0), *w = mo_node_in(graph, node, 1);
    const struct mo_tensor *c = node->fuse.residual == 2 ? NULL : mo_node_in(graph, node, 2);
    const struct mo_tensor *y = mo_node_out(graph, node, 0);
    struct mo_product rows;
    if (!solid(a, 2, MOIRE_MAX_RANK) || !solid(w, 2, 2) || !solid(y, 2, MOIRE_MAX_RANK) || !w->data)
        return false;
    bool trans_b = gemm && mo_attr_int(node, "transB", 0);
    if (gemm && (mo_attr_int(node, "transA", 0) || mo_attr_float(node, "alpha", 1) != 1 ||
                 (c && mo_attr_float(node, "beta", 1) != 1)))
        return false;
    int64_t k = a->shape.d[a->shape.rank - 1], n = y->shape.d[y->shape.rank - 1];
    if (w->shape.d[trans_b] != k || w->shape.d[!trans_b] != n || !bias_fits(c, n)) return false;
    if (!mo_product_of(graph, node, &rows) || !put_rows(t, &rows, k, n)) return false;
    if (!put_epilogue(t, graph, node, a, y)) return false;
    if (graph->exact) mo_text_put(t, ":exact");
    return true;
}

bool mo_layer_signature(const struct mo_graph *graph, const struct mo_node *node, char *out, size_t n) {
    if (mo_matrix_takes(graph, node)) return false; /* faster in bfloat16 than in any kernel of floats */
    if (mo_product_is_float16(graph, node)) return false;
    if (!n) return false;
    struct mo_text t = mo_text_in(out, n);
    bool ours = !strcmp(node->domain, "moire");
    if (node->n_in < 2 || node->n_out < 1 || (node->domain[0] && !ours)) return false;
    bool ok = false;
    if (!strcmp(node->op_type, "Conv") && !ours) ok = conv_signature(graph, node, &t);
    if (mo_is_qconv(node)) ok = qconv_signature(graph, node, &t);
    if (!strcmp(node->op_type, "MatMul") || (!strcmp(node->op_type, "Gemm") && !ours))
        ok = gemm_signature(graph, node, &t);
    if (!ok || t.cut) out[0] = 0;
    return ok && !t.cut;
}
