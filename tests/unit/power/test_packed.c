/* SPDX-License-Identifier: Apache-2.0
 * test_packed.c - moire on as few cores as the load needs: it draws less, is in time, parks the last cores,
 * wakes them up for a burst, and without a model of power it is moire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/sim/sim.h"

enum { CORES = 8, MS = 1000000, QUERIES = 400, QOS_MS = 40 };

static const struct mo_power_kind kind = {
    .off_w = 10, .idle_w = 90, .active_w = 250, .shared = 0.5, .n_clocks = 2, .clock = {{0.5, 0.3}, {1, 1}}};
static const struct mo_power_machine machine = {
    .n_devices = 1, .n_units = CORES, .first = {0, CORES}, .kind = {&kind}};

struct bed {
    struct mo_env env;
    struct mo_profile *profile;
    struct mo_sim *sim;
    int n, in_time, broken;
    int64_t latest; /* of the latencies */
    double joules;
    uint64_t digest; /* of the ends */
};

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct bed *b = ctx;
    (void)tenant;
    const int64_t latency = a->end - (int64_t)(intptr_t)a->user;
    b->n += a->code == MOIRE_OK;
    b->in_time += latency <= (int64_t)QOS_MS * MS;
    if (latency > b->latest) b->latest = latency;
    b->digest = b->digest * 31 + (uint64_t)a->end;
}

/* 16 ms on a core in eight layers, a tenth of it serial; every burst_ms so many queries at once. */
static void serve(struct bed *b, const char *policy, bool powered, int burst, int burst_ms) {
    int tenant;
    int64_t layers[8];
    *b = (struct bed){.env = mo_env_default()};
    b->profile = mo_profile_create(&b->env, 8, CORES);
    for (int c = 1; c <= CORES; c++) {
        for (int i = 0; i < 8; i++)
            layers[i] = MS / 5 + 9 * MS / 5 / c;
        mo_profile_record(b->profile, c, layers);
    }
    mo_profile_finish(b->profile);
    const struct mo_sim_config c = {.env = &b->env,
                                    .policy = mo_policy_find(policy),
                                    .machine = {.n_cores = CORES, .power = powered ? &machine : NULL},
                                    .max_queries = QUERIES,
                                    .max_tenants = 1,
                                    .answer = answer,
                                    .ctx = b};
    const struct mo_sched_tenant_config t = {
        .queue = QUERIES, .instances = CORES, .qos_ns = (int64_t)QOS_MS * MS, .profile = b->profile};
    assert_non_null(c.policy);
    assert_int_equal(mo_sim_create(&c, &b->sim, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_open(b->sim, &t, &tenant, NULL), MOIRE_OK);
    for (int i = 0; i < QUERIES / burst; i++) {
        const int64_t at = 1 + (int64_t)i * burst_ms * MS;
        mo_sim_advance(b->sim, at);
        for (int k = 0; k < burst; k++)
            assert_int_equal(mo_sim_submit(b->sim, 0, (void *)(intptr_t)at, NULL, NULL), MOIRE_OK);
    }
    mo_sim_advance(b->sim, mo_sim_now(b->sim) + (int64_t)burst_ms * MS);
    b->broken = (int)mo_sim_broken(b->sim) + (int)mo_sched_stats(mo_sim_sched(b->sim))->refused;
    b->joules = mo_sim_joules(b->sim);
}

static const struct mo_view *view_of(const struct bed *b) {
    return mo_sched_view(mo_sim_sched(b->sim));
}

static void close_bed(struct bed *b) {
    assert_int_equal(b->broken, 0);
    mo_sim_destroy(b->sim);
    mo_profile_destroy(b->profile);
}

/* A fifth of the cores would do. */
static void it_draws_less_and_is_in_time(void **state) {
    static const char *const rows[] = {"moire-packed", "moire-race", "moire-slow", "moire-sleep"};
    struct bed plain, b;
    (void)state;
    serve(&plain, "moire", true, 1, 10);
    assert_int_equal(plain.in_time, QUERIES);
    for (int i = 0; i < 4; i++) {
        serve(&b, rows[i], true, 1, 10);
        print_message("%s: %.2f J, moire %.2f J\n", rows[i], b.joules, plain.joules);
        assert_int_equal(b.n, QUERIES);
        assert_int_equal(b.in_time, QUERIES);
        assert_true(b.joules < (i < 2 ? 0.9 : 1) * plain.joules);      /* the others keep all cores awake */
        assert_int_equal(mo_cores_count(&view_of(&b)->parked), CORES); /* nobody waits: all sleep */
        close_bed(&b);
    }
    close_bed(&plain);
}

/* The cores that serve are the first ones. */
static void the_last_cores_are_parked(void **state) {
    struct bed b;
    (void)state;
    serve(&b, "moire-race", true, 1, 10);
    assert_int_equal(mo_sim_submit(b.sim, 0, NULL, NULL, NULL), MOIRE_OK);
    const struct mo_cores parked = view_of(&b)->parked;
    const int n = mo_cores_count(&parked);
    assert_true(n > 0 && n < CORES);
    for (int core = 0; core < CORES; core++)
        assert_int_equal(mo_cores_has(&parked, core), core >= CORES - n);
    close_bed(&b);
}

/* Ten queries of 16 ms at once need all cores to be in time; between bursts one core would hold the load. */
static void a_burst_wakes_them_up(void **state) {
    struct bed plain, b;
    (void)state;
    serve(&plain, "moire", true, 10, 200);
    serve(&b, "moire-packed", true, 10, 200);
    print_message("in time: %d, moire %d; latest %.1f ms, moire %.1f ms\n", b.in_time, plain.in_time,
                  (double)b.latest * 1e-6, (double)plain.latest * 1e-6);
    assert_int_equal(b.n, QUERIES);
    assert_true(b.in_time >= plain.in_time - QUERIES / 20);
    assert_true(b.joules < plain.joules);
    close_bed(&plain);
    close_bed(&b);
}

static void without_a_model_of_power_it_is_moire(void **state) {
    struct bed plain, b;
    (void)state;
    serve(&plain, "moire", false, 3, 12);
    serve(&b, "moire-packed", false, 3, 12);
    assert_true(b.digest == plain.digest && b.n == plain.n);
    close_bed(&plain);
    close_bed(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_draws_less_and_is_in_time),
        cmocka_unit_test(the_last_cores_are_parked),
        cmocka_unit_test(a_burst_wakes_them_up),
        cmocka_unit_test(without_a_model_of_power_it_is_moire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
