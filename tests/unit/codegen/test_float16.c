/* SPDX-License-Identifier: Apache-2.0
 * test_float16.c - weights of products in memory as float16: the result is, bit for bit, that of float32 with
 * the same weights rounded before; what float16 cannot hold stays float32, and so does what the model holds
 * exactly in neither. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/unit/codegen/used_memory.h"
#include "tests/unit/codegen/ways_case.h"
#include "tools/moire/verify/ways.h"

enum weights { REAL, ROUNDED, HALVES, LARGE }; /* any; rounded to float16; stored as that; too large for it */

static const struct product {
    int images, rows, k, n;
    bool gemm, residual;
} products[] = {{1, 1, 300, 100, false, false}, {1, 3, 130, 64, true, true},
                {1, 2, 1, 5, false, true},      {1, 4, 129, 37, true, false},
                {1, 15, 300, 16, false, true},  {2, 17, 257, 130, false, false},
                {1, 70, 64, 48, true, true},    {1, 33, 128, 200, false, true}};
enum { N_PRODUCTS = sizeof products / sizeof *products };

static void set_weights(struct ob *b, Onnx__TensorProto *t, enum weights weights) {
    size_t n = t->raw_data.len / 4;
    float *values = (float *)(void *)t->raw_data.data;
    uint16_t *halves = ob_alloc(b, n * 2);
    if (weights == LARGE) values[n / 2] = 1e6f;
    if (weights != ROUNDED && weights != HALVES) return;
    for (size_t i = 0; i < n; i++) {
        halves[i] = mo_float_to_half(values[i]);
        values[i] = mo_half_to_float(halves[i]);
    }
    if (weights != HALVES) return;
    t->raw_data.data = (uint8_t *)halves;
    t->raw_data.len = n * 2;
    t->data_type = MOIRE_F16;
}

static void shape_of(const struct product *p, int columns, char out[40]) {
    if (p->images > 1)
        snprintf(out, 40, "%d,%d,%d", p->images, p->rows, columns);
    else
        snprintf(out, 40, "%d,%d", p->rows, columns);
}

/* y = x w, or a Gemm with w turned and a bias; perhaps plus r.  A model of halves has casts about it. */
static struct ob *build(const struct product *p, enum weights weights) {
    struct ob *b = ob_create(13);
    const bool half = weights == HALVES;
    char x[40], y[40], w[40], bias[20];
    shape_of(p, p->k, x);
    shape_of(p, p->n, y);
    snprintf(w, sizeof w, "%d,%d", p->gemm ? p->n : p->k, p->gemm ? p->k : p->n);
    snprintf(bias, sizeof bias, "%d", p->n);
    ob_input(b, "x", MOIRE_F32, x);
    if (p->residual) ob_input(b, "r", MOIRE_F32, y);
    set_weights(b, ob_random(b, "w", w), weights);
    ob_node(b, half ? "Cast" : "Identity", "x", "left");
    if (half) ob_int(b, "to", MOIRE_F16);
    if (p->gemm) {
        set_weights(b, ob_random(b, "bias", bias), half ? HALVES : ROUNDED);
        ob_node(b, "Gemm", "left w bias", "product");
        ob_int(b, "transB", 1);
    } else {
        ob_node(b, "MatMul", "left w", "product");
    }
    ob_node(b, half ? "Cast" : "Identity", "product", "a");
    if (half) ob_int(b, "to", MOIRE_F32);
    ob_node(b, p->residual ? "Add" : "Relu", p->residual ? "a r" : "a", "y");
    ob_output(b, "y");
    return b;
}

static void run(const struct product *p, enum weights weights, enum moire_precision precision, bool exact,
                enum mo_isa isa, moire_tensor *out) {
    struct ob *b = build(p, weights);
    moire_tensor in[2] = {{0}};
    moire_error err = {0};
    const int n = ways_inputs(b, 0.0371f, in);
    const struct mo_frontend_options front = {.precision = precision, .exact = exact};
    if (run_graph_in_used_memory(ways_graph_of(b, &front), &(struct mo_plan_options){.isa = isa}, in, n, out,
                                 &err))
        fail_msg("%s", err.message);
    ob_destroy(b);
}

/* Weights and precision, and which gives the same bits; `alike` false: which does not. */
static const struct {
    const char *name;
    enum weights weights, other;
    enum moire_precision precision;
    bool exact, alike;
} pairs[] = {{"rounded", REAL, ROUNDED, MOIRE_PRECISION_FP16, false, true},
             {"not float32", REAL, REAL, MOIRE_PRECISION_FP16, false, false},
             {"too large", LARGE, LARGE, MOIRE_PRECISION_FP16, false, true},
             {"exact", REAL, REAL, MOIRE_PRECISION_FP16, true, true},
             {"of the model", HALVES, HALVES, MOIRE_PRECISION_AUTO, true, true}};

/* Levels that do not convert float16 keep float32. */
static bool converts(enum mo_isa isa) {
    return isa == MO_ISA_AVX2 || isa == MO_ISA_AVX512;
}

static int compare(const struct product *p, size_t i, enum mo_isa isa, const struct mo_env *env) {
    moire_tensor got = {0}, want = {0};
    const bool rounds = pairs[i].precision == MOIRE_PRECISION_FP16 && !pairs[i].exact && converts(isa);
    const enum weights other = rounds ? pairs[i].other : pairs[i].weights;
    run(p, pairs[i].weights, pairs[i].precision, pairs[i].exact, isa, &got);
    run(p, other, MOIRE_PRECISION_FP32, pairs[i].exact, isa, &want);
    const bool alike = got.bytes == want.bytes && !memcmp(got.data, want.data, got.bytes);
    const int wrong = alike != (pairs[i].alike || !rounds);
    if (wrong) print_error("%s, %d x %d x %d, %s\n", pairs[i].name, p->rows, p->k, p->n, mo_isa_name(isa));
    mo_way_free(env, &got, 1);
    mo_way_free(env, &want, 1);
    return wrong;
}

static void weights_are_rounded_once(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    int wrong = 0;
    for (int k = 0; k < N_PRODUCTS; k++)
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
                wrong += compare(&products[k], i, (enum mo_isa)isa, &b->env);
    ob_destroy(b);
    assert_int_equal(wrong, 0);
}

/* What the model holds as float16 stays that where it costs nothing. */
static void models_keep_theirs(void **state) {
    (void)state;
    static const enum weights all[] = {REAL, HALVES};
    for (size_t i = 0; i < 2; i++) {
        struct ob *b = build(&products[0], all[i]);
        struct mo_graph *g =
            ways_graph_of(b, &(struct mo_frontend_options){.precision = MOIRE_PRECISION_AUTO, .exact = true});
        const bool keeps = all[i] == HALVES && mo_isa_covers(mo_isa_detect(), MO_ISA_AVX2);
        assert_int_equal(g->float16, keeps ? MO_FLOAT16_EXACT : MO_FLOAT16_NONE);
        mo_graph_destroy(g);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_rounded_once),
                                       cmocka_unit_test(models_keep_theirs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
