/* SPDX-License-Identifier: Apache-2.0
 * cases.h - the layers of every kernel family that are emitted for another processor and run there.
 *
 * emit.c writes kernel i on the machine that builds; test_emitted.c, on the other one, opens the same case i
 * and compares.  Both therefore read this one table. */
#ifndef MO_CROSS_CASES_H
#define MO_CROSS_CASES_H
#include "tests/unit/kernels/conv_case.h"
#include "tests/unit/kernels/gemm_case.h"

enum { CROSS_POINTS = 3 }; /* of the family's search points: the first, the middle and the last */
/* Layers of 8-bit numbers (small_case.h) are emitted for each set of NEON's that multiplies bytes, from
 * MO_DOT_NEON on: CROSS_POINTS of each shape and set. */
enum { CROSS_SETS = 2 };

struct cross_case {
    const char *family;
    struct conv_shape conv; /* when conv.n > 0 */
    struct gemm_shape gemm; /* else */
    int parts;              /* of the input channels; 0 as the point has it */
};
extern const struct cross_case cross_cases[];
extern const int cross_n_cases;

/* A case with its data; the other of conv and gemm is not touched. */
struct cross_layer {
    const struct cross_case *row;
    struct conv_case conv;
    struct gemm_case gemm;
    const struct mo_graph *graph;
    const struct mo_node *node;
    struct mo_kargs *args;
};
void cross_open(struct cross_layer *layer, const struct cross_case *row);
void cross_close(struct cross_layer *layer);
#endif
