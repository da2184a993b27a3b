/* SPDX-License-Identifier: Apache-2.0
 * test_search_on_unit.c - the search leaves out layers that have a matrix unit, and counts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/generator/toy_family.h"

enum { LAYERS = 3 };

/* The toy's layer as one of 8-bit numbers. */
static bool small_problem(const struct mo_graph *graph, const struct mo_node *node, enum mo_isa isa,
                          struct mo_problem *out) {
    if (!toy_problem(graph, node, isa, out)) return false;
    out->dot = true;
    return true;
}

static void layers_with_a_unit_are_counted(void **state) {
    (void)state;
    static const struct {
        enum mo_units units;
        int on_unit;
    } cases[] = {{MO_UNITS_MODEL, LAYERS}, {MO_UNITS_NONE, 0}};
    struct mo_env env = mo_env_default();
    char folder[64];
    moire_error err = {0};
    toy_folder(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mo_search_options options = {.store = folder,
                                                  .isa = MO_ISA_BASE,
                                                  .units = cases[i].units,
                                                  .families = toy_families,
                                                  .problem = small_problem};
        struct mo_search *search;
        struct mo_graph *g = toy_graph(&env, LAYERS, "m");
        assert_non_null(g);
        assert_int_equal(mo_search_create(&env, &options, &search, &err), MOIRE_OK);
        assert_int_equal(mo_search_add(search, g, &err), MOIRE_OK);
        mo_graph_destroy(g);
        assert_int_equal(mo_search_on_unit(search), cases[i].on_unit);
        assert_int_equal(mo_search_count(search), LAYERS - cases[i].on_unit);
        mo_search_destroy(search);
    }
    toy_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_with_a_unit_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
