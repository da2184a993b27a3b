/* SPDX-License-Identifier: Apache-2.0
 * op_case.h - one operator, its attributes and inputs, for tests. */
#ifndef MO_TEST_OP_CASE_H
#define MO_TEST_OP_CASE_H
#include "runtime/ops/op.h"

enum { OP_CASE_PORTS = 10 };

struct op_case {
    struct mo_env env;
    struct mo_graph *g; /* owns everything */
    struct mo_node *node;
    struct mo_value in[OP_CASE_PORTS + 16], out[OP_CASE_PORTS + 16];
    int n_in, n_out;
    moire_error err;
    const struct mo_sys *scratch; /* what the operator allocates from; NULL = the real machine */
};

/* "moire.Name": one of ours. */
void op_case_open(struct op_case *c, const char *op, int opset);
void op_case_close(struct op_case *c);
/* Attributes from text: "strides=2,2 group=1 alpha=0.5 mode:linear scales~1,2.5"
 * ('=' one int or, with ',', a list; a '.' makes it a float; ':' a string, '+' a list of them; '~' a list of
 * floats). */
void op_case_attrs(struct op_case *c, const char *text);
/* Adds an input of a shape like "1x3x4" ("" = scalar, "-" = absent) holding n doubles, or 0, 1, 2, ... when
 * values is NULL; unknown: shape known, contents not. */
void op_case_input(struct op_case *c, moire_dtype dtype, const char *shape, const double *values);
void op_case_unknown(struct op_case *c, moire_dtype dtype, const char *shape);
int op_case_infer(struct op_case *c, int n_out);
/* infer, allocate, run */
int op_case_run(struct op_case *c, int n_out);
double op_case_out(const struct op_case *c, int output, int64_t index);
#endif
