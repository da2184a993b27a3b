/* SPDX-License-Identifier: Apache-2.0
 * gpu_ways.c - moire_ways(): by libraries or by generated kernels, how a tenant computes on GPUs. */
#include <stdio.h>
#include "runtime/serve/gpu.h"

enum { KINDS = MO_GPU_KINDS };

static void put(const struct mo_engine_gpu_way *w, int kind, moire_way_row *out) {
    static const char *const name[KINDS] = {"convolution", "product", "other",
                                            "core"}; /* enum mo_gpu_op_kind */
    const int *count = w->ways.count[kind];
    *out = (moire_way_row){.gpu = w->gpu,
                           .batch = w->batch,
                           .sms = w->ways.sms,
                           .cudnn = count[MO_GPU_BY_DNN],
                           .cublaslt = count[MO_GPU_BY_BLAS],
                           .generated = count[MO_GPU_BY_KERNEL],
                           .cores = count[MO_GPU_BY_CORE],
                           .fallen = w->ways.fallen[kind]};
    snprintf(out->kind, sizeof out->kind, "%s", name[kind]);
}

int moire_ways(moire_tenant *t, moire_way_row *rows, int room, int *n, moire_error *err) {
    if (!t || !n || room < 0 || (room && !rows))
        return mo_fail(err, MOIRE_EINVAL, "moire_ways: tenant, n and room for the rows must be given");
    moire_runtime *rt = t->runtime;
    const int rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    *n = 0;
    if (!t->gpu) return MOIRE_OK;
    struct mo_engine_gpu_way *found = mo_alloc(&rt->env, ((size_t)room / KINDS + 1) * sizeof *found);
    if (!found) return mo_fail(err, MOIRE_ENOMEM, "moire_ways: out of memory for %d rows", room);
    const int most = room / KINDS + 1;
    const int number = mo_tenant_index(t, t->gpu);
    const int there =
        mo_engine_gpu_ways(mo_engine_device(rt->engine, rt->device->number), number, found, most);
    *n = KINDS * there;
    for (int i = 0; i < *n && i < room; i++)
        put(&found[i / KINDS], i % KINDS, &rows[i]);
    mo_free(&rt->env, found);
    return MOIRE_OK;
}
