/* SPDX-License-Identifier: Apache-2.0
 * quantize_model.h - from a model of floats to one of 8-bit numbers, in the QDQ form.
 *
 *   open - operators of version 13 - batch norms folded - [equalized] - calibrated on samples -
 *   each layer quantized alone, to see what it costs - the whole, without layers that cost too much -
 *   with those of them again that it bears
 *
 * The error of a model is how far its float32 outputs are from those of the model of floats, on the samples:
 * the root of the mean square of the difference over that of the values, of the worst output. */
#ifndef MO_QUANTIZE_H
#define MO_QUANTIZE_H
#include "codegen/quantize/find_ranges.h"

struct mo_quantize_options {
    enum mo_range_method method;
    bool per_channel, narrow, portable, equalize, correct_bias;
    bool by_norms;     /* no data: ranges from batch norms where there are any */
    const char *keep;  /* layers that stay float32, separated by commas; NULL = none */
    double tolerance;  /* of the whole model's error */
    const char *state; /* file of what is done already, to go on from; NULL: none */
    struct mo_quantize_progress progress;
};

/* How close two models are on the samples. */
struct mo_closeness {
    double error;           /* as above */
    double cosine;          /* the smallest of an output */
    int64_t n_best, n_same; /* places of the last dimension's largest value, and those where it is the same */
};

struct mo_quantization {
    struct mo_edit edit; /* of the result; mo_quantized_close() */
    struct mo_qlayers layers;
    const char **layer_name; /* by layer */
    const char **layer_kind; /* "Conv 3x3", ... */
    int n_points, n_by_norms, n_equalized, n_on;
    int64_t n_bad;
    struct mo_closeness whole;
    size_t float_bytes, bytes; /* of the prepared model and of the result */
};

int mo_quantize(const struct mo_env *env, const char *path, const struct mo_model_samples *samples,
                const struct mo_quantize_options *options, struct mo_quantization *out, moire_error *err);
void mo_quantized_close(struct mo_quantization *q);
#endif
