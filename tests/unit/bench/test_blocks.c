/* SPDX-License-Identifier: Apache-2.0
 * test_blocks.c - `moire blocks`: pivots of the paper's models, as they were worked out apart from this code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "bench/report/report_page.h"
#include "bench/sim/blocks.h"

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static json_t *document(const char *scenario, const char *machine, moire_error *err) {
    struct mo_bench_simulate_options o = {.machine = machine, .serve = {.scenario = scenario}};
    json_t *out = NULL;
    mo_bench_blocks(the_env(), &o, &out, err);
    return out;
}

static const json_t *model_of(const json_t *document, const char *model, const char *by) {
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(document, "models"), i, m) {
        if (!strcmp(mo_json_text(m, "model"), model) && !strcmp(mo_json_text(m, "by"), by)) return m;
    }
    fail_msg("no %s by %s", model, by);
    return NULL;
}

/* At 70 % of the targets: Avg_C, and pivots alone, with half of the cores asked for, and with all. */
static void pivots_of_the_papers_models(void **state) {
    (void)state;
    static const struct {
        const char *model, *by;
        int average, pivots[3];
    } rows[] = {
        {"resnet50", "operations", 18, {0, 1, 26}},
        {"resnet50", "one-core time", 18, {0, 0, 34}},
        {"googlenet", "operations", 6, {0, 1, 53}},
        {"googlenet", "one-core time", 6, {0, 0, 56}},
        {"mobilenet-v2", "operations", 4, {0, 14, 32}},
        {"mobilenet-v2", "one-core time", 4, {0, 12, 52}},
        {"efficientnet-b0", "operations", 7, {0, 24, 47}},
        {"efficientnet-b0", "one-core time", 7, {0, 18, 43}},
        {"tiny-yolov2", "operations", 14, {0, 1, 6}},
        {"tiny-yolov2", "one-core time", 14, {0, 0, 11}},
        {"ssd-resnet34-300", "operations", 6, {0, 24, 26}},
        {"ssd-resnet34-300", "one-core time", 6, {0, 6, 35}},
        {"bert-large", "operations", 25, {0, 24, 123}},
        {"bert-large", "one-core time", 25, {0, 0, 171}},
    };
    moire_error err = {0};
    json_t *d = document("bench/scenarios/veltair-mix.json", "bench/machines/cores64.json", &err);
    assert_non_null(d);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *m = model_of(d, rows[i].model, rows[i].by), *loads = json_object_get(m, "loads");
        assert_true(json_is_true(json_object_get(m, "known")));
        assert_int_equal(mo_json_number(m, "average"), rows[i].average);
        for (size_t k = 0; k < 3; k++) {
            const json_t *load = json_array_get(loads, k);
            assert_int_equal(mo_json_number(load, "pivots"), rows[i].pivots[k]);
            assert_int_equal(json_array_size(json_object_get(load, "blocks")), rows[i].pivots[k] + 1);
        }
    }
    json_decref(d);
}

static void machines_of_gpus_have_none(void **state) {
    (void)state;
    moire_error err = {0};
    json_t *d = document("bench/scenarios/gpulet-equal.json", "bench/machines/gpus4-2080ti.json", &err);
    assert_null(d);
    assert_int_equal(err.code, MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "machines of cores"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pivots_of_the_papers_models),
        cmocka_unit_test(machines_of_gpus_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
