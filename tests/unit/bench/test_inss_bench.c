/* SPDX-License-Identifier: Apache-2.0
 * test_inss_bench.c - `moire bench inss`: what its document has, that it repeats itself, and what it refuses;
 * and what the learned planner and server do with views that leave something out. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/inss/inss_bench.h"
#include "bench/inss/inss_bench_rows.h"
#include "bench/inss/inss_run.h"
#include "runtime/learn/masked.h"
#include "runtime/sim/sim.h"
#include "tests/unit/planner/plan_case.h"

enum { SEED = 5, CHOICES = 1000000, MOST = 4 };
static const char four[] = "bench/machines/gpus4-v100-mps.json";

static struct mo_lets_plan made; /* too large for a stack */
static struct mo_env env;
static char folder[64], weights[96], output[96];

static int enter(void **state) {
    struct mo_bench_machine m;
    (void)state;
    env = mo_env_default();
    snprintf(folder, sizeof folder, "/tmp/moire-inss-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(weights, sizeof weights, "%s/w.mo", folder);
    snprintf(output, sizeof output, "%s/d.json", folder);
    assert_int_equal(mo_bench_machine_open(&env, four, &m, NULL), MOIRE_OK);
    struct mo_region *region = mo_region_create(&env);
    const struct mo_policy_file p = plan_case_policy(region, &m.gpus[0].kind, 4, SEED);
    assert_int_equal(mo_policy_write(&env, weights, &p, NULL), MOIRE_OK);
    mo_region_destroy(region);
    mo_bench_machine_close(&m);
    return 0;
}

static int leave(void **state) {
    (void)state;
    unlink(weights);
    unlink(output);
    return rmdir(folder);
}

/* --- the document ----------------------------------------------------------------------------------------
 */
static struct mo_inss_bench_options small(void) {
    return (struct mo_inss_bench_options){.machine = four,
                                          .weights = weights,
                                          .system = {"inss", "igniter"},
                                          .load = {0.02},
                                          .n_systems = 2,
                                          .n_loads = 1,
                                          .n_seeds = 2,
                                          .jobs = 2,
                                          .seconds = 1,
                                          .output = output};
}

static int bench(const struct mo_inss_bench_options *o, json_t **out, moire_error *err) {
    static char *argv[] = {"moire", "bench"};
    struct mo_bench_session session;
    assert_int_equal(mo_bench_session_open(&env, 2, argv, &session, NULL), MOIRE_OK);
    session.quiet = true;
    int code = mo_inss_bench(&session, o, out, err);
    mo_bench_session_close(&session);
    return code;
}

/* What may differ from run to run. */
static void strip(json_t *document) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        json_object_del(row, "decision_ms_p50");
        json_object_del(row, "decision_ms_max");
    }
}

static void has(const json_t *row, const char *key, json_type type) {
    const json_t *v = json_object_get(row, key);
    if (!v || (json_typeof(v) != type && !(type == JSON_REAL && json_is_integer(v))))
        fail_msg("\"%s\" is missing or of another type", key);
}

static void check_row(const json_t *row) {
    static const char *const reals[] = {
        "gpus",          "models",         "load",          "arrivals",        "throughput",
        "throughput_ci", "violations_pct", "fragments_pct", "decision_ms_p50", "decision_ms_max"};
    has(row, "system", JSON_STRING);
    has(row, "case", JSON_STRING);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        has(row, reals[i], JSON_REAL);
    const double came = json_number_value(json_object_get(row, "arrivals")),
                 in_time = json_number_value(json_object_get(row, "throughput")),
                 violations = json_number_value(json_object_get(row, "violations_pct"));
    assert_true(came > 0 && in_time >= 0 && in_time <= came && violations >= 0 && violations <= 100);
}

static void a_document_has_its_form_and_repeats_itself(void **state) {
    (void)state;
    const struct mo_inss_bench_options o = small();
    json_t *first, *again, *one;
    moire_error err = {0};
    size_t i;
    if (bench(&o, &first, &err)) fail_msg("%s", err.message);
    const json_t *results = json_object_get(first, "results"), *fit = json_object_get(first, "latency_model");
    assert_int_equal(json_array_size(results), 5 * 2); /* cases x systems */
    json_array_foreach((json_t *)results, i, one) check_row(one);
    has(first, "experiment", JSON_OBJECT);
    assert_int_equal(json_array_size(json_object_get(first, "comparison")), 5);
    assert_true(json_array_size(fit) > 0 || json_array_size(json_object_get(first, "left_out")) > 0);
    json_array_foreach((json_t *)fit, i, one) {
        has(one, "model", JSON_STRING);
        has(one, "case", JSON_STRING);
        has(one, "n", JSON_INTEGER);
        has(one, "mean_error_pct", JSON_REAL);
        has(one, "max_error_pct", JSON_REAL);
        assert_true(json_is_true(json_object_get(one, "held_out")));
    }
    unlink(output);
    assert_int_equal(bench(&o, &again, &err), MOIRE_OK);
    strip(first);
    strip(again);
    assert_true(json_equal(json_object_get(first, "results"), json_object_get(again, "results")));
    assert_true(json_equal(json_object_get(first, "comparison"), json_object_get(again, "comparison")));
    json_decref(first);
    json_decref(again);
}

static void a_document_is_taken_up_if_it_was_made_alike(void **state) {
    (void)state;
    struct mo_inss_bench_options o = small();
    json_t *first, *again;
    moire_error err = {0};
    o.n_systems = o.n_only = 1;
    o.only[0] = "steps";
    assert_int_equal(bench(&o, &first, &err), MOIRE_OK);
    assert_int_equal(json_array_size(json_object_get(first, "results")), 1);
    o.n_systems = 2;
    o.n_only = 0;
    o.resume = true;
    if (bench(&o, &again, &err)) fail_msg("%s", err.message);
    const json_t *own = json_array_get(json_object_get(first, "results"), 0);
    assert_true(json_equal(own, json_array_get(json_object_get(again, "results"), 0))); /* its times, too */
    assert_int_equal(json_array_size(json_object_get(again, "results")), 5 * 2);
    json_decref(again);
    o.seconds = 2;
    assert_int_equal(bench(&o, &again, &err), MOIRE_EINVAL);
    assert_true(!again && strstr(err.message, "\"seconds\"") && strstr(err.message, "other settings"));
    json_decref(first);
}

static void what_cannot_be_compared_is_named(void **state) {
    (void)state;
    struct mo_inss_bench_options o = small();
    json_t *d;
    moire_error err = {0};
    o.system[1] = "nobody";
    assert_int_equal(bench(&o, &d, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "'nobody'"));
    o.n_systems = o.n_only = 1;
    o.only[0] = "none";
    assert_int_equal(bench(&o, &d, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no case 'none'"));
    o.n_only = 0;
    o.machine = "bench/machines/gpus4-v100.json"; /* other lets */
    assert_int_equal(bench(&o, &d, &err), MOIRE_EINVAL);
    assert_true(strstr(err.message, weights) && strstr(err.message, "2 at a time"));
    o.machine = "bench/machines/gpus-mixed.json";
    assert_int_equal(bench(&o, &d, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "gpus-mixed.json"));
    o.machine = four;
    assert_int_equal(truncate(weights, 400), 0);
    assert_int_equal(bench(&o, &d, &err), MOIRE_EFORMAT);
    assert_true(strstr(err.message, weights) && strstr(err.message, "cut"));
    assert_null(d);
}

static json_t *row(const char *system, double load, double violations, double one, double two) {
    return json_pack("{s:s, s:i, s:i, s:s, s:f, s:f, s:[f, f]}", "system", system, "gpus", 4, "models", 10,
                     "case", "steps", "load", load, "violations_pct", violations, "by_seed", one, two);
}

/* Gains are of equal seeds, in the mean 50 %; a load counts as served if no lower one is too much. */
static void rows_are_compared_seed_by_seed(void **state) {
    (void)state;
    struct mo_env own = mo_env_default();
    json_t *d =
        json_pack("{s:[o,o,o,o,o,o], s:[]}", "results", row("inss", 0.1, 0.2, 20, 40),
                  row("gpulet", 0.1, 3, 10, 40), row("inss", 0.3, 0.1, 1, 1), row("gpulet", 0.3, 0.1, 2, 2),
                  row("inss", 0.2, 1.5, 3, 3), row("inss", 0.15, 0.9, 3, 3), "left_out");
    assert_int_equal(mo_inss_rows_conclude(&own, "/none", d, NULL), MOIRE_OK);
    const json_t *gain = json_array_get(json_object_get(d, "comparison"), 0),
                 *can = json_object_get(d, "capacity");
    assert_int_equal(json_array_size(json_object_get(d, "comparison")), 2);
    assert_float_equal(json_number_value(json_object_get(gain, "gain_pct")), 50, 1e-9);
    assert_float_equal(json_number_value(json_object_get(gain, "gain_ci")), 12.706 * 50, 0.1);
    assert_float_equal(json_number_value(json_object_get(gain, "claimed_pct")), 52.8, 1e-9);
    assert_int_equal(json_array_size(can), 2);
    assert_float_equal(json_number_value(json_object_get(json_array_get(can, 0), "load")), 0.15, 0);
    assert_float_equal(json_number_value(json_object_get(json_array_get(can, 1), "load")), 0, 0);
    assert_int_equal(json_array_size(json_object_get(d, "left_out")), 1); /* there are no pairs */
    json_decref(d);
}

/* --- demand ----------------------------------------------------------------------------------------------
 */
/* Half of the demand is half of the queries; arrivals are in order, end in time, and are the same again. */
static void demand_is_what_was_asked_for(void **state) {
    (void)state;
    static struct mo_inss_demand demand[2];
    struct plan_case c;
    int count[2] = {0};
    plan_case_paper(&c, 1);
    struct mo_inss_demand_model model[2];
    for (int i = 0; i < 2; i++) {
        model[i].profile = c.tenants[i].profile[0];
        mo_inss_demand_look(&model[i], &c.kinds[0]);
        assert_true(model[i].target_ns > 0 && model[i].cost > 0 && model[i].cost < 1);
    }
    for (int k = 0; k < 2; k++) {
        const struct mo_inss_demand_options o = {.model = model,
                                                 .n_models = 2,
                                                 .n_tenants = 5,
                                                 .gpus_a_tenant = k ? 0.1 : 0.2,
                                                 .total_ns = 200 * INT64_C(1000000000),
                                                 .seed = 3};
        int64_t at, before = 0;
        mo_inss_demand_begin(&demand[k], &o);
        double need = 0;
        for (int i = 0; i < 5; i++)
            need += demand[k].tenant[i].rate * demand[k].tenant[i].model->cost;
        assert_float_equal(need, 5 * o.gpus_a_tenant, 1e-9);
        for (int t; (t = mo_inss_demand_next(&demand[k], &at)) >= 0; count[k]++) {
            assert_true(t < 5 && at >= before && at < o.total_ns);
            before = at;
        }
        assert_int_equal(mo_inss_demand_next(&demand[k], &at), -1);
    }
    assert_true(abs(count[0] - 2 * count[1]) < count[0] / 20);
    plan_case_close(&c);
}

/* With a seed of their own, needs are the same in every run; all else is the run's own. */
static void needs_may_be_the_same_in_all_runs(void **state) {
    (void)state;
    static struct mo_inss_demand demand[3];
    struct plan_case c;
    double rate[5];
    plan_case_paper(&c, 1);
    struct mo_inss_demand_model model = {.profile = c.tenants[0].profile[0]};
    mo_inss_demand_look(&model, &c.kinds[0]);
    struct mo_inss_demand_options o = {.model = &model,
                                       .n_models = 1,
                                       .n_tenants = 5,
                                       .gpus_a_tenant = 0.1,
                                       .total_ns = 1000000000,
                                       .seed = 7};
    mo_inss_demand_begin(&demand[0], &o);
    o.needs = 7;
    mo_inss_demand_begin(&demand[1], &o);
    assert_memory_equal(&demand[0], &demand[1], sizeof demand[0]);
    o.seed = 8;
    mo_inss_demand_begin(&demand[2], &o);
    mo_inss_demand_rates(&o, rate);
    for (int i = 0; i < 5; i++) {
        assert_true(demand[2].tenant[i].rate == demand[0].tenant[i].rate &&
                    rate[i] == demand[0].tenant[i].rate);
        assert_true(demand[2].tenant[i].factor[0] != demand[0].tenant[i].factor[0]);
        assert_true(demand[2].tenant[i].at_ns != demand[0].tenant[i].at_ns);
    }
    plan_case_close(&c);
}

/* --- the planner -----------------------------------------------------------------------------------------
 */
/* A choice among random scores, some of them huge or no numbers, is never of what is masked. */
static void what_is_masked_is_never_chosen(void **state) {
    (void)state;
    uint64_t rng = SEED;
    float score[MOST], mask[MOST], p[MOST];
    int none = 0;
    for (int k = 0; k < CHOICES; k++) {
        const int n = 1 + k % MOST;
        bool any = false;
        for (int i = 0; i < n; i++) {
            const uint64_t r = mo_mix(rng += 1);
            mask[i] = r & 1 ? 1 : 0;
            any |= r & 1;
            score[i] = r % 64 == 6    ? INFINITY
                       : r % 64 == 10 ? -INFINITY
                       : r % 64 == 18 ? NAN
                                      : (float)((double)(r >> 40) * 1e-3 - 8000);
        }
        const int best = mo_masked_best(n, score, mask);
        mo_masked_softmax(n, score, mask, p, NULL);
        const int drawn = mo_masked_draw(n, p, mask, &rng);
        none += !any;
        if (any ? best < 0 || drawn < 0 || !(mask[best] > 0) || !(mask[drawn] > 0)
                : best != -1 || drawn != -1)
            fail_msg("choice %d of %d: best %d, drawn %d", k, n, best, drawn);
    }
    assert_true(none > CHOICES / 100);
}

/* One GPU with two slots; five tenants. */
static void what_is_left_out_has_a_reason(void **state) {
    (void)state;
    struct plan_case c;
    moire_error err;
    char text[200];
    int left = 0;
    plan_case_paper(&c, 1);
    struct mo_region *region = mo_region_create(&c.env);
    const struct mo_policy_file policy = plan_case_policy(region, &c.kinds[0], 4, SEED);
    c.view.learned = &policy;
    assert_int_equal(plan_case_make(&mo_planner_inss, &c, &made, &err), MOIRE_OK); /* nobody asks */
    assert_true(made.complete && made.n_lets == 0);
    for (int t = 0; t < 5; t++)
        c.tenants[t].rate = 1;
    assert_int_equal(plan_case_make(&mo_planner_inss, &c, &made, &err), MOIRE_OK);
    assert_true(made.n_lets == 2 && !made.complete);
    for (int t = 0; t < 5; t++) {
        mo_plan_why(&c.view, &made, t, text, sizeof text);
        if (made.tenants[t].reason == MO_PLAN_PLACED) continue;
        assert_true(made.tenants[t].reason == MO_PLAN_CAPACITY && strstr(text, "finds no let"));
        left++;
    }
    assert_int_equal(left, 3);
    for (int t = 0; t < 5; t++)
        c.tenants[t].rate = t == 2;
    c.kinds[0].memory_bytes = c.tenants[2].profile[0]->memory_bytes - 1;
    if (c.tenants[2].profile[0]->memory_bytes == 0) fail_msg("the case's models need no memory");
    assert_int_equal(plan_case_make(&mo_planner_inss, &c, &made, &err), MOIRE_OK);
    mo_plan_why(&c.view, &made, 2, text, sizeof text);
    assert_true(made.n_lets == 0 && strstr(text, "does not fit into the memory of any GPU"));
    mo_region_destroy(region);
    plan_case_close(&c);
}

/* A scheduler that is not given what was trained takes no policy that needs it. */
static void a_learned_server_needs_what_was_trained(void **state) {
    (void)state;
    static struct mo_gpus gpus;
    struct plan_case c;
    struct mo_sim *sim;
    moire_error err = {0};
    plan_case_paper(&c, 2);
    gpus = (struct mo_gpus){.n_kinds = 1, .n_gpus = 2, .kinds = {c.kinds[0]}};
    assert_int_equal(mo_gpus_finish(&gpus, NULL), MOIRE_OK);
    struct mo_sim_config config = {.env = &c.env,
                                   .policy = mo_policy_find("inss"),
                                   .machine = {.n_cores = gpus.n_units, .gpus = &gpus},
                                   .max_queries = 64,
                                   .max_tenants = 4};
    assert_int_equal(mo_sim_create(&config, &sim, &err), MOIRE_EINVAL);
    assert_true(strstr(err.message, "'inss'") && strstr(err.message, "moire train"));
    plan_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_document_has_its_form_and_repeats_itself, enter, leave),
        cmocka_unit_test_setup_teardown(a_document_is_taken_up_if_it_was_made_alike, enter, leave),
        cmocka_unit_test_setup_teardown(what_cannot_be_compared_is_named, enter, leave),
        cmocka_unit_test(rows_are_compared_seed_by_seed),
        cmocka_unit_test(demand_is_what_was_asked_for),
        cmocka_unit_test(needs_may_be_the_same_in_all_runs),
        cmocka_unit_test(what_is_masked_is_never_chosen),
        cmocka_unit_test(what_is_left_out_has_a_reason),
        cmocka_unit_test(a_learned_server_needs_what_was_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
