/* SPDX-License-Identifier: Apache-2.0
 * pass_scaled_attention.c - ONNX's Attention (runtime/ops/decoder/scaled_attention.h) becomes
 * moire.Attention.
 *
 * The past's keys and values are joined to the new ones, which makes the present ones.  Everything that hides
 * keys becomes one mask: what windows and causality hide is a constant where the offset is known, and
 * otherwise computed from nonpad_kv_seqlen.  Where several query heads share one head of keys they become
 * rows of one head, so that keys and values are not copied.  moire.Attention makes NaN of a query that sees
 * nothing; where a mask could do that, such outputs become zeros behind it.
 *
 * Left to the reference: other types than float32, a soft cap, scores as an output, a mask that ends early.
 */
#include <math.h>
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"
#include "runtime/ops/decoder/scaled_attention.h"

struct sdpa_rewrite {
    struct mo_graph *g;
    struct mo_node *node;
    struct mo_sdpa a;
    int64_t each; /* query heads of a head of keys */
    moire_error *err;
    int rc; /* of the first thing that failed; then nothing is added any more */
};

/* --- what can be taken -----------------------------------------------------------------------------------
 */

static int input(const struct sdpa_rewrite *r, int i) {
    return i < r->node->n_in ? r->node->in[i] : -1;
}

static int output(const struct sdpa_rewrite *r, int i) {
    return i < r->node->n_out ? r->node->out[i] : -1;
}

static bool is_static(const struct mo_tensor *t, int i) {
    if (i == MO_SDPA_VALID) return !t->dynamic && t->dtype == MOIRE_I64;
    return mo_is_f32(t) || (i == MO_SDPA_MASK && !t->dynamic && t->dtype == MOIRE_BOOL);
}

static bool matches(struct sdpa_rewrite *r) {
    struct mo_value in[MO_SDPA_INPUTS] = {0};
    if (r->node->dead || !mo_is(r->node, "Attention") || output(r, MO_SDPA_SCORES) >= 0) return false;
    for (int i = 0; i < MO_SDPA_INPUTS; i++) {
        const int id = input(r, i);
        if (id < 0) continue;
        if (!is_static(r->g->tensors[id], i)) return false;
        in[i] = mo_tensor_value(r->g->tensors[id]);
    }
    if (mo_sdpa_of(r->node, in, &r->a) || r->a.softcap > 0) return false;
    const struct mo_shape *mask = &in[MO_SDPA_MASK].shape;
    if (input(r, MO_SDPA_MASK) >= 0 && mask->d[mask->rank - 1] != r->a.keys) return false;
    r->each = r->a.heads / r->a.groups;
    return r->a.batch > 0 && r->a.queries > 0 && r->a.keys > 0 && r->a.depth > 0 && r->a.width > 0;
}

/* --- adding nodes ----------------------------------------------------------------------------------------
 */

static int fail(struct sdpa_rewrite *r, int rc) {
    if (!r->rc) r->rc = rc;
    return -1;
}

static struct mo_shape shape4(int64_t a, int64_t b, int64_t c, int64_t d) {
    return (struct mo_shape){.rank = 4, .d = {a, b, c, d}};
}

static const struct mo_shape *shape_of(const struct sdpa_rewrite *r, int id) {
    return &r->g->tensors[id]->shape;
}

static int add_tensor(struct sdpa_rewrite *r, moire_dtype dtype, struct mo_shape shape) {
    if (r->rc) return -1;
    struct mo_tensor *t = mo_graph_add_tensor(r->g, "attention", dtype, &shape);
    return t ? t->id : fail(r, mo_no_memory(r->err));
}

static void *add_constant(struct sdpa_rewrite *r, moire_dtype dtype, struct mo_shape shape, int *id) {
    struct mo_tensor *t = r->rc ? NULL : mo_graph_add_const(r->g, "attention", dtype, &shape);
    *id = t ? t->id : r->rc ? -1 : fail(r, mo_no_memory(r->err));
    return t ? t->data : NULL;
}

/* `op` of up to three operands, which makes a tensor of its own or, where to >= 0, that one; its id. */
static int add(struct sdpa_rewrite *r, const char *op, const int in[3], moire_dtype dtype,
               struct mo_shape shape, int to) {
    const int n_in = in[2] >= 0 ? 3 : in[1] >= 0 ? 2 : 1;
    if (!r->rc && to < 0) to = add_tensor(r, dtype, shape);
    struct mo_node *node = r->rc ? NULL : mo_add_node(r->g, op, n_in, in[0], to);
    if (!node) return r->rc ? -1 : fail(r, mo_no_memory(r->err));
    for (int k = 1; k < n_in; k++)
        node->in[k] = in[k];
    return to;
}

static void set_int(struct sdpa_rewrite *r, const char *name, int64_t value) {
    if (!r->rc) r->rc = mo_set_int(r->g, r->g->nodes[r->g->n_nodes - 1], name, value, r->err);
}

/* Pointwise of two or three operands that broadcast, of rank 4 each or scalars. */
static int pointwise(struct sdpa_rewrite *r, const char *op, int a, int b, int c, moire_dtype dtype) {
    const int in[3] = {a, b, c};
    struct mo_shape all = shape4(1, 1, 1, 1);
    for (int k = 0; k < 3 && !r->rc; k++)
        for (int i = 0; in[k] >= 0 && i < shape_of(r, in[k])->rank; i++)
            if (shape_of(r, in[k])->d[i] > all.d[i]) all.d[i] = shape_of(r, in[k])->d[i];
    return add(r, op, in, dtype, all, -1);
}

static int reshaped(struct sdpa_rewrite *r, int id, struct mo_shape shape) {
    if (r->rc || mo_shape_equal(shape_of(r, id), &shape)) return id;
    const int to = add_tensor(r, r->g->tensors[id]->dtype, shape);
    if (!r->rc) r->rc = mo_add_reshape(r->g, id, to, r->err);
    return to;
}

/* Exchanges the two middle dimensions of four. */
static int turned(struct sdpa_rewrite *r, int id, int to) {
    static const int64_t perm[4] = {0, 2, 1, 3};
    if (r->rc) return -1;
    const int64_t *d = shape_of(r, id)->d;
    if (to < 0) to = add_tensor(r, r->g->tensors[id]->dtype, shape4(d[0], d[2], d[1], d[3]));
    if (!r->rc) r->rc = mo_add_transpose(r->g, id, to, perm, r->err);
    return to;
}

/* --- keys and values -------------------------------------------------------------------------------------
 */

/* Of rank 4; *rows_first: as the projection wrote them.  A present one is made where it is asked for. */
static int keys_of(struct sdpa_rewrite *r, enum mo_sdpa_input now, enum mo_sdpa_input past,
                   enum mo_sdpa_output present, int64_t columns, bool *rows_first) {
    const struct mo_sdpa *a = &r->a;
    const int wanted = output(r, present), old = input(r, past);
    int id = input(r, now);
    *rows_first = a->rows_first && old < 0 && wanted < 0;
    if (a->rows_first) id = reshaped(r, id, shape4(a->batch, a->keys - a->past, a->groups, columns));
    if (a->rows_first && !*rows_first) id = turned(r, id, old < 0 ? wanted : -1);
    if (old >= 0) {
        const struct mo_shape all = shape4(a->batch, a->groups, a->keys, columns);
        id = add(r, "Concat", (int[]){old, id, -1}, MOIRE_F32, all, wanted);
        set_int(r, "axis", 2);
    } else if (wanted >= 0 && !a->rows_first) {
        (void)add(r, "Identity", (int[]){id, -1, -1}, MOIRE_F32, *shape_of(r, id), wanted);
    }
    return id;
}

/* Queries: rows of the heads of keys, where several share one. */
static int queries_of(struct sdpa_rewrite *r, bool *rows_first) {
    const struct mo_sdpa *a = &r->a;
    int id = input(r, MO_SDPA_Q);
    *rows_first = a->rows_first && r->each == 1;
    if (a->rows_first && (r->each == 1 || a->queries > 1))
        id = reshaped(r, id, shape4(a->batch, a->queries, a->heads, a->depth));
    if (r->each == 1) return id;
    if (a->rows_first && a->queries > 1) id = turned(r, id, -1);
    return reshaped(r, id, shape4(a->batch, a->groups, r->each * a->queries, a->depth));
}

/* --- the mask --------------------------------------------------------------------------------------------
 */

/* Keys [first, end) that a query at this position sees by its window; none: end <= first. */
static void window_of(const struct mo_sdpa *a, int64_t position, int64_t *first, int64_t *end) {
    *first = a->low == INT64_MIN || position + a->low < 0 ? 0 : position + a->low;
    *end = a->high == INT64_MAX || position + a->high >= a->keys ? a->keys : position + a->high + 1;
}

/* 0, 1, 2, ... along an axis. */
static int counted(struct sdpa_rewrite *r, int axis, int64_t n) {
    struct mo_shape shape = shape4(1, 1, 1, 1);
    int id;
    shape.d[axis] = n;
    int64_t *to = add_constant(r, MOIRE_I64, shape, &id);
    for (int64_t i = 0; to && i < n; i++)
        to[i] = i;
    return id;
}

static int number(struct sdpa_rewrite *r, int64_t value) {
    const int id = counted(r, 3, 1);
    if (!r->rc) *(int64_t *)r->g->tensors[id]->data = value;
    return id;
}

static int both(struct sdpa_rewrite *r, int a, int b) {
    return a < 0 ? b : b < 0 ? a : pointwise(r, "And", a, b, -1, MOIRE_BOOL);
}

/* Keys within the window's bounds, where the first query is at position `first`, of each of the batch. */
static int within_bounds(struct sdpa_rewrite *r, int first) {
    const struct mo_sdpa *a = &r->a;
    const int keys = counted(r, 3, a->keys);
    const int at = pointwise(r, "Add", counted(r, 2, a->queries), first, -1, MOIRE_I64);
    int seen = -1;
    if (a->high < INT64_MAX)
        seen = pointwise(r, "LessOrEqual", keys, pointwise(r, "Add", at, number(r, a->high), -1, MOIRE_I64),
                         -1, MOIRE_BOOL);
    if (a->low > INT64_MIN)
        seen = both(r, seen,
                    pointwise(r, "GreaterOrEqual", keys,
                              pointwise(r, "Add", at, number(r, a->low), -1, MOIRE_I64), -1, MOIRE_BOOL));
    return seen;
}

/* What the window lets be seen at a known offset; -1: all.  *blind: a query sees nothing.  A constant, unless
 * that were larger than constants are made at load. */
static int window_mask(struct sdpa_rewrite *r, bool *blind) {
    const struct mo_sdpa *a = &r->a;
    int64_t hidden = 0, first, end;
    int id;
    for (int64_t i = 0; i < a->queries; i++) {
        window_of(a, a->past + i, &first, &end);
        *blind = *blind || end <= first;
        hidden += end - first < a->keys;
    }
    if (!hidden) return -1;
    if (a->queries > r->g->env->limits.fold_bytes / a->keys) return within_bounds(r, number(r, a->past));
    uint8_t *seen = add_constant(r, MOIRE_BOOL, shape4(1, 1, a->queries, a->keys), &id);
    for (int64_t i = 0; seen && i < a->queries; i++) {
        window_of(a, a->past + i, &first, &end);
        for (int64_t j = 0; j < a->keys; j++)
            seen[i * a->keys + j] = j >= first && j < end;
    }
    return id;
}

/* What nonpad_kv_seqlen lets be seen: keys before that number, and those of the window of queries at its end.
 */
static int valid_mask(struct sdpa_rewrite *r) {
    const struct mo_sdpa *a = &r->a;
    const int valid = reshaped(r, input(r, MO_SDPA_VALID), shape4(a->batch, 1, 1, 1));
    const int seen = pointwise(r, "Less", counted(r, 3, a->keys), valid, -1, MOIRE_BOOL);
    if (a->low == INT64_MIN && a->high == INT64_MAX) return seen;
    return both(r, seen, within_bounds(r, pointwise(r, "Sub", valid, number(r, a->queries), -1, MOIRE_I64)));
}

static int scalar(struct sdpa_rewrite *r, float value) {
    int id;
    float *x = add_constant(r, MOIRE_F32, (struct mo_shape){.rank = 0}, &id);
    if (x) *x = value;
    return id;
}

/* All that hides keys, of rank 4: bool, true where a key is seen, or what is added; -1: nothing does. */
static int mask_of(struct sdpa_rewrite *r, bool *blind) {
    const int own = input(r, MO_SDPA_MASK);
    *blind = own >= 0 || input(r, MO_SDPA_VALID) >= 0;
    const int seen = input(r, MO_SDPA_VALID) >= 0 ? valid_mask(r) : window_mask(r, blind);
    if (own < 0 || r->rc) return seen;
    const struct mo_shape *s = shape_of(r, own);
    struct mo_shape four = shape4(1, 1, 1, 1);
    memcpy(four.d + 4 - s->rank, s->d, (size_t)s->rank * sizeof *s->d);
    const int mask = reshaped(r, own, four);
    if (r->g->tensors[own]->dtype == MOIRE_BOOL) return both(r, mask, seen);
    return seen < 0 ? mask : pointwise(r, "Where", seen, mask, scalar(r, -INFINITY), MOIRE_F32);
}

/* Queries that see nothing, [..,1]. */
static int blind_queries(struct sdpa_rewrite *r, int mask) {
    if (r->rc) return -1;
    const bool is_bool = r->g->tensors[mask]->dtype == MOIRE_BOOL;
    struct mo_shape shape = *shape_of(r, mask);
    if (is_bool) {
        mask = add(r, "Cast", (int[]){mask, -1, -1}, MOIRE_F32, shape, -1);
        set_int(r, "to", MOIRE_F32);
    }
    shape.d[3] = 1;
    const int most = add(r, "ReduceMax", (int[]){mask, -1, -1}, MOIRE_F32, shape, -1);
    static const int64_t last[1] = {3};
    if (!r->rc) r->rc = mo_set_ints(r->g, r->g->nodes[r->g->n_nodes - 1], "axes", last, 1, r->err);
    return pointwise(r, "Equal", most, scalar(r, is_bool ? 0 : -INFINITY), -1, MOIRE_BOOL);
}

/* For queries that are rows of the heads of keys. */
static int mask_of_rows(struct sdpa_rewrite *r, int mask) {
    const struct mo_sdpa *a = &r->a;
    if (r->rc || mask < 0 || r->each == 1) return mask;
    const int64_t *d = shape_of(r, mask)->d;
    if (d[1] == 1 && d[2] == 1) return mask;
    const struct mo_shape all = shape4(d[0], a->heads, a->queries, d[3]);
    int to;
    int64_t *shape = add_constant(r, MOIRE_I64, (struct mo_shape){.rank = 1, .d = {4}}, &to);
    if (shape) memcpy(shape, all.d, 4 * sizeof *shape);
    const int wide = add(r, "Expand", (int[]){mask, to, -1}, r->g->tensors[mask]->dtype, all, -1);
    return reshaped(r, wide, shape4(all.d[0], a->groups, r->each * a->queries, all.d[3]));
}

/* --- the rewrite -----------------------------------------------------------------------------------------
 */

/* From what moire.Attention makes to what is asked for. */
static void finish(struct sdpa_rewrite *r, int y, bool rows_first, int blind) {
    const struct mo_sdpa *a = &r->a;
    if (!rows_first) y = reshaped(r, y, shape4(a->batch, a->heads, a->queries, a->width));
    if (blind >= 0)
        y = pointwise(r, "Where", rows_first ? turned(r, blind, -1) : blind, scalar(r, 0), y, MOIRE_F32);
    if (a->rows_first && !rows_first && a->queries > 1) y = turned(r, y, -1);
    if (!r->rc) r->rc = mo_add_reshape(r->g, y, output(r, MO_SDPA_Y), r->err);
}

static void set_attributes(struct sdpa_rewrite *r, struct mo_node *node, const bool rows_first[4]) {
    int64_t order[4];
    for (int i = 0; i < 4; i++)
        order[i] = rows_first[i];
    r->rc = mo_set_float(r->g, node, "scale", (float)r->a.scale, r->err);
    if (!r->rc) r->rc = mo_set_int(r->g, node, "keep", 1, r->err);
    if (!r->rc) r->rc = mo_set_ints(r->g, node, "order", order, 4, r->err);
}

static int rewrite(struct sdpa_rewrite *r) {
    const struct mo_sdpa *a = &r->a;
    bool rows_first[4], blind;
    int in[4];
    in[0] = queries_of(r, &rows_first[0]);
    in[1] = keys_of(r, MO_SDPA_K, MO_SDPA_PAST_K, MO_SDPA_PRESENT_K, a->depth, &rows_first[1]);
    in[2] = keys_of(r, MO_SDPA_V, MO_SDPA_PAST_V, MO_SDPA_PRESENT_V, a->width, &rows_first[2]);
    const int mask = mask_of(r, &blind), hidden = mask >= 0 && blind ? blind_queries(r, mask) : -1;
    in[3] = mask_of_rows(r, mask);
    rows_first[3] = rows_first[0];
    const bool bare = hidden < 0 && r->each == 1 && !a->rows_first;
    const struct mo_shape made = rows_first[3] ? shape4(a->batch, a->queries, a->heads, a->width)
                                               : shape4(a->batch, a->groups, r->each * a->queries, a->width);
    const int y = bare ? output(r, MO_SDPA_Y) : add_tensor(r, MOIRE_F32, made);
    if (r->rc) return r->rc;
    const int n_in = mask < 0 ? 3 : 4;
    struct mo_node *node = mo_graph_add_node(r->g, r->node->name, "Attention", "moire", n_in, 1);
    if (!node) return mo_no_memory(r->err);
    node->op = mo_op_find("Attention", "moire");
    memcpy(node->in, in, (size_t)n_in * sizeof *in);
    node->out[0] = y;
    r->node->dead = true;
    set_attributes(r, node, rows_first);
    if (!bare) finish(r, y, rows_first[3], hidden);
    return r->rc;
}

int mo_pass_scaled_attention(struct mo_graph *g, moire_error *err) {
    const int n = g->n_nodes;
    for (int i = 0; i < n; i++) {
        struct sdpa_rewrite r = {.g = g, .node = g->nodes[i], .err = err};
        if (!matches(&r)) continue;
        const int rc = rewrite(&r);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
