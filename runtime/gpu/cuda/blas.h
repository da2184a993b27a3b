/* SPDX-License-Identifier: Apache-2.0
 * blas.h - products of matrices by cuBLASLt 12 or 13, declared without its headers.
 *
 * cuBLASLt's matrices are column-major: our row-major d = a b is its d' = b' a', so our b is its A, and our
 * columns n are its rows. */
#ifndef MO_CUDA_BLAS_H
#define MO_CUDA_BLAS_H
#include "runtime/gpu/cuda/driver.h"
#include "runtime/gpu/program.h"

typedef struct cublasLtContext *mo_blas_handle;
typedef struct mo_blas_opaque_desc *mo_blas_desc;
typedef struct mo_blas_opaque_layout *mo_blas_layout;
typedef struct mo_blas_opaque_preference *mo_blas_preference;

/* X(ours, theirs, value) */
#define MO_BLAS_VALUES(X)                                                                                    \
    X(MO_BLAS_F32, CUDA_R_32F, 0)                                                                            \
    X(MO_BLAS_F16, CUDA_R_16F, 2)                                                                            \
    X(MO_BLAS_BF16, CUDA_R_16BF, 14)                                                                         \
    X(MO_BLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F, 68)                                                           \
    X(MO_BLAS_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32, 77)                                                \
    X(MO_BLAS_TRANSPOSED, CUBLAS_OP_T, 1)                                                                    \
    X(MO_BLAS_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA, 3)                                                   \
    X(MO_BLAS_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                               \
    X(MO_BLAS_DESC_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)                                               \
    X(MO_BLAS_DESC_SMS, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 15)                                            \
    X(MO_BLAS_LAYOUT_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)                                           \
    X(MO_BLAS_LAYOUT_STEP, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)                                   \
    X(MO_BLAS_PREFERENCE_SPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                                 \
    X(MO_BLAS_PREFERENCE_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                             \
    X(MO_BLAS_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU, 2)                                                      \
    X(MO_BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS, 4)                                                      \
    X(MO_BLAS_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU, 32)                                                     \
    X(MO_BLAS_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT, 1)
enum {
#define MO_BLAS_VALUE(ours, theirs, value) ours = value,
    MO_BLAS_VALUES(MO_BLAS_VALUE)
#undef MO_BLAS_VALUE
};

/* cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t */
struct mo_blas_algorithm {
    uint64_t data[8];
};
struct mo_blas_candidate {
    struct mo_blas_algorithm algorithm;
    size_t space;
    unsigned state;
    float waves;
    int reserved[4];
};

/* X(field, symbol, arguments); results are cublasStatus_t, 0 = success. */
#define MO_BLAS_FUNCTIONS(X)                                                                                 \
    X(create, cublasLtCreate, (mo_blas_handle * out))                                                        \
    X(destroy, cublasLtDestroy, (mo_blas_handle h))                                                          \
    X(desc_create, cublasLtMatmulDescCreate, (mo_blas_desc * out, unsigned compute, unsigned scale))         \
    X(desc_destroy, cublasLtMatmulDescDestroy, (mo_blas_desc d))                                             \
    X(desc_set, cublasLtMatmulDescSetAttribute,                                                              \
      (mo_blas_desc d, unsigned attribute, const void *value, size_t bytes))                                 \
    X(layout_create, cublasLtMatrixLayoutCreate,                                                             \
      (mo_blas_layout * out, unsigned type, uint64_t rows, uint64_t columns, int64_t leading))               \
    X(layout_destroy, cublasLtMatrixLayoutDestroy, (mo_blas_layout l))                                       \
    X(layout_set, cublasLtMatrixLayoutSetAttribute,                                                          \
      (mo_blas_layout l, unsigned attribute, const void *value, size_t bytes))                               \
    X(preference_create, cublasLtMatmulPreferenceCreate, (mo_blas_preference * out))                         \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy, (mo_blas_preference p))                           \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                  \
      (mo_blas_preference p, unsigned attribute, const void *value, size_t bytes))                           \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                             \
      (mo_blas_handle h, mo_blas_desc d, mo_blas_layout a, mo_blas_layout b, mo_blas_layout c,               \
       mo_blas_layout out, mo_blas_preference p, int most, struct mo_blas_candidate *list, int *n))          \
    X(check, cublasLtMatmulAlgoCheck,                                                                        \
      (mo_blas_handle h, mo_blas_desc d, mo_blas_layout a, mo_blas_layout b, mo_blas_layout c,               \
       mo_blas_layout out, const struct mo_blas_algorithm *algorithm, struct mo_blas_candidate *result))     \
    X(matmul, cublasLtMatmul,                                                                                \
      (mo_blas_handle h, mo_blas_desc d, const void *alpha, const void *a, mo_blas_layout al, const void *b, \
       mo_blas_layout bl, const void *beta, const void *c, mo_blas_layout cl, void *out, mo_blas_layout ol,  \
       const struct mo_blas_algorithm *algorithm, void *space, size_t bytes, mo_cu_stream stream))

struct mo_cuda_blas {
    struct mo_cuda_object object;
    mo_blas_handle handle;
    size_t version; /* 130000 = 13.0.0 */
    size_t (*get_version)(void);
#define MO_BLAS_FIELD(field, symbol, arguments) unsigned(*field) arguments;
    MO_BLAS_FUNCTIONS(MO_BLAS_FIELD)
#undef MO_BLAS_FIELD
};

enum { MO_BLAS_CANDIDATES = 6 };

struct mo_blas_plan {
    mo_blas_desc desc;
    mo_blas_layout a, b, c, d;
    int n; /* candidates, best guess first */
    struct mo_blas_candidate list[MO_BLAS_CANDIDATES];
    int chosen;
};

/* Device addresses of one run; c 0: none, bias 0: none. */
struct mo_blas_operands {
    mo_cu_ptr a, b, bias, c, d, space;
};

/* Opens libcublasLt.so.13 or .12 and makes a handle for the current context. */
int mo_cuda_blas_open(struct mo_cuda_blas *blas, const struct mo_env *env, const char *path,
                      moire_error *err);
void mo_cuda_blas_close(struct mo_cuda_blas *blas);
/* Describes a product and asks for algorithms on `sms` SMs that take at most `space` bytes.
 * MOIRE_EUNSUPPORTED: there is none. */
int mo_cuda_blas_plan(const struct mo_cuda_blas *blas, const struct mo_gpu_gemm *gemm,
                      enum mo_gpu_precision precision, int sms, size_t space, struct mo_blas_plan *out,
                      moire_error *err);
/* With an algorithm that the same version of cuBLASLt gave before.  MOIRE_EUNSUPPORTED: it refuses it. */
int mo_cuda_blas_plan_as(const struct mo_cuda_blas *blas, const struct mo_gpu_gemm *gemm,
                         enum mo_gpu_precision precision, int sms, size_t space,
                         const struct mo_blas_algorithm *algorithm, struct mo_blas_plan *out,
                         moire_error *err);
void mo_cuda_blas_plan_free(const struct mo_cuda_blas *blas, struct mo_blas_plan *plan);
/* Puts the product into the stream, by the chosen candidate. */
int mo_cuda_blas_run(const struct mo_cuda_blas *blas, const struct mo_gpu_gemm *gemm,
                     const struct mo_blas_plan *plan, const struct mo_blas_operands *at, mo_cu_stream stream,
                     moire_error *err);
#endif
