/* SPDX-License-Identifier: Apache-2.0
 * gpu_request.h - a query on GPUs between submit and answer, its tensors in staging memory; inside
 * runtime/serve. */
#ifndef MO_SERVE_GPU_REQUEST_H
#define MO_SERVE_GPU_REQUEST_H
#include "runtime/serve/gpu.h"

struct mo_gpu_request {
    struct mo_request_head head;
    struct mo_gpu_request *next;
    char *staging;
    moire_tensor outputs[]; /* n_outputs, into staging */
};

/* Where the tensors of a query lie. */
int mo_gpu_requests_init(struct mo_serve_gpu *gpu, const struct mo_gpu_program *one, moire_error *err);
void mo_gpu_requests_free(struct mo_serve_gpu *gpu);
extern const struct mo_place_calls mo_place_on_gpus;
extern const struct mo_model_ops mo_serve_gpu_model;
void mo_serve_gpu_tensors(void *model, void *user, const void **inputs, void **outputs);
#endif
