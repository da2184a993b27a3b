/* SPDX-License-Identifier: Apache-2.0
 * test_flexy.c - two classes on devices: the paper's rules on examples that are worked by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/policy/flexy.h"
#include "tests/unit/policy/classes_bed.h"

enum { SLA = 200, NEVER = -1 };

static void open_with(struct classes_bed *b, const char *policy, int devices, int reset_ms) {
    const struct mo_policy *p = mo_policy_find(policy);
    assert_non_null(p);
    classes_bed_open(b, p, devices, reset_ms);
}

static const struct mo_sched_stats *stats(const struct classes_bed *b) {
    return mo_sched_stats(mo_sim_sched(b->sim));
}

/* When the i-th answer of a tenant came. */
static int64_t end_of(const struct classes_bed *b, int tenant, int i) {
    for (int k = 0; k < b->n_ends; k++)
        if (b->ends[k].tenant == tenant && i-- == 0) return b->ends[k].end;
    return NEVER;
}

/* Devices on which a batch task (tenant 0) runs now. */
static int batch_devices(const struct classes_bed *b) {
    const struct mo_view *v = mo_sched_view(mo_sim_sched(b->sim));
    int n = 0;
    for (int i = 0; i < v->n_running; i++)
        n += v->queries[v->runs[v->running[i]].query].tenant == 0;
    return n;
}

/* Batch tasks of 1 s fill what they may have; then a task of 90 ms comes. */
static void what_is_kept_serves_at_once(void **state) {
    static const struct {
        const char *policy;
        int batch;   /* devices that batch tasks take of four */
        int64_t end; /* of the task that came at 100 */
    } rows[] = {{"round-robin", 4, 1090}, {"priority", 4, 1090}, {"priority-1", 3, 190},
                {"flexy-0", 4, 1090},     {"flexy-1", 3, 190},   {"priority-reset", 4, 690},
                {"flexy-reset", 4, 690}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct classes_bed b;
        open_with(&b, rows[i].policy, 4, 500);
        classes_bed_tenant(&b, 1000, 1, 0);
        classes_bed_tenant(&b, 90, 1, SLA);
        classes_bed_submit(&b, 0, 4, 0);
        assert_int_equal(batch_devices(&b), rows[i].batch);
        classes_bed_submit(&b, 1, 1, 100);
        classes_bed_close(&b);
        assert_int_equal(end_of(&b, 1, 0), rows[i].end);
    }
}

/* Twelve tasks of 90 ms: Lmax = 90 x 12 = 1080 ms, so U = ceil(5.4), cut to 4: the device that is free at 500
 * is theirs though batch tasks wait.  Two of them: U = ceil(0.9) = 1, and batch has it
 * when the kept device is free again. */
static void devices_follow_the_backlog(void **state) {
    (void)state;
    for (int many = 0; many < 2; many++) {
        struct classes_bed b;
        open_with(&b, "flexy-1", 4, 0);
        classes_bed_tenant(&b, 1000, 1, 0);
        classes_bed_tenant(&b, 90, 1, SLA);
        classes_bed_tenant(&b, 500, 1, 0);
        classes_bed_submit(&b, 2, 1, 0);
        classes_bed_submit(&b, 0, 4, 0);
        classes_bed_submit(&b, 1, many ? 12 : 2, 400);
        mo_sim_advance(b.sim, 582000000);
        assert_int_equal(batch_devices(&b), many ? 2 : 3);
        classes_bed_close(&b);
        assert_int_equal(end_of(&b, 1, 0), 490);
        assert_int_equal(end_of(&b, 1, 1), 580);
    }
}

/* le is the mean of tasks that have ended: three of 300 ms make U = ceil(300 x 1 / 200) = 2 for a task of 20;
 * before any has, 20 x 1 / 200 makes U = 1.  By time these are idle ones; when packed, one serves already. */
static void the_estimate_is_the_recent_mean(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct classes_bed b;
        const bool learnt = way & 1, packs = way & 2;
        const struct mo_flexy_options o = {.order = MO_FLEXY_ELASTIC, .packs = packs};
        const struct mo_policy p = mo_policy_flexy(&o);
        classes_bed_open(&b, &p, 3, 0);
        classes_bed_tenant(&b, 1000, 1, 0);
        classes_bed_tenant(&b, 300, 1, SLA);
        classes_bed_tenant(&b, 20, 1, SLA);
        if (learnt) classes_bed_submit(&b, 1, 3, 0);
        classes_bed_submit(&b, 2, 1, 400);
        classes_bed_submit(&b, 0, 3, 400);
        assert_int_equal(batch_devices(&b), (learnt ? 0 : 1) + packs);
        mo_sim_advance(b.sim, 422000000);
        assert_int_equal(batch_devices(&b), 3);
        classes_bed_close(&b);
    }
}

/* Three tasks wait behind four of batch.  Priority kills three; Flexy needs ceil(90 x 3 / 200) = 2 devices,
 * and the third task waits for one of them. */
static void flexy_kills_only_what_it_needs(void **state) {
    (void)state;
    for (int flexy = 0; flexy < 2; flexy++) {
        struct classes_bed b;
        open_with(&b, flexy ? "flexy-reset" : "priority-reset", 4, 100);
        classes_bed_tenant(&b, 1000, 1, 0);
        classes_bed_tenant(&b, 90, 1, SLA);
        classes_bed_submit(&b, 0, 4, 0);
        classes_bed_submit(&b, 1, 3, 300);
        assert_int_equal(stats(&b)->resets, flexy ? 2 : 3);
        assert_int_equal(stats(&b)->reset_lost_ns, (flexy ? 2 : 3) * INT64_C(300000000));
        mo_sim_advance(b.sim, INT64_C(650000000));
        assert_int_equal(b.n_ends, 3);
        assert_int_equal(end_of(&b, 1, 2), flexy ? 580 : 490);
        assert_int_equal(stats(&b)->resets, flexy ? 2 : 3);
        classes_bed_close(&b);
        assert_int_equal(b.n_ends, 7);
    }
}

/* What ends within the time of a reset is not killed. */
static void flexy_spares_what_ends_soon(void **state) {
    (void)state;
    struct classes_bed b;
    open_with(&b, "flexy-reset", 2, 100);
    classes_bed_tenant(&b, 1000, 1, 0);
    classes_bed_tenant(&b, 90, 1, SLA);
    classes_bed_submit(&b, 0, 2, 0);
    classes_bed_submit(&b, 1, 1, 900);
    assert_int_equal(stats(&b)->resets, 0);
    classes_bed_close(&b);
    assert_int_equal(end_of(&b, 1, 0), 1090);
}

/* Whoever's turn it is: tenants alternate, tasks of one are in order; round-robin asks for no class. */
static void tenants_take_turns(void **state) {
    (void)state;
    struct classes_bed b;
    open_with(&b, "round-robin", 1, 0);
    classes_bed_tenant(&b, 100, 1, 0);
    classes_bed_tenant(&b, 10, 1, SLA);
    classes_bed_submit(&b, 0, 3, 0);
    classes_bed_submit(&b, 1, 3, 0);
    classes_bed_close(&b);
    static const int64_t ends[] = {100, 110, 210, 220, 320, 330};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(b.ends[i].tenant, i % 2);
        assert_int_equal(b.ends[i].end, ends[i]);
    }
}

/* As many devices are kept as one likes, but batch tasks have at least one. */
static void the_reservation_is_an_option(void **state) {
    (void)state;
    for (int order = MO_FLEXY_PRIORITY; order <= MO_FLEXY_ELASTIC; order++)
        for (int keep = 0; keep <= 6; keep++) {
            struct classes_bed b;
            const struct mo_flexy_options o = {.order = (enum mo_flexy_order)order, .keep = keep};
            const struct mo_policy p = mo_policy_flexy(&o);
            classes_bed_open(&b, &p, 4, 0);
            classes_bed_tenant(&b, 1000, 1, 0);
            classes_bed_submit(&b, 0, 6, 0);
            assert_int_equal(batch_devices(&b), keep < 4 ? 4 - keep : 1);
            classes_bed_close(&b);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_serves_at_once),     cmocka_unit_test(devices_follow_the_backlog),
        cmocka_unit_test(the_estimate_is_the_recent_mean), cmocka_unit_test(flexy_kills_only_what_it_needs),
        cmocka_unit_test(flexy_spares_what_ends_soon),     cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(the_reservation_is_an_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
