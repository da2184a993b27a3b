/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_exec.c - programs executed through cuDNN, cuBLASLt, NVRTC and CUDA graphs, all of them fakes that
 * compute, against the reference of the model as imported; sharing of weights, and what happens when a
 * library or memory is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/exec_rig.h"
#include "tests/cuda/gpu_cases.h"
#include "tools/moire/verify/ways.h"

enum { PORTS = GPU_CASE_PORTS };

static void run(struct exec_rig *r, const struct mo_graph *g, enum mo_gpu_precision precision,
                const moire_tensor *in, const moire_tensor *want, double rtol) {
    struct mo_gpu_program *p = exec_rig_lower(g, precision, 1);
    struct mo_gpu_loaded *loaded;
    moire_tensor got[PORTS] = {{0}};
    moire_error err = {0};
    if (mo_cuda_exec_load(r->exec, p, 2, &loaded, &err)) fail_msg("%s", err.message);
    mo_gpu_program_destroy(p);
    for (int instance = 0; instance < 2; instance++) { /* prepared segment by segment, then as a whole */
        exec_rig_run(r, loaded, instance, in, got);
        gpu_case_compare(&loaded->program, want, got, rtol);
        for (int i = 0; i < PORTS; i++)
            free(got[i].data);
        memset(got, 0, sizeof got);
        if (mo_cuda_exec_prepare(loaded, -1, &r->target, 0, loaded->program.n_segments, &err))
            fail_msg("%s", err.message);
    }
    mo_cuda_exec_unload(loaded);
}

static void check(struct ob *b, bool libraries) {
    moire_tensor in[PORTS] = {{0}}, want[PORTS] = {{0}};
    moire_error err = {0};
    struct exec_rig r;
    struct mo_graph *plain = gpu_case_parse(b, &(struct mo_frontend_options){.no_passes = true});
    gpu_case_inputs(plain, in);
    if (mo_way_run_reference(plain, in, plain->n_inputs, want, &err)) fail_msg("%s", err.message);
    struct mo_graph *g = gpu_case_parse(b, &(struct mo_frontend_options){.no_layout = true});
    exec_rig_open(&r, &(struct exec_rig_options){.no_libraries = !libraries});
    run(&r, g, MO_GPU_FP32, in, want, 1e-4);
    if (libraries) {
        run(&r, g, MO_GPU_FP16, in, want, 2e-2);
        run(&r, g, MO_GPU_BF16, in, want, 8e-2);
    }
    exec_rig_close(&r);
    mo_graph_destroy(g);
    mo_way_free(&b->env, want, plain->n_outputs);
    mo_graph_destroy(plain);
    ob_destroy(b);
}

static void every_case_by_libraries(void **state) {
    (void)state;
    for (const struct gpu_case *c = gpu_cases; c->name; c++) {
        print_message("%s\n", c->name);
        check(c->build(), true);
    }
}

static struct ob *build(const char *name) {
    for (const struct gpu_case *c = gpu_cases; c->name; c++)
        if (!strcmp(c->name, name)) return c->build();
    return NULL;
}

static void without_libraries(void **state) {
    (void)state;
    check(build("resnet_like"), false);
}

static int ran(const struct exec_rig *r, const char *what) {
    const struct mo_fake_record *records;
    int n = r->fake->records(&records), found = 0;
    for (int i = 0; i < n; i++)
        found += strstr(records[i].what, what) != NULL;
    return found;
}

/* Which library did what, by the records of the driver. */
static void libraries_do_the_work(void **state) {
    (void)state;
    struct ob *b = build("resnet_like");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    moire_tensor in[PORTS] = {{0}};
    struct exec_rig r;
    exec_rig_open(&r, &(struct exec_rig_options){0});
    assert_non_null(strstr(r.exec->libraries, "cuDNN 9.13"));
    assert_non_null(strstr(r.exec->libraries, "cuBLASLt 13.0"));
    gpu_case_inputs(g, in);
    moire_tensor want[PORTS] = {{0}};
    moire_error err = {0};
    if (mo_way_run_reference(g, in, 1, want, &err)) fail_msg("%s", err.message);
    run(&r, g, MO_GPU_FP32, in, want, 1e-4);
    assert_true(ran(&r, "cudnn_fused") >= 5);
    assert_true(ran(&r, "cublaslt_matmul") >= 1);
    assert_true(ran(&r, "cudnn_forward") >= 1); /* both ways are timed */
    run(&r, g, MO_GPU_BF16, in, want, 8e-2);    /* has no fused call */
    assert_true(ran(&r, "cudnn_forward") >= 5);
    exec_rig_close(&r);
    mo_way_free(&b->env, want, g->n_outputs);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static size_t bytes_in_use(const struct exec_rig *r) {
    struct mo_fake_counts counts;
    r->fake->counts(&counts);
    return counts.bytes;
}

static void batches_of_a_model_share_weights(void **state) {
    (void)state;
    struct ob *b = build("branches");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_program *p = exec_rig_lower(g, MO_GPU_FP32, 5), *other = exec_rig_lower(g, MO_GPU_FP32, 6);
    struct mo_gpu_loaded *first, *second, *stranger;
    moire_error err = {0};
    struct exec_rig r;
    exec_rig_open(&r, &(struct exec_rig_options){0});
    assert_int_equal(mo_cuda_exec_load(r.exec, p, 1, &first, &err), 0);
    assert_int_equal(mo_cuda_exec_load(r.exec, p, 1, &second, &err), 0);
    assert_int_equal(mo_cuda_exec_load(r.exec, other, 1, &stranger, &err), 0);
    assert_int_equal(first->bytes - second->bytes, p->weight_bytes);
    assert_int_equal(first->bytes, stranger->bytes);
    mo_cuda_exec_unload(first); /* the weights stay for the second */
    const size_t before = bytes_in_use(&r);
    mo_cuda_exec_unload(second);
    assert_true(before - bytes_in_use(&r) >= (size_t)p->weight_bytes);
    exec_rig_close(&r);
    mo_gpu_program_destroy(p);
    mo_gpu_program_destroy(other);
    mo_graph_destroy(g);
    ob_destroy(b);
}

/* Every call that can fail, fails once: an error with a message, and nothing left behind. */
static void failures_leave_nothing(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int times; /* 0: from now on */
    } calls[] = {{"cuMemAlloc_v2", 1},
                 {"cuMemHostAlloc", 1},
                 {"cuLibraryLoadData", 1},
                 {"cuLibraryGetKernel", 1},
                 {"cuMemcpyHtoDAsync_v2", 1},
                 {"cuStreamQuery", 1},
                 {"cuGraphInstantiateWithFlags", 1},
                 {"cuStreamBeginCapture_v2", 1},
                 {"cuGraphUpload", 1},
                 {"cuGraphLaunch", 1},
                 {"cuLaunchKernel", 0}};
    struct ob *b = build("branches");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_program *p = exec_rig_lower(g, MO_GPU_FP32, 5);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct mo_gpu_loaded *loaded = NULL;
        moire_error err = {0};
        struct exec_rig r;
        exec_rig_open(&r, &(struct exec_rig_options){0});
        r.fake->fail_call(calls[i].name, 0, calls[i].times, 2 /* CUDA_ERROR_OUT_OF_MEMORY */);
        int rc = mo_cuda_exec_load(r.exec, p, 1, &loaded, &err);
        if (!rc) rc = exec_rig_queue(&r, loaded, 0, 0, p->n_segments, &err);
        if (rc != MOIRE_ENOMEM || !*err.message) fail_msg("%s: %d %s", calls[i].name, rc, err.message);
        exec_rig_settle(&r);
        mo_cuda_exec_unload(loaded);
        exec_rig_close(&r);
    }
    mo_gpu_program_destroy(p);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void a_place_that_is_forgotten_is_captured_again(void **state) {
    (void)state;
    struct ob *b = build("branches");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_program *p = exec_rig_lower(g, MO_GPU_FP32, 5);
    struct mo_gpu_loaded *loaded;
    struct mo_fake_counts counts;
    moire_error err = {0};
    struct exec_rig r;
    exec_rig_open(&r, &(struct exec_rig_options){0});
    assert_int_equal(mo_cuda_exec_load(r.exec, p, 2, &loaded, &err), 0);
    assert_int_equal(mo_cuda_exec_prepare(loaded, -1, &r.target, 0, loaded->program.n_segments, &err), 0);
    r.fake->counts(&counts);
    assert_true(p->n_segments > 1);
    assert_int_equal(counts.graph_execs, 2); /* of the whole program, for both instances */
    assert_false(mo_cuda_exec_ready(loaded, 0, r.target.place, 0, 1));
    assert_true(mo_cuda_exec_ready(loaded, 1, r.target.place, 0, p->n_segments));
    mo_cuda_exec_forget(r.exec, 99);
    mo_cuda_exec_forget(r.exec, r.target.place);
    r.fake->counts(&counts);
    assert_int_equal(counts.graph_execs, 0);
    assert_int_equal(exec_rig_queue(&r, loaded, 1, 0, 1, &err), 0);
    r.fake->counts(&counts);
    assert_int_equal(counts.graph_execs, 1); /* a run that is cut needs the graphs of its segments */
    assert_int_equal(exec_rig_queue(&r, loaded, 1, 1, p->n_segments, &err), 0);
    r.fake->counts(&counts);
    assert_int_equal(counts.graph_execs, p->n_segments);
    exec_rig_settle(&r);
    exec_rig_close(&r);
    mo_gpu_program_destroy(p);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void nothing(void *args) {
    (void)args;
}

/* The stand-in loads functions as late as the driver does: not in a capture. */
static void what_never_ran_is_not_captured(void **state) {
    (void)state;
    unsigned (*launch)(void *, const char *, void (*)(void *), const void *, size_t, double);
    mo_cu_graph graph;
    struct exec_rig r;
    exec_rig_open(&r, &(struct exec_rig_options){0});
    void *symbol = dlsym(r.object.handle, "mo_fake_launch");
    memcpy(&launch, &symbol, sizeof launch);
    for (int ran = 0; ran < 2; ran++) {
        assert_int_equal(r.cu.capture_begin(r.target.stream, MO_CU_CAPTURE_RELAXED), 0);
        assert_int_equal(launch(r.target.stream, "cu_new", nothing, "", 1, 0), ran ? 0 : 900);
        assert_int_equal(r.cu.capture_end(r.target.stream, &graph), 0);
        assert_int_equal(r.cu.graph_destroy(graph), 0);
        assert_int_equal(launch(r.target.stream, "cu_new", nothing, "", 1, 0), 0);
    }
    exec_rig_settle(&r);
    exec_rig_close(&r);
}

/* Whatever was chosen, by whom: every operation has run before the first capture. */
static void programs_run_once_before_they_are_captured(void **state) {
    (void)state;
    struct ob *b = build("resnet_like");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_program *p = exec_rig_lower(g, MO_GPU_FP32, 5);
    struct mo_gpu_loaded *loaded;
    const struct mo_fake_record *records;
    moire_error err = {0};
    struct exec_rig r;
    exec_rig_open(&r, &(struct exec_rig_options){.no_libraries = true});
    assert_int_equal(mo_cuda_exec_load(r.exec, p, 1, &loaded, &err), 0);
    const int before = r.fake->records(&records);
    if (mo_cuda_exec_prepare(loaded, -1, &r.target, 0, loaded->program.n_segments, &err))
        fail_msg("%s", err.message);
    const int after = r.fake->records(&records);
    int kernels = 0;
    for (int i = before; i < after; i++)
        kernels += !strncmp(records[i].what, "mo_", 3);
    assert_int_equal(kernels, p->n_ops); /* nothing was timed, nothing was launched */
    mo_cuda_exec_unload(loaded);
    exec_rig_close(&r);
    mo_gpu_program_destroy(p);
    mo_graph_destroy(g);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_by_libraries),
                                       cmocka_unit_test(without_libraries),
                                       cmocka_unit_test(libraries_do_the_work),
                                       cmocka_unit_test(batches_of_a_model_share_weights),
                                       cmocka_unit_test(failures_leave_nothing),
                                       cmocka_unit_test(a_place_that_is_forgotten_is_captured_again),
                                       cmocka_unit_test(what_never_ran_is_not_captured),
                                       cmocka_unit_test(programs_run_once_before_they_are_captured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
