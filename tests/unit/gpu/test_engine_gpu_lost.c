/* SPDX-License-Identifier: Apache-2.0
 * test_engine_gpu_lost.c - the live engine on two GPUs of a toy plugin: one is lost while serving and comes
 * back, under policies that plan and under one that makes trouble; and long batches that are cut for urgent
 * queries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "runtime/engine/device_impl.h"
#include "tests/unit/sched/engine_bed.h"

static const int64_t MS = 1000000, SECOND = 1000000000;

/* The GPU that is lost, -1 = none is; whether the plan in force has a let on a GPU. */
static int lost_gpu(struct bed *b) {
    mo_device_take(b->device);
    const struct mo_view *view = mo_sched_view(b->device->sched);
    int gpu = -1;
    for (int g = 0; g < BED_GPUS; g++)
        if (view->gpu_lost[g]) gpu = g;
    mo_device_drop(b->device);
    return gpu;
}

static bool has_let_on(struct bed *b, int gpu) {
    mo_device_take(b->device);
    const struct mo_lets_plan *plan = mo_sched_view(b->device->sched)->lets;
    bool has = false;
    for (int i = 0; plan && i < plan->n_lets; i++)
        has |= plan->lets[i].gpu == gpu;
    mo_device_drop(b->device);
    return has;
}

/* Queries one by one until `until` holds; the number of them that failed.  Fails after a minute. */
static int feed(struct bed *b, bool (*until)(struct bed *b, int gpu), int gpu) {
    int64_t give_up = mo_now(&b->env) + 60 * SECOND;
    int failed = 0;
    for (int i = 0; !until(b, gpu); i++) {
        if (mo_now(&b->env) > give_up) fail_msg("nothing happened for a minute");
        if (b->n < BED_QUERIES) {
            struct bed_query *q = bed_submit(b, i % BED_TENANTS);
            if (q) bed_wait(b, q);
            failed += q && q->code != MOIRE_OK;
        }
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + MS);
    }
    return failed;
}

static bool is_lost(struct bed *b, int gpu) {
    (void)gpu;
    return lost_gpu(b) >= 0;
}
static bool is_back(struct bed *b, int gpu) {
    (void)gpu;
    return lost_gpu(b) < 0;
}
static bool is_out(struct bed *b, int gpu) {
    return !has_let_on(b, gpu);
}
static bool is_in(struct bed *b, int gpu) {
    return has_let_on(b, gpu);
}

static void a_lost_gpu_leaves_the_plan(void **state) {
    (void)state;
    static const char *const names[] = {"moire-gpu", "moire-gpu-cut", "sbp", NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bed *b = bed_create(names[i] ? mo_policy_find(names[i]) : NULL, false, false, 1);
        bed_open_all(b);
        toy_gpu_fail(&b->toy, &(struct toy_gpu_faults){.work = 7, .code = MOIRE_EDEVICE});
        assert_true(feed(b, is_lost, -1) <= 2 * BED_TENANTS);
        int gpu = lost_gpu(b);
        assert_int_equal(feed(b, is_out, gpu), 0); /* what waits is served by the other */
        int before = b->n;
        bed_load(b, BED_QUERIES / 4, 0);
        mo_engine_drain(b->engine);
        for (int k = before; k < b->n; k++)
            assert_int_equal(b->query[k].code, MOIRE_OK);
        toy_gpu_revive(&b->toy);
        assert_int_equal(feed(b, is_back, -1), 0);
        if (!names[i]) feed(b, is_in, gpu); /* the others may find one GPU enough */
        bed_load(b, BED_QUERIES / 4, 0);
        bed_close(b);
    }
}

/* With none left the last one says what is wrong, and both are used again when they are back. */
static void when_all_are_lost_queries_fail(void **state) {
    (void)state;
    struct bed *b = bed_create(NULL, false, false, 1);
    bed_open_all(b);
    toy_gpu_fail(&b->toy, &(struct toy_gpu_faults){.work = 3, .code = MOIRE_EDEVICE});
    feed(b, is_lost, -1);
    toy_gpu_fail(&b->toy, &(struct toy_gpu_faults){.work = 1, .code = MOIRE_EDEVICE});
    for (int i = 0; i < 20; i++) {
        struct bed_query *q = bed_submit(b, i % BED_TENANTS);
        assert_non_null(q);
        bed_wait(b, q);
        assert_int_equal(q->code, MOIRE_EDEVICE);
    }
    toy_gpu_revive(&b->toy);
    feed(b, is_back, -1);
    feed(b, is_in, 0);
    feed(b, is_in, 1);
    struct bed_query *q = bed_submit(b, 0);
    bed_wait(b, q);
    assert_int_equal(q->code, MOIRE_OK);
    bed_close(b);
}

/* One tenant is urgent, the others keep the GPUs busy with long batches. */
static void long_batches_are_cut(void **state) {
    (void)state;
    static const char *const names[] = {"sbp", "sbp-cut"};
    for (int i = 0; i < 2; i++) {
        struct bed *b = bed_create(mo_policy_find(names[i]), false, false, 200);
        b->priority[0] = 1;
        b->declared = 100;
        bed_open_all(b);
        for (int k = 0; k < 40; k++) {
            for (int n = 0; n < 4; n++)
                bed_submit(b, 1 + n % 2);
            b->env.sys->sleep_until(NULL, mo_now(&b->env) + 3 * MS);
            bed_submit(b, 0);
        }
        mo_engine_drain(b->engine);
        int64_t longest = 0, sum = 0;
        for (int k = 0; k < b->n; k++) {
            assert_int_equal(b->query[k].code, MOIRE_OK);
            if (b->query[k].tenant) continue;
            int64_t waited = b->query[k].start - b->query[k].arrival;
            if (waited > longest) longest = waited;
            sum += waited;
        }
        struct mo_sched_stats stats;
        mo_engine_stats(b->engine, &stats);
        print_message("%s: urgent queries wait %.2f ms, %.2f at most, for their start\n", names[i],
                      (double)sum / 40 * 1e-6, (double)longest * 1e-6);
        if (i)
            assert_true(stats.members > stats.ok);
        else
            assert_int_equal(stats.members, stats.ok);
        bed_close(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_gpu_leaves_the_plan),
        cmocka_unit_test(when_all_are_lost_queries_fail),
        cmocka_unit_test(long_batches_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
