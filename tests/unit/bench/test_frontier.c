/* SPDX-License-Identifier: Apache-2.0
 * test_frontier.c - the points of a frontier of two classes, by hand-made numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "bench/report/frontier.h"

static void near(double a, double b) {
    if (!(fabs(a - b) <= 1e-9)) fail_msg("%.9g, expected %.9g", a, b);
}

static json_t *point(double load, int n, int met, double a, double of_alone, bool stopped) {
    return json_pack(
        "{s:f, s:b, s:[{s:i, s:f}, {s:i, s:f}, {s:i, s:n}], s:{s:{s:i, s:i}, s:{s:f, s:f, s:f}}}", "load",
        load, "stopped_early", (int)stopped, "tenants", "n", n / 2, "within_qos", a, "n", n / 2, "within_qos",
        2.0 * met / n - a, "n", 0, "within_qos", "classes", "critical", "n", n, "met", met, "best_effort",
        "qps", 10 * of_alone, "of_alone", of_alone, "of_own_alone", 2 * of_alone);
}

static const json_t *find(const json_t *list, const char *system, double load) {
    size_t i;
    json_t *p;
    json_array_foreach((json_t *)list, i, p) {
        if (!strcmp(mo_json_text(p, "system"), system) && mo_json_number(p, "load") == load) return p;
    }
    return NULL;
}

static void points_are_made_of_all_seeds(void **state) {
    (void)state;
    struct mo_bench_scenario scenario = {.n_tenants = 3};
    scenario.tenants[2].cls = MOIRE_BEST_EFFORT;
    json_t *results = json_pack(
        "[{s:s, s:[o,o]}, {s:s, s:[o,o]}, {s:s, s:[o]}, {s:s, s:[o]}]", "name", "x", "loads",
        point(0.7, 100, 80, 0.9, 0.2, false), point(0.3, 100, 90, 1, 0.5, false), "name", "x", "loads",
        point(0.7, 300, 180, 0.7, 0.4, false), point(0.3, 100, 100, 1, 0.7, true), "name", "y", "loads",
        point(0.7, 100, 65, 0.65, 0.3, false), "name", "z", "loads", point(0.7, 100, 10, 0.1, 0.9, false));
    json_t *list = mo_frontier_json(&scenario, results);
    assert_int_equal(json_array_size(list), 4);
    near(mo_json_number(json_array_get(list, 0), "load"), 0.3);
    const json_t *x = find(list, "x", 0.7);
    assert_int_equal(mo_json_number(x, "seeds"), 2);
    near(mo_json_number(x, "critical"), 260.0 / 400);
    near(json_number_value(json_array_get(json_object_get(x, "critical_range"), 0)), 0.6);
    near(json_number_value(json_array_get(json_object_get(x, "critical_range"), 1)), 0.8);
    near(mo_json_number(x, "of_alone"), 0.3);
    near(mo_json_number(x, "qps"), 3);
    near(mo_json_number(x, "of_own_alone"), 0.6);
    near(mo_json_number(x, "worst_critical"), (35 + 75.0) / 200); /* the second: 0.7 of 50, 0.5 of 150 */
    assert_int_equal(mo_json_number(find(list, "x", 0.3), "seeds"), 1); /* the other was stopped early */
    assert_true(json_is_true(json_object_get(x, "best"))); /* y has as much of both, and no more of either */
    assert_true(json_is_true(json_object_get(find(list, "y", 0.7), "best")));
    assert_true(json_is_true(json_object_get(find(list, "z", 0.7), "best")));
    json_array_append_new(
        results, json_pack("{s:s, s:[o]}", "name", "w", "loads", point(0.7, 100, 66, 0.66, 0.3, false)));
    json_decref(list);
    list = mo_frontier_json(&scenario, results);
    assert_false(json_is_true(json_object_get(find(list, "x", 0.7), "best")));
    assert_true(json_is_true(json_object_get(find(list, "w", 0.7), "best")));
    assert_true(json_is_true(json_object_get(find(list, "z", 0.7), "best")));
    json_decref(list);
    json_decref(results);
}

static void one_class_has_no_frontier(void **state) {
    (void)state;
    const struct mo_bench_scenario scenario = {.n_tenants = 1};
    json_t *results = json_pack("[{s:s, s:[{s:f, s:f}]}]", "name", "x", "loads", "load", 0.5, "overall", 1.0);
    json_t *none = mo_frontier_json(&scenario, results);
    assert_true(json_is_null(none));
    json_decref(none);
    json_decref(results);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_made_of_all_seeds),
        cmocka_unit_test(one_class_has_no_frontier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
