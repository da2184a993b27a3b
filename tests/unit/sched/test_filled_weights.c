/* SPDX-License-Identifier: Apache-2.0
 * test_filled_weights.c - weights that a model makes by ConstantOfShape: tenants at several shapes share them
 * as those of the file, and answer as the numbers say. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "moire.h"
#include "tests/unit/codegen/onnx_build.h"

enum { WIDTH = 64, TENANTS = 4, WEIGHTS = 2 * WIDTH * WIDTH * 4 };
static char path[] = "/tmp/moire-fills-XXXXXX";

/* Two products by fills, and one between that is read as numbers, too. */
static void write_model(void) {
    struct ob *b = ob_create(17);
    size_t n;
    ob_int64s(b, "square", "64,64");
    ob_int64s(b, "row", "1,64");
    ob_input(b, "x", MOIRE_F32, "rows,64");
    ob_node(b, "ConstantOfShape", "square", "v");
    ob_value(b, 0.5f);
    ob_node(b, "ConstantOfShape", "square", "w");
    ob_value(b, -0.25f);
    ob_node(b, "ConstantOfShape", "row", "c");
    ob_value(b, 3);
    ob_node(b, "MatMul", "x v", "a");
    ob_node(b, "Add", "a c", "s");
    ob_node(b, "MatMul", "s w", "y");
    ob_output(b, "y");
    const uint8_t *bytes = ob_pack(b, &n);
    FILE *f = fdopen(mkstemp(path), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    ob_destroy(b);
}

static moire_tenant *load(moire_runtime *rt, int rows) {
    const moire_shape shape = {.input = "x", .rank = 2, .shape = {rows, WIDTH}};
    moire_tenant_config c;
    moire_error err = {0};
    moire_tenant *t = NULL;
    moire_tenant_config_init(&c);
    c.shapes = &shape;
    c.n_shapes = c.at_once = 1;
    if (moire_load(rt, path, &c, &t, &err)) fail_msg("%s", err.message);
    return t;
}

/* Rows of equal numbers: y = -0.25 * 64 * (0.5 * 64 * x + 3). */
static void check_answer(moire_tenant *t, int rows) {
    float in[TENANTS * WIDTH], out[TENANTS * WIDTH];
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < WIDTH; i++)
            in[row * WIDTH + i] = 0.125f * (float)(row + 1);
    moire_tensor x = {.dtype = MOIRE_F32, .rank = 2, .shape = {rows, WIDTH}, .data = in};
    moire_tensor y = {.data = out, .bytes = sizeof out};
    x.bytes = (size_t)rows * WIDTH * sizeof *in;
    assert_int_equal(moire_run(t, &x, 1, &y, 1, NULL), MOIRE_OK);
    assert_int_equal(y.bytes, x.bytes);
    for (int i = 0; i < rows * WIDTH; i++)
        assert_true(fabsf(out[i] + 16 * (32 * in[i] + 3)) < 1e-3f);
}

static int64_t weights(moire_runtime *rt) {
    moire_runtime_stats s = {.size = sizeof s};
    assert_int_equal(moire_runtime_get_stats(rt, &s, NULL), MOIRE_OK);
    return s.memory.weights;
}

static void fills_are_shared_as_weights_are(void **state) {
    moire_config c;
    moire_runtime *rt = NULL;
    moire_tenant *t[TENANTS];
    (void)state;
    moire_config_init(&c);
    c.generic_only = 1;
    c.threads = 2;
    assert_int_equal(moire_runtime_create(&c, &rt, NULL), MOIRE_OK);
    write_model();
    for (int i = 0; i < TENANTS; i++) {
        t[i] = load(rt, i + 1);
        assert_true(weights(rt) >= WEIGHTS);
        assert_true(weights(rt) < WEIGHTS * 3 / 2);
    }
    for (int i = 0; i < TENANTS; i++) {
        for (int k = i; k < TENANTS; k++)
            check_answer(t[k], k + 1);
        assert_int_equal(moire_unload(t[i], NULL), MOIRE_OK);
    }
    assert_int_equal(weights(rt), 0);
    moire_runtime_destroy(rt, 1);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fills_are_shared_as_weights_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
