/* SPDX-License-Identifier: Apache-2.0
 * test_small_exact.c - sums of 8-bit numbers are exact: with bytes and weights at both ends of their types,
 * and pairs of such, kernels of every instruction set give the same bits as the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/codegen/used_memory.h"
#include "tests/unit/codegen/ways_case.h"
#include "tools/moire/verify/ways.h"

static const struct layer {
    const char *name, *x, *weights, *pads, *strides;
    int group, zero, dilation; /* dilation 0 is 1 */
} layers[] = {
    {"1x1", "1,64,9,7", "48,64,1,1", "0,0,0,0", "1,1", 1, 128, 0},
    {"1x1, one pixel", "1,160,1,1", "16,160,1,1", "0,0,0,0", "1,1", 1, 0, 0},
    {"1x1, stride 2", "1,32,9,13", "17,32,1,1", "0,0,0,0", "2,2", 1, 255, 0},
    {"3x3, many tiles", "2,20,21,30", "40,20,3,3", "1,1,1,1", "1,1", 1, 131, 0},
    {"3x3, no padding", "1,64,10,14", "16,64,3,3", "0,0,0,0", "1,1", 1, 0, 0},
    {"3x3, uneven padding", "1,33,11,9", "16,33,3,3", "2,0,0,1", "1,1", 1, 255, 0},
    {"3x3, deep", "1,240,9,10", "16,240,3,3", "1,1,1,1", "1,1", 1, 1, 0},
    {"3x3, large filters", "1,256,6,7", "320,256,3,3", "1,1,1,1", "1,1", 1, 100, 0},
    {"3x3, few channels", "1,7,12,12", "8,7,3,3", "1,1,1,1", "1,1", 1, 200, 0},
    {"3x3, stride 2", "1,48,15,17", "32,48,3,3", "1,1,1,1", "2,2", 1, 128, 0},
    {"5x5", "1,24,12,11", "16,24,5,5", "2,2,2,2", "1,1", 1, 128, 0},
    {"1x3", "1,32,8,9", "16,32,1,3", "0,1,0,1", "1,3", 1, 77, 0},
    {"two rows", "1,32,9,3", "16,32,3,3", "1,1,1,1", "1,2", 1, 9, 0},
    {"groups", "1,64,8,9", "64,16,3,3", "1,1,1,1", "1,1", 4, 128, 0},
    {"first", "1,3,33,41", "24,3,7,7", "3,3,3,3", "2,2", 1, 114, 0},
    {"first, 4 channels", "1,4,9,13", "16,4,3,3", "1,1,1,1", "1,1", 1, 0, 0},
    {"depthwise", "1,40,14,27", "40,1,3,3", "1,1,1,1", "1,1", 40, 128, 0},
    {"depthwise, stride 2", "1,32,15,28", "32,1,3,3", "1,1,1,1", "2,2", 32, 3, 0},
    {"depthwise, stride 3", "1,16,15,28", "16,1,3,3", "1,1,1,1", "3,3", 16, 3, 0},
    {"depthwise 5x5", "2,24,13,19", "24,1,5,5", "2,2,2,2", "1,1", 24, 250, 0},
    {"depthwise 5x5, stride 2", "1,24,13,19", "24,1,5,5", "2,2,2,2", "2,2", 24, 0, 0},
    {"dilated", "1,40,13,17", "24,40,3,3", "2,2,2,2", "1,1", 1, 40, 2},
    {"groups of 4", "1,32,9,8", "32,4,3,3", "1,1,1,1", "1,1", 8, 131, 0},
    {"groups of 5", "1,15,9,8", "12,5,3,3", "1,1,1,1", "1,1", 3, 131, 0},
    {"5 blocks", "2,80,8,9", "48,80,3,3", "1,1,1,1", "1,1", 1, 7, 0},
    {"3x3, wide rows", "1,16,5,70", "16,16,3,3", "1,1,1,1", "1,1", 1, 90, 0},
    {"first, stride 1", "1,3,12,19", "16,3,5,5", "2,2,2,2", "1,1", 1, 120, 0},
    {"matrix", "3,7,48", "48,33", NULL, NULL, 1, 128, 0},
    {"matrix, one row", "1,320", "320,64", NULL, NULL, 1, 255, 0},
};

/* Of weights and of bytes: from all that there are, both ends, one end. */
enum { ANY, ENDS, ONE_END, FILLS };

static struct ob *build(const struct layer *layer, int weights) {
    struct ob *b = ob_create(13);
    char zero[8];
    snprintf(zero, sizeof zero, "%d", layer->zero);
    ob_input(b, "q", MOIRE_U8, layer->x);
    ob_scalar(b, "xs", 0.25f);
    ob_integers(b, "xz", zero, MOIRE_U8);
    ob_node(b, "DequantizeLinear", "q xs xz", "x");
    ob_random(b, "real", layer->weights);
    ob_scalar(b, "step", weights == ENDS ? 1e-6f : 0.01f);
    ob_scalar(b, "far", weights == ONE_END ? 100.0f : 0.0f);
    ob_integers(b, "i0", "0", MOIRE_I8);
    ob_node(b, "Sub", "real far", "moved");
    ob_node(b, "QuantizeLinear", "moved step i0", "small");
    ob_scalar(b, "ws", 0.5f);
    ob_node(b, "DequantizeLinear", "small ws i0", "w");
    ob_node(b, layer->pads ? "Conv" : "MatMul", "x w", "y");
    if (layer->pads) {
        ob_ints(b, "pads", layer->pads);
        ob_ints(b, "strides", layer->strides);
        ob_int(b, "group", layer->group);
        if (layer->dilation) ob_ints(b, "dilations", "2,2");
    }
    ob_output(b, "y");
    return b;
}

static void fill(const moire_tensor *in, int bytes) {
    uint64_t seed = 5;
    for (size_t i = 0; i < in->bytes; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint8_t any = (uint8_t)(seed >> 56);
        ((uint8_t *)in->data)[i] = bytes == ANY ? any : bytes == ENDS && any & 1 ? 0 : 255;
    }
}

static void run(struct ob *b, int level, enum mo_units units, const moire_tensor *in, moire_tensor *out) {
    const struct mo_frontend_options front = {.precision = MOIRE_PRECISION_INT8};
    const struct mo_plan_options options = {
        .isa = level < 0 ? MO_ISA_BASE : (enum mo_isa)level, .units = units, .reference_only = level < 0};
    struct mo_graph *g = ways_graph_of(b, &front);
    moire_error err = {0};
    assert_string_equal(mo_precision_used(g), "int8");
    if (run_graph_in_used_memory(g, &options, in, 1, out, &err)) fail_msg("%s", err.message);
}

/* The levels of this machine by their vectors, the last also with its matrix unit, if any, and the model of
 * one. */
struct way {
    int level;
    enum mo_units units;
};

static struct way first_way(void) {
    return (struct way){mo_isa_next(-1), MO_UNITS_NONE};
}

static struct way next_way(struct way w) {
    const int next = mo_isa_next(w.level);
    if (next < MO_ISA_COUNT) return (struct way){next, MO_UNITS_NONE};
    if (w.units == MO_UNITS_NONE) return (struct way){w.level, MO_UNITS_OWN};
    return w.units == MO_UNITS_OWN ? (struct way){w.level, MO_UNITS_MODEL} : (struct way){next, MO_UNITS_OWN};
}

/* How many runs of a layer with such weights give other bits. */
static int compare(const struct layer *layer, int weights) {
    struct ob *b = build(layer, weights);
    struct mo_graph *plain = ways_graph(b, false, false);
    const struct mo_tensor *t = plain->tensors[plain->inputs[0]];
    moire_tensor in = {.dtype = MOIRE_U8, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
    memcpy(in.shape, t->shape.d, sizeof in.shape);
    in.data = ob_alloc(b, in.bytes);
    int wrong = 0;
    for (int bytes = 0; bytes < FILLS; bytes++) {
        moire_tensor want = {0}, got = {0};
        fill(&in, bytes);
        run(b, -1, MO_UNITS_NONE, &in, &want);
        for (struct way w = first_way(); w.level < MO_ISA_COUNT; w = next_way(w)) {
            run(b, w.level, w.units, &in, &got);
            assert_int_equal(got.bytes, want.bytes);
            if (memcmp(got.data, want.data, want.bytes)) {
                print_error("%s, weights %d, bytes %d: %s, units %d is not exact\n", layer->name, weights,
                            bytes, mo_isa_name((enum mo_isa)w.level), (int)w.units);
                wrong++;
            }
            mo_way_free(&b->env, &got, 1);
        }
        mo_way_free(&b->env, &want, 1);
    }
    mo_graph_destroy(plain);
    ob_destroy(b);
    return wrong;
}

static void sums_are_exact(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int weights = 0; weights < FILLS; weights++)
            wrong += compare(&layers[i], weights);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
