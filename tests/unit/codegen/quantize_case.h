/* SPDX-License-Identifier: Apache-2.0
 * quantize_case.h - small models of floats and samples for them, for tests of quantizing. */
#ifndef MO_TEST_QUANTIZE_CASE_H
#define MO_TEST_QUANTIZE_CASE_H
#include "codegen/quantize/quantize_model.h"
#include "models/build.h"

enum { CASE_CHANNELS = 16, CASE_SIDE = 12, CASE_SAMPLES = 3 };

struct quantize_case {
    struct mo_env env;
    char folder[64], model[100], state[100]; /* files; the model's is written by quantize_case_write() */
    float *values;
    moire_tensor in[CASE_SAMPLES];
    struct mo_model_sample sample[CASE_SAMPLES];
    const char *name[1];
    struct mo_model_samples samples;
};
/* For cmocka: set up and tear down of a group, whose state is a quantize_case. */
int quantize_case_make(void **state);
int quantize_case_remove(void **state);

/* Models with input "x" [N,3,12,12]. */
typedef void quantize_case_fn(struct mo_build *b);
quantize_case_fn case_residual;     /* three convolutions with norms, a sum, a Gemm */
quantize_case_fn case_excited;      /* SiLU, depthwise, squeeze and excite */
quantize_case_fn case_joined;       /* pools and a concatenation */
quantize_case_fn case_stepwise;     /* HardSwish in single nodes */
quantize_case_fn case_narrow_chain; /* 1x1, depthwise, 1x1 with Relu */
quantize_case_fn case_best;         /* TopK alone, as version 9 writes it */
struct mo_bv case_begin(struct mo_build *b);
void quantize_case_write(struct quantize_case *p, quantize_case_fn *build, int64_t opset);

/* The outputs of an edit on all samples, one after the other; *n of them.  For free(). */
float *quantize_case_run(struct quantize_case *p, struct mo_edit *e, int64_t *n);
/* Root mean square of the difference over that of `a`. */
double case_apart(const float *a, const float *b, int64_t n);
#endif
