/* SPDX-License-Identifier: Apache-2.0
 * test_resize_trace.c - recorded blocks whose cores come and go: what a trace makes of them, what is refused,
 * and when which core is shown to have run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/trace.h"
#include "bench/load/core_spans.h"

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

static void what_was_resized_says_nothing_of_a_profile(void **state) {
    (void)state;
    struct mo_trace t;
    assert_int_equal(parse_with(-1, NULL, &t, NULL), MOIRE_OK);
    assert_int_equal(t.queries[0].end, 1810);
    assert_int_equal(t.n_blocks, 2); /* the second, whose end BLOCK_DONE tells, and the third */
    assert_int_equal(t.blocks[0].end, 1305);
    assert_int_equal(t.blocks[0].cores, 2);
    assert_true(t.blocks[0].observed == 1305 - 920 && t.blocks[0].predicted == 350);
    assert_int_equal(t.blocks[1].end, 1800);
    assert_true(t.blocks[1].observed == 480 && t.blocks[1].predicted == 400);
    assert_int_equal(t.n_spans, 2); /* core 0 in these; core 1 was late for the end of the one */
    assert_int_equal(t.spans[0].begin, 920);
    assert_int_equal(t.spans[1].begin, 1320);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_resized_says_nothing_of_a_profile),
        cmocka_unit_test(numbers_that_cannot_be_are_refused),
        cmocka_unit_test(cores_are_shown_from_when_they_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
