/* SPDX-License-Identifier: Apache-2.0
 * gemm.c - binds matrix products: Gemm and MatMul with constant weights (packed once), and MatMul of two
 * activations (packed as it runs). */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"
#include "variants/generic/bind.h"
#include "variants/packed.h"

enum {
    SIDE_BYTES = 4096,
    SLACK_BYTES = 64,
    MOST_ROWS = 512,
    LEAST_ROWS = 56,
    K_BLOCK = 320,
    UNITS_WANTED = 8,
    SLIM = 3,
    /* of weights in float16: a k block of four panels stays in the first cache once they are widened */
    WIDE_BLOCK = 128,
    WIDE_PANELS = 4
};
static const float most_float16 = 65504;

static bool is_product(const struct mo_node *node) {
    return mo_node_is(node, "Gemm") || mo_node_is(node, "MatMul") || mo_node_is_ours(node, "MatMul");
}

/* The right operand is a constant matrix. */
static bool constant_right(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *b = mo_node_in(g, node, 1);
    return mo_f32(b) && b->data && b->shape.rank == 2;
}

static unsigned gemm_layouts(const struct mo_graph *g, const struct mo_node *node) {
    if (!is_product(node) || !mo_f32(mo_node_in(g, node, 0)) || !mo_f32(mo_node_out(g, node, 0))) return 0;
    return constant_right(g, node) ? MO_CAN_PLAIN : 0;
}

/* A constant right operand: element (k, n) is data[k * row + n * step] * scale. */
struct right {
    const float *data;
    int64_t k, n, row, step;
    float scale;
};

static int64_t panels_of(const struct right *b) {
    return (b->n + 15) / 16;
}

/* Exactly a float16, and no subnormal one. */
static bool is_float16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x == 0 || (!(bits & 0x1fff) && fabsf(x) >= 0x1p-14f && fabsf(x) <= most_float16);
}

static bool fits_float16(const struct mo_graph *g, const struct right *b) {
    int64_t wrong = 0;
    for (int64_t i = 0; !wrong && i < b->k * b->n; i += b->n) {
        if (g->float16 == MO_FLOAT16_EXACT)
            for (int64_t j = i; j < i + b->n; j++)
                wrong += !is_float16(b->data[j] * b->scale);
        else
            for (int64_t j = i; j < i + b->n; j++)
                wrong += !(fabsf(b->data[j] * b->scale) <= most_float16);
    }
    return !wrong;
}

/* Whether they are kept as float16.  What a compiled model or another plan of this one has made of them
 * decides where the plain ones are gone. */
static bool keeps_float16(const struct mo_binder *binder, const struct mo_node *node, const struct right *b) {
    const struct mo_graph *g = binder->graph;
    const int64_t numbers = panels_of(b) * 16 * b->k;
    const bool wanted = mo_product_is_float16(g, node);
    if (!g->float16) return false;
    if (g->packed && g->packed->ready) return mo_packed_is_ready(g, node, MO_PACK_GEMM16_FLOAT16);
    const bool wide = mo_packed_is_here(g, node, MO_PACK_GEMM16, numbers * 4);
    if (mo_packed_elided(g, mo_node_in(g, node, 1)))
        return mo_packed_is_here(g, node, MO_PACK_GEMM16_FLOAT16, numbers * 2) && (!wide || wanted);
    const bool converts = binder->isa == MO_ISA_AVX2 || binder->isa == MO_ISA_AVX512;
    return converts && wanted && fits_float16(g, b);
}

/* [ceil(N/16)][K][16], zeros beyond N. */
static void *pack(const struct mo_binder *binder, const struct mo_node *node, const struct right *b,
                  bool small) {
    bool filled;
    void *to =
        mo_packed_take(binder->graph, node, binder->region, small ? MO_PACK_GEMM16_FLOAT16 : MO_PACK_GEMM16,
                       (size_t)(panels_of(b) * 16 * b->k) * (small ? 2 : 4), &filled);
    for (int64_t p = 0; to && !filled && p < panels_of(b); p++)
        for (int64_t i = 0; i < b->k; i++)
            for (int64_t j = 0; j < 16 && p * 16 + j < b->n; j++) {
                const float x = b->data[i * b->row + (p * 16 + j) * b->step] * b->scale;
                const int64_t at = (p * b->k + i) * 16 + j;
                if (small)
                    ((uint16_t *)to)[at] = mo_float_to_half(x);
                else
                    ((float *)to)[at] = x;
            }
    return to;
}

/* The added vector, scaled by beta; NULL with *fits = false when it is no constant row. */
static float *pack_bias(const struct mo_binder *binder, const struct mo_node *node, int64_t n, bool *fits) {
    const struct mo_tensor *c = node->fuse.residual == 2 ? NULL : mo_node_in(binder->graph, node, 2);
    float beta = mo_node_is(node, "Gemm") ? mo_attr_float(node, "beta", 1.0f) : 1.0f;
    *fits = true;
    if (!c) return mo_keep_padded(binder, NULL, n, 0.0f);
    int64_t count = mo_shape_count(&c->shape), row = c->shape.rank ? c->shape.d[c->shape.rank - 1] : 1;
    *fits = c->dtype == MOIRE_F32 && c->data && (count == 1 || (count == n && row == n));
    if (!*fits) return NULL;
    float *to = mo_keep_padded(binder, count == n ? c->data : NULL, n, 0.0f);
    for (int64_t i = 0; to && i < n; i++)
        to[i] = beta * ((const float *)c->data)[count == 1 ? 0 : i];
    return to;
}

/* A transposed left operand: its columns are the rows. */
static bool shape_transposed(const struct mo_graph *g, const struct mo_node *node, struct mo_gemm_params *p) {
    const struct mo_tensor *a = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    const struct mo_tensor *residual =
        node->fuse.residual >= 0 ? mo_node_in(g, node, node->fuse.residual) : NULL;
    if (a->shape.rank != 2 || (residual && !mo_shape_equal(&residual->shape, &y->shape))) return false;
    p->images = 1;
    p->k = a->shape.d[0];
    p->rows = p->a_step = a->shape.d[1];
    p->a_row = 1;
    p->c_row = p->residual_row = y->shape.d[1];
    return mo_dense(g, a) && mo_dense(g, y) && (!residual || mo_dense(g, residual));
}

/* Rows of A in the shape the kernel walks. */
static bool shape_rows(const struct mo_graph *g, const struct mo_node *node, struct mo_gemm_params *p) {
    struct mo_product rows;
    if (node->fuse.residual >= 0 && !mo_f32(mo_node_in(g, node, node->fuse.residual))) return false;
    if (mo_node_is(node, "Gemm") && mo_attr_int(node, "transA", 0)) return shape_transposed(g, node, p);
    if (!mo_product_of(g, node, &rows)) return false;
    p->images = rows.images;
    p->rows = rows.rows;
    p->k = mo_node_in(g, node, 0)->shape.d[mo_node_in(g, node, 0)->shape.rank - 1];
    p->a_row = rows.x_row;
    p->a_step = 1;
    p->c_row = rows.y_row;
    p->residual_row = rows.residual_row;
    return true;
}

static void split(struct mo_gemm_params *p) {
    int64_t panels = (p->n + 15) / 16;
    p->group = p->rows <= SLIM ? 4 : 2;
    p->groups = (panels + p->group - 1) / p->group;
    p->chunks = (p->rows + MOST_ROWS - 1) / MOST_ROWS;
    p->chunk = (p->rows + p->chunks - 1) / p->chunks;
    while (p->images * p->chunks * p->groups < UNITS_WANTED && p->chunk >= 2 * LEAST_ROWS) {
        p->chunk = (p->chunk + 1) / 2;
        p->chunks = (p->rows + p->chunk - 1) / p->chunk;
    }
    const int64_t most = p->float16 ? WIDE_BLOCK : K_BLOCK;
    int64_t blocks = p->rows <= SLIM ? 1 : (p->k + most - 1) / most;
    p->k_block = (p->k + blocks - 1) / blocks;
}

static int gemm_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                     moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    struct mo_gemm_params p = {.fuse = node->fuse};
    bool gemm = mo_node_is(node, "Gemm"), turned = gemm && mo_attr_int(node, "transB", 0), fits;
    if (a->layout != MO_PLAIN || y->layout != MO_PLAIN || a->shape.rank < 1) return MOIRE_EUNSUPPORTED;
    if (!shape_rows(g, node, &p)) return MOIRE_EUNSUPPORTED;
    p.n = b->shape.d[turned ? 0 : 1];
    if (b->shape.d[turned ? 1 : 0] != p.k) return MOIRE_EUNSUPPORTED;
    const struct right right = {b->data,
                                p.k,
                                p.n,
                                turned ? 1 : p.n,
                                turned ? p.k : 1,
                                gemm ? mo_attr_float(node, "alpha", 1.0f) : 1.0f};
    p.float16 = keeps_float16(binder, node, &right);
    split(&p);
    step->bias = pack_bias(binder, node, p.n, &fits);
    if (!fits) return MOIRE_EUNSUPPORTED;
    step->weights = pack(binder, node, &right, p.float16);
    if (!step->weights) return mo_packed_fault(g, node, err);
    if (!step->bias)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the weights of node '%s'", node->name);
    step->packing = p.float16 ? MO_PACK_GEMM16_FLOAT16 : MO_PACK_GEMM16;
    step->scratch_bytes = SIDE_BYTES + SLACK_BYTES + p.chunk * p.k_block * 4;
    p.wide_at = (step->scratch_bytes + 63) / 64 * 16;
    if (p.float16 && p.chunk > SLIM) step->scratch_bytes = p.wide_at * 4 + WIDE_PANELS * p.k_block * 64;
    step->joint = p.groups > 1; /* of one chunk of rows, packed */
    if (p.float16) step->bytes = 4 * p.images * p.rows * (p.k + p.n) + 2 * p.k * p.n;
    return mo_bound(step, mo_simd_of(binder->isa)->gemm, p.float16 ? "gemm float16" : "gemm",
                    mo_keep(binder, &p, sizeof p), p.images * p.chunks * p.groups, err);
}

const struct mo_family mo_family_gemm = {"gemm", gemm_layouts, gemm_bind};

static unsigned matmul_layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    bool scaled = mo_attr_float(node, "alpha", 1.0f) != 1.0f;
    if (!is_product(node) || constant_right(g, node) || scaled || !mo_f32(a) || !mo_f32(b) || !mo_f32(y))
        return 0;
    const struct mo_tensor *residual =
        node->fuse.residual >= 0 ? mo_node_in(g, node, node->fuse.residual) : NULL;
    if (node->fuse.residual >= 0 && (!mo_f32(residual) || !mo_shape_equal(&residual->shape, &y->shape)))
        return 0;
    return a->shape.rank >= 2 && b->shape.rank >= 2 ? MO_CAN_PLAIN : 0;
}

/* Strides of the leading dimensions of one operand, 0 where it is broadcast. */
static void leading(const struct mo_tensor *t, int rank, int64_t *stride) {
    int own = t->shape.rank - 2;
    int64_t step = t->shape.d[own] * t->shape.d[own + 1];
    for (int i = 1; i <= rank; i++) {
        int64_t d = i <= own ? t->shape.d[own - i] : 1;
        stride[rank - i] = d == 1 ? 0 : step;
        step *= d;
    }
}

static int matmul_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                       moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    bool gemm = mo_node_is(node, "Gemm"), turn_a = gemm && mo_attr_int(node, "transA", 0);
    bool turn_b = gemm && mo_attr_int(node, "transB", 0);
    int ar = a->shape.rank, br = b->shape.rank, rank = y->shape.rank - 2;
    if (a->layout || b->layout || y->layout || !mo_dense(g, a) || !mo_dense(g, b) || !mo_dense(g, y) ||
        rank < 0)
        return MOIRE_EUNSUPPORTED;
    struct mo_matmul_params p = {.rank = rank, .fuse = node->fuse};
    bool fits;
    if (node->fuse.residual >= 0 && !mo_dense(g, mo_node_in(g, node, node->fuse.residual)))
        return MOIRE_EUNSUPPORTED;
    p.rows = a->shape.d[ar - (turn_a ? 1 : 2)];
    p.k = a->shape.d[ar - (turn_a ? 2 : 1)];
    p.n = b->shape.d[br - (turn_b ? 2 : 1)];
    if (b->shape.d[br - (turn_b ? 1 : 2)] != p.k) return MOIRE_EUNSUPPORTED;
    p.a_row = turn_a ? 1 : p.k;
    p.a_step = turn_a ? p.rows : 1;
    p.b_row = turn_b ? 1 : p.n;
    p.b_step = turn_b ? p.k : 1;
    p.group = 4;
    p.groups = ((p.n + 15) / 16 + p.group - 1) / p.group;
    for (int i = 0; i < rank; i++)
        p.dims[i] = y->shape.d[i];
    leading(a, rank, p.a_dims);
    leading(b, rank, p.b_dims);
    step->bias = pack_bias(binder, node, p.n, &fits);
    if (!fits) return MOIRE_EUNSUPPORTED;
    if (!step->bias) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the bias of node '%s'", node->name);
    step->scratch_bytes = SIDE_BYTES + SLACK_BYTES + (14 + 16 * p.group) * p.k * 4;
    return mo_bound(step, mo_simd_of(binder->isa)->matmul, "matmul", mo_keep(binder, &p, sizeof p),
                    mo_span(y, 0, rank) * p.groups, err);
}

const struct mo_family mo_family_matmul = {"matmul", matmul_layouts, matmul_bind};
