/* SPDX-License-Identifier: Apache-2.0
 * qconv.h - moire.QConv and moire.QMatMul: products of 8-bit numbers, with their conversions.
 *
 * Inputs: x [N,C,spatial...] or [..,C] uint8; weights [O,C/groups,taps...] or [O,C] int8, around zero; factor
 * [O] and, if given, bias [O], float32.  Attributes: those of Conv, of QConv; x_zero; `to`, the type of the
 * output, and where that is a type of 8 bits y_scale and y_zero.  An element of channel o is
 *
 *   v = act(factor[o] * sum((x - x_zero) * w) + bias[o])        the sum exact, in int32; padding adds nothing
 *   y = v, or v / y_scale + y_zero rounded to even and saturated
 *
 * The output of QMatMul is [..,O].  Only passes make them (codegen/passes/pass_qconv.c). */
#ifndef MO_OPS_QCONV_H
#define MO_OPS_QCONV_H
#include "runtime/graph/graph.h"

enum {
    MO_QCONV_X,
    MO_QCONV_WEIGHTS,
    MO_QCONV_FACTOR,
    MO_QCONV_BIAS,
    MO_QCONV_X_ZERO, /* of QMatMul, where it is known at run time only: a uint8 in place of the attribute */
    MO_QCONV_INPUTS
};

struct mo_qconv {
    int x_zero, y_zero;
    float y_scale;
    moire_dtype to;
};

/* moire.QConv or moire.QMatMul. */
bool mo_is_qconv(const struct mo_node *node);
/* False: the attributes are not those of a QConv or QMatMul. */
bool mo_qconv_read(const struct mo_node *node, struct mo_qconv *out);
#endif
