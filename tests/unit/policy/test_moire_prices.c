/* SPDX-License-Identifier: Apache-2.0
 * test_moire_prices.c - what a miss of a tenant costs `moire` under each objective, by hand; and what comes
 * of it: who is set aside, who has a floor, who is served when there is more than fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/policy/moire_parts.h"
#include "tests/unit/sched/sim_engine.h"
#include "tests/unit/policy/policy_bed.h"

enum { TENANTS = 3, MS = 1000000 };
static const int64_t SECOND = 1000000000;

/* --- prices --- */
struct books {
    struct mo_moire_state state;
    struct mo_view_tenant tenant[TENANTS];
    struct mo_view view;
};

static void open_books(struct books *b, enum mo_objective objective) {
    memset(b, 0, sizeof *b);
    for (int i = 0; i < TENANTS; i++)
        b->tenant[i].open = true;
    b->view = (struct mo_view){
        .now = SECOND, .n_cores = 6, .n_tenants = TENANTS, .tenants = b->tenant, .objective = objective};
}

/* The price of tenant 0 at a time, with so many answers, of these in time, and late queries at hand. */
static double price(struct books *b, int64_t now, int64_t answered, int64_t in_time, int late) {
    b->view.now = now;
    b->tenant[0].answered = answered;
    b->tenant[0].in_time = in_time;
    b->state.account[0].late = late;
    mo_moire_prices(&b->state, &b->view);
    return b->state.account[0].price;
}

/* Of 70 answers and the 30 that everybody begins with three may be late: the budget is 3 %. */
static void a_budget_is_spent_before_the_price_rises(void **state) {
    (void)state;
    static struct books b;
    open_books(&b, MO_OBJECTIVE_EVERY);
    assert_true(price(&b, 2 * SECOND, 0, 0, 0) == 1);
    assert_true(price(&b, 3 * SECOND, 70, 67, 0) == 1);
    assert_true(fabs(price(&b, 4 * SECOND, 70, 64, 0) - 256) < 1e-9); /* six are twice that, to the eighth */
    assert_true(b.state.account[1].price == 1);
}

/* A query at hand that cannot be in time any more is a miss already. */
static void what_is_late_counts_before_its_answer(void **state) {
    (void)state;
    static struct books b;
    open_books(&b, MO_OBJECTIVE_EVERY);
    double at_hand = price(&b, 2 * SECOND, 66, 64, 4), answered = price(&b, 3 * SECOND, 70, 64, 0);
    assert_true(at_hand > 1 && fabs(at_hand - answered) < 1e-9);
}

/* Six misses count for the window in which they were and for the next, not longer. */
static void old_misses_are_forgiven(void **state) {
    (void)state;
    static struct books b;
    open_books(&b, MO_OBJECTIVE_EVERY);
    price(&b, 20 * SECOND, 0, 0, 0);
    assert_true(price(&b, 30 * SECOND, 70, 64, 0) > 1);
    assert_true(price(&b, 41 * SECOND, 70, 64, 0) > 1);
    price(&b, 62 * SECOND, 70, 64, 0);
    assert_true(price(&b, 63 * SECOND, 70, 64, 0) == 1);
}

/* The counters of a slot begin anew with its next tenant. */
static void a_new_tenant_has_no_history(void **state) {
    (void)state;
    static struct books b;
    open_books(&b, MO_OBJECTIVE_EVERY);
    price(&b, 20 * SECOND, 1000, 500, 0);
    price(&b, 41 * SECOND, 2000, 1000, 0);
    assert_true(price(&b, 42 * SECOND, 0, 0, 0) == 1);
    assert_true(price(&b, 43 * SECOND, 10, 10, 0) == 1);
}

static void other_objectives_remember_nothing(void **state) {
    (void)state;
    static struct books b;
    open_books(&b, MO_OBJECTIVE_ALL);
    assert_true(price(&b, 2 * SECOND, 100, 0, 50) == 1);
    open_books(&b, MO_OBJECTIVE_WEIGHTED);
    b.tenant[0].priority = 2;
    b.tenant[1].priority = -1;
    assert_true(price(&b, 2 * SECOND, 100, 0, 50) == 3);
    assert_true(b.state.account[1].price == 0.5 && b.state.account[2].price == 1);
}

/* A fifth of an even share of six cores, 0.4 cores for each of three tenants, and at most 0.1 s of it. */
static void floors_grow_with_time(void **state) {
    (void)state;
    static struct books b;
    open_books(&b, MO_OBJECTIVE_EVERY);
    price(&b, SECOND, 0, 0, 0);
    b.state.account[0].owed = -1e6;
    price(&b, SECOND + 10 * MS, 0, 0, 0);
    assert_true(fabs(b.state.account[0].owed - (0.4 * 10 * MS - 1e6)) < 1);
    price(&b, 9 * SECOND, 0, 0, 0);
    assert_true(fabs(b.state.account[0].owed - 0.4 * 100 * MS) < 1);
    b.state.account[0].owed = -1e15;
    price(&b, 9 * SECOND, 0, 0, 0);
    assert_true(fabs(b.state.account[0].owed + 0.4 * (double)SECOND) < 1);
}

/* --- one dispatch --- */
/* One core; a layer a model: the first takes 6 ms, the second 4 ms, both are due in 8 ms, so that one of them
 * fits.  The third has no target. */
struct bench {
    struct mo_env env;
    struct mo_profile *profile[TENANTS];
    struct mo_view_tenant tenant[TENANTS];
    struct mo_view_query query[TENANTS];
    struct mo_view_run run[1];
    int waiting[TENANTS];
    struct mo_view view;
    struct mo_moire_state state;
};

static void set_up(struct bench *b, enum mo_objective objective) {
    static const int64_t takes[TENANTS] = {6 * MS, 4 * MS, MS};
    memset(b, 0, sizeof *b);
    b->env = mo_env_default();
    for (int i = 0; i < TENANTS; i++) {
        b->profile[i] = mo_profile_create(&b->env, 1, 1);
        assert_non_null(b->profile[i]);
        mo_profile_record(b->profile[i], 1, &takes[i]);
        mo_profile_finish(b->profile[i]);
        b->waiting[i] = i;
        b->tenant[i] = policy_bed_waits(b->profile[i], i < 2 ? 8 * MS : 0, &b->waiting[i]);
        b->query[i] = (struct mo_view_query){.tenant = i,
                                             .arrival = SECOND,
                                             .deadline = i < 2 ? SECOND + 8 * MS : MO_NEVER,
                                             .order = i,
                                             .last_core = -1,
                                             .run = -1};
    }
    b->run[0].query = -1;
    b->view = (struct mo_view){.now = SECOND,
                               .block_ns = 10 * MS,
                               .n_cores = 1,
                               .n_idle = 1,
                               .idle = mo_cores_first(1),
                               .n_tenants = TENANTS,
                               .min_qos_ns = 8 * MS,
                               .objective = objective,
                               .tenants = b->tenant,
                               .queries = b->query,
                               .runs = b->run,
                               .options = mo_policy_find("moire")->options};
    b->state.seen_at = b->state.turned_at = SECOND;
}

static void tear_down(struct bench *b) {
    for (int i = 0; i < TENANTS; i++)
        mo_profile_destroy(b->profile[i]);
}

/* The query that gets the core. */
static int served(struct bench *b) {
    struct mo_decision list[8];
    struct mo_decisions out = {.cap = 8, .list = list};
    const struct mo_event event = {MO_EVENT_TIMER, -1, -1};
    mo_policy_find("moire")->dispatch(&b->state, &b->view, &event, &out);
    for (int i = 0; i < out.n; i++)
        if (list[i].kind == MO_RUN) return list[i].query;
    return -1;
}

/* The heavier query is set aside, unless its tenant has missed too many and the other one has not. */
static void victims_come_from_tenants_with_budget(void **state) {
    (void)state;
    static const struct {
        enum mo_objective objective;
        int64_t missed[2]; /* of 100 answers */
        int priority, served;
    } cases[] = {
        {MO_OBJECTIVE_ALL, {50, 0}, 0, 1},     {MO_OBJECTIVE_WEIGHTED, {0, 0}, 0, 1},
        {MO_OBJECTIVE_WEIGHTED, {0, 0}, 1, 0}, {MO_OBJECTIVE_EVERY, {0, 0}, 0, 1},
        {MO_OBJECTIVE_EVERY, {3, 0}, 0, 1},    {MO_OBJECTIVE_EVERY, {5, 0}, 0, 0},
        {MO_OBJECTIVE_EVERY, {5, 5}, 0, 1},    {MO_OBJECTIVE_EVERY, {50, 20}, 0, 0},
    };
    static struct bench b;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_up(&b, cases[i].objective);
        for (int k = 0; k < 2; k++) {
            b.tenant[k].answered = 100;
            b.tenant[k].in_time = 100 - cases[i].missed[k];
        }
        b.tenant[0].priority = cases[i].priority;
        if (served(&b) != cases[i].served) fail_msg("case %zu: the other one was served", i);
        tear_down(&b);
    }
}

/* What has no target waits for what has one, but not when its tenant had less than its floor. */
static void a_floor_comes_before_deadlines(void **state) {
    (void)state;
    static struct bench b;
    set_up(&b, MO_OBJECTIVE_EVERY);
    b.state.account[2].owed = -1e6;
    assert_int_equal(served(&b), 1);
    b.state.account[2].owed = 1e5;
    assert_int_equal(served(&b), 2);
    assert_true(b.state.account[2].owed < 0); /* it has had its part, and waits again */
    assert_int_equal(served(&b), 1);
    tear_down(&b);
}

/* --- over time --- */
static void play(enum mo_objective objective, uint64_t seed, struct sim_result *out) {
    struct sim_config c = {.policy = mo_policy_find("moire"),
                           .objective = objective,
                           .n_cores = 8,
                           .duration_ns = 20 * SECOND,
                           .warmup_ns = SECOND,
                           .seed = seed,
                           .noise = 0.1,
                           .drain = true};
    sim_mix(&c, 1.02, 4, 1);
    assert_int_equal(sim_run(&c, out), MOIRE_OK);
    assert_int_equal(out->violations, 0);
    assert_int_equal(out->stats.refused, 0);
}

/* With more than fits, `all` pays with the heaviest tenant, `every` with all of them alike. */
static void every_tenant_has_its_share_in_overload(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct sim_result every, all;
        play(MO_OBJECTIVE_EVERY, seed, &every);
        play(MO_OBJECTIVE_ALL, seed, &all);
        print_message("seed %d: every %.3f, worst %.3f; all %.3f, worst %.3f\n", (int)seed, every.overall,
                      every.worst, all.overall, all.worst);
        assert_true(every.worst > all.worst + 0.05);
        assert_true(every.worst > every.overall - 0.2);
        assert_true(all.overall > every.overall);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_is_spent_before_the_price_rises),
        cmocka_unit_test(what_is_late_counts_before_its_answer),
        cmocka_unit_test(old_misses_are_forgiven),
        cmocka_unit_test(a_new_tenant_has_no_history),
        cmocka_unit_test(other_objectives_remember_nothing),
        cmocka_unit_test(floors_grow_with_time),
        cmocka_unit_test(victims_come_from_tenants_with_budget),
        cmocka_unit_test(a_floor_comes_before_deadlines),
        cmocka_unit_test(every_tenant_has_its_share_in_overload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
