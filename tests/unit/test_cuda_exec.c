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
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/exec.h"
#include "tests/cuda/gpu_cases.h"
#include "tests/cuda/gpu_host.h"
#include "tests/fake/cuda/fake.h"
#include "tools/moire/ways.h"

enum { PORTS = GPU_CASE_PORTS };

/* A GPU with one let: what lies around the executor in the plugin. */
struct rig {
    struct mo_env env;
    struct mo_cuda_object object;
    struct mo_cuda_driver cu;
    const struct mo_fake_cuda *fake;
    mo_cu_context context;
    struct mo_cuda_exec *exec;
    struct mo_cuda_lane lane;
    char *pinned; /* host memory that the GPU copies from and to */
};

enum { PINNED = 1 << 20 };

static void open_rig(struct rig *r, bool libraries) {
    moire_error err = {0};
    const struct mo_fake_cuda *(*fake)(void);
    mo_cu_stream stream;
    *r = (struct rig){.env = mo_env_default()};
    if (mo_cuda_driver_open(&r->object, &r->env, gpu_host_fakes(), &r->cu, &err)) fail_msg("%s", err.message);
    void *symbol = dlsym(r->object.handle, "mo_fake_cuda");
    memcpy(&fake, &symbol, sizeof fake);
    r->fake = fake();
    r->fake->reset(&(struct mo_fake_config){.memory = (size_t)1 << 30});
    assert_int_equal(r->cu.init(0), 0);
    assert_int_equal(r->cu.primary_retain(&r->context, 0), 0);
    assert_int_equal(r->cu.context_push(r->context), 0);
    assert_int_equal(r->cu.stream_create(&stream, MO_CU_STREAM_NON_BLOCKING, 0), 0);
    void *pinned;
    assert_int_equal(r->cu.host_alloc(&pinned, PINNED, MO_CU_HOST_PORTABLE), 0);
    r->pinned = pinned;
    r->lane = (struct mo_cuda_lane){.context = r->context, .stream = stream, .place = 1, .sms = 132};
    const struct mo_cuda_exec_config config = {.env = &r->env,
                                               .driver = &r->cu,
                                               .path = gpu_host_fakes(),
                                               .major = 9,
                                               .sms = 132,
                                               .workspace = 1 << 16,
                                               .no_dnn = !libraries,
                                               .no_blas = !libraries};
    if (mo_cuda_exec_open(&config, &r->exec, &err)) fail_msg("%s", err.message);
}

/* Nothing is left behind and nothing forbidden was done. */
static void close_rig(struct rig *r) {
    struct mo_fake_counts counts;
    mo_cu_context context;
    mo_cuda_exec_close(r->exec);
    assert_int_equal(r->cu.stream_destroy(r->lane.stream), 0);
    assert_int_equal(r->cu.host_free(r->pinned), 0);
    assert_int_equal(r->cu.context_pop(&context), 0);
    r->fake->counts(&counts);
    if (counts.mistakes) fail_msg("%s", counts.mistake);
    assert_int_equal(counts.memory, 0);
    assert_int_equal(counts.graph_execs, 0);
    assert_int_equal(counts.graphs, 0);
    assert_int_equal(counts.libraries, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(r->cu.primary_release(0), 0);
    mo_cuda_object_close(&r->object);
}

static struct mo_gpu_program *lower(const struct mo_graph *g, enum mo_gpu_precision precision,
                                    uint64_t model) {
    const struct mo_gpu_options options = {.precision = precision, .model = model, .max_segments = 3};
    struct mo_gpu_program *p;
    moire_error err = {0};
    if (mo_gpu_lower(g, &options, &p, &err)) fail_msg("%s", err.message);
    return p;
}

/* Inputs in, all segments one by one, outputs out. */
static void execute(struct rig *r, struct mo_cuda_loaded *loaded, int instance, const moire_tensor *in,
                    moire_tensor *out) {
    const struct mo_gpu_program *p = mo_cuda_exec_program(loaded);
    const uint64_t arena = mo_cuda_exec_arena(loaded, instance);
    moire_error err = {0};
    assert_int_equal(r->cu.fill(arena, 0xff, (size_t)p->arena_bytes, r->lane.stream), 0);
    for (int i = 0; i < p->n_inputs; i++) {
        const uint64_t at = arena + (uint64_t)p->inputs[i].offset;
        assert_true(in[i].bytes <= PINNED);
        memcpy(r->pinned, in[i].data, in[i].bytes);
        assert_int_equal(r->cu.copy_in(at, r->pinned, in[i].bytes, r->lane.stream), 0);
        assert_int_equal(r->cu.stream_sync(r->lane.stream), 0);
    }
    for (int i = 0; i < p->n_segments; i++)
        if (mo_cuda_exec_queue(loaded, instance, &r->lane, i, i + 1, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < p->n_outputs; i++) {
        const struct mo_gpu_port *port = &p->outputs[i];
        const uint64_t at = arena + (uint64_t)port->offset;
        out[i] = (moire_tensor){.dtype = port->dtype, .rank = port->rank, .bytes = (size_t)port->bytes};
        memcpy(out[i].shape, port->shape, sizeof port->shape);
        out[i].data = malloc(out[i].bytes);
        assert_true(out[i].data && out[i].bytes <= PINNED);
        assert_int_equal(r->cu.copy_out(r->pinned, at, out[i].bytes, r->lane.stream), 0);
        assert_int_equal(r->cu.stream_sync(r->lane.stream), 0);
        memcpy(out[i].data, r->pinned, out[i].bytes);
    }
}

static void run(struct rig *r, const struct mo_graph *g, enum mo_gpu_precision precision,
                const moire_tensor *in, const moire_tensor *want, double rtol) {
    struct mo_gpu_program *p = lower(g, precision, 1);
    struct mo_cuda_loaded *loaded;
    moire_tensor got[PORTS] = {{0}};
    moire_error err = {0};
    if (mo_cuda_exec_load(r->exec, p, 2, &loaded, &err)) fail_msg("%s", err.message);
    mo_gpu_program_destroy(p);
    for (int instance = 0; instance < 2; instance++) { /* prepared by the first queue(), then by name */
        execute(r, loaded, instance, in, got);
        gpu_case_compare(mo_cuda_exec_program(loaded), want, got, rtol);
        for (int i = 0; i < PORTS; i++)
            free(got[i].data);
        memset(got, 0, sizeof got);
        if (mo_cuda_exec_prepare(loaded, &r->lane, &err)) fail_msg("%s", err.message);
    }
    mo_cuda_exec_unload(loaded);
}

static void check(struct ob *b, bool libraries) {
    moire_tensor in[PORTS] = {{0}}, want[PORTS] = {{0}};
    moire_error err = {0};
    struct rig r;
    struct mo_graph *plain = gpu_case_parse(b, &(struct mo_frontend_options){.no_passes = true});
    gpu_case_inputs(plain, in);
    if (mo_way_run_reference(plain, in, plain->n_inputs, want, &err)) fail_msg("%s", err.message);
    struct mo_graph *g = gpu_case_parse(b, &(struct mo_frontend_options){.no_layout = true});
    open_rig(&r, libraries);
    run(&r, g, MO_GPU_FP32, in, want, 1e-4);
    if (libraries) {
        run(&r, g, MO_GPU_FP16, in, want, 2e-2);
        run(&r, g, MO_GPU_BF16, in, want, 8e-2);
    }
    close_rig(&r);
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

static int ran(const struct rig *r, const char *what) {
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
    struct rig r;
    open_rig(&r, true);
    assert_non_null(strstr(mo_cuda_exec_libraries(r.exec), "cuDNN 9.13"));
    assert_non_null(strstr(mo_cuda_exec_libraries(r.exec), "cuBLASLt 13.0"));
    gpu_case_inputs(g, in);
    moire_tensor want[PORTS] = {{0}};
    moire_error err = {0};
    if (mo_way_run_reference(g, in, 1, want, &err)) fail_msg("%s", err.message);
    run(&r, g, MO_GPU_FP32, in, want, 1e-4);
    assert_true(ran(&r, "cudnn_fused") >= 5);
    assert_true(ran(&r, "cublaslt_matmul") >= 1);
    assert_int_equal(ran(&r, "cudnn_forward"), 0);
    run(&r, g, MO_GPU_BF16, in, want, 8e-2); /* has no fused call */
    assert_true(ran(&r, "cudnn_forward") >= 5);
    close_rig(&r);
    mo_way_free(&b->env, want, g->n_outputs);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static size_t bytes_in_use(const struct rig *r) {
    struct mo_fake_counts counts;
    r->fake->counts(&counts);
    return counts.bytes;
}

static void batches_of_a_model_share_weights(void **state) {
    (void)state;
    struct ob *b = build("branches");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_program *p = lower(g, MO_GPU_FP32, 5), *other = lower(g, MO_GPU_FP32, 6);
    struct mo_cuda_loaded *first, *second, *stranger;
    moire_error err = {0};
    struct rig r;
    open_rig(&r, true);
    assert_int_equal(mo_cuda_exec_load(r.exec, p, 1, &first, &err), 0);
    assert_int_equal(mo_cuda_exec_load(r.exec, p, 1, &second, &err), 0);
    assert_int_equal(mo_cuda_exec_load(r.exec, other, 1, &stranger, &err), 0);
    assert_int_equal(mo_cuda_exec_bytes(first) - mo_cuda_exec_bytes(second), p->weight_bytes);
    assert_int_equal(mo_cuda_exec_bytes(first), mo_cuda_exec_bytes(stranger));
    mo_cuda_exec_unload(first); /* the weights stay for the second */
    const size_t before = bytes_in_use(&r);
    mo_cuda_exec_unload(second);
    assert_true(before - bytes_in_use(&r) >= (size_t)p->weight_bytes);
    close_rig(&r);
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
    } calls[] = {{"cuMemAlloc_v2", 1},           {"cuMemHostAlloc", 1},
                 {"cuLibraryLoadData", 1},       {"cuLibraryGetKernel", 1},
                 {"cuMemcpyHtoDAsync_v2", 1},    {"cuEventCreate", 1},
                 {"cuStreamSynchronize", 1},     {"cuGraphInstantiateWithFlags", 1},
                 {"cuStreamBeginCapture_v2", 1}, {"cuGraphUpload", 1},
                 {"cuGraphLaunch", 1},           {"cuLaunchKernel", 0}};
    struct ob *b = build("branches");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_program *p = lower(g, MO_GPU_FP32, 5);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct mo_cuda_loaded *loaded = NULL;
        moire_error err = {0};
        struct rig r;
        open_rig(&r, true);
        r.fake->fail_call(calls[i].name, 0, calls[i].times, 2 /* CUDA_ERROR_OUT_OF_MEMORY */);
        int rc = mo_cuda_exec_load(r.exec, p, 1, &loaded, &err);
        if (!rc) rc = mo_cuda_exec_queue(loaded, 0, &r.lane, 0, p->n_segments, &err);
        if (rc != MOIRE_ENOMEM || !*err.message) fail_msg("%s: %d %s", calls[i].name, rc, err.message);
        assert_int_equal(r.cu.stream_sync(r.lane.stream), 0);
        mo_cuda_exec_unload(loaded);
        close_rig(&r);
    }
    mo_gpu_program_destroy(p);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void a_place_that_is_forgotten_is_captured_again(void **state) {
    (void)state;
    struct ob *b = build("branches");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_program *p = lower(g, MO_GPU_FP32, 5);
    struct mo_cuda_loaded *loaded;
    struct mo_fake_counts counts;
    moire_error err = {0};
    struct rig r;
    open_rig(&r, true);
    assert_int_equal(mo_cuda_exec_load(r.exec, p, 2, &loaded, &err), 0);
    assert_int_equal(mo_cuda_exec_prepare(loaded, &r.lane, &err), 0);
    r.fake->counts(&counts);
    assert_int_equal(counts.graph_execs, 2 * (p->n_segments + 1));
    mo_cuda_exec_forget(r.exec, 99);
    mo_cuda_exec_forget(r.exec, r.lane.place);
    r.fake->counts(&counts);
    assert_int_equal(counts.graph_execs, 0);
    assert_int_equal(mo_cuda_exec_queue(loaded, 1, &r.lane, 0, 1, &err), 0);
    r.fake->counts(&counts);
    assert_int_equal(counts.graph_execs, p->n_segments + 1);
    assert_int_equal(r.cu.stream_sync(r.lane.stream), 0);
    close_rig(&r);
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
                                       cmocka_unit_test(a_place_that_is_forgotten_is_captured_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
