/* SPDX-License-Identifier: Apache-2.0
 * profile_device.h - `moire profile --device`: what models take on lets of a GPU. */
#ifndef MO_PROFILE_DEVICE_H
#define MO_PROFILE_DEVICE_H
#include <jansson.h>
#include "bench/load/session.h"
#include "runtime/gpu/gpu_ops.h"

struct mo_profile_device_options {
    const char *device, *process, *libraries, *cache, *folder, *pairs, *precision;
    const char *const *models;
    int units[MO_GPU_UNITS], n_units; /* sizes of lets to measure, rising; none: every size there is */
    int n_models, gpu, repetitions, max_batch;
    bool resume;
    const moire_shape *shapes;
    int n_shapes;
    json_t *rows; /* gets one for each model; NULL: a line on standard output instead */
};
/* Writes FOLDER/MODEL.csv for each model, and the pairs. */
int mo_profile_device(struct mo_bench_session *session, const struct mo_profile_device_options *options,
                      moire_error *err);
#endif
