/* SPDX-License-Identifier: Apache-2.0
 * dnn.c - libcudnn.so.9 without a GPU: convolutions by the definition, in the stream of the fake driver.
 *
 * It is as particular as the real one: the fused call without an activation has one algorithm, bfloat16 has
 * no fused call, a second algorithm is faster but takes more scratch memory than anybody gives, and groups
 * with dilation are refused altogether, so that every way of the executor is taken.  It checks that the
 * scratch memory it is given is its own to write. */
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/cuda/dnn.h"
#include "tests/fake/cuda/element.h"
#include "tests/fake/cuda/fake.h"

#define EXPORT                                __attribute__((visibility("default")))
#define DNN_DECLARE(field, symbol, arguments) EXPORT unsigned symbol arguments;
MO_DNN_FUNCTIONS(DNN_DECLARE)
EXPORT size_t cudnnGetVersion(void);
EXPORT const char *cudnnGetErrorString(unsigned status);

enum { BAD_PARAM = 2000, SPACE = 4096, WINOGRAD = 6 };

struct cudnnContext {
    mo_cu_stream stream;
};
struct cudnnTensorStruct {
    unsigned type;
    int n, c, h, w;
};
struct cudnnFilterStruct {
    unsigned type;
    int k, c, h, w;
};
struct cudnnConvolutionStruct {
    int pad[2], stride[2], dilation[2], groups;
};
struct cudnnActivationStruct {
    unsigned mode, nan;
};

size_t cudnnGetVersion(void) {
    return 91300;
}

const char *cudnnGetErrorString(unsigned status) {
    return status == MO_DNN_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}

static unsigned make(void *out, size_t bytes) {
    void *object = calloc(1, bytes);
    memcpy(out, &object, sizeof object);
    return object ? 0 : MO_DNN_ALLOC_FAILED;
}

static unsigned forget(void *object) {
    free(object);
    return 0;
}

/* Not from the heap: a lost GPU's handle stays with the process, and is no leak. */
unsigned cudnnCreate(mo_dnn_handle *out) {
    static __typeof__(**out) handles[64];
    static _Atomic unsigned made;
    *out = &handles[made++ % 64];
    return 0;
}

unsigned cudnnDestroy(mo_dnn_handle object) {
    object->stream = NULL;
    return 0;
}

unsigned cudnnCreateTensorDescriptor(mo_dnn_tensor *out) {
    return make(out, sizeof **out);
}

unsigned cudnnDestroyTensorDescriptor(mo_dnn_tensor object) {
    return forget(object);
}

unsigned cudnnCreateFilterDescriptor(mo_dnn_filter *out) {
    return make(out, sizeof **out);
}

unsigned cudnnDestroyFilterDescriptor(mo_dnn_filter object) {
    return forget(object);
}

unsigned cudnnCreateConvolutionDescriptor(mo_dnn_convolution *out) {
    return make(out, sizeof **out);
}

unsigned cudnnDestroyConvolutionDescriptor(mo_dnn_convolution object) {
    return forget(object);
}

unsigned cudnnCreateActivationDescriptor(mo_dnn_activation *out) {
    return make(out, sizeof **out);
}

unsigned cudnnDestroyActivationDescriptor(mo_dnn_activation object) {
    return forget(object);
}

unsigned cudnnSetStream(mo_dnn_handle h, mo_cu_stream s) {
    h->stream = s;
    return 0;
}

unsigned cudnnSetTensor4dDescriptor(mo_dnn_tensor t, unsigned format, unsigned type, int n, int c, int h,
                                    int w) {
    *t = (struct cudnnTensorStruct){type, n, c, h, w};
    return format == MO_DNN_NHWC && n > 0 && c > 0 && h > 0 && w > 0 ? 0 : BAD_PARAM;
}

unsigned cudnnSetFilter4dDescriptor(mo_dnn_filter f, unsigned type, unsigned format, int k, int c, int h,
                                    int w) {
    *f = (struct cudnnFilterStruct){type, k, c, h, w};
    return format == MO_DNN_NHWC && k > 0 && c > 0 && h > 0 && w > 0 ? 0 : BAD_PARAM;
}

unsigned cudnnSetConvolution2dDescriptor(mo_dnn_convolution c, int pad_h, int pad_w, int stride_h,
                                         int stride_w, int dilation_h, int dilation_w, unsigned mode,
                                         unsigned type) {
    *c = (struct cudnnConvolutionStruct){{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1};
    return mode == MO_DNN_CROSS_CORRELATION && type == MO_DNN_FLOAT ? 0 : BAD_PARAM;
}

unsigned cudnnSetConvolutionGroupCount(mo_dnn_convolution c, int groups) {
    c->groups = groups;
    return 0;
}

unsigned cudnnSetConvolutionMathType(mo_dnn_convolution c, unsigned math) {
    (void)c;
    return math == MO_DNN_FMA_MATH || math == MO_DNN_TENSOR_OP_MATH ? 0 : BAD_PARAM;
}

unsigned cudnnSetActivationDescriptor(mo_dnn_activation a, unsigned mode, unsigned nan, double coefficient) {
    (void)coefficient;
    a->mode = mode;
    a->nan = nan;
    return 0;
}

static bool fits(const mo_dnn_tensor x, const mo_dnn_filter w, const mo_dnn_convolution c,
                 const mo_dnn_tensor y) {
    const int in[2] = {x->h, x->w}, k[2] = {w->h, w->w}, out[2] = {y->h, y->w};
    for (int i = 0; i < 2; i++)
        if ((in[i] + 2 * c->pad[i] - (k[i] - 1) * c->dilation[i] - 1) / c->stride[i] + 1 != out[i])
            return false;
    return w->c * c->groups == x->c && w->k == y->c && x->n == y->n && x->type == y->type &&
           w->type == x->type;
}

static unsigned algorithms(const mo_dnn_tensor x, const mo_dnn_filter w, const mo_dnn_convolution c,
                           const mo_dnn_tensor y, int most, int *n, struct mo_dnn_performance *out) {
    *n = 0;
    if (!fits(x, w, c, y)) return BAD_PARAM;
    if (most < 2 || (c->groups > 1 && c->dilation[0] > 1)) return 0;
    out[0] = (struct mo_dnn_performance){.algorithm = WINOGRAD, .time = 1, .memory = (size_t)1 << 40};
    out[1] = (struct mo_dnn_performance){.algorithm = MO_DNN_IMPLICIT_PRECOMP, .time = 2, .memory = SPACE};
    *n = 2;
    return 0;
}

unsigned cudnnGetConvolutionForwardAlgorithm_v7(mo_dnn_handle h, const mo_dnn_tensor xd,
                                                const mo_dnn_filter wd, const mo_dnn_convolution c,
                                                const mo_dnn_tensor yd, const int most, int *n,
                                                struct mo_dnn_performance *out) {
    (void)h;
    return algorithms(xd, wd, c, yd, most, n, out);
}

unsigned cudnnFindConvolutionForwardAlgorithmEx(mo_dnn_handle h, const mo_dnn_tensor xd, const void *x,
                                                const mo_dnn_filter wd, const void *w,
                                                const mo_dnn_convolution c, const mo_dnn_tensor yd, void *y,
                                                const int most, int *n, struct mo_dnn_performance *out,
                                                void *space, size_t bytes) {
    (void)h;
    if (!x || !w || !y || !space || bytes < SPACE) return BAD_PARAM;
    return algorithms(xd, wd, c, yd, most, n, out);
}

/* --- the arithmetic ------------------------------------------------------------------------------------- */

struct job {
    struct cudnnTensorStruct xd, yd;
    struct cudnnFilterStruct wd;
    struct cudnnConvolutionStruct conv;
    const void *x, *w, *z, *bias;
    void *y, *space;
    float beta; /* of z */
    int relu;
};

static enum fake_type type_of(unsigned type) {
    return type == MO_DNN_HALF ? FAKE_F16 : type == MO_DNN_BFLOAT16 ? FAKE_BF16 : FAKE_F32;
}

static float dot(const struct job *j, int n, int oh, int ow, int k) {
    const enum fake_type type = type_of(j->xd.type);
    const int per = j->yd.c / j->conv.groups, first = k / per * j->wd.c;
    double sum = 0;
    for (int r = 0; r < j->wd.h; r++)
        for (int s = 0; s < j->wd.w; s++) {
            const int h = oh * j->conv.stride[0] - j->conv.pad[0] + r * j->conv.dilation[0],
                      w = ow * j->conv.stride[1] - j->conv.pad[1] + s * j->conv.dilation[1];
            if (h < 0 || w < 0 || h >= j->xd.h || w >= j->xd.w) continue;
            const int64_t x = (((int64_t)n * j->xd.h + h) * j->xd.w + w) * j->xd.c + first,
                          f = (((int64_t)k * j->wd.h + r) * j->wd.w + s) * j->wd.c;
            for (int c = 0; c < j->wd.c; c++)
                sum += (double)fake_get(j->x, type, x + c) * (double)fake_get(j->w, type, f + c);
        }
    return (float)sum;
}

static void convolve(void *args) {
    const struct job *j = args;
    const enum fake_type type = type_of(j->xd.type);
    int64_t at = 0;
    memset(j->space, 0xff, SPACE);
    for (int n = 0; n < j->yd.n; n++)
        for (int h = 0; h < j->yd.h; h++)
            for (int w = 0; w < j->yd.w; w++)
                for (int k = 0; k < j->yd.c; k++, at++) {
                    float r = dot(j, n, h, w, k);
                    if (j->beta != 0) r += j->beta * fake_get(j->z, type, at);
                    if (j->bias) r += fake_get(j->bias, type, k);
                    fake_put(j->y, type, at, j->relu && r < 0 ? 0 : r);
                }
}

unsigned cudnnConvolutionBiasActivationForward(mo_dnn_handle h, const void *alpha1, const mo_dnn_tensor xd,
                                               const void *x, const mo_dnn_filter wd, const void *w,
                                               const mo_dnn_convolution c, unsigned algorithm, void *space,
                                               size_t bytes, const void *alpha2, const mo_dnn_tensor zd,
                                               const void *z, const mo_dnn_tensor bd, const void *bias,
                                               const mo_dnn_activation a, const mo_dnn_tensor yd, void *y) {
    if (*(const float *)alpha1 != 1 || !fits(xd, wd, c, yd) || !z || !bias || bd->c != yd->c ||
        zd->c != yd->c)
        return BAD_PARAM;
    if (algorithm != MO_DNN_IMPLICIT_PRECOMP || bytes < SPACE || xd->type == MO_DNN_BFLOAT16 ||
        a->nan != MO_DNN_NOT_PROPAGATE_NAN)
        return MO_DNN_NOT_SUPPORTED;
    const struct job job = {
        *xd, *yd, *wd, *c, x, w, z, bias, y, space, *(const float *)alpha2, a->mode == MO_DNN_RELU};
    return mo_fake_launch(h->stream, "cudnn_fused", convolve, &job, sizeof job, 0) ? BAD_PARAM : 0;
}

unsigned cudnnConvolutionForward(mo_dnn_handle h, const void *alpha, const mo_dnn_tensor xd, const void *x,
                                 const mo_dnn_filter wd, const void *w, const mo_dnn_convolution c,
                                 unsigned algorithm, void *space, size_t bytes, const void *beta,
                                 const mo_dnn_tensor yd, void *y) {
    if (*(const float *)alpha != 1 || !fits(xd, wd, c, yd)) return BAD_PARAM;
    if (algorithm != MO_DNN_IMPLICIT_PRECOMP || bytes < SPACE) return MO_DNN_NOT_SUPPORTED;
    const struct job job = {*xd, *yd, *wd, *c, x, w, y, NULL, y, space, *(const float *)beta, 0};
    return mo_fake_launch(h->stream, "cudnn_forward", convolve, &job, sizeof job, 0) ? BAD_PARAM : 0;
}

static void add_bias(void *args) {
    const struct job *j = args;
    const enum fake_type type = type_of(j->yd.type);
    const int64_t n = (int64_t)j->yd.n * j->yd.h * j->yd.w * j->yd.c;
    for (int64_t i = 0; i < n; i++)
        fake_put(j->y, type, i, fake_get(j->y, type, i) + fake_get(j->bias, type, i % j->yd.c));
}

unsigned cudnnAddTensor(mo_dnn_handle h, const void *alpha, const mo_dnn_tensor ad, const void *a,
                        const void *beta, const mo_dnn_tensor cd, void *c) {
    const struct job job = {.yd = *cd, .bias = a, .y = c};
    if (*(const float *)alpha != 1 || *(const float *)beta != 1 || ad->c != cd->c) return BAD_PARAM;
    return mo_fake_launch(h->stream, "cudnn_add", add_bias, &job, sizeof job, 0) ? BAD_PARAM : 0;
}

static void clamp(void *args) {
    const struct job *j = args;
    const enum fake_type type = type_of(j->yd.type);
    const int64_t n = (int64_t)j->yd.n * j->yd.h * j->yd.w * j->yd.c;
    for (int64_t i = 0; i < n; i++)
        if (fake_get(j->y, type, i) < 0) fake_put(j->y, type, i, 0);
}

unsigned cudnnActivationForward(mo_dnn_handle h, mo_dnn_activation a, const void *alpha,
                                const mo_dnn_tensor xd, const void *x, const void *beta,
                                const mo_dnn_tensor yd, void *y) {
    const struct job job = {.yd = *yd, .y = y};
    if (a->mode != MO_DNN_RELU || x != y || xd->c != yd->c || *(const float *)alpha != 1 ||
        *(const float *)beta != 0)
        return BAD_PARAM;
    return mo_fake_launch(h->stream, "cudnn_relu", clamp, &job, sizeof job, 0) ? BAD_PARAM : 0;
}
