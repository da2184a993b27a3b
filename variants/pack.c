/* SPDX-License-Identifier: Apache-2.0
 * pack.c - weights from the model's order to the order kernels stream them in (enum mo_packing).
 * One copy of a layer's weights serves every kernel of the same packing, generic or specialised. */
#include "variants/matrix/matrix_shape.h"
#include "variants/strassen_terms.h"
#include "variants/winograd_matrices.h"

#include <string.h>
#include "variants/packed.h"

static int64_t blocks(int64_t channels) {
    return (channels + 15) / 16;
}

/* [group][OC/16][IC/16][KH][KW][16 ic][16 oc]; merged groups leave zeros off the diagonal */
static void pack_conv(const struct mo_conv *c, float *out) {
    const float *w = c->weights->data;
    int64_t taps = c->kh * c->kw, cg = c->cg / c->merge, og = c->og / c->merge;
    for (int64_t o = 0; o < c->o; o++) {
        int64_t group = o / c->og, ob = o % c->og / 16;
        int64_t first = o / og * cg - mo_conv_first_block(c, group) * 16;
        for (int64_t i = 0; i < cg; i++) {
            int64_t ic = first + i;
            float *to = out + (((group * c->ocb + ob) * c->icb + ic / 16) * taps * 16 + ic % 16) * 16 +
                        o % c->og % 16;
            for (int64_t t = 0; t < taps; t++)
                to[t * 256] = w[(o * cg + i) * taps + t];
        }
    }
}

/* [OC/16][IC of a group][KH][KW][16 oc] */
static void pack_groups(const struct mo_conv *c, float *out) {
    const float *w = c->weights->data;
    int64_t taps = c->kh * c->kw, cg = c->cg / c->merge, k = cg * taps;
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t i = 0; i < k; i++)
            out[(o / 16 * k + i) * 16 + o % 16] = w[o * k + i];
}

/* [OC/16][IC][KH][KW][16 oc] */
static void pack_first(const struct mo_conv *c, float *out) {
    const float *w = c->weights->data;
    int64_t k = c->c * c->kh * c->kw;
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t i = 0; i < k; i++)
            out[(o / 16 * k + i) * 16 + o % 16] = w[o * k + i];
}

/* [C/16][KH][KW][16] */
static void pack_depthwise(const struct mo_conv *c, float *out) {
    const float *w = c->weights->data;
    int64_t taps = c->kh * c->kw;
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t t = 0; t < taps; t++)
            out[(o / 16 * taps + t) * 16 + o % 16] = w[o * taps + t];
}

typedef double half_filter[MO_WINO_ALPHA][MO_WINO_TAPS];

/* G g of one filter */
static void transform_rows(const struct mo_winograd *w, const float *filter, half_filter half) {
    memset(half, 0, sizeof(half_filter));
    for (int i = 0; i < w->alpha; i++)
        for (int r = 0; r < w->taps; r++)
            for (int k = 0; k < w->taps; k++)
                half[i][k] += w->g[i][r] * filter[r * w->taps + k];
}

/* u = G g G^T of one filter, to every `step`-th float of out */
static void transform_filter(const struct mo_winograd *w, const float *filter, int64_t step, float *out) {
    half_filter half;
    transform_rows(w, filter, half);
    for (int i = 0; i < w->lines; i++)
        for (int j = 0; j < w->lines; j++) {
            double sum = 0;
            for (int k = 0; k < w->taps; k++)
                sum += half[i][k] * w->g[j][k];
            out[(i * w->lines + j) * step] = (float)sum;
        }
}

/* [OC/16][lines^2][IC/16][16 ic][16 oc] */
static void pack_winograd(const struct mo_conv *c, const struct mo_winograd *w, float *out) {
    const float *filters = c->weights->data;
    int64_t square = w->lines * w->lines, taps = w->taps * w->taps;
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t i = 0; i < c->c; i++)
            transform_filter(w, filters + (o * c->c + i) * taps, c->icb * 256,
                             out + (o / 16 * square * c->icb + i / 16) * 256 + i % 16 * 16 + o % 16);
}

/* [OC/16][alpha][IC/16][16 ic][taps][16 oc] */
static void pack_half(const struct mo_conv *c, const struct mo_winograd *w, float *out) {
    const float *filters = c->weights->data;
    half_filter half;
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t i = 0; i < c->c; i++) {
            transform_rows(w, filters + (o * c->c + i) * w->taps * w->taps, half);
            for (int row = 0; row < w->alpha; row++)
                for (int k = 0; k < w->taps; k++)
                    out[(((o / 16 * w->alpha + row) * c->icb * 16 + i) * w->taps + k) * 16 + o % 16] =
                        (float)half[row][k];
        }
}

/* [OC/16][alpha][IC/16][16 ic][16 oc] of filters of one row or column */
static void pack_lines(const struct mo_conv *c, const struct mo_winograd *w, float *out) {
    const float *filters = c->weights->data;
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t i = 0; i < c->c; i++, filters += w->taps)
            for (int k = 0; k < w->alpha; k++) {
                double sum = 0;
                for (int t = 0; t < w->taps; t++)
                    sum += w->g[k][t] * filters[t];
                out[(((o / 16 * w->alpha + k) * c->icb + i / 16) * 16 + i % 16) * 16 + o % 16] = (float)sum;
            }
}

/* A matrix of weights with its strides, K x N. */
struct right {
    const float *data;
    int64_t k, n, k_stride, n_stride;
    float scale;
};

/* One number of the matrix; what its parts lack to equal sizes counts as zeros. */
static double number_at(const struct right *b, int64_t row, int64_t column) {
    bool there = row < b->k && column < b->n;
    return there ? b->scale * b->data[row * b->k_stride + column * b->n_stride] : 0;
}

typedef double sixteen[16]; /* columns of a block */

/* The sum of right[q] x part[q] to 16 floats. */
static void combine(const int8_t *right, const sixteen *part, int parts, float *to) {
    sixteen sum = {0};
    for (int q = 0; q < parts; q++)
        for (int i = 0; i < 16 && right[q]; i++)
            sum[i] += right[q] * part[q][i];
    for (int i = 0; i < 16; i++)
        to[i] = (float)sum[i];
}

/* [N/columns/panel][products][K/depth][panel * 16 n] of blocks of 16; the last panel has the blocks that are
 * left. */
static void pack_strassen(const struct right *b, const struct mo_strassen_packing *packing, float *out) {
    const struct mo_strassen_scheme *s = packing->scheme;
    int64_t kh = mo_strassen_blocks(blocks(b->k), s->depth) * 16, panel = packing->panel * 16;
    int64_t nh = mo_strassen_blocks(blocks(b->n), s->columns) * 16, parts = s->depth * s->columns;
    for (int64_t k = 0; k < kh; k++)
        for (int64_t n = 0; n < nh; n += 16) {
            int64_t first = n / panel * panel, width = nh - first < panel ? nh - first : panel;
            sixteen part[MO_STRASSEN_DEPTH * MO_STRASSEN_COLUMNS] = {0};
            for (int64_t i = 0; i < parts * 16; i++)
                part[i / 16][i % 16] =
                    number_at(b, k + i / 16 / s->columns * kh, n + i % 16 + i / 16 % s->columns * nh);
            for (int64_t p = 0; p < s->products; p++)
                combine(s->right[p], part, (int)parts,
                        out + s->products * first * kh + (p * kh + k) * width + n - first);
        }
}

/* Dilation does not change what a filter becomes; strides do. */
static bool fits_winograd(const struct mo_winograd *w, const struct mo_conv *c) {
    int64_t kh = w->taps, kw = w->taps;
    if (w->line) kh = c->kw == 1 ? kh : 1, kw = c->kw == 1 ? 1 : kw;
    return c->groups * c->merge == 1 && c->kh == kh && c->kw == kw && c->sh == w->stride &&
           c->sw == w->stride && (w->stride == 1 || (c->dh == 1 && c->dw == 1));
}

static bool fits(enum mo_packing packing, const struct mo_conv *c) {
    int64_t groups = c->groups * c->merge;
    struct mo_winograd w;
    struct mo_strassen_packing strassen;
    if (mo_winograd_of(packing, &w)) return fits_winograd(&w, c);
    if (mo_strassen_of(packing, &strassen)) return groups == 1 && c->kh == 1 && c->kw == 1 && c->c % 16 == 0;
    switch (packing) {
    case MO_PACK_CONV16:
        return !c->depthwise;
    case MO_PACK_GROUPS16:
        return !c->depthwise && groups > 1;
    case MO_PACK_FIRST16:
        return groups == 1;
    case MO_PACK_DW16:
        return c->depthwise;
    case MO_PACK_MATRIX_HALVES:
    case MO_PACK_MATRIX_FLOATS:
        return !c->depthwise;
    default:
        return false;
    }
}

static int64_t strassen_floats(const struct mo_strassen_packing *packing, int64_t k, int64_t n) {
    const struct mo_strassen_scheme *s = packing->scheme;
    return s->products * 256 * mo_strassen_blocks(blocks(k), s->depth) *
           mo_strassen_blocks(blocks(n), s->columns);
}

static bool is_matrix(enum mo_packing packing) {
    return packing == MO_PACK_MATRIX_HALVES || packing == MO_PACK_MATRIX_FLOATS;
}

static bool matrix_shape(enum mo_packing packing, const struct mo_conv *c, struct mo_matrix_shape *shape) {
    const enum mo_matrix_type type = packing == MO_PACK_MATRIX_HALVES ? MO_MATRIX_HALVES : MO_MATRIX_FLOATS;
    return mo_matrix_shape_of(c, type, mo_matrix_narrow(c), shape);
}

/* For a matrix unit: weights are data[o * o_stride + channel * c_stride + tap] * scale. */
static int64_t matrix_floats(enum mo_packing packing, const struct mo_conv *c) {
    struct mo_matrix_shape shape;
    return matrix_shape(packing, c, &shape) ? mo_matrix_weight_bytes(&shape, c) / 4 : -1;
}

static void pack_matrix(enum mo_packing packing, const struct mo_conv *c,
                        const struct mo_matrix_filter *filter, float *out) {
    struct mo_matrix_shape shape;
    if (matrix_shape(packing, c, &shape)) mo_matrix_pack(&shape, c, filter, (char *)out, NULL);
}

static void pack_matrix_filter(enum mo_packing packing, const struct mo_conv *c, float *out) {
    const int64_t taps = c->kh * c->kw;
    pack_matrix(packing, c, &(struct mo_matrix_filter){c->weights->data, c->cg / c->merge * taps, taps, 1},
                out);
}

static void pack_matrix_right(enum mo_packing packing, const struct right *b, float *out) {
    struct mo_conv c;
    mo_matrix_product(b->k, b->n, &c);
    pack_matrix(packing, &c, &(struct mo_matrix_filter){b->data, b->n_stride, b->k_stride, b->scale}, out);
}

int64_t mo_filter_floats(enum mo_packing packing, const struct mo_conv *c) {
    int64_t taps = c->kh * c->kw;
    struct mo_winograd w;
    struct mo_strassen_packing strassen;
    if (!fits(packing, c)) return -1;
    if (mo_winograd_of(packing, &w)) return c->ocb * mo_winograd_floats(&w) * c->icb * 256;
    if (packing == MO_PACK_CONV16) return c->groups * c->ocb * c->icb * taps * 256;
    if (packing == MO_PACK_GROUPS16) return blocks(c->o) * (c->cg / c->merge) * taps * 16;
    if (packing == MO_PACK_FIRST16) return blocks(c->o) * c->c * taps * 16;
    if (mo_strassen_of(packing, &strassen)) return strassen_floats(&strassen, c->c, c->o);
    if (is_matrix(packing)) return matrix_floats(packing, c);
    return blocks(c->o) * taps * 16;
}

void mo_pack_filter(enum mo_packing packing, const struct mo_conv *c, float *out) {
    struct mo_winograd m;
    struct mo_strassen_packing strassen;
    if (packing == MO_PACK_CONV16) pack_conv(c, out);
    if (packing == MO_PACK_GROUPS16) pack_groups(c, out);
    if (packing == MO_PACK_FIRST16) pack_first(c, out);
    if (packing == MO_PACK_DW16) pack_depthwise(c, out);
    if (is_matrix(packing)) pack_matrix_filter(packing, c, out);
    if (mo_strassen_of(packing, &strassen))
        pack_strassen(&(struct right){c->weights->data, c->c, c->o, 1, c->c, 1}, &strassen, out);
    if (mo_winograd_of(packing, &m)) (m.line ? pack_lines : m.half ? pack_half : pack_winograd)(c, &m, out);
}

/* The right operand of Gemm and MatMul as K x N, with its strides. */
struct gemm {
    const struct mo_tensor *b, *c;
    int64_t k, n, k_stride, n_stride;
    float alpha, beta;
};

static bool gemm_read(const struct mo_graph *graph, const struct mo_node *node, struct gemm *g) {
    bool gemm = !strcmp(node->op_type, "Gemm");
    bool ours = !gemm && !strcmp(node->domain, "moire"); /* MatMul with a bias row */
    if ((!gemm && strcmp(node->op_type, "MatMul")) || (node->domain[0] && !ours) || node->n_in < 2 ||
        node->in[1] < 0)
        return false;
    g->b = graph->tensors[node->in[1]];
    g->c =
        node->n_in > 2 && node->in[2] >= 0 && node->fuse.residual != 2 ? graph->tensors[node->in[2]] : NULL;
    if (g->b->dtype != MOIRE_F32 || !g->b->data || g->b->shape.rank != 2) return false;
    bool trans = gemm && mo_attr_int(node, "transB", 0);
    g->k = g->b->shape.d[trans], g->n = g->b->shape.d[!trans];
    g->k_stride = trans ? 1 : g->n, g->n_stride = trans ? g->k : 1;
    g->alpha = gemm ? mo_attr_float(node, "alpha", 1) : 1;
    g->beta = gemm ? mo_attr_float(node, "beta", 1) : 1;
    if (g->k < 1 || g->n < 1) return false;
    if (!g->c) return true;
    int64_t count = mo_shape_count(&g->c->shape);
    bool row = g->c->shape.rank > 0 && g->c->shape.d[g->c->shape.rank - 1] == count;
    return g->c->data && g->c->dtype == MOIRE_F32 && (count == 1 || (count == g->n && row));
}

/* [N/16][K][16 n], scaled by alpha */
static void pack_gemm(const struct gemm *g, float *out) {
    const float *b = g->b->data;
    for (int64_t nb = 0; nb < blocks(g->n); nb++)
        for (int64_t k = 0; k < g->k; k++)
            for (int64_t n = nb * 16; n < nb * 16 + 16 && n < g->n; n++)
                out[(nb * g->k + k) * 16 + n % 16] = g->alpha * b[k * g->k_stride + n * g->n_stride];
}

static float *pack_bias(struct mo_region *region, int64_t channels, int64_t padded,
                        const struct mo_tensor *bias, float scale) {
    float *out = mo_region_array(region, (size_t)padded, sizeof *out);
    if (!out || !bias) return out;
    const float *b = bias->data;
    bool scalar = mo_shape_count(&bias->shape) == 1;
    for (int64_t i = 0; i < channels; i++)
        out[i] = scale * b[scalar ? 0 : i];
    return out;
}

int64_t mo_pack_bytes(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node) {
    struct mo_conv c;
    struct gemm g;
    struct mo_strassen_packing strassen;
    if (mo_is_qconv(node)) return mo_pack_small_bytes(packing, graph, node);
    int64_t floats = -1;
    if (mo_conv_read(graph, node, &c))
        floats = mo_filter_floats(packing, &c);
    else if (gemm_read(graph, node, &g) && packing == MO_PACK_GEMM16)
        floats = blocks(g.n) * g.k * 16;
    else if (gemm_read(graph, node, &g) && mo_strassen_of(packing, &strassen) && g.k % 16 == 0)
        floats = strassen_floats(&strassen, g.k, g.n);
    else if (gemm_read(graph, node, &g) && is_matrix(packing)) {
        mo_matrix_product(g.k, g.n, &c);
        floats = matrix_floats(packing, &c);
    }
    return floats < 0 ? -1 : floats * 4;
}

int mo_pack_weights(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node,
                    struct mo_region *region, const void **weights, const float **bias, moire_error *err) {
    struct mo_conv c = {0};
    struct gemm g = {0};
    struct mo_strassen_packing strassen;
    if (mo_is_qconv(node)) return mo_pack_small_start(packing, graph, node, region, weights, bias, err);
    int64_t bytes = mo_pack_bytes(packing, graph, node);
    if (bytes < 0)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "node '%s' (%s): weights do not fit packing %d", node->name,
                       node->op_type, (int)packing);
    bool filled;
    float *w = mo_packed_take(graph, node, region, (int)packing, (size_t)bytes, &filled), *b;
    if (!w) return mo_packed_fault(graph, node, err);
    if (gemm_read(graph, node, &g)) {
        b = pack_bias(region, g.n, blocks(g.n) * 16, g.c, g.beta);
        bool fill = b && !filled;
        if (fill && packing == MO_PACK_GEMM16) pack_gemm(&g, w);
        if (fill && mo_strassen_of(packing, &strassen))
            pack_strassen(&(struct right){g.b->data, g.k, g.n, g.k_stride, g.n_stride, g.alpha}, &strassen,
                          w);
        if (fill && is_matrix(packing))
            pack_matrix_right(packing, &(struct right){g.b->data, g.k, g.n, g.k_stride, g.n_stride, g.alpha},
                              w);
    } else {
        mo_conv_read(graph, node, &c);
        b = pack_bias(region, c.o, blocks(c.o) * 16, c.bias, 1);
        if (b && !filled) mo_pack_filter(packing, &c, w);
    }
    if (!b) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory for packed weights", node->name);
    *weights = w;
    *bias = b;
    return MOIRE_OK;
}
