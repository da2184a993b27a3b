/* SPDX-License-Identifier: Apache-2.0
 * make_matrix.c - random matrix products in every form, and attention. */
#include <math.h>
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

static const int64_t widths[] = {1, 3, 5, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 128};

/* A bias in one of the forms that broadcast to [.., rows, columns]. */
static int bias(struct dt_maker *m, moire_dtype type, int64_t rows, int64_t columns) {
    int64_t row[] = {1, columns}, column[] = {rows, 1}, whole[] = {rows, columns};
    switch (dt_roll(m, 7)) {
    case 0:
        return dt_scalar(m, type, 0.37);
    case 1:
        return dt_vector(m, type, 1, 1, 0);
    case 2:
        return dt_const(m, type, 2, row, 1, 0);
    case 3:
        return dt_const(m, type, 2, column, 1, 0);
    case 4:
        return dt_const(m, type, 2, whole, 1, 0);
    default:
        return dt_vector(m, type, columns, 1, 0);
    }
}

static void activate(struct dt_maker *m, int x) {
    static const char *const names[] = {"Relu", "Sigmoid", "Tanh", "Gelu", "LeakyRelu"};
    if (x >= 0 && dt_roll(m, 3) == 0 && mo_type_in(dt_type(m, x), MO_FLOATS))
        dt_chain(m, DT_OF(m, names), 1, &x);
}

/* x times a constant, with or without a bias behind; a right operand with batches sometimes. */
static void matmul(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    moire_dtype type = dt_type(m, x);
    if (s.rank < 1) return;
    int64_t k = s.d[s.rank - 1], n = DT_OF(m, widths), w[MOIRE_MAX_RANK];
    int rank = 2, batches = s.rank > 2 && dt_roll(m, 6) == 0;
    double scale = mo_type_in(type, MO_FLOATS) ? 1.3 / sqrt((double)k) : 2;
    if (batches) {
        rank = s.rank;
        for (int i = 0; i < rank - 2; i++)
            w[i] = dt_roll(m, 2) ? s.d[i] : 1;
    }
    w[rank - 2] = k, w[rank - 1] = n;
    if (s.rank == 1 || dt_roll(m, 12)) {
        int in[] = {x, dt_const(m, type, rank, w, scale, 0)};
        x = dt_chain(m, "MatMul", 2, in);
    } else { /* constant on the left */
        int64_t left[] = {n, s.d[s.rank - 2]};
        int in[] = {dt_const(m, type, 2, left, scale, 0), x};
        x = dt_chain(m, "MatMul", 2, in);
    }
    if (x < 0) return;
    if (dt_roll(m, 2)) {
        struct mo_shape y = *dt_shape(m, x);
        int in[] = {x, bias(m, type, y.rank > 1 ? y.d[y.rank - 2] : 1, y.d[y.rank - 1])};
        if (dt_roll(m, 3) == 0) in[0] = in[1], in[1] = x;
        x = dt_chain(m, "Add", 2, in);
    }
    if (x >= 0 && dt_roll(m, 3) == 0) { /* residual */
        const struct mo_shape y = *dt_shape(m, x);
        int in[] = {x, dt_like(m, type, &y)};
        if (in[1] != x) x = dt_chain(m, "Add", 2, in);
    }
    activate(m, x);
}

/* Wide and wide again. */
static void layers(struct dt_maker *m, int x) {
    moire_dtype type = dt_type(m, x);
    for (int i = 2; i > 0 && x >= 0; i--) {
        struct mo_shape s = *dt_shape(m, x);
        if (s.rank < 2) return;
        int64_t w[] = {s.d[s.rank - 1], i == 2 ? 128 + 16 * dt_roll(m, 2) : 64 + 8 * dt_roll(m, 5)};
        int in[] = {x, dt_const(m, type, 2, w, 1.3 / sqrt((double)w[0]), 0)};
        x = dt_chain(m, "MatMul", 2, in);
        int plus[] = {x, dt_vector(m, type, w[1], 0.5, 0)};
        if (dt_roll(m, 2)) x = dt_chain(m, "Add", 2, plus);
        activate(m, x);
    }
}

static void gemm(struct dt_maker *m, int x) {
    moire_dtype type = dt_type(m, x);
    if (dt_shape(m, x)->rank != 2) {
        x = dt_chain(m, "Flatten", 1, &x);
        if (x < 0) return;
    }
    struct mo_shape s = *dt_shape(m, x);
    bool ta = dt_roll(m, 4) == 0, tb = dt_roll(m, 2);
    int64_t rows = s.d[ta], k = s.d[!ta], n = DT_OF(m, widths), w[] = {tb ? n : k, tb ? k : n};
    double scale = mo_type_in(type, MO_FLOATS) ? 1.3 / sqrt((double)k) : 2;
    struct mo_shape other = {2, {tb ? -1 : k, tb ? k : -1}};
    int right = dt_roll(m, 4) ? -1 : dt_like(m, type, &other);
    if (right >= 0) n = dt_shape(m, right)->d[!tb];
    int in[] = {x, right >= 0 ? right : dt_const(m, type, 2, w, scale, 0), -1};
    bool with_c = m->g->opset < 11 || dt_roll(m, 4);
    if (with_c) in[2] = bias(m, type, rows, n);
    struct mo_node *node = dt_node(m, "Gemm", with_c ? 3 : 2, in, 1);
    if (ta || dt_roll(m, 4) == 0) dt_int(m, node, "transA", ta);
    if (tb) dt_int(m, node, "transB", 1);
    if (mo_type_in(type, MO_FLOATS) && dt_roll(m, 4) == 0) dt_float(m, node, "alpha", 0.5);
    if (mo_type_in(type, MO_FLOATS) && dt_roll(m, 4) == 0) dt_float(m, node, "beta", 0.25 * dt_roll(m, 5));
    if (dt_keep(m, node)) activate(m, node->out[0]);
}

static int swapped(struct dt_maker *m, int x) {
    int rank = dt_shape(m, x)->rank;
    int64_t perm[MOIRE_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    perm[rank - 1] = rank - 2, perm[rank - 2] = rank - 1;
    struct mo_node *n = dt_node(m, "Transpose", 1, &x, 1);
    dt_ints(m, n, "perm", rank, perm);
    return dt_keep(m, n) ? n->out[0] : -1;
}

/* Two activations: x times the transpose of a tensor like it. */
static void both(struct dt_maker *m, int x) {
    const struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 2) return;
    int y = dt_like(m, dt_type(m, x), &s), t = swapped(m, y);
    int in[] = {x, t};
    if (dt_roll(m, 2)) in[0] = t, in[1] = x;
    int scores = dt_chain(m, "MatMul", 2, in);
    if (scores < 0 || !mo_type_in(dt_type(m, x), MO_FLOATS)) return;
    int scale[] = {scores, dt_scalar(m, dt_type(m, x), 0.1)};
    dt_chain(m, "Mul", 2, scale);
}

static int project(struct dt_maker *m, int x, int64_t wide, int64_t heads) {
    struct mo_shape s = *dt_shape(m, x);
    int64_t w[] = {s.d[2], wide};
    int in[] = {x, dt_const(m, dt_type(m, x), 2, w, 1.2 / sqrt((double)s.d[2]), 0)};
    int y = dt_chain(m, "MatMul", 2, in);
    if (y >= 0 && dt_roll(m, 2)) {
        int plus[] = {y, dt_vector(m, dt_type(m, x), wide, 0.3, 0)};
        y = dt_chain(m, "Add", 2, plus);
    }
    int cut[] = {y, dt_list(m, 4, (int64_t[]){s.d[0], s.d[1], heads, wide / heads})};
    y = dt_chain(m, "Reshape", 2, cut);
    if (y < 0) return -1;
    struct mo_node *n = dt_node(m, "Transpose", 1, &y, 1);
    dt_ints(m, n, "perm", 4, (int64_t[]){0, 2, 1, 3});
    return dt_keep(m, n) ? n->out[0] : -1;
}

/* matmul, softmax, matmul over heads, with or without the projections around. */
static void attention(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    moire_dtype type = dt_type(m, x);
    if (s.rank != 3) return;
    int64_t heads = 1 + dt_roll(m, 3), wide = heads * (3 + dt_roll(m, 14));
    int q = project(m, x, wide, heads), k = project(m, x, wide, heads), v = project(m, x, wide, heads);
    int t = k >= 0 ? swapped(m, k) : -1, product[] = {q, t};
    int scale[] = {dt_chain(m, "MatMul", 2, product), dt_scalar(m, type, sqrt((double)wide / (double)heads))};
    int scores = dt_chain(m, "Div", 2, scale);
    if (scores >= 0 && dt_roll(m, 3) == 0) {
        int64_t d[] = {1, 1, s.d[1], s.d[1]};
        int mask[] = {scores, dt_const(m, type, 4, d, 1, -1)};
        scores = dt_chain(m, "Add", 2, mask);
    }
    if (scores < 0) return;
    struct mo_node *soft = dt_node(m, "Softmax", 1, &scores, 1);
    dt_int(m, soft, "axis", m->g->opset < 13 ? 3 : -1);
    if (!dt_keep(m, soft)) return;
    int mix[] = {soft->out[0], v};
    int y = dt_chain(m, "MatMul", 2, mix);
    if (y < 0) return;
    struct mo_node *back = dt_node(m, "Transpose", 1, &y, 1);
    dt_ints(m, back, "perm", 4, (int64_t[]){0, 2, 1, 3});
    if (!dt_keep(m, back)) return;
    int flat[] = {back->out[0], dt_list(m, 3, (int64_t[]){s.d[0], s.d[1], wide})};
    dt_chain(m, "Reshape", 2, flat);
}

const struct dt_kind dt_kinds_matrix[] = {
    {"matmul", 12, MO_NUMBERS, matmul}, {"layers", 3, MO_FLOATS, layers},       {"gemm", 7, MO_NUMBERS, gemm},
    {"both", 3, MO_NUMBERS, both},      {"attention", 4, MO_FLOATS, attention}, {0},
};
