/* SPDX-License-Identifier: Apache-2.0
 * make_reduce.c - random reductions, softmaxes, sorting. */
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

static void reduce(struct dt_maker *m, int x) {
    static const char *const names[] = {"ReduceSum", "ReduceMean",      "ReduceMean",
                                        "ReduceMax", "ReduceMin",       "ReduceL1",
                                        "ReduceL2",  "ReduceSumSquare", "ReduceLogSumExp"};
    int rank = dt_shape(m, x)->rank, n_axes = 0;
    int64_t axes[MOIRE_MAX_RANK];
    bool floats = mo_type_in(dt_type(m, x), MO_FLOATS);
    const char *op =
        floats ? DT_OF(m, names) : names[dt_roll(m, 5)]; /* roots and logarithms of integers round */
    bool last = dt_roll(m, 2);
    for (int i = 0; i < rank; i++)
        if (last ? i >= rank - 1 - dt_roll(m, 2) : dt_roll(m, 2))
            axes[n_axes++] = dt_roll(m, 3) ? i : i - rank;
    if (m->g->opset < 11)
        for (int i = 0; i < n_axes; i++)
            axes[i] += axes[i] < 0 ? rank : 0;
    struct mo_node *n = dt_node(m, op, 1, &x, 1);
    if (n_axes) dt_sizes(m, n, !strcmp(op, "ReduceSum") ? 13 : 18, 1, "axes", n_axes, axes);
    if (dt_roll(m, 2)) dt_int(m, n, "keepdims", dt_roll(m, 2));
    dt_keep(m, n);
}

static void softmax(struct dt_maker *m, int x) {
    int rank = dt_shape(m, x)->rank;
    if (rank < 1) return;
    struct mo_node *n = dt_node(m, dt_roll(m, 4) ? "Softmax" : "LogSoftmax", 1, &x, 1);
    int axis = dt_roll(m, 2) ? rank - 1 : dt_roll(m, rank);
    if (dt_roll(m, 4)) dt_int(m, n, "axis", m->g->opset >= 11 && dt_roll(m, 2) ? axis - rank : axis);
    dt_keep(m, n);
}

/* Of graph inputs only: noise must not change an order. */
static void top_k(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (!m->g->tensors[x]->is_input || s.rank < 1 ||
        !mo_type_in(dt_type(m, x), MO_TYPE(MOIRE_F32) | MO_TYPE(MOIRE_F64)))
        return;
    int axis = dt_roll(m, s.rank);
    int64_t k = 1 + dt_roll(m, (int)s.d[axis]);
    struct mo_node *n = dt_node(m, "TopK", 1, &x, 2);
    if (m->g->opset < 10)
        dt_int(m, n, "k", k);
    else
        dt_sizes(m, n, 10, 1, "k", 1, &k);
    dt_int(m, n, "axis", axis);
    if (m->g->opset >= 11 && dt_roll(m, 2)) dt_int(m, n, "largest", 0);
    if (dt_keep(m, n) && dt_roll(m, 3) == 0) dt_omit(m, n, dt_roll(m, 2));
}

static void arg_max(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (!m->g->tensors[x]->is_input || s.rank < 1 ||
        !mo_type_in(dt_type(m, x), MO_TYPE(MOIRE_F32) | MO_TYPE(MOIRE_F64)))
        return;
    struct mo_node *n = dt_node(m, dt_roll(m, 2) ? "ArgMax" : "ArgMin", 1, &x, 1);
    dt_int(m, n, "axis", dt_roll(m, s.rank));
    if (dt_roll(m, 2)) dt_int(m, n, "keepdims", 0);
    dt_keep(m, n);
}

static void cum_sum(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 1) return;
    int in[] = {x, dt_scalar(m, MOIRE_I64, dt_roll(m, s.rank))};
    struct mo_node *n = dt_node(m, "CumSum", 2, in, 1);
    if (dt_roll(m, 2)) dt_int(m, n, "exclusive", 1);
    if (dt_roll(m, 2)) dt_int(m, n, "reverse", 1);
    dt_keep(m, n);
}

const struct dt_kind dt_kinds_reduce[] = {
    {"reduce", 8, MO_NUMBERS, reduce},  {"softmax", 5, MO_FLOATS, softmax},  {"top k", 3, MO_FLOATS, top_k},
    {"arg max", 2, MO_FLOATS, arg_max}, {"cum sum", 1, MO_NUMBERS, cum_sum}, {0},
};
