/* SPDX-License-Identifier: Apache-2.0
 * test_random_graphs.c - passes, kernels of every instruction set level and memory plan against the oracle,
 * on random graphs.  A failure prints the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/graph/copy.h"
#include "tests/unit/codegen/random_graph.h"
#include "tests/unit/codegen/used_memory.h"
#include "tools/moire/verify/dataset.h"
#include "tools/moire/verify/ways.h"

enum { GRAPHS = 150, OUTPUTS = 3 };

/* The graph after all passes, or after all but the layout ones; every other one without what they left. */
static struct mo_graph *passed_graph(const struct mo_env *env, uint64_t seed, bool layout) {
    moire_error err = {0};
    struct mo_frontend_options options = {.no_layout = !layout};
    struct mo_graph *g = random_graph(env, seed);
    if (mo_run_passes(g, &options, &err) || (seed % 2 && mo_graph_squeeze(&g, &err)) ||
        mo_graph_check(g, &err))
        fail_msg("seed %d: %s", (int)seed, err.message);
    return g;
}

static void compare(const char *what, uint64_t seed, const moire_tensor *want, moire_tensor *got, int n) {
    for (int i = 0; i < n; i++) {
        struct mo_difference d;
        bool same = mo_tensors_agree(&want[i], &got[i], 1e-3, 1e-5, &d);
        if (!same && (d.shape || !d.finite || d.max_rel > 1e-4))
            fail_msg("seed %d, %s, output %d: %s, off by %g of the range; element %lld is %g, not %g",
                     (int)seed, what, i, d.shape ? d.shape : "values differ", d.max_rel,
                     (long long)d.first_bad, d.got, d.want);
    }
}

static void check_seed(const struct mo_env *env, uint64_t seed) {
    moire_error err = {0};
    moire_tensor want[OUTPUTS] = {{0}}, got[OUTPUTS] = {{0}};
    struct mo_graph *plain = random_graph(env, seed);
    int n = plain->n_outputs;
    if (!n) {
        mo_graph_destroy(plain);
        return;
    }
    moire_tensor x = random_input(plain, seed);
    if (mo_way_run_reference(plain, &x, 1, want, &err)) fail_msg("seed %d: %s", (int)seed, err.message);
    struct mo_graph *passed = passed_graph(env, seed, true);
    if (mo_way_run_reference(passed, &x, 1, got, &err)) fail_msg("seed %d: %s", (int)seed, err.message);
    compare("reference after passes", seed, want, got, n);
    mo_way_free(env, got, n);
    mo_graph_destroy(passed);
    for (int layout = 0; layout < 2; layout++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
            struct mo_plan_options options = {.isa = (enum mo_isa)isa};
            if (run_graph_in_used_memory(passed_graph(env, seed, layout), &options, &x, 1, got, &err))
                fail_msg("seed %d: %s", (int)seed, err.message);
            compare(mo_isa_name((enum mo_isa)isa), seed, want, got, n);
            mo_way_free(env, got, n);
        }
    mo_way_free(env, want, n);
    mo_graph_destroy(plain);
}

static void every_way_agrees_with_the_oracle(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    for (uint64_t seed = 1; seed <= GRAPHS; seed++)
        check_seed(&env, seed);
}

/* Seeds that once failed: a concat of slices of another concat, an average pool that took a Pad. */
static void old_failures_stay_away(void **state) {
    (void)state;
    static const uint64_t seeds[] = {1933, 11616};
    struct mo_env env = mo_env_default();
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        check_seed(&env, seeds[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way_agrees_with_the_oracle),
                                       cmocka_unit_test(old_failures_stay_away)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
