/* SPDX-License-Identifier: Apache-2.0
 * small_case.h - layers of 8-bit numbers for the tests of the generator, here and for another processor:
 * every family, with ragged extents and channels, strides, dilations, groups, batches, zero points at the
 * ends of their ranges, and every type of output. */
#ifndef SMALL_CASE_H
#define SMALL_CASE_H
#include "runtime/graph/graph.h"

/* Of a product of matrices: n x w rows of c columns, by c x o; kh is 0. */
struct small_shape {
    int n, c, h, w, o, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr, groups, x_zero, y_zero;
    moire_dtype to;
    enum mo_act act;
    const char *family;
};
extern const struct small_shape small_shapes[];
extern const int small_n_shapes;

/* A graph of one such layer, whose constants are zeros; its layouts are final. */
struct mo_graph *small_case_graph(const struct mo_env *env, const struct small_shape *shape);
#endif
