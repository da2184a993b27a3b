/* SPDX-License-Identifier: Apache-2.0
 * test_backlog.c - late queries have to be answered: what is counted as owed, what that does to the limit,
 * and runs that end early because their goal is out of reach. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/search/seed_run.h"
#include "tests/unit/bench/simulate_bed.h"

/* A tenant that is owed 10 ns for each query and one whose queries may be refused: 40 ns are due. */
static void what_was_due_and_has_no_answer_is_owed(void **state) {
    (void)state;
    struct mo_bench_arrival items[] = {{0, 0}, {100, 0}, {200, 0}, {300, 1}, {500, 0}, {950, 0}};
    const struct mo_bench_schedule s = {.items = items, .n = 6, .window_ns = 900, .total_ns = 1000};
    struct mo_bench_record records[] = {{0, 0, 90, MOIRE_OK},       {100, 100, 990, MOIRE_OK},
                                        {200, -1, -1, MOIRE_OK},    {300, -1, -1, MOIRE_ESHED},
                                        {500, -1, -1, MOIRE_EBUSY}, {950, -1, -1, MOIRE_OK}};
    const struct mo_bench_need need[] = {{20, 10, 5}, {20, 0, 5}};
    const int64_t qos_ns[] = {100, 100};
    struct mo_bench_backlog left = mo_bench_backlog(&s, records, need, 2, qos_ns);
    assert_int_equal(left.queries, 2); /* one was answered late, one is not due yet */
    assert_true(fabs(left.core_ns - 20) < 1e-9 && fabs(left.limit_ns - 10.4) < 1e-9);
    assert_false(mo_bench_keeps_up(&left));
    records[4] = (struct mo_bench_record){500, 990, 1000, MOIRE_OK};
    left = mo_bench_backlog(&s, records, need, 2, qos_ns);
    assert_int_equal(left.queries, 1);
    assert_true(mo_bench_keeps_up(&left));
    assert_true(fabs(mo_bench_due(&s, need, qos_ns) - 40) < 1e-9);
}

static void a_need_that_is_not_known_has_no_limit(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    struct mo_bench_arrival items[] = {{0, 0}, {10, 1}};
    const struct mo_bench_schedule s = {.items = items, .n = 2, .window_ns = 100, .total_ns = 100};
    struct mo_bench_need need[] = {{20, 10, 5}, {0, 0, 0}};
    const int64_t qos_ns[] = {50, 50};
    struct mo_bench_limits limits;
    assert_int_equal(mo_bench_limit(&env, &s, need, 2, qos_ns, 1, &limits, NULL), MOIRE_OK);
    assert_true(limits.any.overall < 0 && limits.keeping.overall < 0);
    need[1] = (struct mo_bench_need){60, 55, 5}; /* 60 in 50 ns are too much */
    assert_int_equal(mo_bench_limit(&env, &s, need, 2, qos_ns, 1, &limits, NULL), MOIRE_OK);
    assert_true(fabs(limits.any.overall - 0.5) < 1e-9 && limits.any.every < 1e-9);
    assert_true(fabs(limits.keeping.overall - 0.5) < 1e-9);
    need[1].late_ns = 150;
    need[1].core_ns = 200;
    need[0].late_ns = need[0].core_ns = 200; /* 350 in 100 ns, and one query besides */
    assert_int_equal(mo_bench_limit(&env, &s, need, 2, qos_ns, 1, &limits, NULL), MOIRE_OK);
    assert_true(limits.any.overall >= 0);
    assert_true(limits.keeping.overall < 0 && limits.keeping.every < 0);
}

/* One query in twenty-one has half of the work. */
#define RARE_AND_HEAVY                                                                                       \
    "{\"name\": \"s\", \"tenants\": [{\"model\": \"a\", \"qos\": {\"ms\": 60}, \"weight\": 1}, "             \
    "{\"model\": \"b\", \"qos\": {\"ms\": 60}, \"weight\": 20}]}"
#define HEAVY "# moire-profile 1\nlayer,name,variant,batch,pressure,kib,1,2\n0,x,0,1,0,0,18000,9500\n"

static json_t *point_of(const struct mo_bench_simulation *m, const struct mo_bench_player *player,
                        const struct mo_bench_serve_options *o, double load,
                        const struct mo_bench_goal *goal) {
    json_t *point;
    moire_error err = {0};
    if (mo_bench_point(m->env, player, &m->mix, o, load, 1, goal, &point, &err)) fail_msg("%s", err.message);
    return point;
}

struct simulated {
    const struct mo_bench_simulation *simulation;
    const struct mo_policy *policy;
};

static int play(void *self, const struct mo_bench_schedule *schedule, const struct mo_bench_budget *budget,
                struct mo_bench_record *records, int64_t *cut_ns, moire_error *err) {
    const struct simulated *s = self;
    return mo_bench_simulate_play(s->simulation, s->policy, 1, schedule, budget, records, cut_ns, NULL, err);
}

static int play_bound(void *self, const struct mo_bench_schedule *schedule,
                      const struct mo_bench_budget *budget, struct mo_bench_record *records, int64_t *cut_ns,
                      moire_error *err) {
    (void)budget;
    *cut_ns = INT64_MAX;
    return mo_bench_simulate_bound(((struct simulated *)self)->simulation, schedule, records, err);
}

/* Nine of ten queries can be in time at one and a half times of what the core can do, by starving the heavy
 * tenant; who has to answer all stops where the core is full. */
static void starving_a_tenant_is_no_way_to_a_higher_load(void **state) {
    (void)state;
    struct simulate_bed p;
    struct mo_bench_simulation m;
    struct mo_bench_session session;
    char *argv[] = {"moire", "sim"};
    json_t *row;
    simulate_bed_open(&p, ONE_CORE, RARE_AND_HEAVY);
    simulate_bed_put(&p, "a.csv", HEAVY);
    struct mo_bench_simulate_options o = simulate_bed_options(&p);
    o.serve.find_max = 0.9;
    o.serve.n_loads = 0;
    o.serve.step = 0.05;
    o.serve.max_load = 2;
    o.serve.seconds = 20;
    assert_int_equal(mo_bench_session_open(&p.env, 2, argv, &session, NULL), MOIRE_OK);
    session.quiet = true;
    assert_int_equal(mo_bench_simulation_open(&p.env, &o, &m, NULL), MOIRE_OK);
    struct simulated self = {&m, NULL};
    const struct mo_bench_system system = {"bound", "moire", "bound", "", NULL};
    const struct mo_bench_player player = {
        .system = &system, .play = play_bound, .self = &self, .limit = true};
    struct mo_bench_found found = mo_bench_no_guess(&o.serve);
    assert_int_equal(mo_bench_seed(&session, &player, &m.mix, &o.serve, 1, &found, &row, NULL), MOIRE_OK);
    assert_true(found.max_load[0] >= 0.8 && found.max_load[0] <= 1.1);
    assert_true(found.max_load[1] > 0 && found.max_load[1] <= found.max_load[0]);
    json_decref(row);
    json_t *beyond = point_of(&m, &player, &o.serve, 1.5, NULL);
    assert_true(json_number_value(json_object_get(beyond, "bound")) >= 0.9);
    assert_false(mo_bench_kept_up(beyond));
    json_t *below = point_of(&m, &player, &o.serve, 0.8, NULL);
    assert_true(mo_bench_kept_up(below));
    assert_true(fabs(json_number_value(json_object_get(below, "bound")) -
                     json_number_value(json_object_get(below, "overall"))) < 1e-9);
    assert_true(fabs(json_number_value(json_object_get(below, "bound_worst")) -
                     json_number_value(json_object_get(below, "worst_tenant"))) < 1e-9);
    json_decref(beyond);
    json_decref(below);
    mo_bench_simulation_close(&m);
    mo_bench_session_close(&session);
    simulate_bed_close(&p);
}

static bool reached(const json_t *point, const struct mo_bench_goal *goal) {
    const char *key = goal->every ? "worst_tenant" : "overall";
    return point && !json_is_true(json_object_get(point, "stopped_early")) && mo_bench_kept_up(point) &&
           json_number_value(json_object_get(point, key)) >= goal->share;
}

/* A run that ends early, or is not played at all, would have missed its goal; one that does not is the same.
 */
static void an_early_end_changes_no_verdict(void **state) {
    (void)state;
    static const char *const names[] = {"moire", "fcfs-1", "edf-reject"};
    struct simulate_bed p;
    struct mo_bench_simulation m;
    int cut = 0, unplayed = 0, held = 0, for_one_tenant = 0;
    simulate_bed_open(&p, ONE_CORE, RARE_AND_HEAVY);
    simulate_bed_put(&p, "a.csv", HEAVY);
    struct mo_bench_simulate_options o = simulate_bed_options(&p);
    o.serve.seconds = 10;
    assert_int_equal(mo_bench_simulation_open(&p.env, &o, &m, NULL), MOIRE_OK);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int i = 4; i <= 13; i++) {
            struct simulated self = {&m, mo_policy_find(names[k])};
            const struct mo_bench_system system = {names[k], "moire", names[k], "", NULL};
            const struct mo_bench_player player = {.system = &system, .play = play, .self = &self};
            json_t *whole = point_of(&m, &player, &o.serve, 0.1 * i, NULL);
            for (int every = 0; every < 2; every++) {
                const struct mo_bench_goal goal = {0.9, every}, all = {0.9, false};
                json_t *point = point_of(&m, &player, &o.serve, 0.1 * i, &goal);
                bool early = point && json_is_true(json_object_get(point, "stopped_early"));
                assert_int_equal(reached(point, &goal), reached(whole, &goal));
                if (point && !early) assert_true(json_equal(point, whole));
                held += reached(point, &goal);
                unplayed += !point;
                cut += early;
                for_one_tenant += every && early && reached(whole, &all);
                json_decref(point);
            }
            json_decref(whole);
        }
    assert_true(held > 5 && cut > 3 && unplayed > 5 && for_one_tenant > 0);
    mo_bench_simulation_close(&m);
    simulate_bed_close(&p);
}

static int play_offline(void *self, const struct mo_bench_schedule *schedule,
                        const struct mo_bench_budget *budget, struct mo_bench_record *records,
                        int64_t *cut_ns, moire_error *err) {
    (void)budget;
    *cut_ns = INT64_MAX;
    return mo_bench_simulate_offline(((struct simulated *)self)->simulation, 1, 0.99, schedule, records, err);
}

/* The best schedule found puts queries off, but drops none, and has no fewer in time than who cannot look
 * ahead. */
static void the_offline_schedule_answers_all(void **state) {
    (void)state;
    struct simulate_bed p;
    struct mo_bench_simulation m;
    double overall[2];
    simulate_bed_open(&p, ONE_CORE, RARE_AND_HEAVY);
    simulate_bed_put(&p, "a.csv", HEAVY);
    struct mo_bench_simulate_options o = simulate_bed_options(&p);
    assert_int_equal(mo_bench_simulation_open(&p.env, &o, &m, NULL), MOIRE_OK);
    struct simulated self = {&m, mo_policy_find("moire")};
    const struct mo_bench_system system = {"x", "moire", "x", "", NULL};
    for (int i = 0; i < 2; i++) {
        const struct mo_bench_player player = {
            .system = &system, .play = i ? play_offline : play, .self = &self};
        json_t *point = point_of(&m, &player, &o.serve, 0.95, NULL), *t;
        size_t k;
        assert_true(mo_bench_kept_up(point));
        json_array_foreach(json_object_get(point, "tenants"), k, t)
            assert_int_equal(json_integer_value(json_object_get(t, "shed")), 0);
        overall[i] = json_number_value(json_object_get(point, "overall"));
        json_decref(point);
    }
    if (overall[0] >= 1 || overall[1] < overall[0]) fail_msg("%.4f and %.4f", overall[0], overall[1]);
    mo_bench_simulation_close(&m);
    simulate_bed_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_due_and_has_no_answer_is_owed),
        cmocka_unit_test(a_need_that_is_not_known_has_no_limit),
        cmocka_unit_test(starving_a_tenant_is_no_way_to_a_higher_load),
        cmocka_unit_test(an_early_end_changes_no_verdict),
        cmocka_unit_test(the_offline_schedule_answers_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
