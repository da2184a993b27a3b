/* SPDX-License-Identifier: Apache-2.0
 * test_gpulet_late.c - tenants that come late, and queries that no let can serve in time: in virtual time,
 * under every server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "runtime/sched/policy.h"
#include "tests/unit/lets/lets_bed.h"

static const int64_t MS = 1000000, SECOND = 1000000000;
enum { TENANTS = 2, QUEUE = 512 };
enum { LENET, GOOGLENET, RESNET }; /* of plan_case_paper() */

struct bed {
    struct lets_bed lets;
    int accepted, answered, ok[TENANTS], shed[TENANTS];
    int64_t latest; /* that a query was answered after its deadline */
};

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct bed *b = ctx;
    b->answered++;
    b->ok[tenant] += a->code == MOIRE_OK;
    b->shed[tenant] += a->code == MOIRE_ESHED || a->code == MOIRE_EEXPIRED;
    if (a->code && a->end - a->deadline > b->latest) b->latest = a->end - a->deadline;
}

static struct bed *lay_with(const struct mo_policy *policy, int n_gpus, bool shared_weights,
                            int64_t memory_bytes, int64_t prepare_ns) {
    struct bed *b = calloc(1, sizeof *b);
    lets_bed_lay(&b->lets, n_gpus, &MS, 1);
    b->lets.gpus.prepare_ns[0] = prepare_ns;
    b->lets.gpus.kinds[0].shared_weights = shared_weights;
    if (memory_bytes) b->lets.gpus.kinds[0].memory_bytes = memory_bytes;
    lets_bed_start(
        &b->lets,
        (struct mo_sim_config){
            .policy = policy, .max_queries = 4096, .max_tenants = TENANTS, .answer = answer, .ctx = b},
        1 << 18);
    return b;
}

static struct bed *lay(const struct mo_policy *policy) {
    return lay_with(policy, 1, true, 0, 5 * MS);
}

static void open_tenant(struct bed *b, int i, int model, int64_t qos_ns, double rate) {
    struct mo_sched_tenant_config t = {.qos_ns = qos_ns,
                                       .shed_late = true,
                                       .queue = QUEUE,
                                       .instances = QUEUE,
                                       .profile = b->lets.profile,
                                       .share = b->lets.c.tenants[model].profile,
                                       .declared = rate};
    int index;
    assert_int_equal(mo_sim_open(b->lets.sim, &t, &index, NULL), MOIRE_OK);
    assert_int_equal(index, i);
}

static void submit(struct bed *b, int tenant, int n) {
    for (; n; n--, b->accepted++)
        assert_int_equal(mo_sim_submit(b->lets.sim, tenant, b, NULL, NULL), MOIRE_OK);
}

/* Every query is answered, and the checker accepts the history. */
static void strike(struct bed *b) {
    assert_int_equal(mo_sim_drain(b->lets.sim), 0);
    assert_int_equal(b->answered, b->accepted);
    assert_int_equal(mo_sched_stats(mo_sim_sched(b->lets.sim))->refused, 0);
    lets_bed_strike(&b->lets, b->accepted);
    free(b);
}

/* A target that no let meets, and more queries of it than one list of decisions holds: each is answered by
 * its deadline, alone and beside a tenant that is served. */
static void an_impossible_target_is_shed_in_time(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policy_servers(); *p; p++)
        for (int busy = 0; busy < 2 && !(*p)->learned; busy++) {
            struct bed *b = lay(*p);
            open_tenant(b, 0, LENET, MS / 10, 100);
            if (busy) open_tenant(b, 1, GOOGLENET, 100 * MS, 50);
            for (int k = 0; k < 50; k++) {
                if (k % 10 == 0) submit(b, 0, QUEUE - 1);
                if (busy) submit(b, 1, 1);
                mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 10 * MS);
            }
            mo_sim_drain(b->lets.sim);
            assert_int_equal(b->shed[0], 5 * (QUEUE - 1));
            assert_true(b->latest <= 1000);
            if (busy) assert_true(b->ok[1] > 40);
            strike(b);
        }
}

/* Targets and rates beyond what planners take are their tenants' own trouble. */
static void odd_tenants_do_not_stop_the_others(void **state) {
    (void)state;
    static const struct {
        int64_t qos_ns;
        double rate;
    } odd[] = {{1, 0}, {2, 1e300}, {INT64_MAX / 2, 10}, {MS / 10, 1e9}};
    for (const struct mo_policy *const *p = mo_policy_servers(); *p; p++)
        for (size_t i = 0; i < sizeof odd / sizeof *odd && !(*p)->learned; i++) {
            struct bed *b = lay(*p);
            open_tenant(b, 0, LENET, odd[i].qos_ns, odd[i].rate);
            open_tenant(b, 1, GOOGLENET, 300 * MS, 20);
            for (int k = 0; k < 20; k++) {
                if (odd[i].qos_ns < SECOND) submit(b, 0, 3); /* else they may wait that long */
                submit(b, 1, 1);
                mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 50 * MS);
            }
            mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + SECOND);
            if (b->ok[1] < 15) print_message("%s, %d: %d served\n", (*p)->name, (int)i, b->ok[1]);
            assert_true(b->ok[1] >= 15);
            strike(b);
        }
}

/* The first tenant keeps the GPU busy. */
static void keep_busy(struct bed *b, int64_t until) {
    while (mo_sim_now(b->lets.sim) < until) {
        submit(b, 0, 1);
        mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 8 * MS);
    }
}

/* The second tenant comes meanwhile, goes, and another takes its place when the plan has forgotten it: its
 * first query is in time, for it is planned for at once. */
static void a_new_tenant_is_planned_for_at_once(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policy_servers(); *p; p++) {
        if ((*p)->learned) continue; /* test_inss_bench.c */
        struct bed *b = lay(*p);
        struct mo_sched *sched = mo_sim_sched(b->lets.sim);
        open_tenant(b, 0, GOOGLENET, 100 * MS, 100);
        keep_busy(b, SECOND);
        for (int round = 0; round < 2; round++) {
            open_tenant(b, 1, RESNET, 150 * MS, 20);
            submit(b, 1, 1);
            keep_busy(b, mo_sim_now(b->lets.sim) + 400 * MS);
            if (b->ok[1] != round + 1) print_message("%s, round %d\n", (*p)->name, round);
            assert_int_equal(b->ok[1], round + 1);
            mo_sched_tenant_close(sched, 1, MOIRE_EUNLOADED, mo_sim_now(b->lets.sim));
            assert_int_equal(mo_sched_tenant_pending(sched, 1), 0);
            mo_sched_tenant_free(sched, 1);
            keep_busy(b, mo_sim_now(b->lets.sim) + 25 * SECOND);
        }
        strike(b);
    }
}

/* Where each let has weights of its own, a plan leaves room for the next one's: while that is prepared, for
 * seconds, everybody is served. */
static void nobody_waits_for_the_next_plan(void **state) {
    (void)state;
    struct plan_case c;
    plan_case_paper(&c, 1);
    const int64_t googlenet = c.tenants[GOOGLENET].profile[0]->memory_bytes,
                  resnet = c.tenants[RESNET].profile[0]->memory_bytes;
    const int64_t room = 21 * (googlenet > resnet ? googlenet : resnet) / 10;
    plan_case_close(&c);
    struct bed *b = lay_with(mo_policy_find("moire-gpu"), 2, false, room, 5 * SECOND);
    open_tenant(b, 0, GOOGLENET, 200 * MS, 40);
    open_tenant(b, 1, RESNET, 300 * MS, 20);
    for (int k = 0; k < 1000; k++) {
        submit(b, 0, k < 200 ? 2 : 4);
        submit(b, 1, k < 200 ? 1 : 2);
        mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + 50 * MS);
    }
    mo_sim_drain(b->lets.sim);
    assert_true(mo_sched_stats(mo_sim_sched(b->lets.sim))->reorganised > 1);
    assert_int_equal(b->ok[0], 200 * 2 + 800 * 4);
    assert_int_equal(b->ok[1], 200 + 800 * 2);
    strike(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_impossible_target_is_shed_in_time),
        cmocka_unit_test(odd_tenants_do_not_stop_the_others),
        cmocka_unit_test(a_new_tenant_is_planned_for_at_once),
        cmocka_unit_test(nobody_waits_for_the_next_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
