/* SPDX-License-Identifier: Apache-2.0
 * test_veltair.c - layer blocks by dynamic threshold: on an example (veltair_example.h) and on the authors'
 * published profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/policy/veltair_blocks.h"
#include "runtime/profile/profile_table.h"
#include "tests/unit/policy/policy_bed.h"
#include "tests/unit/policy/veltair_example.h"

static struct mo_blocks blocks_of(const struct mo_profile *p) {
    return (struct mo_blocks){.profile = p, .cores = CORES, .target = TARGET, .pressure = -1};
}

static void each_layer_needs_its_cores(void **state) {
    (void)state;
    static const int core[LAYERS] = {4, 1, 1, 7, 2};
    struct mo_profile *p = veltair_example();
    struct mo_blocks b = blocks_of(p);
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(mo_blocks_need(&b, i, i + 1), core[i]);
    assert_int_equal(mo_blocks_need(&b, 0, LAYERS), 6);
    mo_profile_destroy(p);
}

/* By one-core time layer 3 has 2100 / 4250 of the target, 494 ns: five cores, 420 ns. */
static void shares_go_by_time_where_asked_or_unknown(void **state) {
    (void)state;
    struct mo_profile *p = veltair_example();
    struct mo_blocks b = blocks_of(p);
    b.by_time = true;
    assert_int_equal(mo_blocks_need(&b, 3, 4), 5);
    b.by_time = false;
    assert_int_equal(mo_blocks_need(&b, 3, 4), 7);
    mo_profile_operations(p, (const int64_t[LAYERS]){0});
    assert_int_equal(mo_blocks_need(&b, 3, 4), 5);
    mo_profile_destroy(p);
}

/* 1000, 520, 300, 296, 295, ... for 200 ns: no count is enough; 300 is within 5 % of the least. */
static void where_no_count_is_enough_few_are_taken(void **state) {
    (void)state;
    struct mo_profile *p = mo_profile_create(policy_bed_env(), 1, CORES);
    static const int64_t ns[CORES] = {1000, 520, 300, 296, 295, 294, 293, 292};
    for (int n = 1; n <= CORES; n++)
        mo_profile_record(p, n, &ns[n - 1]);
    mo_profile_finish(p);
    assert_int_equal(mo_blocks_core(p, -1, CORES, 0, 1, 200), 3);
    assert_int_equal(mo_blocks_core(p, -1, CORES, 0, 1, 295), 5);
    assert_int_equal(mo_blocks_core(p, -1, 2, 0, 1, 200), 2); /* of a smaller machine */
    mo_profile_destroy(p);
}

/* The paper's example: A, B and C need 12, 12 and 24 of 64 cores; 16 are left and go 4, 4, 8. */
static void spare_cores_are_shared_in_proportion(void **state) {
    (void)state;
    assert_true(mo_blocks_limit(64, 48, 12) == 12 + 4);
    assert_true(mo_blocks_limit(64, 48, 24) == 24 + 8);
    assert_true(mo_blocks_limit(64, 12, 12) == 64);
    assert_true(mo_blocks_limit(64, 80, 24) == 24); /* more is asked for than there is */
}

static void a_pivot_needs_the_limit_or_more(void **state) {
    (void)state;
    struct mo_profile *p = veltair_example();
    struct mo_blocks b = blocks_of(p);
    int end[LAYERS];
    assert_int_equal(mo_blocks_pivot(&b, 0, 8), LAYERS);
    assert_int_equal(mo_blocks_pivot(&b, 0, 7.5), LAYERS);
    assert_int_equal(mo_blocks_pivot(&b, 0, 7), 3);
    assert_int_equal(mo_blocks_pivot(&b, 3, 7), LAYERS); /* it begins its block, it does not end it */
    assert_int_equal(mo_blocks_form(&b, 0, 8, end), 1);
    assert_int_equal(end[0], LAYERS);
    assert_int_equal(mo_blocks_form(&b, 0, 6, end), 2);
    assert_int_equal(end[0], 3);
    assert_int_equal(end[1], LAYERS);
    assert_int_equal(mo_blocks_need(&b, 0, 3), 5);
    assert_int_equal(mo_blocks_need(&b, 3, LAYERS), 6);
    mo_profile_destroy(p);
}

/* Under full pressure layer 0 takes twice as long in the version that is best there: eight cores, 400 ns. */
static void versions_change_what_layers_need(void **state) {
    (void)state;
    struct mo_profile *p = veltair_example();
    size_t row = LAYERS + 1;
    p->level = mo_alloc(policy_bed_env(), MO_PROFILE_LEVELS * (CORES + 1) * row * sizeof *p->level);
    assert_non_null(p->level);
    for (int level = 0; level < MO_PROFILE_LEVELS; level++)
        for (int n = 1; n <= CORES; n++)
            for (int i = 0; i < LAYERS; i++) {
                struct mo_profile_does *sum = mo_profile_level(p, level, n);
                int64_t alone = mo_profile_time(p, n, i, i + 1);
                sum[i + 1].solo = sum[i].solo + alone;
                sum[i + 1].under = sum[i].under + (i ? alone : alone * (5 + level) / 5);
            }
    struct mo_blocks b = blocks_of(p);
    b.pressure = 0;
    assert_int_equal(mo_blocks_need(&b, 0, 1), 4);
    b.pressure = 1;
    assert_int_equal(mo_blocks_need(&b, 0, 1), 8);
    assert_int_equal(mo_blocks_need(&b, 0, LAYERS), 8); /* 5600 / 8 + 250 = 950 */
    b.pressure = -1;
    assert_int_equal(mo_blocks_need(&b, 0, 1), 4);
    mo_profile_destroy(p);
}

/* --- the authors' profiles: 64 cores, 10.5 ms; the numbers were worked out apart from this code --- */
static struct mo_profile *published(const char *path) {
    struct mo_profile_table t;
    struct mo_profile *p;
    assert_int_equal(mo_profile_table_read(policy_bed_env(), path, &t, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_table_profile(policy_bed_env(), &t, 0, 64, &p, NULL), MOIRE_OK);
    mo_profile_table_free(&t);
    return p;
}

struct formed {
    int n, end[60], cores[60];
};

static void check_blocks(const struct mo_blocks *b, double limit, const struct formed *wanted) {
    int end[60], n = mo_blocks_form(b, 0, limit, end);
    assert_int_equal(n, wanted->n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(end[i], wanted->end[i]);
        assert_int_equal(mo_blocks_need(b, i ? end[i - 1] : 0, end[i]), wanted->cores[i]);
    }
}

/* Avg_C is 18.  Alone, or beside a GoogLeNet, it is one block; of four, two of each, thres is 6. */
static void published_resnet50(void **state) {
    (void)state;
    static const struct formed one = {1, {53}, {18}},
                               seven = {7, {12, 13, 25, 26, 44, 45, 53}, {13, 25, 19, 25, 18, 25, 23}};
    struct mo_profile *p = published("bench/machines/cores64/resnet50.csv");
    struct mo_blocks b = {.profile = p, .cores = 64, .target = 10.5e6, .pressure = -1};
    int end[60];
    assert_int_equal(mo_blocks_need(&b, 0, 53), 18);
    assert_int_equal(mo_blocks_need(&b, 45, 46), 41); /* the last stage's first 1x1 of stride 2 */
    check_blocks(&b, mo_blocks_limit(64, 18, 18), &one);
    check_blocks(&b, mo_blocks_limit(64, 24, 18), &one);
    check_blocks(&b, mo_blocks_limit(64, 48, 18), &seven);
    assert_int_equal(mo_blocks_form(&b, 0, mo_blocks_limit(64, 72, 18), end), 27);
    b.by_time = true;
    check_blocks(&b, mo_blocks_limit(64, 48, 18), &one);
    assert_int_equal(mo_blocks_form(&b, 0, mo_blocks_limit(64, 72, 18), end), 35);
    mo_profile_destroy(p);
}

static void published_googlenet(void **state) {
    (void)state;
    static const struct formed one = {1, {57}, {6}},
                               many = {22,
                                       {1,  6,  11, 16, 21, 22, 23, 26, 28, 31, 32,
                                        34, 35, 36, 38, 40, 41, 48, 49, 52, 53, 57},
                                       {8, 7, 7, 6, 7, 8, 8, 7, 7, 7, 11, 7, 8, 8, 5, 6, 8, 5, 8, 7, 8, 7}};
    struct mo_profile *p = published("bench/machines/cores64/googlenet.csv");
    struct mo_blocks b = {.profile = p, .cores = 64, .target = 10.5e6, .pressure = -1};
    int end[60];
    check_blocks(&b, mo_blocks_limit(64, 6, 6), &one);
    check_blocks(&b, mo_blocks_limit(64, 24, 6), &one);
    check_blocks(&b, mo_blocks_limit(64, 48, 6), &many);
    assert_int_equal(mo_blocks_form(&b, 0, mo_blocks_limit(64, 72, 6), end), 54);
    b.by_time = true;
    check_blocks(&b, mo_blocks_limit(64, 48, 6), &one);
    assert_int_equal(mo_blocks_form(&b, 0, mo_blocks_limit(64, 72, 6), end), 57);
    mo_profile_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layer_needs_its_cores),
        cmocka_unit_test(shares_go_by_time_where_asked_or_unknown),
        cmocka_unit_test(where_no_count_is_enough_few_are_taken),
        cmocka_unit_test(spare_cores_are_shared_in_proportion),
        cmocka_unit_test(a_pivot_needs_the_limit_or_more),
        cmocka_unit_test(versions_change_what_layers_need),
        cmocka_unit_test(published_resnet50),
        cmocka_unit_test(published_googlenet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
