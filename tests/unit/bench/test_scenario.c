/* SPDX-License-Identifier: Apache-2.0
 * test_scenario.c - scenario files: good ones, and a table of bad ones with the place each message must name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/loads.h"
#include "bench/data/scenario.h"

static int parse(const char *text, struct mo_bench_scenario *out, moire_error *err) {
    static struct mo_env env; /* a scenario keeps a pointer to it */
    env = mo_env_default();
    return mo_bench_scenario_parse(&env, "f.json", text, strlen(text), out, err);
}

static void reads_all_keys(void **state) {
    (void)state;
    struct mo_bench_scenario s;
    moire_error err = {0};
    const char *text =
        "{\"name\": \"n\", \"about\": \"a\", \"objective\": \"weighted\", \"qos\": {\"times_solo\": 4}, "
        "\"tenants\": [\n"
        " {\"model\": \"m\"},\n"
        " {\"model\": \"m\", \"name\": \"second\", \"weight\": 2.5, \"qos\": {\"ms\": 10}, \"priority\": "
        "-3,\n"
        "  \"class\": \"best-effort\", \"shed_late\": true, \"cores\": 3, \"share\": 0.5, \"shapes\": "
        "{\"x\": [1, 3, 32, 48]}}]}";
    assert_int_equal(parse(text, &s, &err), MOIRE_OK);
    assert_int_equal(s.n_tenants, 2);
    assert_int_equal(s.objective, MO_OBJECTIVE_WEIGHTED);
    mo_bench_scenario_strive(&s, NULL);
    assert_int_equal(s.objective, MO_OBJECTIVE_WEIGHTED);
    mo_bench_scenario_strive(&s, "all");
    assert_int_equal(s.objective, MO_OBJECTIVE_ALL);
    assert_string_equal(s.tenants[0].name, "m");
    assert_true(s.tenants[0].qos.times_solo == 4 && s.tenants[0].qos.cores == 1 && s.tenants[0].weight == 0);
    const struct mo_bench_tenant *t = &s.tenants[1];
    assert_string_equal(t->name, "second");
    assert_true(t->qos.ms == 10 && t->qos.times_solo == 0 && t->weight == 2.5 && t->shed_late);
    assert_int_equal(t->cls, MOIRE_BEST_EFFORT);
    assert_int_equal(t->priority, -3);
    assert_int_equal(t->cores, 3);
    assert_true(t->share == 0.5);
    assert_int_equal(t->n_shapes, 1);
    assert_int_equal(t->shapes[0].rank, 4);
    assert_int_equal(t->shapes[0].shape[3], 48);
    mo_bench_scenario_close(&s);
}

#define TENANTS(list)     "{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [" list "]}"
#define BEST_EFFORT       "\"class\": \"best-effort\""
#define CLOSED(keys)      TENANTS("{\"model\": \"m\"}, {\"model\": \"o\", \"outstanding\": 4, " keys "}")
#define APPLICATION(list) TENANTS("{\"name\": \"a\", \"rate\": 1, \"stages\": [" list "]}")

static void reads_rates_and_applications(void **state) {
    (void)state;
    struct mo_bench_scenario s;
    moire_error err = {0};
    const char *text = "{\"name\": \"n\", \"qos\": {\"ms\": 136}, \"tenants\": [\n"
                       " {\"model\": \"lenet\", \"curve\": [[0, 20], [10.5, 80], [30, 0]]},\n"
                       " {\"name\": \"traffic\", \"rate\": 50, \"stages\": [{\"model\": \"goo\", \"count\": "
                       "2, \"after\": [\"find\"]},\n"
                       "  {\"name\": \"find\", \"model\": \"ssd\"}]}]}";
    int code = parse(text, &s, &err);
    if (code) print_message("%s\n", err.message);
    assert_int_equal(code, MOIRE_OK);
    assert_true(s.rated && s.tenants[0].rate == 80 && s.tenants[1].rate == 50);
    assert_int_equal(s.tenants[0].curve.n, 3);
    assert_true(s.tenants[0].curve.at_s[1] == 10.5 && s.tenants[0].curve.rate[1] == 80);
    const struct mo_bench_application *app = s.tenants[1].app;
    assert_null(s.tenants[0].app);
    assert_null(s.tenants[1].model);
    assert_int_equal(app->dag.n, 2);
    assert_int_equal(app->dag.n_levels, 2);
    assert_int_equal(app->dag.level[0], 1);
    assert_int_equal(app->dag.stage[0].count, 2);
    assert_int_equal(app->dag.stage[0].after[0], 1);
    assert_string_equal(app->stage[1].model, "ssd");
    mo_bench_scenario_close(&s);
}

/* Files that are refused. */
static const struct {
    const char *text, *message; /* what the message must contain */
} bad[] = {
    {"", "f.json:1:0"},
    {"[]", "f.json:1:1: must be an object"},
    {"{\"name\": \"n\"", "f.json:1:"},
    {"{\"tenants\": []}", "the key \"name\" is missing"},
    {"{\"name\": \"n\"}", "the key \"tenants\" is missing"},
    {"{\"name\": 3, \"tenants\": []}", "f.json:1:2: name: must be a string"},
    {"{\"name\": \"n\", \"tenants\": []}", "tenants: needs 1 to"},
    {"{\"name\": \"n\", \"tenants\": {}}", "tenants: must be an array"},
    {"{\"name\": \"n\",\n \"nme\": 1, \"tenants\": []}", "f.json:2:2: nme: unknown key"},
    {"{\"name\": \"n\", \"name\": \"n\", \"tenants\": []}", "duplicate"},
    {"{\"name\": \"n\", \"tenants\": [\n  {\"model\": \"m\"}]}", "f.json:2:3: tenants[0]: has no \"qos\""},
    {"{\"name\": \"n\", \"objective\": \"most\", \"tenants\": []}", "objective: must be \"every\""},
    {"{\"name\": \"n\", \"tenants\": [3]}", "f.json:1:27: tenants[0]: must be an object"},
    {"{\"name\": \"n\", \"tenants\": [{\"qos\": {\"ms\": 1}}]}",
     "tenants[0]: needs exactly one of \"model\" and \"stages\""},
    {TENANTS("{\"model\": \"m\", \"rate\": -1}"), "tenants[0].rate: must lie between"},
    {TENANTS("{\"model\": \"m\", \"rate\": 1e300}"), "tenants[0].rate: must lie between"},
    {TENANTS("{\"model\": \"m\", \"rate\": NaN}"), "f.json:1:"},
    {TENANTS("{\"model\": \"m\", \"curve\": [[0, 1e300]]}"), "point 0 must be"},
    {TENANTS("{\"model\": \"m\", \"rate\": 1, \"curve\": [[0, 1]]}"), "either \"rate\" or \"curve\""},
    {TENANTS("{\"model\": \"m\", \"curve\": []}"), "tenants[0].curve: needs 1 to"},
    {TENANTS("{\"model\": \"m\", \"curve\": [[0, 1], [0, 2]]}"), "point 1 must be"},
    {TENANTS("{\"model\": \"m\", \"curve\": [[0, -1]]}"), "point 0 must be"},
    {TENANTS("{\"model\": \"m\", \"curve\": [[0, 0]]}"), "the rate is 0 throughout"},
    {TENANTS("{\"model\": \"m\", \"rate\": 1}, {\"model\": \"o\"}"), "some have none"},
    {TENANTS("{\"rate\": 1, \"stages\": [{\"model\": \"m\"}]}"), "an application needs a \"name\""},
    {TENANTS("{\"name\": \"a\", \"stages\": [{\"model\": \"m\"}]}"), "'a' needs a rate and a target"},
    {CLOSED("\"class\": \"besteffort\""), "tenants[1].class: must be \"latency-critical\" or"},
    {CLOSED("\"class\": \"latency-critical\""), "tenants[1]: has \"outstanding\" and no target, so it needs"},
    {CLOSED("\"rate\": 1, " BEST_EFFORT), "cannot have \"rate\""},
    {CLOSED("\"weight\": 1, " BEST_EFFORT), "cannot have \"weight\""},
    {CLOSED("\"qos\": {\"ms\": 1}, " BEST_EFFORT), "cannot have \"qos\""},
    {CLOSED("\"shed_late\": true, " BEST_EFFORT), "cannot have \"shed_late\""},
    {TENANTS("{\"model\": \"m\", \"outstanding\": 0}"), "tenants[0].outstanding: must lie between 1 and 64"},
    {TENANTS("{\"model\": \"m\", \"outstanding\": 1, " BEST_EFFORT "}"), "tenants: some must have arrivals"},
    {APPLICATION(""), "stages: needs 1 to"},
    {APPLICATION("{\"model\": \"m\"}, {\"model\": \"m\"}"), "stages[1]: a second stage of that name"},
    {APPLICATION("{\"model\": \"m\", \"after\": [\"x\"]}"), "application 'a' has no stage 'x'"},
    {APPLICATION("{\"model\": \"m\", \"count\": 0}"), "stages[0].count: must"},
    {APPLICATION("{\"model\": \"m\", \"after\": [\"o\"]}, {\"model\": \"o\", \"after\": [\"m\"]}"),
     "waits for itself, in a circle"},
    {"{\"name\": \"n\", \"qos\": {}, \"tenants\": []}", "qos: needs exactly one"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1, \"times_solo\": 2}, \"tenants\": []}", "qos: needs exactly one"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 0}, \"tenants\": []}", "qos.ms: must lie between"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": \"1\"}, \"tenants\": []}", "qos.ms: must be a number"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1, \"cores\": 1.5}, \"tenants\": []}", "must be a whole number"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"m\", \"weight\": -1}]}",
     "tenants[0].weight: must lie between"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"m\", \"class\": \"x\"}]}",
     "tenants[0].class: must be \"latency-critical\""},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"m\"},\n\n   {\"model\": "
     "\"m\"}]}",
     "f.json:3:4: tenants[1]: a second tenant"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"\"}]}", "an empty name"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"m\", \"shapes\": {\"x\": "
     "[0]}}]}",
     "tenants[0].shapes.x: dimension 0 must be"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"m\", \"shapes\": {\"x\": 3}}]}",
     "tenants[0].shapes.x: must be an array"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"m\",\n\"shapes\": "
     "{\"x\": [1,1,1,1,1,1,1,1,1]}}]}",
     "f.json:2:12: tenants[0].shapes.x: must be an array of at most"},
    {"{\"name\": \"n\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"m\", \"prio\": 1}]}",
     "tenants[0].prio: unknown key"},
};

static void names_place_of_errors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mo_bench_scenario s;
        moire_error err = {0};
        assert_int_equal(parse(bad[i].text, &s, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, bad[i].message)) fail_msg("row %zu: %s", i, err.message);
    }
}

static void refuses_unreadable_and_oversized(void **state) {
    (void)state;
    struct mo_bench_scenario s;
    struct mo_env env = mo_env_default();
    moire_error err = {0};
    assert_int_equal(mo_bench_scenario_load(&env, "/nonexistent/x.json", &s, &err), MOIRE_EIO);
    assert_int_equal(mo_bench_scenario_load(&env, "/", &s, &err), MOIRE_EIO);
    env.limits.json_bytes = 10;
    assert_int_equal(mo_bench_scenario_parse(&env, "f", "{\"name\": \"n\"}", 13, &s, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "json_bytes"));
}

static void a_closed_loop_has_neither_rate_nor_target(void **state) {
    (void)state;
    struct mo_bench_scenario s;
    moire_error err = {0};
    if (parse(CLOSED(BEST_EFFORT), &s, &err)) fail_msg("%s", err.message);
    assert_int_equal(s.tenants[1].outstanding, 4);
    assert_int_equal(s.tenants[0].outstanding, 0);
    assert_true(s.tenants[1].qos.ms == 0 && s.tenants[1].qos.times_solo == 0); /* nor that of the scenario */
    assert_false(s.rated);
    assert_int_equal(mo_bench_no_closed_loops(&s, "it", &err), MOIRE_EINVAL);
    assert_string_equal(err.message, "n: 'o' has \"outstanding\" queries, which it does not know");
    mo_bench_scenario_close(&s);
}

static void shipped_scenarios_are_valid(void **state) {
    (void)state;
    static const char *const names[] = {"mix",           "light",      "medium",        "heavy",
                                        "ocr",           "classes",    "veltair-light", "veltair-medium",
                                        "veltair-heavy", "veltair-mix"};
    struct mo_env env = mo_env_default();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        struct mo_bench_scenario s;
        moire_error err = {0};
        snprintf(path, sizeof path, "bench/scenarios/%s.json", names[i]);
        if (mo_bench_scenario_load(&env, path, &s, &err)) fail_msg("%s", err.message);
        assert_string_equal(s.name, names[i]);
        assert_true(s.n_tenants >= 2);
        mo_bench_scenario_close(&s);
    }
}

static struct mo_bench_scenario load_shipped(const char *name) {
    static struct mo_env env; /* a scenario keeps a pointer to it */
    struct mo_bench_scenario s;
    moire_error err = {0};
    static char path[64];
    env = mo_env_default();
    snprintf(path, sizeof path, "bench/scenarios/%s.json", name);
    if (mo_bench_scenario_load(&env, path, &s, &err)) fail_msg("%s", err.message);
    assert_string_equal(s.name, name);
    return s;
}

static void loads_of_the_gpulet_paper_are_there(void **state) {
    (void)state;
    struct mo_bench_scenario s = load_shipped("gpulet-short-skew");
    assert_int_equal(s.n_tenants, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(s.tenants[i].model, mo_loads_models[i].name);
        assert_true((int64_t)(s.tenants[i].qos.ms * 1e6) == mo_loads_models[i].target_ns);
        assert_true(s.tenants[i].rate == (i < 3 ? 100 : 50));
    }
    mo_bench_scenario_close(&s);
    s = load_shipped("gpulet-long-only");
    assert_int_equal(s.n_tenants, 3);
    mo_bench_scenario_close(&s);
    s = load_shipped("gpulet-equal");
    assert_true(s.n_tenants == 5 && s.tenants[4].rate == 50);
    mo_bench_scenario_close(&s);
    s = load_shipped("game");
    assert_true(s.n_tenants == 1 && s.tenants[0].qos.ms == 95 && s.tenants[0].app->dag.n_levels == 1);
    assert_int_equal(s.tenants[0].app->dag.stage[0].count, 6);
    mo_bench_scenario_close(&s);
    s = load_shipped("traffic");
    assert_true(s.n_tenants == 1 && s.tenants[0].qos.ms == 136 && s.tenants[0].app->dag.n_levels == 2);
    mo_bench_scenario_close(&s);
}

/* A wave within the first 600 s, rest, and a higher wave, of every model on its own. */
static void the_waves_rise_twice(void **state) {
    (void)state;
    struct mo_bench_scenario s = load_shipped("gpulet-waves");
    assert_int_equal(s.n_tenants, 5);
    for (int i = 0; i < 5; i++) {
        const struct mo_bench_curve *c = &s.tenants[i].curve;
        double most[3] = {0}; /* before 600 s, 700 to 850 s, later */
        for (int k = 0; k < c->n; k++) {
            int part = c->at_s[k] < 600 ? 0 : c->at_s[k] < 850 ? 1 : 2;
            if (part != 1 || c->at_s[k] >= 700)
                most[part] = c->rate[k] > most[part] ? c->rate[k] : most[part];
        }
        assert_true(c->at_s[0] == 0 && c->at_s[c->n - 1] < 1800);
        assert_true(most[1] < most[0] && most[0] < most[2] && most[2] == s.tenants[i].rate);
    }
    mo_bench_scenario_close(&s);
}

/* Each of the 1,023 loads once. */
static void the_grid_of_loads_is_whole(void **state) {
    (void)state;
    bool seen[1024] = {false};
    double rate[MO_LOADS_MODELS];
    for (int i = 0; i < MO_LOADS_GRID; i++) {
        int code = 0;
        mo_loads_rates(i, rate);
        for (int k = 0; k < MO_LOADS_MODELS; k++) {
            assert_true(rate[k] == 0 || rate[k] == 200 || rate[k] == 400 || rate[k] == 600);
            code = code * 4 + (int)rate[k] / 200;
        }
        assert_true(code > 0 && !seen[code]);
        seen[code] = true;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_keys),
        cmocka_unit_test(reads_rates_and_applications),
        cmocka_unit_test(names_place_of_errors),
        cmocka_unit_test(refuses_unreadable_and_oversized),
        cmocka_unit_test(a_closed_loop_has_neither_rate_nor_target),
        cmocka_unit_test(shipped_scenarios_are_valid),
        cmocka_unit_test(loads_of_the_gpulet_paper_are_there),
        cmocka_unit_test(the_waves_rise_twice),
        cmocka_unit_test(the_grid_of_loads_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
