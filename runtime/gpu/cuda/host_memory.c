/* SPDX-License-Identifier: Apache-2.0
 * host_memory.c - contexts made current, page-locked host memory. */
#include "runtime/gpu/cuda/cuda.h"

int mo_cuda_enter(struct mo_cuda_gpu *gpu, struct mo_cuda_context *context, moire_error *err) {
    const struct mo_sys *sys = gpu->system->env->sys;
    const int rc = mo_cuda_alive(gpu, err);
    if (rc) return rc;
    if (context) mo_lock_take(sys, &context->lock);
    const unsigned r = gpu->system->cu.context_push(context ? context->context : gpu->main);
    if (!r) return MOIRE_OK;
    if (context) mo_lock_drop(sys, &context->lock);
    return mo_cuda_fail(gpu, r, err, "make a context current");
}

void mo_cuda_leave(struct mo_cuda_gpu *gpu, struct mo_cuda_context *context) {
    mo_cu_context gone;
    gpu->system->cu.context_pop(&gone);
    if (context) mo_lock_drop(gpu->system->env->sys, &context->lock);
}

/* Any GPU that is alive: the memory is portable. */
static struct mo_cuda_gpu *alive_gpu(struct mo_gpu_system *s) {
    for (int i = 0; i < s->n_gpus; i++)
        if (!mo_cuda_alive(&s->gpus[i], NULL)) return &s->gpus[i];
    return &s->gpus[0];
}

int mo_cuda_staging_alloc(struct mo_gpu_system *s, size_t bytes, void **out, moire_error *err) {
    struct mo_cuda_gpu *gpu = alive_gpu(s);
    int rc = mo_cuda_enter(gpu, NULL, err);
    if (rc) return rc;
    const unsigned r = s->cu.host_alloc(out, bytes ? bytes : 1, MO_CU_HOST_PORTABLE);
    if (r) rc = mo_cuda_fail(gpu, r, err, "page-locked host memory");
    mo_cuda_leave(gpu, NULL);
    if (rc == MOIRE_ENOMEM)
        mo_fail(err, rc, "%zu bytes of page-locked host memory are not to be had; lower the queue bounds",
                bytes);
    return rc;
}

int mo_cuda_staging_register(struct mo_gpu_system *s, void *at, size_t bytes, moire_error *err) {
    struct mo_cuda_gpu *gpu = alive_gpu(s);
    int rc = mo_cuda_enter(gpu, NULL, err);
    if (rc) return rc;
    const unsigned r = s->cu.host_register(at, bytes, MO_CU_REGISTER_PORTABLE);
    if (r) rc = mo_cuda_fail(gpu, r, err, "page-lock host memory");
    mo_cuda_leave(gpu, NULL);
    return rc;
}

/* While a GPU is lost nothing is given back: see mo_cuda_staging_free(). */
static bool all_alive(const struct mo_gpu_system *s) {
    for (int i = 0; i < s->n_gpus; i++)
        if (mo_cuda_alive(&s->gpus[i], NULL)) return false;
    return true;
}

void mo_cuda_staging_forget(struct mo_gpu_system *s, void *at) {
    if (!all_alive(s) || mo_cuda_enter(&s->gpus[0], NULL, NULL)) return;
    s->cu.host_unregister(at);
    mo_cuda_leave(&s->gpus[0], NULL);
}

void mo_cuda_staging_free(struct mo_gpu_system *s, void *at) {
    if (!at) return;
    /* a lost GPU may still write there: then it goes with the process */
    if (!all_alive(s) || mo_cuda_enter(&s->gpus[0], NULL, NULL)) return;
    s->cu.host_free(at);
    mo_cuda_leave(&s->gpus[0], NULL);
}
