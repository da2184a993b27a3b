/* SPDX-License-Identifier: Apache-2.0
 * test_released.c - the planners of gpu-let's released scheduler say of the 1,023 loads what the authors'
 * program says of them, on the same profile (released-2080ti.csv beside this file).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/data/loads.h"
#include "bench/plans/plan_view.h"
#include "runtime/planner/released/released.h"

enum { PLANNERS = 3 };
static const char *const names[PLANNERS] = {"sbp-paper", "gpulet-released", "ideal-partitions"};

static struct mo_bench_plan_view view; /* too large for a stack */
static struct mo_lets_plan plan;

static void open_view(const struct mo_env *env) {
    moire_error err = {0};
    if (mo_bench_plan_open(env, "bench/machines/gpus4-2080ti.json", "bench/scenarios/gpulet-equal.json",
                           &view, &err))
        fail_msg("%s", err.message);
}

static void take_load(int index) {
    double rate[MO_LOADS_MODELS];
    mo_loads_rates(index, rate);
    for (int t = 0; t < MO_LOADS_MODELS; t++)
        view.tenants[t].rate = rate[t];
}

static void read_theirs(bool theirs[MO_LOADS_GRID][PLANNERS]) {
    FILE *file = fopen("tests/unit/bench/released-2080ti.csv", "r");
    char line[200], *at;
    int n = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (line[0] < '0' || line[0] > '9') continue; /* where it is from, and names of columns */
        assert_true(n < MO_LOADS_GRID);
        assert_int_equal(strtol(line, &at, 10), n);
        for (int p = 0; p < PLANNERS; p++) {
            assert_int_equal(*at, ',');
            theirs[n][p] = strtol(at + 1, &at, 10) == 1;
        }
        n++;
    }
    fclose(file);
    assert_int_equal(n, MO_LOADS_GRID);
}

static void loads_are_served_as_by_the_authors_program(void **state) {
    (void)state;
    static bool theirs[MO_LOADS_GRID][PLANNERS];
    const struct mo_env env = mo_env_default();
    moire_error err = {0};
    read_theirs(theirs);
    open_view(&env);
    for (int p = 0; p < PLANNERS; p++) {
        const struct mo_planner *planner = mo_planner_find(names[p]);
        int same = 0, ours = 0, only_ours = 0;
        assert_non_null(planner);
        for (int i = 0; i < MO_LOADS_GRID; i++) {
            take_load(i);
            if (mo_plan_make(planner, &view.view, view.scratch, view.scratch_bytes, &plan, &err))
                fail_msg("%s, load %d: %s", names[p], i, err.message);
            same += plan.complete == theirs[i][p];
            ours += plan.complete;
            only_ours += plan.complete && !theirs[i][p];
        }
        print_message("%s: %d loads, %d as the authors' program, %d only here\n", names[p], ours, same,
                      only_ours);
        assert_true(100 * same >= 97 * MO_LOADS_GRID);
    }
    mo_bench_plan_close(&env, &view);
}

/* Loads that are said to be served under these rules. */
static int count(const struct mo_released_rules *rules) {
    int complete = 0;
    moire_error err = {0};
    for (int i = 0; i < MO_LOADS_GRID; i++) {
        struct mo_plan_scratch scratch = {.base = view.scratch, .bytes = view.scratch_bytes};
        bool all = true;
        take_load(i);
        plan = (struct mo_lets_plan){.n_tenants = MO_LOADS_MODELS};
        assert_int_equal(mo_released_plan(&view.view, rules, &scratch, &plan, &err), MOIRE_OK);
        for (int t = 0; t < MO_LOADS_MODELS; t++) {
            double served = 0;
            for (int l = 0; l < plan.n_lets; l++)
                for (int e = 0; e < plan.lets[l].n_entries; e++)
                    served += plan.lets[l].entries[e].tenant == t ? plan.lets[l].entries[e].rate : 0;
            all = all && served >= view.tenants[t].rate * (1 - 1e-6);
        }
        complete += all;
    }
    return complete;
}

/* The authors' program with times of 1.1 times the measured ones serves 778 loads, on whole GPUs 434. */
static void margins_cost_what_they_cost_the_authors_program(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    struct mo_released_rules rules = mo_released_neutral;
    open_view(&env);
    rules.latency = 1.1;
    int lets = count(&rules);
    rules.interference = rules.parts = false;
    int whole = count(&rules);
    print_message("with a margin of 10 %%: %d loads, on whole GPUs %d\n", lets, whole);
    assert_in_range(lets, 778 - 15, 778 + 15);
    assert_in_range(whole, 434 - 8, 434 + 8);
    mo_bench_plan_close(&env, &view);
}

/* Whoever is strict serves less: no tolerance of a lost rate, of lateness, of rates that are ignored. */
static void each_tolerance_counts(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    struct mo_released_rules enough = mo_released_neutral, late = mo_released_neutral;
    open_view(&env);
    int neutral = count(&mo_released_neutral);
    enough.enough = 0.985;
    late.late = 0;
    int less = count(&enough), never_late = count(&late);
    print_message("neutral %d, 98.5 %% of a rate %d, never late %d\n", neutral, less, never_late);
    assert_true(less < neutral && never_late < neutral);
    mo_bench_plan_close(&env, &view);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_are_served_as_by_the_authors_program),
        cmocka_unit_test(margins_cost_what_they_cost_the_authors_program),
        cmocka_unit_test(each_tolerance_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
