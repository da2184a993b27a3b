/* SPDX-License-Identifier: Apache-2.0
 * test_api.c - the public interface on real threads: every accepted query is answered exactly once, whatever
 * happens to it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/zoo.h"
#include "runtime/serve/runtime.h"
#include "tests/unit/base/fault_sys.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE, MAX_QUERIES = 4096, RECORDS = 512 };

static char folder[] = "/tmp/moire-api-XXXXXX";
static char model[512];

static int make_model(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    if (!mkdtemp(folder)) return -1;
    return mo_zoo_path(&env, "lenet", folder, model, sizeof model, NULL);
}

static int remove_model(void **state) {
    (void)state;
    unlink(model);
    return rmdir(folder);
}

static moire_runtime *start(const char *policy, int64_t events) {
    moire_config c;
    moire_config_init(&c);
    c.policy = policy;
    c.generic_only = 1;
    c.threads = 2;
    moire_runtime *rt = NULL;
    moire_error err = {0};
    int rc = mo_runtime_create(&c, NULL, events, &rt, &err);
    if (rc) print_message("%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    return rt;
}

static moire_tenant *load(moire_runtime *rt, int64_t qos_ns, int queue, int shed) {
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.qos_ns = qos_ns;
    c.queue = queue;
    c.shed_late = shed;
    moire_tenant *t = NULL;
    moire_error err = {0};
    int rc = moire_load(rt, model, &c, &t, &err);
    if (rc) print_message("%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    return t;
}

static moire_tensor image(float *pixels) {
    return (moire_tensor){.dtype = MOIRE_F32,
                          .rank = 4,
                          .shape = {1, 1, SIDE, SIDE},
                          .data = pixels,
                          .bytes = PIXELS * sizeof(float)};
}

/* One row a query: how often its callback ran, and with what. */
struct record {
    _Atomic int answers, code;
    float first;
};

static void note(void *user, const moire_answer *answer) {
    struct record *r = user;
    if (answer->code == MOIRE_OK) r->first = ((const float *)answer->outputs[0].data)[0];
    atomic_store(&r->code, answer->code);
    atomic_fetch_add(&r->answers, 1);
}

static void fill(float *pixels, int seed) {
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (float)((i * 7 + seed * 13) % 97) / 97;
}

static void run_gives_the_same_on_every_policy(void **state) {
    (void)state;
    float pixels[PIXELS], first[10] = {0};
    fill(pixels, 1);
    for (const struct mo_policy *const *p = mo_policies(); *p; p++) {
        moire_runtime *rt = start((*p)->name, 0);
        moire_tenant *t = load(rt, 0, 0, 0);
        assert_int_equal(moire_n_inputs(t), 1);
        assert_int_equal(moire_n_outputs(t), 1);
        float out[10];
        moire_tensor in = image(pixels), result = {.data = out, .bytes = sizeof out};
        assert_int_equal(moire_run(t, &in, 1, &result, 1, NULL), MOIRE_OK);
        assert_int_equal(result.bytes, sizeof out);
        if (p == mo_policies()) memcpy(first, out, sizeof out);
        assert_memory_equal(first, out, sizeof out);
        moire_runtime_destroy(rt, 1);
    }
}

static void errors_name_the_input(void **state) {
    (void)state;
    moire_runtime *rt = start("moire", 0);
    moire_tenant *t = load(rt, 0, 0, 0);
    float pixels[PIXELS] = {0}, out[10];
    moire_tensor in = image(pixels), result = {.data = out, .bytes = sizeof out};
    moire_port port;
    moire_error err;
    moire_input(t, 0, &port);
    in.bytes -= 4;
    assert_int_equal(moire_run(t, &in, 1, &result, 1, &err), MOIRE_ESHAPE);
    assert_non_null(strstr(err.message, port.name));
    in = image(pixels);
    in.shape[3] = 31;
    assert_int_equal(moire_run(t, &in, 1, &result, 1, &err), MOIRE_ESHAPE);
    assert_non_null(strstr(err.message, "[1,1,32,32]"));
    in = image(pixels);
    in.dtype = MOIRE_F64;
    assert_int_equal(moire_run(t, &in, 1, &result, 1, &err), MOIRE_ESHAPE);
    assert_int_equal(moire_run(t, &in, 2, &result, 1, &err), MOIRE_EINVAL);
    in = image(pixels);
    result.bytes = 4;
    assert_int_equal(moire_run(t, &in, 1, &result, 1, &err), MOIRE_ESHAPE);
    assert_non_null(strstr(err.message, "needs 40 bytes"));
    assert_int_equal(moire_cancel(rt, 12345), MOIRE_ESTALE);
    moire_runtime_destroy(rt, 1);
}

static void bad_configs_are_refused(void **state) {
    (void)state;
    moire_config c;
    moire_runtime *rt;
    moire_error err;
    moire_config_init(&c);
    c.policy = "no-such";
    assert_int_equal(moire_runtime_create(&c, &rt, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "fcfs-1"));
    c.policy = NULL;
    c.size = 1;
    assert_int_equal(moire_runtime_create(&c, &rt, &err), MOIRE_EINVAL);
    moire_config_init(&c);
    c.max_queries = 1 << 30;
    assert_int_equal(moire_runtime_create(&c, &rt, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "queries"));
    rt = start("moire", 0);
    moire_tenant *t;
    assert_int_equal(moire_load(rt, "/nonexistent.onnx", NULL, &t, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "/nonexistent.onnx"));
    moire_tenant_config tc;
    moire_tenant_config_init(&tc);
    tc.queue = 1 << 30;
    assert_int_equal(moire_load(rt, model, &tc, &t, &err), MOIRE_ELIMIT);
    moire_runtime_destroy(rt, 0);
}

/* Several threads submit and cancel; a tenant goes away in the middle. */
struct client {
    moire_runtime *rt;
    moire_tenant *t;
    int seed, accepted, rejected;
    struct record records[RECORDS];
};

static void *submit_and_cancel(void *arg) {
    struct client *c = arg;
    float pixels[PIXELS];
    unsigned rng = (unsigned)c->seed * 2654435761u + 1;
    fill(pixels, c->seed);
    moire_tensor in = image(pixels);
    for (int i = 0; i < RECORDS; i++) {
        moire_query q;
        if (moire_submit(c->t, &in, 1, 0, note, &c->records[i], &q, NULL)) {
            atomic_store(&c->records[i].code, 1);
            c->rejected++;
            continue;
        }
        c->accepted++;
        rng = rng * 1103515245u + 12345;
        if (rng >> 30 == 0) moire_cancel(c->rt, q);
        if (rng >> 24 == 7) usleep(500);
    }
    return NULL;
}

static void check_once(const struct client *c) {
    for (int i = 0; i < RECORDS; i++)
        assert_int_equal(atomic_load(&c->records[i].answers), atomic_load(&c->records[i].code) == 1 ? 0 : 1);
}

static void every_accepted_query_is_answered_once(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policies(); *p; p++) {
        moire_runtime *rt = start((*p)->name, 1 << 16);
        moire_tenant *a = load(rt, 20000000, 64, 0), *b = load(rt, 1000000, 8, 1);
        struct client *c = calloc(3, sizeof *c);
        pthread_t thread[3];
        for (int i = 0; i < 3; i++) {
            c[i] = (struct client){.rt = rt, .t = i == 2 ? b : a, .seed = i + 1};
            pthread_create(&thread[i], NULL, submit_and_cancel, &c[i]);
        }
        for (int i = 0; i < 3; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(moire_unload(b, NULL), MOIRE_OK); /* answers what is open */
        check_once(&c[2]);
        assert_int_equal(moire_drain(rt), MOIRE_OK);
        check_once(&c[0]);
        check_once(&c[1]);
        struct mo_sched_stats st;
        mo_runtime_stats(rt, &st);
        assert_int_equal(st.accepted, c[0].accepted + c[1].accepted + c[2].accepted);
        assert_int_equal(st.accepted,
                         st.ok + st.expired + st.shed + st.cancelled + st.failed + st.unloaded + st.shutdown);
        assert_int_equal(st.failed, 0);
        assert_int_equal(st.refused, 0);
        moire_runtime_destroy(rt, 1);
        free(c);
    }
}

static void destroy_without_drain_answers_shutdown(void **state) {
    (void)state;
    moire_runtime *rt = start("moire", 0);
    moire_tenant *t = load(rt, 0, 0, 0);
    struct record *r = calloc(RECORDS, sizeof *r);
    float pixels[PIXELS];
    fill(pixels, 3);
    moire_tensor in = image(pixels);
    for (int i = 0; i < RECORDS; i++)
        assert_int_equal(moire_submit(t, &in, 1, 0, note, &r[i], NULL, NULL), MOIRE_OK);
    moire_runtime_destroy(rt, 0);
    for (int i = 0; i < RECORDS; i++) {
        assert_int_equal(atomic_load(&r[i].answers), 1);
        int code = atomic_load(&r[i].code);
        assert_true(code == MOIRE_OK || code == MOIRE_ESHUTDOWN);
    }
    free(r);
}

static void the_queue_is_bounded(void **state) {
    (void)state;
    moire_runtime *rt = start("fcfs", 0);
    moire_tenant *t = load(rt, 0, 4, 0);
    static struct record r[RECORDS];
    memset(r, 0, sizeof r);
    float pixels[PIXELS];
    fill(pixels, 4);
    moire_tensor in = image(pixels);
    int busy = 0;
    moire_error err;
    for (int i = 0; i < RECORDS; i++) {
        int rc = moire_submit(t, &in, 1, 0, note, &r[i], NULL, &err);
        assert_true(rc == MOIRE_OK || rc == MOIRE_EBUSY);
        busy += rc == MOIRE_EBUSY;
    }
    assert_true(busy > 0);
    moire_drain(rt);
    moire_runtime_destroy(rt, 1);
}

/* A callback that submits the next query of a chain. */
struct chain {
    moire_tenant *t;
    moire_tensor in;
    _Atomic int left, answers;
};

static void submit_next(void *user, const moire_answer *answer) {
    struct chain *c = user;
    assert_int_equal(answer->code, MOIRE_OK);
    atomic_fetch_add(&c->answers, 1);
    if (atomic_fetch_sub(&c->left, 1) > 1)
        assert_int_equal(moire_submit(c->t, &c->in, 1, 0, submit_next, c, NULL, NULL), MOIRE_OK);
}

static void callbacks_may_submit(void **state) {
    (void)state;
    moire_runtime *rt = start("moire", 0);
    float pixels[PIXELS];
    fill(pixels, 5);
    struct chain c = {.t = load(rt, 1000000, 0, 0), .in = image(pixels), .left = 200};
    assert_int_equal(moire_submit(c.t, &c.in, 1, 0, submit_next, &c, NULL, NULL), MOIRE_OK);
    while (atomic_load(&c.answers) < 200)
        usleep(100);
    moire_runtime_destroy(rt, 1);
    assert_int_equal(atomic_load(&c.answers), 200);
}

/* Answers are those of the query's own input, whatever runs beside it. */
static void answers_are_not_mixed_up(void **state) {
    (void)state;
    moire_runtime *rt = start("moire", 0);
    moire_tenant *t = load(rt, 5000000, 0, 0);
    float pixels[16][PIXELS], want[16], out[10];
    struct record *r = calloc(RECORDS, sizeof *r);
    for (int i = 0; i < 16; i++) {
        fill(pixels[i], i);
        moire_tensor in = image(pixels[i]), result = {.data = out, .bytes = sizeof out};
        assert_int_equal(moire_run(t, &in, 1, &result, 1, NULL), MOIRE_OK);
        want[i] = out[0];
    }
    for (int i = 0; i < RECORDS; i++) {
        moire_tensor in = image(pixels[i % 16]);
        assert_int_equal(moire_submit(t, &in, 1, 0, note, &r[i], NULL, NULL), MOIRE_OK);
    }
    moire_drain(rt);
    for (int i = 0; i < RECORDS; i++)
        assert_memory_equal(&r[i].first, &want[i % 16], sizeof(float));
    free(r);
    moire_runtime_destroy(rt, 1);
}

/* A query lets go of its memory after its answer. */
static void wait_for_arenas(moire_runtime *rt, int taken) {
    while (mo_arenas_state(rt->pools.arenas).taken > taken)
        usleep(100);
    assert_int_equal(mo_arenas_state(rt->pools.arenas).taken, taken);
}

/* Activations lie where those of queries before did: whatever these left there changes no answer.  What
 * another tenant left is zeros by then, so it is the tenant itself that leaves this. */
static void arenas_may_hold_anything(void **state) {
    (void)state;
    moire_runtime *rt = start("moire", 0);
    moire_tenant *t[2] = {load(rt, 0, 0, 0), load(rt, 0, 0, 0)};
    float pixels[PIXELS], want[10], out[10];
    fill(pixels, 3);
    moire_tensor in = image(pixels), first = {.data = want, .bytes = sizeof want};
    assert_int_equal(moire_run(t[0], &in, 1, &first, 1, NULL), MOIRE_OK);
    for (int i = 0; i < 8; i++) {
        wait_for_arenas(rt, 0);
        const moire_tenant *own = t[i % 2];
        struct mo_arena *poison =
            mo_arenas_take(rt->pools.arenas, mo_instance_arena_bytes(own->plan), own->number);
        memset(poison->at, i % 2 ? 0xff : 0x7f, poison->bytes); /* NaN, or large numbers */
        if (i % 4 < 2) mo_arenas_give(rt->pools.arenas, poison);
        moire_tensor result = {.data = out, .bytes = sizeof out};
        assert_int_equal(moire_run(t[i % 2], &in, 1, &result, 1, NULL), MOIRE_OK);
        assert_memory_equal(out, want, sizeof want);
        wait_for_arenas(rt, i % 4 >= 2);
        if (i % 4 >= 2) mo_arenas_give(rt->pools.arenas, poison);
    }
    assert_int_equal(mo_arenas_state(rt->pools.arenas).n, 2); /* not one a tenant and core */
    moire_runtime_destroy(rt, 1);
}

/* Workers that belong to the host. */
struct guest {
    moire_runtime *rt;
    int core, rc;
};

static void *lend(void *arg) {
    struct guest *g = arg;
    g->rc = moire_work(g->rt, g->core);
    return NULL;
}

static void the_host_may_lend_its_threads(void **state) {
    (void)state;
    moire_config c;
    moire_config_init(&c);
    c.generic_only = c.lend_workers = 1;
    c.threads = 2;
    moire_runtime *rt;
    assert_int_equal(moire_runtime_create(&c, &rt, NULL), MOIRE_OK);
    struct guest g[3];
    pthread_t thread[3];
    int cores = mo_device_units(rt->cores);
    for (int i = 0; i < cores; i++) {
        g[i] = (struct guest){rt, i, 1};
        pthread_create(&thread[i], NULL, lend, &g[i]);
    }
    float pixels[PIXELS] = {0}, out[10];
    moire_tensor in = image(pixels), result = {.data = out, .bytes = sizeof out};
    moire_tenant *t = load(rt, 0, 0, 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(moire_run(t, &in, 1, &result, 1, NULL), MOIRE_OK);
    assert_int_equal(moire_work(rt, 0), MOIRE_EINVAL);
    assert_int_equal(moire_work(rt, cores), MOIRE_EINVAL);
    moire_runtime_destroy(rt, 1);
    for (int i = 0; i < cores; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(g[i].rc, MOIRE_OK);
    }
    assert_int_equal(moire_runtime_create(&c, &rt, NULL), MOIRE_OK); /* nobody comes */
    moire_runtime_destroy(rt, 1);
}

/* The k-th allocation fails, for every k: an error and nothing leaked, or an answer. */
static int serve_once(void *ctx) {
    struct mo_env env = mo_env_default();
    env.sys = &((struct fault_sys *)ctx)->table;
    moire_config c;
    moire_config_init(&c);
    c.generic_only = 1;
    c.threads = 2;
    moire_runtime *rt = NULL;
    moire_tenant *t = NULL;
    int rc = mo_runtime_create(&c, &env, 64, &rt, NULL);
    if (rc) return rc;
    rc = moire_load(rt, model, NULL, &t, NULL);
    if (!rc) {
        static float pixels[PIXELS];
        float out[10];
        moire_tensor in = image(pixels), result = {.data = out, .bytes = sizeof out};
        rc = moire_run(t, &in, 1, &result, 1, NULL);
    }
    moire_runtime_destroy(rt, 1);
    return rc;
}

static void failing_allocations_are_errors(void **state) {
    (void)state;
    struct fault_sys f;
    fault_sys_init(&f);
    assert_true(fault_sys_sweep(&f, serve_once, &f, 0) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_gives_the_same_on_every_policy),
        cmocka_unit_test(errors_name_the_input),
        cmocka_unit_test(bad_configs_are_refused),
        cmocka_unit_test(every_accepted_query_is_answered_once),
        cmocka_unit_test(destroy_without_drain_answers_shutdown),
        cmocka_unit_test(the_queue_is_bounded),
        cmocka_unit_test(callbacks_may_submit),
        cmocka_unit_test(answers_are_not_mixed_up),
        cmocka_unit_test(arenas_may_hold_anything),
        cmocka_unit_test(the_host_may_lend_its_threads),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
