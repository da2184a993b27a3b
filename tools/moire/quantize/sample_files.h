/* SPDX-License-Identifier: Apache-2.0
 * sample_files.h - what a model is calibrated on: a folder of arrays or images, or numbers that are drawn.
 *
 *   DIR/<sample>/<input>.npy, input_K.pb   a folder a sample, as the ONNX backend tests have it
 *   DIR/<input>.npy, input_K.pb            one sample
 *   DIR/<any>.npy, <any>.ppm               models with one input: a file a sample; files that begin with
 *                                          several items are cut into one item a sample where the model
 *                                          takes one */
#ifndef MO_TOOLS_SAMPLES_H
#define MO_TOOLS_SAMPLES_H
#include "codegen/quantize/run_rewritten.h"

struct mo_sample_options {
    const char *model, *folder; /* folder NULL: drawn */
    const moire_shape *shapes;
    int n_shapes, most; /* at most so many samples */
    int64_t seed;
    double mean[3], deviation[3]; /* of images, whose pixels are 0 to 1 */
};

struct mo_sample_set {
    const struct mo_env *env;
    struct mo_region *region;
    struct mo_graph *model; /* as declared: names, types and shapes of inputs */
    struct mo_model_samples samples;
    int room;
    bool drawn;
};

/* MOIRE_EIO: a folder or file cannot be read; MOIRE_ESHAPE: it does not fit the model.  To be closed also
 * after an error. */
int mo_samples_open(const struct mo_env *env, const struct mo_sample_options *options,
                    struct mo_sample_set *out, moire_error *err);
void mo_samples_close(struct mo_sample_set *set);
#endif
