/* SPDX-License-Identifier: Apache-2.0
 * test_precision.c - moire_tenant_config.precision: what layers between conversions to 8 bits compute with.
 */
#define _DEFAULT_SOURCE
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
#include "codegen/frontend.h"
#include "runtime/plan/plan.h"
#include "runtime/serve/parts.h"
#include "tests/unit/generator/toy_family.h"
#include "tools/moire/compile/publish.h"
#include "tools/moire/verb.h"

static char folder[64], floats[100], bytes[100];

static int make_models(void **state) {
    struct mo_env env = mo_env_default();
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/moire-precision-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(floats, sizeof floats, "%s/lenet.onnx", folder);
    snprintf(bytes, sizeof bytes, "%s/lenet-int8.onnx", folder);
    char *build[] = {"zoo", "build", "lenet", "-o", floats, NULL};
    char *quantize[] = {"quantize", floats, "-o", bytes, "--quiet", NULL};
    if (mo_verb_call(&env, &mo_verb_zoo, 5, build)) return 1;
    return mo_verb_call(&env, &mo_verb_quantize, 5, quantize);
}

static int remove_models(void **state) {
    (void)state;
    unlink(floats);
    unlink(bytes);
    return rmdir(folder);
}

static char said[400]; /* the last line about a choice */

static void listen(void *user, int level, const char *line) {
    (void)user;
    (void)level;
    if (strstr(line, "auto: ")) snprintf(said, sizeof said, "%s", line);
}

static const char *used_within(const char *path, enum moire_precision precision, double tolerance,
                               float answer[10]) {
    moire_runtime *rt;
    moire_tenant *t;
    moire_error err = {0};
    moire_config config;
    moire_config_init(&config);
    config.log = listen;
    assert_int_equal(moire_runtime_create(&config, &rt, &err), MOIRE_OK);
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.precision = precision;
    c.tolerance = tolerance;
    if (moire_load(rt, path, &c, &t, &err)) fail_msg("%s", err.message);
    static float image[32 * 32];
    for (size_t i = 0; i < sizeof image / sizeof *image; i++)
        image[i] = (float)(i * 37 % 101) / 50 - 1;
    moire_port port;
    assert_int_equal(moire_input(t, 0, &port), MOIRE_OK);
    moire_tensor in = {.dtype = MOIRE_F32, .rank = port.rank, .data = image, .bytes = sizeof image};
    memcpy(in.shape, port.shape, sizeof in.shape);
    moire_tensor out = {.data = answer, .bytes = 10 * sizeof(float)};
    assert_int_equal(moire_run(t, &in, 1, &out, 1, &err), MOIRE_OK);
    const char *name = mo_precision_used(mo_tenant_parts(t).plan->graph);
    moire_runtime_destroy(rt, 1);
    return name;
}

static const char *used(const char *path, enum moire_precision precision, float answer[10]) {
    return used_within(path, precision, 0, answer);
}

/* Whatever is fastest here, answers keep to the tolerance, and without one nothing is rounded. */
static void a_tolerance_is_kept(void **state) {
    float whole[10], within[10], narrow[10];
    (void)state;
    said[0] = 0;
    assert_string_equal(used(floats, MOIRE_PRECISION_AUTO, whole), "fp32");
    assert_string_equal(said, "");
    used_within(floats, MOIRE_PRECISION_AUTO, 0.02, within);
    assert_string_equal(used_within(floats, MOIRE_PRECISION_AUTO, 1e-9, narrow), "fp32");
    float low = whole[0], high = whole[0];
    for (int i = 0; i < 10; i++) {
        low = whole[i] < low ? whole[i] : low;
        high = whole[i] > high ? whole[i] : high;
    }
    for (int i = 0; i < 10; i++) {
        assert_float_equal(within[i], whole[i], 3 * 0.02 * (high - low)); /* other inputs than those tried */
        assert_true(narrow[i] == whole[i]);
    }
}

/* Whether a tenant came from the store as a compiled model. */
static bool is_compiled(const char *store, double tolerance) {
    moire_runtime *rt;
    moire_tenant *t;
    moire_error err = {0};
    moire_config config;
    moire_config_init(&config);
    config.store = store;
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.tolerance = tolerance;
    assert_int_equal(moire_runtime_create(&config, &rt, &err), MOIRE_OK);
    if (moire_load(rt, floats, &c, &t, &err)) fail_msg("%s", err.message);
    const bool compiled = mo_tenant_parts(t).image != NULL;
    moire_runtime_destroy(rt, 0);
    return compiled;
}

/* A compiled model has one precision; which one is fastest is measured all the same. */
static void a_compiled_model_is_no_answer_to_a_tolerance(void **state) {
    const struct mo_compiled_request request = {.path = floats, .isa = mo_isa_detect()};
    struct mo_env env = mo_env_default();
    struct mo_published done;
    moire_error err = {0};
    char store[64];
    (void)state;
    toy_folder(store);
    if (mo_publish(&env, store, &request, NULL, &done, &err)) fail_msg("%s", err.message);
    assert_true(is_compiled(store, 0));
    assert_false(is_compiled(store, 1e-9));
    toy_remove(store);
}

static void layers_compute_with_what_was_asked(void **state) {
    float whole[10], by_choice[10], small[10];
    (void)state;
    assert_string_equal(used(bytes, MOIRE_PRECISION_FP32, whole), "fp32");
    assert_string_equal(used(bytes, MOIRE_PRECISION_INT8, small), "int8");
    used(bytes, MOIRE_PRECISION_AUTO, by_choice);
    for (int i = 0; i < 10; i++) {
        assert_float_equal(small[i], whole[i], 0.2);
        assert_float_equal(by_choice[i], whole[i], 0.2);
    }
    assert_string_equal(used(floats, MOIRE_PRECISION_INT8, whole), "fp32");
}

static void an_unknown_one_is_refused(void **state) {
    moire_runtime *rt;
    moire_tenant *t;
    moire_error err = {0};
    moire_config config;
    (void)state;
    moire_config_init(&config);
    assert_int_equal(moire_runtime_create(&config, &rt, &err), MOIRE_OK);
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.precision = (enum moire_precision)(MOIRE_PRECISION_FP16 + 1);
    assert_int_equal(moire_load(rt, bytes, &c, &t, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "precision"));
    c.precision = MOIRE_PRECISION_AUTO;
    static const double wrong[] = {-0.1, 1.5, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c.tolerance = wrong[i];
        assert_int_equal(moire_load(rt, bytes, &c, &t, &err), MOIRE_EINVAL);
        assert_non_null(strstr(err.message, "tolerance"));
    }
    c.precision = MOIRE_PRECISION_FP32; /* what is asked for by name needs none */
    c.tolerance = 0.1;
    assert_int_equal(moire_load(rt, bytes, &c, &t, &err), MOIRE_EINVAL);
    moire_runtime_destroy(rt, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_compute_with_what_was_asked),
        cmocka_unit_test(a_tolerance_is_kept),
        cmocka_unit_test(a_compiled_model_is_no_answer_to_a_tolerance),
        cmocka_unit_test(an_unknown_one_is_refused),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
