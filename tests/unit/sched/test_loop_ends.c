/* SPDX-License-Identifier: Apache-2.0
 * test_loop_ends.c - queries that are cancelled, expire or lose their tenant while a loop of theirs runs:
 * each is answered once with the reason, and the loop gives its core back.  The loops would run for days, so
 * a loop that does not end keeps the test from ending. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "runtime/plan/plan.h"
#include "tests/unit/control/control_case.h"
#include "tests/unit/codegen/ways_case.h"
#include "tests/unit/sched/serve_bed.h"

enum { TRIPS = 1 << 30 }; /* each within another so many */
static const moire_limit_setting endless[] = {{"loop_trips", INT64_C(1) << 40}};

/* y = Loop(n): s + s * small, n times; inside of another loop where it is nested. */
static struct ob *looping(struct control *c, bool nested) {
    struct ob *b = control_main(c, 13), *outer = nested ? control_body(c) : b, *body = control_body(c);
    ob_input(b, "n", MOIRE_I64, "1");
    ob_input(b, "x", MOIRE_F32, "1,64");
    for (int i = 0; i < 1 + nested; i++) {
        struct ob *in = i ? outer : body;
        ob_input(in, i ? "i1" : "i0", MOIRE_I64, "");
        ob_input(in, i ? "c1" : "c0", MOIRE_BOOL, "");
        ob_input(in, i ? "s1" : "s0", MOIRE_F32, NULL);
    }
    ob_scalar(body, "small", 0x1p-20f);
    ob_node(body, "Mul", "s0 small", "scaled");
    ob_node(body, "Sub", "s0 scaled", "next");
    ob_output(body, "c0");
    ob_output(body, "next");
    ob_node(outer, "Loop", nested ? "n - s1" : "n - x", nested ? "inner" : "y");
    ob_body(outer, "body", body);
    if (nested) {
        ob_output(outer, "c1");
        ob_output(outer, "inner");
        ob_node(b, "Loop", "n - x", "y");
        ob_body(b, "body", outer);
    }
    ob_output(b, "y");
    return b;
}

/* --- an instance ---------------------------------------------------------------------------------------- */
struct runner {
    struct mo_instance *instance;
    const struct mo_plan *plan;
    void *scratch;
    int rc;
};

static void *run(void *arg) {
    struct runner *r = arg;
    r->rc = mo_instance_run(r->instance, 0, r->plan->n_steps, r->scratch);
    return NULL;
}

static void set_inputs(struct mo_instance *instance, int64_t trips) {
    static float x[64];
    const moire_tensor n = {.dtype = MOIRE_I64, .rank = 1, .shape = {1}, .data = &trips, .bytes = 8};
    const moire_tensor t = {.dtype = MOIRE_F32, .rank = 2, .shape = {1, 64}, .data = x, .bytes = sizeof x};
    assert_int_equal(mo_instance_set_input(instance, 0, &n, NULL), MOIRE_OK);
    assert_int_equal(mo_instance_set_input(instance, 1, &t, NULL), MOIRE_OK);
}

static void a_loop_ends_when_nobody_wants_it(void **state) {
    const struct mo_plan_options options = {.isa = mo_isa_detect()};
    (void)state;
    for (int nested = 0; nested < 2; nested++) {
        _Atomic bool unwanted = false;
        struct control c;
        struct runner r = {.rc = -1};
        struct mo_plan *plan;
        pthread_t thread;
        struct ob *b = looping(&c, nested);
        b->env.limits.loop_trips = INT64_MAX;
        assert_int_equal(mo_plan_build(ways_graph(b, true, true), &options, &plan, NULL), MOIRE_OK);
        assert_int_equal(mo_instance_create(plan, &r.instance, NULL), MOIRE_OK);
        r.plan = plan;
        r.scratch = mo_alloc_scratch(plan->env, (size_t)plan->scratch_bytes + 64);
        set_inputs(r.instance, TRIPS);
        mo_instance_heed(r.instance, &unwanted);
        assert_int_equal(pthread_create(&thread, NULL, run, &r), 0);
        usleep(20000);
        atomic_store(&unwanted, true);
        pthread_join(thread, NULL);
        assert_int_equal(r.rc, MOIRE_ECANCELLED);
        assert_non_null(strstr(mo_instance_message(r.instance), "(Loop)"));
        mo_instance_reset(r.instance); /* it heeds nothing any more */
        set_inputs(r.instance, 3);
        run(&r);
        assert_int_equal(r.rc, MOIRE_OK);
        mo_free(plan->env, r.scratch);
        mo_instance_destroy(r.instance);
        mo_plan_destroy(plan);
        control_end(&c);
    }
}

/* --- queries -------------------------------------------------------------------------------------------- */
struct loops {
    moire_runtime *runtime;
    moire_tenant *tenant;
    struct serve_back back;
};

static void start(struct loops *l) {
    struct control c;
    char path[600];
    moire_config config = serve_config();
    moire_tenant_config tenant;
    config.limits = endless;
    config.n_limits = 1;
    moire_tenant_config_init(&tenant);
    *l = (struct loops){.runtime = serve_start(&config)};
    serve_save(looping(&c, true), "loop.onnx", path, sizeof path);
    assert_int_equal(moire_load(l->runtime, path, &tenant, &l->tenant, NULL), MOIRE_OK);
    unlink(path);
    control_end(&c);
}

/* within_ns: from now to its deadline; 0: it has none. */
static moire_query ask(struct loops *l, int64_t trips, int64_t within_ns, struct serve_back *back) {
    static float x[64];
    const moire_tensor in[] = {
        {.dtype = MOIRE_I64, .rank = 1, .shape = {1}, .data = &trips, .bytes = sizeof trips},
        {.dtype = MOIRE_F32, .rank = 2, .shape = {1, 64}, .data = x, .bytes = sizeof x},
    };
    moire_query_options o = serve_options();
    moire_query handle;
    if (within_ns) o.deadline_ns = moire_now(l->runtime) + within_ns;
    assert_int_equal(moire_submit_with(l->tenant, in, 2, &o, serve_note, back, &handle, NULL), MOIRE_OK);
    return handle;
}

static void once(const struct serve_back *back, int code) {
    serve_await(back);
    assert_int_equal(back->code, code);
}

/* On the one core there is, a query behind the loop is answered. */
static void the_core_is_free(struct loops *l) {
    struct serve_back back = {0};
    ask(l, 2, 0, &back);
    once(&back, MOIRE_OK);
}

static void a_cancelled_loop_gives_its_core_back(void **state) {
    struct loops l;
    (void)state;
    start(&l);
    for (int k = 0; k < 5; k++) {
        struct serve_back back = {0};
        const moire_query query = ask(&l, TRIPS, 0, &back);
        usleep(k * 5000); /* before it starts, and while it runs */
        assert_int_equal(moire_cancel(l.runtime, query), MOIRE_OK);
        once(&back, MOIRE_ECANCELLED);
        the_core_is_free(&l);
        assert_int_equal(back.answers, 1);
    }
    moire_runtime_destroy(l.runtime, 1);
}

static void an_expired_loop_gives_its_core_back(void **state) {
    struct loops l;
    (void)state;
    start(&l);
    for (int k = 0; k < 5; k++) {
        struct serve_back back = {0};
        ask(&l, TRIPS, 1 + k * 5000000, &back);
        once(&back, MOIRE_EEXPIRED);
        the_core_is_free(&l);
        assert_int_equal(back.answers, 1);
    }
    moire_runtime_destroy(l.runtime, 1);
}

static void the_end_of_tenant_or_runtime_ends_a_loop(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        struct serve_back back = {0};
        struct loops l;
        start(&l);
        ask(&l, TRIPS, 0, &back);
        usleep(5000);
        if (!whole) assert_int_equal(moire_unload(l.tenant, NULL), MOIRE_OK);
        moire_runtime_destroy(l.runtime, 0);
        once(&back, whole ? MOIRE_ESHUTDOWN : MOIRE_EUNLOADED);
        assert_int_equal(back.answers, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_ends_when_nobody_wants_it),
        cmocka_unit_test(a_cancelled_loop_gives_its_core_back),
        cmocka_unit_test(an_expired_loop_gives_its_core_back),
        cmocka_unit_test(the_end_of_tenant_or_runtime_ends_a_loop),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
