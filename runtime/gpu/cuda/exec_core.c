/* SPDX-License-Identifier: Apache-2.0
 * exec_core.c - layers of a program that a core computes (MO_GPU_CORE): operands are copied into page-locked
 * memory, a function of the host runs in the stream, and the results are copied back.
 *
 * All of that is captured into the program's graph like any operation, so lets, queues, segments and order
 * are as without it.  The stream waits meanwhile; other lets go on, but the driver calls one such function at
 * a time.  A layer that fails does not stop the stream: the failure is noted with its instance, further
 * layers of that run are left out, and the run is answered with it (mo_gpu_loaded.failure). */
#include <stdio.h>
#include "runtime/base/numbers.h"
#include "runtime/gpu/core_layer.h"
#include "runtime/gpu/cuda/exec.h"

/* One layer of one instance; a graph points to it. */
struct mo_exec_core {
    const struct mo_env *env;
    const struct mo_gpu_op *op;
    char *memory; /* operands, one behind the other */
    struct mo_cuda_failure *failure;
};

static size_t operand_bytes(const struct mo_gpu_op *op, int i) {
    return mo_round_up_bytes((size_t)op->core.bytes[i], MO_GPU_ALIGN);
}

/* Page-locked memory of the largest layer: an instance runs one at a time. */
static size_t most_bytes(const struct mo_gpu_program *p) {
    size_t most = 0;
    for (int i = 0; i < p->n_ops; i++) {
        size_t bytes = 0;
        for (int k = 0; p->ops[i].kind == MO_GPU_CORE && k < p->ops[i].launch.n_args; k++)
            bytes += operand_bytes(&p->ops[i], k);
        if (bytes > most) most = bytes;
    }
    return most;
}

int mo_exec_core_begin(struct mo_gpu_loaded *l, moire_error *err) {
    struct mo_cuda_exec *e = l->exec;
    const size_t n_ops = (size_t)l->program.n_ops, bytes = most_bytes(&l->program);
    if (!bytes) return MOIRE_OK;
    l->core = mo_region_array(l->region, n_ops * (size_t)l->instances, sizeof *l->core);
    l->failure = mo_region_array(l->region, (size_t)l->instances, sizeof *l->failure);
    if (!l->core || !l->failure) return mo_fail(err, MOIRE_ENOMEM, "no host memory for layers on cores");
    const unsigned r = e->cu->host_alloc(&l->core_memory, bytes * (size_t)l->instances, MO_CU_HOST_PORTABLE);
    if (r) return mo_cuda_error(e->cu, r, err, "take page-locked memory for layers on cores");
    for (size_t i = 0; i < n_ops * (size_t)l->instances; i++)
        l->core[i] = (struct mo_exec_core){.env = e->env,
                                           .op = &l->program.ops[i % n_ops],
                                           .memory = (char *)l->core_memory + i / n_ops * bytes,
                                           .failure = &l->failure[i / n_ops]};
    return MOIRE_OK;
}

void mo_exec_core_free(struct mo_gpu_loaded *l) {
    if (l->core_memory && mo_exec_usable(l->exec)) l->exec->cu->host_free(l->core_memory);
}

/* On a thread of the driver's. */
static void compute(void *ctx) {
    const struct mo_exec_core *c = ctx;
    void *operand[MO_GPU_ARGS];
    moire_error err = {0};
    char *at = c->memory;
    if (c->failure->code) return;
    for (int i = 0; i < c->op->launch.n_args; i++) {
        operand[i] = at;
        at += operand_bytes(c->op, i);
    }
    const int code = mo_core_layer_run(c->env, c->op->core.layer, operand, &err);
    if (!code) return;
    c->failure->code = code == MOIRE_ENOMEM ? code : MOIRE_EFAILED;
    snprintf(c->failure->message, sizeof c->failure->message, "on a core: %.280s", err.message);
}

int mo_exec_core_enqueue(struct mo_gpu_loaded *l, int index, mo_cu_ptr arena, mo_cu_stream stream,
                         moire_error *err) {
    const struct mo_cuda_driver *cu = l->exec->cu;
    const struct mo_gpu_op *op = &l->program.ops[index];
    int instance = 0;
    while (instance < l->instances && l->arenas[instance] != arena)
        instance++;
    if (instance == l->instances) return MOIRE_OK; /* kernels are tried out: there is nothing to try here */
    struct mo_exec_core *c = &l->core[instance * l->program.n_ops + index];
    char *at = c->memory;
    unsigned r = 0;
    for (int i = 0; i <= op->launch.n_args && !r; i++) {
        if (i == op->core.n_in) r = cu->host_function(stream, compute, c);
        if (i == op->launch.n_args || r) break;
        const mo_cu_ptr on_gpu = mo_exec_address(l, &op->launch.args[i], arena);
        const size_t bytes = (size_t)op->core.bytes[i];
        r = i < op->core.n_in ? cu->copy_out(at, on_gpu, bytes, stream)
                              : cu->copy_in(on_gpu, at, bytes, stream);
        at += operand_bytes(op, i);
    }
    return r ? mo_cuda_error(cu, r, err, "%.200s: bring it to a core", op->label) : MOIRE_OK;
}
