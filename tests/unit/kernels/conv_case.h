/* SPDX-License-Identifier: Apache-2.0
 * conv_case.h - one convolution to test: a graph with one node, its buffers between guard words, the answer
 * of the reference, and the comparison.  Shared by the tests of the built-in and of the emitted kernels. */
#ifndef CONV_CASE_H
#define CONV_CASE_H
#include "variants/kernel.h"

struct conv_shape {
    int n, c, h, w, o, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr, groups;
    enum mo_act act;
    int residual; /* 0 none, 1 before the activation, 2 after; + CONV_GATED: a gated layer */
};
enum { CONV_GATED = 4 };

struct conv_case {
    struct mo_env env;
    struct mo_graph *graph;
    struct mo_node *node;
    struct conv_shape shape; /* its residual without CONV_GATED */
    bool gated;
    struct mo_kargs args;
    float *x, *y, *res, *gate;        /* in their layouts with gaps between images */
    float *want;                      /* plain */
    float allowed;                    /* absolute error; 1e-4, for outputs of some units */
    int64_t y_floats, y_image, y_gap; /* floats between images = y_image + y_gap */
};

/* False: the shape has no output. */
bool conv_case_open(struct conv_case *c, const struct conv_shape *shape, enum mo_layout in, unsigned seed);
void conv_case_close(struct conv_case *c);
/* For kernels that mix pixels before they sum: allows 1e-4 of the outputs' root mean square. */
void conv_case_allow_mixing(struct conv_case *c);
/* Runs every unit, in `parts` ranges taken in a shuffled order. */
void conv_case_run(struct conv_case *c, mo_kernel *run, int64_t units, int64_t scratch_bytes, int parts);
/* Text of the first mismatch or overwritten guard; NULL when all is well. */
const char *conv_case_check(const struct conv_case *c);
/* "n1 c16 h5 ..." for messages */
const char *conv_case_text(const struct conv_shape *s);
#endif
