/* SPDX-License-Identifier: Apache-2.0
 * gemm.c - products of matrices: the operation for a library, the kernel in its stead, attention.
 *
 * A library adds bias and residual and applies some activations; what it cannot do follows as a pointwise
 * kernel over the result.  Attention is two products around a softmax; queries, keys and values that are
 * slices of one projection are read in place when one stride leads from head to head. */
#include <stdio.h>
#include "runtime/gpu/lower/lower.h"
#include "runtime/ops/moire/attention.h"

enum { TILE = 16 };

static void load_tile(struct mo_gpu_text *t, const char *to, const char *row, int64_t rows,
                      const char *column, int64_t columns, const char *at, moire_dtype dtype) {
    mo_gpu_printf(t, "        %s = %s < %lld && %s < %lld ? ", to, row, (long long)rows, column,
                  (long long)columns);
    mo_gpu_get(t, dtype, at);
    mo_gpu_printf(t, " : 0;\n");
}

static void tiles_text(struct mo_gpu_text *t, const struct mo_gpu_gemm *g, moire_dtype dtype) {
    char at[64];
    mo_gpu_printf(t, "    for (int k = 0; k < %lld; k += %d) {\n", (long long)g->k, TILE);
    snprintf(at, sizeof at, "a[(long long)i * %lld + (k + tx)]", (long long)g->a.row);
    load_tile(t, "sa[ty][tx]", "i", g->m, "(k + tx)", g->k, at, dtype);
    if (g->transposed) {
        snprintf(at, sizeof at, "b[(long long)(j0 + ty) * %lld + (k + tx)]", (long long)g->b.row);
        load_tile(t, "sb[tx][ty]", "(j0 + ty)", g->n, "(k + tx)", g->k, at, dtype);
    } else {
        snprintf(at, sizeof at, "b[(long long)(k + ty) * %lld + j]", (long long)g->b.row);
        load_tile(t, "sb[ty][tx]", "(k + ty)", g->k, "j", g->n, at, dtype);
    }
    mo_gpu_printf(
        t,
        "        MO_SYNC();\n        MO_UNROLL\n        for (int u = 0; u < %d; u++) r += sa[ty][u] "
        "* sb[u][tx];\n        MO_SYNC();\n    }\n",
        TILE);
}

static void gemm_text(struct mo_gpu_text *t, const struct mo_gpu_gemm *g, moire_dtype dtype) {
    static const enum mo_act act[] = {MO_ACT_NONE, MO_ACT_RELU, MO_ACT_GELU_TANH};
    const char *type = mo_gpu_memory_type(dtype);
    char at[48];
    mo_gpu_printf(t, "(const %s *a, const %s *b, ", type, type);
    if (g->bias.space != MO_GPU_NONE) mo_gpu_printf(t, "const %s *bias, ", type);
    if (g->c.at.space != MO_GPU_NONE) mo_gpu_printf(t, "const %s *c, ", type);
    mo_gpu_printf(t, "%s *d) {\n    MO_SHARED float sa[%d][%d];\n    MO_SHARED float sb[%d][%d];\n", type,
                  TILE, TILE + 1, TILE, TILE + 1);
    mo_gpu_printf(t, "    const int tx = (int)threadIdx.x %% %d, ty = (int)threadIdx.x / %d;\n", TILE, TILE);
    mo_gpu_printf(t, "    const int j0 = (int)blockIdx.x * %d, j = j0 + tx, i = (int)blockIdx.y * %d + ty;\n",
                  TILE, TILE);
    mo_gpu_printf(t, "    const long long z = blockIdx.z;\n    float r = 0;\n");
    mo_gpu_printf(t, "    a += z * %lld;\n    b += z * %lld;\n", (long long)g->a.step, (long long)g->b.step);
    tiles_text(t, g, dtype);
    mo_gpu_printf(t, "    if (i >= %lld || j >= %lld) return;\n", (long long)g->m, (long long)g->n);
    if (g->alpha != 1) {
        mo_gpu_printf(t, "    r *= ");
        mo_gpu_literal(t, g->alpha);
        mo_gpu_printf(t, ";\n");
    }
    if (g->bias.space != MO_GPU_NONE) mo_gpu_take(t, "+=", dtype, "bias[j]");
    snprintf(at, sizeof at, "c[z * %lld + (long long)i * %lld + j]", (long long)g->c.step,
             (long long)g->c.row);
    if (g->c.at.space != MO_GPU_NONE) mo_gpu_take(t, "+=", dtype, at);
    mo_gpu_act_text(t, act[g->act], 0, 0);
    mo_gpu_printf(t, "    d[z * %lld + (long long)i * %lld + j] = ", (long long)g->d.step,
                  (long long)g->d.row);
    mo_gpu_put(t, dtype, "r");
    mo_gpu_printf(t, ";\n}\n");
}

/* The operation itself, with the generated kernel beside it. */
static void add_gemm(struct mo_lower *l, const struct mo_gpu_gemm *g) {
    struct mo_gpu_text t = {.env = l->env};
    if (l->rc) return;
    gemm_text(&t, g, l->storage);
    int kernel =
        mo_lower_kernel(l, &t, (g->n + TILE - 1) / TILE, (g->m + TILE - 1) / TILE, g->count, TILE * TILE);
    struct mo_gpu_op *op = mo_lower_op(l, MO_GPU_GEMM);
    if (!op) return;
    const struct mo_gpu_place all[] = {g->a.at, g->b.at, g->bias, g->c.at, g->d.at};
    op->gemm = *g;
    op->flops = 2 * g->count * g->m * g->n * g->k;
    op->launch.kernel = kernel;
    for (int i = 0; i < 5; i++) {
        mo_lower_use(l, all[i]);
        if (all[i].space != MO_GPU_NONE) op->launch.args[op->launch.n_args++] = all[i];
    }
}

/* The activation as a library has it. */
static bool library_act(const struct mo_fuse *fuse, enum mo_gpu_act *act) {
    *act = fuse->act == MO_ACT_RELU        ? MO_GPU_RELU
           : fuse->act == MO_ACT_GELU_TANH ? MO_GPU_GELU_TANH
                                           : MO_GPU_LINEAR;
    return fuse->act == MO_ACT_NONE || *act != MO_GPU_LINEAR;
}

/* Rows of the last axis, all leading ones taken together. */
static bool as_rows(const struct mo_gpu_view *v, struct mo_gpu_matrix *out) {
    struct mo_gpu_view rows;
    int64_t d[2] = {1, v->d[v->rank - 1]};
    for (int i = 0; i < v->rank - 1; i++)
        d[0] *= v->d[i];
    if (!mo_gpu_reshape(v, 2, d, &rows) || (d[1] > 1 && rows.stride[1] != 1) || v->place.offset % 16)
        return false;
    *out = (struct mo_gpu_matrix){.at = v->place, .row = d[0] > 1 ? rows.stride[0] : d[1]};
    return out->row >= d[1];
}

void mo_lower_gemm(struct mo_lower *l, const struct mo_gpu_gemm *gemm, const struct mo_gpu_view *y,
                   const struct mo_gpu_view *residual, const struct mo_fuse *fuse) {
    struct mo_gpu_gemm g = *gemm;
    struct mo_gpu_matrix c = {{MO_GPU_NONE, 0, 0}, 0, 0};
    if (l->rc) return;
    bool whole = library_act(fuse, &g.act);
    const bool fits = !residual || (residual->dtype == l->storage && as_rows(residual, &c));
    bool adds = residual && g.count == 1 && fits && (!fuse->residual_last || fuse->act == MO_ACT_NONE);
    if (residual && !adds) whole = false;
    if (!whole) g.act = MO_GPU_LINEAR;
    if (adds) g.c = c;
    add_gemm(l, &g);
    if (whole) return;
    struct mo_fuse rest = *fuse;
    if (adds) rest.residual_last = false;
    mo_lower_epilogue(l, y, adds ? NULL : residual, &rest, y);
}

/* --- operands ------------------------------------------------------------------------------------------- */

/* The last two axes as a matrix, the leading ones as a count; `flip` tells that columns lie together. */
static bool as_matrices(const struct mo_gpu_view *v, struct mo_gpu_matrix *out, bool *flip) {
    struct mo_gpu_view flat;
    int r = v->rank;
    int64_t d[3] = {1, v->d[r - 2], v->d[r - 1]};
    for (int i = 0; i < r - 2; i++)
        d[0] *= v->d[i];
    if (!mo_gpu_reshape(v, 3, d, &flat) || v->place.offset % 16) return false;
    bool plain = d[2] == 1 || flat.stride[2] == 1;
    *flip = !plain;
    if (!plain && d[1] > 1 && flat.stride[1] != 1) return false;
    *out = (struct mo_gpu_matrix){.at = v->place,
                                  .row = plain ? flat.stride[1] : flat.stride[2],
                                  .step = d[0] > 1 ? flat.stride[0] : 0};
    int64_t least = plain ? d[2] : d[1];
    if ((plain ? d[1] : d[2]) == 1) out->row = least;
    return out->row >= least && (d[0] == 1 || flat.stride[0] > 0);
}

struct mo_gpu_matrix mo_lower_operand(struct mo_lower *l, struct mo_gpu_view v, bool *flip) {
    bool turned = false;
    struct mo_gpu_matrix m = {{MO_GPU_NONE, 0, 0}, 0, 0};
    if (l->rc) return m;
    if (v.dtype != l->storage || !as_matrices(&v, &m, &turned) || (turned && !flip)) {
        struct mo_gpu_view copy = mo_lower_new(l, l->storage, v.rank, v.d, NULL);
        mo_lower_copy(l, &v, &copy);
        if (l->rc || !as_matrices(&copy, &m, &turned)) return m;
    }
    if (flip) *flip = turned;
    return m;
}

/* --- attention ------------------------------------------------------------------------------------------ */

/* Heads [first, first + heads) of an operand as [B,H,S,D], whichever way it lies. */
static struct mo_gpu_view heads_of(struct mo_lower *l, int k, const int64_t *order, const int64_t *first,
                                   int64_t heads) {
    static const int turn[] = {0, 2, 1, 3};
    struct mo_gpu_view v = mo_lower_in(l, k);
    if (l->rc) return v;
    if (order[k]) v = mo_gpu_permute(&v, turn);
    return mo_gpu_slice(&v, 1, first[k], heads, 1);
}

static void softmax_of(struct mo_lower *l, const struct mo_gpu_view *scores, float scale) {
    struct mo_row row = {.kind = MO_ROW_SOFTMAX, .axis = 3, .x = *scores, .out = *scores, .factor = scale};
    if (mo_lower_has(l, 3)) {
        struct mo_gpu_view mask = mo_lower_in(l, 3);
        if (l->rc) return;
        row.mask = mo_gpu_broadcast(&mask, 4, scores->d);
        row.masking = mask.dtype != MOIRE_BOOL          ? MO_ROW_ADD
                      : mo_attr_int(l->node, "keep", 0) ? MO_ROW_KEEP
                                                        : MO_ROW_FILL;
        row.fill = mo_attr_float(l->node, "fill", -__builtin_inff());
    }
    mo_lower_row(l, &row);
}

void mo_lower_attention(struct mo_lower *l) {
    static const int turn[] = {0, 2, 1, 3};
    int64_t order[4] = {0}, first[3] = {0};
    mo_attr_ints(l->node, "order", order, 4);
    mo_attr_ints(l->node, "first", first, 3);
    struct mo_gpu_view q = mo_lower_in(l, 0);
    if (l->rc) return;
    int64_t heads = mo_attr_int(l->node, "heads", q.d[order[0] ? 2 : 1]);
    q = heads_of(l, 0, order, first, heads);
    struct mo_gpu_view k = heads_of(l, 1, order, first, heads), v = heads_of(l, 2, order, first, heads);
    if (l->rc) return;
    int64_t d[4] = {q.d[0], heads, q.d[2], k.d[2]};
    struct mo_gpu_gemm g = {
        .count = d[0] * heads, .m = d[2], .n = d[3], .k = q.d[3], .alpha = 1, .transposed = true};
    g.a = mo_lower_operand(l, q, NULL);
    g.b = mo_lower_operand(l, k, NULL);
    struct mo_gpu_view scores = mo_lower_new(l, l->storage, 4, d, NULL);
    if (l->rc) return;
    g.d = (struct mo_gpu_matrix){.at = scores.place, .row = d[3], .step = d[2] * d[3]};
    add_gemm(l, &g);
    softmax_of(l, &scores, mo_attr_float(l->node, "scale", 1));
    struct mo_gpu_gemm h = {.count = g.count, .m = d[2], .n = v.d[3], .k = d[3], .alpha = 1};
    h.a = g.d;
    h.b = mo_lower_operand(l, v, &h.transposed);
    struct mo_gpu_view y = mo_lower_out(l, 0, NULL), heads_first = y, own = y;
    if (l->rc) return;
    if (order[3]) heads_first = own = mo_gpu_permute(&y, turn);
    bool flip;
    if (!as_matrices(&own, &h.d, &flip) || flip) {
        own = mo_lower_new(l, l->storage, 4, heads_first.d, NULL);
        if (l->rc || !as_matrices(&own, &h.d, &flip)) return;
    }
    add_gemm(l, &h);
    if (own.place.index != y.place.index) mo_lower_copy(l, &own, &heads_first);
}
