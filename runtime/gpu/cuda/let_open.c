/* SPDX-License-Identifier: Apache-2.0
 * let_open.c - opening and closing lets. */
#include "runtime/gpu/cuda/cuda.h"

/* Unless a program is being loaded or prepared, which may take long; whoever prepares trims as well. */
static void trim(struct mo_cuda_gpu *gpu) {
    if (!mo_lock_try(&gpu->loading)) return;
    mo_cuda_contexts_trim(gpu);
    mo_lock_drop(gpu->system->env->sys, &gpu->loading);
}

int mo_cuda_let_open(struct mo_gpu_system *s, int index, int first, int units, int priority,
                     struct mo_gpu_let **out, moire_error *err) {
    struct mo_cuda_gpu *gpu = mo_cuda_gpu_of(s, index, err);
    struct mo_cuda_context *context = NULL;
    if (!gpu) return MOIRE_EINVAL;
    if (priority < 0 || priority >= MO_GPU_PRIORITIES)
        return mo_fail(err, MOIRE_EINVAL, "priority %d of a let: there are 0 to %d", priority,
                       MO_GPU_PRIORITIES - 1);
    int rc = mo_cuda_alive(gpu, err);
    if (!rc) rc = mo_cuda_context_get(gpu, first, units, &context, err);
    if (rc) return rc;
    trim(gpu);
    struct mo_gpu_let *let = mo_alloc(s->env, sizeof *let);
    rc = let ? mo_cuda_track_take(context, priority, &let->track, err)
             : mo_fail(err, MOIRE_ENOMEM, "GPU %d: no host memory for a let", index);
    if (rc) {
        mo_cuda_context_put(context);
        mo_free(s->env, let);
        return rc;
    }
    *out = let;
    return MOIRE_OK;
}

void mo_cuda_let_close(struct mo_gpu_let *let) {
    if (!let) return;
    struct mo_cuda_context *context = let->track->context;
    struct mo_gpu_system *s = context->gpu->system;
    mo_cuda_track_give(let->track);
    mo_cuda_context_put(context);
    mo_free(s->env, let);
}
