/* SPDX-License-Identifier: Apache-2.0
 * judge.h - how far a quantized model is from the one of floats. */
#ifndef MO_QUANTIZE_JUDGE_H
#define MO_QUANTIZE_JUDGE_H
#include "codegen/quantize/quantize_model.h"

/* What the model of floats answers to the samples. */
struct mo_judge {
    const struct mo_env *env;
    const struct mo_model_samples *samples;
    struct mo_region *region;
    int n_outputs, n;   /* n: samples that are judged */
    moire_tensor *want; /* [n][n_outputs]; dtype MOIRE_NONE: of no float */
};

/* Runs the model; ends with mo_judge_close() also after an error. */
int mo_judge_open(struct mo_edit *model, const struct mo_model_samples *samples, int most,
                  const struct mo_quantize_progress *progress, struct mo_judge *out);
void mo_judge_close(struct mo_judge *j);
/* Compares a rewritten model. */
int mo_judge_model(const struct mo_judge *j, struct mo_edit *model, struct mo_closeness *out);
#endif
