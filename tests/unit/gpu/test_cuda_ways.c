/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_ways.c - who computes a program's operations: the counts agree with what the stand-ins ran, and
 * what a library should have done and did not is a warning, also where the choice was kept. */
#define _GNU_SOURCE
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/gpu_ops.h"
#include "tests/cuda/exec_rig.h"
#include "tests/cuda/gpu_cases.h"
#include "tests/unit/codegen/onnx_build.h"

enum { WORKSPACE = 1 << 16 /* of the rig */ };

/* A model on a rig whose log is listened to. */
struct bed {
    struct mo_env env;
    struct ob *model;
    struct mo_graph *graph;
    struct mo_gpu_program *program;
    struct exec_rig rig;
    struct mo_gpu_loaded *loaded;
    int warnings;
    char warning[600];
};

static void note(void *user, int level, const char *line) {
    struct bed *b = user;
    if (level > MOIRE_LOG_WARN || !strstr(line, "for want of a library")) return;
    b->warnings++;
    snprintf(b->warning, sizeof b->warning, "%s", line);
}

static void prepare(struct bed *b, uint32_t place, int sms) {
    moire_error err = {0};
    b->rig.target.place = place;
    b->rig.target.sms = sms;
    if (mo_cuda_exec_prepare(b->loaded, -1, &b->rig.target, 0, b->loaded->program.n_segments, &err))
        fail_msg("%s", err.message);
}

static void begin(struct bed *b, const char *model, const struct exec_rig_options *options) {
    struct exec_rig_options own = *options;
    moire_error err = {0};
    memset(b, 0, sizeof *b);
    b->env = mo_env_default();
    b->env.log = note;
    b->env.log_user = b;
    for (const struct gpu_case *c = gpu_cases; c->name && !b->model; c++)
        if (!strcmp(c->name, model)) b->model = c->build();
    assert_non_null(b->model);
    b->graph = gpu_case_parse(b->model, NULL);
    b->program = exec_rig_lower(b->graph, MO_GPU_FP32, 1);
    own.env = &b->env;
    exec_rig_open(&b->rig, &own);
    if (mo_cuda_exec_load(b->rig.exec, b->program, 1, &b->loaded, &err)) fail_msg("%s", err.message);
}

static void end(struct bed *b) {
    mo_cuda_exec_unload(b->loaded);
    exec_rig_close(&b->rig);
    mo_gpu_program_destroy(b->program);
    mo_graph_destroy(b->graph);
    ob_destroy(b->model);
}

static int kind_count(const struct mo_gpu_program *p, enum mo_gpu_op_kind kind) {
    int n = 0;
    for (int i = 0; i < p->n_ops; i++)
        n += p->ops[i].kind == kind;
    return n;
}

static int ran(const struct bed *b, int from, const char *what) {
    const struct mo_fake_record *records;
    int n = b->rig.fake->records(&records), found = 0;
    for (int i = from; i < n; i++)
        found += strstr(records[i].what, what) != NULL;
    return found;
}

static void what_libraries_do_is_counted(void **state) {
    (void)state;
    struct bed b;
    struct mo_gpu_ways w[3];
    const struct mo_fake_record *records;
    moire_error err = {0};
    begin(&b, "resnet_like", &(struct exec_rig_options){0});
    assert_int_equal(mo_cuda_exec_ways(b.loaded, w, 3), 0); /* nothing is prepared */
    prepare(&b, 1, 132);
    prepare(&b, 2, 64);
    prepare(&b, 2, 64); /* known: no row more */
    assert_int_equal(mo_cuda_exec_ways(b.loaded, w, 1), 1);
    assert_int_equal(mo_cuda_exec_ways(b.loaded, w, 3), 2);
    assert_int_equal(w[0].sms + w[1].sms, 132 + 64);
    for (int i = 0; i < 2; i++)
        for (int kind = MO_GPU_CONV; kind <= MO_GPU_KERNEL; kind++) {
            int all = 0;
            for (int way = 0; way < MO_GPU_WAYS; way++)
                all += w[i].count[kind][way];
            assert_int_equal(all, kind_count(b.program, (enum mo_gpu_op_kind)kind));
            assert_int_equal(w[i].fallen[kind], 0);
        }
    assert_int_equal(w[0].count[MO_GPU_KERNEL][MO_GPU_BY_DNN] + w[0].count[MO_GPU_CONV][MO_GPU_BY_BLAS], 0);
    assert_int_equal(b.warnings, 0);
    /* a run does just that */
    const int before = b.rig.fake->records(&records);
    const struct mo_gpu_ways *now = &w[w[1].sms == 64];
    if (exec_rig_queue(&b.rig, b.loaded, 0, 0, b.program->n_segments, &err)) fail_msg("%s", err.message);
    exec_rig_settle(&b.rig);
    assert_true(now->count[MO_GPU_GEMM][MO_GPU_BY_BLAS] > 0);
    assert_int_equal(ran(&b, before, "cublaslt_matmul"), now->count[MO_GPU_GEMM][MO_GPU_BY_BLAS]);
    assert_int_equal(ran(&b, before, "cudnn_fused"), now->fused);
    end(&b);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void check_fallen(struct bed *b) {
    struct mo_gpu_ways w;
    assert_int_equal(mo_cuda_exec_ways(b->loaded, &w, 1), 1);
    assert_int_equal(w.fallen[MO_GPU_CONV], kind_count(b->program, MO_GPU_CONV));
    assert_int_equal(w.fallen[MO_GPU_GEMM], kind_count(b->program, MO_GPU_GEMM));
    assert_int_equal(w.fallen[MO_GPU_CONV], w.count[MO_GPU_CONV][MO_GPU_BY_KERNEL]);
    assert_int_equal(w.fallen[MO_GPU_KERNEL], 0);
    assert_int_equal(b->warnings, 1);
    if (!strstr(b->warning, "no cuDNN") || !strstr(b->warning, "node '")) fail_msg("%s", b->warning);
}

/* Said once for a size of let; and in the next life too, which finds the choice in the folder. */
static void what_falls_back_is_a_warning(void **state) {
    (void)state;
    char folder[] = "/tmp/moire-ways-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int life = 0; life < 2; life++) {
        struct bed b;
        begin(&b, "resnet_like", &(struct exec_rig_options){.cache = folder, .no_libraries = true});
        prepare(&b, 1, 132);
        prepare(&b, 1, 132);
        check_fallen(&b);
        prepare(&b, 2, 64);
        assert_int_equal(b.warnings, 2);
        end(&b);
    }
    assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void a_layer_on_a_core_is_counted(void **state) {
    (void)state;
    struct bed b;
    struct mo_gpu_ways w;
    begin(&b, "labelled", &(struct exec_rig_options){0});
    prepare(&b, 1, 132);
    assert_int_equal(mo_cuda_exec_ways(b.loaded, &w, 1), 1);
    assert_int_equal(w.count[MO_GPU_CORE][MO_GPU_BY_CORE], 1);
    assert_int_equal(w.fallen[MO_GPU_CORE], 0);
    end(&b);
}

/* Products of one row, which the stand-in's cuBLASLt refuses. */
static int rows(const struct mo_gpu_program *p) {
    int n = 0;
    for (int i = 0; i < p->n_ops; i++)
        n += p->ops[i].kind == MO_GPU_GEMM && p->ops[i].gemm.m == 1;
    return n;
}

static void a_library_that_refuses_is_a_warning(void **state) {
    (void)state;
    int found = 0;
    for (const struct gpu_case *c = gpu_cases; c->name && !found; c++) {
        struct bed b;
        struct mo_gpu_ways w;
        begin(&b, c->name, &(struct exec_rig_options){0});
        found = rows(b.program);
        if (found) {
            prepare(&b, 1, 132);
            assert_int_equal(mo_cuda_exec_ways(b.loaded, &w, 1), 1);
            assert_int_equal(w.fallen[MO_GPU_GEMM], found);
            assert_int_equal(b.warnings, 1);
        }
        end(&b);
    }
    assert_true(found > 0);
}

/* No time decides: what cuDNN takes it has. */
static void libraries_come_first_where_that_is_asked(void **state) {
    (void)state;
    struct bed b;
    struct mo_gpu_ways w;
    begin(&b, "resnet_like", &(struct exec_rig_options){.libraries_first = true});
    prepare(&b, 1, 132);
    assert_int_equal(mo_cuda_exec_ways(b.loaded, &w, 1), 1);
    assert_true(w.count[MO_GPU_CONV][MO_GPU_BY_DNN] >= 5);
    assert_int_equal(w.count[MO_GPU_CONV][MO_GPU_BY_KERNEL], 0);
    end(&b);
}

/* A program without products and convolutions takes no scratch memory; one with them does. */
static void scratch_memory_is_for_libraries(void **state) {
    (void)state;
    int without = 0, with = 0;
    for (const struct gpu_case *c = gpu_cases; c->name && !(without && with); c++) {
        struct bed b;
        begin(&b, c->name, &(struct exec_rig_options){0});
        const int64_t rest = b.loaded->bytes - b.program->weight_bytes - b.program->arena_bytes;
        const bool uses = kind_count(b.program, MO_GPU_CONV) + kind_count(b.program, MO_GPU_GEMM) > 0;
        if (uses ? rest < WORKSPACE : rest >= WORKSPACE) fail_msg("%s: %lld", c->name, (long long)rest);
        *(uses ? &with : &without) += 1;
        end(&b);
    }
    assert_true(with && without);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_libraries_do_is_counted),
                                       cmocka_unit_test(what_falls_back_is_a_warning),
                                       cmocka_unit_test(a_layer_on_a_core_is_counted),
                                       cmocka_unit_test(a_library_that_refuses_is_a_warning),
                                       cmocka_unit_test(libraries_come_first_where_that_is_asked),
                                       cmocka_unit_test(scratch_memory_is_for_libraries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
