/* SPDX-License-Identifier: Apache-2.0
 * blas.c - libcublasLt.so.13 without a GPU: column-major products by the definition, in the stream of the
 * fake driver.  The first algorithm it names fails when it runs; products with one row are refused. */
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/cuda/blas.h"
#include "tests/fake/cuda/element.h"
#include "tests/fake/cuda/fake.h"

#define EXPORT                                 __attribute__((visibility("default")))
#define BLAS_DECLARE(field, symbol, arguments) EXPORT unsigned symbol arguments;
MO_BLAS_FUNCTIONS(BLAS_DECLARE)
EXPORT size_t cublasLtGetVersion(void);

enum { INVALID_VALUE = 7, NOT_SUPPORTED = 15, ALLOC_FAILED = 3, SPACE = 2048 };

struct cublasLtContext {
    int unused;
};
struct mo_blas_opaque_desc {
    unsigned compute;
    int32_t transposed, sms;
    uint32_t epilogue;
    const void *bias;
};
struct mo_blas_opaque_layout {
    unsigned type;
    int64_t rows, columns, leading, step;
    int32_t count;
};
struct mo_blas_opaque_preference {
    uint64_t space;
};

size_t cublasLtGetVersion(void) {
    return 130000;
}

/* One for all: a lost GPU's handle stays with the process, and is no leak. */
unsigned cublasLtCreate(mo_blas_handle *out) {
    static __typeof__(**out) handle;
    *out = &handle;
    return 0;
}

unsigned cublasLtDestroy(mo_blas_handle h) {
    return h ? 0 : ALLOC_FAILED;
}

unsigned cublasLtMatmulDescCreate(mo_blas_desc *out, unsigned compute, unsigned scale) {
    *out = calloc(1, sizeof **out);
    if (*out) (*out)->compute = compute;
    return *out && scale == MO_BLAS_F32 ? 0 : ALLOC_FAILED;
}

unsigned cublasLtMatmulDescDestroy(mo_blas_desc d) {
    free(d);
    return 0;
}

static unsigned set(void *field, size_t size, const void *value, size_t bytes) {
    if (size != bytes) return INVALID_VALUE;
    memcpy(field, value, size);
    return 0;
}

unsigned cublasLtMatmulDescSetAttribute(mo_blas_desc d, unsigned attribute, const void *value, size_t bytes) {
    switch (attribute) {
    case MO_BLAS_DESC_TRANSA:
        return set(&d->transposed, sizeof d->transposed, value, bytes);
    case MO_BLAS_DESC_EPILOGUE:
        return set(&d->epilogue, sizeof d->epilogue, value, bytes);
    case MO_BLAS_DESC_BIAS:
        return set(&d->bias, sizeof d->bias, value, bytes);
    case MO_BLAS_DESC_SMS:
        return set(&d->sms, sizeof d->sms, value, bytes);
    default:
        return INVALID_VALUE;
    }
}

unsigned cublasLtMatrixLayoutCreate(mo_blas_layout *out, unsigned type, uint64_t rows, uint64_t columns,
                                    int64_t leading) {
    *out = calloc(1, sizeof **out);
    if (!*out) return ALLOC_FAILED;
    **out = (struct mo_blas_opaque_layout){type, (int64_t)rows, (int64_t)columns, leading, 0, 1};
    return leading >= (int64_t)rows ? 0 : INVALID_VALUE;
}

unsigned cublasLtMatrixLayoutDestroy(mo_blas_layout l) {
    free(l);
    return 0;
}

unsigned cublasLtMatrixLayoutSetAttribute(mo_blas_layout l, unsigned attribute, const void *value,
                                          size_t bytes) {
    if (attribute == MO_BLAS_LAYOUT_COUNT) return set(&l->count, sizeof l->count, value, bytes);
    return attribute == MO_BLAS_LAYOUT_STEP ? set(&l->step, sizeof l->step, value, bytes) : INVALID_VALUE;
}

unsigned cublasLtMatmulPreferenceCreate(mo_blas_preference *out) {
    *out = calloc(1, sizeof **out);
    return *out ? 0 : ALLOC_FAILED;
}

unsigned cublasLtMatmulPreferenceDestroy(mo_blas_preference p) {
    free(p);
    return 0;
}

unsigned cublasLtMatmulPreferenceSetAttribute(mo_blas_preference p, unsigned attribute, const void *value,
                                              size_t bytes) {
    if (attribute == MO_BLAS_PREFERENCE_SPACE) return set(&p->space, sizeof p->space, value, bytes);
    const bool alignment =
        attribute >= MO_BLAS_PREFERENCE_ALIGN_A && attribute < MO_BLAS_PREFERENCE_ALIGN_A + 4;
    return alignment && bytes == sizeof(uint32_t) ? 0 : INVALID_VALUE;
}

static bool fits(mo_blas_desc d, mo_blas_layout a, mo_blas_layout b, mo_blas_layout c, mo_blas_layout out) {
    const int64_t m = d->transposed ? a->columns : a->rows, k = d->transposed ? a->rows : a->columns;
    return out->rows == m && out->columns == b->columns && b->rows == k && c->rows == m &&
           c->columns == out->columns && a->count == out->count && b->count == out->count;
}

unsigned cublasLtMatmulAlgoGetHeuristic(mo_blas_handle h, mo_blas_desc d, mo_blas_layout a, mo_blas_layout b,
                                        mo_blas_layout c, mo_blas_layout out, mo_blas_preference p, int most,
                                        struct mo_blas_candidate *list, int *n) {
    (void)h;
    *n = 0;
    if (!fits(d, a, b, c, out) || d->sms < 1 || most < 2 || p->space < SPACE) return INVALID_VALUE;
    if (out->columns == 1) return NOT_SUPPORTED;
    for (*n = 0; *n < 2; ++*n)
        list[*n] = (struct mo_blas_candidate){.algorithm = {{(uint64_t)*n + 1}}, .space = SPACE};
    return 0;
}

unsigned cublasLtMatmulAlgoCheck(mo_blas_handle h, mo_blas_desc d, mo_blas_layout a, mo_blas_layout b,
                                 mo_blas_layout c, mo_blas_layout out,
                                 const struct mo_blas_algorithm *algorithm,
                                 struct mo_blas_candidate *result) {
    (void)h;
    if (!fits(d, a, b, c, out)) return INVALID_VALUE;
    if (algorithm->data[0] < 1 || algorithm->data[0] > 2 || out->columns == 1) return NOT_SUPPORTED;
    *result = (struct mo_blas_candidate){.space = SPACE};
    return 0;
}

struct job {
    enum fake_type type;
    int transposed, count, gelu, relu;
    float alpha, beta;
    int64_t m, n, k, lead[4], step[4];
    const void *a, *b, *c, *bias;
    void *d, *space;
};

static float apply(const struct job *j, float r) {
    if (j->relu) return r < 0 ? 0 : r;
    return j->gelu ? 0.5f * r * (1 + tanhf(0.79788456f * (r + 0.044715f * r * r * r))) : r;
}

static void multiply(void *args) {
    const struct job *j = args;
    memset(j->space, 0xff, SPACE);
    for (int z = 0; z < j->count; z++)
        for (int64_t col = 0; col < j->n; col++)
            for (int64_t row = 0; row < j->m; row++) {
                double sum = 0;
                for (int64_t k = 0; k < j->k; k++) {
                    const int64_t a = j->transposed ? row * j->lead[0] + k : k * j->lead[0] + row;
                    sum += (double)fake_get(j->a, j->type, z * j->step[0] + a) *
                           (double)fake_get(j->b, j->type, z * j->step[1] + col * j->lead[1] + k);
                }
                float r = j->alpha * (float)sum;
                if (j->beta != 0)
                    r += j->beta * fake_get(j->c, j->type, z * j->step[2] + col * j->lead[2] + row);
                if (j->bias) r += fake_get(j->bias, j->type, row);
                fake_put(j->d, j->type, z * j->step[3] + col * j->lead[3] + row, apply(j, r));
            }
}

unsigned cublasLtMatmul(mo_blas_handle h, mo_blas_desc d, const void *alpha, const void *a, mo_blas_layout al,
                        const void *b, mo_blas_layout bl, const void *beta, const void *c, mo_blas_layout cl,
                        void *out, mo_blas_layout ol, const struct mo_blas_algorithm *algorithm, void *space,
                        size_t bytes, mo_cu_stream stream) {
    (void)h;
    if (!fits(d, al, bl, cl, ol) || !space || bytes < SPACE) return INVALID_VALUE;
    if (algorithm->data[0] == 1) return NOT_SUPPORTED;
    const bool bias = d->epilogue & MO_BLAS_EPILOGUE_BIAS;
    if (bias && !d->bias) return INVALID_VALUE;
    const struct job job = {.type = ol->type == MO_BLAS_F16    ? FAKE_F16
                                    : ol->type == MO_BLAS_BF16 ? FAKE_BF16
                                                               : FAKE_F32,
                            .transposed = d->transposed,
                            .count = ol->count,
                            .gelu = (d->epilogue & MO_BLAS_EPILOGUE_GELU) != 0,
                            .relu = (d->epilogue & MO_BLAS_EPILOGUE_RELU) != 0,
                            .alpha = *(const float *)alpha,
                            .beta = *(const float *)beta,
                            .m = ol->rows,
                            .n = ol->columns,
                            .k = bl->rows,
                            .lead = {al->leading, bl->leading, cl->leading, ol->leading},
                            .step = {al->step, bl->step, cl->step, ol->step},
                            .a = a,
                            .b = b,
                            .c = c,
                            .bias = bias ? d->bias : NULL,
                            .d = out,
                            .space = space};
    return mo_fake_launch(stream, "cublaslt_matmul", multiply, &job, sizeof job, 0) ? INVALID_VALUE : 0;
}
