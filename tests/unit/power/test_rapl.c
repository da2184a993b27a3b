/* SPDX-License-Identifier: Apache-2.0
 * test_rapl.c - counters of CPU packages by powercap and by performance events, on trees of files that are
 * whole, forbidden, malformed or vanish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/power/perf_energy.h"
#include "runtime/power/rapl.h"
#include "tests/unit/power/power_tree.h"

#define RANGE "262143328850"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

static struct mo_energy_config config_of(const struct power_tree *t) {
    return (struct mo_energy_config){.env = &t->env, .root = t->root};
}

static void opens(const struct power_tree *t, const struct mo_energy_meter *m, void **out) {
    const struct mo_energy_config c = config_of(t);
    moire_error err = {0};
    if (m->open(&c, out, &err)) fail_msg("%s", err.message);
}

static void refused(const struct power_tree *t, const struct mo_energy_meter *m, const char *part) {
    const struct mo_energy_config c = config_of(t);
    moire_error err = {0};
    void *out;
    assert_int_equal(m->open(&c, &out, &err), MOIRE_EUNSUPPORTED);
    if (!strstr(err.message, part)) fail_msg("'%s' does not say '%s'", err.message, part);
}

/* --- powercap ------------------------------------------------------------------------------------------- */
static void steps_of_a_counter(void **state) {
    (void)state;
    static const struct {
        uint64_t before, now, range, step;
        bool known;
    } rows[] = {
        {5, 5, 100, 0, true},    {5, 9, 100, 4, true},
        {5, 9, 0, 4, true},      {95, 3, 100, 8, true},
        {100, 0, 100, 0, true},  {9, 5, 0, 0, false},
        {200, 3, 100, 0, false}, {UINT64_MAX - 1, 3, UINT64_MAX, 4, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool known;
        assert_int_equal(mo_rapl_step(rows[i].before, rows[i].now, rows[i].range, &known), rows[i].step);
        assert_int_equal(known, rows[i].known);
    }
}

static void two_packages_with_memory(struct power_tree *t) {
    power_zone(t, "intel-rapl:1", "package-1", "5000000", RANGE);
    power_zone(t, "intel-rapl:0", "package-0", "1000000", RANGE);
    power_zone(t, "intel-rapl:0:0", "core", "0", RANGE);
    power_zone(t, "intel-rapl:0:1", "dram", "70", RANGE);
    power_zone(t, "intel-rapl:2", "psys", "9", RANGE);
    power_zone(t, "intel-rapl-mmio:0", "package-0", "1", RANGE);
    static const char *const others[] = {
        "intel-rapl", "intel-rapl:", "intel-rapl:0:", "intel-rapl:x", "intel-rapl:0:0:0", "intel-rapl:12345"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        power_zone(t, others[i], "package-9", "1", RANGE);
}

static void packages_count_by_themselves(void **state) {
    struct power_tree t;
    moire_energy_row r[MO_ENERGY_ROWS];
    void *m;
    (void)state;
    power_tree_open(&t);
    two_packages_with_memory(&t);
    opens(&t, &mo_energy_rapl, &m);
    power_zone(&t, "intel-rapl:0", "package-0", "3500000", RANGE);
    power_zone(&t, "intel-rapl:1", "package-1", "5000001", RANGE);
    power_zone(&t, "intel-rapl:0:0", "core", "2000000", RANGE);
    power_zone(&t, "intel-rapl:0:1", "dram", "500070", RANGE);
    assert_int_equal(mo_energy_rapl.read(m, r), 5);
    static const struct {
        const char *domain;
        double joules;
        int part;
    } want[] = {{"package-0", 2.5, 0},
                {"package-0/core", 2, 1},
                {"package-0/dram", 0.5, 0},
                {"package-1", 1e-6, 0},
                {"psys", 0, 1}};
    for (int i = 0; i < 5; i++) {
        assert_string_equal(r[i].domain, want[i].domain);
        assert_true(near(r[i].joules, want[i].joules));
        assert_int_equal(r[i].part, want[i].part);
        assert_true(r[i].measured && !r[i].gone);
        assert_string_equal(r[i].device, "cpu");
        assert_string_equal(r[i].source, "rapl");
    }
    mo_energy_rapl.close(m);
    assert_int_equal(t.warnings, 0);
    power_tree_close(&t);
}

static void a_counter_that_begins_anew_goes_on(void **state) {
    struct power_tree t;
    moire_energy_row r[MO_ENERGY_ROWS];
    void *m;
    (void)state;
    power_tree_open(&t);
    power_zone(&t, "intel-rapl:0", "package-0", "262143000000", RANGE);
    opens(&t, &mo_energy_rapl, &m);
    power_zone(&t, "intel-rapl:0", "package-0", "1000000", RANGE);
    assert_int_equal(mo_energy_rapl.read(m, r), 1);
    assert_true(near(r[0].joules, 1.328850));
    power_zone(&t, "intel-rapl:0", "package-0", "500000", RANGE); /* and a whole turn later */
    t.now += (int64_t)3600e9;
    assert_int_equal(mo_energy_rapl.read(m, r), 1);
    assert_true(near(r[0].joules, 1.328850 + 262143.328850 - 0.5));
    assert_non_null(strstr(t.log, "3600 s since the last look; package-0 begins anew every 262143 J"));
    t.now += (int64_t)3600e9;
    mo_energy_rapl.read(m, r);
    assert_int_equal(t.warnings, 1);
    mo_energy_rapl.close(m);
    power_tree_close(&t);
}

static void without_a_range_a_step_back_is_not_counted(void **state) {
    struct power_tree t;
    moire_energy_row r[MO_ENERGY_ROWS];
    void *m;
    (void)state;
    power_tree_open(&t);
    power_zone(&t, "intel-rapl:0", "package-0", "5000000", NULL);
    opens(&t, &mo_energy_rapl, &m);
    for (int i = 0; i < 2; i++) {
        power_zone(&t, "intel-rapl:0", "package-0", i ? "1000000" : "2000000", NULL);
        mo_energy_rapl.read(m, r);
        assert_true(near(r[0].joules, 0));
    }
    assert_int_equal(t.warnings, 1);
    assert_non_null(strstr(t.log, "went back"));
    power_zone(&t, "intel-rapl:0", "package-0", "3000000", NULL);
    mo_energy_rapl.read(m, r);
    assert_true(near(r[0].joules, 2));
    mo_energy_rapl.close(m);
    power_tree_close(&t);
}

static void a_machine_without_counters_says_so(void **state) {
    struct power_tree t;
    (void)state;
    power_tree_open(&t);
    refused(&t, &mo_energy_rapl, "/sys/class/powercap: No such file or directory");
    power_put(&t, "/sys/class/powercap/other/name", "x\n");
    refused(&t, &mo_energy_rapl, "has no intel-rapl:0");
    power_zone(&t, "intel-rapl:0", "package-0", "1", RANGE);
    t.forbidden = "intel-rapl:0/energy_uj";
    refused(&t, &mo_energy_rapl,
            "/sys/class/powercap/intel-rapl:0/energy_uj: Permission denied; run as root");
    t.forbidden = NULL;
    static const char *const bad[] = {"", "garbage", "-5", "12x", "99999999999999999999999", "0x10"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        power_zone(&t, "intel-rapl:0", "package-0", bad[i], RANGE);
        refused(&t, &mo_energy_rapl, "intel-rapl:0/energy_uj: no number in it");
    }
    power_tree_close(&t);
}

static void a_zone_that_is_forbidden_is_left_out(void **state) {
    struct power_tree t;
    moire_energy_row r[MO_ENERGY_ROWS];
    void *m;
    (void)state;
    power_tree_open(&t);
    power_zone(&t, "intel-rapl:0", NULL, "1", RANGE);
    power_zone(&t, "intel-rapl:1", "package-1", "1", RANGE);
    t.forbidden = "intel-rapl:1/";
    opens(&t, &mo_energy_rapl, &m);
    assert_int_equal(mo_energy_rapl.read(m, r), 1);
    assert_string_equal(r[0].domain, "zone-0");
    assert_non_null(strstr(t.log, "1 of 2 zones are left out"));
    mo_energy_rapl.close(m);
    power_tree_close(&t);
}

static void a_package_that_vanishes_keeps_its_joules(void **state) {
    struct power_tree t;
    moire_energy_row r[MO_ENERGY_ROWS];
    void *m;
    (void)state;
    power_tree_open(&t);
    power_zone(&t, "intel-rapl:0", "package-0", "0", RANGE);
    power_zone(&t, "intel-rapl:1", "package-1", "0", RANGE);
    opens(&t, &mo_energy_rapl, &m);
    power_zone(&t, "intel-rapl:1", "package-1", "4000000", RANGE);
    mo_energy_rapl.read(m, r);
    power_zone(&t, "intel-rapl:0", "package-0", "1000000", RANGE);
    power_zone(&t, "intel-rapl:1", NULL, NULL, NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mo_energy_rapl.read(m, r), 2);
    assert_true(near(r[0].joules, 1) && !r[0].gone);
    assert_true(near(r[1].joules, 4) && r[1].gone);
    assert_int_equal(t.warnings, 1);
    assert_non_null(
        strstr(t.log, "intel-rapl:1/energy_uj: No such file or directory; package-1 counts no more"));
    mo_energy_rapl.close(m);
    power_tree_close(&t);
}

/* --- performance events --------------------------------------------------------------------------------- */
#define UNIT "/sys/bus/event_source/devices/power/"

static void put_events(const struct power_tree *t) {
    power_put(t, UNIT "type", "9\n");
    power_put(t, UNIT "cpumask", "0,18\n");
    power_put(t, UNIT "events/energy-pkg", "event=0x02\n");
    power_put(t, UNIT "events/energy-pkg.scale", "2.3283064365386962890625e-10\n");
    power_put(t, "/sys/devices/system/cpu/cpu18/topology/physical_package_id", "1\n");
    power_put(t, "/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
}

static void events_count_each_package(void **state) {
    struct power_tree t;
    moire_energy_row r[MO_ENERGY_ROWS];
    void *m;
    (void)state;
    power_tree_open(&t);
    put_events(&t);
    power_put(&t, UNIT "events/energy-ram", "event=0x03\n");
    power_put(&t, UNIT "events/energy-ram.scale", "0.5\n");
    opens(&t, &mo_energy_perf, &m);
    assert_int_equal(t.type, 9);
    assert_int_equal(t.opened, 4);
    static const struct {
        const char *domain;
        int cpu;
        uint64_t event, value;
        double joules;
    } want[] = {{"package-0", 0, 2, UINT64_C(1) << 33, 2},
                {"package-0/dram", 0, 3, 3, 1.5},
                {"package-1", 18, 2, UINT64_C(1) << 32, 1},
                {"package-1/dram", 18, 3, 0, 0}};
    for (int i = 0; i < 4; i++)
        t.value[i] = want[i].value;
    assert_int_equal(mo_energy_perf.read(m, r), 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(r[i].domain, want[i].domain);
        assert_int_equal(t.cpu[i], want[i].cpu);
        assert_int_equal(t.event[i], want[i].event);
        assert_true(near(r[i].joules, want[i].joules) && r[i].measured && !r[i].part);
    }
    t.lost = 2;
    for (int i = 0; i < 2; i++)
        assert_int_equal(mo_energy_perf.read(m, r), 4);
    assert_true(r[2].gone && near(r[2].joules, 1) && !r[0].gone);
    assert_int_equal(t.warnings, 1);
    mo_energy_perf.close(m);
    power_tree_close(&t);
}

static void events_that_cannot_be_had_say_why(void **state) {
    struct power_tree t;
    (void)state;
    static const struct {
        const char *file, *text, *says;
    } rows[] = {
        {"type", NULL, "power/type: No such file"},
        {"type", "nine\n", "power/type is not understood"},
        {"type", "99999999999\n", "power/type is not understood"},
        {"cpumask", NULL, "cpumask: No such file"},
        {"cpumask", "\n", "cpumask is not understood"},
        {"cpumask", "3-1\n", "cpumask is not understood"},
        {"cpumask", "0;1\n", "cpumask is not understood"},
        {"events/energy-pkg", "config=2\n", "energy-pkg is not understood"},
        {"events/energy-pkg", "event=0x02,x\n", "energy-pkg is not understood"},
        {"events/energy-pkg.scale", "-1\n", "energy-pkg.scale is not understood"},
        {"events/energy-pkg.scale", NULL, "energy-pkg.scale: No such file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[100];
        power_tree_open(&t);
        put_events(&t);
        snprintf(path, sizeof path, UNIT "%s", rows[i].file);
        power_put(&t, path, rows[i].text);
        refused(&t, &mo_energy_perf, rows[i].says);
        power_tree_close(&t);
    }
    power_tree_open(&t);
    put_events(&t);
    t.refuses = -EACCES;
    refused(&t, &mo_energy_perf, "on cpu 0: Permission denied; it takes root, CAP_PERFMON");
    power_tree_close(&t);
}

/* The real call, on an event that every kernel has: the clock of cpu 0, ns, as if they were nanojoules. */
static void the_kernel_counts_what_it_is_asked_for(void **state) {
    (void)state;
    struct power_tree t;
    moire_energy_row r[MO_ENERGY_ROWS];
    moire_error err = {0};
    void *m;
    power_tree_open(&t);
    put_events(&t);
    power_put(&t, UNIT "type", "1\n"); /* PERF_TYPE_SOFTWARE */
    power_put(&t, UNIT "cpumask", "0\n");
    power_put(&t, UNIT "events/energy-pkg", "event=0\n"); /* PERF_COUNT_SW_CPU_CLOCK */
    power_put(&t, UNIT "events/energy-pkg.scale", "1e-9\n");
    struct mo_energy_config c = config_of(&t);
    const struct mo_env real = mo_env_default();
    c.env = &real;
    if (mo_energy_perf.open(&c, &m, &err)) {
        assert_non_null(strstr(err.message, "it takes root")); /* it may be forbidden here */
    } else {
        double before = 0;
        for (int i = 0; i < 100; i++) {
            assert_int_equal(mo_energy_perf.read(m, r), 1);
            assert_true(!r[0].gone && r[0].joules >= before);
            before = r[0].joules;
        }
        assert_true(before > 0);
        mo_energy_perf.close(m);
    }
    power_tree_close(&t);
}

static int open_both(void *ctx) {
    struct power_tree *t = ctx;
    const struct mo_energy_config c = config_of(t);
    void *m;
    int code = mo_energy_rapl.open(&c, &m, NULL);
    if (!code) mo_energy_rapl.close(m);
    if (code) return code;
    code = mo_energy_perf.open(&c, &m, NULL);
    if (!code) mo_energy_perf.close(m);
    t->opened = t->closed = 0;
    return code;
}

static void memory_may_run_out(void **state) {
    struct power_tree t;
    (void)state;
    power_tree_open(&t);
    two_packages_with_memory(&t);
    put_events(&t);
    assert_true(fault_sys_sweep(&t.fault, open_both, &t, MOIRE_ENOMEM) > 0);
    power_tree_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_a_counter),
        cmocka_unit_test(packages_count_by_themselves),
        cmocka_unit_test(a_counter_that_begins_anew_goes_on),
        cmocka_unit_test(without_a_range_a_step_back_is_not_counted),
        cmocka_unit_test(a_machine_without_counters_says_so),
        cmocka_unit_test(a_zone_that_is_forbidden_is_left_out),
        cmocka_unit_test(a_package_that_vanishes_keeps_its_joules),
        cmocka_unit_test(events_count_each_package),
        cmocka_unit_test(events_that_cannot_be_had_say_why),
        cmocka_unit_test(the_kernel_counts_what_it_is_asked_for),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
