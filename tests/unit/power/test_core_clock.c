/* SPDX-License-Identifier: Apache-2.0
 * test_core_clock.c - the thread that sets the clock of cores: what is wanted comes to be, is put back, and a
 * machine that forbids it says so once. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include "runtime/power/core_clock.h"
#include "tests/unit/power/power_tree.h"

#define CEILING(cpu) "/sys/devices/system/cpu/cpu" #cpu "/cpufreq/scaling_max_freq"
static const int cpus[] = {0, 2};

static void open_tree(struct power_tree *t) {
    power_tree_open(t);
    power_clock(t, 0, "3500000\n");
    power_clock(t, 2, "3000000\n");
}

/* Another thread writes it, some time. */
static void await(const struct power_tree *t, const char *path, const char *text) {
    const struct timespec ms = {.tv_nsec = 1000000};
    for (int i = 0; i < 10000 && strcmp(power_text(t, path), text) != 0; i++)
        nanosleep(&ms, NULL);
    assert_string_equal(power_text(t, path), text);
}

static void clocks_follow_what_is_wanted(void **state) {
    struct power_tree t;
    struct mo_core_clock *c;
    moire_error err;
    (void)state;
    open_tree(&t);
    assert_int_equal(mo_core_clock_open(&t.env, t.root, cpus, 2, &c, &err), MOIRE_OK);
    mo_core_clock_want(c, 0.6);
    await(&t, CEILING(0), "2100000\n");
    await(&t, CEILING(2), "2100000\n");
    mo_core_clock_want(c, 1); /* as it was, which is not everywhere the highest */
    await(&t, CEILING(0), "3500000\n");
    await(&t, CEILING(2), "3000000\n");
    mo_core_clock_want(c, 0.8);
    await(&t, CEILING(2), "2800000\n");
    mo_core_clock_close(c);
    assert_string_equal(power_text(&t, CEILING(0)), "3500000\n");
    assert_string_equal(power_text(&t, CEILING(2)), "3000000\n");
    assert_int_equal(t.warnings, 0);
    power_tree_close(&t);
}

static void a_policy_chooses_from_what_the_cores_have(void **state) {
    struct power_tree t;
    struct mo_core_clock *c;
    moire_error err;
    struct mo_power_kind kind = {.idle_w = 10, .active_w = 100};
    (void)state;
    open_tree(&t);
    power_put(&t, "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_min_freq", "2500000\n");
    assert_int_equal(mo_core_clock_open(&t.env, t.root, cpus, 2, &c, &err), MOIRE_OK);
    mo_core_clock_describe(c, &kind);
    assert_int_equal(kind.n_clocks, 2); /* 0.6 of 3.5 GHz is below its least */
    assert_true(fabs(kind.clock[0].speed - 0.8) < 1e-9 && fabs(kind.clock[0].power - 0.512) < 1e-9);
    assert_true(kind.clock[1].speed == 1 && kind.clock[1].power == 1);
    mo_core_clock_close(c);
    power_tree_close(&t);
}

static void a_machine_that_forbids_it_says_so(void **state) {
    struct power_tree t;
    struct mo_core_clock *c;
    moire_error err;
    (void)state;
    power_tree_open(&t); /* it shows no clock at all */
    assert_int_equal(mo_core_clock_open(&t.env, t.root, cpus, 2, &c, &err), MOIRE_EUNSUPPORTED);
    assert_null(c);
    assert_int_equal(mo_core_clock_open(&t.env, t.root, cpus, 0, &c, &err), MOIRE_ELIMIT);
    power_clock(&t, 0, "3500000"); /* put back it has a line end */
    power_clock(&t, 2, "3000000\n");
    t.unwritable = "cpu2/cpufreq"; /* the second one cannot be set: known when it is tried */
    assert_int_equal(mo_core_clock_open(&t.env, t.root, cpus, 2, &c, &err), MOIRE_OK);
    mo_core_clock_want(c, 0.6);
    await(&t, CEILING(0), "3500000\n");
    mo_core_clock_want(c, 0.8); /* not tried again */
    mo_core_clock_close(c);
    assert_int_equal(t.warnings, 1);
    assert_non_null(strstr(t.log, "clocks of cores stay as they are from now on: "));
    assert_string_equal(power_text(&t, CEILING(0)), "3500000\n");
    power_tree_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_follow_what_is_wanted),
        cmocka_unit_test(a_policy_chooses_from_what_the_cores_have),
        cmocka_unit_test(a_machine_that_forbids_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
