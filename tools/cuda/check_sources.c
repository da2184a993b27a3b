/* SPDX-License-Identifier: Apache-2.0
 * check_sources.c - lowers models of the zoo for a GPU and compiles all generated kernels with the real
 * NVRTC.
 *
 *   check_sources FOLDER-OF-NVRTC FOLDER-OF-MODELS BATCH MODEL ...
 *
 * MODEL is one of the zoo, or "case:NAME" for one of the tests' (tests/cuda/gpu_cases.h).  One line a model
 * and precision: launches by kind (at batch 1 a GPU mostly waits for these), kernels, memory, seconds of the
 * compiler.  It needs no GPU; without NVRTC it lowers and counts only.  Part of `make cuda`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/frontend.h"
#include "models/zoo.h"
#include "runtime/gpu/cuda/rtc.h"
#include "runtime/gpu/program.h"
#include "tests/cuda/gpu_cases.h"

/* rtc may be NULL: then nothing is compiled. */
static int check_one(const struct mo_env *env, const struct mo_cuda_rtc *rtc, const char *name,
                     const struct mo_graph *g, enum mo_gpu_precision precision, moire_error *err) {
    const struct mo_gpu_options options = {.precision = precision, .max_segments = 8};
    struct mo_gpu_program *p;
    void *image = NULL;
    size_t bytes = 0;
    int kinds[MO_GPU_KINDS] = {0}, rc = mo_gpu_lower(g, &options, &p, err);
    if (rc) return rc;
    for (int i = 0; i < p->n_ops; i++)
        kinds[p->ops[i].kind]++;
    int64_t start = mo_now(env);
    if (rtc) rc = mo_cuda_rtc_compile(rtc, p->source, 9, 0, &image, &bytes, err);
    if (!rc)
        printf(
            "%-18s %s batch %lld: %d launches: %d convolutions, %d products, %d kernels (%d kinds, %zu kB), "
            "arena %.1f MB, weights %.1f MB, compiled in %.1f s\n",
            name, mo_gpu_precision_name(precision), (long long)p->batch, p->n_ops, kinds[MO_GPU_CONV],
            kinds[MO_GPU_GEMM], kinds[MO_GPU_KERNEL], p->n_kernels, bytes / 1000,
            (double)p->arena_bytes * 1e-6, (double)p->weight_bytes * 1e-6,
            (double)(mo_now(env) - start) * 1e-9);
    fflush(stdout);
    mo_free(env, image);
    mo_gpu_program_destroy(p);
    return rc;
}

/* The shapes that the zoo's table gives, with another batch. */
static int shapes_of(const struct mo_zoo_model *model, int64_t batch, moire_shape out[3]) {
    int n = 0;
    for (; n < 3 && model->inputs[n].name; n++) {
        out[n] = (moire_shape){.input = model->inputs[n].name, .rank = model->inputs[n].rank};
        for (int i = 0; i < out[n].rank; i++)
            out[n].shape[i] = i ? model->inputs[n].shape[i] : batch;
    }
    return n;
}

static int check_all(const struct mo_env *env, const struct mo_cuda_rtc *rtc, const char *name,
                     const struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = MO_GPU_FP32; i <= MO_GPU_BF16 && !rc; i++)
        if (i != MO_GPU_TF32) rc = check_one(env, rtc, name, g, (enum mo_gpu_precision)i, err);
    return rc;
}

static int check_case(const struct mo_env *env, const struct mo_cuda_rtc *rtc, const char *name,
                      moire_error *err) {
    const struct gpu_case *c = gpu_cases;
    while (c->name && strcmp(c->name, name))
        c++;
    if (!c->name) return mo_fail(err, MOIRE_EINVAL, "no case '%.80s'", name);
    struct ob *b = c->build();
    struct mo_graph *g = gpu_case_parse(b, &(struct mo_frontend_options){.no_layout = true});
    const int rc = check_all(env, rtc, name, g, err);
    mo_graph_destroy(g);
    ob_destroy(b);
    return rc;
}

static int check_model(const struct mo_env *env, const struct mo_cuda_rtc *rtc, const char *name,
                       const char *folder, int64_t batch, moire_error *err) {
    static const char of_tests[] = "case:";
    char path[512];
    moire_shape shapes[3];
    struct mo_graph *g;
    if (!strncmp(name, of_tests, sizeof of_tests - 1))
        return check_case(env, rtc, name + sizeof of_tests - 1, err);
    const struct mo_zoo_model *model = mo_zoo_find(name);
    int rc = mo_zoo_path(env, name, folder, path, sizeof path, err);
    if (rc) return rc;
    const struct mo_frontend_options options = {
        .no_layout = true, .shapes = shapes, .n_shapes = shapes_of(model, batch, shapes)};
    rc = mo_frontend_load(env, path, &options, &g, err);
    if (rc) return rc;
    rc = check_all(env, rtc, name, g, err);
    mo_graph_destroy(g);
    return rc;
}

int main(int argc, char **argv) {
    const struct mo_env env = mo_env_default();
    struct mo_cuda_rtc rtc;
    moire_error err = {0};
    if (argc < 5) {
        fprintf(stderr, "usage: check_sources FOLDER-OF-NVRTC FOLDER-OF-MODELS BATCH MODEL ...\n");
        return 2;
    }
    const bool compiles = !mo_cuda_rtc_open(&rtc, &env, argv[1], &err);
    if (!compiles)
        printf("no NVRTC in %s, so no generated kernel is compiled by it: %s\n", argv[1], err.message);
    int rc = MOIRE_OK;
    for (int i = 4; i < argc && !rc; i++)
        rc = check_model(&env, compiles ? &rtc : NULL, argv[i], argv[2], strtoll(argv[3], NULL, 10), &err);
    if (rc) fprintf(stderr, "%s\n", err.message);
    if (compiles) mo_cuda_rtc_close(&rtc);
    return rc ? 1 : 0;
}
