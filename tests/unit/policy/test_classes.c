/* SPDX-License-Identifier: Apache-2.0
 * test_classes.c - moire-classes: urgent tasks wait for a block at most, and nobody starves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/policy/classes.h"
#include "tests/unit/policy/classes_bed.h"

enum { SLA = 200, DEVICES = 4 };

static void open_bed(struct classes_bed *b) {
    const struct mo_policy *p = mo_policy_find("moire-classes");
    assert_non_null(p);
    classes_bed_open(b, p, DEVICES, 0);
}

static int64_t last_end(const struct classes_bed *b, int tenant) {
    int64_t last = -1;
    for (int i = 0; i < b->n_ends; i++)
        if (b->ends[i].tenant == tenant) last = b->ends[i].end;
    return last;
}

/* Batch tasks of 100 blocks of 10 ms have all devices, and lose one for 90 ms 5 ms after the task came. */
static void urgent_tasks_wait_for_a_block(void **state) {
    struct classes_bed b;
    (void)state;
    open_bed(&b);
    classes_bed_tenant(&b, 1000, 100, 0);
    classes_bed_tenant(&b, 90, 1, SLA);
    classes_bed_submit(&b, 0, DEVICES, 0);
    classes_bed_submit(&b, 1, 1, 105);
    classes_bed_close(&b);
    assert_int_equal(b.ends[0].tenant, 1);
    assert_int_equal(b.ends[0].start, 110);
    assert_int_equal(b.ends[0].end, 200);
    assert_int_equal(last_end(&b, 0), 1090); /* no work is lost, and no device idles before */
}

/* Twelve tasks of 90 ms on four devices: two rounds are in time.  Those of the third cannot be, and a task
 * that comes then passes them though they are of its own tenant. */
static void what_is_late_waits(void **state) {
    struct classes_bed b;
    int in_time = 0;
    (void)state;
    open_bed(&b);
    classes_bed_tenant(&b, 90, 1, SLA);
    classes_bed_submit(&b, 0, 16, 0);
    classes_bed_submit(&b, 0, 4, 150);
    classes_bed_close(&b);
    for (int i = 0; i < b.n_ends; i++)
        in_time += b.ends[i].end - b.ends[i].arrival <= SLA;
    assert_int_equal(b.n_ends, 20);
    assert_int_equal(in_time, 12);
}

/* Urgent tasks that would fill five of four devices: each best-effort tenant has its part of the twentieth
 * all the same, of which the documented least is a fourth, and late tasks have theirs. */
static void nobody_starves(void **state) {
    struct classes_bed b;
    int64_t had[3] = {0}, late = 0;
    (void)state;
    open_bed(&b);
    for (int i = 0; i < 2; i++)
        classes_bed_tenant(&b, 1000 * (i + 1), 100 * (i + 1), 0);
    classes_bed_tenant(&b, 50, 1, SLA);
    classes_bed_submit(&b, 0, 20, 0);
    classes_bed_submit(&b, 1, 20, 0);
    const struct mo_view *v = mo_sched_view(mo_sim_sched(b.sim));
    for (int ms = 1; ms <= 2000; ms++) {
        mo_sim_advance(b.sim, (int64_t)(ms + 1) * 1000000);
        if (ms % 10 == 0) classes_bed_submit(&b, 2, 1, ms);
        for (int i = 0; i < v->n_running; i++)
            had[v->queries[v->runs[v->running[i]].query].tenant]++;
    }
    for (int i = 0; i < b.n_ends; i++)
        late += b.ends[i].end - b.ends[i].arrival > SLA;
    const int64_t all = 2000 * DEVICES;
    assert_true(had[0] + had[1] > all / 20 * 9 / 10);
    assert_true(had[0] + had[1] < all / 10);
    for (int i = 0; i < 2; i++)
        assert_true(had[i] > all / 20 / 4 / 2 * 9 / 10);
    assert_true(late > 5);
    classes_bed_close(&b);
}

/* Two devices of four units, one unit kept: best-effort tasks have the other seven, a task begins at once. */
static void a_part_may_be_kept(void **state) {
    static const struct mo_classes_options o = {.units = 4, .kept = 1, .share = 0.05};
    struct mo_policy p = *mo_policy_find("moire-classes");
    struct classes_bed b;
    (void)state;
    p.options = &o;
    classes_bed_open(&b, &p, 8, 0);
    classes_bed_tenant(&b, 1000, 100, 0);
    classes_bed_tenant(&b, 90, 1, SLA);
    classes_bed_submit(&b, 0, 2, 0);
    const struct mo_view *v = mo_sched_view(mo_sim_sched(b.sim));
    assert_int_equal(v->n_idle, 1);
    assert_true(mo_cores_has(&v->idle, 0));
    classes_bed_submit(&b, 1, 1, 3);
    assert_int_equal(v->n_idle, 0);
    classes_bed_close(&b);
    assert_int_equal(b.ends[0].start, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urgent_tasks_wait_for_a_block),
        cmocka_unit_test(what_is_late_waits),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(a_part_may_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
