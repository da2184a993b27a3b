/* SPDX-License-Identifier: Apache-2.0
 * test_compiled_bodies.c - compiled models with control flow: bodies, with their weights and what they
 * capture, come back from the store and answer as the ONNX file does. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "runtime/serve/runtime.h"
#include "tests/unit/control/control_case.h"
#include "tests/unit/generator/toy_family.h"
#include "tools/moire/compile/publish.h"

enum { SIDE = 9, CHANNELS = 24, SIZE = CHANNELS * SIDE * SIDE };

static char folder[64], model[96];

/* In the loop: a convolution by weights of the outer graph, and an If within by weights of its own branch,
 * which reads the state of the loop around it. */
static void put_loop(struct control *c, struct ob *b) {
    struct ob *body = control_body(c), *then = control_body(c), *other = control_body(c);
    ob_random(then, "u", "24,24,1,1");
    ob_node(then, "Conv", "s u", "t");
    ob_output(then, "t");
    ob_node(other, "Neg", "s", "e");
    ob_output(other, "e");
    ob_loop_inputs(body);
    ob_input(body, "s", MOIRE_F32, NULL);
    ob_node(body, "Conv", "s w", "conv");
    ob_ints(body, "pads", "1,1,1,1");
    ob_node(body, "Cast", "i", "any"); /* false in the first trip */
    ob_int(body, "to", MOIRE_BOOL);
    ob_node(body, "If", "any", "chosen");
    ob_body(body, "then_branch", then);
    ob_body(body, "else_branch", other);
    ob_node(body, "Add", "conv chosen", "sum");
    ob_node(body, "Tanh", "sum", "next");
    ob_output(body, "was");
    ob_output(body, "next");
    ob_output(body, "next");
    ob_node(b, "Loop", "m - s0", "last all");
    ob_body(b, "body", body);
}

static void write_model(void) {
    struct control c;
    struct ob *b = control_main(&c, 13);
    ob_input(b, "x", MOIRE_F32, "1,24,9,9");
    ob_random(b, "w", "24,24,3,3");
    ob_random(b, "v", "24,24,1,1");
    ob_node(b, "Conv", "x v", "s0");
    ob_int64s(b, "three", "3");
    ob_node(b, "Squeeze", "three", "m");
    put_loop(&c, b);
    ob_output(b, "last");
    ob_output(b, "all");
    assert_true(ob_save(b, model));
    control_end(&c);
}

/* Loads and runs the model; true when it came from the store. */
static bool serve(const struct mo_env *env, float *last, float *all) {
    static float x[SIZE];
    moire_config config;
    moire_runtime *rt;
    moire_tenant *t;
    moire_error err = {0};
    moire_tensor in = {
        .dtype = MOIRE_F32, .rank = 4, .shape = {1, CHANNELS, SIDE, SIDE}, .data = x, .bytes = sizeof x};
    moire_tensor out[] = {{.data = last, .bytes = SIZE * sizeof *last},
                          {.data = all, .bytes = 3 * SIZE * sizeof *all}};
    for (int i = 0; i < SIZE; i++)
        x[i] = (float)(i % 17) / 17 - 0.5f;
    moire_config_init(&config);
    config.store = folder;
    config.threads = 1;
    config.no_pin = 1;
    assert_int_equal(mo_runtime_create(&config, env, 0, &rt, &err), MOIRE_OK);
    if (moire_load(rt, model, NULL, &t, &err)) fail_msg("%s", err.message);
    if (moire_run(t, &in, 1, out, 2, &err)) fail_msg("%s", err.message);
    const bool compiled = t->compiled.file.bytes != NULL;
    moire_runtime_destroy(rt, 0);
    return compiled;
}

static void bodies_come_back(void **state) {
    static float last[2][SIZE], all[2][3 * SIZE];
    struct mo_env env = mo_env_default();
    struct mo_compiled_request request = {.path = model, .isa = mo_isa_detect()};
    struct mo_published done;
    moire_error err = {0};
    (void)state;
    toy_folder(folder);
    snprintf(model, sizeof model, "%s/loop.onnx", folder);
    write_model();
    assert_false(serve(&env, last[0], all[0]));
    assert_true(last[0][0] != 0 && all[0][0] != all[0][SIZE]);
    assert_memory_equal(last[0], all[0] + 2 * SIZE, sizeof last[0]);
    if (mo_publish(&env, folder, &request, NULL, &done, &err)) fail_msg("%s", err.message);
    for (int run = 0; run < 2; run++) {
        memset(last[1], 0, sizeof last[1]);
        assert_true(serve(&env, last[1], all[1]));
        assert_memory_equal(last[0], last[1], sizeof last[0]);
        assert_memory_equal(all[0], all[1], sizeof all[0]);
    }
    toy_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bodies_come_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
