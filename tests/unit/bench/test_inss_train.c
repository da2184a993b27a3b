/* SPDX-License-Identifier: Apache-2.0
 * test_inss_train.c - the learned scheduler: what its stages see and may do, what a decision is worth,
 * trainings that are repeated and interrupted, and plans of policies with any weights, which must hold. */
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
#include "bench/learn/inss_train.h"
#include "runtime/base/file.h"
#include "runtime/learn/draws.h"
#include "runtime/planner/check.h"
#include "runtime/planner/inss_plan.h"
#include "tests/unit/sched/plan_case.h"

enum { CASES = 300 };
static const char *const names[] = {"lenet", "googlenet", "resnet50", "ssd", "vgg16"};
static struct mo_lets_plan plans[2];

/* --- scenes --------------------------------------------------------------------------------------------- */
static void shares_become_sizes_that_fit(void **state) {
    (void)state;
    struct plan_case c;
    uint64_t rng = 1;
    plan_case_paper(&c, 1);
    for (int round = 0; round < 2000; round++) {
        struct mo_inss_scene s = {.kind = &c.kinds[0], .n_gpus = 1, .n_there = 1};
        float action[2 * MO_INSS_SLOTS] = {0}, sum = 0;
        int member[MO_INSS_SLOTS], units = 0;
        c.kinds[0].max_lets = 1 + mo_draw_below(&rng, 7);
        s.n_slots = mo_inss_slots(&c.kinds[0]);
        assert_int_equal(s.n_slots,
                         c.kinds[0].max_lets < 5 ? c.kinds[0].max_lets : 5); /* 10 units, 2 at least */
        s.n = 1 + mo_draw_below(&rng, s.n_slots);
        for (int i = 0; i < s.n; i++) {
            s.party[i].profile = c.profiles[i];
            member[i] = i;
            sum += action[i] = (float)mo_draw_unit(&rng) + 0.001F;
            action[s.n_slots + i] = (float)(2 * mo_draw_unit(&rng) - 1);
        }
        for (int i = 0; i < s.n; i++)
            action[i] /= sum;
        mo_inss_divide(&s, member, s.n, action);
        for (int i = 0; i < s.n; i++) {
            const int u = s.party[i].units;
            assert_true(u == 2 || u == 4 || u == 5 || u == 6 || u == 8 || u == 10);
            assert_true(s.party[i].batch >= 1 && s.party[i].batch <= MO_INSS_BATCH);
            units += u;
            assert_true(fabs(s.party[i].share - 200 - (1000 - 200.0 * s.n) * (double)action[i]) <= 1);
        }
        assert_true(units <= 10 && (s.n > 1 || units == 10));
    }
    plan_case_close(&c);
}

static void what_does_not_fit_is_masked(void **state) {
    (void)state;
    struct plan_case c;
    float seen[MO_INSS_PLACE_STATE], mask[MO_INSS_GROUP];
    plan_case_paper(&c, 4);
    c.kinds[0].memory_bytes = INT64_C(1100) << 20; /* two models of 500 MiB */
    c.kinds[0].max_lets = 3;
    struct mo_inss_scene s = {.kind = &c.kinds[0], .n_gpus = 4, .n_there = 3, .n_slots = 3, .n = 5};
    for (int i = 0; i < 5; i++) {
        s.party[i] =
            (struct mo_inss_party){.profile = c.profiles[i], .rate = 1, .target_ns = 100000000, .at = i};
        mo_inss_party_look(&s.party[i], s.kind);
    }
    assert_true(mo_inss_place_state(&s, 0, seen, mask));
    assert_true(mask[0] > 0 && mask[1] > 0 && mask[2] > 0 && mask[3] == 0);
    s.party[0].gpu = s.party[1].gpu = 1; /* full by memory */
    s.party[2].gpu = 0;
    assert_true(mo_inss_place_state(&s, 3, seen, mask));
    assert_true(mask[0] > 0 && mask[1] == 0 && mask[2] > 0);
    c.kinds[0].memory_bytes = INT64_C(1) << 40;
    s.n_slots = 2; /* full by slots */
    assert_true(mo_inss_place_state(&s, 3, seen, mask));
    assert_true(mask[0] > 0 && mask[1] == 0 && mask[2] > 0);
    s.n_there = 1;
    s.n_slots = 1;
    assert_false(mo_inss_place_state(&s, 3, seen, mask));
    plan_case_close(&c);
}

/* --- the world ------------------------------------------------------------------------------------------ */
static void a_decision_is_worth_equation_2(void **state) {
    (void)state;
    struct plan_case c;
    struct mo_inss_world *w = calloc(1, sizeof *w);
    struct mo_inss_outcome out;
    const struct mo_share_profile *profiles[5];
    plan_case_paper(&c, 2);
    for (int i = 0; i < 5; i++)
        profiles[i] = c.profiles[i];
    assert_non_null(w);
    assert_int_equal(mo_inss_world_open(w, &c.kinds[0], 2, names, profiles, 5, 3, NULL), MOIRE_OK);
    for (int round = 0; round < 200; round++) {
        mo_inss_world_begin(w);
        assert_true(w->scene.n >= 2 && w->scene.n <= 4);
        for (int i = 0; i < w->scene.n;
             i++) { /* the first alone on GPU 0, the rest together, the last nowhere */
            w->scene.party[i].gpu = i == 0 ? 0 : i == w->scene.n - 1 ? -1 : 1;
            w->scene.party[i].share = i ? 500 : MO_SHARE_WHOLE;
            w->scene.party[i].batch = 1 + round % 32;
            if (i)
                assert_true(w->scene.party[i].rate * w->scene.party[i].cost <=
                            w->scene.party[i - 1].rate * w->scene.party[i - 1].cost);
        }
        const struct mo_inss_party alone = w->scene.party[0], lost = w->scene.party[w->scene.n - 1];
        const int m = w->of[alone.at];
        const double ms = mo_inss_batch_ms(&w->latency[m], alone.batch, MO_SHARE_WHOLE, NULL, 0);
        const double late = mo_inss_late(alone.batch, alone.rate, ms, (double)alone.target_ns * 1e-6);
        mo_inss_world_apply(w, &out);
        const double served = fmin(alone.rate, 1e3 * alone.batch / ms);
        assert_true(fabs(out.reward[0] - (served / w->model[m].rms - 40 * late)) < 1e-6);
        assert_true(out.reward[w->scene.n - 1] == -40);
        assert_true(fabs(w->scene.party[0].queued - fmin(alone.rate, alone.rate - served)) <
                    1e-6 * alone.rate);
        assert_true(w->scene.party[w->scene.n - 1].queued == lost.rate);
        mo_inss_world_move(w);
        for (int i = 0; i < w->scene.n; i++)
            assert_true(w->scene.party[i].gpu == -1 && w->scene.party[i].rate > 0);
    }
    free(w);
    plan_case_close(&c);
}

static void a_profile_that_cannot_be_learned_from_is_named(void **state) {
    (void)state;
    static const int batches[] = {1, 8}, shares[] = {200, 1000};
    struct plan_case c;
    struct mo_inss_world *w = calloc(1, sizeof *w);
    moire_error err = {0};
    plan_case_paper(&c, 1);
    struct mo_share_profile *coarse = mo_share_create(&c.env, 2, batches, 2, shares);
    const struct mo_share_profile *profiles[] = {c.profiles[0], coarse};
    assert_non_null(w);
    for (int i = 0; i < 4; i++)
        mo_share_record(coarse, i / 2, i % 2, &(struct mo_share_cell){1000000 + i, {0.1, 0.1, 0.1}});
    assert_int_equal(mo_share_finish(coarse, NULL), MOIRE_OK);
    assert_int_equal(mo_inss_world_open(w, &c.kinds[0], 1, names, profiles, 2, 1, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'googlenet' on 'gpu': "));
    c.kinds[0].memory_bytes = 1000;
    assert_int_equal(mo_inss_world_open(w, &c.kinds[0], 1, names, profiles, 1, 1, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'lenet' does not fit into the memory"));
    assert_int_equal(mo_inss_world_open(w, &c.kinds[0], 1, names, profiles, 0, 1, &err), MOIRE_EINVAL);
    mo_share_destroy(coarse);
    free(w);
    plan_case_close(&c);
}

/* --- training ------------------------------------------------------------------------------------------- */
struct bed {
    struct plan_case c;
    const struct mo_share_profile *profiles[5];
    struct mo_inss_train_options o;
    char folder[64], path[2][96];
    int stop_after, seen;
};
static struct bed bed;

static bool stop(void *ctx) {
    const struct bed *b = ctx;
    return b->seen == b->stop_after;
}

static void count(void *ctx, int episode, const struct mo_inss_point *point) {
    (void)episode;
    assert_true(isfinite(point->reward) && point->late_pct >= 0 && point->late_pct <= 100);
    ((struct bed *)ctx)->seen++;
}

static int enter(void **state) {
    (void)state;
    memset(&bed, 0, sizeof bed);
    plan_case_paper(&bed.c, 2);
    for (int i = 0; i < 5; i++)
        bed.profiles[i] = bed.c.profiles[i];
    snprintf(bed.folder, sizeof bed.folder, "/tmp/moire-train-XXXXXX");
    if (!mkdtemp(bed.folder)) return -1;
    for (int i = 0; i < 2; i++)
        snprintf(bed.path[i], sizeof bed.path[i], "%s/%d.mo", bed.folder, i);
    bed.o = mo_inss_train_options();
    bed.o.machine = "toy";
    bed.o.kind = &bed.c.kinds[0];
    bed.o.n_gpus = 2;
    bed.o.n_models = 5;
    bed.o.names = names;
    bed.o.profiles = bed.profiles;
    bed.o.episodes = 9;
    bed.o.steps = 12;
    bed.o.hidden = 8;
    bed.o.batch = 16;
    bed.o.room = 150; /* it becomes full */
    bed.o.every = 4;
    bed.o.plain = true;
    bed.o.output = bed.path[0];
    bed.o.stop = stop;
    bed.o.progress = count;
    bed.o.ctx = &bed;
    bed.stop_after = -1;
    return 0;
}

static int leave(void **state) { /* fails when anything is left but the files of the two policies */
    (void)state;
    static const char *const suffix[] = {"", ".checkpoint", ".csv", ".svg"};
    for (int i = 0; i < 8; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", bed.path[i / 4], suffix[i % 4]);
        unlink(path);
    }
    plan_case_close(&bed.c);
    return rmdir(bed.folder);
}

static char *bytes_of(int which, const char *suffix, size_t *n) {
    char path[128], *bytes;
    snprintf(path, sizeof path, "%s%s", bed.path[which], suffix);
    assert_int_equal(mo_file_read(&bed.c.env, path, 1 << 26, "test", &bytes, n, NULL), MOIRE_OK);
    return bytes;
}

static bool same(const char *suffix) {
    size_t n, m;
    char *a = bytes_of(0, suffix, &n), *b = bytes_of(1, suffix, &m);
    const bool equal = n == m && !memcmp(a, b, n);
    mo_free(&bed.c.env, a);
    mo_free(&bed.c.env, b);
    return equal;
}

static void run(int which, uint64_t seed, bool resume, int stop_after, int episodes) {
    struct mo_inss_trained done;
    moire_error err = {0};
    bed.o.output = bed.path[which];
    bed.o.seed = seed;
    bed.o.resume = resume;
    bed.stop_after = stop_after;
    bed.seen = 0;
    if (mo_inss_train(&bed.c.env, &bed.o, &done, &err)) fail_msg("%s", err.message);
    assert_int_equal(done.episodes, episodes);
    assert_true(episodes < 3 || done.updates > 0);
}

static void trainings_repeat_themselves_interrupted_or_not(void **state) {
    (void)state;
    run(0, 5, false, -1, 9);
    run(1, 5, false, -1, 9);
    assert_true(same("") && same(".checkpoint") && same(".csv") && same(".svg"));
    run(1, 6, false, -1, 9);
    assert_false(same("") || same(".checkpoint") || same(".csv"));
    run(1, 5, false, 3, 3);
    assert_false(same(""));
    run(1, 5, true, 2, 5);
    run(1, 5, true, -1, 9);
    assert_true(same("") && same(".checkpoint") && same(".csv") && same(".svg"));
}

static void a_checkpoint_of_something_else_is_refused(void **state) {
    (void)state;
    struct mo_inss_trained done;
    moire_error err = {0};
    bed.o.resume = true;
    assert_int_equal(mo_inss_train(&bed.c.env, &bed.o, &done, &err), MOIRE_EIO); /* there is none */
    assert_non_null(strstr(err.message, "0.mo.checkpoint"));
    run(0, 5, false, 2, 2);
    bed.o.resume = true;
    bed.o.seed = 6;
    assert_int_equal(mo_inss_train(&bed.c.env, &bed.o, &done, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "was made with seed 5, and this is 6"));
    bed.o.seed = 5;
    bed.o.machine = "other";
    assert_int_equal(mo_inss_train(&bed.c.env, &bed.o, &done, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "is of the machine 'toy', not of 'other'"));
    bed.o.machine = "toy";
    bed.o.names = (const char *const[]){"lenet", "googlenet", "resnet50", "ssd", "vgg19"};
    assert_int_equal(mo_inss_train(&bed.c.env, &bed.o, &done, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "has the model 'vgg16' where this has 'vgg19'"));
}

/* --- plans -----------------------------------------------------------------------------------------------
 */
static void plans_hold_whatever_the_weights_are(void **state) {
    (void)state;
    int placed = 0, groups = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct plan_case c;
        moire_error err = {0};
        plan_case_random(&c, seed, false);
        c.view.n_kinds = 1;
        memset(c.gpu_kind, 0, sizeof c.gpu_kind);
        struct mo_region *region = mo_region_create(&c.env);
        const int per = 1 + (int)(seed % MO_INSS_GROUP);
        const struct mo_policy_file policy = plan_case_policy(region, &c.kinds[0], per, seed);
        c.view.learned = &policy;
        if (plan_case_make(&mo_planner_inss, &c, &plans[0], &err) || mo_plan_check(&c.view, &plans[0], &err))
            fail_msg("seed %d: %s", (int)seed, err.message);
        assert_int_equal(plan_case_make(&mo_planner_inss, &c, &plans[1], &err), MOIRE_OK);
        assert_memory_equal(plans[0].lets, plans[1].lets, (size_t)plans[0].n_lets * sizeof *plans[0].lets);
        for (int l = 0; l < plans[0].n_lets; l++)
            assert_int_equal(plans[0].lets[l].n_entries, 1);
        placed += plans[0].n_lets;
        groups += c.view.n_gpus > per;
        mo_region_destroy(region);
        plan_case_close(&c);
    }
    assert_true(placed > CASES && groups > CASES / 4);
}

static void policies_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct plan_case c;
    moire_error err = {0};
    plan_case_paper(&c, 4);
    struct mo_region *region = mo_region_create(&c.env);
    struct mo_policy_file policy = plan_case_policy(region, &c.kinds[0], 4, 1);
    assert_int_equal(plan_case_make(&mo_planner_inss, &c, &plans[0], &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "none was given"));
    c.view.learned = &policy;
    const struct mo_plan_kind kind = c.kinds[0];
    c.kinds[0].max_lets++;
    assert_int_equal(plan_case_make(&mo_planner_inss, &c, &plans[0], &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'gpu of 10 units, lets of 2 4 5 6 8 10, 2 at a time', and here is"));
    assert_non_null(strstr(err.message, "3 at a time'"));
    assert_int_equal(mo_inss_policy_fits(&policy, "a.mo", &c.kinds[0], &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'a.mo' was trained for"));
    c.kinds[0] = kind;
    policy.place.size[0]--;
    assert_int_equal(plan_case_make(&mo_planner_inss, &c, &plans[0], &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "train again"));
    policy.place.size[0]++;
    c.kinds[1] = c.kinds[0];
    c.view.n_kinds = 2;
    assert_int_equal(plan_case_make(&mo_planner_inss, &c, &plans[0], &err), MOIRE_ELIMIT);
    c.view.n_kinds = 1;
    for (int t = 0; t < 5; t++)
        c.tenants[t].rate = 5;
    assert_int_equal(plan_case_make(&mo_planner_inss, &c, &plans[0], &err), MOIRE_OK);
    assert_true(plans[0].n_lets == 5);
    mo_region_destroy(region);
    plan_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_become_sizes_that_fit),
        cmocka_unit_test(what_does_not_fit_is_masked),
        cmocka_unit_test(a_decision_is_worth_equation_2),
        cmocka_unit_test(a_profile_that_cannot_be_learned_from_is_named),
        cmocka_unit_test_setup_teardown(trainings_repeat_themselves_interrupted_or_not, enter, leave),
        cmocka_unit_test_setup_teardown(a_checkpoint_of_something_else_is_refused, enter, leave),
        cmocka_unit_test(plans_hold_whatever_the_weights_are),
        cmocka_unit_test(policies_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
