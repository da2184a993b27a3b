/* SPDX-License-Identifier: Apache-2.0
 * test_trace_bounds.c - tenants' bounds on cores and weights, from the configuration of a live tenant to what
 * a recording of it says and a reader of recordings takes from that. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/trace.h"
#include "models/zoo.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE };

static char folder[] = "/tmp/moire-bounds-XXXXXX";
static char model[512], record[560];

static int make_model(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    if (!mkdtemp(folder)) return -1;
    snprintf(record, sizeof record, "%s/record", folder);
    return mo_zoo_path(&env, "lenet", folder, model, sizeof model, NULL);
}

static int remove_model(void **state) {
    (void)state;
    unlink(model);
    unlink(record);
    return rmdir(folder);
}

/* First come, first served uses every core that it may. */
static moire_runtime *start(void) {
    moire_config c;
    moire_runtime *rt;
    moire_config_init(&c);
    c.policy = "fcfs";
    c.generic_only = 1;
    c.threads = 2;
    c.record = 1000;
    assert_int_equal(moire_runtime_create(&c, &rt, NULL), MOIRE_OK);
    return rt;
}

static void serve(moire_runtime *rt, int cores, double weight) {
    static float pixels[PIXELS], out[10];
    moire_tensor in = {.dtype = MOIRE_F32,
                       .rank = 4,
                       .shape = {1, 1, SIDE, SIDE},
                       .data = pixels,
                       .bytes = sizeof pixels},
                 result = {.data = out, .bytes = sizeof out};
    moire_tenant_config c;
    moire_tenant *t;
    moire_tenant_config_init(&c);
    c.cores = cores;
    c.weight = weight;
    assert_int_equal(moire_load(rt, model, &c, &t, NULL), MOIRE_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(moire_run(t, &in, 1, &result, 1, NULL), MOIRE_OK);
    moire_drain(rt);
    assert_int_equal(moire_record(rt, record, NULL), MOIRE_OK);
}

static int widest(const struct mo_trace *t) {
    int most = 0;
    for (int i = 0; i < t->n_queries; i++)
        if (t->queries[i].cores > most) most = t->queries[i].cores;
    return most;
}

static void a_tenant_keeps_to_its_cores(void **state) {
    (void)state;
    static struct mo_env env;
    env = mo_env_default();
    for (int bound = 0; bound < 2; bound++) {
        moire_runtime *rt = start();
        struct mo_trace t;
        serve(rt, bound, bound ? 2.5 : 1);
        assert_int_equal(mo_trace_read(&env, record, &t, NULL), MOIRE_OK);
        assert_int_equal(t.n_queries, 5);
        assert_int_equal(widest(&t), bound ? 1 : 2);
        assert_int_equal(t.tenants[0].cores, bound);
        assert_true(t.tenants[0].weight == (bound ? 2.5 : 0));
        mo_trace_free(&t);
        moire_runtime_destroy(rt, 1);
    }
}

static void what_is_out_of_range_is_refused(void **state) {
    (void)state;
    moire_runtime *rt = start();
    moire_error err = {0};
    moire_tenant *t;
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.cores = -1;
    assert_int_equal(moire_load(rt, model, &c, &t, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "cores"));
    c.cores = 0;
    for (int i = 0; i < 3; i++) {
        c.weight = (double[]){-1, 1001, NAN}[i];
        assert_int_equal(moire_load(rt, model, &c, &t, &err), MOIRE_EINVAL);
        assert_non_null(strstr(err.message, "weight"));
    }
    moire_runtime_destroy(rt, 0);
}

/* A recording with other lines of bounds. */
static void faults_of_a_recording_are_said(void **state) {
    (void)state;
    static const char *const bad[] = {"1 0 1", "0 -1 1", "0 1", "0 1 0", "0 1 x", "0 1 2 3"};
    static struct mo_env env;
    env = mo_env_default();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[300];
        struct mo_trace t;
        moire_error err = {0};
        const int n = snprintf(text, sizeof text,
                               "# moire-history 1\n# cores 2\n# policy moire\n# tenant 0 1 0 0 0 0 name\n"
                               "# profile 0 1 600\n# bounds %s\n# end 0\n",
                               bad[i]);
        assert_int_equal(mo_trace_parse(&env, "t", text, (size_t)n, &t, &err), MOIRE_EFORMAT);
        assert_non_null(strstr(err.message, "t:6: "));
        assert_non_null(strstr(err.message, "bounds"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_keeps_to_its_cores),
        cmocka_unit_test(what_is_out_of_range_is_refused),
        cmocka_unit_test(faults_of_a_recording_are_said),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
