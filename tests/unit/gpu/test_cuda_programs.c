/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_programs.c - programs through the whole plugin, against the reference of the model: queries
 * gathered from anywhere, batches that are not full, segments that go from let to let, lets at work at the
 * same time, bounds on memory, arguments that do not exist, a GPU that is lost with programs on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/gpu_cases.h"
#include "tests/unit/gpu/cuda_case.h"
#include "tools/moire/verify/ways.h"

mo_gpu_plugin_function mo_gpu_plugin;

enum { BATCH = 2, INSTANCES = 2, LETS = 3, ROUNDS = 5, PORTS = GPU_CASE_PORTS };

/* One model of one input and one output, batch 2, with the answer it has to give. */
struct rig {
    struct cuda_case c;
    struct ob *model;
    struct mo_graph *graph;
    struct mo_gpu_program *program;
    struct mo_gpu_loaded *loaded;
    moire_tensor in[PORTS], want[PORTS];
    size_t in_bytes, out_bytes; /* of one query */
};

static void lower(struct rig *r, const char *name) {
    r->program = gpu_case_lower(name, &r->model, &r->graph, r->in, r->want);
    assert_int_equal(r->program->batch, BATCH);
    assert_true(r->program->n_segments >= 3);
    r->in_bytes = (size_t)r->program->inputs[0].bytes / BATCH;
    r->out_bytes = (size_t)r->program->outputs[0].bytes / BATCH;
}

static void begin(struct rig *r, const struct mo_gpu_config *config) {
    memset(r, 0, sizeof *r);
    cuda_case_begin(&r->c, &(struct mo_fake_config){.memory = (size_t)256 << 20});
    lower(r, "resnet_like");
    cuda_case_open(&r->c, mo_gpu_plugin(), config);
}

static void load(struct rig *r) {
    moire_error err = {0};
    if (r->c.ops->program_load(r->c.system, 0, r->program, INSTANCES, &r->loaded, &err))
        fail_msg("%s", err.message);
}

static void end(struct rig *r) {
    r->c.ops->program_unload(r->loaded);
    mo_gpu_program_destroy(r->program);
    mo_way_free(&r->model->env, r->want, r->graph->n_outputs);
    mo_graph_destroy(r->graph);
    ob_destroy(r->model);
    cuda_case_end(&r->c);
}

/* Queries in staging memory, each where it likes. */
struct job {
    struct rig *r;
    char *staging;
    const void *inputs[BATCH];
    void *outputs[BATCH];
    _Atomic int done;
    int code;
};

static void done(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct job *j = ctx;
    (void)message;
    j->code = code;
    if (times && times->start + times->copy_in_ns + times->compute_ns > times->end) j->code = MOIRE_EINTERNAL;
    atomic_fetch_add(&j->done, 1);
}

/* `gap` bytes between queries, which are in reverse order when `backwards`. */
static void make_job(struct rig *r, struct job *j, size_t gap, bool backwards) {
    const size_t in = r->in_bytes + gap, out = r->out_bytes + gap;
    void *at;
    memset(j, 0, sizeof *j);
    j->r = r;
    assert_int_equal(r->c.ops->staging_alloc(r->c.system, BATCH * (in + out), &at, NULL), MOIRE_OK);
    j->staging = at;
    memset(j->staging, 0x7f, BATCH * (in + out));
    for (int q = 0; q < BATCH; q++) {
        const size_t place = (size_t)(backwards ? BATCH - 1 - q : q);
        memcpy(j->staging + place * in, (const char *)r->in[0].data + (size_t)q * r->in_bytes, r->in_bytes);
        j->inputs[q] = j->staging + place * in;
        j->outputs[q] = j->staging + BATCH * in + place * out;
    }
}

static struct mo_gpu_run run_of(struct job *j, struct mo_gpu_let *let, int instance, int first, int last,
                                int batch) {
    return (struct mo_gpu_run){.let = let,
                               .program = j->r->loaded,
                               .instance = instance,
                               .begin = first,
                               .end = last,
                               .batch = batch,
                               .inputs = j->inputs,
                               .outputs = j->outputs,
                               .done = done,
                               .ctx = j};
}

static void wait_for(struct job *j, int times) {
    const struct mo_env *env = &j->r->c.env;
    const int64_t until = mo_now(env) + INT64_C(60000000000);
    while (atomic_load(&j->done) < times) {
        if (mo_now(env) > until) fail_msg("a run was not answered");
        env->sys->sleep_until(env->sys->self, mo_now(env) + 50000);
    }
}

static void start(struct job *j, struct mo_gpu_let *let, int instance, int first, int last, int batch) {
    const struct mo_gpu_run run = run_of(j, let, instance, first, last, batch);
    moire_error err = {0};
    if (j->r->c.ops->run(&run, &err)) fail_msg("%s", err.message);
}

/* The first `batch` queries have the reference's answer, and nobody wrote into the others'. */
static void check(const struct job *j, int batch) {
    const struct rig *r = j->r;
    assert_int_equal(j->code, MOIRE_OK);
    const size_t n = r->out_bytes / sizeof(float);
    for (int q = 0; q < BATCH; q++)
        for (size_t i = 0; i < n; i++) {
            float got, want = ((const float *)r->want[0].data)[(size_t)q * n + i], d;
            memcpy(&got, (const char *)j->outputs[q] + i * sizeof got, sizeof got);
            d = got > want ? got - want : want - got;
            if (q < batch && !(d < 1e-4f * (1 + (want < 0 ? -want : want))))
                fail_msg("query %d, element %zu: %g, not %g", q, i, (double)got, (double)want);
            if (q >= batch) assert_memory_equal(&got, "\x7f\x7f\x7f\x7f", sizeof got);
        }
}

static void free_job(struct job *j) {
    j->r->c.ops->staging_free(j->r->c.system, j->staging);
}

static struct mo_gpu_let *open_let(struct rig *r, int first, int units) {
    struct mo_gpu_let *let;
    moire_error err = {0};
    if (r->c.ops->let_open(r->c.system, 0, first, units, 1, &let, &err)) fail_msg("%s", err.message);
    return let;
}

static int copies(struct rig *r, const char *what) {
    const struct mo_fake_record *records;
    int found = 0;
    for (int i = r->c.fake->records(&records) - 1; i >= 0; i--)
        found += strcmp(records[i].what, what) == 0;
    return found;
}

/* Neighbours in host memory go at once; scattered ones and half batches have the same answers. */
static void queries_come_from_anywhere(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    struct mo_gpu_let *let = open_let(&r, 0, 2);
    assert_int_equal(r.c.ops->prepare(r.loaded, let, NULL), MOIRE_OK);
    static const struct {
        size_t gap;
        bool backwards;
        int batch, copies;
    } rows[] = {{0, false, 2, 1}, {64, false, 2, 2}, {0, true, 2, 2}, {0, false, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_job(&r, &j, rows[i].gap, rows[i].backwards);
        const int in = copies(&r, "copy in"), out = copies(&r, "copy out");
        start(&j, let, 0, 0, r.program->n_segments, rows[i].batch);
        wait_for(&j, 1);
        check(&j, rows[i].batch);
        assert_int_equal(copies(&r, "copy in") - in, rows[i].copies);
        assert_int_equal(copies(&r, "copy out") - out, rows[i].copies);
        free_job(&j);
    }
    r.c.ops->let_close(let);
    end(&r);
}

/* By cuDNN, in whichever way was the faster. */
static int convolved(struct rig *r) {
    return copies(r, "cudnn_fused") + copies(r, "cudnn_forward");
}

/* Pieces of device memory. */
static int pieces(const struct rig *r) {
    struct mo_fake_counts counts;
    r->c.fake->counts(&counts);
    return (int)counts.memory;
}

/* On a let, whose context is not the one that is current while kernels are chosen; memory to try them out is
 * taken once and kept, for giving it back would wait for others. */
static void libraries_work_on_lets(void **state) {
    (void)state;
    static const int units[] = {1, 4, 16}; /* the last is the whole GPU */
    struct rig r;
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    const int before = pieces(&r);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        struct mo_gpu_let *let = open_let(&r, 0, units[i]);
        struct job j;
        make_job(&r, &j, 0, false);
        assert_int_equal(r.c.ops->prepare(r.loaded, let, NULL), MOIRE_OK);
        assert_int_equal(pieces(&r), before + 1);
        const int products = copies(&r, "cublaslt_matmul"), convolutions = convolved(&r);
        start(&j, let, 0, 0, r.program->n_segments, BATCH);
        wait_for(&j, 1);
        check(&j, BATCH);
        assert_true(copies(&r, "cublaslt_matmul") > products);
        assert_true(convolved(&r) > convolutions);
        free_job(&j);
        r.c.ops->let_close(let);
    }
    end(&r);
}

static int greens(const struct rig *r) {
    struct mo_fake_counts counts;
    r->c.fake->counts(&counts);
    return counts.green;
}

/* A program is prepared and run on more lets than contexts are kept; on the first of them, whose contexts and
 * graphs are gone by then, it has the same answer again. */
static void graphs_go_with_their_context(void **state) {
    (void)state;
    enum { LETS_OF_ONE = MO_CUDA_SPARE + 4 };
    struct rig r;
    struct job j;
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    make_job(&r, &j, 0, false);
    for (int turn = 0, n = 0; turn < 2; turn++)
        for (int i = 0; i < LETS_OF_ONE; i++) {
            struct mo_gpu_let *let = open_let(&r, i, 1);
            assert_int_equal(r.c.ops->prepare(r.loaded, let, NULL), MOIRE_OK);
            assert_true(greens(&r) <= 2 * (1 + MO_CUDA_SPARE));
            memset(j.outputs[0], 0, r.out_bytes);
            start(&j, let, 0, 0, r.program->n_segments, BATCH);
            wait_for(&j, ++n);
            check(&j, BATCH);
            r.c.ops->let_close(let);
        }
    assert_true(greens(&r) > 2 * MO_CUDA_SPARE - 2);
    free_job(&j);
    end(&r);
}

struct preparing {
    struct rig *r;
    struct mo_gpu_let *let;
    int code;
    moire_error err;
};

static void *prepare_there(void *ctx) {
    struct preparing *p = ctx;
    p->code = p->r->c.ops->prepare(p->r->loaded, p->let, &p->err);
    return NULL;
}

/* Preparing takes a context of its own: nobody who uses the let's waits for it, and the let's has one thread
 * inside. */
static void preparing_leaves_the_let_alone(void **state) {
    (void)state;
    struct rig r;
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    struct mo_gpu_let *let = open_let(&r, 0, 2);
    struct mo_cuda_context *context = let->track->context;
    struct mo_gpu_let *made; /* whoever prepares on a stream of the let's context finds it, and is refused */
    assert_int_equal(r.c.ops->let_open(r.c.system, 0, 0, 2, MO_GPU_PRIORITIES - 1, &made, NULL), MOIRE_OK);
    r.c.ops->let_close(made);
    struct preparing p = {.r = &r, .let = let};
    pthread_t thread;
    assert_int_equal(mo_cuda_enter(context->gpu, context, NULL), MOIRE_OK); /* as a run of another program */
    assert_int_equal(pthread_create(&thread, NULL, prepare_there, &p), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mo_cuda_leave(context->gpu, context);
    if (p.code) fail_msg("%s", p.err.message);
    assert_int_equal(let->track->queued, 0);
    r.c.ops->let_close(let);
    end(&r);
}

/* Each segment on another let, of another size, with other queries between: activations stay with the
 * instance. */
static void segments_go_from_let_to_let(void **state) {
    (void)state;
    struct rig r;
    struct job a, b;
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    make_job(&r, &a, 0, false);
    make_job(&r, &b, 0, true);
    for (int i = 0; i < r.program->n_segments; i++) {
        struct mo_gpu_let *let = open_let(&r, 3 * i, 1 + i);
        start(&a, let, 0, i, i + 1, BATCH);
        start(&b, let, 1, i, i + 1, BATCH);
        r.c.ops->let_close(let);
        wait_for(&a, i + 1);
        wait_for(&b, i + 1);
    }
    check(&a, BATCH);
    check(&b, BATCH);
    free_job(&a);
    free_job(&b);
    end(&r);
}

struct worker {
    struct rig *r;
    struct mo_gpu_loaded *loaded;
    int first, instance;
    struct job job;
};

static void *serve(void *arg) {
    struct worker *w = arg;
    struct mo_gpu_let *let = open_let(w->r, w->first, 4);
    for (int k = 1; k <= ROUNDS; k++) {
        start(&w->job, let, w->instance, 0, w->r->program->n_segments, BATCH);
        wait_for(&w->job, k);
    }
    w->r->c.ops->let_close(let);
    return NULL;
}

static void lets_work_at_the_same_time(void **state) {
    (void)state;
    struct rig r;
    struct worker workers[INSTANCES];
    struct mo_thread threads[INSTANCES];
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    const struct mo_sys *sys = r.c.env.sys;
    for (int i = 0; i < INSTANCES; i++) {
        workers[i] = (struct worker){.r = &r, .first = 4 * i, .instance = i};
        make_job(&r, &workers[i].job, 0, i % 2);
        assert_int_equal(sys->thread_start(sys->self, &threads[i], serve, &workers[i]), 0);
    }
    for (int i = 0; i < INSTANCES; i++) {
        sys->thread_join(sys->self, threads[i]);
        check(&workers[i].job, BATCH);
        free_job(&workers[i].job);
    }
    end(&r);
}

/* The bound that we were given, and the GPU's own end: another program is refused, the first one serves on.
 */
static void memory_has_an_end(void **state) {
    (void)state;
    struct rig r;
    struct mo_gpu_loaded *other = NULL;
    struct mo_gpu_counters n;
    moire_error err = {0};
    struct job j;
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    const int64_t bytes = r.c.ops->program_bytes(r.loaded);
    assert_true(bytes >= r.program->weight_bytes + INSTANCES * r.program->arena_bytes);
    assert_int_equal(r.c.ops->counters(r.c.system, 0, &n, NULL), MOIRE_OK);
    assert_int_equal(n.memory_ours, bytes);
    end(&r);

    begin(&r, &(struct mo_gpu_config){.memory = bytes + 1000});
    load(&r);
    r.program->model = 2; /* shares nothing */
    assert_int_equal(r.c.ops->program_load(r.c.system, 0, r.program, INSTANCES, &other, &err), MOIRE_ENOMEM);
    assert_non_null(strstr(err.message, "unload models, lower the batch or raise the bound"));
    r.c.fake->fail_call("cuMemAlloc_v2", 0, 0, 2);
    assert_int_equal(r.c.ops->program_load(r.c.system, 0, r.program, INSTANCES, &other, &err), MOIRE_ENOMEM);
    make_job(&r, &j, 0, false);
    struct mo_gpu_let *let = open_let(&r, 0, 2);
    assert_int_equal(r.c.ops->counters(r.c.system, 0, NULL, NULL), MOIRE_OK);
    r.c.ops->let_close(let);
    free_job(&j);
    end(&r);
}

static void runs_that_do_not_exist(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    moire_error err = {0};
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    make_job(&r, &j, 0, false);
    struct mo_gpu_let *let = open_let(&r, 0, 2);
    const int n = r.program->n_segments;
    const struct {
        int instance, first, last, batch;
    } bad[] = {{-1, 0, n, 1},    {INSTANCES, 0, n, 1}, {0, -1, n, 1},       {0, 1, 1, 1},
               {0, 0, n + 1, 1}, {0, 0, n, 0},         {0, 0, n, BATCH + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct mo_gpu_run run =
            run_of(&j, let, bad[i].instance, bad[i].first, bad[i].last, bad[i].batch);
        assert_int_equal(r.c.ops->run(&run, &err), MOIRE_EINVAL);
    }
    assert_int_equal(r.c.ops->program_load(r.c.system, 0, r.program, 0, &r.loaded, NULL), MOIRE_EINVAL);
    assert_int_equal(r.c.ops->program_load(r.c.system, 1, r.program, 1, &r.loaded, NULL), MOIRE_EINVAL);
    assert_int_equal(atomic_load(&j.done), 0);
    r.c.ops->let_close(let);
    free_job(&j);
    end(&r);
}

/* A fault in the middle of a program: the run is answered, and everything can be taken down. */
static void a_gpu_is_lost_with_programs_on_it(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    moire_error err = {0};
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    make_job(&r, &j, 0, false);
    struct mo_gpu_let *let = open_let(&r, 0, 2);
    assert_int_equal(r.c.ops->prepare(r.loaded, let, NULL), MOIRE_OK);
    r.c.fake->fail_kernel("", 2, 700);
    const struct mo_gpu_run run = run_of(&j, let, 0, 0, r.program->n_segments, BATCH);
    const int rc = r.c.ops->run(&run, &err); /* the fault may come before everything is queued */
    if (rc == MOIRE_OK) {
        wait_for(&j, 1);
        assert_int_equal(j.code, MOIRE_EDEVICE);
    } else {
        assert_int_equal(rc, MOIRE_EDEVICE);
    }
    assert_int_equal(r.c.ops->prepare(r.loaded, let, &err), MOIRE_EDEVICE);
    r.c.ops->let_close(let);
    free_job(&j);
    r.c.lost = true;
    end(&r);
}

/* Preparing waits for kernels that it tries; none of these waits may outlast the GPU. */
static void preparing_ends_when_its_kernel_hangs(void **state) {
    (void)state;
    struct rig r;
    struct mo_gpu_let *let;
    moire_error err = {0};
    begin(&r,
          &(struct mo_gpu_config){.hang_ns = 1000000000}); /* loading computes, and must not seem to hang */
    load(&r);
    assert_int_equal(r.c.ops->let_open(r.c.system, 0, 0, 1, 1, &let, NULL), MOIRE_OK);
    r.c.fake->fail_kernel("", 3, 0);
    assert_int_equal(r.c.ops->prepare(r.loaded, let, &err), MOIRE_EDEVICE);
    assert_int_equal(r.c.ops->counters(r.c.system, 0, NULL, &err), MOIRE_EDEVICE);
    r.c.ops->let_close(let);
    r.c.lost = true;
    end(&r);
}

/* The bound on preparing is ten seconds here; what ends it is the run that is noticed on the same SMs. */
static void preparing_ends_when_the_gpu_is_lost(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    struct mo_gpu_let *let, *wide;
    moire_error err = {0};
    begin(&r, &(struct mo_gpu_config){0});
    load(&r);
    assert_int_equal(r.c.ops->let_open(r.c.system, 0, 0, 1, 1, &let, NULL), MOIRE_OK);
    assert_int_equal(r.c.ops->let_open(r.c.system, 0, 0, 2, 1, &wide, NULL), MOIRE_OK);
    assert_int_equal(r.c.ops->prepare(r.loaded, let, NULL), MOIRE_OK);
    make_job(&r, &j, 0, false);
    r.c.fake->fail_kernel("", 0, 0);
    struct mo_gpu_run run = run_of(&j, let, 0, 0, r.program->n_segments, BATCH);
    run.hang_ns = 300000000;
    assert_int_equal(r.c.ops->run(&run, NULL), MOIRE_OK);
    assert_int_equal(r.c.ops->prepare(r.loaded, wide, &err), MOIRE_EDEVICE);
    wait_for(&j, 1);
    assert_int_equal(j.code, MOIRE_EDEVICE);
    r.c.ops->let_close(let);
    r.c.ops->let_close(wide);
    free_job(&j);
    r.c.lost = true;
    end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preparing_leaves_the_let_alone),
        cmocka_unit_test(graphs_go_with_their_context),
        cmocka_unit_test(queries_come_from_anywhere),
        cmocka_unit_test(libraries_work_on_lets),
        cmocka_unit_test(segments_go_from_let_to_let),
        cmocka_unit_test(lets_work_at_the_same_time),
        cmocka_unit_test(memory_has_an_end),
        cmocka_unit_test(runs_that_do_not_exist),
        cmocka_unit_test(a_gpu_is_lost_with_programs_on_it),
        cmocka_unit_test(preparing_ends_when_its_kernel_hangs),
        cmocka_unit_test(preparing_ends_when_the_gpu_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
