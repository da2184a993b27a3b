/* SPDX-License-Identifier: Apache-2.0
 * test_turns.c - which candidates a search takes next, and which it keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include <math.h>
#include "codegen/search/search_impl.h"
#include "codegen/search/measure.h"

enum { JOBS = 4, CANDIDATES = 12 };

struct fixture {
    struct mo_search search;
    struct search_job job[JOBS], *order[JOBS];
    struct candidate candidate[JOBS][CANDIDATES];
};

/* Layers of 4, 3, 2 and 1 us in predicted time; the last one has few candidates. */
static void open_fixture(struct fixture *f, double budget_s) {
    *f = (struct fixture){.search = {.n = JOBS, .jobs = f->order, .options.budget_s = budget_s}};
    for (int i = 0; i < JOBS; i++) {
        f->order[i] = &f->job[i];
        f->job[i] = (struct search_job){.n = i == JOBS - 1 ? 3 : CANDIDATES, .candidate = f->candidate[i]};
        f->job[i].result = (struct mo_layer_result){.signature = "x", .uses = 1};
        f->candidate[i][0].point.cost_ns = 1000 * (JOBS - i);
    }
}

static void without_a_budget_turns_are_whole(void **state) {
    (void)state;
    struct fixture f;
    struct mo_chunk chunk;
    int candidates = 0, turns = 0;
    open_fixture(&f, 0);
    int first = mo_first_turn(&f.search, JOBS);
    assert_int_equal(mo_turns_left(&f.search, first), JOBS);
    while (mo_next_chunk(&f.search, first, &chunk)) {
        for (int i = 0; i < chunk.jobs; i++, turns++)
            assert_int_equal(chunk.turn[i], chunk.job[i]->n);
        for (int i = 0; i < chunk.n; i++)
            assert_true(chunk.candidate[i] >= chunk.of[i]->candidate &&
                        chunk.candidate[i] < chunk.of[i]->candidate + chunk.of[i]->n);
        candidates += chunk.n;
    }
    assert_int_equal(turns, JOBS);
    assert_int_equal(candidates, 3 * CANDIDATES + 3);
    assert_int_equal(mo_turns_left(&f.search, first), 0);
}

static void every_layer_has_a_first_turn_before_any_has_a_second(void **state) {
    (void)state;
    struct fixture f;
    struct mo_chunk chunk;
    for (int tight = 0; tight < 2; tight++) {
        open_fixture(&f, tight ? 2 : 100);
        int first = mo_first_turn(&f.search, JOBS), seen = 0, total = mo_turns_left(&f.search, 2 - tight);
        assert_int_equal(first, 2 - tight);
        for (int turns = 0; mo_next_chunk(&f.search, first, &chunk); turns += chunk.jobs, total -= chunk.jobs)
            for (int i = 0; i < chunk.jobs; i++) {
                struct search_job *job = chunk.job[i];
                if (turns + i < JOBS) {
                    assert_ptr_equal(job, &f.job[turns + i]);
                    assert_int_equal(chunk.turn[i], first);
                    seen++;
                }
                for (int k = 0; k < i; k++)
                    assert_ptr_not_equal(job, chunk.job[k]);
                job->result.min_ns = 1000;
            }
        assert_int_equal(seen, JOBS);
        assert_int_equal(total, 0);
    }
}

static void later_turns_go_where_they_promise_most(void **state) {
    (void)state;
    struct fixture f;
    struct mo_chunk chunk;
    open_fixture(&f, 100);
    int first = mo_first_turn(&f.search, JOBS);
    assert_true(mo_next_chunk(&f.search, first, &chunk));
    assert_int_equal(chunk.jobs, JOBS);
    static const double min_ns[JOBS] = {4000, 1000, 3000, 5000};
    for (int i = 0; i < JOBS; i++) {
        f.job[i].result.min_ns = min_ns[i];
        f.job[i].spent_s = i == 3 ? 10 : 1; /* the longest layer is the dearest to search */
    }
    f.job[1].result.uses = 5;
    static const int expected[JOBS] = {1, 0, 2, 3};
    assert_true(mo_next_chunk(&f.search, first, &chunk));
    for (int i = 0; i < chunk.jobs; i++)
        assert_ptr_equal(chunk.job[i], &f.job[expected[i]]);
    assert_true(mo_next_chunk(&f.search, first, &chunk));
    assert_ptr_equal(chunk.job[0], &f.job[1]); /* six tried: a third as promising, still before the others */
}

static void what_the_store_has_waits_for_refine(void **state) {
    (void)state;
    struct fixture f;
    struct mo_chunk chunk;
    open_fixture(&f, 0);
    f.job[0].result.state = MO_LAYER_REUSED;
    f.job[0].next = 3;
    assert_false(mo_job_wants_more(&f.search, &f.job[0]));
    assert_int_equal(mo_turns_left(&f.search, MO_TURN_MOST), JOBS - 1);
    f.search.options.refine = true;
    assert_true(mo_job_wants_more(&f.search, &f.job[0]));
    assert_int_equal(mo_turns_left(&f.search, MO_TURN_MOST), JOBS);
    f.job[0].next = CANDIDATES;
    assert_false(mo_job_wants_more(&f.search, &f.job[0]));
    f.search.n = 1;
    assert_false(mo_next_chunk(&f.search, MO_TURN_MOST, &chunk));
}

static void of_equals_the_one_that_two_cores_share_better_is_kept(void **state) {
    (void)state;
    static const struct {
        double time[4], half[4];
        int pick;
    } cases[] = {
        {{100, 90, 95, 120}, {0, 0, 0, 0}, 1},              /* halves were not measured */
        {{100, 99, 101, 120}, {50, 60, 52, 40}, 0},         /* 3 is too slow alone */
        {{100, 99, 101, 120}, {58.5, 60, 58.3, 60}, 1},     /* none is that much better */
        {{104, 99, 101, 100}, {40, 60, 0, 55}, 3},          /* 0 is too slow, 2 was not measured */
        {{INFINITY, 99, 100, INFINITY}, {1, 60, 50, 1}, 2}, /* 0 and 3 are not eligible */
        {{INFINITY, INFINITY, INFINITY, INFINITY}, {1, 1, 1, 1}, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mo_measure m = {.n = 4};
        for (int k = 0; k < 4; k++)
            m.half_ns[k] = cases[i].half[k];
        assert_int_equal(mo_measure_pick(&m, cases[i].time, 0), cases[i].pick);
    }
}

/* A byte has its price: small weights win while they cost less time than the bytes are worth. */
static void weights_have_their_price(void **state) {
    (void)state;
    struct mo_measure m = {.n = 3, .bytes = {700, 270, 100}};
    const double time[] = {100, 104, 130};
    assert_int_equal(mo_measure_pick(&m, time, 0), 0);
    assert_int_equal(mo_measure_pick(&m, time, 0.009), 0); /* 430 bytes, 3.87 */
    assert_int_equal(mo_measure_pick(&m, time, 0.01), 1);
    assert_int_equal(mo_measure_pick(&m, time, 0.15), 1); /* 170 bytes, 25.5 */
    assert_int_equal(mo_measure_pick(&m, time, 0.16), 2);
    m.half_ns[0] = 30, m.half_ns[1] = 52; /* 0 is 4 % dearer: no equal */
    assert_int_equal(mo_measure_pick(&m, time, 0.02), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_have_their_price),
        cmocka_unit_test(without_a_budget_turns_are_whole),
        cmocka_unit_test(every_layer_has_a_first_turn_before_any_has_a_second),
        cmocka_unit_test(later_turns_go_where_they_promise_most),
        cmocka_unit_test(what_the_store_has_waits_for_refine),
        cmocka_unit_test(of_equals_the_one_that_two_cores_share_better_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
