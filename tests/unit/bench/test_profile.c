/* SPDX-License-Identifier: Apache-2.0
 * test_profile.c - ceilings, the roofline they make, and profiles by layer as JSON and trace.  No times are
 * asserted, only what holds on every machine. */
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
#include "bench/kernels/layer_profile.h"
#include "bench/kernels/team_cost.h"
#include "runtime/device/topology.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/kernels/layer_case.h"

static const struct layer_case conv = {.op_type = "Conv",
                                       .domain = "",
                                       .opset = 13,
                                       .inputs = "1x32x14x14 c48x32x3x3 c48",
                                       .attributes = "pads:v=1,1,1,1 act:i=1",
                                       .layout = LAYER_C16};

/* A machine that never was: 100 GF/s, and a level ten times slower each. */
static const struct mo_ceiling made_up = {
    .isa = MO_ISA_BASE,
    .threads = 1,
    .gf = {100, 80},
    .fma_gf = 100,
    .level = {
        {1000, 1000, 1000, 500}, {10000, 5000, 50, 100}, {100000, 50000, 10, 5}, {INT64_MAX, 500000, 1, 1}}};

static void ceilings_are_measured_on_every_level(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    moire_error err = {0};
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        struct mo_ceiling c;
        double again;
        if (mo_ceiling_measure(&env, (enum mo_isa)isa, 1, &c, &err)) fail_msg("%s", err.message);
        for (int form = 0; form < MO_PROBE_FORMS; form++)
            assert_true(c.gf[form] > 0 && c.gf[form] <= c.fma_gf);
        for (int l = 0; l < MO_LEVELS; l++) {
            assert_true(c.level[l].read_gb > 0 && c.level[l].copy_gb > 0);
            if (l) assert_true(c.level[l].tried > c.level[l - 1].tried);
            if (l) assert_true(c.level[l].capacity > c.level[l - 1].capacity);
        }
        assert_int_equal(mo_ceiling_again(&env, &c, &again, &err), MOIRE_OK);
        assert_true(again > 0);
        json_t *json = mo_ceiling_json(&c);
        assert_int_equal(json_array_size(json_object_get(json, "levels")), MO_LEVELS);
        assert_string_equal(json_string_value(json_object_get(json, "isa")), mo_isa_name((enum mo_isa)isa));
        json_decref(json);
    }
}

/* The tile's loops must do the arithmetic they are credited with. */
static void probes_compute_what_they_count(void **state) {
    (void)state;
    static _Alignas(64) float w[MO_PROBE_FLOATS], x[MO_PROBE_FLOATS];
    for (int i = 0; i < MO_PROBE_FLOATS; i++)
        w[i] = x[i] = 1;
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        const struct mo_probe *p = mo_probe_of((enum mo_isa)isa);
        for (int form = 0; form < MO_PROBE_FORMS; form++) {
            /* all operands are 1: the sum of the accumulators is the number of multiply-adds */
            double macs =
                3.0 * (form == MO_PROBE_PAIRED ? 2 : 1) * p->lanes * p->pixels[form] * MO_PROBE_DEPTH;
            assert_true((double)p->tile[form](w, x, 3) == macs);
        }
        assert_true(p->read(w, 1024) == 1024);
        memset(x, 0, sizeof x);
        p->copy(x, w, 1024);
        assert_true(x[0] == 1 && x[1023] == 1 && x[1024] == 0);
        for (int i = 0; i < MO_PROBE_FLOATS; i++)
            x[i] = 1;
    }
}

static void the_roofline_names_its_limit(void **state) {
    (void)state;
    static const struct {
        double flops, bytes, ns;
        const char *limit;
    } rows[] = {{1e6, 100, 1e4, "fma"}, /* much work on few bytes */
                {10, 900, 0.9, "L1"},   /* 1000 GB/s */
                {10, 9000, 90, "L2"},   /* 100: the copy is faster than the read */
                {10, 90000, 9000, "L3"}, {10, 1e6, 1e6, "memory"}, {1e9, 1e6, 1e7, "fma"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *limit;
        double ns = mo_ceiling_bound(&made_up, rows[i].flops, rows[i].bytes, &limit);
        if (fabs(ns - rows[i].ns) > 1e-6 * rows[i].ns || strcmp(limit, rows[i].limit) != 0)
            fail_msg("row %zu: %g ns, %s", i, ns, limit);
    }
}

/* --- profiles ------------------------------------------------------------------------------------------- */
struct place {
    struct mo_plan *plan;
    struct mo_instance *instance;
};

static void open_place(struct place *p, const struct mo_env *env) {
    char why[256];
    moire_error err = {0};
    struct mo_graph *g = layer_case_graph(env, &conv, 0, why, sizeof why);
    if (!g) fail_msg("%s", why);
    if (mo_plan_build(g, &(struct mo_plan_options){.isa = mo_isa_detect()}, &p->plan, &err))
        fail_msg("%s", err.message);
    assert_int_equal(mo_instance_create(p->plan, &p->instance, &err), MOIRE_OK);
}

static void close_place(struct place *p) {
    mo_instance_destroy(p->instance);
    mo_plan_destroy(p->plan);
}

static double number(const json_t *row, const char *key) {
    const json_t *v = json_object_get(row, key);
    if (!json_is_number(v)) fail_msg("no number '%s'", key);
    return json_number_value(v);
}

static void check_json(const struct place *p, const struct mo_timing *t) {
    json_t *layers = mo_profile_json(p->plan, t, &made_up);
    assert_int_equal(json_array_size(layers), p->plan->n_steps);
    const json_t *row = json_array_get(layers, 0), *first = row;
    for (size_t i = 1; strcmp(json_string_value(json_object_get(row, "operator")), "Conv") != 0; i++)
        assert_non_null(row = json_array_get(layers, i));
    assert_true(number(row, "min_ms") > 0 && number(row, "median_ms") >= number(row, "min_ms"));
    assert_true(number(row, "flops") == 2.0 * 14 * 14 * 48 * 32 * 9);
    assert_true(number(row, "executed_flops") > 0);
    assert_true(fabs(number(row, "gflops") * number(row, "min_ms") * 1e6 / number(row, "flops") - 1) < 1e-6);
    assert_true(fabs(number(row, "fma_share") * 100 / number(row, "executed_gflops") - 1) < 1e-6);
    assert_int_equal(number(row, "threads"), t->threads);
    assert_true(number(first, "share") > 0 && number(first, "share") + number(row, "share") <= 1 + 1e-9);
    assert_string_equal(json_string_value(json_object_get(row, "text")), "Conv 3x3 +relu");
    assert_string_equal(json_string_value(json_object_get(row, "limit")), "memory");
    assert_string_equal(json_string_value(json_object_get(row, "kind")), "generic");
    json_decref(layers);
}

static void check_trace(const struct mo_env *env, const struct place *p, const struct mo_timing *t) {
    char path[] = "/tmp/moire-trace-XXXXXX";
    moire_error err = {0};
    int fd = mkstemp(path), spans = 0;
    close(fd);
    assert_int_equal(mo_profile_write_trace(env, p->plan, t, &made_up, path, &err), MOIRE_OK);
    json_t *trace = json_load_file(path, 0, NULL), *event;
    size_t i;
    unlink(path);
    assert_non_null(trace);
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
        assert_true(number(event, "dur") >= 0 && number(event, "ts") >= 0);
        assert_true(number(event, "ts") + number(event, "dur") <= (double)t->run_ns[0] * 1e-3 + 1e-6);
        spans++;
    }
    assert_true(spans >= t->threads); /* a convolution between reorders: work for all */
    json_decref(trace);
    assert_int_equal(mo_profile_write_trace(env, p->plan, t, &made_up, "/nowhere/at/all.json", &err),
                     MOIRE_EIO);
    assert_non_null(strstr(err.message, "/nowhere/at/all.json"));
}

static void layers_are_timed_on_one_core_and_on_two(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_topology *topology;
    struct place p;
    moire_error err = {0};
    assert_int_equal(mo_topology_create(&env, NULL, 2, "", &topology, &err), MOIRE_OK);
    const int most = topology->n_cores;
    mo_topology_destroy(topology);
    open_place(&p, &env);
    for (int threads = 1; threads <= most; threads++) {
        struct mo_timing t;
        struct mo_timing_options o = {.threads = threads, .repeat = 600, .by_layer = true};
        if (mo_timing_run(&env, p.plan, p.instance, &o, &t, &err)) fail_msg("%s", err.message);
        assert_int_equal(t.n, 600);
        assert_true(t.run_ns[0] > 0 && t.run_ns[0] <= t.run_ns[599]);
        assert_true(t.min_ns[0] <= t.median_ns[0] && t.min_ns[0] <= t.run_ns[0]);
        check_json(&p, &t);
        check_trace(&env, &p, &t);
        mo_timing_free(&env, &t);
        o = (struct mo_timing_options){.threads = threads, .budget_ns = 1};
        assert_int_equal(mo_timing_run(&env, p.plan, p.instance, &o, &t, &err), MOIRE_OK);
        assert_int_equal(t.n, 3); /* the fewest */
        assert_null(t.min_ns);
        mo_timing_free(&env, &t);
    }
    close_place(&p);
}

static void a_team_of_two_is_timed(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_topology *topology;
    struct mo_team_cost cost;
    moire_error err = {0};
    assert_int_equal(mo_topology_create(&env, NULL, 2, "", &topology, &err), MOIRE_OK);
    const bool two = topology->n_cores > 1;
    mo_topology_destroy(topology);
    assert_int_equal(mo_team_cost_measure(&env, &cost, &err), two ? MOIRE_OK : MOIRE_EINVAL);
    if (!two) return;
    json_t *json = mo_team_cost_json(&cost);
    assert_true(number(json, "step_us") > 0);
    assert_true(number(json, "join_us") > 0 && number(json, "join_us") < INFINITY); /* there were changes */
    assert_true(number(json, "leave_us") > 0 && number(json, "leave_us") < INFINITY);
    json_decref(json);
}

static void more_threads_than_cores_is_an_error(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_ceiling c;
    struct mo_timing t;
    struct place p;
    moire_error err = {0};
    open_place(&p, &env);
    const struct mo_timing_options o = {.threads = 1024, .repeat = 1};
    assert_int_equal(mo_timing_run(&env, p.plan, p.instance, &o, &t, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--threads 1024: only"));
    mo_timing_free(&env, &t);
    assert_int_not_equal(mo_ceiling_measure(&env, MO_ISA_BASE, 1024, &c, &err), MOIRE_OK);
    close_place(&p);
}

struct sweep {
    struct fault_sys f;
    struct mo_env env;
    struct place p;
};

static int timed_once(void *ctx) {
    struct sweep *s = ctx;
    struct mo_timing t;
    moire_error err = {0};
    const struct mo_timing_options o = {.threads = 1, .repeat = 2, .by_layer = true};
    int rc = mo_timing_run(&s->env, s->p.plan, s->p.instance, &o, &t, &err);
    mo_timing_free(&s->env, &t);
    return rc;
}

static int measured_once(void *ctx) {
    struct sweep *s = ctx;
    struct mo_ceiling old = {.isa = MO_ISA_BASE, .threads = 1};
    double gf;
    moire_error err = {0};
    return mo_ceiling_again(&s->env, &old, &gf, &err);
}

static void memory_may_run_out(void **state) {
    (void)state;
    struct mo_env plain = mo_env_default();
    struct sweep s = {.env = plain};
    fault_sys_init(&s.f);
    s.env.sys = &s.f.table;
    open_place(&s.p, &plain);
    assert_true(fault_sys_sweep(&s.f, timed_once, &s, 0) >= 5);
    assert_true(fault_sys_sweep(&s.f, measured_once, &s, 0) >= 2);
    close_place(&s.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ceilings_are_measured_on_every_level),
        cmocka_unit_test(probes_compute_what_they_count),
        cmocka_unit_test(the_roofline_names_its_limit),
        cmocka_unit_test(layers_are_timed_on_one_core_and_on_two),
        cmocka_unit_test(a_team_of_two_is_timed),
        cmocka_unit_test(more_threads_than_cores_is_an_error),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
