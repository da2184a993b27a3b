/* SPDX-License-Identifier: Apache-2.0
 * test_veltair_serve.c - VELTAIR and its fixed units at work, on the example of veltair_example.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/policy/policy_bed.h"
#include "tests/unit/policy/veltair_example.h"

/* Policies keep 70 % of a target for work: 1429 ns leave the example's 1000. */
static void set_up(struct policy_bed *f, const char *policy, bool resizes) {
    policy_bed_open(f, policy, resizes);
    policy_bed_tenant(f, veltair_example(), 1429);
}

static void check_run(const struct mo_run *run, int begin, int end, int cores) {
    assert_int_equal(run->begin, begin);
    assert_int_equal(run->end, end);
    assert_int_equal(run->n_cores, cores);
}

/* The second query finds two cores for the five that its first block needs, the third finds none.  When the
 * first query is done, the second block grows to five, and the third query begins on the three cores that
 * are left, though it needs more. */
static void blocks_grow_and_hold_nobody_back(void **state) {
    (void)state;
    struct policy_bed f;
    set_up(&f, "veltair", true);
    policy_bed_submit(&f, 0, 1, 1);
    check_run(&f.run[0], 0, LAYERS, 6);
    policy_bed_submit(&f, 0, 2, 2);
    assert_int_equal(f.starts, 2);
    check_run(&f.run[1], 0, 3, 2);
    assert_int_equal(mo_sched_stats(f.s)->conflicts, 1);
    policy_bed_submit(&f, 0, 3, 3);
    assert_int_equal(f.starts, 2);
    policy_bed_finish(&f, f.run[0].lead, 500);
    assert_int_equal(f.resizes, 1);
    assert_int_equal(f.resize.lead, f.run[1].lead);
    assert_int_equal(f.resize.n_cores, 5);
    assert_int_equal(f.starts, 3);
    check_run(&f.run[2], 0, 3, 3);
    policy_bed_close(&f);
}

/* Where blocks keep their cores the first layer runs alone. */
static void without_growth_one_layer_begins(void **state) {
    (void)state;
    struct policy_bed f;
    set_up(&f, "veltair", false);
    policy_bed_submit(&f, 0, 1, 1);
    policy_bed_submit(&f, 0, 2, 2);
    check_run(&f.run[1], 0, 1, 2);
    policy_bed_close(&f);
}

/* A block with a tenth of its time left or less gets no more cores; they begin the next query. */
static void what_ends_soon_does_not_grow(void **state) {
    (void)state;
    struct policy_bed f;
    set_up(&f, "veltair", true);
    policy_bed_submit(&f, 0, 1, 1);
    policy_bed_submit(&f, 0, 2, 2);
    policy_bed_submit(&f, 0, 3, 3);
    int64_t end = mo_sched_view(f.s)->runs[f.run[1].lead].predicted_end;
    policy_bed_finish(&f, f.run[0].lead, end - 50);
    assert_int_equal(f.resizes, 0);
    assert_int_equal(f.starts, 3);
    policy_bed_close(&f);
}

/* The second query is behind and wants all eight cores; it has two.  Those of the first come free one by one:
 * it takes one at two, three and four cores, but at five waits for two. */
static void growth_is_by_a_quarter(void **state) {
    (void)state;
    static const int inside[] = {3, 4, 5, 5, 7, 7};
    struct policy_bed f;
    set_up(&f, "veltair", true);
    policy_bed_submit(&f, 0, 1, 1);
    policy_bed_submit(&f, 0, 1, 901);
    check_run(&f.run[1], 0, 3, 2);
    const struct mo_view_run *run = &mo_sched_view(f.s)->runs[f.run[1].lead];
    assert_int_equal(run->wanted, CORES);
    struct mo_cores left = f.run[0].cores;
    for (int i = 0; i < 6; i++) {
        struct mo_cores one = mo_cores_take(&left, 1, -1);
        if (i)
            mo_sched_cores_back(f.s, -1, &one, 910 + i);
        else
            mo_sched_block_done(f.s, f.run[0].lead, true, MOIRE_OK, 1, 910, &left, 910);
        assert_int_equal(run->n_cores, inside[i]);
    }
    policy_bed_close(&f);
}

/* Layer 0 needs four cores, the whole model six. */
static void units_of_fixed_size(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        int end, cores;
    } rows[] = {{"layerwise", 1, 4}, {"veltair-ac", 1, 4}, {"fixed6", LAYERS, 6}, {"veltair-as", LAYERS, 6}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy_bed f;
        set_up(&f, rows[i].policy, true);
        policy_bed_submit(&f, 0, 1, 1);
        check_run(&f.run[0], 0, rows[i].end, rows[i].cores);
        policy_bed_close(&f);
    }
}

/* Layer 0 has 400 of 1000 ns.  A query that has waited 400 ns has 600 ns for 1000, and needs seven cores
 * (228 of 240 ns); after 900 ns it asks for twice its pace, eight (200 ns); past its deadline for no more
 * than in the beginning. */
static void who_has_waited_catches_up(void **state) {
    (void)state;
    static const struct {
        int64_t waited;
        int cores;
    } rows[] = {{0, 4}, {400, 7}, {900, 8}, {2000, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy_bed f;
        set_up(&f, "layerwise", true);
        policy_bed_submit(&f, 0, 1, 1 + rows[i].waited);
        check_run(&f.run[0], 0, 1, rows[i].cores);
        policy_bed_close(&f);
    }
}

/* Each query has the fixed count on which it meets its target, 6 of 8: the second waits for the first. */
static void whole_models_wait_for_their_cores(void **state) {
    (void)state;
    struct policy_bed f;
    set_up(&f, "model-wise", true);
    policy_bed_submit(&f, 0, 1, 1);
    check_run(&f.run[0], 0, LAYERS, 6);
    policy_bed_submit(&f, 0, 2, 2);
    assert_int_equal(f.starts, 1);
    policy_bed_finish(&f, f.run[0].lead, 900);
    check_run(&f.run[1], 0, LAYERS, 6);
    policy_bed_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_grow_and_hold_nobody_back),
        cmocka_unit_test(without_growth_one_layer_begins),
        cmocka_unit_test(what_ends_soon_does_not_grow),
        cmocka_unit_test(growth_is_by_a_quarter),
        cmocka_unit_test(units_of_fixed_size),
        cmocka_unit_test(who_has_waited_catches_up),
        cmocka_unit_test(whole_models_wait_for_their_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
