/* SPDX-License-Identifier: Apache-2.0
 * test_small_attention.c - attention between conversions to 8 bits becomes one layer where there is a matrix
 * unit, and gives what the single operators give, to one step of the output; where something of it stays
 * float32, it does not. */
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

enum { INPUTS = 4, NONE = 0, ADDED, REPLACED };

struct attention {
    const char *name;
    int batch, heads, queries, keys, depth, width;
    int mask;
    bool rows_first, rounds_scores, flat; /* heads behind rows; flat: rank 3 */
    const char *q, *k, *v;                /* zero points */
    int layers;                           /* of QAttention */
};
static const struct attention cases[] = {
    {"one step", 1, 2, 64, 64, 64, 64, ADDED, true, true, false, "128", "128", "128", 1},
    {"odd", 2, 3, 19, 37, 20, 23, ADDED, true, true, false, "131", "90", "140", 1},
    {"many keys", 1, 1, 70, 150, 33, 5, NONE, true, true, false, "128", "128", "7", 1},
    {"scores stay", 2, 2, 33, 17, 64, 32, NONE, false, false, false, "100", "128", "128", 1},
    {"heads first", 2, 2, 5, 9, 16, 16, ADDED, false, true, false, "128", "120", "128", 1},
    {"replaced", 1, 3, 12, 12, 24, 24, REPLACED, true, true, false, "128", "128", "128", 1},
    {"rank 3", 3, 1, 20, 24, 16, 40, NONE, false, true, true, "128", "1", "255", 1},
    {"one query", 1, 4, 1, 40, 64, 64, NONE, true, true, false, "128", "128", "128", 1},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void node(struct ob *b, const char *op, const char *out, const char *format, const char *x,
                 const char *y) {
    char in[80];
    snprintf(in, sizeof in, format, x, y);
    ob_node(b, op, in, out);
}

/* `out` = what `x` stands for once it is rounded to 8 bits. */
static void rounded(struct ob *b, const char *x, const char *scale, const char *zero, const char *out) {
    char grid[40], small[24];
    snprintf(grid, sizeof grid, "%s %s", scale, zero);
    snprintf(small, sizeof small, "%s_small", out);
    node(b, "QuantizeLinear", small, "%s %s", x, grid);
    node(b, "DequantizeLinear", out, "%s %s", small, grid);
}

/* An operand with its heads first. */
static void operand(struct ob *b, const struct attention *a, const char *name, int rows, int columns,
                    const char *perm, const char *zero) {
    char shape[60], turned[20], z[20], out[20];
    snprintf(turned, sizeof turned, "%s_turned", name);
    snprintf(z, sizeof z, "%s_zero", name);
    snprintf(out, sizeof out, "%s_8", name);
    if (a->flat)
        snprintf(shape, sizeof shape, "%d,%d,%d", a->batch, rows, columns);
    else if (a->rows_first)
        snprintf(shape, sizeof shape, "%d,%d,%d,%d", a->batch, rows, a->heads, columns);
    else
        snprintf(shape, sizeof shape, "%d,%d,%d,%d", a->batch, a->heads, rows, columns);
    ob_input(b, name, MOIRE_F32, shape);
    ob_integers(b, z, zero, MOIRE_U8);
    if (perm) {
        ob_node(b, "Transpose", name, turned);
        ob_ints(b, "perm", perm);
    }
    rounded(b, perm ? turned : name, "s", z, out);
}

static void masked(struct ob *b, const struct attention *a) {
    char shape[40];
    snprintf(shape, sizeof shape, "%d,1,1,%d", a->batch, a->keys);
    if (a->mask == ADDED) {
        ob_input(b, "mask", MOIRE_F32, shape);
        ob_node(b, "Add", "scaled mask", "masked");
    } else if (a->mask == REPLACED) {
        ob_input(b, "mask", MOIRE_F32, shape);
        ob_scalar(b, "least", -30);
        ob_scalar(b, "nothing", 0);
        ob_node(b, "Greater", "mask nothing", "flag");
        ob_node(b, "Where", "flag scaled least", "masked");
    }
}

/* `whole`: the weights are rounded, too, so that all of it is of bytes. */
static struct ob *build(const struct attention *a, bool whole) {
    struct ob *b = ob_create(13);
    ob_scalar(b, "s", 0.0173f);
    ob_scalar(b, "ss", 0.0831f);
    ob_scalar(b, "ps", 1.0f / 255);
    ob_scalar(b, "ys", 0.0117f);
    ob_scalar(b, "eight", 4.3f);
    ob_integers(b, "z0", "0", MOIRE_U8);
    ob_integers(b, "z121", "121", MOIRE_U8);
    operand(b, a, "q", a->queries, a->depth, a->rows_first ? "0,2,1,3" : NULL, a->q);
    operand(b, a, "k", a->keys, a->depth, a->rows_first ? "0,2,3,1" : a->flat ? "0,2,1" : "0,1,3,2", a->k);
    operand(b, a, "v", a->keys, a->width, a->rows_first ? "0,2,1,3" : NULL, a->v);
    ob_node(b, "MatMul", "q_8 k_8", "scores");
    if (a->rounds_scores) rounded(b, "scores", "ss", "z121", "scores_8");
    ob_node(b, "Div", a->rounds_scores ? "scores_8 eight" : "scores eight", "scaled");
    masked(b, a);
    ob_node(b, "Softmax", a->mask == NONE ? "scaled" : "masked", "soft");
    ob_int(b, "axis", -1);
    if (whole) rounded(b, "soft", "ps", "z0", "weights");
    ob_node(b, "MatMul", whole ? "weights v_8" : "soft v_8", "product");
    if (!a->rows_first) {
        ob_node(b, "QuantizeLinear", "product ys z121", "y");
    } else {
        rounded(b, "product", "ys", "z121", "product_8");
        ob_node(b, "Transpose", "product_8", "back");
        ob_ints(b, "perm", "0,2,1,3");
        ob_node(b, "QuantizeLinear", "back ys z121", "y");
    }
    ob_output(b, "y");
    return b;
}

static struct mo_graph *small_graph(struct ob *b) {
    return ways_graph_of(b,
                         &(struct mo_frontend_options){.precision = MOIRE_PRECISION_INT8, .any_unit = true});
}

static void all_becomes_one_layer(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_CASES; i++)
        for (int whole = 0; whole < 2; whole++) {
            struct ob *b = build(&cases[i], whole);
            struct mo_graph *g = small_graph(b);
            const int found = ways_count(g, "QAttention");
            if (found != (whole ? cases[i].layers : 0) || (whole && ways_count(g, "Transpose"))) {
                print_error("%s%s: %d layers\n", cases[i].name, whole ? "" : ", in part", found);
                ways_show(g);
                wrong++;
            }
            mo_graph_destroy(g);
            ob_destroy(b);
        }
    assert_int_equal(wrong, 0);
}

static int steps_off(const char *name, const char *way, const moire_tensor *got, const moire_tensor *want) {
    size_t off = 0;
    assert_int_equal(got->bytes, want->bytes);
    assert_int_equal(got->dtype, MOIRE_U8);
    for (size_t i = 0; i < want->bytes; i++) {
        const int d = ((const uint8_t *)got->data)[i] - ((const uint8_t *)want->data)[i];
        if (d < -1 || d > 1) {
            print_error("%s, %s: element %zu is %d off\n", name, way, i, d);
            return 1;
        }
        off += d != 0;
    }
    if (off * 50 <= want->bytes + 49) return 0;
    print_error("%s, %s: %zu of %zu are a step off\n", name, way, off, want->bytes);
    return 1;
}

static void run(struct ob *b, const struct mo_frontend_options *front, const struct mo_plan_options *plan,
                const moire_tensor *in, int n, moire_tensor *out) {
    moire_error err = {0};
    if (run_graph_in_used_memory(ways_graph_of(b, front), plan, in, n, out, &err))
        fail_msg("%s", err.message);
}

/* By the single operators, by the layer's reference, and by its kernels on every level and unit. */
static int compare(const struct attention *a) {
    const struct mo_frontend_options plain = {.no_passes = true, .no_layout = true},
                                     small = {.precision = MOIRE_PRECISION_INT8, .any_unit = true};
    static const enum mo_units units[] = {MO_UNITS_OWN, MO_UNITS_MODEL, MO_UNITS_NONE};
    struct ob *b = build(a, true);
    moire_tensor in[INPUTS] = {{0}}, want = {0}, got = {0};
    const int n = ways_inputs(b, 0.0161f, in);
    int wrong = 0;
    run(b, &plain, &(struct mo_plan_options){.isa = MO_ISA_BASE, .reference_only = true}, in, n, &want);
    run(b, &small, &(struct mo_plan_options){.isa = MO_ISA_BASE, .reference_only = true}, in, n, &got);
    wrong += steps_off(a->name, "reference", &got, &want);
    mo_way_free(&b->env, &got, 1);
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            run(b, &small, &(struct mo_plan_options){.isa = (enum mo_isa)isa, .units = units[u]}, in, n,
                &got);
            wrong += steps_off(a->name, mo_isa_name((enum mo_isa)isa), &got, &want);
            mo_way_free(&b->env, &got, 1);
        }
    mo_way_free(&b->env, &want, 1);
    ob_destroy(b);
    return wrong;
}

static void the_layer_matches_the_operators(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_CASES; i++)
        wrong += compare(&cases[i]);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_becomes_one_layer),
                                       cmocka_unit_test(the_layer_matches_the_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
