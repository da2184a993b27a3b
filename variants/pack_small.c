/* SPDX-License-Identifier: Apache-2.0
 * pack_small.c - filters of 8-bit numbers, in the order of the dot-product kernels or as floats. */
#include "variants/conv_geometry.h"

#include <string.h>
#include "variants/matrix/matrix_shape.h"
#include "variants/packed.h"

/* What a packing of integers is: its weights, of so many bytes each, lie in vectors of 64 bytes, which have
 * as many columns of 16 channels as a sum of 4 bytes takes; four columns follow each other. */
struct form {
    enum mo_packing packing;
    int bytes;      /* 1 or 2 */
    bool depthwise; /* columns of the filter's rows; else of input channels */
    bool narrow;    /* of at most four */
    int wino;       /* filters of F(m x m,3x3) for this m; 0: as they are */
};

static const struct form forms[] = {
    {MO_PACK_DOT16, 1, false, false, 0},         {MO_PACK_NARROW16, 1, false, true, 0},
    {MO_PACK_DOTDW16, 1, true, false, 0},        {MO_PACK_PAIRS16, 2, false, false, 0},
    {MO_PACK_PAIRS_NARROW16, 2, false, true, 0}, {MO_PACK_PAIRS_DW16, 2, true, false, 0},
    {MO_PACK_WHOLE_WINO2, 2, false, false, 2},   {MO_PACK_WHOLE_WINO4, 2, false, false, 4},
};

/* NULL: of floats. */
static const struct form *form_of(enum mo_packing packing) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].packing == packing) return &forms[i];
    return NULL;
}

/* The weight of a lane in one of four columns, which begin at `at`. */
static void put(const struct form *form, char *at, int64_t lane, int64_t column, int weight) {
    const int64_t each = 4 / form->bytes;
    char *to = at + column / each * 64 + (lane * each + column % each) * form->bytes;
    const int16_t wide = (int16_t)weight;
    if (form->bytes == 1)
        *to = (char)weight;
    else
        memcpy(to, &wide, 2);
}

/* [group][OC/16][IC/16][taps][quads][16 oc][4 ic], 4 quads a block or 1 in all; merged groups leave zeros off
 * the diagonal. */
static void pack_dot(const struct mo_conv *c, const struct form *form, char *out, int32_t *sums) {
    const int8_t *w = c->weights->data;
    int64_t taps = c->kh * c->kw, cg = c->cg / c->merge, og = c->og / c->merge;
    int64_t quad = 64 * form->bytes, quads = form->narrow ? 1 : 4;
    for (int64_t o = 0; o < c->o; o++) {
        int64_t block = o / c->og * c->ocb + o % c->og / 16, lane = o % c->og % 16;
        for (int64_t i = 0; i < cg; i++) {
            int64_t ic = o % c->og / og * cg + i;
            char *to = out + ((block * c->icb + ic / 16) * taps * quads + ic % 16 / 4) * quad;
            for (int64_t t = 0; t < taps; t++) {
                put(form, to + t * quads * quad, lane, ic % 4, w[(o * cg + i) * taps + t]);
                sums[block * 16 + lane] += w[(o * cg + i) * taps + t];
            }
        }
    }
}

/* [C/16][KH][KW/4][16][4 kw] */
static void pack_depthwise(const struct mo_conv *c, const struct form *form, char *out, int32_t *sums) {
    const int8_t *w = c->weights->data;
    int64_t quads = (c->kw + 3) / 4;
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t t = 0; t < c->kh * c->kw; t++) {
            int64_t row = t / c->kw, column = t % c->kw;
            put(form, out + ((o / 16 * c->kh + row) * quads + column / 4) * 64 * form->bytes, o % 16,
                column % 4, w[o * c->kh * c->kw + t]);
            sums[o] += w[o * c->kh * c->kw + t];
        }
}

/* [OC/16][alpha^2][IC/16][4 quads][16 oc][4 ic] of U = G g GT, each row of G whole. */
static void pack_winograd(const struct mo_conv *c, const struct form *form, char *out, int32_t *sums) {
    static const int rows4[6][3] = {{1, 0, 0}, {-1, -1, -1}, {-1, 1, -1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}},
                     rows2[4][3] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 1}};
    const int(*g)[3] = form->wino == 4 ? rows4 : rows2, alpha = form->wino + 2;
    const int8_t *w = c->weights->data;
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t i = 0; i < c->c; i++, w += 9) {
            char *to = out + (o / 16 * alpha * alpha * c->icb + i / 16) * 512 + i % 16 / 4 * 128;
            for (int at = 0; at < alpha * alpha; at++) {
                int sum = 0;
                for (int t = 0; t < 9; t++)
                    sum += g[at / alpha][t / 3] * g[at % alpha][t % 3] * w[t];
                put(form, to + at * c->icb * 512, o % 16, i % 4, sum);
            }
            for (int t = 0; t < 9; t++)
                sums[o] += w[t];
        }
}

/* Bytes of products, where the packing is one of integers and the layer fits it; -1. */
static int64_t product_bytes(const struct form *form, const struct mo_conv *c) {
    int64_t blocks = c->groups * c->ocb * c->icb, taps = c->kh * c->kw;
    if (!form || form->depthwise != c->depthwise) return -1;
    if (form->depthwise) return (c->o + 15) / 16 * c->kh * ((c->kw + 3) / 4) * 64 * form->bytes;
    if (form->wino && (c->groups * c->merge != 1 || c->kh != 3 || c->kw != 3)) return -1;
    if (form->wino) return blocks * (form->wino + 2) * (form->wino + 2) * 512;
    if (!form->narrow) return blocks * taps * 256 * form->bytes;
    return c->groups == 1 && c->merge == 1 && c->c <= 4 ? blocks * taps * 64 * form->bytes : -1;
}

/* The same packing as that of a filter of floats. */
static bool pack_floats(const struct mo_graph *graph, const struct mo_conv *c, enum mo_packing packing,
                        float *out) {
    int64_t n = mo_shape_count(&c->weights->shape);
    float *wide = mo_alloc(graph->env, (size_t)n * sizeof *wide);
    if (!wide) return false;
    for (int64_t i = 0; i < n; i++)
        wide[i] = ((const int8_t *)c->weights->data)[i];
    struct mo_tensor weights = *c->weights;
    struct mo_conv floats = *c;
    weights.data = wide;
    floats.weights = &weights;
    mo_pack_filter(packing, &floats, out);
    mo_free(graph->env, wide);
    return true;
}

/* For a matrix unit; see variants/matrix/matrix_shape.h.  False: the layer is none for it. */
static bool matrix_shape_of(const struct mo_conv *c, struct mo_matrix_shape *shape) {
    return mo_matrix_shape_of(c, MO_MATRIX_BYTES, mo_matrix_narrow(c), shape);
}

static void pack_matrix(const struct mo_conv *c, char *out, int32_t *sums) {
    struct mo_matrix_shape shape;
    const int64_t taps = c->kh * c->kw;
    const struct mo_matrix_filter filter = {c->weights->data, c->cg / c->merge * taps, taps, 1};
    matrix_shape_of(c, &shape);
    mo_matrix_pack(&shape, c, &filter, out, sums);
}

/* Blocks of output channels. */
static int64_t blocks_of(const struct mo_conv *c) {
    return c->depthwise ? (c->o + 15) / 16 : c->groups * c->ocb;
}

/* Bytes of the weights as whole numbers, without their sums; -1: the packing is none of these, or the layer
 * does not fit it. */
static int64_t whole_bytes(enum mo_packing packing, const struct mo_conv *c) {
    struct mo_matrix_shape shape;
    if (packing != MO_PACK_MATRIX_BYTES) return product_bytes(form_of(packing), c);
    return matrix_shape_of(c, &shape) ? mo_matrix_weight_bytes(&shape, c) : -1;
}

static int64_t packed_bytes(enum mo_packing packing, const struct mo_conv *c) {
    const int64_t products = whole_bytes(packing, c),
                  floats = products < 0 ? mo_filter_floats(packing, c) : 0;
    return floats < 0 ? -1 : products < 0 ? 4 * floats : products + blocks_of(c) * 64;
}

int64_t mo_pack_small_bytes(enum mo_packing packing, const struct mo_graph *graph,
                            const struct mo_node *node) {
    struct mo_conv c;
    struct mo_qconv q;
    return mo_qconv_geometry(graph, node, &c, &q) ? packed_bytes(packing, &c) : -1;
}

int mo_pack_small_start(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node,
                        struct mo_region *region, const void **weights, const float **start,
                        moire_error *err) {
    struct mo_conv c;
    struct mo_qconv q;
    const int32_t *sums = NULL;
    int rc = mo_pack_small(packing, graph, node, region, weights, &sums, err);
    if (rc || !mo_qconv_geometry(graph, node, &c, &q)) return rc;
    int32_t *from = mo_region_array(region, (size_t)blocks_of(&c) * 16, sizeof *from);
    if (!from) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory for packed weights", node->name);
    for (int64_t i = 0; sums && i < blocks_of(&c) * 16; i++)
        from[i] = -q.x_zero * sums[i];
    *start = (const float *)from; /* zero is the same in both types */
    return MOIRE_OK;
}

int mo_pack_small(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node,
                  struct mo_region *region, const void **weights, const int32_t **sums, moire_error *err) {
    struct mo_conv c;
    struct mo_qconv q;
    if (!mo_qconv_geometry(graph, node, &c, &q))
        return mo_fail(err, MOIRE_EINTERNAL, "node '%s' (%s) is no QConv", node->name, node->op_type);
    const struct form *form = form_of(packing);
    const int64_t products = whole_bytes(packing, &c), bytes = packed_bytes(packing, &c);
    const bool matrix = packing == MO_PACK_MATRIX_BYTES;
    if (bytes < 0)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "node '%s' (%s): weights do not fit packing %d", node->name,
                       node->op_type, (int)packing);
    bool filled;
    char *w = mo_packed_take(graph, node, region, (int)packing, (size_t)bytes, &filled);
    if (!w) return mo_packed_fault(graph, node, err);
    if (!filled && products < 0 && !pack_floats(graph, &c, packing, (float *)w))
        return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory for packed weights", node->name);
    int32_t *own = (int32_t *)(w + products);
    if (!filled && matrix)
        pack_matrix(&c, w, own);
    else if (!filled && products >= 0)
        (form->wino ? pack_winograd : c.depthwise ? pack_depthwise : pack_dot)(&c, form, w, own);
    *weights = w;
    *sums = products >= 0 && !mo_packed_is_absent(w) ? own : NULL; /* absent: a compiled kernel packs anew */
    return MOIRE_OK;
}
