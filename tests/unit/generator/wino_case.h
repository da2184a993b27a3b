/* SPDX-License-Identifier: Apache-2.0
 * wino_case.h - an emitted Winograd kernel with a layer and its packed weights, compared with the reference
 * and with double precision. */
#ifndef WINO_CASE_H
#define WINO_CASE_H
#include "codegen/family/winograd.h"
#include "tests/unit/kernels/conv_case.h"

/* A layer, and a point for each instruction set. */
struct wino_case {
    struct conv_shape shape;
    int knob[MO_ISA_COUNT][MO_KNOBS];
};

struct wino_kernel {
    struct conv_case c;
    struct mo_problem p;
    const struct mo_variant *v;
};

bool wino_case_have(const char *compiler);
/* Emits, compiles, loads; fails the test where one of these does.  conv_case_close(&k->c) frees. */
void wino_case_open(struct wino_kernel *k, const struct conv_shape *s, enum mo_isa isa, const char *compiler,
                    const struct mo_point *point, unsigned seed);
/* Packs weights that the test has changed. */
void wino_case_pack(struct wino_kernel *k);
void wino_case_run(struct wino_kernel *k, int parts);
/* Each case on each instruction set of this machine, whole and in parts; every step-th of them. */
void wino_case_compare_all(const char *compiler, const struct wino_case *cases, int n, int step);
float *wino_case_output(const struct conv_case *c, int o, int y, int x);
/* Largest and root mean square error, both relative to the root mean square of the output; of data whose sums
 * cancel, to that of sums of as many products that do not. */
void wino_case_errors(const struct wino_kernel *k, double *largest, double *rms);
#endif
