/* SPDX-License-Identifier: Apache-2.0
 * gemm_case.h - one matrix product y = act(a b + c + r) to test: a graph with one Gemm on plain rows, its
 * buffers with guards behind the result and in its gaps, and the comparison with double precision. */
#ifndef GEMM_CASE_H
#define GEMM_CASE_H
#include "variants/kernel.h"

struct gemm_shape {
    int m, k, n;
    enum mo_act act; /* NONE, RELU, GELU or GELU_TANH */
    int residual;    /* 0 none, 1 before the activation, 2 after */
    /* 0: a matrix of m rows; else so many of them, rank 3 */
    int images;
    /* floats behind each image (of a matrix: each row), as in slices of larger tensors */
    int x_gap, y_gap;
};

struct gemm_case {
    struct mo_env env;
    struct gemm_shape shape;
    struct mo_graph *graph;
    struct mo_node *node;
    float *a, *res, *y;
    int a_image, y_image; /* floats from image to image */
    struct mo_kargs args; /* weights and bias are the caller's */
};

void gemm_case_open(struct gemm_case *c, const struct gemm_shape *shape);
void gemm_case_close(struct gemm_case *c);
/* Runs the units one by one, the last first. */
void gemm_case_run(struct gemm_case *c, mo_kernel *run, int64_t units, int64_t scratch_bytes);
/* Text of the first mismatch or overwritten guard; NULL when all is well. */
const char *gemm_case_check(const struct gemm_case *c);
#endif
