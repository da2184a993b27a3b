/* SPDX-License-Identifier: Apache-2.0
 * test_region_teams.c - layers of run-time shape, those of regions and those of parts, are shared by a team
 * whose members come and go: they give what the references give, name what fails, and leak nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/region_graph.h"
#include "tests/unit/base/claims_bed.h"
#include "tests/unit/codegen/ways_case.h"
#include "tests/unit/control/region_pair.h"

static const uint64_t seed = 11;

/* --- a team --------------------------------------------------------------------------------------------- */

struct job {
    struct mo_instance *instance;
    _Atomic int pieces; /* run so far */
};

static int team_step(void *ctx, int step, int width, void *scratch) {
    return mo_instance_step(((struct job *)ctx)->instance, step, width, scratch);
}

static void team_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    struct job *job = ctx;
    atomic_fetch_add(&job->pieces, p->to - p->from);
    mo_instance_pieces(job->instance, p->step, p->from, p->to, p->of, scratch);
}

static int team_again(void *ctx, int step, int width) {
    return mo_instance_again(((struct job *)ctx)->instance, step, width);
}

static const struct mo_claims_calls calls = {team_step, team_pieces, team_again};

static void lay(struct claims_bed *bed, struct job *job, const struct mo_plan *plan) {
    claims_lay(bed, 100, &calls, job);
    for (int i = 0; i < CLAIMS_WORKERS; i++)
        bed->scratch[i] = calloc((size_t)plan->scratch_bytes + 64, 1);
}

static void strike(struct claims_bed *bed) {
    claims_strike(bed);
    for (int i = 0; i < CLAIMS_WORKERS; i++)
        free(bed->scratch[i]);
}

/* --- tests ---------------------------------------------------------------------------------------------- */

static void teams_give_what_the_references_give(void **state) {
    static struct ob *(*const makes[])(void) = {region_products, region_convolutions, region_crossing,
                                                region_told, region_rois};
    uint64_t rng = seed;
    (void)state;
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        struct ob *b = makes[i]();
        struct region_pair p = region_pair_of(b);
        struct job job = {.instance = p.is};
        struct claims_bed bed;
        lay(&bed, &job, p.plan);
        for (int turn = 0; turn < 40; turn++) {
            const struct region_query q = region_query_of(turn * 11 % (REGION_ROWS + 1), turn);
            assert_int_equal(region_set(p.is, p.plan, &q), MOIRE_OK);
            if (turn % 2)
                claims_storm(&bed, p.plan->n_steps, &rng);
            else
                claims_run(&bed, p.plan->n_steps, 1 + turn % CLAIMS_WORKERS);
            if (atomic_load(&bed.code)) fail_msg("%s", mo_instance_message(p.is));
            if (region_answer(p.should, p.plain, &q)) fail_msg("%s", mo_instance_message(p.should));
            assert_int_equal(region_differences(p.is, p.should, p.plan->graph->n_outputs), 0);
            mo_instance_reset(p.is);
            mo_instance_reset(p.should);
        }
        assert_true(atomic_load(&job.pieces) > 0);
        assert_true((mo_plan_count_shaped(p.plan).plans > 0) == (makes[i] != region_rois));
        strike(&bed);
        region_pair_end(&p, b);
    }
}

/* By one thread that plays a team of three, whose pieces come last first: what ended the block, if anything.
 */
static int play(struct mo_instance *instance, const struct mo_plan *plan, const struct region_query *q) {
    char *scratch = calloc((size_t)plan->scratch_bytes + 64, 1);
    int rc = region_set(instance, plan, q);
    for (int k = 0; k < plan->n_steps && !rc; k++) {
        int pieces = mo_instance_step(instance, k, 3, scratch);
        for (; pieces > 0; pieces = mo_instance_again(instance, k, 3))
            for (int i = pieces - 1; i >= 0; i--)
                mo_instance_pieces(instance, k, i, i + 1, pieces, scratch);
        rc = pieces;
    }
    free(scratch);
    return rc;
}

static void the_layer_that_fails_is_named(void **state) {
    struct ob *b = region_unfit();
    struct region_pair p = region_pair_of(b);
    const struct region_query q = region_query_of(5, 0);
    (void)state;
    assert_true(play(p.is, p.plan, &q) < 0);
    assert_non_null(strstr(mo_instance_message(p.is), "'y' (Conv)"));
    region_pair_end(&p, b);
}

static void parts_that_cannot_be_are_an_error(void **state) {
    struct ob *b = region_rois_of_no_image();
    struct region_pair p = region_pair_of(b);
    const struct region_query q = region_query_of(5, 0);
    (void)state;
    assert_int_equal(play(p.is, p.plan, &q), MOIRE_EINVAL);
    assert_non_null(strstr(mo_instance_message(p.is), "batch index 1"));
    region_pair_end(&p, b);
}

static void nobody_waits_any_more(void **state) {
    const _Atomic bool unwanted = true;
    struct ob *b = region_products();
    struct region_pair p = region_pair_of(b);
    const struct region_query q = region_query_of(5, 0);
    (void)state;
    mo_instance_heed(p.is, &unwanted);
    assert_int_equal(play(p.is, p.plan, &q), MOIRE_ECANCELLED);
    mo_instance_reset(p.is);
    region_pair_same(&p, &q);
    region_pair_end(&p, b);
}

/* An instance that goes in the middle of a region takes along what that has. */
static void half_a_region_leaks_nothing(void **state) {
    struct ob *b = region_products();
    struct region_pair p = region_pair_of(b);
    const struct region_query q = region_query_of(REGION_ROWS, 0);
    char *scratch = calloc((size_t)p.plan->scratch_bytes + 64, 1);
    int pieces = 0;
    (void)state;
    assert_int_equal(region_set(p.is, p.plan, &q), MOIRE_OK);
    for (int k = 0; k < p.plan->n_steps && !pieces; k++)
        pieces = mo_instance_step(p.is, k, 3, scratch);
    assert_true(pieces > 0);
    mo_instance_reset(p.is);
    region_pair_same(&p, &q);
    free(scratch);
    region_pair_end(&p, b);
}

static void runs_without_memory_leak_nothing(void **state) {
    (void)state;
    region_sweep_memory(play, 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(teams_give_what_the_references_give),
        cmocka_unit_test(the_layer_that_fails_is_named),
        cmocka_unit_test(parts_that_cannot_be_are_an_error),
        cmocka_unit_test(nobody_waits_any_more),
        cmocka_unit_test(half_a_region_leaks_nothing),
        cmocka_unit_test(runs_without_memory_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
