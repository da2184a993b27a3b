/* SPDX-License-Identifier: Apache-2.0
 * test_half.c - models in half precision: what they compute, the types that callers see, which graphs stay as
 * they are, and running out of memory on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/ops/util.h"
#include "tests/unit/codegen/ways_case.h"
#include "tools/moire/verify/ways.h"

enum { PIXELS = 2 * 5 * 5, OUTPUTS = 3 * 5 * 5 };

/* The values of an initializer, rounded to half precision; stored so when `half`. */
static void round_values(struct ob *b, Onnx__TensorProto *t, bool half) {
    size_t n = t->raw_data.len / 4;
    float *values = (float *)(void *)t->raw_data.data;
    uint16_t *halves = ob_alloc(b, n * 2);
    for (size_t i = 0; i < n; i++) {
        halves[i] = mo_float_to_half(values[i]);
        values[i] = mo_half_to_float(halves[i]);
    }
    if (!half) return;
    t->raw_data.data = (uint8_t *)halves;
    t->raw_data.len = n * 2;
    t->data_type = MOIRE_F16;
}

/* y = x * w relu, times a constant, and that once more as an output that is read; x and y of type io. */
static struct ob *model(int io, bool half) {
    struct ob *b = ob_create(13);
    bool casts = half && io == MOIRE_F32;
    ob_input(b, "x", io, "1,2,5,5");
    round_values(b, ob_random(b, "w", "3,2,3,3"), half);
    round_values(b, ob_random(b, "s", "3,1,1"), half);
    if (casts) {
        ob_node(b, "Cast", "x", "xh");
        ob_int(b, "to", MOIRE_F16);
    }
    ob_node(b, "Conv", casts ? "xh w" : "x w", "c");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Relu", "c", casts ? "r" : "y");
    if (casts) {
        ob_node(b, "Cast", "r", "y");
        ob_int(b, "to", MOIRE_F32);
    }
    ob_node(b, "Mul", casts ? "r s" : "y s", casts ? "mh" : "z");
    if (casts) {
        ob_node(b, "Cast", "mh", "z");
        ob_int(b, "to", MOIRE_F32);
    }
    const char *const names[] = {"y", "z"};
    for (int i = 0; i < 2; i++) {
        Onnx__ValueInfoProto *out = ob_output(b, names[i]);
        out->type->tensor_type->has_elem_type = 1;
        out->type->tensor_type->elem_type = io;
    }
    return b;
}

static struct mo_graph *graph_of(struct ob *b) {
    struct mo_graph *g;
    moire_error err;
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    if (mo_frontend_parse(&b->env, bytes, n, NULL, NULL, &g, &err)) fail_msg("%s", err.message);
    return g;
}

/* Runs a model by its plan on values that half precision holds; outputs y and z as float. */
static int compute(int io, bool half, float y[2][OUTPUTS]) {
    struct ob *b = model(io, half);
    struct mo_graph *g = graph_of(b);
    int halves = g->n_halves;
    float x[PIXELS];
    uint16_t x16[PIXELS];
    moire_tensor out[2] = {{.rank = 0}};
    moire_error err;
    for (int i = 0; i < PIXELS; i++) {
        x[i] = (float)(i % 13) / 8 - 0.5f;
        x16[i] = mo_float_to_half(x[i]);
    }
    moire_tensor in = {.dtype = (moire_dtype)io, .rank = 4, .shape = {1, 2, 5, 5}};
    in.data = io == MOIRE_F16 ? (void *)x16 : x;
    in.bytes = io == MOIRE_F16 ? sizeof x16 : sizeof x;
    struct mo_plan_options options = {.isa = MO_ISA_BASE};
    if (mo_way_run_plan(g, &options, &in, 1, out, &err)) fail_msg("%s", err.message);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(out[k].dtype, io);
        assert_int_equal(out[k].bytes, OUTPUTS * (io == MOIRE_F16 ? 2 : 4));
        for (int i = 0; i < OUTPUTS; i++)
            y[k][i] = io == MOIRE_F16 ? mo_half_to_float(((const uint16_t *)out[k].data)[i])
                                      : ((const float *)out[k].data)[i];
    }
    mo_way_free(&b->env, out, 2);
    ob_destroy(b);
    return halves;
}

/* The weights' values are the same, so single precision between gives the same; outputs in half precision are
 * that, rounded. */
static void halves_compute_as_floats(void **state) {
    (void)state;
    float single[2][OUTPUTS], inside[2][OUTPUTS], all[2][OUTPUTS];
    assert_int_equal(compute(MOIRE_F32, false, single), 0);
    assert_int_equal(compute(MOIRE_F32, true, inside), 2);
    assert_int_equal(compute(MOIRE_F16, true, all), 2);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < OUTPUTS; i++) {
            assert_true(single[k][i] == inside[k][i]);
            assert_true(all[k][i] == mo_half_to_float(mo_float_to_half(single[k][i])));
        }
    assert_true(single[0][7] != single[0][8]);
}

/* Nothing that needs float32 reads halves: no constant is converted. */
static void graphs_without_products_stay(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F16, "4");
    round_values(b, ob_random(b, "s", "4"), true);
    ob_node(b, "Add", "x s", "y");
    ob_output(b, "y");
    struct mo_graph *g = graph_of(b);
    assert_int_equal(g->n_halves, 0);
    assert_int_equal(g->tensors[g->outputs[0]]->dtype, MOIRE_F16);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void out_of_memory_everywhere(void **state) {
    (void)state;
    for (int io = 0; io < 2; io++) {
        struct ob *b = model(io ? MOIRE_F16 : MOIRE_F32, true);
        ways_without_memory(b);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_compute_as_floats),
        cmocka_unit_test(graphs_without_products_stay),
        cmocka_unit_test(out_of_memory_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
