/* SPDX-License-Identifier: Apache-2.0
 * test_inss_train.c - the learned scheduler: trainings that are repeated and interrupted, and plans of
 * policies with any weights, which must hold. */
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
#include "runtime/planner/check.h"
#include "runtime/planner/inss/inss_plan.h"
#include "tests/unit/planner/plan_case.h"

enum { CASES = 300 };
static const char *const names[] = {"lenet", "googlenet", "resnet50", "ssd", "vgg16"};
static struct mo_lets_plan plans[2];

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

static void given_tenants_are_trained_with(void **state) {
    (void)state;
    static const struct mo_inss_world_tenant given[] = {{0, 50000000, 10}, {1, 20000000, 100}};
    static const struct mo_inss_world_tenant others[] = {{0, 50000000, 11}, {1, 20000000, 100}};
    struct mo_inss_trained done;
    moire_error err = {0};
    bed.o.tenants = given;
    bed.o.n_tenants = 2;
    run(0, 5, false, -1, 9);
    run(1, 5, false, 4, 4);
    run(1, 5, true, -1, 9);
    assert_true(same("") && same(".checkpoint") && same(".csv"));
    bed.o.tenants = others;
    assert_int_equal(mo_inss_train(&bed.c.env, &bed.o, &done, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "a tenant's rate 10, and this is 11"));
    bed.o.n_tenants = 5;
    assert_int_equal(mo_inss_train(&bed.c.env, &bed.o, &done, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "5 tenants, and 2 GPUs hold 4"));
    bed.o.n_tenants = 0;
    run(1, 5, false, -1, 9);
    assert_false(same("") || same(".csv"));
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
        cmocka_unit_test_setup_teardown(trainings_repeat_themselves_interrupted_or_not, enter, leave),
        cmocka_unit_test_setup_teardown(given_tenants_are_trained_with, enter, leave),
        cmocka_unit_test_setup_teardown(a_checkpoint_of_something_else_is_refused, enter, leave),
        cmocka_unit_test(plans_hold_whatever_the_weights_are),
        cmocka_unit_test(policies_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
