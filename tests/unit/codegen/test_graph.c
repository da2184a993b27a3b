/* SPDX-License-Identifier: Apache-2.0
 * test_graph.c - building, sorting and checking graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_orders_nodes),
        cmocka_unit_test(sort_reports_cycles),
        cmocka_unit_test(blocked_layout_pads_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
