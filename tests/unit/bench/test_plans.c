/* SPDX-License-Identifier: Apache-2.0
 * test_plans.c - `moire bench plans`: the document is whole, consistent, and the same for any number of
 * workers.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/loads.h"
#include "bench/plans/plans.h"
#include "runtime/planner/check.h"
#include "runtime/planner/rate_bound.h"

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static struct mo_plans_options few(int jobs) {
    struct mo_plans_options o = {
        .machine = {"bench/machines/gpus4-2080ti.json"},
        .scenario = {"bench/scenarios/gpulet-equal.json", "bench/scenarios/traffic.json"},
        .n_machines = 1,
        .n_scenarios = 2,
        .every = 100,
        .load = 1,
        .jobs = jobs};
    static const char *const names[] = {"ideal", "gpulet", "sbp"};
    for (int i = 0; i < 3; i++)
        o.planner[o.n_planners++] = mo_planner_find(names[i]);
    return o;
}

static json_t *compare(const struct mo_plans_options *o) {
    json_t *d, *row;
    size_t i;
    moire_error err = {0};
    if (mo_plans_document(the_env(), o, &d, &err)) fail_msg("%s", err.message);
    json_array_foreach(json_object_get(d, "results"), i, row) {
        json_object_del(row, "plan_ms_p50");
        json_object_del(row, "plan_ms_max");
    }
    return d;
}

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

static void rows_agree_with_each_other(void **state) {
    (void)state;
    struct mo_plans_options o = few(1);
    json_t *d = compare(&o), *results = json_object_get(d, "results");
    assert_int_equal(json_array_size(results), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *row = json_array_get(results, i);
        assert_int_equal(number(row, "scenarios"), 11);
        assert_true(number(row, "holding") <= number(row, "placed"));
        assert_true(number(row, "rate_vs_bound") > 0 && number(row, "rate_vs_bound") <= 1);
        assert_true(number(row, "claimed_vs_sbp") >= number(row, "throughput_vs_sbp"));
        assert_int_equal(json_object_size(json_object_get(row, "rates")), 2);
        /* nobody holds more than ideal, which holds what it places */
        assert_true(number(row, "rate_vs_ideal") <= 1.02);
    }
    const json_t *ideal = json_array_get(results, 0), *sbp = json_array_get(results, 2);
    assert_true(number(ideal, "missed_vs_ideal") == 0 && number(ideal, "violations") == 0);
    assert_true(number(ideal, "rate_vs_ideal") == 1 && number(sbp, "throughput_vs_sbp") == 1);
    assert_true(number(ideal, "placed") - number(sbp, "holding") == number(sbp, "missed_vs_ideal"));
    json_decref(d);
}

/* gpulet-int has no plan for three steps in a row of the long load, and has one for higher steps. */
static void a_step_that_fails_is_not_the_end(void **state) {
    (void)state;
    static struct mo_bench_plan_view view;
    static struct mo_lets_plan plan;
    struct mo_plans_options o = few(1);
    struct mo_planner_bound bound;
    moire_error err = {0};
    int highest = 0, gap = 0, fails = 0;
    double most = 0;
    o.scenario[1] = "bench/scenarios/gpulet-long-only.json";
    o.planner[0] = mo_planner_find("gpulet-int");
    o.n_planners = 1;
    json_t *d = compare(&o);
    if (mo_bench_plan_open(the_env(), o.machine[0], o.scenario[1], &view, &err)) fail_msg("%s", err.message);
    mo_planner_bound(&view.view, &bound);
    for (int k = 1; k <= 100; k++) {
        double load = view.view.n_gpus / bound.gpus * k / 100, sum = 0;
        mo_bench_plan_load(&view, load);
        assert_int_equal(
            mo_plan_make(o.planner[0], &view.view, view.scratch, view.scratch_bytes, &plan, &err), 0);
        for (int t = 0; t < view.view.n_tenants; t++)
            sum += view.tenants[t].rate;
        bool holds =
            plan.complete && mo_plan_violations(&view.view, &plan, view.scratch, view.scratch_bytes) < 0.01;
        fails = holds ? 0 : fails + 1;
        if (!holds) continue;
        gap = k - highest - 1 > gap ? k - highest - 1 : gap;
        most = sum;
        highest = k;
    }
    print_message("the highest step with a plan is %d of 100, after %d without one\n", highest, gap);
    assert_true(gap >= 3 && fails > 0);
    const json_t *rates = json_object_get(json_array_get(json_object_get(d, "results"), 0), "rates");
    assert_true(number(rates, "gpulet-long-only") > most * (1 - 1e-9));
    assert_true(number(rates, "gpulet-long-only") < most * (1 + 1e-9));
    mo_bench_plan_close(the_env(), &view);
    json_decref(d);
}

/* By falling rate alone 816 loads find a place, by rising rate x target 838. */
static void two_orders_place_more_than_one(void **state) {
    (void)state;
    static struct mo_bench_plan_view view;
    static struct mo_lets_plan plan;
    const struct mo_plans_options o = few(1);
    moire_error err = {0};
    int placed = 0;
    if (mo_bench_plan_open(the_env(), o.machine[0], o.scenario[0], &view, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < MO_LOADS_GRID; i++) {
        double rate[MO_LOADS_MODELS];
        mo_loads_rates(i, rate);
        for (int t = 0; t < MO_LOADS_MODELS; t++)
            view.tenants[t].rate = rate[t];
        if (mo_plan_make(mo_planner_find("gpulet-int"), &view.view, view.scratch, view.scratch_bytes, &plan,
                         &err))
            fail_msg("load %d: %s", i, err.message);
        if (!plan.complete) continue;
        if (mo_plan_check(&view.view, &plan, &err)) fail_msg("load %d: %s", i, err.message);
        placed++;
    }
    print_message("gpulet-int places %d loads\n", placed);
    assert_true(placed > 838);
    mo_bench_plan_close(the_env(), &view);
}

static void workers_change_nothing_but_the_time(void **state) {
    (void)state;
    struct mo_plans_options one = few(1), three = few(3);
    json_t *a = compare(&one), *b = compare(&three);
    assert_true(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

static void a_page_is_written(void **state) {
    (void)state;
    char path[] = "/tmp/moire-plans-XXXXXX";
    moire_error err = {0};
    struct mo_plans_options o = few(2);
    o.n_planners = 1;
    o.every = 1023;
    o.n_scenarios = 1;
    o.scaling = true;
    json_t *d;
    if (mo_plans_document(the_env(), &o, &d, &err)) fail_msg("%s", err.message);
    assert_true(json_array_size(json_object_get(d, "scaling")) > 0);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(mo_plans_report(the_env(), d, path, &err), MOIRE_OK);
    unlink(path);
    json_decref(d);
}

static void what_cannot_be_compared_is_refused(void **state) {
    (void)state;
    json_t *d;
    moire_error err = {0};
    struct mo_plans_options o = few(1);
    o.scenario[0] = "bench/scenarios/game.json";
    assert_int_equal(mo_plans_document(the_env(), &o, &d, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "five models of the grid"));
    o = few(1);
    o.machine[0] = "bench/machines/nowhere.json";
    assert_int_equal(mo_plans_document(the_env(), &o, &d, &err), MOIRE_EIO);
    o.n_planners = 0;
    assert_int_equal(mo_plans_document(the_env(), &o, &d, &err), MOIRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_agree_with_each_other),
        cmocka_unit_test(a_step_that_fails_is_not_the_end),
        cmocka_unit_test(two_orders_place_more_than_one),
        cmocka_unit_test(workers_change_nothing_but_the_time),
        cmocka_unit_test(a_page_is_written),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
