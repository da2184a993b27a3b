/* SPDX-License-Identifier: Apache-2.0
 * test_cluster_routing.c - the router: each rule sends where it says, its books are even again when all is
 * answered; and the heap of machines beside a search through all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include "bench/cluster/cluster_heap.h"
#include "bench/cluster/cluster_routing.h"

enum { MS = 1000000, NODES = 4, MODELS = 2 };

/* Model 0 (1 ms, due in 5) is on machines 0, 1 and 2, with a half, a quarter and a quarter of its rate; model
 * 1 (40 ms, due in 100) on 2 and 3.  Machine 1 is of a slower kind. */
struct bed {
    struct mo_env env;
    struct mo_replica of[MODELS][3];
    struct mo_place_list list[MODELS];
    int64_t least[MODELS][2], part[MODELS][2];
    struct mo_route_model models[MODELS];
    struct mo_route_node nodes[NODES];
    struct mo_router *router;
};

static void open_bed(struct bed *b, enum mo_routing routing) {
    *b = (struct bed){.env = mo_env_default(),
                      .of = {{{0, 20}, {1, 10}, {2, 10}}, {{2, 1}, {3, 1}}},
                      .list = {{b->of[0], 3}, {b->of[1], 2}},
                      .least = {{1 * MS, 2 * MS}, {10 * MS, 20 * MS}},
                      .part = {{MS / 4, MS / 4}, {200 * MS, 200 * MS}},
                      .models = {{5 * MS, &b->list[0], b->least[0], b->part[0]},
                                 {100 * MS, &b->list[1], b->least[1], b->part[1]}},
                      .nodes = {{0}, {1}, {0}, {0}}};
    const struct mo_router_config c = {&b->env, routing, b->models, b->nodes, MODELS, NODES, 1};
    assert_int_equal(mo_router_create(&c, &b->router, NULL), MOIRE_OK);
}

static void names_are_found(void **state) {
    (void)state;
    for (int i = 0; i < MO_ROUTINGS; i++) {
        enum mo_routing found;
        assert_true(mo_routing_find(mo_routing_name((enum mo_routing)i), &found) && (int)found == i);
    }
    enum mo_routing none;
    assert_false(mo_routing_find("all", &none) || mo_routing_find("", &none));
}

static void chance_follows_the_plan(void **state) {
    (void)state;
    enum { DRAWS = 20000 };
    int sent[3] = {0};
    struct bed b;
    open_bed(&b, MO_ROUTING_RANDOM);
    for (int i = 0; i < DRAWS; i++)
        sent[mo_router_send(b.router, 0)]++;
    assert_true(abs(sent[0] - DRAWS / 2) < DRAWS / 50);
    assert_true(abs(sent[1] - DRAWS / 4) < DRAWS / 50);
    assert_int_equal(mo_router_outstanding(b.router, 0), sent[0]);
    mo_router_destroy(b.router);
}

static void the_fewest_is_found(void **state) {
    (void)state;
    struct bed b;
    open_bed(&b, MO_ROUTING_OUTSTANDING);
    for (int i = 0; i < 31; i++) { /* three machines take turns, wherever a scan begins */
        int least = INT32_MAX;
        for (int n = 0; n < 3; n++)
            least = mo_router_outstanding(b.router, n) < least ? mo_router_outstanding(b.router, n) : least;
        const int replica = mo_router_send(b.router, 0);
        assert_int_equal(mo_router_outstanding(b.router, replica), least + 1);
    }
    mo_router_answered(b.router, 0, 1);
    mo_router_answered(b.router, 0, 1);
    assert_int_equal(mo_router_send(b.router, 0), 1);
    mo_router_destroy(b.router);
}

static void two_are_compared(void **state) {
    (void)state;
    struct bed b;
    open_bed(&b, MO_ROUTING_TWO);
    for (int i = 0; i < 100; i++) { /* of two machines always the other */
        const int replica = mo_router_send(b.router, 1);
        const int here = mo_router_outstanding(b.router, 2 + replica);
        assert_true(here <= mo_router_outstanding(b.router, 3 - replica) + 1);
    }
    mo_router_destroy(b.router);
}

static void of_equals_the_soonest(void **state) {
    (void)state;
    struct bed b;
    open_bed(&b, MO_ROUTING_DEADLINE);
    assert_int_not_equal(mo_router_send(b.router, 0), 1); /* the slow one comes when the others are busy */
    assert_int_not_equal(mo_router_send(b.router, 0), 1);
    assert_int_equal(mo_router_send(b.router, 0), 1);
    mo_router_destroy(b.router);
    open_bed(&b, MO_ROUTING_DEADLINE);
    /* 200 ms that are due in 100 stand before 5 ms as 10 ms: of machines with one query each 2 is the last */
    mo_router_send(b.router, 1);
    mo_router_send(b.router, 1);
    for (int i = 0; i < 4; i++)
        assert_int_not_equal(mo_router_send(b.router, 0), 2);
    assert_int_equal(mo_router_send(b.router, 0), 2);
    mo_router_destroy(b.router);
}

static void what_is_late_rules_nobody_out(void **state) {
    (void)state;
    enum { QUERIES = 100000 };
    struct bed b;
    int sent[2] = {0};
    open_bed(&b, MO_ROUTING_DEADLINE);
    for (int i = 0; i < QUERIES; i++) { /* 200 ms each, due in 100: hours late at the end */
        sent[mo_router_send(b.router, 1)]++;
        assert_true(abs(sent[0] - sent[1]) <= 1);
    }
    assert_int_equal(sent[0] + sent[1], QUERIES);
    mo_router_destroy(b.router);
}

static void books_are_even_again(void **state) {
    (void)state;
    for (int r = 0; r < MO_ROUTINGS; r++) {
        struct bed b;
        int at[2000], model[2000];
        open_bed(&b, (enum mo_routing)r);
        for (int i = 0; i < 2000; i++) {
            model[i] = i % MODELS;
            at[i] = mo_router_send(b.router, model[i]);
            assert_true(at[i] >= 0 && at[i] < b.list[model[i]].n);
        }
        for (int i = 0; i < 2000; i++)
            mo_router_answered(b.router, model[i], at[i]);
        for (int n = 0; n < NODES; n++)
            assert_int_equal(mo_router_outstanding(b.router, n), 0);
        if (r == MO_ROUTING_DEADLINE)
            for (int i = 0; i < 20; i++) { /* nothing is left that would make the slow one look better */
                const int replica = mo_router_send(b.router, 0);
                assert_int_not_equal(replica, 1);
                mo_router_answered(b.router, 0, replica);
            }
        mo_router_destroy(b.router);
    }
}

static void the_heap_knows_the_first(void **state) {
    (void)state;
    enum { N = 37, STEPS = 5000 };
    struct mo_env env = mo_env_default();
    struct mo_region *region = mo_region_create(&env);
    struct mo_cluster_heap heap;
    uint64_t seed = 3;
    assert_true(mo_cluster_heap_init(&heap, region, N));
    assert_true(mo_cluster_heap_least(&heap) == INT64_MAX);
    for (int i = 0; i < STEPS; i++) {
        const uint64_t when = mo_lcg(&seed) % 50;
        mo_cluster_heap_set(&heap, (int)(mo_lcg(&seed) % N), when ? (int64_t)when : INT64_MAX);
        int first = 0;
        for (int n = 1; n < N; n++)
            if (heap.when[n] < heap.when[first]) first = n;
        assert_int_equal(mo_cluster_heap_first(&heap), first);
    }
    mo_region_destroy(region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),       cmocka_unit_test(chance_follows_the_plan),
        cmocka_unit_test(the_fewest_is_found),   cmocka_unit_test(two_are_compared),
        cmocka_unit_test(of_equals_the_soonest), cmocka_unit_test(what_is_late_rules_nobody_out),
        cmocka_unit_test(books_are_even_again),  cmocka_unit_test(the_heap_knows_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
