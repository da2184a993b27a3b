/* SPDX-License-Identifier: Apache-2.0
 * make_norm.c - random normalizations, whole or written out in small operators as exporters do. */
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

static void batch_norm(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    moire_dtype type = dt_type(m, x);
    if (s.rank < 2) return;
    int64_t c = s.d[1];
    int in[] = {x, dt_vector(m, type, c, 0.5, 1), dt_vector(m, type, c, 1, 0), dt_vector(m, type, c, 1, 0),
                dt_vector(m, type, c, 0.3, 1.2)};
    dt_chain(m, "BatchNormalization", 5, in);
}

static void instance_norm(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 3 || s.rank > 4 || mo_extent(&s, 2, s.rank) < 2) return; /* of one value nothing is left */
    int in[] = {x, dt_vector(m, dt_type(m, x), s.d[1], 0.5, 1), dt_vector(m, dt_type(m, x), s.d[1], 1, 0)};
    struct mo_node *n = dt_node(m, "InstanceNormalization", 3, in, 1);
    dt_float(m, n, "epsilon", 1e-2);
    dt_keep(m, n);
}

static void lrn(struct dt_maker *m, int x) {
    if (dt_shape(m, x)->rank != 4) return;
    struct mo_node *n = dt_node(m, "LRN", 1, &x, 1);
    dt_int(m, n, "size", 3 + 2 * dt_roll(m, 2));
    dt_keep(m, n);
}

static void layer_norm(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 2) return;
    int axis = dt_roll(m, 4) ? s.rank - 1 : dt_roll(m, s.rank), rank = s.rank - axis;
    const bool centred = m->g->opset < 23 || dt_roll(m, 2);
    int in[] = {x, dt_const(m, dt_type(m, x), rank, s.d + axis, 0.5, 1),
                dt_const(m, dt_type(m, x), rank, s.d + axis, 1, 0)};
    struct mo_node *n = dt_node(m, centred ? "LayerNormalization" : "RMSNormalization",
                                centred ? 2 + dt_roll(m, 2) : 2, in, 1);
    dt_int(m, n, "axis", dt_roll(m, 2) ? axis : axis - s.rank);
    dt_float(m, n, "epsilon", 1e-2);
    if (m->g->opset >= 17)
        dt_keep(m, n);
    else
        m->g->n_nodes--;
}

/* mean, difference, square, mean, root, quotient, scale, shift; without a mean, by the root of the mean
 * square */
static void written_out(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    moire_dtype type = dt_type(m, x);
    if (s.rank < 2) return;
    int64_t axis = m->g->opset >= 11 ? -1 : s.rank - 1;
    int d = x;
    if (dt_roll(m, 3)) {
        struct mo_node *mean = dt_node(m, "ReduceMean", 1, &x, 1);
        dt_sizes(m, mean, 18, 1, "axes", 1, &axis);
        if (!dt_keep(m, mean)) return;
        int sub[] = {x, mean->out[0]};
        d = dt_chain(m, "Sub", 2, sub);
    }
    int pow[] = {d, dt_scalar(m, type, 2)}, square[] = {d, d};
    int v = dt_roll(m, 2) ? dt_chain(m, "Pow", 2, pow) : dt_chain(m, "Mul", 2, square);
    if (v < 0) return;
    struct mo_node *var = dt_node(m, "ReduceMean", 1, &v, 1);
    dt_sizes(m, var, 18, 1, "axes", 1, &axis);
    if (!dt_keep(m, var)) return;
    int eps[] = {var->out[0], dt_scalar(m, type, 0.01)};
    int root = dt_chain(m, "Add", 2, eps);
    root = dt_chain(m, "Sqrt", 1, &root);
    int div[] = {d, root}, y = dt_chain(m, "Div", 2, div);
    int scale[] = {y, dt_vector(m, type, s.d[s.rank - 1], 0.5, 1)};
    y = dt_chain(m, "Mul", 2, scale);
    int shift[] = {y, dt_vector(m, type, s.d[s.rank - 1], 1, 0)};
    dt_chain(m, "Add", 2, shift);
}

const struct dt_kind dt_kinds_norm[] = {
    {"batch norm", 6, MO_FLOATS, batch_norm},
    {"instance norm", 2, MO_FLOATS, instance_norm},
    {"lrn", 1, MO_FLOATS, lrn},
    {"layer norm", 3, MO_FLOATS, layer_norm},
    {"written out", 2, MO_FLOATS, written_out},
    {0},
};
