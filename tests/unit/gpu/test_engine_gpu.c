/* SPDX-License-Identifier: Apache-2.0
 * test_engine_gpu.c - the live engine on GPUs, on a toy plugin: every query is answered once and rightly
 * while plans change at random, batches are cut into blocks, queries are cancelled and the GPU fails; and
 * nothing that was opened stays open. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include "runtime/engine/device_impl.h"
#include "tests/unit/sched/engine_bed.h"

static void queries_survive_random_plans_and_blocks(void **state) {
    (void)state;
    struct bed *b = bed_create(NULL, false, false, 1);
    bed_open_all(b);
    bed_load(b, BED_QUERIES, 10);
    mo_engine_drain(b->engine);
    struct mo_engine_gpu_stats stats;
    mo_engine_gpu_stats(b->device, &stats);
    assert_true(stats.changes > 3 && stats.opened > 3 && stats.closed > 0);
    struct mo_sched_stats sched;
    mo_engine_stats(b->engine, &sched);
    assert_true(sched.members > sched.ok / 2 && sched.blocks < 4 * BED_QUERIES);
    assert_true(toy_gpu_counts(&b->toy).queued > 10); /* one behind another */
    bed_close(b);
}

static void a_server_of_the_simulator_serves_live(void **state) {
    (void)state;
    static const char *const names[] = {"moire-gpu", "gpulet-int", "sbp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bed *b = bed_create(mo_policy_find(names[i]), false, false, 1);
        bed_open_all(b);
        bed_load(b, BED_QUERIES, 0);
        mo_engine_drain(b->engine);
        for (int k = 0; k < b->n; k++)
            assert_int_equal(b->query[k].code, MOIRE_OK);
        bed_close(b);
    }
}

/* The n-th call fails, or the n-th run: its queries say so, once, and those after it are served. */
static void failures_are_answered(void **state) {
    (void)state;
    static const struct {
        struct toy_gpu_faults faults;
        int code; /* of some queries */
    } rows[] = {
        {{.run = 5, .code = MOIRE_ENOMEM}, MOIRE_ENOMEM},
        {{.run = 5, .code = MOIRE_EBUSY}, MOIRE_EFAILED},
        {{.work = 5, .code = MOIRE_EFAILED}, MOIRE_EFAILED},
        {{.work = 5, .code = MOIRE_EDEVICE}, MOIRE_EDEVICE},
        {{.work = 5, .hangs = true, .code = MOIRE_EDEVICE}, MOIRE_EDEVICE},
        {{.prepare = 3, .code = MOIRE_ENOMEM}, MOIRE_OK},
        {{.open_let = 1, .code = MOIRE_ENOMEM}, MOIRE_ENOMEM},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bed *b = bed_create(NULL, false, true, 1);
        int found = 0;
        toy_gpu_fail(&b->toy, &rows[i].faults);
        bed_open_all(b);
        bed_load(b, BED_QUERIES / 4, 0);
        mo_engine_drain(b->engine);
        for (int k = 0; k < b->n; k++)
            found += b->query[k].code == rows[i].code;
        assert_true(found > 0);
        if (rows[i].code) {
            char why[MO_ENGINE_WHY];
            bool said = false;
            for (int k = 0; k < BED_TENANTS; k++) {
                mo_engine_gpu_why(b->device, b->tenant[k], why);
                said |= strstr(why, "toy: ") != NULL;
            }
            assert_true(said);
        }
        toy_gpu_revive(&b->toy);
        for (int k = 0; k < BED_TENANTS && !rows[i].faults.open_let; k++) {
            struct bed_query *q = bed_submit(b, k);
            assert_non_null(q);
            bed_wait(b, q);
            assert_int_equal(q->code, MOIRE_OK);
        }
        bed_close(b);
    }
}

static void a_lost_gpu_answers_everything(void **state) {
    (void)state;
    struct bed *b = bed_create(NULL, true, true, 1);
    bed_open_all(b);
    toy_gpu_fail(&b->toy, &(struct toy_gpu_faults){.work = 1, .code = MOIRE_EDEVICE});
    int lost = 0;
    for (int i = 0; i < 100; i++) {
        struct bed_query *q = bed_submit(b, i % BED_TENANTS);
        bed_wait(b, q);
        lost += q->code == MOIRE_EDEVICE;
        assert_true(q->code == MOIRE_EDEVICE || q->code == MOIRE_OK); /* the other GPU is fine */
    }
    assert_true(lost > 0);
    bed_close(b);
}

static void tenants_that_do_not_fit_are_refused(void **state) {
    (void)state;
    for (int nth = 1; nth <= BED_GPUS * BED_BUCKETS; nth++) {
        struct bed *b = bed_create(NULL, true, true, 1);
        moire_error err = {0};
        toy_gpu_fail(&b->toy, &(struct toy_gpu_faults){.load = nth, .code = MOIRE_ENOMEM});
        for (int i = 0; i < BED_TENANTS; i++)
            b->tenant[i] = -1;
        assert_int_equal(bed_open(b, 0, &err), MOIRE_ENOMEM);
        assert_non_null(strstr(err.message, "toy: program_load"));
        b->tenant[0] = -1;
        bed_close(b);
    }
}

/* Tenants come and go while the others are served. */
static void tenants_leave_under_load(void **state) {
    (void)state;
    struct bed *b = bed_create(NULL, false, false, 1);
    bed_open_all(b);
    for (int round = 0; round < 6; round++) {
        bed_load(b, BED_QUERIES / 8, 8);
        mo_engine_close(b->engine, b->tenant[round % BED_TENANTS], MOIRE_EUNLOADED);
        assert_int_equal(bed_open(b, round % BED_TENANTS, NULL), MOIRE_OK);
    }
    bed_close(b);
}

static void an_abort_answers_what_is_open(void **state) {
    (void)state;
    struct bed *b = bed_create(NULL, false, false, 1);
    bed_open_all(b);
    toy_gpu_stretch(&b->toy, 20);
    bed_load(b, BED_QUERIES / 4, 0);
    mo_engine_abort(b->engine, MOIRE_ESHUTDOWN);
    bed_close(b);
}

/* Blocks that take longer than alone are what the policies hear of. */
static void slowdown_is_observed(void **state) {
    (void)state;
    struct bed *b = bed_create(NULL, true, true, 1);
    bed_open_all(b);
    toy_gpu_stretch(&b->toy, 200);
    bed_load(b, BED_QUERIES / 8, 0);
    mo_engine_drain(b->engine);
    for (int i = 0; i < BED_TENANTS; i++)
        assert_true(mo_sched_view(b->device->sched)->tenants[b->tenant[i]].residual > 1.003);
    bed_close(b);
}

/* The process of the GPUs is killed in any moment, under random plans and cut batches: what was in flight or
 * between two segments says that the device was lost, and all else is answered. */
static void a_child_is_killed_under_load(void **state) {
    (void)state;
    struct bed *b = bed_create_in_child();
    struct mo_gpu_child_stats stats;
    int ok = 0;
    bed_open_all(b);
    for (int round = 1; round <= 5; round++) {
        bed_load(b, BED_QUERIES / 8, 10);
        child_case_wait_started(&b->child, round);
        mo_gpu_child_stats(b->toy.system, &stats);
        bed_load(b, BED_QUERIES / 16, 0);
        kill(stats.pid, SIGKILL);
        bed_load(b, BED_QUERIES / 16, 10);
    }
    child_case_wait_started(&b->child, 6);
    for (int i = 0; i < BED_TENANTS; i++) {
        struct bed_query *q = bed_submit(b, i);
        assert_non_null(q);
        bed_wait(b, q);
        assert_int_equal(q->code, MOIRE_OK);
    }
    mo_engine_drain(b->engine);
    for (int i = 0; i < b->n; i++) {
        const int code = b->query[i].code;
        ok += code == MOIRE_OK;
        if (code && code != MOIRE_ECANCELLED) assert_int_equal(code, MOIRE_EDEVICE);
    }
    assert_true(ok > BED_TENANTS);
    bed_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_survive_random_plans_and_blocks),
        cmocka_unit_test(a_server_of_the_simulator_serves_live),
        cmocka_unit_test(failures_are_answered),
        cmocka_unit_test(a_lost_gpu_answers_everything),
        cmocka_unit_test(tenants_that_do_not_fit_are_refused),
        cmocka_unit_test(tenants_leave_under_load),
        cmocka_unit_test(an_abort_answers_what_is_open),
        cmocka_unit_test(slowdown_is_observed),
        cmocka_unit_test(a_child_is_killed_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
