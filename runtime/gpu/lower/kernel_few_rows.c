/* SPDX-License-Identifier: Apache-2.0
 * kernel_few_rows.c - products of very few rows (squeeze-and-excite, heads at batch 1) whose epilogue no
 * library has.
 *
 * A block computes one element with the whole epilogue: its threads share the sum.  A library would take two
 * launches, product and activation, for work of a microsecond. */
#include <stdio.h>
#include "runtime/gpu/lower/lower.h"

enum { MOST_ROWS = 8, MOST_SUMMED = 4096, MOST_ELEMENTS = 32768, LEAST_THREADS = 32, MOST_THREADS = 128 };

bool mo_gpu_is_thin(const struct mo_gpu_gemm *g) {
    return g->count == 1 && g->transposed && g->m <= MOST_ROWS && g->k <= MOST_SUMMED &&
           g->m * g->n <= MOST_ELEMENTS;
}

static void thin_text(struct mo_gpu_text *t, const struct mo_gpu_gemm *g, const struct mo_fuse *fuse,
                      moire_dtype dtype, int threads) {
    const char *type = mo_gpu_memory_type(dtype);
    const bool has_c = g->c.at.space != MO_GPU_NONE;
    char at[48];
    mo_gpu_printf(t, "(const %s *a, const %s *b, ", type, type);
    if (g->bias.space != MO_GPU_NONE) mo_gpu_printf(t, "const %s *bias, ", type);
    if (has_c) mo_gpu_printf(t, "const %s *c, ", type);
    mo_gpu_printf(
        t,
        "%s *d) {\n    MO_SHARED float s[%d];\n    const long long i = blockIdx.y, j = blockIdx.x;\n"
        "    float r = 0;\n    a += i * %lld;\n    b += j * %lld;\n"
        "    for (int k = (int)threadIdx.x; k < %lld; k += %d) r += ",
        type, threads, (long long)g->a.row, (long long)g->b.row, (long long)g->k, threads);
    mo_gpu_get(t, dtype, "a[k]");
    mo_gpu_printf(t, " * ");
    mo_gpu_get(t, dtype, "b[k]");
    mo_gpu_printf(t, ";\n    r = mo_all_sum(s, r, 1, %d);\n    if (threadIdx.x) return;\n    r *= ", threads);
    mo_gpu_literal(t, g->alpha);
    mo_gpu_printf(t, ";\n");
    if (g->bias.space != MO_GPU_NONE) mo_gpu_take(t, "+=", dtype, "bias[j]");
    snprintf(at, sizeof at, "c[i * %lld + j]", (long long)g->c.row);
    if (has_c && !fuse->residual_last) mo_gpu_take(t, "+=", dtype, at);
    mo_gpu_act_text(t, fuse->act, fuse->a, fuse->b);
    if (has_c && fuse->residual_last) mo_gpu_take(t, "+=", dtype, at);
    mo_gpu_printf(t, "    d[i * %lld + j] = ", (long long)g->d.row);
    mo_gpu_put(t, dtype, "r");
    mo_gpu_printf(t, ";\n}\n");
}

void mo_lower_thin(struct mo_lower *l, const struct mo_gpu_gemm *g, const struct mo_fuse *fuse) {
    struct mo_gpu_text t = {.env = l->env};
    const struct mo_gpu_place all[] = {g->a.at, g->b.at, g->bias, g->c.at, g->d.at};
    struct mo_gpu_place args[5];
    int n = 0, threads = LEAST_THREADS;
    if (l->rc) return;
    while (threads < MOST_THREADS && threads * 4 <= g->k)
        threads *= 2;
    thin_text(&t, g, fuse, l->storage, threads);
    for (int i = 0; i < 5; i++)
        if (all[i].space != MO_GPU_NONE) args[n++] = all[i];
    const int kernel = mo_lower_kernel(l, &t, g->n, g->m, 1, (unsigned)threads);
    mo_lower_launch(l, kernel, args, n, 2 * g->m * g->n * g->k);
}
