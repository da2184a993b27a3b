/* SPDX-License-Identifier: Apache-2.0
 * exec_ways.c - by what the operations of a program are done: for the log, and for whoever asks.
 *
 * A generated kernel that multiplies matrices is many times slower than a library's.  So one that runs for
 * want of a library is a warning, whenever choices are made; one that was timed against the library and won
 * is not. */
#include "runtime/gpu/cuda/exec.h"

static bool has_fallen(const struct mo_gpu_op *op, const struct mo_exec_choice *c) {
    return mo_gpu_has_library(op) && c->way == MO_GPU_BY_KERNEL && !c->timed;
}

static void count(const struct mo_gpu_loaded *l, const struct mo_exec_choices *choices,
                  struct mo_gpu_ways *out) {
    *out = (struct mo_gpu_ways){.sms = choices->sms};
    for (int i = 0; i < l->program.n_ops; i++) {
        const struct mo_gpu_op *op = &l->program.ops[i];
        const struct mo_exec_choice *c = &choices->of[i];
        out->count[op->kind][c->way]++;
        out->fused += c->way == MO_GPU_BY_DNN && c->dnn.list[c->dnn.chosen].fused;
        out->fallen[op->kind] += has_fallen(op, c);
    }
}

static const char *first_fallen(const struct mo_gpu_loaded *l, const struct mo_exec_choices *choices) {
    int i = 0;
    while (!has_fallen(&l->program.ops[i], &choices->of[i]))
        i++;
    return l->program.ops[i].label;
}

void mo_exec_tell(const struct mo_gpu_loaded *l, const struct mo_exec_choices *choices, bool anew,
                  int64_t choosing_ns, int64_t capturing_ns) {
    struct mo_gpu_ways w;
    count(l, choices, &w);
    const int fallen = w.fallen[MO_GPU_CONV] + w.fallen[MO_GPU_GEMM];
    if (anew && fallen)
        mo_log(
            l->exec->env, MOIRE_LOG_WARN,
            "a program for batch %d on %d SMs: %d convolutions and %d products run by slow generated kernels "
            "for want of a library, the first is %.160s; there are %.200s",
            (int)l->program.batch, w.sms, w.fallen[MO_GPU_CONV], w.fallen[MO_GPU_GEMM],
            first_fallen(l, choices), l->exec->libraries);
    if (choosing_ns + capturing_ns < 1000000) return;
    mo_log(
        l->exec->env, MOIRE_LOG_INFO,
        "a program for batch %d on %d SMs: kernels chosen in %.1f ms, graphs made in %.1f ms; of %d "
        "operations %d convolutions fused by cuDNN, %d by its single calls, %d products by cuBLASLt, %d of "
        "either by generated kernels",
        (int)l->program.batch, w.sms, (double)choosing_ns * 1e-6, (double)capturing_ns * 1e-6,
        l->program.n_ops, w.fused, w.count[MO_GPU_CONV][MO_GPU_BY_DNN] - w.fused,
        w.count[MO_GPU_GEMM][MO_GPU_BY_BLAS],
        w.count[MO_GPU_CONV][MO_GPU_BY_KERNEL] + w.count[MO_GPU_GEMM][MO_GPU_BY_KERNEL]);
}

int mo_cuda_exec_ways(struct mo_gpu_loaded *l, struct mo_gpu_ways *out, int room) {
    int n = 0;
    for (const struct mo_exec_choices *c = l->choices; c && n < room; c = c->next)
        count(l, c, &out[n++]);
    return n;
}
