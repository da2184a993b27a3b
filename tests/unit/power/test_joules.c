/* SPDX-License-Identifier: Apache-2.0
 * test_joules.c - which meters are chosen and what is said of it; boards; the clocks of cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/power/cores_power.h"
#include "runtime/power/cpufreq.h"
#include "runtime/power/joules.h"
#include "tests/unit/power/power_tree.h"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

/* --- the choice ----------------------------------------------------------------------------------------- */
/* Boards whose joules are the test's; negative: they do not tell. */
struct shelf {
    double joules[3];
};

static bool look(void *self, int board, double *watts, double *joules, char *why, size_t n) {
    const struct shelf *s = self;
    *watts = 100;
    *joules = s->joules[board];
    if (*joules < 0) snprintf(why, n, "board %d is silent", board);
    return *joules >= 0;
}

static void put_events(const struct power_tree *t) {
    power_put(t, "/sys/bus/event_source/devices/power/type", "9\n");
    power_put(t, "/sys/bus/event_source/devices/power/cpumask", "0\n");
    power_put(t, "/sys/bus/event_source/devices/power/events/energy-pkg", "event=0x02\n");
    power_put(t, "/sys/bus/event_source/devices/power/events/energy-pkg.scale", "0.25\n");
}

static void the_first_that_opens_serves(void **state) {
    (void)state;
    struct power_tree t;
    struct mo_joules j;
    moire_energy_row r[MO_JOULES_ROWS];
    power_tree_open(&t);
    const struct mo_energy_config c = {.env = &t.env, .root = t.root};
    assert_int_equal(mo_joules_open(&c, &j, NULL), MOIRE_OK);
    assert_false(mo_joules_measured(&j, MO_JOULES_CORES) || mo_joules_measured(&j, MO_JOULES_BOARDS));
    const char *line = mo_joules_line(&j, MO_JOULES_CORES);
    assert_int_equal(strncmp(line, "not measured: rapl: ", 20), 0);
    assert_non_null(strstr(line, "; perf: "));
    assert_string_equal(mo_joules_line(&j, MO_JOULES_BOARDS), "not measured: nvml: there is no GPU");
    assert_int_equal(mo_joules_read(&j, r), 0);
    mo_joules_close(&j);

    put_events(&t);
    power_zone(&t, "intel-rapl:0", "package-0", "0", "1000");
    t.forbidden = "energy_uj";
    assert_int_equal(mo_joules_open(&c, &j, NULL), MOIRE_OK);
    assert_int_equal(strncmp(mo_joules_line(&j, MO_JOULES_CORES), "measured by perf: ", 18), 0);
    t.value[0] = 6;
    assert_int_equal(mo_joules_read(&j, r), 1);
    assert_string_equal(r[0].source, "perf");
    assert_true(near(r[0].joules, 1.5));
    mo_joules_close(&j);

    t.forbidden = NULL;
    assert_int_equal(mo_joules_open(&c, &j, NULL), MOIRE_OK);
    assert_int_equal(strncmp(mo_joules_line(&j, MO_JOULES_CORES), "measured by rapl: ", 18), 0);
    mo_joules_close(&j);
    power_tree_close(&t);
}

static void boards_count_beside_cores(void **state) {
    (void)state;
    struct power_tree t;
    struct mo_joules j;
    moire_energy_row r[MO_JOULES_ROWS];
    struct shelf shelf = {{10, -1, 500}};
    const struct mo_energy_boards boards = {.self = &shelf, .n = 3, .device = "cuda", .look = look};
    power_tree_open(&t);
    power_zone(&t, "intel-rapl:0", "package-0", "0", "1000000000");
    power_zone(&t, "intel-rapl:0:0", "core", "0", "1000000000");
    const struct mo_energy_config c = {.env = &t.env, .root = t.root, .boards = &boards};
    assert_int_equal(mo_joules_open(&c, &j, NULL), MOIRE_OK);
    assert_non_null(strstr(t.log, "left out: cuda 1: board 1 is silent"));
    power_zone(&t, "intel-rapl:0", "package-0", "2000000", "1000000000");
    power_zone(&t, "intel-rapl:0:0", "core", "1000000", "1000000000");
    shelf.joules[0] = 13;
    shelf.joules[2] = -1;
    for (int i = 0; i < 2; i++)
        assert_int_equal(mo_joules_read(&j, r), 4);
    assert_string_equal(r[2].device, "cuda:0");
    assert_string_equal(r[3].device, "cuda:2");
    assert_true(near(r[2].joules, 3) && !r[2].gone && near(r[3].joules, 0) && r[3].gone);
    assert_int_equal(t.warnings, 1);
    assert_true(near(mo_joules_sum(r, 4, "cpu"), 2)); /* the cores are in their package */
    assert_true(near(mo_joules_sum(r, 4, NULL), 5));
    shelf.joules[0] = 1; /* its driver was loaded anew */
    mo_joules_read(&j, r);
    assert_true(near(r[2].joules, 3));
    shelf.joules[0] = 2;
    mo_joules_read(&j, r);
    assert_true(near(r[2].joules, 4));
    mo_joules_close(&j);
    power_tree_close(&t);
}

static int open_all(void *ctx) {
    struct power_tree *t = ctx;
    struct shelf shelf = {{1, 1, 1}};
    const struct mo_energy_boards boards = {.self = &shelf, .n = 3, .device = "cuda", .look = look};
    const struct mo_energy_config c = {.env = &t->env, .root = t->root, .boards = &boards};
    struct mo_joules j;
    const int code = mo_joules_open(&c, &j, NULL);
    if (!code) mo_joules_close(&j);
    return code;
}

static void memory_may_run_out(void **state) {
    (void)state;
    struct power_tree t;
    power_tree_open(&t);
    power_zone(&t, "intel-rapl:0", "package-0", "0", "1000");
    assert_true(fault_sys_sweep(&t.fault, open_all, &t, MOIRE_ENOMEM) >= 2);
    power_tree_close(&t);
}

static void what_is_assumed_of_cores_is_called_so(void **state) {
    (void)state;
    const struct mo_power_kind k = mo_power_of_cores(40);
    assert_int_equal(k.basis, MO_POWER_ASSUMED);
    assert_true(near(mo_power_watts(&k, 1, 1, 0), 270) && near(mo_power_watts(&k, 1, 0, 0), 90));
    assert_non_null(strstr(k.source, "not this machine's"));
}

/* --- clocks --------------------------------------------------------------------------------------------- */
#define CPU "/sys/devices/system/cpu/cpu"

static void clocks_are_seen(void **state) {
    (void)state;
    struct power_tree t;
    struct mo_cpufreq f;
    moire_error err;
    power_tree_open(&t);
    assert_int_equal(mo_cpufreq_look(&t.env, t.root, 0, &f, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "cpu0/cpufreq/cpuinfo_min_freq: No such file"));
    power_clock(&t, 0, "3000000\n");
    assert_int_equal(mo_cpufreq_look(&t.env, t.root, 0, &f, &err), MOIRE_OK);
    assert_string_equal(f.governor, "schedutil");
    assert_string_equal(f.driver, "acpi-cpufreq");
    assert_true(f.least_khz == 800000 && f.most_khz == 3500000 && f.ceiling_khz == 3000000 && f.settable);
    t.forbidden = "scaling_max";
    assert_int_equal(mo_cpufreq_look(&t.env, t.root, 0, &f, &err), MOIRE_EUNSUPPORTED);
    t.forbidden = NULL;
    power_put(&t, CPU "0/cpufreq/scaling_max_freq", "<unsupported>\n");
    assert_int_equal(mo_cpufreq_look(&t.env, t.root, 0, &f, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "scaling_max_freq: no clock in it"));
    power_tree_close(&t);
}

static void a_ceiling_is_set_and_put_back(void **state) {
    (void)state;
    static const int cpus[] = {0, 2};
    static struct mo_cpufreq_ceilings c;
    struct power_tree t;
    moire_error err;
    power_tree_open(&t);
    power_clock(&t, 0, "3500000\n");
    power_clock(&t, 2, "3000000\n");
    assert_int_equal(mo_cpufreq_limit(&t.env, t.root, cpus, 2, 1200000, &c, &err), MOIRE_OK);
    assert_string_equal(power_text(&t, CPU "0/cpufreq/scaling_max_freq"), "1200000\n");
    assert_string_equal(power_text(&t, CPU "2/cpufreq/scaling_max_freq"), "1200000\n");
    mo_cpufreq_restore(&c);
    assert_string_equal(power_text(&t, CPU "0/cpufreq/scaling_max_freq"), "3500000\n");
    assert_string_equal(power_text(&t, CPU "2/cpufreq/scaling_max_freq"), "3000000\n");
    assert_int_equal(mo_cpufreq_limit(&t.env, t.root, cpus, 2, 700000, &c, &err), MOIRE_EINVAL);
    /* the second one forbids it: the first is put back */
    t.unwritable = "cpu2/cpufreq";
    assert_int_equal(mo_cpufreq_limit(&t.env, t.root, cpus, 2, 1200000, &c, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "cpu2/cpufreq/scaling_max_freq: Permission denied; run as root"));
    assert_string_equal(power_text(&t, CPU "0/cpufreq/scaling_max_freq"), "3500000\n");
    t.unwritable = NULL;
    assert_int_equal(mo_cpufreq_limit(&t.env, t.root, cpus, 2, 1200000, &c, &err), MOIRE_OK);
    t.unwritable = "cpu2/cpufreq";
    mo_cpufreq_restore(&c);
    assert_int_equal(t.warnings, 1);
    assert_non_null(strstr(t.log, "it stays at a ceiling that moire set, not at 3000000 kHz"));
    power_tree_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_opens_serves),
        cmocka_unit_test(boards_count_beside_cores),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(what_is_assumed_of_cores_is_called_so),
        cmocka_unit_test(clocks_are_seen),
        cmocka_unit_test(a_ceiling_is_set_and_put_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
