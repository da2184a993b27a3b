/* SPDX-License-Identifier: Apache-2.0
 * fail.c - results of the driver as codes and messages; GPUs that are lost. */
#include "runtime/gpu/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>

/* Every result that is not MOIRE_EFAILED (which says: this work failed, the GPU is fine). */
static const struct {
    unsigned result;
    int code;
    const char *advice;
} rows[] = {
    {0, MOIRE_OK, NULL},
    {1, MOIRE_EINVAL, NULL},
    {2, MOIRE_ENOMEM, NULL},
    {3, MOIRE_EINVAL, NULL},
    {4, MOIRE_EDEVICE, NULL},
    {34, MOIRE_EUNSUPPORTED,
     "that libcuda is the toolkit's stub: put the driver's own first in the search path"},
    {36, MOIRE_EUNSUPPORTED, "update the NVIDIA driver"},
    {46, MOIRE_EDEVICE, "another process has the GPU for itself, or it needs a reset"},
    {100, MOIRE_EUNSUPPORTED, "no GPU is visible to this process"},
    {101, MOIRE_EINVAL, NULL},
    {102, MOIRE_EUNSUPPORTED, NULL},
    {200, MOIRE_EINVAL, NULL},
    {201, MOIRE_EINVAL, NULL},
    {209, MOIRE_EUNSUPPORTED, NULL},
    {214, MOIRE_EDEVICE, "an error of the GPU's memory that ECC cannot correct"},
    {218, MOIRE_EUNSUPPORTED, NULL},
    {220, MOIRE_EDEVICE, NULL},
    {221, MOIRE_EUNSUPPORTED, "libnvidia-ptxjitcompiler is missing beside the driver"},
    {222, MOIRE_EUNSUPPORTED, "update the NVIDIA driver"},
    {223, MOIRE_EUNSUPPORTED, NULL},
    {224, MOIRE_EUNSUPPORTED, "start the MPS server (nvidia-cuda-mps-control -d)"},
    {226, MOIRE_EDEVICE, NULL},
    {400, MOIRE_EINVAL, NULL},
    {700, MOIRE_EDEVICE, NULL},
    {702, MOIRE_EDEVICE, NULL},
    {709, MOIRE_EDEVICE, NULL},
    {710, MOIRE_EDEVICE, NULL},
    {714, MOIRE_EDEVICE, NULL},
    {715, MOIRE_EDEVICE, NULL},
    {716, MOIRE_EDEVICE, NULL},
    {717, MOIRE_EDEVICE, NULL},
    {718, MOIRE_EDEVICE, NULL},
    {719, MOIRE_EDEVICE, NULL},
    {721, MOIRE_EDEVICE, NULL},
    {801, MOIRE_EUNSUPPORTED, NULL},
    {802, MOIRE_EUNSUPPORTED, "the driver is not ready (on NVSwitch machines: start the fabric manager)"},
    {803, MOIRE_EUNSUPPORTED, "kernel module and libcuda differ in version: reboot or reinstall the driver"},
    {804, MOIRE_EUNSUPPORTED, NULL},
    {805, MOIRE_EUNSUPPORTED, "the MPS server does not answer"},
    {806, MOIRE_EDEVICE, NULL},
    {807, MOIRE_EUNSUPPORTED, "the MPS server is not ready, try later"},
    {808, MOIRE_EUNSUPPORTED, NULL},
    {809, MOIRE_EUNSUPPORTED, NULL},
    {810, MOIRE_EDEVICE, "the MPS server ended this client: a fault of another client does that too"},
    {911, MOIRE_EDEVICE, NULL},
    {914, MOIRE_EUNSUPPORTED, NULL},
    {915, MOIRE_EUNSUPPORTED, NULL},
    {916, MOIRE_EDEVICE, NULL},
    {999, MOIRE_EDEVICE, NULL},
};

static int row_of(unsigned result) {
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++)
        if (rows[i].result == result) return i;
    return -1;
}

int mo_cuda_code(unsigned result) {
    const int row = row_of(result);
    return row < 0 ? MOIRE_EFAILED : rows[row].code;
}

int mo_cuda_error(const struct mo_cuda_driver *cu, unsigned result, moire_error *err, const char *what, ...) {
    const int row = row_of(result), code = mo_cuda_code(result);
    const char *name = NULL, *text = NULL, *advice = row < 0 ? NULL : rows[row].advice;
    if (cu->error_name(result, &name) || !name) name = "an unknown error";
    if (cu->error_text(result, &text) || !text) text = "no description";
    char head[160];
    va_list ap;
    va_start(ap, what);
    vsnprintf(head, sizeof head, what, ap);
    va_end(ap);
    return mo_fail(err, code, "%s: %s (%u): %s%s%s", head, name, result, text, advice ? "; " : "",
                   advice ? advice : "");
}

int mo_cuda_fail(struct mo_cuda_gpu *gpu, unsigned result, moire_error *err, const char *what) {
    moire_error own;
    mo_cuda_error(&gpu->system->cu, result, &own, "GPU %d: %s", gpu->index, what);
    if (own.code == MOIRE_EDEVICE) {
        mo_cuda_lose(gpu, own.message);
        return mo_cuda_alive(gpu, err); /* the first reason is the one to tell */
    }
    if (err) *err = own;
    return own.code;
}

int mo_cuda_note(struct mo_cuda_gpu *gpu, moire_error *err) {
    if (err->code != MOIRE_EDEVICE) return err->code;
    mo_cuda_lose(gpu, err->message);
    return mo_cuda_alive(gpu, err);
}

void mo_cuda_lose(struct mo_cuda_gpu *gpu, const char *reason) {
    struct mo_gpu_system *s = gpu->system;
    bool first = false;
    mo_lock_take(s->env->sys, &s->lock);
    if (!atomic_load_explicit(&gpu->lost, memory_order_relaxed)) {
        snprintf(gpu->reason, sizeof gpu->reason, "%s", reason);
        atomic_store_explicit(&gpu->lost, true, memory_order_release);
        first = true;
    }
    mo_lock_drop(s->env->sys, &s->lock);
    if (first) mo_log(s->env, MOIRE_LOG_ERROR, "GPU %d (%s) is lost: %s", gpu->index, gpu->info.name, reason);
}

int mo_cuda_alive(const struct mo_cuda_gpu *gpu, moire_error *err) {
    if (!atomic_load_explicit(&gpu->lost, memory_order_acquire)) return MOIRE_OK;
    return mo_fail(err, MOIRE_EDEVICE, "%s; a new process can use the GPU again", gpu->reason);
}
