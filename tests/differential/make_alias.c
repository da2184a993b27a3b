/* SPDX-License-Identifier: Apache-2.0
 * make_alias.c - what shares storage: concatenations, slices and parts of tensors, on every axis, alone and
 * in chains, with layers between that read or write the parts. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

/* Axis 1 mostly, as a positive or negative number. */
static int pick_axis(struct dt_maker *m, int rank) {
    int how = dt_roll(m, 8);
    int axis = how < 4 ? (rank > 1 ? 1 : 0) : how == 4 ? 0 : how == 5 ? rank - 1 : dt_roll(m, rank);
    return axis;
}

static int written(struct dt_maker *m, int axis, int rank) {
    return dt_roll(m, 3) ? axis : axis - rank;
}

static void join(struct dt_maker *m, int n, const int *in, int axis) {
    for (int i = 0; i < n; i++)
        if (in[i] < 0) return;
    struct mo_node *node = dt_node(m, "Concat", n, in, 1);
    dt_int(m, node, "axis", written(m, axis, dt_shape(m, in[0])->rank));
    dt_keep(m, node);
}

static void concat(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 1) return;
    int axis = pick_axis(m, s.rank), in[4], n = 1 + dt_roll(m, 4);
    s.d[axis] = -1;
    int at = dt_roll(m, n);
    for (int i = 0; i < n; i++)
        in[i] = i == at ? x : dt_like(m, dt_type(m, x), &s);
    join(m, n, in, axis);
}

/* Something that keeps the shape but for the channels, or x itself. */
static int layer(struct dt_maker *m, int x) {
    static const int64_t widths[] = {1, 3, 5, 8, 15, 16, 17, 31, 32};
    struct mo_shape s = *dt_shape(m, x);
    moire_dtype type = dt_type(m, x);
    int how = dt_roll(m, 6);
    if (!mo_type_in(type, MO_FLOATS) || how == 0) return x;
    if (how < 4 && s.rank == 4) {
        int64_t k = dt_roll(m, 2) ? 1 : 3, w[] = {DT_OF(m, widths), s.d[1], k, k};
        int in[] = {x, dt_const(m, type, 4, w, 1.2 / sqrt((double)(s.d[1] * k * k)), 0)};
        struct mo_node *n = dt_node(m, "Conv", 2, in, 1);
        if (k == 3) dt_ints(m, n, "pads", 4, (int64_t[]){1, 1, 1, 1});
        return dt_keep(m, n) ? n->out[0] : x;
    }
    if (how < 4 && s.rank >= 2) {
        int64_t w[] = {s.d[s.rank - 1], dt_roll(m, 2) ? s.d[s.rank - 1] : DT_OF(m, widths)};
        int in[] = {x, dt_const(m, type, 2, w, 1.2 / sqrt((double)w[0]), 0)};
        int y = dt_chain(m, "MatMul", 2, in);
        if (y < 0 || dt_roll(m, 2)) return y < 0 ? x : y;
        int plus[] = {y, dt_vector(m, type, w[1], 0.5, 0)};
        y = dt_chain(m, "Add", 2, plus);
        return y < 0 ? x : y;
    }
    static const char *const names[] = {"Relu", "Sigmoid", "Tanh", "Neg", "Abs"};
    int y = dt_chain(m, DT_OF(m, names), 1, &x);
    return y < 0 ? x : y;
}

/* Branches from x that meet in a concat, and sometimes in a second one with x or a branch again. */
static void branches(struct dt_maker *m, int x) {
    int rank = dt_shape(m, x)->rank, in[4], n = 2 + dt_roll(m, 3);
    if (rank < 2) return;
    for (int i = 0; i < n; i++) {
        in[i] = layer(m, x);
        if (dt_roll(m, 3) == 0) in[i] = layer(m, in[i]);
    }
    int axis = dt_roll(m, 3) ? 1 : rank - 1, before = m->g->n_nodes;
    join(m, n, in, axis);
    if (m->g->n_nodes == before) return;
    int both = m->live[m->n_live - 1];
    if (dt_roll(m, 2)) {
        int next[] = {dt_roll(m, 2) ? both : layer(m, both), dt_roll(m, 2) ? layer(m, in[0]) : in[1]};
        if (dt_roll(m, 2)) both = next[0], next[0] = next[1], next[1] = both;
        join(m, 2, next, axis);
    } else {
        layer(m, both);
    }
}

/* A run of indices of one axis; of any axis, with steps, from the end. */
static int cut(struct dt_maker *m, int x, int axis, int64_t begin, int64_t end, int64_t step) {
    int rank = dt_shape(m, x)->rank;
    int64_t a = written(m, axis, rank);
    struct mo_node *n = dt_node(m, "Slice", 1, &x, 1);
    if (m->g->opset < 10 && step != 1) {
        m->g->n_nodes--;
        return -1;
    }
    dt_sizes(m, n, 10, 1, "starts", 1, &begin);
    dt_sizes(m, n, 10, 2, "ends", 1, &end);
    dt_sizes(m, n, 10, 3, "axes", 1, &a);
    if (m->g->opset >= 10 && (step != 1 || dt_roll(m, 2))) dt_sizes(m, n, 10, 4, "steps", 1, &step);
    return dt_keep(m, n) ? n->out[0] : -1;
}

static void slice(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 1) return;
    int axis = pick_axis(m, s.rank);
    int64_t d = s.d[axis], begin = dt_roll(m, (int)d), end = begin + 1 + dt_roll(m, (int)(d - begin)),
            step = 1;
    if (dt_roll(m, 5) == 0) step = 2;
    if (dt_roll(m, 8) == 0) {
        int64_t last = begin - 1;
        begin = end - 1, end = last < 0 ? INT64_MIN / 2 : last, step = -1;
    } else if (dt_roll(m, 4) == 0 && begin) {
        begin -= d;
    }
    if (step == 1 && end == d && dt_roll(m, 2)) end = INT64_MAX;
    int y = cut(m, x, axis, begin, end, step);
    if (y >= 0 && dt_roll(m, 2)) layer(m, y);
}

/* Parts of x by Split. */
static void split(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 1) return;
    int axis = pick_axis(m, s.rank), parts = 2 + dt_roll(m, 3), opset = m->g->opset;
    int64_t d = s.d[axis], size[4], left = d;
    if (d < parts) return;
    for (int i = 0; i < parts; i++) {
        size[i] = i == parts - 1 ? left : 1 + dt_roll(m, (int)(left - (parts - 1 - i)));
        left -= size[i];
    }
    bool even = d % parts == 0 && dt_roll(m, 2);
    struct mo_node *n = dt_node(m, "Split", 1, &x, parts);
    if (!even) dt_sizes(m, n, 13, 1, "split", parts, size);
    if (even && opset >= 18) dt_int(m, n, "num_outputs", parts);
    dt_int(m, n, "axis", written(m, axis, s.rank));
    if (!dt_keep(m, n)) return;
    int part[4], left_out = dt_roll(m, 12) ? -1 : dt_roll(m, parts);
    for (int i = 0; i < parts; i++)
        part[i] = n->out[i == left_out ? (i + 1) % parts : i];
    if (left_out >= 0) dt_omit(m, n, left_out);
    for (int i = 0; i < parts; i++)
        part[i] = dt_roll(m, 2) ? layer(m, part[i]) : part[i];
    if (dt_roll(m, 2)) join(m, 2, (int[]){part[dt_roll(m, parts)], part[dt_roll(m, parts)]}, axis);
}

/* A slice of one tensor joined with another, and the whole read as well. */
static void slice_and_whole(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 2 || s.d[1] < 2) return;
    int64_t at = 1 + dt_roll(m, (int)s.d[1] - 1);
    int head = cut(m, x, 1, 0, at, 1), tail = cut(m, x, 1, at, s.d[1], 1);
    if (head < 0 || tail < 0) return;
    if (dt_roll(m, 2)) head = layer(m, head);
    join(m, 2, dt_roll(m, 2) ? (int[]){tail, head} : (int[]){head, tail}, 1);
    if (dt_roll(m, 2)) layer(m, x);
}

/* Two results of one shape: one is a part of a concat and is added to the other. */
static void residual_part(struct dt_maker *m, int x) {
    static const int64_t widths[] = {5, 16, 16, 17, 32, 48};
    struct mo_shape s = *dt_shape(m, x);
    moire_dtype type = dt_type(m, x);
    int64_t wide = DT_OF(m, widths), w[] = {wide, s.rank > 1 ? s.d[1] : 1, 1, 1},
            row[] = {s.d[s.rank - 1], wide};
    bool image = s.rank == 4;
    int two[2];
    if (s.rank < 2) return;
    for (int i = 0; i < 2; i++) {
        int in[] = {x, image ? dt_const(m, type, 4, w, 0.3, 0) : dt_const(m, type, 2, row, 0.3, 0)};
        two[i] = dt_chain(m, image ? "Conv" : "MatMul", 2, in);
        if (two[i] < 0) return;
    }
    int sum = dt_chain(m, "Add", 2, dt_roll(m, 2) ? two : (int[]){two[1], two[0]});
    if (sum >= 0 && dt_roll(m, 2)) sum = dt_chain(m, "Relu", 1, &sum);
    int part = two[dt_roll(m, 2)];
    join(m, 2, (int[]){layer(m, part), part}, image ? 1 : s.rank - 1 - (s.rank == 3 && dt_roll(m, 2)));
}

const struct dt_kind dt_kinds_alias[] = {
    {"concat", 12, MO_ANY, concat},
    {"branches", 9, MO_FLOATS, branches},
    {"slice", 7, MO_ANY, slice},
    {"split", 6, MO_ANY, split},
    {"slice and whole", 4, MO_ANY, slice_and_whole},
    {"residual part", 4, MO_FLOATS, residual_part},
    {0},
};
