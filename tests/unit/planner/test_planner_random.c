/* SPDX-License-Identifier: Apache-2.0
 * test_planner_random.c - what holds for every planner on random machines and tenants: no GPU has more than
 * its units and memory, every tenant meets its target by the model, the order of tenants does not matter, an
 * unchanged load changes nothing, and moire-gpu misses nothing that can be placed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "runtime/planner/rate_bound.h"
#include "runtime/planner/check.h"
#include "runtime/planner/planner.h"
#include "tests/unit/planner/plan_case.h"

enum { CASES = 50 };

static struct mo_lets_plan plans[3]; /* too large for a stack */

static bool sees_interference(const struct mo_planner *p) {
    return !strcmp(p->name, "moire-gpu") || !strcmp(p->name, "ideal") || !strcmp(p->name, "gpulet-int") ||
           !strcmp(p->name, "igniter") || !strcmp(p->name, "beam") || !strcmp(p->name, "mps");
}

/* The view without interference, for planners that do not look at it. */
static void calm(struct plan_case *c) {
    for (int k = 0; k < c->view.n_kinds; k++)
        c->kinds[k].interference = (struct mo_interference){0};
}

/* The cases of a property; what fails names its own. */
static void announce(int cases) {
    print_message("random cases of seeds 1 to %d, every planner\n", cases);
}

static void every_plan_holds_by_the_model(void **state) {
    (void)state;
    announce(CASES);
    int complete = 0, made = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++)
        for (int i = 0; mo_planners()[i]; i++) {
            const struct mo_planner *p = mo_planners()[i];
            struct plan_case c;
            struct mo_planner_bound bound;
            moire_error err = {0};
            plan_case_random(&c, seed, !strcmp(p->name, "ideal"));
            if (!sees_interference(p)) calm(&c);
            int code = plan_case_make(p, &c, &plans[0], &err);
            if (code && code != MOIRE_ELIMIT) fail_msg("seed %d, %s: %s", (int)seed, p->name, err.message);
            if (!code && mo_plan_check(&c.view, &plans[0], &err))
                fail_msg("seed %d, %s: %s", (int)seed, p->name, err.message);
            mo_planner_bound(&c.view, &bound);
            if (!code && plans[0].complete && bound.duty > c.view.n_gpus * (1 + 1e-5))
                fail_msg("seed %d, %s: complete beyond the bound %f", (int)seed, p->name, bound.duty);
            made += !code;
            complete += !code && plans[0].complete;
            plan_case_close(&c);
        }
    /* neither all nor none: the cases can tell something */
    assert_true(made > CASES * 5);
    assert_true(complete > made / 20 && complete < made * 19 / 20);
}

static int units_of(const struct mo_lets_plan *plan, int gpu) {
    int sum = 0;
    for (int l = 0; l < plan->n_lets; l++)
        sum += plan->lets[l].gpu == gpu ? plan->lets[l].units : 0;
    return sum;
}

/* What the tenants of a GPU's lets hold: once each where the lets share weights, else once a let. */
static int64_t memory_of(const struct plan_case *c, const struct mo_lets_plan *plan, int gpu) {
    const int kind = c->gpu_kind[gpu];
    int64_t sum = 0;
    for (int t = 0; t < c->view.n_tenants; t++) {
        int copies = 0;
        for (int l = 0; l < plan->n_lets; l++)
            for (int e = 0; plan->lets[l].gpu == gpu && e < plan->lets[l].n_entries; e++)
                copies += plan->lets[l].entries[e].tenant == t;
        if (copies > 1 && c->kinds[kind].shared_weights) copies = 1;
        if (copies) sum += copies * c->tenants[t].profile[kind]->memory_bytes;
    }
    return sum;
}

static bool fits_the_memory(const struct plan_case *c, const struct mo_lets_plan *plan,
                            const int64_t *bytes) {
    for (int g = 0; g < c->view.n_gpus; g++)
        if (memory_of(c, plan, g) > bytes[c->gpu_kind[g]]) return false;
    return true;
}

/* Every planner is held back by the memory in some of the cases: with endless memory it takes more. */
static void no_gpu_holds_more_than_its_units_and_memory(void **state) {
    (void)state;
    announce(CASES);
    for (int i = 0; mo_planners()[i]; i++) {
        const struct mo_planner *p = mo_planners()[i];
        int held_back = 0;
        for (uint64_t seed = 1; seed <= CASES; seed++) {
            struct plan_case c;
            int64_t bytes[MO_PLAN_KINDS];
            plan_case_random(&c, seed, !strcmp(p->name, "ideal"));
            for (int k = 0; k < c.view.n_kinds; k++)
                bytes[k] = c.kinds[k].memory_bytes /= 4;
            int code = plan_case_make(p, &c, &plans[0], NULL);
            for (int g = 0; !code && g < c.view.n_gpus; g++)
                if (units_of(&plans[0], g) > c.kinds[c.gpu_kind[g]].units)
                    fail_msg("seed %d, %s: more than the units of GPU %d", (int)seed, p->name, g);
            if (!code && !fits_the_memory(&c, &plans[0], bytes))
                fail_msg("seed %d, %s: more than the memory of a GPU", (int)seed, p->name);
            for (int k = 0; k < c.view.n_kinds; k++)
                c.kinds[k].memory_bytes = INT64_MAX / 4;
            if (plan_case_make(p, &c, &plans[1], NULL) == MOIRE_OK)
                held_back += !fits_the_memory(&c, &plans[1], bytes);
            plan_case_close(&c);
        }
        print_message("%s: memory is the limit in %d of %d cases\n", p->name, held_back, CASES);
        assert_true(held_back > 0);
    }
}

static bool same_lets(const struct plan_case *a, const struct mo_lets_plan *x, const struct plan_case *b,
                      const struct mo_lets_plan *y) {
    if (x->n_lets != y->n_lets || x->complete != y->complete) return false;
    for (int l = 0; l < x->n_lets; l++) {
        const struct mo_planned_let *p = &x->lets[l], *q = &y->lets[l];
        if (p->gpu != q->gpu || p->first != q->first || p->units != q->units || p->duty_ns != q->duty_ns ||
            p->n_entries != q->n_entries)
            return false;
        for (int e = 0; e < p->n_entries; e++)
            if (strcmp(a->tenants[p->entries[e].tenant].name, b->tenants[q->entries[e].tenant].name) ||
                p->entries[e].batch != q->entries[e].batch || p->entries[e].rate != q->entries[e].rate)
                return false;
    }
    return true;
}

static void the_order_of_tenants_does_not_matter(void **state) {
    (void)state;
    announce(CASES);
    for (uint64_t seed = 1; seed <= CASES; seed++)
        for (int i = 0; mo_planners()[i]; i++) {
            const struct mo_planner *p = mo_planners()[i];
            struct plan_case a, b;
            uint64_t s = seed;
            plan_case_random(&a, seed, !strcmp(p->name, "ideal"));
            plan_case_random(&b, seed, !strcmp(p->name, "ideal"));
            for (int t = b.view.n_tenants - 1; t > 0; t--) {
                int u = (int)(plan_case_next(&s) % (uint64_t)(t + 1));
                struct mo_plan_tenant swap = b.tenants[t];
                b.tenants[t] = b.tenants[u];
                b.tenants[u] = swap;
            }
            int code = plan_case_make(p, &a, &plans[0], NULL);
            assert_int_equal(plan_case_make(p, &b, &plans[1], NULL), code);
            if (!code && !same_lets(&a, &plans[0], &b, &plans[1]))
                fail_msg("seed %d, %s: another order, another plan", (int)seed, p->name);
            plan_case_close(&a);
            plan_case_close(&b);
        }
}

static void an_unchanged_load_changes_nothing(void **state) {
    (void)state;
    announce(CASES);
    for (uint64_t seed = 1; seed <= CASES; seed++)
        for (int i = 0; mo_planners()[i]; i++) {
            const struct mo_planner *p = mo_planners()[i];
            struct plan_case c;
            plan_case_random(&c, seed, !strcmp(p->name, "ideal"));
            int code = plan_case_make(p, &c, &plans[0], NULL);
            c.view.in_force = &plans[0];
            assert_int_equal(plan_case_make(p, &c, &plans[1], NULL), code);
            if (!code && !same_lets(&c, &plans[0], &c, &plans[1]))
                fail_msg("seed %d, %s: planned again, another plan", (int)seed, p->name);
            plan_case_close(&c);
        }
}

/* moire-gpu places what is placed by the search through all plans, and by everyone who sees interference. */
static void nothing_that_can_be_placed_is_missed(void **state) {
    (void)state;
    const struct mo_planner *ours = mo_planner_find("moire-gpu"), *ideal = mo_planner_find("ideal"),
                            *theirs = mo_planner_find("gpulet-int");
    int compared = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct plan_case c;
        plan_case_random(&c, seed, true);
        if (plan_case_make(ideal, &c, &plans[0], NULL) == MOIRE_OK) {
            assert_int_equal(plan_case_make(ours, &c, &plans[1], NULL), MOIRE_OK);
            assert_int_equal(plan_case_make(theirs, &c, &plans[2], NULL), MOIRE_OK);
            if (plans[0].complete > plans[1].complete) fail_msg("seed %d: moire-gpu misses", (int)seed);
            if (plans[2].complete > plans[0].complete) fail_msg("seed %d: ideal misses", (int)seed);
            compared++;
        }
        plan_case_close(&c);
    }
    assert_true(compared > CASES / 2);
}

/* Planners that others published: their plans need not hold, but keep to the GPUs, and say what they say. */
static void published_planners_keep_to_the_gpus(void **state) {
    (void)state;
    int complete = 0, made = 0;
    announce(4 * CASES);
    for (uint64_t seed = 1; seed <= 4 * CASES; seed++)
        for (int i = 0; mo_planners_published()[i]; i++) {
            const struct mo_planner *p = mo_planners_published()[i];
            struct plan_case c;
            moire_error err = {0};
            double placed[MO_PLAN_TENANTS] = {0};
            plan_case_random(&c, seed, seed % 2);
            int code = plan_case_make(p, &c, &plans[0], &err);
            if (code && code != MOIRE_ELIMIT) fail_msg("seed %d, %s: %s", (int)seed, p->name, err.message);
            for (int l = 0, gpu = -1, end = 0; !code && l < plans[0].n_lets; l++) {
                const struct mo_planned_let *let = &plans[0].lets[l];
                if (let->gpu != gpu) end = 0;
                if (let->first < end || let->units < 1 ||
                    let->first + let->units > c.kinds[c.gpu_kind[let->gpu]].units)
                    fail_msg("seed %d, %s: let %d overlaps", (int)seed, p->name, l);
                gpu = let->gpu;
                end = let->first + let->units;
                for (int e = 0; e < let->n_entries; e++) {
                    assert_true(let->entries[e].batch > 0 && let->entries[e].rate > 0);
                    placed[let->entries[e].tenant] += let->entries[e].rate;
                }
            }
            for (int t = 0; !code && plans[0].complete && t < c.view.n_tenants; t++)
                assert_true(c.tenants[t].best_effort || placed[t] >= c.tenants[t].rate * (1 - 1e-6));
            made += !code;
            complete += !code && plans[0].complete;
            plan_case_close(&c);
        }
    print_message("%d plans, %d complete\n", made, complete);
    assert_true(complete > 0 && complete < made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_planners_keep_to_the_gpus),
        cmocka_unit_test(every_plan_holds_by_the_model),
        cmocka_unit_test(no_gpu_holds_more_than_its_units_and_memory),
        cmocka_unit_test(the_order_of_tenants_does_not_matter),
        cmocka_unit_test(an_unchanged_load_changes_nothing),
        cmocka_unit_test(nothing_that_can_be_placed_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
