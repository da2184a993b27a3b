/* SPDX-License-Identifier: Apache-2.0
 * matmul.c - MatMul and Gemm, those of passes with bias and epilogue too: vectors, batches that broadcast, a
 * transposed operand, a matrix as bias. */
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* A vector as a matrix of one row, or of one column. */
static struct mo_gpu_view as_matrix(struct mo_gpu_view v, bool row) {
    if (v.rank != 1) return v;
    const int own = row ? 1 : 0;
    v.d[own] = v.d[0];
    v.stride[own] = v.stride[0];
    v.d[1 - own] = 1;
    v.stride[1 - own] = 0;
    v.rank = 2;
    return v;
}

static struct mo_gpu_view transposed(struct mo_gpu_view v) {
    int perm[MO_VIEW_RANK];
    for (int i = 0; i < v.rank; i++)
        perm[i] = i;
    perm[v.rank - 2] = v.rank - 1;
    perm[v.rank - 1] = v.rank - 2;
    return mo_gpu_permute(&v, perm);
}

/* y += beta c, which broadcasts. */
static void add_bias(struct mo_lower *l, const struct mo_gpu_view *y, float beta) {
    const struct mo_gpu_view c = mo_lower_in(l, 2);
    struct mo_elementwise p;
    if (l->rc) return;
    mo_elementwise_init(l, &p, *y);
    mo_elementwise_in(&p, y);
    mo_elementwise_in(&p, &c);
    mo_gpu_printf(&p.body, "    r = x0 + ");
    mo_gpu_literal(&p.body, beta);
    mo_gpu_printf(&p.body, " * x1;\n");
    mo_elementwise_done(l, &p);
}

/* y = a b, operands and y of one rank.  Of a matrix b all rows of a are one product. */
static void multiply(struct mo_lower *l, struct mo_gpu_view a, const struct mo_gpu_view *b, bool one,
                     const struct mo_gpu_view *y) {
    const struct mo_fuse *fuse = &l->node->fuse;
    const bool own = *l->node->domain != 0; /* of moire: its bias is a vector */
    const int r = y->rank;
    struct mo_gpu_view residual = {.rank = -1}, rows;
    struct mo_gpu_gemm g = {.count = 1,
                            .m = y->d[r - 2],
                            .n = y->d[r - 1],
                            .k = a.d[r - 1],
                            .alpha = mo_attr_float(l->node, "alpha", 1)};
    for (int i = 0; i < r - 2; i++)
        *(one ? &g.m : &g.count) *= y->d[i];
    if (one && !mo_gpu_reshape(&a, 2, (int64_t[]){g.m, g.k}, &rows)) {
        a = mo_lower_ordered(l, a, NULL, l->storage);
        if (!l->rc) mo_gpu_reshape(&a, 2, (int64_t[]){g.m, g.k}, &rows);
    }
    g.a = mo_lower_operand(l, one ? rows : a, NULL);
    g.b = mo_lower_operand(l, *b, &g.transposed);
    if (own) g.bias = mo_lower_bias(l);
    if (fuse->residual >= 0) residual = mo_lower_in(l, fuse->residual);
    g.d = (struct mo_gpu_matrix){.at = y->place, .row = g.n, .step = g.count > 1 ? g.m * g.n : 0};
    mo_lower_gemm(l, &g, y, fuse->residual >= 0 ? &residual : NULL, fuse);
    if (!own && mo_lower_has(l, 2)) add_bias(l, y, mo_attr_float(l->node, "beta", 1));
}

void mo_lower_product(struct mo_lower *l) {
    struct mo_gpu_view a = mo_lower_in(l, 0), b = mo_lower_stored(l, 1), out = {.rank = -1}, y;
    int64_t d[MO_VIEW_RANK];
    if (!l->rc && !mo_gpu_is_float(a.dtype))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%s is not supported here on a GPU", mo_dtype_name(a.dtype));
    if (!l->rc) out = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    a = as_matrix(a, true);
    b = as_matrix(b, false);
    if (mo_attr_int(l->node, "transA", 0)) a = transposed(a);
    if (mo_attr_int(l->node, "transB", 0)) b = transposed(b);
    const bool one = b.rank == 2;
    const int rank = a.rank > b.rank ? a.rank : b.rank;
    const int64_t m = a.d[a.rank - 2], k = a.d[a.rank - 1], n = b.d[b.rank - 1];
    for (int i = 0; i < rank - 2; i++) {
        const int in_a = i - rank + a.rank, in_b = i - rank + b.rank;
        d[i] = in_a >= 0 && a.d[in_a] != 1 ? a.d[in_a] : in_b >= 0 ? b.d[in_b] : 1;
    }
    memcpy(d + rank - 2, (int64_t[]){m, k}, 2 * sizeof *d);
    a = mo_gpu_broadcast(&a, rank, d);
    memcpy(d + rank - 2, (int64_t[]){k, n}, 2 * sizeof *d);
    if (!one) b = mo_gpu_broadcast(&b, rank, d);
    memcpy(d + rank - 2, (int64_t[]){m, n}, 2 * sizeof *d);
    if (mo_gpu_reshape(&out, rank, d, &y)) multiply(l, a, &b, one, &y);
}
