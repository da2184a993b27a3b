/* SPDX-License-Identifier: Apache-2.0
 * double_net.h - for tests of learning: nets computed once more in double precision, straight from their
 * definition, so that differences of a loss are exact enough to check every slope with. */
#ifndef MO_TESTS_DOUBLE_NET_H
#define MO_TESTS_DOUBLE_NET_H
#include "runtime/learn/dense.h"

/* Lives as long as the program, as agents ask of it. */
const struct mo_env *learn_env(void);

enum { DOUBLE_VALUES = 4096, DOUBLE_WIDTH = 64 };

struct double_net {
    const int *size;
    double values[DOUBLE_VALUES];
};

/* The net's values, widened. */
struct double_net double_net_of(const struct mo_net *net);
/* out: as many as the net has outputs, DOUBLE_WIDTH at most. */
void double_forward(const struct double_net *net, const double *x, double *out);

/* Compares a slope with central differences of loss(ctx) by each of n values.  Fails the test, with `what`
 * and the index, where they differ by more than 1e-3 of the value and 1e-4 of the largest; and when that is
 * too small for the comparison to mean anything. */
void check_slope(const char *what, double *values, size_t n, const float *slope, double (*loss)(void *ctx),
                 void *ctx);
#endif
