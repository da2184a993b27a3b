/* SPDX-License-Identifier: Apache-2.0
 * test_inss_world.c - the world in which InSS's scheduler learns: what its stages see and may do, what a
 * decision is worth, and who comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/learn/inss_world.h"
#include "runtime/learn/draws.h"
#include "tests/unit/planner/plan_case.h"

static const char *const names[] = {"lenet", "googlenet", "resnet50", "ssd", "vgg16"};

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

/* Episodes of given tenants differ in how much of the rates comes, and steps in what becomes of each. */
static void given_tenants_come_in_every_episode(void **state) {
    (void)state;
    static const struct mo_inss_world_tenant given[] = {
        {4, 50000000, 10}, {1, 20000000, 100}, {1, 30000000, 40}};
    struct plan_case c;
    struct mo_inss_world *w = calloc(1, sizeof *w);
    const struct mo_share_profile *profiles[5];
    double least = 9, most = 0;
    plan_case_paper(&c, 2);
    for (int i = 0; i < 5; i++)
        profiles[i] = c.profiles[i];
    assert_non_null(w);
    assert_int_equal(mo_inss_world_open(w, &c.kinds[0], 2, names, profiles, 5, 3, NULL), MOIRE_OK);
    w->tenants = given;
    w->n_tenants = 3;
    for (int round = 0; round < 100; round++) {
        double before[3] = {0};
        int changes = 0;
        mo_inss_world_begin(w);
        for (int step = 0; step < 60; step++, mo_inss_world_move(w)) {
            assert_int_equal(w->scene.n, 3);
            for (int i = 0; i < 3; i++) {
                const struct mo_inss_party *p = &w->scene.party[i];
                const struct mo_inss_world_tenant *t = &given[p->at];
                const double part = w->first_rate[p->at] / t->rate, factor = p->rate / w->first_rate[p->at];
                assert_true(p->profile == profiles[t->model] && p->target_ns == t->target_ns);
                assert_int_equal(w->of[p->at], t->model);
                assert_true(part >= 0.5 && part <= 1 && factor >= 0.7 && factor <= 1.3);
                changes += p->rate != before[p->at];
                before[p->at] = p->rate;
                least = fmin(least, part);
                most = fmax(most, part);
            }
        }
        assert_int_equal(changes, 3 * 4); /* at steps 0, 15, 30 and 45 */
    }
    assert_true(least < 0.55 && most > 0.95);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_become_sizes_that_fit),
        cmocka_unit_test(what_does_not_fit_is_masked),
        cmocka_unit_test(a_decision_is_worth_equation_2),
        cmocka_unit_test(given_tenants_come_in_every_episode),
        cmocka_unit_test(a_profile_that_cannot_be_learned_from_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
