/* SPDX-License-Identifier: Apache-2.0
 * gpu_programs.h - a model as programs for a GPU, one for each batch; for tenants, and for whoever measures
 * them. */
#ifndef MO_SERVE_GPU_PROGRAMS_H
#define MO_SERVE_GPU_PROGRAMS_H
#include "runtime/engine/engine_gpu.h"
#include "runtime/gpu/program.h"

/* One program for each batch 1, 2, 4, ... that the model can be loaded for. */
struct mo_gpu_programs {
    int n;
    int batch[MO_ENGINE_BUCKETS];
    struct mo_gpu_program *program[MO_ENGINE_BUCKETS];
};
struct mo_gpu_programs_request {
    const char *path; /* ONNX */
    const moire_shape *shapes;
    int n_shapes;
    bool exact;
    int max_batch;
    struct mo_gpu_options options;
};
/* A model whose first dimensions do not follow the batch has one program, for one query.  MOIRE_EUNSUPPORTED
 * names node and operator that cannot be lowered. */
int mo_gpu_programs_make(const struct mo_env *env, const struct mo_gpu_programs_request *request,
                         struct mo_gpu_programs *out, moire_error *err);
void mo_gpu_programs_free(struct mo_gpu_programs *programs);
#endif
