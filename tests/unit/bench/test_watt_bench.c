/* SPDX-License-Identifier: Apache-2.0
 * test_watt_bench.c - `moire bench wattwiser`: the least joules by hand, loads and machines that are refused,
 * and what policies draw beside what is possible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench/wattwiser/watt_run.h"
#include "tests/unit/base/put_file.h"

static const char four[] = "bench/machines/gpus4-mi50.json";

/* A pair under a policy for a while; alike is what differs in nothing. */
static void play(const char *policy, struct mo_watt_ran *out) {
    struct mo_env env = mo_env_default();
    struct mo_bench_machine m;
    struct mo_share_table table[MO_WATT_MODELS];
    struct mo_watt_model model[MO_WATT_MODELS] = {{"vgg19", 320, 41, NULL}, {"alexnet", 1750, 25, NULL}};
    static struct mo_watt_load load = {.n = 4, .part = {{0.2, 0.3}, {0.8, 0.2}, {0.2, 0.8}, {0.3, 0.3}}};
    assert_int_equal(mo_bench_machine_open(&env, four, &m, NULL), MOIRE_OK);
    for (int i = 0; i < MO_WATT_MODELS; i++) {
        assert_int_equal(mo_bench_machine_shares(&env, &m, 0, model[i].name, &table[i], NULL), MOIRE_OK);
        model[i].profile = table[i].profile;
    }
    const struct mo_watt_run_options o = {.env = &env,
                                          .machine = &m,
                                          .model = {&model[0], &model[1]},
                                          .load = &load,
                                          .policy = mo_policy_find(policy),
                                          .step_s = 2,
                                          .warmup_s = 4,
                                          .seed = 3};
    assert_non_null(o.policy);
    assert_int_equal(mo_watt_run(&o, out, NULL), MOIRE_OK);
    for (int i = 0; i < MO_WATT_MODELS; i++)
        mo_share_table_free(&table[i]);
    mo_bench_machine_close(&m);
}

static void policies_serve_the_same_and_draw_less_in_turn(void **state) {
    static struct mo_watt_ran uniform, load, energy, again;
    (void)state;
    play("wattwiser-uniform", &uniform);
    play("wattwiser-sharing-load-aware", &load);
    play("moire-energy", &energy);
    play("moire-energy", &again);
    assert_true(uniform.came > 1000);
    assert_int_equal(uniform.came, load.came);
    assert_int_equal(uniform.came, energy.came);
    assert_true(load.joules < uniform.joules);
    assert_true(energy.joules < uniform.joules);
    assert_true(energy.joules > energy.bound_joules);
    assert_true(load.joules > load.bound_joules);
    assert_true(fabs(uniform.step[0].awake - 4) < 1e-9);
    assert_true(load.step[3].awake < 3);
    assert_true((double)energy.late < 0.01 * (double)energy.came);
    assert_memory_equal(&energy, &again, sizeof energy);
}

static void the_least_joules_are_those_worked_by_hand(void **state) {
    struct mo_env env = mo_env_default();
    const struct mo_power_kind kind = {.off_w = 20, .idle_w = 50, .active_w = 250, .shared = 1};
    struct mo_share_profile *p = mo_share_create(&env, 2, (int[]){1, 2}, 1, (int[]){1000});
    (void)state;
    mo_share_record(p, 0, 0, &(struct mo_share_cell){.ns = 10000000, .use = {0.5, -1, -1}});
    mo_share_record(p, 1, 0, &(struct mo_share_cell){.ns = 15000000, .use = {0.8, -1, -1}});
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    struct mo_watt_model model = {"m", 1, 100, p};
    /* one: (30 + 100) x 10 ms; two: (30 + 160) x 7.5 ms each */
    assert_true(fabs(mo_watt_least_joules(&model, &kind) - 1.3) < 1e-9);
    model.slo_ms = 5; /* nothing is in time */
    assert_true(isinf(mo_watt_least_joules(&model, &kind)));
    mo_share_destroy(p);
}

static void bad_loads_are_refused_with_their_line(void **state) {
    static const struct {
        const char *text, *says;
    } bad[] = {{"# moire-load 1\nstep,first_pct\n0,1\n", "header"},
               {"# moire-load 1\nstep,first_pct,second_pct\n1,20,20\n", "0 is next"},
               {"# moire-load 1\nstep,first_pct,second_pct\n0,-3,20\n", "-3"},
               {"# moire-load 1\nstep,first_pct,second_pct\n0,3,20,4\n", "more cells"},
               {"# moire-load 1\nstep,first_pct,second_pct\n", "first step"}};
    struct mo_env env = mo_env_default();
    static struct mo_watt_load load;
    char path[64], name[48];
    (void)state;
    snprintf(name, sizeof name, "moire-load-%d.csv", (int)getpid());
    snprintf(path, sizeof path, "/tmp/%s", name);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        moire_error err = {0};
        put_file("/tmp", name, bad[i].text, 0600);
        if (mo_watt_load_read(&env, path, &load, &err) != MOIRE_EFORMAT || !strstr(err.message, bad[i].says))
            fail_msg("%zu: %s", i, err.message);
    }
    unlink(path);
}

static void bad_power_is_refused_in_one_line(void **state) {
    static const struct {
        const char *power, *says;
    } bad[] = {
        {"{\"off_w\": -1, \"idle_w\": 2, \"active_w\": 3, \"basis\": \"assumed\", \"source\": \"\"}",
         "off_w"},
        {"{\"idle_w\": 2, \"active_w\": 3, \"basis\": \"assumed\", \"source\": \"\"}", "off_w"},
        {"{\"off_w\": 5, \"idle_w\": 2, \"active_w\": 3, \"basis\": \"assumed\", \"source\": \"\"}",
         "off_w <="},
        {"{\"off_w\": 1, \"idle_w\": 2, \"active_w\": 3, \"basis\": \"guessed\", \"source\": \"\"}",
         "guessed"},
        {"{\"off_w\": 1, \"idle_w\": 2, \"active_w\": 3, \"basis\": \"assumed\", \"source\": \"\", "
         "\"wake_ms\": 1e9}",
         "wake_ms"},
        {"{\"off_w\": 1, \"idle_w\": 2, \"active_w\": 3, \"basis\": \"assumed\", \"source\": \"\", "
         "\"clocks\": [[0.5, 0.5]]}",
         "clocks"},
    };
    struct mo_env env = mo_env_default();
    char path[64], name[48], text[600];
    (void)state;
    snprintf(name, sizeof name, "moire-power-%d.json", (int)getpid());
    snprintf(path, sizeof path, "/tmp/%s", name);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mo_bench_machine m;
        moire_error err = {0};
        snprintf(text, sizeof text, "{\"name\": \"m\", \"cores\": 2, \"power\": %s}", bad[i].power);
        put_file("/tmp", name, text, 0600);
        if (mo_bench_machine_open(&env, path, &m, &err) != MOIRE_EFORMAT || !strstr(err.message, bad[i].says))
            fail_msg("%zu: %s", i, err.message);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_serve_the_same_and_draw_less_in_turn),
        cmocka_unit_test(the_least_joules_are_those_worked_by_hand),
        cmocka_unit_test(bad_loads_are_refused_with_their_line),
        cmocka_unit_test(bad_power_is_refused_in_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
