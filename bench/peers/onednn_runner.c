/* SPDX-License-Identifier: Apache-2.0
 * onednn_runner.c - single layers on oneDNN for `moire bench kernels`; the protocol is in README.md.
 *
 * As oneDNN's own benchmark does: every layout is left to the library ("any"), weights are in its layout
 * before the clock runs, bias, activation and residual are fused as post-operations.  A residual is a sum
 * into the output, which reads and writes the same bytes as moire's. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "bench/data/layer_spec.h"
#include "bench/load/drive.h"

enum { MAX_ARGS = 4, MAX_SOLO = 4000, SHORT_NS = 100000 };

struct peer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t layer; /* NULL: none yet */
    dnnl_exec_arg_t args[MAX_ARGS];
    int n_args;
    const char *trouble; /* the first failure of the layer being made */
};

static bool ok(struct peer *p, dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return true;
    if (!p->trouble) p->trouble = status == dnnl_unimplemented ? "oneDNN has no such layer" : what;
    return false;
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- a layer -------------------------------------------------------------------------------------------- */
static void drop_layer(struct peer *p) {
    for (int i = 0; i < p->n_args; i++)
        dnnl_memory_destroy(p->args[i].memory);
    if (p->layer) dnnl_primitive_destroy(p->layer);
    p->n_args = 0;
    p->layer = NULL;
    p->trouble = NULL;
}

static bool append_act(struct peer *p, dnnl_post_ops_t ops, const struct mo_layer_spec *s) {
    static const struct {
        enum mo_act act;
        dnnl_alg_kind_t kind;
        bool own; /* parameters are the layer's, else these: */
        float alpha, beta;
    } rows[] = {{MO_ACT_RELU, dnnl_eltwise_relu, false, 0, 0},
                {MO_ACT_CLIP, dnnl_eltwise_clip, true, 0, 0},
                {MO_ACT_LEAKY, dnnl_eltwise_relu, true, 0, 0},
                {MO_ACT_SIGMOID, dnnl_eltwise_logistic, false, 0, 0},
                {MO_ACT_SILU, dnnl_eltwise_swish, false, 1, 0},
                {MO_ACT_HSIGMOID, dnnl_eltwise_hardsigmoid, true, 0, 0},
                {MO_ACT_HSWISH, dnnl_eltwise_hardswish, true, 0, 0},
                {MO_ACT_TANH, dnnl_eltwise_tanh, false, 0, 0},
                {MO_ACT_GELU, dnnl_eltwise_gelu_erf, false, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].act == (enum mo_act)s->act)
            return ok(p,
                      dnnl_post_ops_append_eltwise(ops, rows[i].kind,
                                                   rows[i].own ? (float)s->a : rows[i].alpha,
                                                   rows[i].own ? (float)s->b : rows[i].beta),
                      "the activation is refused");
    return s->act == MO_ACT_NONE;
}

static bool make_attributes(struct peer *p, const struct mo_layer_spec *s, dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t ops = NULL;
    bool good = ok(p, dnnl_primitive_attr_create(out), "attributes") &&
                ok(p, dnnl_post_ops_create(&ops), "post-operations");
    for (int last = 0; good && last < 2; last++) { /* act(x + residual), or act(x) + residual */
        if (s->residual && s->residual_last == last)
            good = ok(p, dnnl_post_ops_append_sum(ops, 1, 0, dnnl_f32), "the residual is refused");
        if (good && last == 0) good = append_act(p, ops, s);
    }
    good = good && ok(p, dnnl_primitive_attr_set_post_ops(*out, ops), "post-operations");
    if (ops) dnnl_post_ops_destroy(ops);
    return good;
}

static bool describe(struct peer *p, int n, const int64_t *dims, bool given, dnnl_memory_desc_t *out) {
    dnnl_dims_t d = {0};
    memcpy(d, dims, (size_t)n * sizeof *dims);
    *out = NULL;
    return !given ||
           ok(p, dnnl_memory_desc_create_with_tag(out, n, d, dnnl_f32, dnnl_format_tag_any), "shape");
}

/* Descriptors in the order source, weights, bias, destination. */
static bool describe_all(struct peer *p, const struct mo_layer_spec *s, dnnl_memory_desc_t md[4]) {
    if (s->product)
        return describe(p, 2, (int64_t[]){s->w, s->c}, true, &md[0]) &&
               describe(p, 2, (int64_t[]){s->c, s->o}, true, &md[1]) &&
               describe(p, 2, (int64_t[]){1, s->o}, s->bias, &md[2]) &&
               describe(p, 2, (int64_t[]){s->w, s->o}, true, &md[3]);
    const int64_t g = s->groups;
    const int64_t grouped[] = {g, s->o / g, s->c / g, s->kh, s->kw};
    return describe(p, 4, (int64_t[]){s->n, s->c, s->h, s->w}, true, &md[0]) &&
           describe(p, g > 1 ? 5 : 4, g > 1 ? grouped : (int64_t[]){s->o, s->c, s->kh, s->kw}, true,
                    &md[1]) &&
           describe(p, 1, (int64_t[]){s->o}, s->bias, &md[2]) &&
           describe(p, 4, (int64_t[]){s->n, s->o, s->oh, s->ow}, true, &md[3]);
}

static bool choose(struct peer *p, const struct mo_layer_spec *s, dnnl_memory_desc_t md[4],
                   dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out) {
    const dnnl_dims_t stride = {s->sh, s->sw}, dilate = {s->dh - 1, s->dw - 1};
    const dnnl_dims_t before = {s->pt, s->pl}, after = {s->pb, s->pr};
    dnnl_status_t status =
        s->product
            ? dnnl_matmul_primitive_desc_create(out, p->engine, md[0], md[1], md[2], md[3], attr)
            : dnnl_convolution_forward_primitive_desc_create(out, p->engine, dnnl_forward_inference,
                                                             dnnl_convolution_auto, md[0], md[1], md[2],
                                                             md[3], stride, dilate, before, after, attr);
    return ok(p, status, "the layer is refused");
}

/* Memory in the layout the library chose, filled with small numbers that are not denormal. */
static bool add_memory(struct peer *p, dnnl_primitive_desc_t pd, dnnl_query_t query, int arg) {
    const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(pd, query, 0);
    dnnl_memory_t memory = NULL;
    void *data = NULL;
    if (!md || !dnnl_memory_desc_get_size(md)) return true; /* no bias */
    if (!ok(p, dnnl_memory_create(&memory, md, p->engine, DNNL_MEMORY_ALLOCATE), "out of memory"))
        return false;
    p->args[p->n_args++] = (dnnl_exec_arg_t){arg, memory};
    if (!ok(p, dnnl_memory_map_data(memory, &data), "memory cannot be written")) return false;
    for (size_t i = 0; i < dnnl_memory_desc_get_size(md) / sizeof(float); i++)
        ((float *)data)[i] = (float)(i % 17) * 0.01f - 0.08f;
    return ok(p, dnnl_memory_unmap_data(memory, data), "memory cannot be written");
}

static bool make_layer(struct peer *p, const struct mo_layer_spec *s, char *name, size_t n) {
    dnnl_memory_desc_t md[4] = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    const char *implementation = "";
    drop_layer(p);
    bool good = describe_all(p, s, md) && make_attributes(p, s, &attr) && choose(p, s, md, attr, &pd) &&
                ok(p, dnnl_primitive_create(&p->layer, pd), "the kernel cannot be made") &&
                add_memory(p, pd, dnnl_query_src_md, DNNL_ARG_SRC) &&
                add_memory(p, pd, dnnl_query_weights_md, DNNL_ARG_WEIGHTS) &&
                add_memory(p, pd, dnnl_query_dst_md, DNNL_ARG_DST);
    if (good && s->bias) {
        const_dnnl_memory_desc_t bias = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1);
        dnnl_memory_t memory = NULL;
        good = ok(p, dnnl_memory_create(&memory, bias, p->engine, DNNL_MEMORY_ALLOCATE), "out of memory");
        if (good) p->args[p->n_args++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, memory};
    }
    if (good) dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&implementation);
    snprintf(name, n, "%s", implementation);
    for (int i = 0; i < 4; i++)
        if (md[i]) dnnl_memory_desc_destroy(md[i]);
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (pd) dnnl_primitive_desc_destroy(pd);
    return good;
}

/* --- commands ------------------------------------------------------------------------------------------- */
static bool run(struct peer *p, int64_t times) {
    for (int64_t i = 0; i < times; i++)
        if (!ok(p, dnnl_primitive_execute(p->layer, p->stream, p->n_args, p->args), "execution failed"))
            return false;
    return ok(p, dnnl_stream_wait(p->stream), "execution failed");
}

static void do_layer(struct peer *p, const char *text) {
    struct mo_layer_spec spec;
    char name[128];
    if (!mo_layer_spec_parse(text, &spec)) {
        printf("error %d not a layer\n", MOIRE_EINVAL);
    } else if (!make_layer(p, &spec, name, sizeof name)) {
        printf("error %d %s\n", MOIRE_EUNSUPPORTED, p->trouble ? p->trouble : "no such activation");
        drop_layer(p);
    } else {
        printf("layer %s\n", name);
    }
}

/* Short layers are timed in batches, so that the clock is not what is measured. */
static void do_solo(struct peer *p, const char *arguments) {
    char *end;
    long tenant = strtol(arguments, &end, 10), ms = strtol(end, NULL, 10);
    static int64_t took[MAX_SOLO];
    int64_t batch = 1, begin = now(), after = begin;
    int n = 0;
    bool good = p->layer && tenant == 0 && ms >= 0 && run(p, 1);
    while (good && n < MAX_SOLO && (n == 0 || after - begin <= ms * 1000000)) {
        int64_t start = now();
        good = run(p, batch);
        after = now();
        took[n++] = (after - start) / batch;
        if (after - start < SHORT_NS && batch < 1 << 20) batch *= 2, n = 0;
    }
    if (!good) {
        printf("error %d %s\n", MOIRE_EFAILED, p->trouble ? p->trouble : "usage: layer ..., then solo 0 MS");
        return;
    }
    printf("solo %d", n);
    for (int i = 0; i < n; i++)
        printf(" %" PRId64, took[i]);
    printf("\n");
}

static void serve(struct peer *p) {
    char line[1024];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "quit")) return;
        if (!strncmp(line, "layer ", 6))
            do_layer(p, line + 6);
        else if (!strncmp(line, "solo ", 5))
            do_solo(p, line + 5);
        else
            printf("error %d no command '%.40s'\n", MOIRE_EINVAL, line);
        fflush(stdout);
    }
}

/* The number of threads is read once, when the library's run time starts: the program starts itself again
 * with it. */
static int with_threads(char **argv, int64_t threads) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, threads);
    const char *have = getenv("OMP_NUM_THREADS");
    if (have && !strcmp(have, text) && getenv("OMP_PROC_BIND")) return 0;
    setenv("OMP_NUM_THREADS", text, 1);
    setenv("OMP_PROC_BIND", "true", 1);
    execv("/proc/self/exe", argv);
    return -1;
}

int main(int argc, char **argv) {
    const struct mo_env env = mo_env_default();
    struct mo_bench_job job = {0};
    struct peer peer = {0};
    moire_error err = {0};
    if (argc != 2) return 2;
    int code = mo_bench_job_load(&env, argv[1], &job, &err);
    if (!code && with_threads(argv, job.threads)) code = mo_fail(&err, MOIRE_EIO, "cannot start again");
    if (!code && (dnnl_engine_create(&peer.engine, dnnl_cpu, 0) != dnnl_success ||
                  dnnl_stream_create(&peer.stream, peer.engine, dnnl_stream_default_flags) != dnnl_success))
        code = mo_fail(&err, MOIRE_EFAILED, "oneDNN does not start");
    if (code)
        printf("error %d %s\n", code, err.message);
    else
        printf("ready\n");
    fflush(stdout);
    if (!code) serve(&peer);
    drop_layer(&peer);
    if (peer.stream) dnnl_stream_destroy(peer.stream);
    if (peer.engine) dnnl_engine_destroy(peer.engine);
    mo_bench_job_close(&job);
    return code ? 4 : 0;
}
