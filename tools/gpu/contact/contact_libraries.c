/* SPDX-License-Identifier: Apache-2.0
 * contact_libraries.c - probes of cuBLASLt and cuDNN: called for a let's stream while the primary context is
 * current, and captured so. */
#include "tools/gpu/contact/contact.h"

#include <string.h>
#include "runtime/gpu/cuda/blas.h"
#include "runtime/gpu/cuda/dnn.h"

enum { SPACE = 32 << 20, RUNS = 20 };

/* Something that is put into a stream, as the plugin does. */
struct work {
    struct contact *c;
    const char *what;
    int (*enqueue)(void *self, mo_cu_stream stream, moire_error *err);
    void *self;
    double flops;
};

static double timed(const struct work *w, struct contact_let *let, mo_cu_graph_exec graph, moire_error *err) {
    const struct mo_cuda_driver *cu = &w->c->cu;
    float best = -1;
    for (int i = 0; i < RUNS; i++) {
        float ms = 0;
        if (cu->event_record(let->begin, let->stream)) return -1;
        if (graph ? (int)cu->graph_launch(graph, let->stream) : w->enqueue(w->self, let->stream, err))
            return -1;
        if (cu->event_record(let->end, let->stream) || contact_wait(w->c, let->stream) ||
            cu->event_elapsed(&ms, let->begin, let->end))
            return -1;
        if (best < 0 || ms < best) best = ms;
    }
    return (double)best;
}

static void captured(const struct work *w, struct contact_let *let) {
    struct contact *c = w->c;
    const struct mo_cuda_driver *cu = &c->cu;
    moire_error err = {0};
    mo_cu_graph graph = NULL;
    mo_cu_graph_exec exec = NULL;
    unsigned r = cu->capture_begin(let->stream, MO_CU_CAPTURE_RELAXED);
    const int rc = r ? 1 : w->enqueue(w->self, let->stream, &err);
    const unsigned ended = cu->capture_end(let->stream, &graph);
    if (!r) r = ended;
    if (!r && !rc) r = cu->graph_instantiate(&exec, graph, 0);
    const double ms = exec ? timed(w, let, exec, &err) : -1;
    contact_row(c, !rc && !r && ms > 0, "captured and replayed", "%s, %u SMs: %s; %.4f ms", w->what, let->sms,
                rc ? err.message : contact_name(c, r), ms);
    if (exec) cu->graph_exec_destroy(exec);
    if (graph) cu->graph_destroy(graph);
}

/* On a let of a few groups, and on the whole GPU. */
static void on_lets(const struct work *w) {
    struct contact *c = w->c;
    const unsigned groups[] = {1, c->n / 2, 0};
    for (int i = 0; i < 3; i++) {
        struct contact_let let;
        moire_error err = {0};
        unsigned r = contact_let_open(c, 0, groups[i], &let);
        const double ms = r ? -1 : timed(w, &let, NULL, &err);
        contact_row(c, ms > 0, "on a let's stream, the primary context current",
                    "%s, %u SMs: %s; %.4f ms, %.1f TFLOP/s", w->what, let.sms,
                    r        ? contact_name(c, r)
                    : ms > 0 ? "ok"
                             : err.message,
                    ms, ms > 0 ? w->flops / ms * 1e-9 : 0);
        if (ms > 0) captured(w, &let);
        contact_let_close(c, &let);
    }
}

/* --- products ------------------------------------------------------------------------------------------- */
struct product {
    struct mo_cuda_blas blas;
    struct mo_gpu_gemm gemm;
    struct mo_blas_plan plan;
    struct mo_blas_operands at;
};

/* By the first of the algorithms that runs: one that does not is no surprise. */
static int product(void *self, mo_cu_stream stream, moire_error *err) {
    struct product *p = self;
    int rc;
    while ((rc = mo_cuda_blas_run(&p->blas, &p->gemm, &p->plan, &p->at, stream, err)) &&
           p->plan.chosen + 1 < p->plan.n)
        p->plan.chosen++;
    return rc;
}

static void one_product(struct contact *c, struct product *p, int64_t m, int64_t n,
                        enum mo_gpu_precision precision, const char *what) {
    const struct mo_gpu_place there = {.space = MO_GPU_ARENA};
    moire_error err = {0};
    p->gemm = (struct mo_gpu_gemm){.count = 1,
                                   .m = m,
                                   .n = n,
                                   .k = n,
                                   .alpha = 1,
                                   .act = MO_GPU_RELU,
                                   .a = {there, n, m * n},
                                   .b = {there, n, n * n},
                                   .d = {there, n, m * n},
                                   .bias = there};
    const int rc =
        mo_cuda_blas_plan(&p->blas, &p->gemm, precision, (int)c->all.sm.count, SPACE, &p->plan, &err);
    if (rc) return contact_row(c, 0, "algorithms", "%s: %s", what, err.message);
    const struct work w = {c, what, product, p, 2.0 * (double)(m * n * n)};
    on_lets(&w);
    mo_cuda_blas_plan_free(&p->blas, &p->plan);
}

void contact_blas(struct contact *c) {
    struct product p = {0};
    moire_error err = {0};
    mo_cu_ptr base = 0;
    if (mo_cuda_blas_open(&p.blas, &c->env, c->folder, &err))
        return contact_row(c, 0, "cuBLASLt", "%s", err.message);
    contact_row(c, -1, "cuBLASLt", "version %zu", p.blas.version);
    const unsigned r = c->cu.memory_alloc(&base, (size_t)SPACE + (64 << 20));
    if (r) return contact_row(c, 0, "memory", "%s", contact_name(c, r));
    p.at = (struct mo_blas_operands){.a = base + SPACE,
                                     .b = base + SPACE + (16 << 20),
                                     .bias = base + SPACE + (32 << 20),
                                     .d = base + SPACE + (48 << 20),
                                     .space = base};
    const int64_t size = c->small ? 64 : 1024;
    one_product(c, &p, size, size, MO_GPU_FP32, "square, fp32");
    one_product(c, &p, size, size, MO_GPU_FP16, "square, fp16");
    if (!c->small) one_product(c, &p, 1, size, MO_GPU_FP16, "one row, fp16");
}

/* --- convolutions --------------------------------------------------------------------------------------- */
struct convolution {
    struct mo_cuda_dnn dnn;
    struct mo_gpu_conv conv;
    struct mo_dnn_plan plan;
    struct mo_dnn_operands at;
    size_t y_bytes;
};

static int convolution(void *self, mo_cu_stream stream, moire_error *err) {
    const struct convolution *v = self;
    return mo_cuda_dnn_run(&v->dnn, &v->conv, &v->plan, &v->at, v->y_bytes, stream, err);
}

static void one_convolution(struct contact *c, struct convolution *v, int64_t channels, int64_t size,
                            enum mo_gpu_precision precision, const char *what) {
    const struct mo_gpu_place there = {.space = MO_GPU_ARENA};
    struct contact_let let;
    moire_error err = {0};
    v->conv = (struct mo_gpu_conv){.n = 1,
                                   .h = size,
                                   .w = size,
                                   .c = channels,
                                   .k = channels,
                                   .r = 3,
                                   .s = 3,
                                   .oh = size,
                                   .ow = size,
                                   .groups = 1,
                                   .pad = {1, 1},
                                   .stride = {1, 1},
                                   .dilation = {1, 1},
                                   .act = MO_GPU_RELU,
                                   .x = there,
                                   .weights = there,
                                   .bias = there,
                                   .residual = there,
                                   .y = there};
    v->y_bytes = (size_t)(channels * size * size * 4);
    const unsigned r = contact_let_open(c, 0, 0, &let);
    const double begin = contact_ms();
    const int rc =
        r ? 1 : mo_cuda_dnn_plan(&v->dnn, &v->conv, precision, &v->at, SPACE, let.stream, &v->plan, &err);
    contact_row(c, !rc, "an algorithm", "%s: %s; algorithm %u, %s, %.1f MiB of scratch, chosen in %.1f ms",
                what,
                r    ? contact_name(c, r)
                : rc ? err.message
                     : "ok",
                v->plan.list[0].algorithm, v->plan.list[0].fused ? "one fused call" : "single calls",
                (double)v->plan.list[0].space / 1048576, contact_ms() - begin);
    contact_let_close(c, &let);
    if (rc) return;
    const struct work w = {c, what, convolution, v, 18.0 * (double)(channels * channels * size * size)};
    on_lets(&w);
    mo_cuda_dnn_plan_free(&v->dnn, &v->plan);
}

void contact_dnn(struct contact *c) {
    struct convolution v = {0};
    moire_error err = {0};
    mo_cu_ptr base = 0;
    if (mo_cuda_dnn_open(&v.dnn, &c->env, &c->cu, c->folder, &err))
        return contact_row(c, 0, "cuDNN", "%s", err.message);
    contact_row(c, -1, "cuDNN", "version %zu", v.dnn.version);
    const unsigned r = c->cu.memory_alloc(&base, (size_t)SPACE + (96 << 20));
    if (r) return contact_row(c, 0, "memory", "%s", contact_name(c, r));
    v.at = (struct mo_dnn_operands){.x = base + SPACE,
                                    .weights = base + SPACE + (16 << 20),
                                    .bias = base + SPACE + (48 << 20),
                                    .residual = base + SPACE + (64 << 20),
                                    .y = base + SPACE + (80 << 20),
                                    .space = base,
                                    .zeros = base + SPACE + (48 << 20)};
    for (int half = 0; half < 2; half++) {
        const enum mo_gpu_precision precision = half ? MO_GPU_FP16 : MO_GPU_FP32;
        one_convolution(c, &v, c->small ? 16 : 64, c->small ? 8 : 56, precision,
                        half ? "wide, fp16" : "wide, fp32");
        one_convolution(c, &v, c->small ? 32 : 256, c->small ? 4 : 14, precision,
                        half ? "deep, fp16" : "deep, fp32");
    }
}
