/* SPDX-License-Identifier: Apache-2.0
 * dnn.c - convolutions by cuDNN: descriptors, the choice of an algorithm, the calls. */
#include "runtime/gpu/cuda/dnn.h"

#include <string.h>

static void *at(mo_cu_ptr p) {
    return (void *)(uintptr_t)p;
}

static int refuse(const struct mo_cuda_dnn *dnn, unsigned status, moire_error *err, const char *what) {
    int code = status == MO_DNN_ALLOC_FAILED ? MOIRE_ENOMEM : MOIRE_EUNSUPPORTED;
    return mo_fail(err, code, "cuDNN %zu, %s: %.120s (%u)", dnn->version, what, dnn->error_text(status),
                   status);
}

int mo_cuda_dnn_open(struct mo_cuda_dnn *dnn, const struct mo_env *env, const struct mo_cuda_driver *cu,
                     const char *path, moire_error *err) {
    static const struct mo_cuda_symbol symbols[] = {
        {"cudnnGetVersion", offsetof(struct mo_cuda_dnn, get_version)},
        {"cudnnGetErrorString", offsetof(struct mo_cuda_dnn, error_text)},
#define ROW(field, symbol, arguments) {#symbol, offsetof(struct mo_cuda_dnn, field)},
        MO_DNN_FUNCTIONS(ROW)
#undef ROW
    };
    static const struct mo_cuda_wanted wanted = {.file = {"libcudnn.so.9"},
                                                 .needs = "cuDNN 9",
                                                 .symbols = symbols,
                                                 .n_symbols = sizeof symbols / sizeof *symbols};
    *dnn = (struct mo_cuda_dnn){.cu = cu};
    int rc = mo_cuda_object_open(&dnn->object, env, path, &wanted, dnn, err);
    if (rc) return rc;
    dnn->version = dnn->get_version();
    unsigned status = dnn->create(&dnn->handle);
    if (!status) return MOIRE_OK;
    rc = refuse(dnn, status, err, "a handle");
    mo_cuda_object_close(&dnn->object);
    return rc;
}

void mo_cuda_dnn_close(struct mo_cuda_dnn *dnn) {
    if (!dnn->object.handle) return;
    dnn->destroy(dnn->handle);
    mo_cuda_object_close(&dnn->object);
}

static unsigned type_of(enum mo_gpu_precision precision) {
    return precision == MO_GPU_FP16 ? MO_DNN_HALF : precision == MO_GPU_BF16 ? MO_DNN_BFLOAT16 : MO_DNN_FLOAT;
}

/* The first failure of the calls that describe the convolution. */
static unsigned describe(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *c,
                         enum mo_gpu_precision precision, struct mo_dnn_plan *p) {
    const unsigned type = type_of(precision),
                   math = precision == MO_GPU_FP32 ? MO_DNN_FMA_MATH : MO_DNN_TENSOR_OP_MATH;
    const int n = (int)c->n, k = (int)c->k;
    unsigned s = dnn->tensor_create(&p->x);
    if (!s) s = dnn->tensor_create(&p->y);
    if (!s) s = dnn->tensor_create(&p->bias);
    if (!s) s = dnn->filter_create(&p->w);
    if (!s) s = dnn->conv_create(&p->conv);
    if (!s) s = dnn->act_create(&p->act);
    if (!s) s = dnn->tensor_set(p->x, MO_DNN_NHWC, type, n, (int)c->c, (int)c->h, (int)c->w);
    if (!s) s = dnn->tensor_set(p->y, MO_DNN_NHWC, type, n, k, (int)c->oh, (int)c->ow);
    if (!s) s = dnn->tensor_set(p->bias, MO_DNN_NHWC, type, 1, k, 1, 1);
    if (!s) s = dnn->filter_set(p->w, type, MO_DNN_NHWC, k, (int)(c->c / c->groups), (int)c->r, (int)c->s);
    if (!s)
        s = dnn->conv_set(p->conv, (int)c->pad[0], (int)c->pad[1], (int)c->stride[0], (int)c->stride[1],
                          (int)c->dilation[0], (int)c->dilation[1], MO_DNN_CROSS_CORRELATION, MO_DNN_FLOAT);
    if (!s) s = dnn->conv_groups(p->conv, (int)c->groups);
    if (!s) s = dnn->conv_math(p->conv, math);
    if (!s)
        s = dnn->act_set(p->act, c->act == MO_GPU_RELU ? MO_DNN_RELU : MO_DNN_IDENTITY,
                         MO_DNN_NOT_PROPAGATE_NAN, 0);
    return s;
}

/* The fused call, or the single ones. */
static unsigned call(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *c, const struct mo_dnn_plan *p,
                     const struct mo_dnn_operands *o, size_t y_bytes, mo_cu_stream stream) {
    const struct mo_dnn_way *way = &p->list[p->chosen];
    const float one = 1, zero = 0;
    if (way->fused)
        return dnn->fused(dnn->handle, &one, p->x, at(o->x), p->w, at(o->weights), p->conv, way->algorithm,
                          at(o->space), way->space, o->residual ? &one : &zero, p->y,
                          at(o->residual ? o->residual : o->y), p->bias, at(o->bias ? o->bias : o->zeros),
                          p->act, p->y, at(o->y));
    if (o->residual && dnn->cu->copy(o->y, o->residual, y_bytes, stream)) return MO_DNN_ALLOC_FAILED;
    unsigned s =
        dnn->forward(dnn->handle, &one, p->x, at(o->x), p->w, at(o->weights), p->conv, way->algorithm,
                     at(o->space), way->space, o->residual ? &one : &zero, p->y, at(o->y));
    if (!s && o->bias) s = dnn->add(dnn->handle, &one, p->bias, at(o->bias), &one, p->y, at(o->y));
    if (!s && c->act == MO_GPU_RELU)
        s = dnn->activate(dnn->handle, p->act, &one, p->y, at(o->y), &zero, p->y, at(o->y));
    return s;
}

/* Whether the fused call has that algorithm: without an activation it has only one. */
static bool may_fuse(const struct mo_gpu_conv *c, unsigned algorithm) {
    return c->act == MO_GPU_RELU || algorithm == MO_DNN_IMPLICIT_PRECOMP;
}

/* The ways that fit and run, of the algorithms fastest first: which of them is the fastest depends on what
 * the fused call makes of them, and only time tells. */
static unsigned find_ways(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *c,
                          const struct mo_dnn_performance *list, int n, const struct mo_dnn_operands *o,
                          size_t y_bytes, size_t space, mo_cu_stream stream, struct mo_dnn_plan *p) {
    unsigned s = MO_DNN_NOT_SUPPORTED;
    for (int i = 0; i < n && p->n < MO_DNN_WAYS; i++)
        for (int fused = 1; fused >= 0 && p->n < MO_DNN_WAYS; fused--) {
            if (list[i].status || list[i].memory > space) continue;
            if (fused && (!may_fuse(c, list[i].algorithm) || (!o->bias && !o->zeros))) continue;
            p->chosen = p->n;
            p->list[p->n] = (struct mo_dnn_way){list[i].algorithm, fused, list[i].memory};
            s = call(dnn, c, p, o, y_bytes, stream);
            p->n += !s;
        }
    p->chosen = 0;
    return p->n ? 0 : s;
}

static size_t y_bytes(const struct mo_gpu_conv *c, enum mo_gpu_precision precision) {
    return (size_t)(c->n * c->oh * c->ow * c->k * mo_gpu_storage_bytes(precision));
}

int mo_cuda_dnn_plan(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *c,
                     enum mo_gpu_precision precision, const struct mo_dnn_operands *o, size_t space,
                     mo_cu_stream stream, struct mo_dnn_plan *out, moire_error *err) {
    struct mo_dnn_performance list[MO_DNN_ALGORITHMS];
    int n = 0;
    memset(out, 0, sizeof *out);
    unsigned s = describe(dnn, c, precision, out);
    if (!s) s = dnn->set_stream(dnn->handle, stream);
    if (!s && dnn->find(dnn->handle, out->x, at(o->x), out->w, at(o->weights), out->conv, out->y, at(o->y),
                        MO_DNN_ALGORITHMS, &n, list, at(o->space), space))
        s = dnn->guess(dnn->handle, out->x, out->w, out->conv, out->y, MO_DNN_ALGORITHMS, &n, list);
    if (!s) s = find_ways(dnn, c, list, n, o, y_bytes(c, precision), space, stream, out);
    if (!s) return MOIRE_OK;
    mo_cuda_dnn_plan_free(dnn, out);
    return refuse(dnn, s, err, "a convolution");
}

int mo_cuda_dnn_plan_as(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *c,
                        enum mo_gpu_precision precision, const struct mo_dnn_operands *o,
                        const struct mo_dnn_way *way, mo_cu_stream stream, struct mo_dnn_plan *out,
                        moire_error *err) {
    memset(out, 0, sizeof *out);
    unsigned s = describe(dnn, c, precision, out);
    out->n = 1;
    out->list[0] = *way;
    if (!s && way->fused && !may_fuse(c, way->algorithm)) s = MO_DNN_NOT_SUPPORTED;
    if (!s) s = dnn->set_stream(dnn->handle, stream);
    if (!s) s = call(dnn, c, out, o, y_bytes(c, precision), stream);
    if (!s) return MOIRE_OK;
    mo_cuda_dnn_plan_free(dnn, out);
    return refuse(dnn, s, err, "a convolution");
}

void mo_cuda_dnn_plan_free(const struct mo_cuda_dnn *dnn, struct mo_dnn_plan *p) {
    if (p->x) dnn->tensor_destroy(p->x);
    if (p->y) dnn->tensor_destroy(p->y);
    if (p->bias) dnn->tensor_destroy(p->bias);
    if (p->w) dnn->filter_destroy(p->w);
    if (p->conv) dnn->conv_destroy(p->conv);
    if (p->act) dnn->act_destroy(p->act);
    memset(p, 0, sizeof *p);
}

int mo_cuda_dnn_run(const struct mo_cuda_dnn *dnn, const struct mo_gpu_conv *c,
                    const struct mo_dnn_plan *plan, const struct mo_dnn_operands *o, size_t y_bytes,
                    mo_cu_stream stream, moire_error *err) {
    unsigned s = dnn->set_stream(dnn->handle, stream);
    if (!s) s = call(dnn, c, plan, o, y_bytes, stream);
    return s ? refuse(dnn, s, err, "a convolution") : MOIRE_OK;
}
