/* SPDX-License-Identifier: Apache-2.0
 * test_graph.c - building, sorting and checking graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/graph/copy.h"
#include "runtime/graph/graph.h"

static struct mo_node *unary(struct mo_graph *g, const char *name, int in, int out) {
    struct mo_node *node = mo_graph_add_node(g, name, "Relu", "", 1, 1);
    node->in[0] = in;
    node->out[0] = out;
    return node;
}

/* Nodes added in reverse come out in dependency order. */
static void sort_orders_nodes(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = mo_graph_create(&env);
    struct mo_shape s = {.rank = 1, .d = {4}};
    for (int i = 0; i < 3; i++)
        mo_graph_add_tensor(g, "t", MOIRE_F32, &s);
    unary(g, "second", 1, 2);
    unary(g, "first", 0, 1);
    assert_int_equal(mo_graph_sort(g, NULL), MOIRE_OK);
    assert_string_equal(g->nodes[0]->name, "first");
    assert_int_equal(mo_graph_check(g, NULL), MOIRE_OK);
    mo_graph_destroy(g);
}

static void sort_reports_cycles(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = mo_graph_create(&env);
    struct mo_shape s = {.rank = 1, .d = {4}};
    for (int i = 0; i < 2; i++)
        mo_graph_add_tensor(g, "t", MOIRE_F32, &s);
    unary(g, "a", 0, 1);
    unary(g, "b", 1, 0);
    moire_error err;
    assert_int_equal(mo_graph_sort(g, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "cycle"));
    mo_graph_destroy(g);
}

static void blocked_layout_pads_channels(void **state) {
    (void)state;
    struct mo_tensor t = {.dtype = MOIRE_F32, .shape = {.rank = 4, .d = {2, 24, 3, 5}}, .layout = MO_C16};
    assert_int_equal(mo_tensor_bytes(&t), 2 * 32 * 15 * 4);
    assert_int_equal(mo_tensor_image_bytes(&t), 32 * 15 * 4);
}

enum { SMALL = 3, LARGE = 100000 };

static int constant(struct mo_graph *g, const char *name, int n) {
    struct mo_shape s = {.rank = 1, .d = {n}};
    struct mo_tensor *t = mo_graph_add_const(g, name, MOIRE_F32, &s);
    for (int i = 0; i < n; i++)
        ((float *)t->data)[i] = (float)i;
    return t->id;
}

/* x -> dead -> left; x + small -> y, y + large -> z, which lies in a tensor that nothing else names. */
static struct mo_graph *littered(const struct mo_env *env) {
    struct mo_graph *g = mo_graph_create(env);
    struct mo_shape s = {.rank = 1, .d = {4}};
    const int x = mo_graph_add_tensor(g, "x", MOIRE_F32, &s)->id;
    const int left = mo_graph_add_tensor(g, "left", MOIRE_F32, &s)->id;
    constant(g, "unread", LARGE);
    const int small = constant(g, "small", SMALL), large = constant(g, "large", LARGE);
    const int whole = mo_graph_add_tensor(g, "whole", MOIRE_F32, &s)->id;
    const int y = mo_graph_add_tensor(g, "y", MOIRE_F32, &s)->id;
    const int z = mo_graph_add_tensor(g, "z", MOIRE_F32, &s)->id;
    g->tensors[z]->alias = whole;
    unary(g, "dead", x, left)->dead = true;
    const int in[2][2] = {{x, small}, {y, large}}, out[2] = {y, z};
    for (int i = 0; i < 2; i++) {
        struct mo_node *add = mo_graph_add_node(g, i ? "second" : "first", "Add", "", 2, 1);
        memcpy(add->in, in[i], sizeof in[i]);
        add->out[0] = out[i];
        mo_node_add_attr(g, add, "axis", MO_ATTR_INT)->i = 7 + i;
    }
    g->inputs = mo_region_array(g->region, 1, sizeof *g->inputs);
    g->outputs = mo_region_array(g->region, 1, sizeof *g->outputs);
    g->inputs[g->n_inputs++] = x;
    g->outputs[g->n_outputs++] = z;
    g->tensors[x]->is_input = g->tensors[z]->is_output = true;
    mo_graph_index(g);
    return g;
}

static void squeezing_keeps_what_is_alive(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = littered(&env);
    const void *large = mo_node_in(g, g->nodes[2], 1)->data;
    mo_node_in(g, g->nodes[1], 1)->shared = true; /* where it lies counts, not what is said of it */
    assert_int_equal(g->n_tensors, 8);
    assert_int_equal(mo_graph_squeeze(&g, NULL), MOIRE_OK);
    assert_int_equal(mo_graph_check(g, NULL), MOIRE_OK);
    assert_int_equal(g->n_tensors, 6);
    assert_int_equal(g->n_nodes, 2);
    for (int i = 0; i < g->n_tensors; i++) {
        assert_int_equal(g->tensors[i]->id, i);
        assert_string_not_equal(g->tensors[i]->name, "left");
        assert_string_not_equal(g->tensors[i]->name, "unread");
    }
    assert_string_equal(g->tensors[g->inputs[0]]->name, "x");
    assert_string_equal(g->tensors[g->tensors[g->outputs[0]]->alias]->name, "whole");
    assert_int_equal(mo_attr_int(g->nodes[1], "axis", 0), 8);
    const struct mo_tensor *small = mo_node_in(g, g->nodes[0], 1), *moved = mo_node_in(g, g->nodes[1], 1);
    assert_string_equal(small->name, "small");
    assert_true(((const float *)small->data)[SMALL - 1] == SMALL - 1);
    assert_ptr_equal(moved->data, large); /* no copy of it */
    assert_true(((const float *)moved->data)[LARGE - 1] == LARGE - 1);
    assert_true(!small->shared && !moved->shared);
    mo_graph_destroy(g);
}

/* What belongs to another graph stays there. */
static void a_copy_that_is_squeezed_shares_contents(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = littered(&env), *copy = mo_graph_copy(g, false);
    assert_non_null(copy);
    assert_int_equal(mo_graph_squeeze(&copy, NULL), MOIRE_OK);
    const struct mo_tensor *small = mo_node_in(copy, copy->nodes[0], 1);
    assert_true(small->shared);
    assert_ptr_equal(small->data, mo_node_in(g, g->nodes[1], 1)->data);
    mo_graph_destroy(copy);
    assert_true(((const float *)mo_node_in(g, g->nodes[2], 1)->data)[LARGE - 1] == LARGE - 1);
    mo_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_orders_nodes),
        cmocka_unit_test(sort_reports_cycles),
        cmocka_unit_test(blocked_layout_pads_channels),
        cmocka_unit_test(squeezing_keeps_what_is_alive),
        cmocka_unit_test(a_copy_that_is_squeezed_shares_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
