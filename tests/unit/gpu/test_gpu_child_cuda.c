/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_child_cuda.c - the CUDA plugin in a child process, on the fake driver: a model's answers are those
 * of its reference, before and after a kernel's illegal access, a hang and memory that runs out; staging
 * memory is page-locked where it lies.  Prints what a round trip takes in this process and to a child. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "tests/cuda/gpu_cases.h"
#include "tests/unit/gpu/child_case.h"
#include "tests/unit/gpu/cuda_case.h"
#include "tools/moire/verify/ways.h"

#define CUDA "../libmoire-cuda.so"
enum { BATCH = 2, ROUNDS = 300 };
static const int64_t SECOND = 1000000000;

mo_gpu_plugin_function mo_gpu_plugin;

/* A model, its reference, and both on some plugin. */
struct rig {
    const struct mo_env *env;
    const struct mo_gpu_ops *ops;
    struct mo_gpu_system *system;
    struct ob *model;
    struct mo_graph *graph;
    struct mo_gpu_program *program;
    struct mo_gpu_loaded *loaded;
    struct mo_gpu_let *let;
    moire_tensor in[GPU_CASE_PORTS], want[GPU_CASE_PORTS];
    size_t in_bytes, out_bytes; /* of the batch */
    int batch;                  /* that runs; 0: all of it */
    char *staging;
    _Atomic int done;
    int64_t ended;
    int code;
    char message[500];
};

static void lower(struct rig *r, const char *name) {
    r->program = gpu_case_lower(name, &r->model, &r->graph, r->in, r->want);
    assert_int_equal(r->program->n_inputs * r->program->n_outputs, 1);
    r->in_bytes = (size_t)r->program->inputs[0].bytes;
    r->out_bytes = (size_t)r->program->outputs[0].bytes;
}

static void put_there(struct rig *r) {
    moire_error err = {0};
    void *at = NULL;
    int code = r->ops->program_load(r->system, 0, r->program, 1, &r->loaded, &err);
    if (!code) code = r->ops->let_open(r->system, 0, 0, 2, 1, &r->let, &err);
    if (!code) code = r->ops->prepare(r->loaded, r->let, &err);
    if (!code) code = r->ops->staging_alloc(r->system, r->in_bytes + r->out_bytes, &at, &err);
    if (code) fail_msg("%s", err.message);
    r->staging = at;
    memcpy(r->staging, r->in[0].data, r->in_bytes);
}

static void take_away(struct rig *r) {
    r->ops->staging_free(r->system, r->staging);
    r->ops->let_close(r->let);
    r->ops->program_unload(r->loaded);
}

static void free_model(struct rig *r) {
    mo_gpu_program_destroy(r->program);
    mo_way_free(&r->model->env, r->want, r->graph->n_outputs);
    mo_graph_destroy(r->graph);
    ob_destroy(r->model);
}

static void done(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct rig *r = ctx;
    (void)times;
    r->code = code;
    r->ended = mo_now(r->env);
    snprintf(r->message, sizeof r->message, "%s", message ? message : "");
    atomic_fetch_add(&r->done, 1);
}

/* One batch; what the call said. */
static int start(struct rig *r, int64_t hang_ns) {
    const void *inputs[BATCH];
    void *outputs[BATCH];
    moire_error err = {0};
    for (size_t q = 0; q < BATCH; q++) {
        inputs[q] = r->staging + q * r->in_bytes / BATCH;
        outputs[q] = r->staging + r->in_bytes + q * r->out_bytes / BATCH;
    }
    const struct mo_gpu_run what = {.let = r->let,
                                    .program = r->loaded,
                                    .end = r->program->n_segments,
                                    .batch = r->batch ? r->batch : BATCH,
                                    .inputs = inputs,
                                    .outputs = outputs,
                                    .hang_ns = hang_ns,
                                    .done = done,
                                    .ctx = r};
    const int code = r->ops->run(&what, &err);
    if (code) snprintf(r->message, sizeof r->message, "%s", err.message);
    return code;
}

static void wait_for(struct rig *r, int times) {
    const int64_t until = mo_now(r->env) + 60 * SECOND;
    while (atomic_load(&r->done) < times) {
        if (mo_now(r->env) > until) fail_msg("a run was not answered");
        r->env->sys->sleep_until(r->env->sys->self, mo_now(r->env) + 5000);
    }
}

/* Its code once it has been answered. */
static int run(struct rig *r, int64_t hang_ns) {
    const int before = atomic_load(&r->done), code = start(r, hang_ns);
    if (code) return code;
    wait_for(r, before + 1);
    return r->code;
}

static void serve(struct rig *r) {
    memset(r->staging + r->in_bytes, 0x7f, r->out_bytes);
    if (run(r, 0)) fail_msg("%s", r->message);
    for (size_t i = 0; i < r->out_bytes / sizeof(float); i++) {
        float got, want = ((const float *)r->want[0].data)[i];
        memcpy(&got, r->staging + r->in_bytes + i * sizeof got, sizeof got);
        const float d = got > want ? got - want : want - got;
        if (!(d < 1e-4f * (1 + (want < 0 ? -want : want))))
            fail_msg("element %zu: %g, not %g", i, (double)got, (double)want);
    }
}

static void begin_with(struct rig *r, struct child_case *c, const char *name, const char *cache) {
    memset(r, 0, sizeof *r);
    lower(r, name);
    child_case_begin(c, CUDA);
    child_case_open(c, &(struct mo_gpu_config){.cache = cache});
    r->env = &c->env;
    r->ops = c->ops;
    r->system = c->system;
    put_there(r);
}

static void begin(struct rig *r, struct child_case *c) {
    begin_with(r, c, "resnet_like", NULL);
}

static void end(struct rig *r, struct child_case *c) {
    take_away(r);
    child_case_end(c);
    free_model(r);
}

/* The same with the plugin in this process. */
static void begin_here(struct rig *r, struct cuda_case *c, const char *name) {
    cuda_case_begin(c, &(struct mo_fake_config){.memory = (size_t)256 << 20});
    cuda_case_open(c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    memset(r, 0, sizeof *r);
    lower(r, name);
    r->env = &c->env;
    r->ops = c->ops;
    r->system = c->system;
    put_there(r);
}

static void end_here(struct rig *r, struct cuda_case *c) {
    take_away(r);
    free_model(r);
    cuda_case_end(c);
}

/* Loss by a sticky error or by a hang; the next child has all of it again. */
static void lose_and_serve(const char *result, int64_t hang_ns, const char *why) {
    struct rig r;
    struct child_case c;
    struct mo_gpu_info info;
    begin(&r, &c);
    serve(&r);
    assert_int_equal(c.ops->describe(c.system, 0, &info, NULL), MOIRE_OK);
    assert_int_equal(info.sms, 132);
    for (int k = 1; k <= 2; k++) {
        child_case_break(&c, result);
        assert_int_equal(run(&r, hang_ns), MOIRE_EDEVICE);
        if (!strstr(r.message, why)) fail_msg("'%s' does not say '%s'", r.message, why);
        child_case_wait_started(&c, k + 1);
        serve(&r);
    }
    end(&r, &c);
}

static void an_illegal_access(void **state) {
    (void)state;
    lose_and_serve("700", 0, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

static void a_kernel_that_hangs(void **state) {
    (void)state;
    lose_and_serve("0", SECOND / 2, "counts as hung");
}

static void a_process_that_is_killed(void **state) {
    (void)state;
    lose_and_serve("kill", 0, "was ended by signal 9");
}

/* The bound of device memory holds in the child, and what was there serves on. */
static void memory_has_an_end(void **state) {
    (void)state;
    struct rig r;
    struct child_case c;
    struct mo_gpu_loaded *other;
    struct mo_gpu_child_stats stats;
    struct mo_gpu_counters n;
    moire_error err = {0};
    begin(&r, &c);
    assert_true(c.ops->program_bytes(r.loaded) > 0);
    assert_int_equal(c.ops->counters(c.system, 0, &n, NULL), MOIRE_OK);
    assert_int_equal(n.memory_ours, c.ops->program_bytes(r.loaded));
    const int many = (int)(n.memory_total / (r.program->arena_bytes ? r.program->arena_bytes : 1)) + 2;
    assert_int_equal(c.ops->program_load(c.system, 0, r.program, many, &other, &err), MOIRE_ENOMEM);
    serve(&r);
    mo_gpu_child_stats(c.system, &stats);
    assert_int_equal(stats.lost, 0);
    end(&r, &c);
}

/* The child tells how it computes, and the next one too. */
static void it_tells_how_it_computes(void **state) {
    (void)state;
    struct rig r;
    struct child_case c;
    struct mo_gpu_ways w[2], after[2];
    begin(&r, &c);
    assert_int_equal(c.ops->program_ways(r.loaded, w, 2), 1);
    assert_true(w[0].count[MO_GPU_GEMM][MO_GPU_BY_BLAS] > 0 && w[0].sms == 16);
    assert_int_equal(c.ops->program_ways(r.loaded, after, 0), 0);
    child_case_break(&c, "kill");
    (void)run(&r, SECOND / 2);
    child_case_wait_started(&c, 2);
    serve(&r);
    assert_int_equal(c.ops->program_ways(r.loaded, after, 2), 1);
    assert_int_equal(after[0].sms, w[0].sms);
    for (int kind = 0; kind < MO_GPU_KINDS; kind++) {
        int before = 0, now = 0; /* which way is a matter of time */
        for (int way = 0; way < MO_GPU_WAYS; way++) {
            before += w[0].count[kind][way];
            now += after[0].count[kind][way];
        }
        assert_int_equal(now, before);
    }
    end(&r, &c);
}

static void lets_share_no_sm(void **state) {
    (void)state;
    struct rig r;
    struct child_case c;
    struct mo_gpu_let *let;
    uint64_t a[MO_GPU_SM_WORDS], b[MO_GPU_SM_WORDS];
    begin(&r, &c);
    assert_int_equal(c.ops->let_open(c.system, 0, 2, 3, 0, &let, NULL), MOIRE_OK);
    assert_int_equal(c.ops->let_probe(r.let, a, NULL), MOIRE_OK);
    assert_int_equal(c.ops->let_probe(let, b, NULL), MOIRE_OK);
    for (int i = 0; i < MO_GPU_SM_WORDS; i++)
        assert_true((a[i] & b[i]) == 0);
    c.ops->let_close(let);
    end(&r, &c);
}

/* The run on one let hangs: those on all the others still end, for each has a hardware queue of its own. With
 * the driver's eight queues one of them would wait behind the kernel that hangs. */
static void lets_share_no_queue(void **state) {
    (void)state;
    enum { OTHERS = 13 };
    struct rig hangs, r;
    struct child_case c;
    struct mo_gpu_let *lets[OTHERS];
    begin_with(&hangs, &c, "one_dimension", NULL);
    r = hangs;
    put_there(&r);
    for (int i = 0; i < OTHERS;
         i++) /* one stream after the other, so one of any eight shares a queue of eight */
        assert_int_equal(c.ops->let_open(c.system, 0, 2 + i, 1, 1, &lets[i], NULL), MOIRE_OK);
    for (int i = 0; i < OTHERS; i++)
        assert_int_equal(c.ops->prepare(r.loaded, lets[i], NULL), MOIRE_OK);
    child_case_break(&c, "0");
    assert_int_equal(start(&hangs, 6 * SECOND), MOIRE_OK);
    r.env->sys->sleep_until(r.env->sys->self, mo_now(r.env) + SECOND / 2); /* it hangs by then */
    struct mo_gpu_let *own = r.let;
    for (int i = 0; i < OTHERS; i++) {
        r.let = lets[i];
        if (run(&r, 0)) fail_msg("let %d: %s", i, r.message);
        c.ops->let_close(lets[i]);
    }
    wait_for(&hangs, 1);
    assert_int_equal(hangs.code, MOIRE_EDEVICE);
    r.let = own;
    take_away(&r);
    end(&hangs, &c);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

/* What one child compiled the next one finds, whether it was killed or a new system is opened. */
static void compiled_programs_are_kept(void **state) {
    (void)state;
    struct rig r;
    struct child_case c;
    struct stat st;
    off_t first = 0;
    char root[] = "/tmp/moire-kept-child-XXXXXX", cache[64], count[64];
    assert_non_null(mkdtemp(root));
    snprintf(cache, sizeof cache, "%s/cache", root);
    snprintf(count, sizeof count, "%s/count", root);
    setenv("MO_FAKE_NVRTC_COUNT", count, 1);
    for (int k = 0; k < 2; k++) {
        begin_with(&r, &c, "resnet_like", cache);
        serve(&r);
        assert_int_equal(stat(count, &st), 0);
        if (!k) first = st.st_size;
        child_case_break(&c, "kill");
        assert_int_equal(run(&r, 0), MOIRE_EDEVICE);
        child_case_wait_started(&c, 2);
        serve(&r);
        end(&r, &c);
        assert_int_equal(stat(count, &st), 0);
        assert_true(first > 0 && st.st_size == first);
    }
    unsetenv("MO_FAKE_NVRTC_COUNT");
    assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static int64_t round_trip(struct rig *r) {
    int64_t least = INT64_MAX;
    for (int k = 0; k < ROUNDS; k++) {
        const int64_t begin_at = mo_now(r->env);
        assert_int_equal(run(r, 0), MOIRE_OK);
        const int64_t took = r->ended - begin_at;
        if (took < least) least = took;
    }
    return least;
}

/* The layer of a core fails for one query of two in the queue: that one says so, the other one is served, and
 * the GPU stays; in this process and in a child. */
static void fail_and_serve(struct rig *r) {
    struct mo_gpu_ways w;
    moire_error err = {0};
    void *at;
    assert_int_equal(r->ops->program_ways(r->loaded, &w, 1), 1);
    assert_int_equal(w.count[MO_GPU_CORE][MO_GPU_BY_CORE], 1);
    serve(r);
    assert_int_equal(r->ops->staging_alloc(r->system, r->in_bytes + r->out_bytes, &at, &err), MOIRE_OK);
    struct rig bad = *r; /* counts from what `r` has had */
    const int before = atomic_load(&bad.done);
    bad.staging = at;
    for (int k = 0; k < 3; k++) {
        memcpy(bad.staging, r->in[0].data, r->in_bytes);
        *(float *)at = 77;
        assert_int_equal(start(&bad, 0), MOIRE_OK);
        serve(r); /* behind it, and with the same activations */
        wait_for(&bad, before + k + 1);
        assert_int_equal(bad.code, MOIRE_EFAILED);
        assert_non_null(strstr(bad.message, "NegativeLogLikelihoodLoss"));
        serve(r);
    }
    /* what a smaller batch does not fill is no query's: it fails nothing */
    memcpy(bad.staging, r->in[0].data, r->in_bytes);
    ((float *)at)[r->in_bytes / BATCH / sizeof(float)] = 77;
    assert_int_equal(run(&bad, 0), MOIRE_EFAILED);
    bad.batch = 1;
    if (run(&bad, 0)) fail_msg("%s", bad.message);
    assert_int_equal(r->ops->counters(r->system, 0, NULL, &err), MOIRE_OK);
    r->ops->staging_free(r->system, at);
}

static void a_core_that_fails(void **state) {
    (void)state;
    struct rig r;
    struct child_case c;
    struct cuda_case in;
    struct mo_gpu_child_stats stats;
    begin_with(&r, &c, "labelled", NULL);
    fail_and_serve(&r);
    mo_gpu_child_stats(c.system, &stats);
    assert_int_equal(stats.lost, 0);
    end(&r, &c);
    begin_here(&r, &in, "labelled");
    fail_and_serve(&r);
    end_here(&r, &in);
}

/* Not a test of time: only that both answer. */
static void a_round_trip(void **state) {
    (void)state;
    struct rig r;
    struct child_case c;
    struct cuda_case in;
    begin_with(&r, &c, "one_dimension", NULL);
    const int64_t child = round_trip(&r);
    end(&r, &c);
    begin_here(&r, &in, "one_dimension");
    const int64_t here = round_trip(&r);
    end_here(&r, &in);
    printf("a run on the fake driver, shortest of %d: %.1f us in this process, %.1f us in a child\n", ROUNDS,
           (double)here * 1e-3, (double)child * 1e-3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_illegal_access),        cmocka_unit_test(a_kernel_that_hangs),
        cmocka_unit_test(a_process_that_is_killed), cmocka_unit_test(memory_has_an_end),
        cmocka_unit_test(it_tells_how_it_computes), cmocka_unit_test(lets_share_no_sm),
        cmocka_unit_test(lets_share_no_queue),      cmocka_unit_test(compiled_programs_are_kept),
        cmocka_unit_test(a_core_that_fails),        cmocka_unit_test(a_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
