/* SPDX-License-Identifier: Apache-2.0
 * dnn.h - convolutions by cuDNN 9, declared without its headers.
 *
 * By the fused call (bias, residual, activation in one kernel) or by single calls, whichever is faster.  A
 * plan is the algorithm and the descriptors of one convolution; it holds no addresses. */
#ifndef MO_CUDA_DNN_H
#define MO_CUDA_DNN_H
#include "runtime/gpu/cuda/driver.h"
#include "runtime/gpu/program.h"

typedef struct cudnnContext *mo_dnn_handle;
typedef struct cudnnTensorStruct *mo_dnn_tensor;
typedef struct cudnnFilterStruct *mo_dnn_filter;
typedef struct cudnnConvolutionStruct *mo_dnn_convolution;
typedef struct cudnnActivationStruct *mo_dnn_activation;

/* X(ours, theirs, value) */
#define MO_DNN_VALUES(X)                                                                                     \
    X(MO_DNN_FLOAT, CUDNN_DATA_FLOAT, 0)                                                                     \
    X(MO_DNN_HALF, CUDNN_DATA_HALF, 2)                                                                       \
    X(MO_DNN_BFLOAT16, CUDNN_DATA_BFLOAT16, 9)                                                               \
    X(MO_DNN_NHWC, CUDNN_TENSOR_NHWC, 1)                                                                     \
    X(MO_DNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION, 1)                                                  \
    X(MO_DNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH, 1)                                                        \
    X(MO_DNN_FMA_MATH, CUDNN_FMA_MATH, 3)                                                                    \
    X(MO_DNN_NOT_PROPAGATE_NAN, CUDNN_NOT_PROPAGATE_NAN, 0)                                                  \
    X(MO_DNN_RELU, CUDNN_ACTIVATION_RELU, 1)                                                                 \
    X(MO_DNN_IDENTITY, CUDNN_ACTIVATION_IDENTITY, 5)                                                         \
    X(MO_DNN_IMPLICIT_PRECOMP, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, 1)                          \
    X(MO_DNN_ALGORITHMS, CUDNN_CONVOLUTION_FWD_ALGO_COUNT, 8)                                                \
    X(MO_DNN_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED, 3000)                                                \
    X(MO_DNN_ALLOC_FAILED, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, 4004)
enum {
#define MO_DNN_VALUE(ours, theirs, value) ours = value,
    MO_DNN_VALUES(MO_DNN_VALUE)
#undef MO_DNN_VALUE
};

/* cudnnConvolutionFwdAlgoPerf_t */
struct mo_dnn_performance {
    unsigned algorithm;
    unsigned status;
    float time; /* ms */
    size_t memory;
    unsigned determinism, math;
    int reserved[3];
};

/* X(field, symbol, arguments); results are cudnnStatus_t, 0 = success. */
#define MO_DNN_FUNCTIONS(X)                                                                                  \
    X(create, cudnnCreate, (mo_dnn_handle * out))                                                            \
    X(destroy, cudnnDestroy, (mo_dnn_handle h))                                                              \
    X(set_stream, cudnnSetStream, (mo_dnn_handle h, mo_cu_stream s))                                         \
    X(tensor_create, cudnnCreateTensorDescriptor, (mo_dnn_tensor * out))                                     \
    X(tensor_destroy, cudnnDestroyTensorDescriptor, (mo_dnn_tensor t))                                       \
    X(tensor_set, cudnnSetTensor4dDescriptor,                                                                \
      (mo_dnn_tensor t, unsigned format, unsigned type, int n, int c, int h, int w))                         \
    X(filter_create, cudnnCreateFilterDescriptor, (mo_dnn_filter * out))                                     \
    X(filter_destroy, cudnnDestroyFilterDescriptor, (mo_dnn_filter f))                                       \
    X(filter_set, cudnnSetFilter4dDescriptor,                                                                \
      (mo_dnn_filter f, unsigned type, unsigned format, int k, int c, int h, int w))                         \
    X(conv_create, cudnnCreateConvolutionDescriptor, (mo_dnn_convolution * out))                             \
    X(conv_destroy, cudnnDestroyConvolutionDescriptor, (mo_dnn_convolution c))                               \
    X(conv_set, cudnnSetConvolution2dDescriptor,                                                             \
      (mo_dnn_convolution c, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,               \
       int dilation_w, unsigned mode, unsigned type))                                                        \
    X(conv_groups, cudnnSetConvolutionGroupCount, (mo_dnn_convolution c, int groups))                        \
    X(conv_math, cudnnSetConvolutionMathType, (mo_dnn_convolution c, unsigned math))                         \
    X(act_create, cudnnCreateActivationDescriptor, (mo_dnn_activation * out))                                \
    X(act_destroy, cudnnDestroyActivationDescriptor, (mo_dnn_activation a))                                  \
    X(act_set, cudnnSetActivationDescriptor,                                                                 \
      (mo_dnn_activation a, unsigned mode, unsigned nan, double coefficient))                                \
    X(find, cudnnFindConvolutionForwardAlgorithmEx,                                                          \
      (mo_dnn_handle h, const mo_dnn_tensor xd, const void *x, const mo_dnn_filter wd, const void *w,        \
       const mo_dnn_convolution c, const mo_dnn_tensor yd, void *y, const int most, int *n,                  \
       struct mo_dnn_performance *out, void *space, size_t bytes))                                           \
    X(guess, cudnnGetConvolutionForwardAlgorithm_v7,                                                         \
      (mo_dnn_handle h, const mo_dnn_tensor xd, const mo_dnn_filter wd, const mo_dnn_convolution c,          \
       const mo_dnn_tensor yd, const int most, int *n, struct mo_dnn_performance *out))                      \
    X(fused, cudnnConvolutionBiasActivationForward,                                                          \
      (mo_dnn_handle h, const void *alpha1, const mo_dnn_tensor xd, const void *x, const mo_dnn_filter wd,   \
       const void *w, const mo_dnn_convolution c, unsigned algorithm, void *space, size_t bytes,             \
       const void *alpha2, const mo_dnn_tensor zd, const void *z, const mo_dnn_tensor bd, const void *bias,  \
       const mo_dnn_activation a, const mo_dnn_tensor yd, void *y))                                          \
    X(forward, cudnnConvolutionForward,                                                                      \
      (mo_dnn_handle h, const void *alpha, const mo_dnn_tensor xd, const void *x, const mo_dnn_filter wd,    \
       const void *w, const mo_dnn_convolution c, unsigned algorithm, void *space, size_t bytes,             \
       const void *beta, const mo_dnn_tensor yd, void *y))                                                   \
    X(add, cudnnAddTensor,                                                                                   \
      (mo_dnn_handle h, const void *alpha, const mo_dnn_tensor ad, const void *a, const void *beta,          \
       const mo_dnn_tensor cd, void *c))                                                                     \
    X(activate, cudnnActivationForward,                                                                      \
      (mo_dnn_handle h, mo_dnn_activation a, const void *alpha, const mo_dnn_tensor xd, const void *x,       \
       const void *beta, const mo_dnn_tensor yd, void *y))

struct mo_cuda_dnn {
    struct mo_cuda_object object;
    mo_dnn_handle handle;
    const struct mo_cuda_driver *cu;
    size_t version; /* 90100 = 9.1.0 */
    size_t (*get_version)(void);
    const char *(*error_text)(unsigned status);
#define MO_DNN_FIELD(field, symbol, arguments) unsigned(*field) arguments;
    MO_DNN_FUNCTIONS(MO_DNN_FIELD)
#undef MO_DNN_FIELD
};

enum { MO_DNN_WAYS = 8 };
struct mo_dnn_way {
    unsigned algorithm;
    bool fused;   /* bias, residual and activation in the same call */
    size_t space; /* bytes of scratch memory */
};

struct mo_dnn_plan {
    mo_dnn_tensor x, y, bias;
    mo_dnn_filter w;
    mo_dnn_convolution conv;
    mo_dnn_activation act;
    int n; /* ways that run, the one that should be fastest first */
    struct mo_dnn_way list[MO_DNN_WAYS];
    int chosen;
};

/* Device addresses of one run; residual 0: none; bias 0: none (the fused call then reads `zeros`). */
struct mo_dnn_operands {
    mo_cu_ptr x, weights, bias, residual, y, space, zeros;
};

/* Opens libcudnn.so.9 and makes a handle in the current context. */
int mo_cuda_dnn_open(struct mo_cuda_dnn *dnn, const struct mo_env *env, const struct mo_cuda_driver *cu,
                     const char *path, moire_error *err);
void mo_cuda_dnn_close(struct mo_cuda_dnn *dnn);

/* Times the algorithms on the stream and lists the ways that take at most `space` bytes and accept the
 * operands, of which the caller times each; until then the first is chosen.  MOIRE_EUNSUPPORTED: there is
 * none. */
int mo_cuda_dnn_plan(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *conv,
                     enum mo_gpu_precision precision, const struct mo_dnn_operands *at, size_t space,
                     mo_cu_stream stream, struct mo_dnn_plan *out, moire_error *err);
/* In a way that was chosen before; it runs once.  MOIRE_EUNSUPPORTED: cuDNN refuses it. */
int mo_cuda_dnn_plan_as(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *conv,
                        enum mo_gpu_precision precision, const struct mo_dnn_operands *at,
                        const struct mo_dnn_way *way, mo_cu_stream stream, struct mo_dnn_plan *out,
                        moire_error *err);
void mo_cuda_dnn_plan_free(const struct mo_cuda_dnn *dnn, struct mo_dnn_plan *plan);
/* Puts the convolution into the stream. */
int mo_cuda_dnn_run(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *conv,
                    const struct mo_dnn_plan *plan, const struct mo_dnn_operands *at, size_t y_bytes,
                    mo_cu_stream stream, moire_error *err);
#endif
