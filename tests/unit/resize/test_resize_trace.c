/* SPDX-License-Identifier: Apache-2.0
 * test_resize_trace.c - recorded blocks whose cores come and go: what a trace makes of them, what is refused,
 * and when which core is shown to have run. */
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
#include "bench/data/trace.h"
#include "bench/load/core_spans.h"
#include "bench/sim/replay.h"
#include "runtime/base/numbers.h"
#include "tests/unit/resize/restless.h"

/* Query 8 begins on core 0, core 1 joins and leaves; its second block begins on both and ends without core 1,
 * which is late; its third one is on core 0 again. */
static const char *const good[] = {
    /* 0 */ "# moire-history 2\n# cores 2\n# dropped 0\n# policy moire\n# since 100",
    /* 1 */ "# tenant 0 4 5000 0 1 3 t\n# profile 0 1 600,400,600,400\n# profile 0 2 350,250,350,250",
    /* 2 */ "1 200 0 SUBMIT 0 0 190 0 0\n2 200 0 ACCEPT 8 0 190 9190 0",
    /* 3 */ "3 210 0 DISPATCH 8 0 0 2 1",
    /* 4 */ "4 220 1 BLOCK_START 8 0 0 2 0",
    /* 5 */ "5 400 0 RESIZE 8 0 1 0 500",
    /* 6 */ "6 410 2 GROW 8 0 1 2 0",
    /* 7 */ "7 500 0 RESIZE 8 0 0 1 500",
    /* 8 */ "8 600 2 LEAVE 8 0 1 1 0",
    /* 9 */ "9 900 1 BLOCK_END 8 0 0 2 0",
    /* 10 */ "10 905 0 BLOCK_DONE 8 0 0 2 0",
    /* 11 */ "11 910 0 DISPATCH 8 0 2 3 2",
    /* 12 */ "12 920 1 BLOCK_START 8 0 2 3 0\n13 925 2 BLOCK_START 8 0 2 3 1",
    /* 13 */ "14 1300 1 BLOCK_END 8 0 2 3 0",
    /* 14 */ "15 1305 0 BLOCK_DONE 8 0 2 3 1",
    /* 15 */ "16 1310 0 DISPATCH 8 0 3 4 1",
    /* 16 */ "17 1320 1 BLOCK_START 8 0 3 4 0",
    /* 17 */ "18 1400 2 BLOCK_END 8 0 2 3 1",
    /* 18 */ "19 1800 1 BLOCK_END 8 0 3 4 0",
    /* 19 */ "20 1810 0 RESOLVE 8 0 0 9190 0",
    /* 20 */ "# end 20",
};
enum { LINES = sizeof good / sizeof *good };

/* The text with line `at` replaced; at < 0: as it is. */
static int parse_with(int at, const char *line, struct mo_trace *t, moire_error *err) {
    static struct mo_env env; /* outlives every trace: their regions point to it */
    char text[4096];
    size_t n = 0;
    env = mo_env_default();
    for (int i = 0; i < LINES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", i == at ? line : good[i]);
    return mo_trace_parse(&env, "t", text, n, t, err);
}

static void a_resized_block_is_as_fast_as_its_layers_were(void **state) {
    (void)state;
    struct mo_trace t;
    assert_int_equal(parse_with(-1, NULL, &t, NULL), MOIRE_OK);
    assert_int_equal(t.queries[0].end, 1810);
    assert_int_equal(t.n_blocks, 3);
    /* Of the first, with x ns of profile a ns: 190 x of layer 0 on one core, which is 0.317 x of it; 190 x on
     * two end it and do 1.203 x - 1.4 of layer 1; 300 x on one do the rest: x = 960 / 781.3. */
    assert_int_equal(t.blocks[0].end, 900);
    assert_int_equal(t.blocks[0].cores, 1); /* 870 core ns in 680 */
    assert_true(t.blocks[0].observed == 680 && fabsf(t.blocks[0].predicted - 680 * 1.22867f) < 0.01f);
    assert_int_equal(t.blocks[1].end, 1300); /* the second: core 1 was late for its end */
    assert_int_equal(t.blocks[1].cores, 2);
    assert_true(t.blocks[1].observed == 1300 - 920 && t.blocks[1].predicted == 350);
    assert_int_equal(t.blocks[2].end, 1800);
    assert_true(t.blocks[2].observed == 480 && t.blocks[2].predicted == 400);
    const struct {
        int core;
        int64_t begin, end;
    } spans[] = {{1, 410, 600}, {0, 220, 900}, {0, 920, 1300}, {0, 1320, 1800}};
    assert_int_equal(t.n_spans, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t.spans[i].core, spans[i].core);
        assert_int_equal(t.spans[i].begin, spans[i].begin);
        assert_int_equal(t.spans[i].end, spans[i].end);
    }
    assert_true(fabs(t.spans[0].predicted - 190 * 1.22867) < 0.01);
    assert_int_equal(t.n_starts, 3);
    mo_trace_free(&t);
}

static void numbers_that_cannot_be_are_refused(void **state) {
    (void)state;
    const struct {
        int line;
        const char *text, *why;
    } bad[] = {
        {5, "5 400 0 RESIZE 8 0 0 0 500", "t:13: a block that gains and loses cores"},
        {5, "5 400 0 RESIZE 8 0 3 0 500", "t:13: a block that gains and loses cores"},
        {5, "5 400 0 RESIZE 8 0 1 -1 500", "t:13: a block that gains and loses cores"},
        {6, "6 410 2 GROW 8 0 2 2 0", "t:14: a core that is not there"},
        {8, "8 600 2 LEAVE 8 0 -1 1 0", "t:16: a core that is not there"},
        {10, "10 905 0 BLOCK_DONE 8 0 0 2 3", "t:18: a block that ends without"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mo_trace t;
        moire_error err = {0};
        assert_int_equal(parse_with(bad[i].line, bad[i].text, &t, &err), MOIRE_EFORMAT);
        if (strncmp(err.message, bad[i].why, strlen(bad[i].why)))
            fail_msg("wanted '%s', got '%s'", bad[i].why, err.message);
    }
}

static void cores_are_shown_from_when_they_joined(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_events *e = mo_events_create(&env, 3, 64);             /* cores 0 and 1, and decisions */
    mo_event_put(&e->ring[2], 1000, MO_LOG_DISPATCH, 7, 3, 0, 1, 1); /* of an earlier block */
    mo_event_put(&e->ring[2], 2000, MO_LOG_DISPATCH, 7, 3, 1, 9, 1);
    mo_event_put(&e->ring[0], 3000, MO_LOG_BLOCK_START, 7, 3, 1, 9, 0);
    mo_event_put(&e->ring[1], 5000, MO_LOG_GROW, 7, 3, 1, 2, 0);
    mo_event_put(&e->ring[1], 6000, MO_LOG_LEAVE, 7, 3, 1, 1, 0);
    mo_event_put(&e->ring[1], 7000, MO_LOG_GROW, 7, 3, 1, 2, 0);
    mo_event_put(&e->ring[0], 8000, MO_LOG_BLOCK_END, 7, 3, 1, 9, 0);
    mo_event_put(&e->ring[1], 8500, MO_LOG_BLOCK_END, 7, 3, 1, 9, 1);
    mo_event_put(&e->ring[2], 9000, MO_LOG_DISPATCH, 7, 3, 9, 10, 1);
    mo_event_put(&e->ring[1], 9100, MO_LOG_GROW, 5, 3, 1, 2, 0); /* of a query whose decision is not kept */
    mo_event_put(&e->ring[1], 9200, MO_LOG_LEAVE, 5, 3, 1, 1, 0);
    json_t *blocks = json_array();
    mo_bench_core_spans(e, &e->ring[2], 1000, 10, 100, blocks);
    char *text = json_dumps(blocks, JSON_COMPACT | JSON_REAL_PRECISION(4));
    assert_string_equal(text, "[[10,3,7,2.0,7.0,1,9,0],[11,3,7,4.0,5.0,1,9,0],[11,3,7,6.0,7.5,1,9,0]]");
    free(text);
    json_decref(blocks);
    mo_events_destroy(e);
}

/* --- what the simulator did is what the trace says ------------------------------------------------------ */
enum { CORES = 8, ASKED = 400 };
static const int64_t layer_ns[4][2] = {{200000, 400000}, {100000, 200000}, {50000, 100000}, {25000, 50000}};
static const char preface[] = "# policy restless\n# since 0\n# tenant 0 2 20000000 0 0 0 t\n"
                              "# profile 0 1 200000,400000\n# profile 0 2 100000,200000\n"
                              "# profile 0 4 50000,100000\n# profile 0 8 25000,50000\n";

static void nobody(void *ctx, int tenant, const struct mo_answer *answer) {
    (void)ctx, (void)tenant, (void)answer;
}

/* A run under the restless policy on a machine that takes 1.5 times its profiles, into a file. */
static void record(const struct mo_env *env, const char *path) {
    struct mo_events *events = mo_events_create(env, 1, 1 << 16);
    struct mo_profile *p = mo_profile_create(env, 2, CORES);
    struct mo_sim *sim;
    uint64_t rng = 3;
    int tenant;
    for (int i = 0; i < 4; i++)
        mo_profile_record(p, 1 << i, layer_ns[i]);
    mo_profile_finish(p);
    const struct mo_sim_config c = {.env = env,
                                    .policy = &restless,
                                    .machine = {.n_cores = CORES, .slowdown = 1.5},
                                    .max_queries = 64,
                                    .max_tenants = 1,
                                    .seed = 1,
                                    .ring = &events->ring[0],
                                    .answer = nobody};
    const struct mo_sched_tenant_config tc = {.qos_ns = 20000000, .queue = 32, .instances = 16, .profile = p};
    assert_int_equal(mo_sim_create(&c, &sim, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_open(sim, &tc, &tenant, NULL), MOIRE_OK);
    for (int i = 0; i < ASKED; i++) {
        mo_sim_advance(sim, mo_sim_now(sim) + (int64_t)(mo_splitmix(&rng) % 600000));
        mo_sim_submit(sim, tenant, NULL, NULL, NULL);
    }
    assert_int_equal(mo_sim_drain(sim), 0);
    assert_true(mo_sched_stats(mo_sim_sched(sim))->resized > ASKED / 2);
    assert_int_equal(mo_events_dump(events, CORES, preface, path, NULL), MOIRE_OK);
    mo_sim_destroy(sim);
    mo_profile_destroy(p);
    mo_events_destroy(events);
}

static void a_recording_with_resized_blocks_replays(void **state) {
    (void)state;
    static struct mo_env env;
    char path[] = "/tmp/moire-trace-XXXXXX";
    struct mo_trace t;
    json_t *doc;
    moire_error err = {0};
    env = mo_env_default();
    close(mkstemp(path));
    record(&env, path);
    assert_int_equal(mo_trace_read(&env, path, &t, NULL), MOIRE_OK);
    assert_true(t.n_blocks > ASKED / 2); /* others ran on counts without a profile */
    for (int i = 0; i < t.n_blocks; i++)
        assert_float_equal(t.blocks[i].observed / t.blocks[i].predicted, 1.5, 2e-3);
    mo_trace_free(&t);
    const struct mo_bench_replay_options o = {.trace = path,
                                              .policies = {"moire"},
                                              .n_policies = 1,
                                              .pieces = MO_REPLAY_MEASURED | MO_REPLAY_SPEED};
    if (mo_bench_replay(&env, &o, &doc, &err)) fail_msg("%s", err.message);
    assert_float_equal(json_number_value(json_object_get(doc, "block_ratio")), 1.5, 2e-3);
    const json_t *results = json_object_get(doc, "results"); /* what happened, and under moire */
    assert_int_equal(json_array_size(results), 2);
    int64_t n = json_integer_value(json_object_get(json_array_get(results, 0), "n"));
    assert_true(n > ASKED / 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(results, 1), "n")), n);
    json_decref(doc);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resized_block_is_as_fast_as_its_layers_were),
        cmocka_unit_test(numbers_that_cannot_be_are_refused),
        cmocka_unit_test(cores_are_shown_from_when_they_joined),
        cmocka_unit_test(a_recording_with_resized_blocks_replays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
