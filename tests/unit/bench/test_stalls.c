/* SPDX-License-Identifier: Apache-2.0
 * test_stalls.c - machines that stall: as text, as drawn, and what teams make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include "bench/data/stalls.h"
#include "runtime/policy/allocation.h"
#include "runtime/sim/sim.h"

enum { MS = 1000000, CORES = 3, STEPS = 4 };
static const int64_t SECOND = 1000000000;

static bool near(double a, double b) {
    return fabs(a - b) < 1e-6 * fmax(1, fabs(b));
}

/* --- as text --- */
static void good_texts_are_read(void **state) {
    (void)state;
    struct mo_bench_stalls s = {0};
    assert_false(mo_bench_stalls_any(&s));
    assert_true(mo_bench_stalls_parse("2:10-50", &s));
    assert_true(near(s.a_second, 2) && near(s.least_ns, 10e6) && near(s.most_ns, 50e6));
    assert_true(mo_bench_stalls_parse("0.5:30", &s));
    assert_true(near(s.a_second, 0.5) && near(s.least_ns, 30e6) && near(s.most_ns, 30e6));
    assert_true(mo_bench_slow_parse("2:1:0.5", &s));
    assert_true(near(s.slow, 2) && near(s.fast_for_ns, 1e9) && near(s.slow_for_ns, 0.5e9));
    assert_true(mo_bench_stalls_any(&s));
}

static void bad_texts_are_refused(void **state) {
    (void)state;
    static const char *const stalls[] = {"",      "2",     "2:",    ":10",     "2:10-",  "2:50-10", "0:10",
                                         "-1:10", "2:0",   "2:10x", "2:1-2-3", "nan:10", "2:nan",   "inf:1",
                                         "2:1:1", "1e9:1", "1:1e9", "x:1",     "2 :10",  "2:10-50 "};
    static const char *const slow[] = {"",      "2",       "2:1",     "2:1:",    "0.5:1:1", "2:0:1",
                                       "2:1:0", "2:1:1:1", "nan:1:1", "2:inf:1", "1e9:1:1"};
    struct mo_bench_stalls s = {0};
    for (size_t i = 0; i < sizeof stalls / sizeof *stalls; i++)
        assert_false(mo_bench_stalls_parse(stalls[i], &s));
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        assert_false(mo_bench_slow_parse(slow[i], &s));
    assert_false(mo_bench_stalls_any(&s)); /* and leave nothing behind */
}

/* --- as drawn --- */
static struct mo_sim_pace draw(const struct mo_env *env, const char *stalls, const char *slow, int64_t length,
                               uint64_t seed) {
    struct mo_bench_stalls s = {0};
    struct mo_sim_pace p;
    if (stalls) assert_true(mo_bench_stalls_parse(stalls, &s));
    if (slow) assert_true(mo_bench_slow_parse(slow, &s));
    assert_int_equal(mo_bench_stalls_draw(env, &s, CORES, length, seed, &p, NULL), MOIRE_OK);
    return p;
}

/* Of renewals at rate 2 after each stall of 30 ms, 2 * 0.03 / (1 + 2 * 0.03) of the time stands still: 5.7 %;
 * over 400 s that is some 750 stalls, known to 4 %. */
static void stalls_take_their_share(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    struct mo_sim_pace p = draw(&env, "2:10-50", NULL, 400 * SECOND, 11);
    double before = -1;
    printf("seed 11\n");
    for (int c = 0; c < CORES; c++) {
        double lost = 1 - mo_sim_pace_work(&p, c, 0, 400 * SECOND) / (400e9);
        assert_true(lost > 0.05 && lost < 0.065);
        assert_false(near(lost, before)); /* each core its own */
        before = lost;
    }
    mo_free(&env, p.done);
}

static void slow_times_are_everybodys(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    struct mo_sim_pace p = draw(&env, NULL, "2:1:0.5", 600 * SECOND, 12);
    printf("seed 12\n");
    double all = mo_sim_pace_work(&p, 0, 0, 600 * SECOND);
    assert_true(all / 600e9 > 0.8 && all / 600e9 < 0.87); /* a third of the time at half speed */
    for (int i = 0; i < p.n_steps; i++) {
        double here = mo_sim_pace_work(&p, 0, i * p.step_ns, (i + 1) * p.step_ns);
        assert_true(here > 0.5 * MS - 1 && here < MS + 1);
        assert_true(near(here, mo_sim_pace_work(&p, 2, i * p.step_ns, (i + 1) * p.step_ns)));
    }
    mo_free(&env, p.done);
}

static void a_seed_is_a_machine(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    struct mo_sim_pace a = draw(&env, "5:10", "2:1:1", SECOND, 1), b = draw(&env, "5:10", "2:1:1", SECOND, 1);
    struct mo_sim_pace c = draw(&env, "5:10", "2:1:1", SECOND, 2);
    size_t bytes = (size_t)CORES * ((size_t)a.n_steps + 1) * sizeof *a.done;
    assert_memory_equal(a.done, b.done, bytes);
    assert_memory_not_equal(a.done, c.done, bytes);
    mo_free(&env, a.done);
    mo_free(&env, b.done);
    mo_free(&env, c.done);
}

/* --- teams --- */
/* Three cores in steps of 1 ms: all fast; core 1 at half speed; core 2 stands still; all fast. */
static struct mo_sim_pace by_hand(double done[CORES][STEPS + 1]) {
    static const double rate[CORES][STEPS] = {{1, 1, 1, 1}, {1, 0.5, 1, 1}, {1, 1, 0.001, 1}};
    for (int c = 0; c < CORES; c++) {
        done[c][0] = 0;
        for (int i = 0; i < STEPS; i++)
            done[c][i + 1] = done[c][i] + rate[c][i] * MS;
    }
    return (struct mo_sim_pace){MS, STEPS, CORES, &done[0][0]};
}

static struct mo_cores team(int mask) {
    struct mo_cores cores = {0};
    for (int c = 0; c < CORES; c++)
        if (mask >> c & 1) mo_cores_add(&cores, c);
    return cores;
}

static void a_team_is_as_fast_as_its_mean_and_waits_for_who_stands(void **state) {
    (void)state;
    double done[CORES][STEPS + 1];
    const struct mo_sim_pace p = by_hand(done);
    const struct {
        int mask;
        int64_t from, to;
        double work;
    } cases[] = {
        {1, 0, 4 * MS, 4 * MS},                         /* core 0 alone: never slow */
        {2, MS, 2 * MS, 0.5 * MS},                      /* core 1 alone, in its slow step */
        {3, MS, 2 * MS, 0.75 * MS},                     /* with core 0: the mean of both */
        {7, MS, 2 * MS, 2.5 / 3 * MS},                  /* of three */
        {5, 2 * MS, 3 * MS, 0.001 * MS},                /* core 2 stands, core 0 waits */
        {7, 0, 4 * MS, (1 + 2.5 / 3 + 0.001 + 1) * MS}, /* all of it */
        {3, MS / 2, 3 * MS / 2, (0.5 + 0.375) * MS},    /* parts of steps */
        {5, 5 * MS, 7 * MS, 2 * MS},                    /* behind the last step */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mo_cores cores = team(cases[i].mask);
        double work = mo_sim_pace_team_work(&p, &cores, cases[i].from, cases[i].to);
        assert_true(near(work, cases[i].work));
        int64_t end = mo_sim_pace_team_end(&p, &cores, cases[i].from, work);
        assert_in_range(end, cases[i].to - 1, cases[i].to + 1);
    }
}

static void a_teams_end_undoes_its_work(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    struct mo_sim_pace p = draw(&env, "20:3-9", "3:0.02:0.02", SECOND / 4, 5);
    const struct mo_cores cores = team(7);
    printf("seed 5\n");
    for (int64_t from = 0; from < SECOND / 4; from += 7777777) {
        double before = -1;
        for (int64_t to = from; to < SECOND / 2; to += 3333333) {
            double work = mo_sim_pace_team_work(&p, &cores, from, to);
            assert_true(work > before);
            assert_in_range(mo_sim_pace_team_end(&p, &cores, from, work), to > 0 ? to - 1 : 0, to + 1);
            before = work;
        }
    }
    mo_free(&env, p.done);
}

/* --- served --- */
/* Every query that waits, whole, on all cores that are idle. */
static void take_all(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)state, (void)event;
    mo_let_go_late(view, out);
    for (int t = 0; t < view->n_tenants && view->n_idle; t++)
        if (view->tenants[t].n_waiting) {
            mo_decide_run(out, view->tenants[t].waiting[0], view->tenants[t].profile->n_layers, view->idle);
            return;
        }
}

static void keep_end(void *ctx, int tenant, const struct mo_answer *answer) {
    (void)tenant;
    *(int64_t *)answer->user = answer->end;
    ++*(int *)ctx;
}

/* Ends of two queries of 4 layers, each of which takes 3 ms on one core and 1 ms on three, that come at once
 * and after 1 ms.  Core 2 stands still from 2 to 42 ms. */
static void serve_two(bool no_watch, int64_t end[2], struct mo_sched_stats *stats) {
    struct mo_env env = mo_env_default();
    const struct mo_policy policy = {
        .name = "all", .no_watch = no_watch, .state_bytes = 64, .dispatch = take_all};
    enum { LONG = 100 };
    static double done[CORES][LONG + 1];
    for (int c = 0; c < CORES; c++)
        for (int i = 0; i < LONG; i++)
            done[c][i + 1] = done[c][i] + (c == 2 && i >= 2 && i < 42 ? 0.001 : 1) * MS;
    const struct mo_sim_pace pace = {MS, LONG, CORES, &done[0][0]};
    int answers = 0;
    struct mo_sim_config c = {.env = &env,
                              .policy = &policy,
                              .machine = {.n_cores = CORES},
                              .max_queries = 4,
                              .max_tenants = 1,
                              .pace = &pace,
                              .answer = keep_end,
                              .ctx = &answers};
    struct mo_sim *sim;
    assert_int_equal(mo_sim_create(&c, &sim, NULL), MOIRE_OK);
    struct mo_profile *profile = mo_profile_create(&env, 4, CORES);
    mo_profile_record(profile, 1, (int64_t[4]){3 * MS, 3 * MS, 3 * MS, 3 * MS});
    mo_profile_record(profile, CORES, (int64_t[4]){MS, MS, MS, MS});
    mo_profile_finish(profile);
    const struct mo_sched_tenant_config t = {
        .qos_ns = 100 * MS, .queue = 4, .instances = 4, .profile = profile};
    int tenant;
    assert_int_equal(mo_sim_open(sim, &t, &tenant, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_submit(sim, tenant, &end[0], NULL, NULL), MOIRE_OK);
    mo_sim_advance(sim, MS);
    assert_int_equal(mo_sim_submit(sim, tenant, &end[1], NULL, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_drain(sim), 0);
    assert_int_equal(answers, 2);
    assert_int_equal(mo_sim_broken(sim), 0);
    *stats = *mo_sched_stats(mo_sim_sched(sim));
    mo_sim_destroy(sim);
    mo_profile_destroy(profile);
}

/* With the watch, the second query gets the one core that has nothing to do and is neither the lead nor the
 * one that stands still; without it, it waits for them. */
static void the_others_of_a_stalled_team_are_not_waited_for(void **state) {
    (void)state;
    struct mo_sched_stats stats;
    int64_t end[2];
    serve_two(false, end, &stats);
    assert_true(stats.stalls >= 1 && stats.refused == 0);
    assert_true(end[0] >= 42 * MS && end[1] < 30 * MS);
    serve_two(true, end, &stats);
    assert_true(stats.stalls == 0);
    assert_true(end[0] >= 42 * MS && end[1] > end[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts_are_read),
        cmocka_unit_test(bad_texts_are_refused),
        cmocka_unit_test(stalls_take_their_share),
        cmocka_unit_test(slow_times_are_everybodys),
        cmocka_unit_test(a_seed_is_a_machine),
        cmocka_unit_test(a_team_is_as_fast_as_its_mean_and_waits_for_who_stands),
        cmocka_unit_test(a_teams_end_undoes_its_work),
        cmocka_unit_test(the_others_of_a_stalled_team_are_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
