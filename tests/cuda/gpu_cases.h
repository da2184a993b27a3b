/* SPDX-License-Identifier: Apache-2.0
 * gpu_cases.h - small models for tests of lowering and execution on GPUs: every kind of operator, and the
 * shapes of ResNet, MobileNet, SqueezeNet and GoogLeNet, SSD and BERT. */
#ifndef MO_TEST_GPU_CASES_H
#define MO_TEST_GPU_CASES_H
#include "codegen/frontend.h"
#include "runtime/gpu/program.h"
#include "tests/unit/codegen/onnx_build.h"

enum { GPU_CASE_PORTS = 4 };

struct gpu_case {
    const char *name;
    struct ob *(*build)(void);
};
extern const struct gpu_case gpu_cases[]; /* closed by a NULL name */

/* gpu_other_cases.c */
struct ob *gpu_case_resampled(void);
struct ob *gpu_case_volumes(void);
struct ob *gpu_case_plain_products(void);
struct ob *gpu_case_chosen(void);
struct ob *gpu_case_recurrent(void);
struct ob *gpu_case_quantized(void);
struct ob *gpu_case_einsums(void);
struct ob *gpu_case_sampled(void);
struct ob *gpu_case_losses(void);
struct ob *gpu_case_signals(void);
struct ob *gpu_case_labelled(void);

/* Fails the test with the message when the model does not load. */
struct mo_graph *gpu_case_parse(struct ob *b, const struct mo_frontend_options *options);
/* Small numbers for every input, in the graph's region; integers count up. */
void gpu_case_inputs(struct mo_graph *g, moire_tensor *in);
/* Fails the test where outputs differ by more than rtol of their range. */
void gpu_case_compare(const struct mo_gpu_program *p, const moire_tensor *want, moire_tensor *got,
                      double rtol);
/* The case of this name, lowered in fp32 to at most four segments, with inputs and the answer that the
 * reference gives; fails the test when it is not to be had.  All is the caller's. */
struct mo_gpu_program *gpu_case_lower(const char *name, struct ob **model, struct mo_graph **graph,
                                      moire_tensor *in, moire_tensor *want);
#endif
