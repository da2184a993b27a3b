/* SPDX-License-Identifier: Apache-2.0
 * test_reset.c - a running block is killed: who may be, what becomes of its query and of its cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/sim/sim.h"

enum { CORES = 2, MS = 1000000, RESET_MS = 5, TENANTS = 2, LAYERS = 4, QUERIES = 8 };

/* A policy that runs whole models in order on a core each, and kills whom the test names. */
struct script {
    int kill; /* slot, -1 = none */
    int tries;
    bool block;  /* its block alone */
    int at_once; /* layers of a block, 0 = all */
};
static struct script script;

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)state, (void)event;
    struct mo_cores idle = view->idle;
    if (script.kill >= 0) {
        script.tries++;
        if (script.block)
            mo_decide_reset_block(out, script.kill);
        else
            mo_decide_reset(out, script.kill);
        script.kill = -1;
        return;
    }
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        const int n = script.at_once ? script.at_once : LAYERS;
        for (int k = 0; k < t->n_paused && !mo_cores_none(&idle); k++)
            mo_decide_run(out, t->paused[k], view->queries[t->paused[k]].next_layer + n,
                          mo_cores_take(&idle, 1, -1));
        for (int k = 0; k < t->n_waiting && k < t->free_instances && !mo_cores_none(&idle); k++)
            mo_decide_run(out, t->waiting[k], n, mo_cores_take(&idle, 1, -1));
    }
}

static const struct mo_policy policy = {.name = "scripted", .state_bytes = 64, .dispatch = dispatch};

struct bed {
    struct mo_env env;
    struct mo_sim *sim;
    struct mo_profile *profile;
    int64_t end[QUERIES], ran[QUERIES];
    int n;
};

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct bed *b = ctx;
    (void)tenant;
    assert_int_equal(a->code, MOIRE_OK);
    b->ran[b->n] = a->ran;
    b->end[b->n++] = a->end;
}

/* Tenant 0 is best effort, tenant 1 is not; a query takes 4 ms. */
static void open_bed(struct bed *b, int reset_ms, int queue) {
    int tenant;
    *b = (struct bed){.env = mo_env_default()};
    script = (struct script){.kill = -1};
    b->profile = mo_profile_create(&b->env, LAYERS, CORES);
    mo_profile_record(b->profile, 1, (int64_t[]){MS, MS, MS, MS});
    mo_profile_finish(b->profile);
    const struct mo_sim_config c = {.env = &b->env,
                                    .policy = &policy,
                                    .machine = {.n_cores = CORES, .reset_ns = (int64_t)reset_ms * MS},
                                    .max_queries = QUERIES,
                                    .max_tenants = TENANTS,
                                    .answer = answer,
                                    .ctx = b};
    assert_int_equal(mo_sim_create(&c, &b->sim, NULL), MOIRE_OK);
    for (int i = 0; i < TENANTS; i++) {
        const struct mo_sched_tenant_config t = {
            .best_effort = i == 0, .queue = queue, .instances = CORES, .profile = b->profile};
        assert_int_equal(mo_sim_open(b->sim, &t, &tenant, NULL), MOIRE_OK);
    }
    mo_sim_advance(b->sim, MS);
}

static void close_bed(struct bed *b) {
    assert_int_equal(mo_sim_drain(b->sim), 0);
    assert_int_equal(mo_sim_broken(b->sim), 0);
    mo_sim_destroy(b->sim);
    mo_profile_destroy(b->profile);
}

static int submit(struct bed *b, int tenant) {
    uint64_t handle;
    if (mo_sim_submit(b->sim, tenant, NULL, &handle, NULL)) return -1;
    return mo_query_slot(mo_sched_queries(mo_sim_sched(b->sim)), handle);
}

static const struct mo_view *view_of(const struct bed *b) {
    return mo_sched_view(mo_sim_sched(b->sim));
}
static const struct mo_sched_stats *stats_of(const struct bed *b) {
    return mo_sched_stats(mo_sim_sched(b->sim));
}

/* An arrival at `ms` is the event at which the policy asks for the reset of a slot. */
static void kill_at(struct bed *b, int slot, int ms) {
    uint64_t handle;
    mo_sim_advance(b->sim, (int64_t)ms * MS);
    script.kill = slot;
    assert_int_equal(mo_sim_submit(b->sim, 1, NULL, &handle, NULL), MOIRE_OK);
}

/* Killed at 3 after 2 ms of work; the core is back at 8; it runs again ahead of the one that came later. */
static void a_killed_query_starts_over(void **state) {
    struct bed b;
    (void)state;
    open_bed(&b, RESET_MS, 4);
    const int first = submit(&b, 0), second = submit(&b, 0), third = submit(&b, 0);
    assert_true(first >= 0 && second >= 0 && third >= 0);
    assert_true(view_of(&b)->resets);
    assert_int_equal(view_of(&b)->reset_ns, RESET_MS * MS);
    kill_at(&b, first, 3);
    const struct mo_view *v = view_of(&b);
    assert_int_equal(v->queries[first].run, -1);
    assert_int_equal(v->queries[first].next_layer, 0);
    assert_int_equal(v->queries[first].started, 0);
    assert_int_equal(v->tenants[0].n_waiting, 2);
    assert_int_equal(v->tenants[0].waiting[0], first);
    assert_int_equal(v->tenants[0].waiting[1], third);
    assert_int_equal(v->tenants[0].free_instances, 1);
    assert_int_equal(v->n_idle, 0); /* neither does its core idle */
    assert_int_equal(v->n_running, 1);
    assert_int_equal(stats_of(&b)->resets, 1);
    assert_int_equal(stats_of(&b)->reset_lost_ns, 2 * MS);
    mo_sim_advance(b.sim, 8 * MS);
    assert_int_equal(v->n_running, 2);
    assert_int_equal(b.n, 1); /* the second, at 5: then the first began on its core */
    assert_int_equal(v->queries[first].started, 5 * MS);
    assert_int_equal(v->queries[third].started, 8 * MS);
    close_bed(&b);
    assert_int_equal(b.n, 4);
    assert_int_equal(b.end[1], 9 * MS);
    assert_int_equal(b.ran[1], 4 * MS); /* lost work is not counted to it */
}

/* Blocks of 2 ms.  The second one is killed at 4, after 1 ms: the first one's work stays. */
static void of_a_killed_block_the_block_alone_is_lost(void **state) {
    struct bed b;
    (void)state;
    open_bed(&b, 1, 4);
    script.block = true;
    script.at_once = 2;
    const int first = submit(&b, 0), other = submit(&b, 0);
    kill_at(&b, first, 4);
    const struct mo_view *v = view_of(&b);
    assert_int_equal(v->queries[first].run, -1);
    assert_int_equal(v->queries[first].next_layer, 2);
    assert_int_equal(v->tenants[0].n_paused, 1);
    assert_int_equal(v->tenants[0].paused[0], first);
    assert_int_equal(v->tenants[0].n_waiting, 0);
    assert_int_equal(v->tenants[0].free_instances, 0); /* it keeps its own */
    assert_int_equal(v->n_idle, 0);
    assert_int_equal(stats_of(&b)->resets, 1);
    assert_int_equal(stats_of(&b)->reset_lost_ns, MS);
    kill_at(&b, first, 4); /* it runs no more */
    assert_int_equal(stats_of(&b)->refused, 1);
    assert_true(v->queries[other].run >= 0);
    close_bed(&b);
    assert_int_equal(b.n, 4);
    int64_t ran = 0;
    for (int i = 0; i < b.n; i++)
        ran += b.ran[i];
    assert_int_equal(ran, 4 * 4 * MS); /* none of it the lost one */
}

/* In its first block there is nothing to keep: it waits again. */
static void a_first_block_is_begun_anew(void **state) {
    struct bed b;
    (void)state;
    open_bed(&b, 1, 4);
    script.block = true;
    script.at_once = 2;
    const int first = submit(&b, 0);
    kill_at(&b, first, 2);
    assert_int_equal(view_of(&b)->tenants[0].n_waiting, 1);
    assert_int_equal(view_of(&b)->tenants[0].n_paused, 0);
    assert_int_equal(view_of(&b)->tenants[0].free_instances, CORES);
    assert_int_equal(view_of(&b)->queries[first].started, 0);
    close_bed(&b);
    assert_int_equal(b.n, 2);
}

/* Only running blocks of best-effort tenants, and only where the machine can. */
static void others_are_not_killed(void **state) {
    (void)state;
    for (int can = 0; can < 2; can++) {
        struct bed b;
        open_bed(&b, can ? RESET_MS : 0, 4);
        const int batch = submit(&b, 0), urgent = submit(&b, 1), waits = submit(&b, 0);
        const int slots[] = {urgent, waits, QUERIES + 1};
        for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
            kill_at(&b, slots[i], 2);
        assert_int_equal(stats_of(&b)->refused, 3);
        assert_int_equal(stats_of(&b)->resets, 0);
        kill_at(&b, batch, 3);
        assert_int_equal(stats_of(&b)->resets, can);
        assert_int_equal(stats_of(&b)->refused, can ? 3 : 4);
        assert_int_equal(view_of(&b)->resets, can);
        close_bed(&b);
    }
}

/* A full queue takes back what was killed, and takes nothing new. */
static void a_full_queue_takes_them_back(void **state) {
    struct bed b;
    (void)state;
    open_bed(&b, RESET_MS, 2);
    const int first = submit(&b, 0), second = submit(&b, 0);
    assert_true(submit(&b, 0) >= 0 && submit(&b, 0) >= 0);
    assert_int_equal(submit(&b, 0), -1);
    kill_at(&b, first, 2);
    kill_at(&b, second, 3);
    assert_int_equal(view_of(&b)->tenants[0].n_waiting, 4);
    assert_int_equal(stats_of(&b)->resets, 2);
    assert_int_equal(view_of(&b)->n_running, 0);
    assert_int_equal(submit(&b, 0), -1);
    close_bed(&b);
    assert_int_equal(b.n, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_query_starts_over),
        cmocka_unit_test(of_a_killed_block_the_block_alone_is_lost),
        cmocka_unit_test(a_first_block_is_begun_anew),
        cmocka_unit_test(others_are_not_killed),
        cmocka_unit_test(a_full_queue_takes_them_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
