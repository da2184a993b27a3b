/* SPDX-License-Identifier: Apache-2.0
 * trial.c - inputs on which operators do not fail; see trial.h.
 *
 * One pass over the nodes marks which tensors hold elements of the input, as they are or after arithmetic,
 * and stops at the operands of the table.  An operator that is missing there takes any numbers. */
#include "runtime/ops/trial.h"
#include <string.h>
#include "runtime/ops/util.h"

enum want {
    ANY,
    NONZERO, /* of an integer division */
    INDEX,   /* below a dimension of operand `of` */
    ZEROS,
    ONES,
    COUNT_UP, /* different axes */
    SHAPE,    /* any number of elements: -1, 1, 1, ... */
    PARTS,    /* sizes whose sum is a dimension of operand `of` */
    UNITS,    /* axes of length 1 of operand `of` */
    SIZES,    /* the shape of operand `of` */
};

static const struct operand {
    const char *op; /* "Reduce*": every operator whose name begins so */
    int at;
    enum want want;
    int of, axis; /* axis: where the operator has no attribute of that name */
} operands[] = {
    {"Div", 1, NONZERO, 0, 0},
    {"Mod", 1, NONZERO, 0, 0},
    {"Gather", 1, INDEX, 0, 0},
    {"GatherElements", 1, INDEX, 0, 0},
    {"Scatter", 1, INDEX, 0, 0},
    {"ScatterElements", 1, INDEX, 0, 0},
    {"NegativeLogLikelihoodLoss", 1, INDEX, 0, 1},
    {"SoftmaxCrossEntropyLoss", 1, INDEX, 0, 1},
    {"GatherND", 1, ZEROS, 0, 0},
    {"ScatterND", 1, ZEROS, 0, 0},
    {"TensorScatter", 2, ZEROS, 0, 0},
    {"MaxUnpool", 1, ZEROS, 0, 0},
    {"MaxRoiPool", 1, ZEROS, 0, 0},
    {"RoiAlign", 2, ZEROS, 0, 0},
    {"CumSum", 1, ZEROS, 0, 0},
    {"Trilu", 1, ZEROS, 0, 0},
    {"Pad", 1, ZEROS, 0, 0},
    {"Pad", 3, COUNT_UP, 0, 0},
    {"Range", 0, ZEROS, 0, 0},
    {"Range", 1, ONES, 0, 0},
    {"Range", 2, ONES, 0, 0},
    {"Slice", 1, ZEROS, 0, 0},
    {"Slice", 2, ONES, 0, 0},
    {"Slice", 3, COUNT_UP, 0, 0},
    {"Slice", 4, ONES, 0, 0},
    {"OneHot", 1, ONES, 0, 0},
    {"TopK", 1, ONES, 0, 0},
    {"Expand", 1, ONES, 0, 0},
    {"Tile", 1, ONES, 0, 0},
    {"ConstantOfShape", 0, ONES, 0, 0},
    {"CenterCropPad", 1, ONES, 0, 0},
    {"Col2Im", 1, ONES, 0, 0},
    {"Col2Im", 2, ONES, 0, 0},
    {"ReverseSequence", 1, ONES, 0, 0},
    {"RNN", 4, ONES, 0, 0},
    {"GRU", 4, ONES, 0, 0},
    {"LSTM", 4, ONES, 0, 0},
    {"Attention", 6, ONES, 0, 0},
    {"NonMaxSuppression", 2, ONES, 0, 0},
    {"Upsample", 1, ONES, 0, 0},
    {"Resize", 2, ONES, 0, 0},
    {"Resize", 3, SIZES, 0, 0},
    {"DFT", 1, ONES, 0, 0},
    {"STFT", 1, ONES, 0, 0},
    {"STFT", 3, ONES, 0, 0},
    {"HannWindow", 0, ONES, 0, 0},
    {"HammingWindow", 0, ONES, 0, 0},
    {"BlackmanWindow", 0, ONES, 0, 0},
    {"Reshape", 1, SHAPE, 0, 0},
    {"Split", 1, PARTS, 0, 0},
    {"Unsqueeze", 1, COUNT_UP, 0, 0},
    {"Squeeze", 1, UNITS, 0, 0},
    {"Reduce*", 1, COUNT_UP, 0, 0},
};

/* What becomes of elements of the input: nothing is known of most operators' outputs. */
enum mark { OTHER, MOVED, COMPUTED };

static const struct passage {
    const char *op;
    enum mark mark;
    unsigned operands; /* bit i: elements of operand i */
} passages[] = {
    {"Identity", MOVED, 1}, {"Cast", MOVED, 1},     {"Reshape", MOVED, 1},   {"Flatten", MOVED, 1},
    {"Squeeze", MOVED, 1},  {"Concat", MOVED, ~0u}, {"Unsqueeze", MOVED, 1}, {"Transpose", MOVED, 1},
    {"Expand", MOVED, 1},   {"Tile", MOVED, 1},     {"Slice", MOVED, 1},     {"Split", MOVED, 1},
    {"Gather", MOVED, 1},   {"Where", MOVED, 6},    {"Clip", MOVED, 1},      {"Abs", MOVED, 1},
    {"Add", COMPUTED, 3},   {"Sub", COMPUTED, 3},   {"Mul", COMPUTED, 3},    {"Div", COMPUTED, 1},
    {"Mod", COMPUTED, 1},   {"Neg", COMPUTED, 1},   {"Max", COMPUTED, ~0u},  {"Min", COMPUTED, ~0u},
    {"Floor", COMPUTED, 1}, {"Ceil", COMPUTED, 1},  {"Round", COMPUTED, 1},
};

static bool is_named(const struct mo_node *node, const char *op) {
    size_t n = strlen(op);
    return op[n - 1] == '*' ? !strncmp(node->op_type, op, n - 1) : !strcmp(node->op_type, op);
}

/* Length of the dimension that the operator's axis names; 0: not known. */
static int64_t length(const struct mo_graph *g, const struct mo_node *node, const struct operand *o) {
    const struct mo_tensor *of = mo_node_in(g, node, o->of);
    if (!of || of->shape.rank < 1) return 0;
    int64_t axis = mo_attr_int(node, "axis", o->axis);
    if (axis < 0) axis += of->shape.rank;
    return axis >= 0 && axis < of->shape.rank ? of->shape.d[axis] : 0;
}

static double nth_unit_axis(const struct mo_tensor *t, int64_t nth) {
    for (int d = 0; t && d < t->shape.rank; d++)
        if (t->shape.d[d] == 1 && nth-- == 0) return d;
    return 0;
}

/* Element i of n; `old` is what is there. */
static double element(const struct mo_graph *g, const struct mo_node *node, const struct operand *o,
                      enum mark mark, double old, int64_t i, int64_t n) {
    const struct mo_tensor *of = mo_node_in(g, node, o->of);
    switch (o->want) {
    case NONZERO:
        return old != 0 ? old : 1;
    case INDEX:
        if (mark == COMPUTED || old < 0) return 0;
        return old < (double)length(g, node, o) ? old : 0;
    case ONES:
        return 1;
    case COUNT_UP:
        return (double)i;
    case SHAPE:
        return i ? 1 : -1;
    case PARTS: { /* what does not divide evenly is in the first */
        const int64_t all = length(g, node, o), part = all / n + (i ? 0 : all % n);
        return (double)part;
    }
    case UNITS:
        return nth_unit_axis(of, i);
    case SIZES:
        return of && i < of->shape.rank ? (double)of->shape.d[i] : 1;
    default:
        return 0;
    }
}

/* Fractions below 1 become 0 when they are cast to integers. */
static bool is_integer(const struct mo_tensor *t) {
    return mo_type_in(t->dtype, MO_INTS);
}

static void suit(const struct mo_graph *g, const struct mo_node *node, int at, enum mark mark,
                 const struct mo_value *v) {
    int64_t n = mo_shape_count(&v->shape);
    for (size_t k = 0; k < sizeof operands / sizeof *operands; k++) {
        const struct operand *o = &operands[k];
        bool exact = o->want == NONZERO || o->want == INDEX;
        if (o->at != at || !is_named(node, o->op) || (mark == COMPUTED && !exact)) continue;
        if (o->want == NONZERO && !is_integer(g->tensors[node->in[at]])) continue;
        bool cut = is_integer(g->tensors[node->in[at]]) && mo_type_in(v->dtype, MO_FLOATS);
        for (int64_t i = 0; i < n; i++) {
            double old = mo_load(v, i);
            mo_store(v, i, element(g, node, o, mark, cut ? (double)(int64_t)old : old, i, n));
        }
    }
}

static enum mark passes(const struct mo_node *node, int at, enum mark mark) {
    for (size_t k = 0; k < sizeof passages / sizeof *passages; k++)
        if (at < 32 && passages[k].operands >> at & 1 && is_named(node, passages[k].op))
            return mark == COMPUTED ? COMPUTED : passages[k].mark;
    return OTHER;
}

void mo_trial_repair(const struct mo_graph *g, int input, void *data) {
    struct mo_value v = mo_tensor_value(g->tensors[g->inputs[input]]);
    v.data = data;
    unsigned char *mark = mo_alloc(g->env, (size_t)g->n_tensors);
    if (!mark || mo_shape_count(&v.shape) < 1 || !mo_type_in(v.dtype, MO_ANY)) {
        mo_free(g->env, mark);
        return;
    }
    mark[g->inputs[input]] = MOVED;
    for (int k = 0; k < g->n_nodes; k++) {
        const struct mo_node *node = g->nodes[k];
        for (int i = 0; i < node->n_in; i++) {
            enum mark from = node->in[i] >= 0 ? mark[node->in[i]] : OTHER, to;
            if (from == OTHER) continue;
            suit(g, node, i, from, &v);
            to = passes(node, i, from);
            for (int out = 0; to != OTHER && out < node->n_out; out++)
                if (node->out[out] >= 0) mark[node->out[out]] = (unsigned char)to;
        }
    }
    mo_free(g->env, mark);
}

void mo_trial_fill(const struct mo_graph *g, int input, void *data) {
    enum { PERIOD = 251 };
    struct mo_value v = mo_tensor_value(g->tensors[g->inputs[input]]);
    v.data = data;
    int64_t n = mo_shape_count(&v.shape);
    bool real = mo_type_in(v.dtype, MO_FLOATS);
    if (!mo_type_in(v.dtype, MO_ANY)) return;
    for (int64_t i = 0; i < n; i++)
        mo_store(&v, i, real ? (double)(i % PERIOD) / PERIOD : 1);
    mo_trial_repair(g, input, data);
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void mo_trial_random(moire_tensor *t, uint64_t *state) {
    size_t size = mo_dtype_bytes(t->dtype);
    for (size_t i = 0; size && i < t->bytes / size; i++) {
        uint64_t r = next_random(state);
        double real = (double)(r >> 11) / 4503599627370496.0 - 1.0;
        float single = (float)real;
        uint64_t bit = r & 1;
        uint16_t half = (uint16_t)(0x3000 | (r & 0x83ff)); /* some number below 1 in float16 */
        const void *from = t->dtype == MOIRE_F32   ? (const void *)&single
                           : t->dtype == MOIRE_F64 ? (const void *)&real
                           : t->dtype == MOIRE_F16 ? (const void *)&half
                                                   : (const void *)&bit;
        memcpy((char *)t->data + i * size, from, size);
    }
}
