/* SPDX-License-Identifier: Apache-2.0
 * gpu_check.h - graphs lowered for a GPU and run by their generated kernels on the host, against the
 * reference of the graph as imported.  Every function fails the test when something is not as it must be. */
#ifndef MO_TEST_GPU_CHECK_H
#define MO_TEST_GPU_CHECK_H
#include "tests/cuda/gpu_cases.h"

struct mo_gpu_program *gpu_check_lower(const struct mo_graph *g, enum mo_gpu_precision precision,
                                       int segments);
/* Lowered in that precision, outputs are within rtol of the range of what is wanted. */
void gpu_check_graph(struct mo_graph *g, enum mo_gpu_precision precision, const moire_tensor *in,
                     const moire_tensor *want, double rtol);
/* The model with and without layouts in fp32, and in 16 bits; destroys it. */
void gpu_check(struct ob *b);
#endif
