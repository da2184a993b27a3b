/* SPDX-License-Identifier: Apache-2.0
 * batch_rows_rules.c - for each kind of operator: where its results have their rows when its operands have
 * them somewhere; see batch_rows.h.
 *
 * A rule sets out[k] only where it holds for every row by itself.  It need not look at what the shapes of
 * results show: the caller compares these.  A constant operand must be looked at by its contents, unless all
 * that it says is the result's shape. */
#include "codegen/batch_rows_rules.h"

#include <string.h>

/* --- operands --- */
static const struct mo_tensor *in(const struct mo_rows_node *c, int k) {
    return mo_node_in(c->rows->many, c->node, k);
}
static int rank(const struct mo_rows_node *c, int k) {
    return in(c, k)->shape.rank;
}
/* Where operand k has its rows; MO_ROWS_SAME: it is constant, or absent. */
static int at(const struct mo_rows_node *c, int k) {
    return in(c, k) ? c->rows->axis[c->node->in[k]] : MO_ROWS_SAME;
}
/* The operands from k on are constants without rows, or absent. */
static bool rest_same(const struct mo_rows_node *c, int from) {
    for (int k = from; k < c->node->n_in; k++)
        if (in(c, k) && (at(c, k) >= 0 || !mo_rows_const_same(c->rows, c->node->in[k]))) return false;
    return true;
}
/* Operand k has its rows at `axis`, or is a constant that fits there, or is absent. */
static bool goes_along(const struct mo_rows_node *c, int k, int axis) {
    if (!in(c, k)) return true;
    return at(c, k) >= 0 ? at(c, k) == axis : mo_rows_const_fits(c->rows, c->node->in[k], axis);
}
static void set_all(const struct mo_rows_node *c, int axis) {
    for (int k = 0; k < c->node->n_out; k++)
        c->out[k] = axis;
}
static int64_t normal(int64_t axis, int dims) {
    return axis < 0 ? axis + dims : axis;
}
/* Axis attribute, from 0. */
static int64_t axis_of(const struct mo_rows_node *c, int64_t fallback, int dims) {
    return normal(mo_attr_int(c->node, "axis", fallback), dims);
}
/* Whole numbers of a constant operand.  Returns: how many; -1: it is none. */
static int numbers(const struct mo_rows_node *c, int k, int64_t to[MOIRE_MAX_RANK]) {
    const struct mo_tensor *t = in(c, k);
    const int64_t n = t && t->data ? mo_shape_count(&t->shape) : -1;
    if (n < 0 || n > MOIRE_MAX_RANK || (t->dtype != MOIRE_I64 && t->dtype != MOIRE_I32)) return -1;
    for (int64_t i = 0; i < n; i++)
        to[i] = t->dtype == MOIRE_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
    return (int)n;
}
/* The same of a list that is an operand or, in older opsets, an attribute; -1: neither is there. */
static int list(const struct mo_rows_node *c, int k, const char *attr, int64_t to[MOIRE_MAX_RANK]) {
    if (in(c, k)) return numbers(c, k, to);
    const int n = mo_attr_ints(c->node, attr, to, MOIRE_MAX_RANK);
    return n > MOIRE_MAX_RANK ? -1 : n;
}

/* --- element by element, with broadcasting --- */
static void element(const struct mo_rows_node *c) {
    int widest = 0, axis = -1;
    for (int k = 0; k < c->node->n_in; k++)
        if (in(c, k) && rank(c, k) > widest) widest = rank(c, k);
    for (int k = 0; k < c->node->n_in; k++) {
        if (at(c, k) < 0) continue;
        const int here = at(c, k) + widest - rank(c, k);
        if (axis >= 0 && here != axis) return;
        axis = here;
    }
    for (int k = 0; k < c->node->n_in; k++)
        if (in(c, k) && at(c, k) < 0 && !goes_along(c, k, axis - (widest - rank(c, k)))) return;
    c->out[0] = axis;
}

/* Training would draw which elements to drop. */
static void dropout(const struct mo_rows_node *c) {
    const struct mo_tensor *training = in(c, 2);
    if (training && (!training->data || training->dtype != MOIRE_BOOL || *(const char *)training->data))
        return;
    c->out[0] = at(c, 0);
}

/* Scales of the whole tensor, or by index along an axis that is not that of the rows. */
static void quantize(const struct mo_rows_node *c) {
    if (at(c, 0) < 0 || !rest_same(c, 1) || rank(c, 1) > 1) return;
    if (mo_shape_count(&in(c, 1)->shape) > 1 && axis_of(c, 1, rank(c, 0)) == at(c, 0)) return;
    c->out[0] = at(c, 0);
}

/* --- moves --- */
/* The same bytes under another shape: rows are equal pieces behind what lies before their axis. */
static void view(const struct mo_rows_node *c) {
    const struct mo_tensor *to = mo_node_out(c->rows->many, c->node, 0);
    int64_t before = 1, so_far = 1;
    if (at(c, 0) < 0) return;
    for (int i = 0; i < at(c, 0); i++)
        before *= in(c, 0)->shape.d[i];
    for (int i = 0; i < to->shape.rank; so_far *= to->shape.d[i++])
        if (so_far == before && to->shape.d[i] && to->shape.d[i] % c->rows->n == 0) {
            c->out[0] = i;
            return;
        }
}

static void transpose(const struct mo_rows_node *c) {
    int64_t perm[MOIRE_MAX_RANK];
    const int n = mo_attr_ints(c->node, "perm", perm, MOIRE_MAX_RANK), dims = rank(c, 0);
    for (int i = 0; i < dims; i++)
        if ((n == dims ? perm[i] : dims - 1 - i) == at(c, 0)) c->out[0] = i;
}

static void concat(const struct mo_rows_node *c) {
    int axis = -1;
    for (int k = 0; k < c->node->n_in; k++)
        if (at(c, k) >= 0) axis = at(c, k);
    for (int k = 0; k < c->node->n_in; k++)
        if (!goes_along(c, k, axis)) return;
    if (axis_of(c, 1, rank(c, 0)) != axis) c->out[0] = axis;
}

static void split(const struct mo_rows_node *c) {
    if (rest_same(c, 1) && axis_of(c, 0, rank(c, 0)) != at(c, 0)) set_all(c, at(c, 0));
}

static void slice(const struct mo_rows_node *c) {
    int64_t axes[MOIRE_MAX_RANK], starts[MOIRE_MAX_RANK];
    const int given = list(c, 1, "starts", starts), n = list(c, 3, "axes", axes);
    if (at(c, 0) < 0 || !rest_same(c, 1) || given < 0 || (n < 0 && in(c, 3))) return;
    for (int i = 0; i < given; i++)
        if ((i < n ? normal(axes[i], rank(c, 0)) : i) == at(c, 0)) return;
    c->out[0] = at(c, 0);
}

static void gather(const struct mo_rows_node *c) {
    const int data = at(c, 0), index = at(c, 1);
    const int axis = (int)axis_of(c, 0, rank(c, 0));
    if (data < 0 && mo_rows_const_same(c->rows, c->node->in[0]))
        c->out[0] = axis + index;
    else if (data >= 0 && data != axis && rest_same(c, 1))
        c->out[0] = data < axis ? data : data - 1 + rank(c, 1);
}

static void gather_elements(const struct mo_rows_node *c) {
    const int axis = at(c, 0);
    if (axis >= 0 && goes_along(c, 1, axis) && axis_of(c, 0, rank(c, 0)) != axis) c->out[0] = axis;
}

static void pad(const struct mo_rows_node *c) {
    int64_t pads[2 * MOIRE_MAX_RANK];
    const struct mo_tensor *given = in(c, 1);
    const int axis = at(c, 0), dims = rank(c, 0);
    if (axis < 0 || !rest_same(c, 1) || in(c, 3)) return; /* 3: pads of some axes only */
    if (given && given->dtype == MOIRE_I64 && mo_shape_count(&given->shape) == 2 * dims)
        memcpy(pads, given->data, 2 * (size_t)dims * sizeof *pads);
    else if (given || mo_attr_ints(c->node, "pads", pads, 2 * MOIRE_MAX_RANK) != 2 * dims)
        return;
    if (!pads[axis] && !pads[axis + dims]) c->out[0] = axis;
}

/* Repeats and broadcasts: what the result's shape shows is all there is, but not along the rows. */
static void stretch(const struct mo_rows_node *c) {
    const struct mo_shape *from = &in(c, 0)->shape, *to = &mo_node_out(c->rows->many, c->node, 0)->shape;
    const int axis = at(c, 0) + to->rank - from->rank;
    if (at(c, 0) >= 0 && axis >= 0 && to->d[axis] == from->d[at(c, 0)]) c->out[0] = axis;
}

/* --- along other axes --- */
static void reduce(const struct mo_rows_node *c) {
    int64_t axes[MOIRE_MAX_RANK];
    const int n = list(c, 1, "axes", axes), axis = at(c, 0);
    int before = 0;
    if (n <= 0 || axis < 0 || !rest_same(c, 1)) return; /* none: all */
    for (int i = 0; i < n; i++) {
        const int64_t other = normal(axes[i], rank(c, 0));
        if (other == axis) return;
        before += other < axis;
    }
    c->out[0] = mo_attr_int(c->node, "keepdims", 1) ? axis : axis - before;
}

static void arg(const struct mo_rows_node *c) {
    const int64_t other = axis_of(c, 0, rank(c, 0));
    const int axis = at(c, 0);
    if (other != axis) c->out[0] = mo_attr_int(c->node, "keepdims", 1) ? axis : axis - (other < axis);
}

/* Before opset 13 everything from the axis on is one row of it. */
static void softmax(const struct mo_rows_node *c) {
    const bool one_axis = c->node->opset >= 13;
    const int64_t other = axis_of(c, one_axis ? -1 : 1, rank(c, 0));
    if (one_axis ? other != at(c, 0) : other > at(c, 0)) c->out[0] = at(c, 0);
}

static void along_axis(const struct mo_rows_node *c) {
    if (at(c, 0) >= 0 && rest_same(c, 1) && axis_of(c, -1, rank(c, 0)) != at(c, 0)) set_all(c, at(c, 0));
}

static void cumsum(const struct mo_rows_node *c) {
    int64_t other[MOIRE_MAX_RANK];
    if (rest_same(c, 1) && numbers(c, 1, other) == 1 && normal(other[0], rank(c, 0)) != at(c, 0))
        c->out[0] = at(c, 0);
}

/* Over the last axes, from one on. */
static void norm_of_last(const struct mo_rows_node *c) {
    if (at(c, 0) >= 0 && rest_same(c, 1) && axis_of(c, -1, rank(c, 0)) > at(c, 0)) c->out[0] = at(c, 0);
}

static void trilu(const struct mo_rows_node *c) {
    if (rest_same(c, 1) && at(c, 0) >= 0 && at(c, 0) < rank(c, 0) - 2) c->out[0] = at(c, 0);
}

static void one_hot(const struct mo_rows_node *c) {
    const int64_t other = axis_of(c, -1, rank(c, 0) + 1);
    if (at(c, 0) >= 0 && rest_same(c, 1)) c->out[0] = at(c, 0) + (other <= at(c, 0));
}

/* --- products --- */
static void matmul(const struct mo_rows_node *c) {
    const int ra = rank(c, 0), rb = rank(c, 1), a = at(c, 0), b = at(c, 1);
    const int widest = ra > rb ? ra : rb;
    if (ra < 2 || rb < 2 || !rest_same(c, 2)) return;
    for (int k = 2; k < c->node->n_in; k++) /* zero points: of the whole, lest they follow rows */
        if (in(c, k) && mo_shape_count(&in(c, k)->shape) != 1) return;
    if (a == ra - 1 || b == rb - 2) return; /* the sum runs over the rows */
    const int axis = a >= 0 ? a + widest - ra : b + widest - rb;
    const bool left = axis == widest - 2, right = axis == widest - 1;
    if (left || right) { /* rows of one matrix: the other one is the same for all */
        const int other = left ? 1 : 0;
        if (at(c, other) < 0 && mo_rows_const_same(c->rows, c->node->in[other])) c->out[0] = axis;
    } else if (goes_along(c, 0, axis - (widest - ra)) && goes_along(c, 1, axis - (widest - rb))) {
        c->out[0] = axis;
    }
}

static void gemm(const struct mo_rows_node *c) {
    const int rows = mo_attr_int(c->node, "transA", 0) ? 1 : 0;
    if (at(c, 0) != rows || at(c, 1) >= 0 || !mo_rows_const_same(c->rows, c->node->in[1])) return;
    if (!in(c, 2) || goes_along(c, 2, rank(c, 2) - 2)) c->out[0] = 0;
}

/* Images [N,C,...]: each of the N by itself. */
static void images(const struct mo_rows_node *c) {
    if (at(c, 0) == 0 && rest_same(c, 1)) c->out[0] = 0;
}

/* Its weights are those of inference. */
static void batch_norm(const struct mo_rows_node *c) {
    if (!mo_attr_int(c->node, "training_mode", 0) && c->node->n_out == 1) images(c);
}

static void grid_sample(const struct mo_rows_node *c) {
    if (goes_along(c, 0, 0) && goes_along(c, 1, 0)) c->out[0] = 0;
}

/* Scales or sizes: along the rows nothing may change, and the caller sees sizes in the result's shape. */
static void resize(const struct mo_rows_node *c) {
    const int scales = c->node->op && !strcmp(c->node->op_type, "Upsample") ? 1 : c->node->opset < 11 ? 1 : 2;
    const struct mo_tensor *s = in(c, scales);
    const char *mode = mo_attr_string(c->node, "coordinate_transformation_mode", "");
    if (at(c, 0) != 0 || !strcmp(mode, "tf_crop_and_resize") || mo_attr_find(c->node, "axes") ||
        mo_attr_find(c->node, "keep_aspect_ratio_policy") || mo_attr_find(c->node, "scales"))
        return;
    if (s && mo_shape_count(&s->shape) > 0 &&
        (!mo_rows_const_same(c->rows, s->id) || s->dtype != MOIRE_F32 || *(const float *)s->data != 1.0f))
        return;
    if (mo_node_out(c->rows->many, c->node, 0)->shape.d[0] == in(c, 0)->shape.d[0]) c->out[0] = 0;
}

/* X, W, R, B, lengths, first states, P. */
static void recurrent(const struct mo_rows_node *c) {
    const bool batch_first = mo_attr_int(c->node, "layout", 0) != 0;
    const int state = batch_first ? 0 : 1;
    if (at(c, 0) != state || !goes_along(c, 4, 0) || !goes_along(c, 5, state) || !goes_along(c, 6, state))
        return;
    for (int k = 1; k < c->node->n_in; k++)
        if (in(c, k) && (k < 4 || k > 6) && (at(c, k) >= 0 || !mo_rows_const_same(c->rows, c->node->in[k])))
            return;
    set_all(c, state);
    if (c->node->n_out) c->out[0] = batch_first ? 0 : 2;
}

/* Every operand from `from` on has its rows in front. */
static bool all_in_front(const struct mo_rows_node *c, int from) {
    for (int k = from; k < c->node->n_in; k++)
        if (!goes_along(c, k, 0)) return false;
    return true;
}

/* Q, K, V, mask, past keys and values, lengths.  A mask of less than four dimensions is that of all. */
static void attention(const struct mo_rows_node *c) {
    const bool own = in(c, 3) && rank(c, 3) == 4;
    if (in(c, 3) && !own && (at(c, 3) >= 0 || !mo_rows_const_same(c->rows, c->node->in[3]))) return;
    for (int k = 0; k < 3; k++)
        if (at(c, k) != 0) return;
    if ((!own || goes_along(c, 3, 0)) && all_in_front(c, 4)) set_all(c, 0);
}

/* X, cos, sin, positions: without these the caches are those of the rows. */
static void rotary(const struct mo_rows_node *c) {
    const bool by_id = in(c, 3) != NULL;
    for (int k = 1; k < 3 && by_id; k++)
        if (at(c, k) >= 0 || !mo_rows_const_same(c->rows, c->node->in[k])) return;
    if (at(c, 0) == 0 && all_in_front(c, by_id ? 3 : 1)) c->out[0] = 0;
}

/* A cache, what is written, and where. */
static void tensor_scatter(const struct mo_rows_node *c) {
    if (all_in_front(c, 0)) c->out[0] = 0;
}

/* --- the table --- */
struct row {
    mo_rows_rule rule;
    const char *names; /* between spaces */
};
static const struct row table[] = {
    {element,
     " Add Sub Mul Div Pow Mod And Or Xor BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot Equal Greater "
     "GreaterOrEqual Less LessOrEqual Max Min Mean Sum Where PRelu Cast CastLike Clip IsInf IsNaN Not "},
    {dropout, " Dropout "},
    {quantize, " QuantizeLinear DequantizeLinear "},
    {view, " Reshape Flatten Squeeze Unsqueeze "},
    {transpose, " Transpose "},
    {concat, " Concat "},
    {split, " Split "},
    {slice, " Slice "},
    {gather, " Gather "},
    {gather_elements, " GatherElements "},
    {pad, " Pad "},
    {stretch, " Expand Tile "},
    {reduce,
     " ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum "
     "ReduceLogSumExp MeanVarianceNormalization "},
    {arg, " ArgMax ArgMin "},
    {softmax, " Softmax LogSoftmax Hardmax "},
    {along_axis, " LpNormalization TopK "},
    {cumsum, " CumSum "},
    {norm_of_last, " LayerNormalization RMSNormalization "},
    {trilu, " Trilu "},
    {one_hot, " OneHot "},
    {matmul, " MatMul MatMulInteger "},
    {gemm, " Gemm "},
    {images,
     " Conv ConvInteger ConvTranspose QLinearConv AveragePool MaxPool LpPool GlobalAveragePool GlobalMaxPool "
     "GlobalLpPool LRN InstanceNormalization GroupNormalization DepthToSpace SpaceToDepth "},
    {batch_norm, " BatchNormalization "},
    {grid_sample, " GridSample "},
    {resize, " Resize Upsample "},
    {recurrent, " RNN GRU LSTM "},
    {attention, " Attention "},
    {rotary, " RotaryEmbedding "},
    {tensor_scatter, " TensorScatter "},
};

mo_rows_rule mo_rows_rule_of(const struct mo_node *node) {
    char word[64];
    const size_t n = strlen(node->op_type);
    if (*node->domain || n + 3 > sizeof word) return NULL;
    word[0] = word[n + 1] = ' ';
    memcpy(word + 1, node->op_type, n);
    word[n + 2] = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strstr(table[i].names, word)) return table[i].rule;
    return node->op && node->op->flags & MO_OP_POINTWISE ? element : NULL;
}
