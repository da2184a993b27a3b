/* SPDX-License-Identifier: Apache-2.0
 * test_ending.c - the pressure that simulated counters show leaves out the blocks that will end soon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/sim/sim.h"
#include "tests/unit/policy/policy_bed.h"

enum { BLOCK_NS = 1000 };

/* A core for every query; notes the pressure where its options say. */
static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)state, (void)event;
    struct mo_cores pool = view->idle;
    **(double *const *)view->options = view->pressure[MO_PRESSURE_CACHE];
    if (view->tenants[0].n_waiting)
        mo_decide_run(out, view->tenants[0].waiting[0], 1, mo_cores_take(&pool, 1, -1));
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    (void)ctx, (void)tenant, (void)a;
}

/* The pressure that a query sees which comes when another has run for so many ns. */
static double pressure_after(const struct mo_sim_machine *machine, int64_t ns) {
    double seen = -1, *note = &seen;
    const struct mo_policy policy = {
        .name = "watcher", .options = &note, .state_bytes = 64, .dispatch = dispatch};
    struct mo_sim_config config = {.env = policy_bed_env(),
                                   .policy = &policy,
                                   .machine = *machine,
                                   .max_queries = 4,
                                   .max_tenants = 1,
                                   .seed = 1,
                                   .answer = answer};
    struct mo_profile *p = mo_profile_create(policy_bed_env(), 1, machine->n_cores);
    struct mo_sched_tenant_config tenant = {.profile = p, .queue = 4, .instances = 4};
    struct mo_sim *sim;
    int index;
    mo_profile_record(p, 1, (const int64_t[]){BLOCK_NS});
    mo_profile_traffic(p, (const int64_t[]){BLOCK_NS / 2});
    mo_profile_finish(p);
    assert_int_equal(mo_sim_create(&config, &sim, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_open(sim, &tenant, &index, NULL), MOIRE_OK);
    mo_sim_advance(sim, 1);
    assert_int_equal(mo_sim_submit(sim, index, NULL, NULL, NULL), MOIRE_OK);
    mo_sim_advance(sim, 1 + ns);
    assert_int_equal(mo_sim_submit(sim, index, NULL, NULL, NULL), MOIRE_OK);
    double pressure = seen;
    mo_sim_drain(sim);
    mo_sim_destroy(sim);
    mo_profile_destroy(p);
    return pressure;
}

/* The block reads half a byte a ns of the one that memory gives; it keeps one of four cores busy. */
static void counters_leave_out_what_ends_soon(void **state) {
    (void)state;
    const struct mo_sim_machine memory = {.n_cores = 4, .bytes_ns = 1},
                                crowd = {.n_cores = 4,
                                         .contention = {.kind = MO_CONTENTION_FACTOR, .most = 2}};
    assert_true(pressure_after(&memory, BLOCK_NS / 2) == 0.5);
    assert_true(pressure_after(&crowd, BLOCK_NS / 2) == 0.25);
    assert_true(pressure_after(&memory, BLOCK_NS - BLOCK_NS / 20) == 0);
    assert_true(pressure_after(&crowd, BLOCK_NS - BLOCK_NS / 20) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_leave_out_what_ends_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
