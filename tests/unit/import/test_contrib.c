/* SPDX-License-Identifier: Apache-2.0
 * test_contrib.c - operators of ONNX Runtime's own domain give what the operators of ONNX give that a user
 * would have written, in models of an old version of these; what cannot be written is refused by its name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/ops/interpret.h"
#include "tests/unit/codegen/onnx_build.h"
#include "tests/unit/codegen/ways_case.h"

enum { MOST = 4096 };

static struct ob *model(const char *x, const char *z) {
    struct ob *b = ob_create(13);
    ob_opset(b, "com.microsoft", 1);
    ob_input(b, "x", MOIRE_F32, x);
    if (z) ob_input(b, "z", MOIRE_F32, z);
    ob_random(b, "g", "8");
    ob_random(b, "b", "8");
    ob_random(b, "c", "8");
    ob_random(b, "w", "8,8");
    ob_random(b, "f", "6,4,3,3");
    ob_random(b, "fb", "6");
    return b;
}

static Onnx__NodeProto *contrib(struct ob *b, const char *op, const char *inputs, const char *outputs) {
    Onnx__NodeProto *node = ob_node(b, op, inputs, outputs);
    node->domain = ob_text(b, "com.microsoft");
    return node;
}

static int load(struct ob *b, struct mo_graph **g, moire_error *err) {
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    return mo_frontend_parse(&b->env, bytes, n, NULL, NULL, g, err);
}

static size_t run(struct ob *b, float *out) {
    moire_tensor in[4];
    struct mo_graph *g = NULL;
    struct mo_value y;
    moire_error err = {0};
    const int n_in = ways_inputs(b, 0.01F, in);
    if (load(b, &g, &err) || mo_interpret(g, in, n_in, &y, &err)) fail_msg("%s", err.message);
    const size_t n = (size_t)mo_shape_count(&y.shape);
    assert_true(n > 0 && n <= MOST && y.dtype == MOIRE_F32);
    memcpy(out, y.data, n * sizeof *out);
    mo_interpret_free(&b->env, &y, 1);
    mo_graph_destroy(g);
    return n;
}

/* --- each of them, and by hand -------------------------------------------------------------------------- */

/* x times the error function's share, of "t" to "y". */
static void by_erf(struct ob *b, const char *t) {
    char inputs[20];
    ob_scalar(b, "root", 0.70710678F);
    ob_scalar(b, "half", 0.5F);
    ob_scalar(b, "one", 1);
    snprintf(inputs, sizeof inputs, "%s root", t);
    ob_node(b, "Mul", inputs, "e0");
    ob_node(b, "Erf", "e0", "e1");
    ob_node(b, "Add", "e1 one", "e2");
    snprintf(inputs, sizeof inputs, "%s e2", t);
    ob_node(b, "Mul", inputs, "e3");
    ob_node(b, "Mul", "e3 half", "y");
}
static void gelu(struct ob *b, bool hand) {
    if (hand)
        by_erf(b, "x");
    else
        contrib(b, "Gelu", "x", "y");
}
static void bias_gelu(struct ob *b, bool hand) {
    if (hand) ob_node(b, "Add", "x g", "t");
    if (hand)
        by_erf(b, "t");
    else
        contrib(b, "BiasGelu", "x g", "y");
}
static void quick_gelu(struct ob *b, bool hand) {
    if (!hand) {
        contrib(b, "QuickGelu", "x", "y");
        return;
    }
    ob_scalar(b, "by", 1.702F);
    ob_node(b, "Mul", "x by", "t");
    ob_node(b, "Sigmoid", "t", "s");
    ob_node(b, "Mul", "x s", "y");
}
static void product(struct ob *b, bool hand) {
    if (!hand) {
        contrib(b, "FusedMatMul", "x z", "y");
        ob_int(b, "transB", 1);
        ob_float(b, "alpha", 0.25F);
        return;
    }
    ob_scalar(b, "by", 0.25F);
    ob_node(b, "Transpose", "z", "zt");
    ob_ints(b, "perm", "0,2,1");
    ob_node(b, "MatMul", "x zt", "p");
    ob_node(b, "Mul", "p by", "y");
}
static void conv(struct ob *b, bool hand) {
    if (hand)
        ob_node(b, "Conv", "x f fb", "t");
    else
        contrib(b, "FusedConv", "x f fb z", "y");
    ob_ints(b, "pads", "1,1,1,1");
    if (!hand) {
        ob_string(b, "activation", "LeakyRelu");
        Onnx__AttributeProto *a =
            ob_attr(b, "activation_params", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
        a->floats = ob_alloc(b, sizeof(float));
        a->floats[0] = 0.125F;
        a->n_floats = 1;
        return;
    }
    ob_node(b, "Add", "t z", "u");
    ob_node(b, "LeakyRelu", "u", "y");
    ob_float(b, "alpha", 0.125F);
}
/* The sum is an output that the end reads, too. */
static void skip_norm(struct ob *b, bool hand) {
    if (!hand) {
        contrib(b, "SkipLayerNormalization", "x z g b c", "n - - s");
        ob_float(b, "epsilon", 0.01F);
    } else {
        ob_scalar(b, "two", 2);
        ob_scalar(b, "small", 0.01F);
        ob_node(b, "Add", "x z", "s0");
        ob_node(b, "Add", "s0 c", "s");
        ob_node(b, "ReduceMean", "s", "m");
        ob_ints(b, "axes", "-1");
        ob_node(b, "Sub", "s m", "d");
        ob_node(b, "Pow", "d two", "d2");
        ob_node(b, "ReduceMean", "d2", "v");
        ob_ints(b, "axes", "-1");
        ob_node(b, "Add", "v small", "v1");
        ob_node(b, "Sqrt", "v1", "v2");
        ob_node(b, "Div", "d v2", "n0");
        ob_node(b, "Mul", "n0 g", "n1");
        ob_node(b, "Add", "n1 b", "n");
    }
    ob_node(b, "Sub", "n s", "y");
}
/* In ONNX's own domain, before it was there. */
static void old_norm(struct ob *b, bool hand) {
    ob_scalar(b, "nothing", 0);
    ob_node(b, "Mul", "x nothing", "o");
    if (!hand) {
        ob_node(b, "LayerNormalization", "x g b", "y");
        ob_float(b, "epsilon", 0.01F);
        return;
    }
    contrib(b, "SkipLayerNormalization", "x o g b", "y");
    ob_float(b, "epsilon", 0.01F);
}

static const struct {
    const char *x, *z;
    void (*make)(struct ob *b, bool hand);
} cases[] = {
    {"2,5,8", NULL, gelu},       {"2,5,8", NULL, bias_gelu},   {"2,5,8", NULL, quick_gelu},
    {"2,5,8", "2,3,8", product}, {"1,4,9,7", "1,6,9,7", conv}, {"2,5,8", "2,5,8", skip_norm},
    {"2,5,8", NULL, old_norm},
};

static void they_give_what_is_written_by_hand(void **state) {
    (void)state;
    static float got[MOST], want[MOST];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b[2];
        size_t n[2];
        for (int hand = 0; hand < 2; hand++) {
            b[hand] = model(cases[i].x, cases[i].z);
            cases[i].make(b[hand], hand);
            ob_output(b[hand], "y");
            n[hand] = run(b[hand], hand ? want : got);
        }
        assert_int_equal(n[0], n[1]);
        for (size_t k = 0; k < n[0]; k++)
            if (!(fabsf(got[k] - want[k]) <= 1e-5F * (1 + fabsf(want[k]))))
                fail_msg("case %zu: [%zu] is %g, not %g", i, k, (double)got[k], (double)want[k]);
        assert_int_equal(ways_check(b[0], "contributed", false, ways_near), 0);
        ob_destroy(b[0]), ob_destroy(b[1]);
    }
}

static void without_memory(void **state) {
    (void)state;
    struct ob *b = model("1,4,9,7", "1,6,9,7");
    conv(b, false);
    ob_output(b, "y");
    ways_without_memory(b);
    ob_destroy(b);
}

static void others_are_refused(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct ob *b = model("2,5,8", "2,5,8");
        contrib(b,
                kind == 0   ? "FusedGemm"
                : kind == 1 ? "Attention"
                            : "SkipSimplifiedLayerNormalization",
                "x z g", kind == 2 ? "y m" : "y");
        if (kind == 0) ob_string(b, "activation", "Softmax");
        ob_output(b, "y");
        struct mo_graph *g = NULL;
        moire_error err = {0};
        assert_int_equal(load(b, &g, &err), MOIRE_EUNSUPPORTED);
        assert_non_null(strstr(err.message, "com.microsoft"));
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_give_what_is_written_by_hand),
                                       cmocka_unit_test(without_memory),
                                       cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
