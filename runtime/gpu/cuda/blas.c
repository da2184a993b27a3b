/* SPDX-License-Identifier: Apache-2.0
 * blas.c - products by cuBLASLt: layouts, epilogue, algorithms. */
#include "runtime/gpu/cuda/blas.h"

#include <string.h>

static int refuse(const struct mo_cuda_blas *blas, unsigned status, moire_error *err, const char *what) {
    return mo_fail(err, MOIRE_EUNSUPPORTED, "cuBLASLt %zu, %s: status %u", blas->version, what, status);
}

int mo_cuda_blas_open(struct mo_cuda_blas *blas, const struct mo_env *env, const char *path,
                      moire_error *err) {
    static const struct mo_cuda_symbol symbols[] = {
        {"cublasLtGetVersion", offsetof(struct mo_cuda_blas, get_version)},
#define ROW(field, symbol, arguments) {#symbol, offsetof(struct mo_cuda_blas, field)},
        MO_BLAS_FUNCTIONS(ROW)
#undef ROW
    };
    static const struct mo_cuda_wanted wanted = {.file = {"libcublasLt.so.13", "libcublasLt.so.12"},
                                                 .needs = "cuBLASLt of CUDA 12 or 13",
                                                 .symbols = symbols,
                                                 .n_symbols = sizeof symbols / sizeof *symbols};
    memset(blas, 0, sizeof *blas);
    int rc = mo_cuda_object_open(&blas->object, env, path, &wanted, blas, err);
    if (rc) return rc;
    blas->version = blas->get_version();
    unsigned status = blas->create(&blas->handle);
    if (!status) return MOIRE_OK;
    rc = refuse(blas, status, err, "a handle");
    mo_cuda_object_close(&blas->object);
    return rc;
}

void mo_cuda_blas_close(struct mo_cuda_blas *blas) {
    if (!blas->object.handle) return;
    blas->destroy(blas->handle);
    mo_cuda_object_close(&blas->object);
}

static unsigned layout(const struct mo_cuda_blas *blas, mo_blas_layout *out, unsigned type, int64_t rows,
                       int64_t columns, const struct mo_gpu_matrix *m, int64_t count) {
    const int32_t matrices = (int32_t)count;
    unsigned s = blas->layout_create(out, type, (uint64_t)rows, (uint64_t)columns, m->row);
    if (!s && count > 1) s = blas->layout_set(*out, MO_BLAS_LAYOUT_COUNT, &matrices, sizeof matrices);
    if (!s && count > 1) s = blas->layout_set(*out, MO_BLAS_LAYOUT_STEP, &m->step, sizeof m->step);
    return s;
}

static unsigned describe(const struct mo_cuda_blas *blas, const struct mo_gpu_gemm *g,
                         enum mo_gpu_precision precision, int sms, struct mo_blas_plan *p) {
    static const unsigned act[] = {[MO_GPU_LINEAR] = 0,
                                   [MO_GPU_RELU] = MO_BLAS_EPILOGUE_RELU,
                                   [MO_GPU_GELU_TANH] = MO_BLAS_EPILOGUE_GELU};
    const unsigned type = precision == MO_GPU_FP16   ? MO_BLAS_F16
                          : precision == MO_GPU_BF16 ? MO_BLAS_BF16
                                                     : MO_BLAS_F32;
    const unsigned compute = precision == MO_GPU_TF32 ? MO_BLAS_COMPUTE_TF32 : MO_BLAS_COMPUTE_32F;
    const int32_t turned = MO_BLAS_TRANSPOSED, units = sms;
    uint32_t epilogue = act[g->act] | (g->bias.space != MO_GPU_NONE ? MO_BLAS_EPILOGUE_BIAS : 0u);
    if (!epilogue) epilogue = MO_BLAS_EPILOGUE_NONE;
    unsigned s = blas->desc_create(&p->desc, compute, MO_BLAS_F32);
    if (!s && g->transposed) s = blas->desc_set(p->desc, MO_BLAS_DESC_TRANSA, &turned, sizeof turned);
    if (!s) s = blas->desc_set(p->desc, MO_BLAS_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!s && units > 0) s = blas->desc_set(p->desc, MO_BLAS_DESC_SMS, &units, sizeof units);
    if (!s)
        s = layout(blas, &p->a, type, g->transposed ? g->k : g->n, g->transposed ? g->n : g->k, &g->b,
                   g->count);
    if (!s) s = layout(blas, &p->b, type, g->k, g->m, &g->a, g->count);
    if (!s) s = layout(blas, &p->c, type, g->n, g->m, g->c.at.space != MO_GPU_NONE ? &g->c : &g->d, g->count);
    if (!s) s = layout(blas, &p->d, type, g->n, g->m, &g->d, g->count);
    return s;
}

int mo_cuda_blas_plan(const struct mo_cuda_blas *blas, const struct mo_gpu_gemm *g,
                      enum mo_gpu_precision precision, int sms, size_t space, struct mo_blas_plan *out,
                      moire_error *err) {
    mo_blas_preference preference = NULL;
    const uint64_t bytes = space;
    const uint32_t aligned = 16;
    memset(out, 0, sizeof *out);
    unsigned s = describe(blas, g, precision, sms, out);
    if (!s) s = blas->preference_create(&preference);
    if (!s) s = blas->preference_set(preference, MO_BLAS_PREFERENCE_SPACE, &bytes, sizeof bytes);
    for (unsigned k = 0; k < 4 && !s; k++)
        s = blas->preference_set(preference, MO_BLAS_PREFERENCE_ALIGN_A + k, &aligned, sizeof aligned);
    if (!s)
        s = blas->heuristic(blas->handle, out->desc, out->a, out->b, out->c, out->d, preference,
                            MO_BLAS_CANDIDATES, out->list, &out->n);
    if (preference) blas->preference_destroy(preference);
    while (!s && out->n > 0 && out->list[out->n - 1].state)
        out->n--;
    if (!s && out->n > 0) return MOIRE_OK;
    mo_cuda_blas_plan_free(blas, out);
    return refuse(blas, s, err, "a product");
}

int mo_cuda_blas_plan_as(const struct mo_cuda_blas *blas, const struct mo_gpu_gemm *g,
                         enum mo_gpu_precision precision, int sms, size_t space,
                         const struct mo_blas_algorithm *algorithm, struct mo_blas_plan *out,
                         moire_error *err) {
    memset(out, 0, sizeof *out);
    struct mo_blas_candidate *c = &out->list[0];
    unsigned s = describe(blas, g, precision, sms, out);
    if (!s) s = blas->check(blas->handle, out->desc, out->a, out->b, out->c, out->d, algorithm, c);
    if (!s && !c->state && c->space <= space) {
        c->algorithm = *algorithm;
        out->n = 1;
        return MOIRE_OK;
    }
    mo_cuda_blas_plan_free(blas, out);
    return refuse(blas, s, err, "an algorithm");
}

void mo_cuda_blas_plan_free(const struct mo_cuda_blas *blas, struct mo_blas_plan *p) {
    const mo_blas_layout layouts[] = {p->a, p->b, p->c, p->d};
    for (int i = 0; i < 4; i++)
        if (layouts[i]) blas->layout_destroy(layouts[i]);
    if (p->desc) blas->desc_destroy(p->desc);
    memset(p, 0, sizeof *p);
}

int mo_cuda_blas_run(const struct mo_cuda_blas *blas, const struct mo_gpu_gemm *g,
                     const struct mo_blas_plan *p, const struct mo_blas_operands *o, mo_cu_stream stream,
                     moire_error *err) {
    const float alpha = g->alpha, beta = o->c ? 1 : 0;
    const void *bias = (const void *)(uintptr_t)o->bias;
    const struct mo_blas_candidate *c = &p->list[p->chosen];
    unsigned s = o->bias ? blas->desc_set(p->desc, MO_BLAS_DESC_BIAS, &bias, sizeof bias) : 0;
    if (!s)
        s = blas->matmul(blas->handle, p->desc, &alpha, (const void *)(uintptr_t)o->b, p->a,
                         (const void *)(uintptr_t)o->a, p->b, &beta,
                         (const void *)(uintptr_t)(o->c ? o->c : o->d), p->c, (void *)(uintptr_t)o->d, p->d,
                         &c->algorithm, (void *)(uintptr_t)o->space, c->space, stream);
    return s ? refuse(blas, s, err, "a product") : MOIRE_OK;
}
