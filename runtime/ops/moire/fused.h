/* SPDX-License-Identifier: Apache-2.0
 * fused.h - moire.Fused: a tree of pointwise operators as one layer.
 *
 * The layer is a list of steps.  A step applies one operator to values by number: the inputs of the node come
 * first, then the results of the steps; the last step is the output.  Operators broadcast as in ONNX; steps
 * of one node mostly have one shape.  Attributes: `program`, MO_FUSED_INTS numbers a step (operator, three
 * values or -1, activation), and `params`, two floats a step. */
#ifndef MO_OPS_FUSED_H
#define MO_OPS_FUSED_H
#include "runtime/graph/graph.h"

/* X(id, operator, domain, operands).  Values are fp32 or bool; casts take integers, too.  Of the last three,
 * a is the scale and b the zero point, one for the tensor: DEQUANTIZE takes 8-bit numbers, QUANTIZE_* give
 * them; between steps they are whole floats. */
#define MO_FUSED_OPS(X)                                                                                      \
    X(ADD, "Add", "", 2)                                                                                     \
    X(SUB, "Sub", "", 2)                                                                                     \
    X(MUL, "Mul", "", 2)                                                                                     \
    X(DIV, "Div", "", 2)                                                                                     \
    X(MIN, "Min", "", 2)                                                                                     \
    X(MAX, "Max", "", 2)                                                                                     \
    X(POW, "Pow", "", 2)                                                                                     \
    X(EQUAL, "Equal", "", 2)                                                                                 \
    X(LESS, "Less", "", 2)                                                                                   \
    X(LESS_EQUAL, "LessOrEqual", "", 2)                                                                      \
    X(GREATER, "Greater", "", 2)                                                                             \
    X(GREATER_EQUAL, "GreaterOrEqual", "", 2)                                                                \
    X(AND, "And", "", 2)                                                                                     \
    X(OR, "Or", "", 2)                                                                                       \
    X(XOR, "Xor", "", 2)                                                                                     \
    X(NOT, "Not", "", 1)                                                                                     \
    X(IS_NAN, "IsNaN", "", 1)                                                                                \
    X(WHERE, "Where", "", 3)                                                                                 \
    X(TO_FLOAT, "Cast", "", 1)                                                                               \
    X(TO_BOOL, "Cast", "", 1)                                                                                \
    X(ACTIVATION, "Activation", "moire", 1)                                                                  \
    X(ABS, "Abs", "", 1)                                                                                     \
    X(NEG, "Neg", "", 1)                                                                                     \
    X(SQRT, "Sqrt", "", 1)                                                                                   \
    X(RECIPROCAL, "Reciprocal", "", 1)                                                                       \
    X(EXP, "Exp", "", 1)                                                                                     \
    X(LOG, "Log", "", 1)                                                                                     \
    X(ERF, "Erf", "", 1)                                                                                     \
    X(FLOOR, "Floor", "", 1)                                                                                 \
    X(CEIL, "Ceil", "", 1)                                                                                   \
    X(ROUND, "Round", "", 1)                                                                                 \
    X(SIGN, "Sign", "", 1)                                                                                   \
    X(DEQUANTIZE, "DequantizeLinear", "", 1)                                                                 \
    X(QUANTIZE_U8, "QuantizeLinear", "", 1)                                                                  \
    X(QUANTIZE_I8, "QuantizeLinear", "", 1)

enum mo_fused_op {
#define MO_FUSED_ID(id, name, domain, operands) MO_FUSED_##id,
    MO_FUSED_OPS(MO_FUSED_ID)
#undef MO_FUSED_ID
        MO_FUSED_COUNT
};

enum { MO_FUSED_STEPS = 24, MO_FUSED_INPUTS = 12, MO_FUSED_INTS = 5 };

struct mo_fused_step {
    enum mo_fused_op op;
    int arg[3]; /* value numbers, -1 = none */
    enum mo_act act;
    float a, b;
};

struct mo_fused {
    int n_in, n;
    struct mo_fused_step step[MO_FUSED_STEPS];
};

const char *mo_fused_name(enum mo_fused_op op);
const char *mo_fused_domain(enum mo_fused_op op);
int mo_fused_operands(enum mo_fused_op op);
/* Takes or gives 8-bit numbers by the step's scale and zero point. */
static inline bool mo_fused_quantizes(enum mo_fused_op op) {
    return op >= MO_FUSED_DEQUANTIZE;
}
/* The type that a QUANTIZE_* gives. */
static inline moire_dtype mo_fused_quantized(enum mo_fused_op op) {
    return op == MO_FUSED_QUANTIZE_I8 ? MOIRE_I8 : MOIRE_U8;
}
/* Reads the attributes; false when they do not make a program over node's inputs. */
bool mo_fused_read(const struct mo_node *node, struct mo_fused *out);
#endif
