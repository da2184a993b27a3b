/* SPDX-License-Identifier: Apache-2.0
 * test_dag.c - applications: which graphs are refused, and how targets are divided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/planner/dag.h"

enum { MS = 1000000 };

/* Latency (fixed + each x batch) / share. */
static struct mo_share_profile *profile(const struct mo_env *env, double fixed_ms, double each_ms) {
    static const int batch[] = {1, 32}, share[] = {100, 1000};
    struct mo_share_profile *p = mo_share_create(env, 2, batch, 2, share);
    assert_non_null(p);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            struct mo_share_cell cell = {
                (int64_t)((fixed_ms + each_ms * batch[i]) * MS * MO_SHARE_WHOLE / share[j]), {-1, -1, -1}};
            mo_share_record(p, i, j, &cell);
        }
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    return p;
}

static struct mo_dag traffic(void) {
    return (struct mo_dag){
        .name = "traffic", .n = 3, .stage = {{"ssd", 1, 0, {0}}, {"goo", 1, 1, {0}}, {"vgg", 1, 1, {0}}}};
}

static void refused(struct mo_dag dag, const char *words) {
    moire_error err = {0};
    assert_int_equal(mo_dag_finish(&dag, &err), MOIRE_EINVAL);
    if (!strstr(err.message, words)) print_message("%s\n", err.message);
    assert_non_null(strstr(err.message, words));
}

static void bad_graphs_are_named(void **state) {
    (void)state;
    struct mo_dag d = traffic();
    d.stage[0].n_after = 1; /* ssd waits for vgg, which waits for ssd */
    d.stage[0].after[0] = 2;
    refused(d, "circle");
    refused(d, "'traffic'");
    d.stage[0].after[0] = 0; /* the others only follow */
    refused(d, "stage 'ssd' waits for itself, in a circle");
    d = traffic();
    d.stage[1].after[0] = 7;
    refused(d, "stage 'goo' waits for one that is missing");
    d = traffic();
    d.stage[2].count = 0;
    refused(d, "stage 'vgg' asks its model 0 times");
    d.n = 0;
    refused(d, "stages");
}

static void levels_are_longest_ways(void **state) {
    (void)state;
    struct mo_dag d = traffic();
    assert_int_equal(mo_dag_finish(&d, NULL), MOIRE_OK);
    assert_int_equal(d.n_levels, 2);
    assert_int_equal(d.level[0], 0);
    assert_int_equal(d.level[2], 1);
    /* a fourth that waits for the first and the third, named before them all */
    struct mo_dag e = {.name = "e",
                       .n = 4,
                       .stage = {{"d", 1, 2, {1, 3}}, {"a", 1, 0, {0}}, {"b", 1, 1, {1}}, {"c", 1, 1, {2}}}};
    assert_int_equal(mo_dag_finish(&e, NULL), MOIRE_OK);
    assert_int_equal(e.n_levels, 4);
    assert_int_equal(e.level[0], 3);
}

/* No division on the same grid is cheaper, by trying them all. */
static void the_division_is_the_cheapest(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_dag d = traffic();
    d.stage[1].count = 3;
    assert_int_equal(mo_dag_finish(&d, NULL), MOIRE_OK);
    const struct mo_share_profile *p[3] = {profile(&env, 4, 1), profile(&env, 2, 0.4), profile(&env, 9, 2)};
    const struct mo_share_profile *const *by_stage[3] = {&p[0], &p[1], &p[2]};
    int64_t split[MO_DAG_STAGES], target = 136 * MS;
    assert_int_equal(mo_dag_split(&d, by_stage, 1, target, split, NULL), MOIRE_OK);
    assert_int_equal(split[0] + split[1], target);
    double cost[2] = {0, INFINITY}; /* of the division found, of the best one */
    for (int step = 0; step <= 200; step++) {
        int64_t first = target * step / 200;
        double sum = 0;
        for (int i = 0; i < 3; i++) {
            double least = INFINITY;
            for (int share = 100; share <= 1000; share += 100)
                least = fmin(least, mo_share_cost(p[i], share, (i ? target - first : first) / 2));
            sum += d.stage[i].count * least;
        }
        if (first == split[0]) cost[0] = sum;
        cost[1] = fmin(cost[1], sum);
    }
    assert_true(isfinite(cost[1]));
    assert_true(cost[0] <= cost[1] * (1 + 1e-9));
    for (int i = 0; i < 3; i++)
        mo_share_destroy((struct mo_share_profile *)p[i]);
}

static void what_does_not_fit_says_what_would(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_dag d = traffic();
    assert_int_equal(mo_dag_finish(&d, NULL), MOIRE_OK);
    const struct mo_share_profile *p[3] = {profile(&env, 4, 1), profile(&env, 2, 1), profile(&env, 9, 1)};
    const struct mo_share_profile *none = NULL;
    const struct mo_share_profile *const *by_stage[3] = {&p[0], &p[1], &p[2]};
    int64_t split[MO_DAG_STAGES];
    moire_error err = {0};
    /* twice 5 ms and twice 10 ms */
    assert_int_equal(mo_dag_split(&d, by_stage, 1, 29 * MS, split, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "do not fit 29.0 ms; 30.6 ms would do"));
    assert_true(split[0] + split[1] == 29 * MS && split[0] == 29 * MS / 3);
    assert_int_equal(mo_dag_split(&d, by_stage, 1, 30600000, split, &err), MOIRE_OK);
    by_stage[1] = &none;
    assert_int_equal(mo_dag_split(&d, by_stage, 1, 1000 * MS, split, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no profile"));
    for (int i = 0; i < 3; i++)
        mo_share_destroy((struct mo_share_profile *)p[i]);
}

static void what_is_left_is_divided_anew(void **state) {
    (void)state;
    struct mo_dag d = {.name = "e", .n = 3, .stage = {{"a", 1, 0, {0}}, {"b", 1, 1, {0}}, {"c", 1, 1, {1}}}};
    assert_int_equal(mo_dag_finish(&d, NULL), MOIRE_OK);
    const int64_t split[] = {20 * MS, 30 * MS, 50 * MS};
    assert_int_equal(mo_dag_part(&d, split, 0, 100 * MS), 20 * MS);
    assert_int_equal(mo_dag_part(&d, split, 1, 96 * MS), 36 * MS);
    assert_int_equal(mo_dag_part(&d, split, 2, 40 * MS), 40 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_graphs_are_named),         cmocka_unit_test(levels_are_longest_ways),
        cmocka_unit_test(the_division_is_the_cheapest), cmocka_unit_test(what_does_not_fit_says_what_would),
        cmocka_unit_test(what_is_left_is_divided_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
