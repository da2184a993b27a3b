/* SPDX-License-Identifier: Apache-2.0
 * test_shaped_regions.c - layers whose shapes are known only at run time are run by plans for the shapes that
 * come, and give what the references give: whatever comes after what, by several at once, without memory, and
 * where the shapes do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/region_graph.h"
#include "runtime/ops/op.h"
#include "tests/unit/codegen/ways_case.h"
#include "tests/unit/control/region_pair.h"

enum { ROWS = REGION_ROWS, MOST_PLANS = 16 };

/* --- tests ---------------------------------------------------------------------------------------------- */

static void products_and_what_is_joined_go_into_regions(void **state) {
    static const struct {
        struct ob *(*make)(void);
        int regions, nodes;
    } rows[] = {{region_products, 1, 8},
                {region_convolutions, 1, 6},
                {region_crossing, 2, 3},
                {region_told, 1, 4},
                {region_light, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ob *b = rows[i].make();
        struct mo_graph *g = ways_graph(b, true, true);
        assert_int_equal(ways_count(g, "Region"), rows[i].regions);
        for (int k = 0; k < g->n_nodes; k++)
            if (mo_node_is_ours(g->nodes[k], "Region") && rows[i].regions == 1)
                assert_true(mo_node_body(g->nodes[k], "body")->n_nodes >= rows[i].nodes);
        mo_graph_destroy(g);
        g = ways_graph(b, true, false);
        assert_int_equal(ways_count(g, "Region"), 0); /* a graph for no machine's kernels has none */
        mo_graph_destroy(g);
        ob_destroy(b);
    }
}

static void indices_are_repeated_by_no_layer(void **state) {
    struct ob *b = region_scattered();
    struct mo_graph *g = ways_graph(b, true, true);
    (void)state;
    assert_int_equal(ways_count(g, "ScatterElements"), 1);
    assert_int_equal(ways_count(g, "Expand") + ways_count(g, "Cast"), 0);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void every_way_gives_the_same(void **state) {
    static struct ob *(*const makes[])(void) = {region_products, region_convolutions, region_crossing,
                                                region_scattered};
    (void)state;
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        struct ob *b = makes[i]();
        assert_int_equal(ways_check(b, "a region", false, ways_near_largest), 0);
        ways_without_memory(b);
        ob_destroy(b);
    }
}

/* From no row to all, up and down, so that plans come, go and come again. */
static void shapes_change_from_query_to_query(void **state) {
    static struct ob *(*const makes[])(void) = {region_products, region_convolutions, region_crossing,
                                                region_told, region_scattered};
    (void)state;
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        struct ob *b = makes[i]();
        struct region_pair p = region_pair_of(b);
        for (int turn = 0; turn < 60; turn++) {
            const struct region_query q = region_query_of(turn * 11 % (ROWS + 1), turn);
            region_pair_same(&p, &q);
        }
        region_pair_end(&p, b);
    }
}

static void plans_are_few_and_share_their_weights(void **state) {
    struct ob *b = region_products();
    struct region_pair p = region_pair_of(b);
    (void)state;
    assert_int_equal(mo_plan_count_shaped(p.plan).regions, 1);
    assert_int_equal(mo_plan_count_shaped(p.plan).plans, 0);
    for (int rows = ROWS; rows > 0; rows--) {
        const struct region_query q = region_query_of(rows, 0);
        const int so_far = ROWS - rows + 1;
        region_pair_same(&p, &q);
        const struct mo_plan_shaped now = mo_plan_count_shaped(p.plan);
        assert_int_equal(now.plans, so_far < MOST_PLANS ? so_far : MOST_PLANS);
        /* plain ones are (96 * 64 + 96 * 128) * 4 bytes; a form for many rows and one for few */
        assert_true(now.weight_bytes > 0 && now.weight_bytes <= 2 * 2 * (96 * 64 + 96 * 128) * 4);
    }
    const int64_t bytes = mo_plan_count_shaped(p.plan).weight_bytes;
    for (int rows = 1; rows <= MOST_PLANS; rows++) {
        const struct region_query q = region_query_of(rows, 0);
        region_pair_same(&p, &q);
    }
    assert_int_equal(mo_plan_count_shaped(p.plan).weight_bytes, bytes);
    assert_int_equal(mo_plan_count_shaped(p.plain).regions, 0);
    region_pair_end(&p, b);
}

/* Nothing is planned for no rows. */
static void no_rows_are_no_plan(void **state) {
    struct ob *b = region_convolutions();
    struct region_pair p = region_pair_of(b);
    const struct region_query none = region_query_of(0, 0);
    (void)state;
    region_pair_same(&p, &none);
    assert_int_equal(mo_plan_count_shaped(p.plan).plans, 0);
    region_pair_end(&p, b);
}

static void nobody_waits_any_more(void **state) {
    const _Atomic bool unwanted = true;
    struct ob *b = region_products();
    struct region_pair p = region_pair_of(b);
    const struct region_query q = region_query_of(5, 0);
    (void)state;
    mo_instance_heed(p.is, &unwanted);
    assert_int_equal(region_answer(p.is, p.plan, &q), MOIRE_ECANCELLED);
    mo_instance_reset(p.is);
    region_pair_same(&p, &q);
    region_pair_end(&p, b);
}

static void shapes_that_do_not_fit_name_the_layer(void **state) {
    struct ob *b = region_unfit();
    struct region_pair p = region_pair_of(b);
    const struct region_query q = region_query_of(5, 0);
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        assert_int_not_equal(region_answer(p.is, p.plan, &q), MOIRE_OK);
        assert_non_null(strstr(mo_instance_message(p.is), "'y' (Conv)"));
        assert_null(strstr(mo_instance_message(p.is), "Region"));
        mo_instance_reset(p.is);
    }
    assert_int_equal(mo_plan_count_shaped(p.plan).plans, 0);
    region_pair_end(&p, b);
}

/* --- several at once ------------------------------------------------------------------------------------ */

struct client {
    pthread_t thread;
    const struct mo_plan *plan, *plain;
    int seed, wrong;
};

static void *ask(void *self) {
    struct client *c = self;
    struct mo_instance *is = NULL, *should = NULL;
    if (mo_instance_create(c->plan, &is, NULL) || mo_instance_create(c->plain, &should, NULL)) c->wrong++;
    for (int turn = 0; turn < 60 && !c->wrong; turn++) {
        const struct region_query q = region_query_of((turn * 13 + c->seed) % (ROWS + 1), turn);
        if (region_answer(is, c->plan, &q) || region_answer(should, c->plain, &q) ||
            region_differences(is, should, c->plan->graph->n_outputs))
            c->wrong++;
        mo_instance_reset(is);
        mo_instance_reset(should);
    }
    mo_instance_destroy(is);
    mo_instance_destroy(should);
    return NULL;
}

static void several_ask_at_once(void **state) {
    enum { CLIENTS = 3 };
    struct ob *b = region_products();
    struct mo_plan *plan = region_plan_of(b, mo_region_graph), *plain = region_plan_of(b, NULL);
    struct client c[CLIENTS];
    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = (struct client){.plan = plan, .plain = plain, .seed = i * 5};
        assert_int_equal(pthread_create(&c[i].thread, NULL, ask, &c[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].wrong, 0);
    }
    mo_plan_destroy(plan);
    mo_plan_destroy(plain);
    ob_destroy(b);
}

/* --- without memory ------------------------------------------------------------------------------------- */

static void runs_without_memory_leak_nothing(void **state) {
    (void)state;
    region_sweep_memory(region_answer, 3);
}

static int no_graph(const struct mo_graph *body, const struct mo_value *in, struct mo_weights *weights,
                    const void *elided, struct mo_graph **out, moire_error *err) {
    (void)body, (void)in, (void)weights, (void)elided;
    *out = NULL;
    return mo_fail(err, MOIRE_ENOMEM, "no memory for it");
}

static void count_line(void *user, int level, const char *line) {
    assert_int_equal(level, MOIRE_LOG_WARN);
    assert_non_null(strstr(line, "by the reference"));
    assert_non_null(strstr(line, "no memory for it"));
    ++*(int *)user;
}

/* Slow, and said once, whatever shapes come. */
static void a_region_without_a_plan_is_said(void **state) {
    int lines = 0;
    struct mo_env env = mo_env_default();
    struct ob *b = region_products();
    struct mo_graph *g;
    moire_error err;
    size_t n;
    (void)state;
    env.log = count_line, env.log_user = &lines;
    const uint8_t *bytes = ob_pack(b, &n);
    const struct mo_plan_options options = {.isa = mo_isa_detect(), .shaped = no_graph};
    assert_int_equal(mo_frontend_parse(&env, bytes, n, NULL, NULL, &g, &err), MOIRE_OK);
    struct region_pair p = {.plain = region_plan_of(b, NULL)};
    assert_int_equal(mo_plan_build(g, &options, &p.plan, &err), MOIRE_OK);
    p.is = region_instance_of(p.plan), p.should = region_instance_of(p.plain);
    for (int rows = 3; rows < 6; rows++) {
        const struct region_query q = region_query_of(rows, 0);
        region_pair_same(&p, &q);
    }
    assert_int_equal(lines, 1);
    region_pair_end(&p, b);
}

static int tries; /* of the test below */

static int no_kernels(const struct mo_graph *body, const struct mo_value *in, struct mo_weights *weights,
                      const void *elided, struct mo_graph **out, moire_error *err) {
    (void)body, (void)in, (void)weights, (void)elided;
    *out = NULL;
    tries++;
    return mo_fail(err, MOIRE_EUNSUPPORTED, "no kernels for it");
}

/* Of more shapes than are remembered the last ones are. */
static void no_plan_is_tried_once(void **state) {
    struct ob *b = region_products();
    struct mo_plan *plan = region_plan_of(b, no_kernels), *plain = region_plan_of(b, NULL);
    struct region_pair p = {plan, plain, region_instance_of(plan), region_instance_of(plain)};
    (void)state;
    tries = 0;
    for (int turn = 0; turn < 3; turn++)
        for (int rows = 3; rows < 6; rows++) {
            const struct region_query q = region_query_of(rows, turn);
            region_pair_same(&p, &q);
        }
    assert_int_equal(tries, 3);
    for (int rows = 6; rows <= ROWS; rows++) {
        const struct region_query q = region_query_of(rows, 0);
        region_pair_same(&p, &q);
    }
    assert_int_equal(tries, ROWS - 2);
    for (int rows = ROWS; rows > ROWS - MOST_PLANS; rows--) {
        const struct region_query q = region_query_of(rows, 1);
        region_pair_same(&p, &q);
    }
    assert_int_equal(tries, ROWS - 2);
    region_pair_end(&p, b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_what_is_joined_go_into_regions),
        cmocka_unit_test(indices_are_repeated_by_no_layer),
        cmocka_unit_test(every_way_gives_the_same),
        cmocka_unit_test(shapes_change_from_query_to_query),
        cmocka_unit_test(plans_are_few_and_share_their_weights),
        cmocka_unit_test(no_rows_are_no_plan),
        cmocka_unit_test(nobody_waits_any_more),
        cmocka_unit_test(shapes_that_do_not_fit_name_the_layer),
        cmocka_unit_test(several_ask_at_once),
        cmocka_unit_test(runs_without_memory_leak_nothing),
        cmocka_unit_test(a_region_without_a_plan_is_said),
        cmocka_unit_test(no_plan_is_tried_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
