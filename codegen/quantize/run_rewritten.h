/* SPDX-License-Identifier: Apache-2.0
 * run_rewritten.h - runs a model that is being rewritten, on the samples that were given. */
#ifndef MO_QUANTIZE_PROBE_H
#define MO_QUANTIZE_PROBE_H
#include "codegen/frontend.h"

/* Inputs of one run, in the order of the model's. */
struct mo_model_sample {
    const moire_tensor *in;
};
struct mo_model_samples {
    int n, n_in;
    const char *const *name; /* of the inputs */
    struct mo_model_sample *at;
};

/* A model as bytes, and its plan for the shapes that were run last. */
struct mo_qprobe {
    const struct mo_env *env;
    uint8_t *bytes; /* owned */
    size_t n;
    struct mo_plan *plan;
    struct mo_instance *instance;
    void *scratch;
    moire_shape *shapes; /* of the plan */
};

/* Takes the bytes, which are to be given to mo_free(), in every case. */
struct mo_qprobe mo_qprobe_of(const struct mo_env *env, uint8_t *bytes, size_t n);
void mo_qprobe_close(struct mo_qprobe *p);
/* Runs it; then mo_qprobe_output() tells results until the next run. */
int mo_qprobe_run(struct mo_qprobe *p, const struct mo_model_samples *samples, int sample, moire_error *err);
int mo_qprobe_outputs(const struct mo_qprobe *p);
const char *mo_qprobe_output(const struct mo_qprobe *p, int i, moire_tensor *out);
#endif
