/* SPDX-License-Identifier: Apache-2.0
 * pass_attention.c - the exported forms of attention become moire.Attention:
 *
 *   MatMul(Softmax(masked(MatMul([scale *] Q, [scale *] K^T) [* scale])), V)
 *
 * with operands of rank 4, [B,H,S,D], of rank 3, [B H,S,D] (which become [1,B H,S,D]), or of more, of which
 * all but the last three dimensions become one.  The mask is an Add, or a Where that replaces scores by a
 * constant; two constants that are added, the second to reshaped scores, become one (windows that are
 * shifted).  A Transpose that only brings the heads of an operand before its rows, or those of the result
 * behind, is taken in: attention reads and writes [B,S,H,D] in place.
 *
 * Between conversions to 8 bits, of Q, K, V, the softmax, the result and perhaps the scores, it becomes
 * moire.QAttention where there is a matrix unit for bytes. */
#include <string.h>
#include "codegen/passes/quantizer.h"
#include "runtime/ops/moire/attention.h"
#include "runtime/ops/op.h"

struct attention {
    int rank; /* of all operands */
    int q, kt, v, mask;
    int under; /* what a Transpose makes kt of, below a factor; -1: no Transpose */
    int more;  /* a second constant mask, of this shape when spread out; -1: there is none */
    struct mo_shape spread, scores;
    float scale, fill;
    bool replaces, keep; /* the mask is bool; it tells which scores stay */
    /* conversions; scale 0: there is none.  Those of small operands have these as `from` */
    struct mo_quantizer of[MO_ATTENTION_PARTS];
    float inner; /* factor of scores before their conversion */
};

/* Of numbers in a sum: its four terms together, of at most 255 * 256 a number, fit an int32. */
enum { MOST_SMALL = 16000 };

/* Where one operand or the result lies. */
struct place {
    int tensor;
    bool rows_first; /* [B,S,H,D] */
};

static bool of_rank(const struct mo_graph *g, int tensor, int rank) {
    return tensor >= 0 && mo_is_f32(g->tensors[tensor]) && g->tensors[tensor]->shape.rank == rank;
}

/* Skips a Mul or Div by a scalar constant; returns the tensor below, and the factor is multiplied in. */
static int unscale(const struct mo_graph *g, int tensor, float *scale) {
    const struct mo_node *node = mo_producer(g, tensor);
    float c;
    if (mo_is(node, "Div") && mo_scalar(g, node->in[1], &c) && c != 0) {
        *scale /= c;
        return node->in[0];
    }
    for (int k = 0; k < 2 && mo_is(node, "Mul"); k++) {
        if (!mo_scalar(g, node->in[k], &c)) continue;
        *scale *= c;
        return node->in[1 - k];
    }
    return tensor;
}

/* Notes what makes floats of bytes at `tensor`, if anything does. */
static void note_small(const struct mo_graph *g, int tensor, struct mo_quantizer *q) {
    if (!mo_quantizer_of(g, mo_producer(g, tensor), "DequantizeLinear", q) || q->dtype != MOIRE_U8)
        q->scale = 0;
}

/* Skips a conversion to bytes and back; returns the tensor below. */
static int unrounded(const struct mo_graph *g, int tensor, struct mo_quantizer *q) {
    struct mo_quantizer to;
    note_small(g, tensor, q);
    if (q->scale > 0 && mo_quantizer_of(g, mo_producer(g, q->from), "QuantizeLinear", &to) &&
        mo_quantizers_agree(&to, q))
        return to.from;
    q->scale = 0;
    return tensor;
}

/* The permutation of a Transpose as one of rank 4: with a leading axis added to rank 3, or the leading axes
 * of more taken together; false when it is none. */
static bool permutation(const struct mo_node *node, int rank, int64_t perm[4]) {
    int64_t own[MOIRE_MAX_RANK];
    if (!mo_is(node, "Transpose") || mo_attr_ints(node, "perm", own, MOIRE_MAX_RANK) != rank) return false;
    const int lead = 4 - rank;
    for (int i = 0; i < -lead; i++)
        if (own[i] != i) return false;
    for (int i = 0; i < 4; i++)
        perm[i] = i < lead ? i : own[i - lead] + lead;
    return true;
}

static bool is_perm(const int64_t perm[4], int a, int b, int c) {
    return perm[0] == 0 && perm[1] == a && perm[2] == b && perm[3] == c;
}

/* What lies below a Transpose that moved an operand's heads before its rows; for K^T (`is_kt`) one that also
 * exchanged its last two axes, or did only that.  -1: there is none. */
static int untransposed(const struct mo_graph *g, int id, bool is_kt, bool *rows_first) {
    const struct mo_node *turn = mo_producer(g, id);
    int64_t perm[4];
    *rows_first = false;
    if (!permutation(turn, g->tensors[id]->shape.rank, perm)) return -1;
    if (is_kt) {
        const int64_t last = perm[3];
        perm[3] = perm[2];
        perm[2] = last;
    }
    *rows_first = is_perm(perm, 2, 1, 3);
    return *rows_first || is_perm(perm, 1, 2, 3) ? turn->in[0] : -1;
}

/* The scaled scores: a MatMul under an optional factor, and perhaps one under a conversion. */
static bool scores(const struct mo_graph *g, int tensor, struct attention *a) {
    a->scale = a->inner = 1;
    int below = unscale(g, tensor, &a->scale);
    below = unrounded(g, below, &a->of[MO_ATTENTION_SCORES]);
    below = unscale(g, below, &a->inner);
    const struct mo_node *node = mo_producer(g, below);
    if (!mo_is(node, "MatMul") || !of_rank(g, below, a->rank)) return false;
    a->q = unscale(g, node->in[0], &a->inner);
    a->kt = unscale(g, node->in[1], &a->inner);
    bool rows_first;
    a->under = untransposed(g, a->kt, true, &rows_first);
    if (a->under >= 0) a->under = unscale(g, a->under, &a->inner);
    note_small(g, a->q, &a->of[MO_ATTENTION_Q]);
    note_small(g, a->kt, &a->of[MO_ATTENTION_K]);
    return of_rank(g, a->q, a->rank) && of_rank(g, a->kt, a->rank);
}

static bool same_shape(const struct mo_graph *g, int a, int b) {
    return mo_shape_equal(&g->tensors[a]->shape, &g->tensors[b]->shape);
}

/* Where(mask, constant, scores) or Where(mask, scores, constant). */
static bool replaced_scores(const struct mo_graph *g, const struct mo_node *where, struct attention *a) {
    for (int k = 1; k <= 2; k++) {
        if (!mo_scalar(g, where->in[3 - k], &a->fill) || !scores(g, where->in[k], a)) continue;
        const struct mo_tensor *mask = g->tensors[where->in[0]];
        a->mask = mask->id;
        a->replaces = true;
        a->keep = k == 1;
        return mask->dtype == MOIRE_BOOL && !mask->dynamic && mask->shape.rank <= a->rank &&
               same_shape(g, where->out[0], where->in[k]);
    }
    return false;
}

static bool singly_masked_scores(const struct mo_graph *g, int tensor, struct attention *a) {
    const struct mo_node *node = mo_producer(g, tensor);
    a->mask = -1;
    if (scores(g, tensor, a)) return true;
    if (mo_is(node, "Where")) return replaced_scores(g, node, a);
    for (int k = 0; k < 2 && mo_is(node, "Add"); k++) {
        if (!scores(g, node->in[k], a)) continue;
        const struct mo_tensor *mask = g->tensors[node->in[1 - k]];
        a->mask = mask->id;
        return mo_is_f32(mask) && mask->shape.rank <= a->rank && same_shape(g, tensor, node->in[k]);
    }
    return false;
}

/* Reshape(Add(constant, Reshape(scores with a constant mask))). */
static bool doubly_masked_scores(const struct mo_graph *g, int tensor, struct attention *a) {
    const struct mo_node *back = mo_producer(g, tensor);
    const struct mo_node *add = mo_is(back, "Reshape") ? mo_producer(g, back->in[0]) : NULL;
    if (!add || !mo_is(add, "Add")) return false;
    for (int k = 0; k < 2; k++) {
        const struct mo_node *apart = mo_producer(g, add->in[k]);
        const struct mo_tensor *more = g->tensors[add->in[1 - k]];
        if (!mo_is(apart, "Reshape") || !mo_is_f32(more) || !more->data) continue;
        if (!same_shape(g, apart->in[0], tensor) || !same_shape(g, add->in[k], add->out[0])) continue;
        if (!singly_masked_scores(g, apart->in[0], a) || a->mask < 0 || a->replaces) return false;
        a->more = more->id;
        a->spread = g->tensors[add->out[0]]->shape;
        return g->tensors[a->mask]->data != NULL;
    }
    return false;
}

static bool masked_scores(const struct mo_graph *g, int tensor, struct attention *a) {
    return singly_masked_scores(g, tensor, a) || doubly_masked_scores(g, tensor, a);
}

/* Dimensions of the mask before its last three: none of its own, or those of the scores. */
static bool leads_alike(const struct mo_graph *g, const struct attention *a) {
    if (a->mask < 0 || a->rank <= 4 || a->more >= 0) return true;
    const struct mo_shape *m = &g->tensors[a->mask]->shape, *s = &a->scores;
    bool ones = true, same = true;
    for (int i = 0; i < a->rank - 3; i++) {
        const int at = i - (a->rank - m->rank);
        const int64_t d = at < 0 ? 1 : m->d[at];
        ones = ones && d == 1;
        same = same && d == s->d[i];
    }
    return ones || same;
}

/* All of it is of bytes. */
static bool is_small(const struct mo_graph *g, const struct mo_node *node, struct attention *a) {
    const struct mo_node *next = mo_graph_sole_consumer(g, node->out[0]);
    if (!g->multiplies_tiles || !mo_quantizer_of(g, next, "QuantizeLinear", &a->of[MO_ATTENTION_Y]))
        return false;
    for (int i = 0; i < MO_ATTENTION_PARTS; i++)
        if (i != MO_ATTENTION_SCORES && (!(a->of[i].scale > 0) || a->of[i].dtype != MOIRE_U8)) return false;
    const int64_t *kt = g->tensors[a->kt]->shape.d + a->rank - 2;
    return kt[0] < MOST_SMALL && kt[1] < MOST_SMALL;
}

/* Nothing within is rounded; operands may have been.  Its factors become one. */
static bool is_plain(struct attention *a) {
    if (a->of[MO_ATTENTION_SCORES].scale > 0 || a->of[MO_ATTENTION_WEIGHTS].scale > 0) return false;
    a->of[MO_ATTENTION_Y].scale = 0;
    a->scale *= a->inner;
    return true;
}

static bool matches(const struct mo_graph *g, const struct mo_node *node, struct attention *a) {
    *a = (struct attention){.mask = -1, .more = -1};
    if (!mo_is(node, "MatMul") || node->out[0] < 0) return false;
    a->rank = g->tensors[node->out[0]]->shape.rank;
    if (a->rank < 3 || !of_rank(g, node->out[0], a->rank)) return false;
    const struct mo_node *softmax = mo_producer(g, unrounded(g, node->in[0], &a->of[MO_ATTENTION_WEIGHTS]));
    a->v = node->in[1];
    note_small(g, a->v, &a->of[MO_ATTENTION_V]);
    if (!mo_is(softmax, "Softmax") || !of_rank(g, a->v, a->rank) || !of_rank(g, softmax->in[0], a->rank))
        return false;
    int64_t axis = mo_attr_int(softmax, "axis", softmax->opset >= 13 ? -1 : 1);
    if ((axis != -1 && axis != a->rank - 1) || !masked_scores(g, softmax->in[0], a)) return false;
    a->scores = g->tensors[softmax->in[0]]->shape;
    if (!leads_alike(g, a)) return false;
    const int64_t *q = g->tensors[a->q]->shape.d, *kt = g->tensors[a->kt]->shape.d,
                  *v = g->tensors[a->v]->shape.d;
    int r = a->rank;
    bool fits = q[r - 1] == kt[r - 2] && kt[r - 1] == v[r - 2];
    for (int i = 0; i < r - 2; i++)
        fits = fits && q[i] == kt[i] && q[i] == v[i];
    return fits && (is_small(g, node, a) || is_plain(a));
}

/* --- operands ------------------------------------------------------------------------------------------ */

static int new_tensor(struct mo_graph *g, const struct mo_shape *shape, moire_dtype dtype, moire_error *err) {
    const struct mo_tensor *t = mo_graph_add_tensor(g, "attention", dtype, shape);
    return t ? t->id : mo_no_memory(err);
}

/* The same numbers in rank 4: the leading dimensions become one. */
static struct mo_shape of_four(const struct mo_shape *s) {
    struct mo_shape four = {.rank = 4, .d = {1, 1, 1, 1}};
    for (int i = 0; i < s->rank; i++)
        four.d[i < s->rank - 3 ? 0 : 4 - s->rank + i] *= s->d[i];
    return four;
}

/* A tensor of rank 4 with the bytes of `id`; <0 is an error. */
static int lifted(struct mo_graph *g, int id, moire_error *err) {
    if (g->tensors[id]->shape.rank == 4) return id;
    const struct mo_shape four = of_four(&g->tensors[id]->shape);
    int to = new_tensor(g, &four, g->tensors[id]->dtype, err);
    int rc = to < 0 ? to : mo_add_reshape(g, id, to, err);
    return rc ? rc : to;
}

/* A new tensor with the last two axes of `id` exchanged. */
static int turned(struct mo_graph *g, int id, moire_error *err) {
    struct mo_shape shape = g->tensors[id]->shape;
    int64_t perm[MOIRE_MAX_RANK];
    int r = shape.rank, to;
    for (int i = 0; i < r; i++)
        perm[i] = i;
    shape.d[r - 2] = g->tensors[id]->shape.d[r - 1];
    shape.d[r - 1] = g->tensors[id]->shape.d[r - 2];
    perm[r - 2] = r - 1;
    perm[r - 1] = r - 2;
    if ((to = new_tensor(g, &shape, g->tensors[id]->dtype, err)) < 0) return to;
    const int rc = mo_add_transpose(g, id, to, perm, err);
    return rc ? rc : to;
}

/* Finds the operand at rest: below the Transpose that moved its heads, of rank 4.  `under`: what is there,
 * where that is not the Transpose's own input; or -1. */
static int operand(struct mo_graph *g, int id, int under, bool is_kt, struct place *out, moire_error *err) {
    int from = untransposed(g, id, is_kt, &out->rows_first);
    if (from < 0)
        from = is_kt ? turned(g, id, err) : id;
    else if (under >= 0)
        from = under;
    out->tensor = from < 0 ? from : lifted(g, from, err);
    return out->tensor < 0 ? out->tensor : MOIRE_OK;
}

/* Where the result goes: through the Transpose behind it when that moves the heads back. */
static int result(struct mo_graph *g, int from, int rank, struct place *out, moire_error *err) {
    struct mo_node *turn = mo_graph_sole_consumer(g, from);
    int64_t perm[4];
    out->rows_first = permutation(turn, rank, perm) && is_perm(perm, 2, 1, 3);
    int to = out->rows_first ? turn->out[0] : from;
    if (out->rows_first) turn->dead = true;
    out->tensor = to;
    if (rank == 4) return MOIRE_OK;
    const struct mo_shape four = of_four(&g->tensors[to]->shape);
    out->tensor = new_tensor(g, &four, g->tensors[to]->dtype, err);
    return out->tensor < 0 ? out->tensor : mo_add_reshape(g, out->tensor, to, err);
}

/* to[i] += the constant, broadcast to shape `all`. */
static void add_constant(const struct mo_tensor *t, const struct mo_shape *all, float *to) {
    for (int64_t i = 0; i < mo_shape_count(all); i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int k = 1; k <= t->shape.rank; k++) {
            const int64_t d = t->shape.d[t->shape.rank - k], extent = all->d[all->rank - k];
            at += d == 1 ? 0 : rest % extent * step;
            rest /= extent;
            step *= d;
        }
        to[i] += ((const float *)t->data)[at];
    }
}

/* The mask for scores of rank 4; <0 is an error. */
static int mask_of(struct mo_graph *g, const struct attention *a, moire_error *err) {
    const struct mo_tensor *mask = g->tensors[a->mask];
    const bool joined = a->more >= 0;
    if (!joined && (mask->shape.rank <= 4 || !mask->data || mask->dtype != MOIRE_F32))
        return mask->shape.rank <= 4 ? mask->id : lifted(g, mask->id, err);
    const struct mo_shape shape = of_four(joined ? &a->scores : &mask->shape);
    struct mo_tensor *t = mo_graph_add_const(g, "mask", MOIRE_F32, &shape);
    if (!t) return mo_no_memory(err);
    memset(t->data, 0, (size_t)mo_tensor_bytes(t));
    add_constant(mask, joined ? &a->scores : &mask->shape, t->data);
    if (joined) add_constant(g->tensors[a->more], &a->spread, t->data);
    return t->id;
}

/* --- the rewrite --------------------------------------------------------------------------------------- */

static int set_attributes(struct mo_graph *g, struct mo_node *node, const struct attention *a,
                          const struct place p[4], moire_error *err) {
    int64_t order[4];
    for (int i = 0; i < 4; i++)
        order[i] = p[i].rows_first;
    struct mo_attr *scale = mo_node_add_attr(g, node, "scale", MO_ATTR_FLOAT);
    if (!scale) return mo_no_memory(err);
    scale->f = a->scale;
    if (a->replaces) {
        struct mo_attr *fill = mo_node_add_attr(g, node, "fill", MO_ATTR_FLOAT);
        if (!fill) return mo_no_memory(err);
        fill->f = a->fill;
        struct mo_attr *keep = mo_node_add_attr(g, node, "keep", MO_ATTR_INT);
        if (!keep) return mo_no_memory(err);
        keep->i = a->keep;
    }
    return mo_set_ints(g, node, "order", order, 4, err);
}

static int set_rounding(struct mo_graph *g, struct mo_node *node, const struct attention *a,
                        moire_error *err) {
    int rc = mo_set_float(g, node, "inner", a->inner, err);
    for (int i = 0; !rc && i < MO_ATTENTION_PARTS; i++) {
        rc = mo_set_float(g, node, mo_attention_scales[i], a->of[i].scale, err);
        if (!rc) rc = mo_set_int(g, node, mo_attention_zeros[i], a->of[i].zero, err);
    }
    return rc;
}

static int rewrite(struct mo_graph *g, struct mo_node *node, const struct attention *a, moire_error *err) {
    const struct mo_quantizer *of = a->of;
    const bool small = of[MO_ATTENTION_Y].scale > 0;
    struct place p[4];
    const int mask = a->mask < 0 ? -1 : mask_of(g, a, err);
    if (a->mask >= 0 && mask < 0) return mask;
    int rc = operand(g, small ? of[MO_ATTENTION_Q].from : a->q, -1, false, &p[0], err);
    if (!rc)
        rc = operand(g, small ? of[MO_ATTENTION_K].from : a->kt, small ? -1 : a->under, true, &p[1], err);
    if (!rc) rc = operand(g, small ? of[MO_ATTENTION_V].from : a->v, -1, false, &p[2], err);
    if (!rc && small) mo_graph_sole_consumer(g, node->out[0])->dead = true;
    if (!rc) rc = result(g, small ? of[MO_ATTENTION_Y].to : node->out[0], a->rank, &p[3], err);
    if (!rc) rc = mo_become(g, node, small ? "QAttention" : "Attention", a->mask >= 0 ? 4 : 3, err);
    if (!rc && small) rc = set_rounding(g, node, a, err);
    if (rc) return rc;
    for (int i = 0; i < 3; i++)
        node->in[i] = p[i].tensor;
    node->out[0] = p[3].tensor;
    if (mask >= 0) node->in[3] = mask;
    return set_attributes(g, node, a, p, err);
}

int mo_pass_attention(struct mo_graph *g, moire_error *err) {
    int n = g->n_nodes; /* Reshapes and Transposes are appended behind */
    for (int i = 0; i < n; i++) {
        struct attention a;
        if (g->nodes[i]->dead || !matches(g, g->nodes[i], &a)) continue;
        int rc = rewrite(g, g->nodes[i], &a, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
