/* SPDX-License-Identifier: Apache-2.0
 * make_index.c - random gathers and scatters. */
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

/* Random int64 indices below `bound`, some counted from the end. */
static int indices(struct dt_maker *m, int rank, const int64_t *d, int64_t bound) {
    int id = dt_const(m, MOIRE_I64, rank, d, 0, 0);
    int64_t *at = m->g->tensors[id]->data, n = mo_shape_count(dt_shape(m, id));
    bool negative = m->g->opset >= 11 && dt_roll(m, 3) == 0;
    for (int64_t i = 0; i < n; i++)
        at[i] = dt_roll(m, (int)bound) - (negative && dt_roll(m, 2) ? bound : 0);
    return id;
}

static void gather(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 1) return;
    int axis = dt_roll(m, s.rank), rank = dt_roll(m, 3);
    int64_t d[] = {1 + dt_roll(m, 4), 1 + dt_roll(m, 3)};
    int in[] = {x, indices(m, rank, d, s.d[axis])};
    struct mo_node *n = dt_node(m, "Gather", 2, in, 1);
    dt_int(m, n, "axis", axis);
    dt_keep(m, n);
}

static void gather_elements(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x), d = s;
    if (s.rank < 1) return;
    int axis = dt_roll(m, s.rank);
    d.d[axis] = 1 + dt_roll(m, 6);
    int in[] = {x, indices(m, s.rank, d.d, s.d[axis])};
    struct mo_node *n = dt_node(m, "GatherElements", 2, in, 1);
    dt_int(m, n, "axis", axis);
    dt_keep(m, n);
}

/* Whole rows written at one index each: nothing is written twice. */
static void scatter_nd(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 1) return;
    int64_t one[] = {1, 1}, d[MOIRE_MAX_RANK];
    for (int i = 0; i < s.rank; i++)
        d[i] = i ? s.d[i] : 1;
    int in[] = {x, indices(m, 2, one, s.d[0]), dt_const(m, dt_type(m, x), s.rank, d, 1, 0)};
    dt_chain(m, "ScatterND", 3, in);
}

/* A permutation along the axis: nothing is written twice. */
static void scatter_elements(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 1) return;
    int axis = dt_roll(m, s.rank);
    int at = dt_const(m, MOIRE_I64, s.rank, s.d, 0, 0);
    int64_t *data = m->g->tensors[at]->data, inner = mo_extent(&s, axis + 1, s.rank), n = mo_shape_count(&s);
    int64_t shift = dt_roll(m, (int)s.d[axis]);
    for (int64_t i = 0; i < n; i++)
        data[i] = (i / inner % s.d[axis] + shift) % s.d[axis];
    int in[] = {x, at, dt_const(m, dt_type(m, x), s.rank, s.d, 1, 0)};
    struct mo_node *node = dt_node(m, "ScatterElements", 3, in, 1);
    dt_int(m, node, "axis", axis);
    dt_keep(m, node);
}

const struct dt_kind dt_kinds_index[] = {
    {"gather", 4, MO_ANY, gather},
    {"gather elements", 1, MO_ANY, gather_elements},
    {"scatter nd", 1, MO_NUMBERS, scatter_nd},
    {"scatter elements", 1, MO_NUMBERS, scatter_elements},
    {0},
};
