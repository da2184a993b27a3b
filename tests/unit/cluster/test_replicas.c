/* SPDX-License-Identifier: Apache-2.0
 * test_replicas.c - models on machines: nothing is lost or overfull, memory is kept, no model hangs on one
 * machine, hot models get more replicas, and what does not fit is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "bench/cluster/replicas.h"

enum { MODELS = 6, NODES = 40 };

struct bed {
    struct mo_env env;
    double holds[MODELS][2];
    struct mo_place_model models[MODELS];
    struct mo_place_node nodes[NODES];
    struct mo_place_problem problem;
};

/* Machines of kind 0 with 1000 MB, which hold 100 queries/s of any model; each model asks for `qps`. */
static void open_bed(struct bed *b, int models, int nodes, double qps, double memory_mb) {
    static const char *const names[MODELS] = {"a", "b", "c", "d", "e", "f"};
    *b = (struct bed){.env = mo_env_default()};
    for (int i = 0; i < models; i++) {
        b->holds[i][0] = b->holds[i][1] = 100;
        b->models[i] = (struct mo_place_model){names[i], qps, memory_mb, b->holds[i]};
    }
    for (int i = 0; i < nodes; i++)
        b->nodes[i] = (struct mo_place_node){0, 1000};
    b->problem = (struct mo_place_problem){&b->env, b->models, models, b->nodes, nodes, 1};
}

/* All of every model has a place, no machine is fuller than it may be, in cores or in memory. */
static void check(const struct bed *b, const struct mo_place_answer *a) {
    double full[NODES] = {0}, memory[NODES] = {0};
    for (int m = 0; m < b->problem.n_models; m++) {
        double sum = 0;
        for (int i = 0; i < a->list[m].n; i++) {
            const struct mo_replica *r = &a->list[m].replica[i];
            assert_true(r->qps > 0 && r->node >= 0 && r->node < b->problem.n_nodes);
            assert_true(!i || r->node > a->list[m].replica[i - 1].node);
            sum += r->qps;
            full[r->node] += r->qps / b->models[m].holds[b->nodes[r->node].kind];
            memory[r->node] += b->models[m].memory_mb;
        }
        assert_true(fabs(sum - b->models[m].qps) < 1e-6 * b->models[m].qps);
    }
    for (int i = 0; i < b->problem.n_nodes; i++) {
        assert_true(full[i] <= a->fill + 1e-6 && fabs(full[i] - a->full[i]) < 1e-6);
        assert_true(memory[i] <= b->nodes[i].memory_mb + 1e-6);
    }
}

static void fails(const struct bed *b, const char *with) {
    struct mo_place_answer a;
    moire_error err = {0};
    assert_int_equal(mo_place(&b->problem, &a, &err), MOIRE_EFAILED);
    if (!strstr(err.message, with)) fail_msg("'%s' does not say '%s'", err.message, with);
    assert_null(a.region);
}

static void machines_are_filled_alike(void **state) {
    (void)state;
    struct bed b;
    struct mo_place_answer a;
    open_bed(&b, 4, 10, 125, 100); /* 5 of 10 machines' worth */
    assert_int_equal(mo_place(&b.problem, &a, NULL), MOIRE_OK);
    check(&b, &a);
    assert_true(a.fill >= 0.5 - 1e-6 && a.fill < 0.6);
    assert_int_equal(a.fewest, 5);
    mo_place_free(&a);
}

static void a_hot_model_gets_more_replicas(void **state) {
    (void)state;
    struct bed b;
    struct mo_place_answer a;
    open_bed(&b, 3, 12, 50, 100);
    b.models[1].qps = 700;
    assert_int_equal(mo_place(&b.problem, &a, NULL), MOIRE_OK);
    check(&b, &a);
    assert_true(a.list[1].n >= 7 && a.list[1].n > 2 * a.list[0].n);
    mo_place_free(&a);
}

static void no_model_hangs_on_one_machine(void **state) {
    (void)state;
    for (int nodes = 2; nodes < 8; nodes++) {
        struct bed b;
        struct mo_place_answer a;
        open_bed(&b, MODELS, nodes, 5, 10);
        assert_int_equal(mo_place(&b.problem, &a, NULL), MOIRE_OK);
        check(&b, &a);
        for (int m = 0; m < MODELS; m++)
            assert_true(a.list[m].n >= 2);
        mo_place_free(&a);
    }
}

static void one_machine_takes_all(void **state) {
    (void)state;
    struct bed b;
    struct mo_place_answer a;
    open_bed(&b, MODELS, 1, 15, 10);
    assert_int_equal(mo_place(&b.problem, &a, NULL), MOIRE_OK);
    check(&b, &a);
    for (int m = 0; m < MODELS; m++)
        assert_int_equal(a.list[m].n, 1);
    mo_place_free(&a);
}

static void memory_is_kept(void **state) {
    (void)state;
    struct bed b;
    struct mo_place_answer a;
    open_bed(&b, 4, 8, 60, 600); /* one copy a machine, two of each model */
    assert_int_equal(mo_place(&b.problem, &a, NULL), MOIRE_OK);
    check(&b, &a);
    mo_place_free(&a);
    b.problem.n_nodes = 7; /* cores would do, a copy has no place */
    fails(&b, "memory is missing");
    for (int i = 0; i < 4; i++)
        b.models[i].memory_mb = 1001;
    fails(&b, "'a' lacks a place for 60 of 60 queries a second (no machine has the memory for it)");
}

static void machines_differ(void **state) {
    (void)state;
    struct bed b;
    struct mo_place_answer a;
    open_bed(&b, 3, 10, 120, 100);
    for (int m = 0; m < 3; m++)
        b.holds[m][1] = 25;
    b.holds[2][1] = 0; /* too slow on the small ones */
    for (int i = 4; i < 10; i++)
        b.nodes[i].kind = 1;
    assert_int_equal(mo_place(&b.problem, &a, NULL), MOIRE_OK);
    check(&b, &a);
    for (int i = 0; i < a.list[2].n; i++)
        assert_true(a.list[2].replica[i].node < 4);
    mo_place_free(&a);
}

static void what_does_not_fit_is_named(void **state) {
    (void)state;
    struct bed b;
    open_bed(&b, 2, 3, 100, 100);
    b.models[1].qps = 250;
    fails(&b, "'a' lacks a place for 50 of 100 queries a second (cores are missing)");
    b.models[1].qps = 10;
    b.holds[1][0] = 0;
    fails(&b, "'b' lacks a place for 10 of 10 queries a second (no machine answers it within its target");
    for (int m = 0; m < MODELS; m++)
        b.models[m] = b.models[0];
    b.problem.n_models = MODELS;
    fails(&b, "models more do not fit");
}

static void a_limit_keeps_a_reserve(void **state) {
    (void)state;
    struct bed b;
    struct mo_place_answer a;
    open_bed(&b, 2, 4, 190, 100);
    b.problem.limit = 0.9;
    fails(&b, "cores are missing");
    b.problem.limit = 1;
    assert_int_equal(mo_place(&b.problem, &a, NULL), MOIRE_OK);
    check(&b, &a);
    mo_place_free(&a);
}

static void random_clusters_hold_their_bounds(void **state) {
    (void)state;
    uint64_t seed = 7;
    int placed = 0;
    for (int round = 0; round < 300; round++) {
        struct bed b;
        struct mo_place_answer a;
        open_bed(&b, 1 + (int)(mo_lcg(&seed) % MODELS), 1 + (int)(mo_lcg(&seed) % NODES), 1, 1);
        for (int m = 0; m < b.problem.n_models; m++) {
            b.models[m].qps = 1 + (double)(mo_lcg(&seed) % 400);
            b.models[m].memory_mb = (double)(mo_lcg(&seed) % 500);
            b.holds[m][0] = 20 + (double)(mo_lcg(&seed) % 200);
            b.holds[m][1] = (double)(mo_lcg(&seed) % 50);
        }
        for (int i = 0; i < b.problem.n_nodes; i++)
            b.nodes[i] =
                (struct mo_place_node){(int)(mo_lcg(&seed) % 2), 100 + (double)(mo_lcg(&seed) % 2000)};
        if (mo_place(&b.problem, &a, NULL)) continue;
        check(&b, &a);
        assert_true(a.fill <= 1);
        placed++;
        mo_place_free(&a);
    }
    assert_true(placed > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_are_filled_alike),
        cmocka_unit_test(a_hot_model_gets_more_replicas),
        cmocka_unit_test(no_model_hangs_on_one_machine),
        cmocka_unit_test(one_machine_takes_all),
        cmocka_unit_test(memory_is_kept),
        cmocka_unit_test(machines_differ),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(a_limit_keeps_a_reserve),
        cmocka_unit_test(random_clusters_hold_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
