/* SPDX-License-Identifier: Apache-2.0
 * test_trace.c - traces of recorded runs: what is read, what is refused and where, and that a recorded
 * simulation is predicted by its own replay. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/sim/fidelity.h"
#include "bench/sim/replay.h"
#include "bench/sim/simulate.h"
#include "runtime/sched/events.h"

/* Outlives every trace: their regions point to it. */
static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-6;
}

/* One line a row, so that a test can change one. */
static const char *const good[] = {
    "# moire-history 1",
    "# cores 2",
    "# dropped 0",
    "# policy moire",
    "# since 100",
    "# tenant 0 2 5000 0 1 3 a name, with more",
    "# profile 0 1 600,400",
    "# profile 0 2 350,250",
    "# counters papi l3_miss_rate,l3_accesses,ipc",
    "0 50 0 ACCEPT 7 0 40 5040 0", /* before what is of interest */
    "1 200 0 SUBMIT 0 0 190 0 0",
    "2 200 0 ACCEPT 8 0 190 5190 0",
    "3 210 0 DISPATCH 8 0 0 2 2",
    "20 210 0 PRESSURE 0 -1 250000 0 0",
    "21 215 3 COUNTERS 0 -1 100000 2000000 500000",
    "22 219 1 VERSIONS 8 0 0 16 2",
    "4 220 1 BLOCK_START 8 0 0 2 0",
    "5 225 2 BLOCK_START 8 0 0 2 1",
    "6 300 0 SUBMIT 0 0 290 0 0",
    "7 300 0 REJECT 0 0 -5 0 0",
    "8 940 1 BLOCK_END 8 0 0 2 0",
    "9 941 2 BLOCK_END 8 0 0 2 1",
    "23 941 0 PRESSURE 0 -1 500000 0 0",
    "24 945 3 COUNTERS 0 -1 200000 0 0",
    "10 950 0 RESOLVE 8 0 0 5190 0",
    "# end 16",
};
enum { LINES = sizeof good / sizeof *good };

/* The text with line `at` (from 0) replaced, or left out when it is NULL; at < 0: as it is. */
static int parse_with(int at, const char *line, struct mo_trace *t, moire_error *err) {
    char text[4096];
    size_t n = 0;
    for (int i = 0; i < LINES; i++) {
        const char *put = i == at ? line : good[i];
        if (put) n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", put);
    }
    return mo_trace_parse(the_env(), "t", text, n, t, err);
}

static void a_trace_is_read(void **state) {
    (void)state;
    struct mo_trace t;
    struct mo_profile *p;
    assert_int_equal(parse_with(-1, NULL, &t, NULL), MOIRE_OK);
    assert_int_equal(t.cores, 2);
    assert_string_equal(t.policy, "moire");
    assert_string_equal(t.tenants[0].name, "a name, with more");
    assert_true(t.tenants[0].shed_late && !t.tenants[0].best_effort);
    assert_int_equal(t.n_queries, 2);
    assert_int_equal(t.queries[0].arrival, 190);
    assert_int_equal(t.queries[0].accepted, 200);
    assert_int_equal(t.queries[0].start, 210);
    assert_int_equal(t.queries[0].end, 950);
    assert_int_equal(t.queries[1].code, -5);
    assert_true(fabs(t.block_ns - (720 + 716)) < 1e-9);
    assert_true(fabs(t.predicted_ns - 2 * 600) < 1e-9);
    assert_true(t.n_blocks == 1 && t.blocks[0].end == 941 && fabsf(t.blocks[0].observed - 721) < 1e-3f);
    assert_true(t.n_spans == 2 && t.spans[0].core == 0 && t.spans[0].begin == 220 && t.spans[0].end == 940);
    assert_true(t.n_starts == 1 && t.starts[0].first && !t.starts[0].asleep && near(t.starts[0].wait_ns, 10));
    assert_true(near(t.late_ns, 10));
    assert_true(t.source == &mo_source_papi && t.n_counters == 2 && t.n_pressures == 2);
    assert_true(fabs(t.counters[0].value[0] - 0.1) < 1e-9 && fabs(t.counters[0].value[2] - 0.5) < 1e-9);
    assert_true(t.layers == 2 && t.adapted == 1); /* octal 20: the second layer in its version 2 */
    assert_true(fabs(mo_trace_mean_pressure(&t, 110, 210)) < 1e-9);
    assert_true(fabs(mo_trace_mean_pressure(&t, 110, 310) - 0.125) < 1e-9);
    assert_true(fabs(mo_trace_mean_pressure(&t, 841, 1041) - 0.375) < 1e-9);
    assert_true(fabs(mo_trace_mean_pressure(&t, 2000, 3000) - 0.5) < 1e-9);
    assert_int_equal(mo_trace_profile(the_env(), &t.tenants[0], 8, &p, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_time(p, 2, 0, 2), 600);
    /* first layer 500/c + 100, second 300/c + 100 */
    assert_in_range(mo_profile_time(p, 8, 0, 1), 162, 164);
    assert_in_range(mo_profile_time(p, 4, 1, 2), 174, 177);
    mo_profile_destroy(p);
    mo_trace_free(&t);
}

/* Blocks of a trace in their proportion of predicted time: half of it at 1.2, half at 2; a stall apart. */
static void block_times_spread_as_recorded(void **state) {
    (void)state;
    struct mo_trace t;
    struct mo_sim_spread *spread;
    assert_int_equal(parse_with(-1, NULL, &t, NULL), MOIRE_OK);
    assert_int_equal(t.n_blocks, 1);
    assert_true(t.first_wait_ns == 10 && t.n_stalls == 0);
    t.blocks = (struct mo_trace_block[]){
        {0, 1, 120, 100, 1, 0}, {0, 1, 400, 200, 2, 0}, {0, 1, 120, 100, 3, 0}, {1, 2, 30, 10, 4, 0}};
    t.n_blocks = 4;
    assert_int_equal(mo_trace_spread(&t, NULL, &spread, NULL), MOIRE_OK);
    for (int i = 0; i < MO_SIM_PARTS; i++) {
        assert_true(fabs(spread[0].ratio[0][i] - (i < MO_SIM_PARTS / 2 ? 1.2 : 2)) < 1e-6);
        assert_true(fabs(spread[0].ratio[1][i] - 3) < 1e-6); /* of the other tenant, for want of its own */
    }
    t.n_blocks = 0;
    assert_int_equal(mo_trace_spread(&t, NULL, &spread, NULL), MOIRE_EINVAL);
    mo_trace_free(&t);
}

static void cold_times_are_read(void **state) {
    (void)state;
    struct mo_trace t;
    struct mo_profile *p;
    moire_error err;
    const char *more =
        "# counters papi l3_miss_rate,l3_accesses,ipc\n# cold 0 500:60,70:8\n# operations 0 7,9";
    static const char *const bad[] = {"# cold 0 5:6", "# cold 0 5:6,7:8,9:1", "# cold 0 5:6,7:-8",
                                      "# cold 1 5:6", "# operations 0 5",     "# operations 0 5,6,7"};
    assert_int_equal(parse_with(3, "# cache 33554432\n# policy moire", &t, NULL), MOIRE_OK);
    assert_true(t.cache == 33554432 && !t.tenants[0].cold);
    mo_trace_free(&t);
    assert_int_equal(parse_with(8, more, &t, NULL), MOIRE_OK);
    assert_int_equal(mo_trace_profile(the_env(), &t.tenants[0], 2, &p, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_bytes(p, 0, 2), 570);
    assert_true(near(mo_profile_extra(p, 2, 0, 2), 34) && mo_profile_ops(p, 0, 2) == 16);
    mo_profile_destroy(p);
    mo_trace_free(&t);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[128];
        snprintf(line, sizeof line, "%s\n%s", good[8], bad[i]);
        assert_int_equal(parse_with(8, line, &t, &err), MOIRE_EFORMAT);
        assert_non_null(strstr(err.message, "t:10: "));
    }
}

static void a_stalled_block_is_set_apart(void **state) {
    (void)state;
    struct mo_trace t;
    assert_int_equal(parse_with(19, "8 20000000 1 BLOCK_END 8 0 0 2 0", &t, NULL), MOIRE_OK);
    assert_int_equal(t.n_blocks, 0);
    assert_int_equal(t.n_stalls, 1);
    assert_true(fabs(t.stall_ns - (20000000 - 220 - 600)) < 2);
    mo_trace_free(&t);
}

static void damage_is_named_with_its_line(void **state) {
    (void)state;
    static const struct {
        int at;
        const char *line, *says;
    } cases[] = {
        {0, "# moire-history 3", "t:1: not a trace"},
        {8, "# gpu 0 0", "t:9: a line about GPUs in a history of version 1"},
        {21, "8 940 1 TIMES 8 0 1 2 3", "t:22: times of a GPU's block in a history of cores"},
        {1, "# cores 0", "t:2: not a number of cores"},
        {1, NULL, "before the '# cores' line"},
        {12, "# cores 4", "t:13: a second '# cores' line"},
        {2, "# dropped 9", "t:3: events were lost"},
        {5, "# tenant 0 2 5000 0 1 3 ", "t:6: not \"# tenant"},
        {5, "# tenant 99 2 5000 0 1 3 x", "t:6: not \"# tenant"},
        {5, NULL, "of a tenant named before"},
        {6, "# profile 0 1 600", "t:7: a profile has fewer times"},
        {6, "# profile 0 1 600,-4", "not positive"},
        {6, "# profile 0 1 600,400,1", "t:7: a profile has more times"},
        {7, "# profile 0 1 350,250", "t:8: the core counts of a profile must rise"},
        {11, "2 200 0 ACCEPT 8 5 190 5190 0", "t:12: a query of a tenant"},
        {11, "2 200 0 ACCEPT 9 0 -9223372036854775808 5190 0", "t:12: an arrival at a time"},
        {12, "3 4611686018427387905 0 DISPATCH 8 0 0 2 2", "t:13: not an event"},
        {10, "1 200 0 ACCEPT 8 0 190 5190 0", "t:12: a query is accepted twice"},
        {12, "3 210 0 DISPATCH 8 0 0 2", "t:13: not an event"},
        {12, "3 210 0 DISPATCH 8 0 0 2 2 9", "t:13: not an event"},
        {12, "3 x 0 DISPATCH 8 0 0 2 2", "t:13: not an event"},
        {12, "3 210 0 AVERYLONGKINDOFEVENT 8 0 0 2 2", "t:13: not an event"},
        {16, "4 220 1 BLOCK_START 8 0 0 2 7", "t:17: a block on a core"},
        {20, "8 940 1 BLOCK_END 8 0 0 3 0", "t:21: a block of layers"},
        {21, NULL, "events are missing"},
        {25, NULL, "cut off"},
        {25, "# end 17", "t:26: events are missing"},
        {8, "# counters papi l3_miss_rate,l3_accesses", "t:9: a source whose counters"},
        {8, "# counters papi l3_miss_rate,l3_accesses,ipc,x", "t:9: more counters than"},
        {8, "# counters pmu a", "t:9: counters of a source that this version"},
        {8, "# counters slowdown ", "t:9: counters of a source that this version"},
        {8, NULL, "counters that no '# counters' line names"},
        {13, "20 210 0 PRESSURE 0 -1 1000001 0 0", "t:14: a pressure out of"},
        {13, "20 210 0 PRESSURE 0 -1 -1 0 0", "t:14: a pressure out of"},
        {13, "20 210 0 PRESSURE 0 -1 5 2 0", "t:14: a pressure out of"},
        {13, "20 999 0 PRESSURE 0 -1 5 0 0", "t:23: the time of the pressure goes back"},
        {14, "21 215 3 COUNTERS 0 -1 -5 0 0", "t:15: counters that the source does not have"},
        {14, "21 999 3 COUNTERS 0 -1 0 0 0", "t:24: the time of the counters goes back"},
        {15, "22 219 1 VERSIONS 8 0 0 64 2", "t:16: not the versions"},
        {15, "22 219 1 VERSIONS 8 0 0 -1 2", "t:16: not the versions"},
        {15, "22 219 1 VERSIONS 8 0 0 0 21", "t:16: not the versions"},
        {15, "22 219 1 VERSIONS 8 0 0 0 0", "t:16: not the versions"},
        {15, "22 219 1 VERSIONS 8 0 9223372036854775807 16 2", "t:16: versions of layers that are not there"},
        {15, "22 219 1 VERSIONS 8 0 1 16 2", "t:16: versions of layers that are not there"},
        {12, "3 210 0 DISPATCH 8 0 0 3 2", "t:13: a dispatch of layers that are not there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mo_trace t;
        moire_error err = {0};
        assert_int_equal(parse_with(cases[i].at, cases[i].line, &t, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, cases[i].says))
            fail_msg("case %d: '%s' does not say '%s'", (int)i, err.message, cases[i].says);
    }
}

/* --- the machine's speed --- */
enum { STEP = 20000000 };

/* Two cores: the first is half as fast in its second step and does nothing in the fourth, the other has no
 * blocks. */
static void make_spans(struct mo_trace *t, struct mo_trace_span *spans) {
    static const struct mo_trace_span is[] = {
        {0, 1, 0, false, 100, 100 + STEP, STEP},
        {0, 1, 0, false, 100 + STEP, 100 + 2 * STEP, STEP / 2.0},
        {0, 1, 0, true, 100 + 3 * STEP, 100 + 4 * STEP, STEP / 100.0},
    };
    memcpy(spans, is, sizeof is);
    t->queries[0].arrival = t->queries[0].comes = 100;
    t->spans = spans;
    t->n_spans = 3;
}

static void the_pace_is_profile_time_over_time(void **state) {
    (void)state;
    struct mo_trace t;
    struct mo_trace_span spans[3];
    struct mo_sim_spread level[MO_BENCH_MAX_TENANTS] = {{{{0}}, {{{0}}}}};
    struct mo_sim_pace pace;
    for (int i = 0; i < MO_SIM_PARTS; i++)
        level[0].ratio[0][i] = i % 2 ? 0.5 : 1.5; /* 1 in the mean */
    assert_int_equal(parse_with(-1, NULL, &t, NULL), MOIRE_OK);
    make_spans(&t, spans);
    assert_int_equal(mo_trace_pace(&t, level, false, &pace, NULL), MOIRE_OK);
    assert_true(near(mo_sim_pace_work(&pace, 0, 0, STEP), STEP));
    assert_true(near(mo_sim_pace_work(&pace, 0, STEP / 2, STEP * 3 / 2), 0.75 * STEP));
    assert_true(
        near(mo_sim_pace_work(&pace, 0, 3 * STEP, 4 * STEP), 0.5 * STEP)); /* as fast as it was last */
    assert_true(near(mo_sim_pace_work(&pace, 1, 0, 2 * STEP), 2 * STEP));
    assert_int_equal(mo_sim_pace_end(&pace, 0, STEP / 2, STEP * 0.75), STEP * 3 / 2);
    assert_int_equal(mo_trace_pace(&t, level, true, &pace, NULL), MOIRE_OK);
    assert_true(near(mo_sim_pace_work(&pace, 0, 3 * STEP, 4 * STEP), 0.01 * STEP));
    /* there and back, behind the end too */
    for (int64_t from = 0; from < 8 * STEP; from += STEP / 3)
        for (int64_t to = from; to < 9 * STEP; to += STEP / 5) {
            double work = mo_sim_pace_work(&pace, 0, from, to);
            assert_in_range(mo_sim_pace_end(&pace, 0, from, work), to > 1 ? to - 1 : 0, to + 1);
        }
    mo_trace_free(&t);
}

/* What the machine's speed explains is not in the spread any more. */
static void speed_is_taken_out_of_the_spread(void **state) {
    (void)state;
    struct mo_trace t;
    struct mo_trace_span spans[3];
    struct mo_sim_spread *spread;
    struct mo_sim_pace pace;
    assert_int_equal(parse_with(-1, NULL, &t, NULL), MOIRE_OK);
    make_spans(&t, spans);
    t.n_spans = 2;
    t.blocks = (struct mo_trace_block[]){{0, 1, STEP, STEP, 100 + STEP, 0},
                                         {0, 1, STEP, STEP / 2.0f, 100 + 2 * STEP, 0}};
    t.n_blocks = 2;
    assert_int_equal(mo_trace_spread(&t, NULL, &spread, NULL), MOIRE_OK);
    assert_true(spread[0].ratio[0][0] < 1.001 && spread[0].ratio[0][MO_SIM_PARTS - 1] > 1.999);
    assert_int_equal(mo_trace_pace(&t, spread, false, &pace, NULL), MOIRE_OK);
    assert_int_equal(mo_trace_spread(&t, &pace, &spread, NULL), MOIRE_OK);
    for (int i = 0; i < MO_SIM_PARTS; i++)
        assert_true(fabs(spread[0].ratio[0][i] - 4.0 / 3) < 1e-3); /* the mean of both, for both */
    mo_trace_free(&t);
}

/* Starts by what they are; those that a tenant has few of are those of all. */
static void starts_are_kept_apart(void **state) {
    (void)state;
    struct mo_trace t;
    struct mo_sim_spread *spread;
    struct mo_trace_start starts[40];
    assert_int_equal(parse_with(-1, NULL, &t, NULL), MOIRE_OK);
    for (int i = 0; i < 40; i++)
        starts[i] = (struct mo_trace_start){i % 2, i % 4 >= 2, false, i % 4 >= 2 ? 70000 : 3000 + i % 2};
    starts[0].asleep = true; /* too few of that kind: it counts among the others */
    t.starts = starts;
    t.n_starts = 40;
    assert_int_equal(mo_trace_spread(&t, NULL, &spread, NULL), MOIRE_OK);
    for (int i = 0; i < MO_SIM_PARTS; i++) {
        assert_true(near(spread[0].start[0][0][i], 3000) && near(spread[1].start[0][0][i], 3001));
        assert_true(near(spread[0].start[1][0][i], 70000) && near(spread[2].start[1][1][i], 70000));
        assert_true(spread[0].start[0][1][i] >= 3000 && spread[0].start[0][1][i] <= 3001);
    }
    mo_trace_free(&t);
}

/* Every cut is refused, and no changed byte does harm. */
static void cuts_and_noise_do_no_harm(void **state) {
    (void)state;
    char text[4096];
    size_t n = 0;
    struct mo_trace t;
    for (int i = 0; i < LINES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", good[i]);
    for (size_t cut = 0; cut < n; cut++)
        assert_true(mo_trace_parse(the_env(), "t", text, cut, &t, NULL) != MOIRE_OK);
    uint64_t rng = 4;
    for (int i = 0; i < 4000; i++) {
        rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t at = (size_t)(rng >> 33) % n;
        char was = text[at];
        text[at] = (char)(rng >> 50);
        if (!mo_trace_parse(the_env(), "t", text, n, &t, NULL)) mo_trace_free(&t);
        text[at] = was;
    }
}

/* The recording as a scenario: what happened, and its policy on its arrivals, both in time as in the replay.
 */
static void parts_play_the_same(const struct mo_bench_replay_options *o, double overall) {
    struct mo_bench_replay *r;
    struct mo_bench_serve_options serve = {.process = {0}};
    assert_int_equal(mo_bench_replay_open(the_env(), o, &r, NULL), MOIRE_OK);
    const struct mo_bench_simulation *m = mo_bench_replay_simulation(r);
    const struct mo_bench_player players[] = {mo_bench_replay_recorded(r), mo_bench_replay_player(r)};
    assert_string_equal(mo_bench_replay_policy(r), "moire");
    serve.given = mo_bench_replay_schedule(r);
    for (int i = 0; i < 2; i++) {
        json_t *point;
        assert_int_equal(mo_bench_point(the_env(), &players[i], &m->mix, &serve, 1, 1, NULL, &point, NULL),
                         MOIRE_OK);
        assert_true(near(json_number_value(json_object_get(point, "overall")), overall));
        json_decref(point);
    }
    mo_bench_replay_close(r);
    struct mo_bench_replay_options bad = *o;
    bad.policies[0] = "no such";
    bad.n_policies = 1;
    assert_int_equal(mo_bench_replay_open(the_env(), &bad, &r, NULL), MOIRE_EINVAL);
}

/* With the machine's speed as recorded a run at half speed is predicted by profiles of full speed. */
static void a_slow_machine_is_replayed_slow(const struct mo_bench_replay_options *o) {
    struct mo_bench_replay_options with = *o;
    json_t *doc;
    with.pieces = MO_REPLAY_MEASURED | MO_REPLAY_SPEED | MO_REPLAY_STALLS;
    with.draws = 3;
    assert_int_equal(mo_bench_replay(the_env(), &with, &doc, NULL), MOIRE_OK);
    json_t *compared = mo_bench_fidelity_compare(json_array_get(json_object_get(doc, "results"), 0),
                                                 json_array_get(json_object_get(doc, "results"), 1));
    assert_true(fabs(json_number_value(json_object_get(compared, "points"))) < 3);
    assert_true(fabs(json_number_value(json_object_get(compared, "p95_target"))) < 0.1);
    json_decref(compared);
    json_decref(doc);
    with.cores = 4;
    assert_int_equal(mo_bench_replay(the_env(), &with, &doc, NULL), MOIRE_EINVAL);
}

/* A simulated run, recorded as a live one is, and replayed on the profiles of its trace: the same answers. */
static void a_replay_of_a_simulation_is_the_simulation(void **state) {
    (void)state;
    static const int64_t times[2][2] = {{3000000, 2000000}, {1600000, 1100000}};
    static const char preface[] = "# policy moire\n# since 0\n# tenant 0 2 20000000 0 0 0 t\n"
                                  "# profile 0 1 3000000,2000000\n# profile 0 2 1600000,1100000\n";
    char path[] = "/tmp/moire-trace-XXXXXX";
    close(mkstemp(path));
    struct mo_events *events = mo_events_create(the_env(), 1, 1 << 18);
    struct mo_profile *p = mo_profile_create(the_env(), 2, 2);
    for (int c = 1; c <= 2; c++)
        mo_profile_record(p, c, times[c - 1]);
    mo_profile_finish(p);
    struct mo_bench_schedule s;
    struct mo_bench_simulation m = {.env = the_env(),
                                    .machine.sim = {.n_cores = 2, .block_ns = 3000},
                                    .mix = {.cores = 2, .qos_ns = {20000000}}};
    m.mix.scenario.tenants[0] = (struct mo_bench_tenant){.name = "t", .model = "t"};
    m.mix.scenario.n_tenants = 1;
    m.profile[0] = p;
    m.ring = &events->ring[0];
    const double rate = 330;
    assert_int_equal(mo_bench_schedule_draw(the_env(), &(struct mo_process){0}, 1, &rate, NULL, 1, 0,
                                            4000000000, 5000000000, &s, NULL),
                     MOIRE_OK);
    struct mo_bench_record *records = calloc((size_t)s.n, sizeof *records);
    int64_t cut;
    assert_int_equal(
        mo_bench_simulate_play(&m, mo_policy_find("moire"), 1, &s, NULL, records, &cut, NULL, NULL),
        MOIRE_OK);
    assert_int_equal(mo_events_dump(events, 2, preface, path, NULL), MOIRE_OK);
    json_t *doc;
    struct mo_bench_replay_options o = {.trace = path};
    moire_error err;
    if (mo_bench_replay(the_env(), &o, &doc, &err)) fail_msg("%s", err.message);
    const json_t *real = json_array_get(json_object_get(doc, "results"), 0);
    const json_t *predicted = json_array_get(json_object_get(doc, "results"), 1);
    static const char *const keys[] = {"within_qos", "p50_ms", "p95_ms"};
    for (int i = 0; i < 3; i++) {
        double a =
            json_number_value(json_object_get(json_array_get(json_object_get(real, "tenants"), 0), keys[i]));
        double b = json_number_value(
            json_object_get(json_array_get(json_object_get(predicted, "tenants"), 0), keys[i]));
        assert_true(a > 0 && fabs(a - b) < 1e-6);
    }
    double before = json_number_value(json_object_get(real, "overall"));
    json_decref(doc);
    parts_play_the_same(&o, before);
    a_slow_machine_is_replayed_slow(&o);
    o.cores = 4; /* twice as many: hardly anything is late any more */
    assert_int_equal(mo_bench_replay(the_env(), &o, &doc, NULL), MOIRE_OK);
    predicted = json_array_get(json_object_get(doc, "results"), 1);
    assert_true(json_number_value(json_object_get(predicted, "overall")) > before);
    json_decref(doc);
    free(records);
    mo_bench_schedule_free(the_env(), &s);
    mo_profile_destroy(p);
    mo_events_destroy(events);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_read),
        cmocka_unit_test(block_times_spread_as_recorded),
        cmocka_unit_test(cold_times_are_read),
        cmocka_unit_test(a_stalled_block_is_set_apart),
        cmocka_unit_test(the_pace_is_profile_time_over_time),
        cmocka_unit_test(speed_is_taken_out_of_the_spread),
        cmocka_unit_test(starts_are_kept_apart),
        cmocka_unit_test(damage_is_named_with_its_line),
        cmocka_unit_test(cuts_and_noise_do_no_harm),
        cmocka_unit_test(a_replay_of_a_simulation_is_the_simulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
