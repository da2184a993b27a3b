/* SPDX-License-Identifier: Apache-2.0
 * test_functions.c - functions that a model defines: calls give what the bodies in their places give, names
 * of one call do not meet those of another, and files that ask for endless work are refused. */
#define _GNU_SOURCE
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

enum { MOST_FUNCTIONS = 40, WORDS = 8, N = 6 };

/* Of a list of words. */
static size_t words(struct ob *b, const char *list, char **out) {
    char *copy = ob_text(b, list), *rest = NULL;
    size_t n = 0;
    for (char *w = strtok_r(copy, " ", &rest); w && n < WORDS; w = strtok_r(NULL, " ", &rest))
        out[n++] = w;
    return n;
}

/* The nodes of `body` become a function's; they live until the model is packed. */
static Onnx__FunctionProto *function(struct ob *b, const char *name, const char *inputs, const char *outputs,
                                     struct ob *body) {
    Onnx__FunctionProto *f = ob_alloc(b, sizeof *f);
    onnx__function_proto__init(f);
    f->name = ob_text(b, name);
    f->domain = ob_text(b, "mine");
    f->input = ob_alloc(b, WORDS * sizeof(char *));
    f->output = ob_alloc(b, WORDS * sizeof(char *));
    f->n_input = words(b, inputs, f->input);
    f->n_output = words(b, outputs, f->output);
    f->node = body->nodes;
    f->n_node = body->graph.n_node;
    if (!b->model.functions) b->model.functions = ob_alloc(b, MOST_FUNCTIONS * sizeof(void *));
    b->model.functions[b->model.n_functions++] = f;
    return f;
}

static Onnx__NodeProto *call(struct ob *b, const char *name, const char *inputs, const char *outputs) {
    Onnx__NodeProto *node = ob_node(b, name, inputs, outputs);
    node->domain = ob_text(b, "mine");
    return node;
}

/* Attribute of the last node that stands for the function's. */
static void refer(struct ob *b, const char *name, int type, const char *to) {
    ob_attr(b, name, type)->ref_attr_name = ob_text(b, to);
}

/* A default, as files of IR version 9 have it. */
static void set_default(struct ob *b, Onnx__FunctionProto *f, const char *name, float value) {
    Onnx__AttributeProto a = ONNX__ATTRIBUTE_PROTO__INIT;
    ProtobufCMessageUnknownField *field = ob_alloc(b, sizeof *field);
    a.name = ob_text(b, name);
    a.has_type = a.has_f = 1;
    a.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    a.f = value;
    const size_t n = onnx__attribute_proto__get_packed_size(&a);
    assert_true(n < 128);
    *field = (ProtobufCMessageUnknownField){.tag = 11,
                                            .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                                            .len = n + 1,
                                            .data = ob_alloc(b, n + 1)};
    field->data[0] = (uint8_t)n;
    onnx__attribute_proto__pack(&a, field->data + 1);
    f->base.unknown_fields = field;
    f->base.n_unknown_fields = 1;
}

static struct ob *model(void) {
    struct ob *b = ob_create(17);
    ob_opset(b, "mine", 1);
    ob_input(b, "x", MOIRE_F32, "2,3");
    return b;
}

/* "Slope": x below zero times the attribute, 0.5 unless given.  "Pair": two results of its own names. */
static void add_functions(struct ob *b, struct ob *slope, struct ob *pair) {
    ob_node(slope, "LeakyRelu", "x", "t");
    refer(slope, "alpha", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, "by");
    ob_node(slope, "Neg", "t", "y");
    set_default(b, function(b, "Slope", "x", "y", slope), "by", 0.5F);
    call(pair, "Slope", "b", "t");
    ob_node(pair, "Add", "a t", "y");
    ob_node(pair, "Sub", "a t", "z");
    function(b, "Pair", "a b", "y z a t", pair);
}

static int load(struct ob *b, const struct mo_env *env, struct mo_graph **g, moire_error *err) {
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    return mo_frontend_parse(env, bytes, n, NULL, NULL, g, err);
}

static void run(struct ob *b, float out[N]) {
    static float x[N] = {-3, -1, -0.25F, 0.5F, 2, 7};
    moire_tensor in = {.dtype = MOIRE_F32, .rank = 2, .shape = {2, 3}, .data = x, .bytes = sizeof x};
    struct mo_graph *g = NULL;
    struct mo_value y;
    moire_error err = {0};
    if (load(b, &b->env, &g, &err)) fail_msg("%s", err.message);
    if (mo_interpret(g, &in, 1, &y, &err)) fail_msg("%s", err.message);
    assert_int_equal(mo_shape_count(&y.shape), N);
    memcpy(out, y.data, N * sizeof *out);
    mo_interpret_free(&b->env, &y, 1);
    mo_graph_destroy(g);
}

static void calls_give_what_bodies_give(void **state) {
    (void)state;
    struct ob *b = model(), *slope = ob_create(17), *pair = ob_create(17), *flat = model();
    add_functions(b, slope, pair);
    call(b, "Slope", "x", "t"); /* a name that bodies use, too */
    ob_float(b, "by", 0.125F);
    call(b, "Pair", "t x", "y z");
    call(b, "Pair", "z y", "- u v w");
    ob_node(b, "Concat", "u v w", "all");
    ob_int(b, "axis", 0);
    ob_node(b, "ReduceSum", "all", "s");
    ob_node(b, "Add", "u s", "out");
    ob_output(b, "out");
    ob_node(flat, "LeakyRelu", "x", "t0");
    ob_float(flat, "alpha", 0.125F);
    ob_node(flat, "Neg", "t0", "t");
    ob_node(flat, "LeakyRelu", "x", "p0");
    ob_float(flat, "alpha", 0.5F);
    ob_node(flat, "Neg", "p0", "p");
    ob_node(flat, "Add", "t p", "y");
    ob_node(flat, "Sub", "t p", "z");
    ob_node(flat, "LeakyRelu", "y", "q0");
    ob_float(flat, "alpha", 0.5F);
    ob_node(flat, "Neg", "q0", "w");
    ob_node(flat, "Sub", "z w", "u");
    ob_node(flat, "Concat", "u z w", "all");
    ob_int(flat, "axis", 0);
    ob_node(flat, "ReduceSum", "all", "s");
    ob_node(flat, "Add", "u s", "out");
    ob_output(flat, "out");
    float got[N], want[N];
    run(b, got);
    run(flat, want);
    assert_memory_equal(got, want, sizeof got);
    ways_without_memory(b);
    ob_destroy(b), ob_destroy(slope), ob_destroy(pair), ob_destroy(flat);
}

/* A body within a function reads the function's values and its own, and calls another function. */
static void bodies_within_functions(void **state) {
    (void)state;
    struct ob *b = model(), *slope = ob_create(17), *pair = ob_create(17), *choose = ob_create(17),
              *yes = ob_create(17), *no = ob_create(17), *flat = model();
    add_functions(b, slope, pair);
    ob_node(yes, "Add", "a k", "r");
    ob_scalar(yes, "k", 3);
    ob_output(yes, "r");
    call(no, "Slope", "a", "q");
    ob_node(no, "Mul", "q sum", "r");
    ob_output(no, "r");
    ob_node(choose, "ReduceMax", "a", "sum");
    ob_int(choose, "keepdims", 0);
    ob_node(choose, "Constant", "", "five");
    ob_value(choose, 5);
    ob_node(choose, "Greater", "sum five", "c");
    ob_node(choose, "If", "c", "y");
    ob_body(choose, "then_branch", yes);
    ob_body(choose, "else_branch", no);
    function(b, "Choose", "a", "y", choose);
    call(b, "Choose", "x", "r"); /* 7 is more than 5: x + 3 */
    ob_node(b, "Neg", "x", "n");
    call(b, "Choose", "n", "s"); /* 3 is not: Slope(-x) * 3 */
    ob_node(b, "Add", "r s", "out");
    ob_output(b, "out");
    ob_scalar(flat, "three", 3);
    ob_node(flat, "Add", "x three", "r");
    ob_node(flat, "Neg", "x", "n");
    ob_node(flat, "LeakyRelu", "n", "l");
    ob_float(flat, "alpha", 0.5F);
    ob_node(flat, "Neg", "l", "m");
    ob_node(flat, "Mul", "m three", "s");
    ob_node(flat, "Add", "r s", "out");
    ob_output(flat, "out");
    float got[N], want[N];
    run(b, got);
    run(flat, want);
    assert_memory_equal(got, want, sizeof got);
    ob_destroy(b), ob_destroy(slope), ob_destroy(pair), ob_destroy(choose), ob_destroy(yes), ob_destroy(no);
    ob_destroy(flat);
}

/* --- what is refused ------------------------------------------------------------------------------------ */

static void calls_itself(struct ob *b, struct ob *bodies[]) {
    call(bodies[0], "F0", "x", "y");
    function(b, "F0", "x", "y", bodies[0]);
}

/* Each calls the next one `times`. */
static void chain(struct ob *b, struct ob *bodies[], int n, int times) {
    for (int i = 0; i < n; i++) {
        char name[8], next[8];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, "F%d", i + 1);
        for (int k = 0; k < times && i + 1 < n; k++) {
            char in[8], out[8];
            snprintf(in, sizeof in, k ? "t%d" : "x", k);
            snprintf(out, sizeof out, k + 1 < times ? "t%d" : "y", k + 1);
            call(bodies[i], next, in, out);
        }
        function(b, name, "x", "y", bodies[i]);
    }
}
static void doubles(struct ob *b, struct ob *bodies[]) {
    chain(b, bodies, 30, 2);
}
static void too_deep(struct ob *b, struct ob *bodies[]) {
    chain(b, bodies, 39, 1);
}
static void twice_defined(struct ob *b, struct ob *bodies[]) {
    function(b, "F0", "x", "y", bodies[0]);
    function(b, "F0", "x", "y", bodies[1]);
}
static void too_few_inputs(struct ob *b, struct ob *bodies[]) {
    ob_node(bodies[0], "Neg", "x", "y");
    function(b, "F0", "", "y", bodies[0]);
}
static void reads_what_nobody_defines(struct ob *b, struct ob *bodies[]) {
    ob_node(bodies[0], "Neg", "x0", "y");
    ob_node(b, "Neg", "x", "x0");
    function(b, "F0", "x", "y", bodies[0]);
}
static void broken_default(struct ob *b, struct ob *bodies[]) {
    ob_node(bodies[0], "Neg", "x", "y");
    Onnx__FunctionProto *f = function(b, "F0", "x", "y", bodies[0]);
    set_default(b, f, "by", 1);
    f->base.unknown_fields[0].data[1] ^= 7;
}
static const struct {
    void (*make)(struct ob *b, struct ob *bodies[]);
    int code;
    const char *says;
} faults[] = {
    {calls_itself, MOIRE_EFORMAT, "calls itself"},
    {doubles, MOIRE_ELIMIT, "the limit nodes"},
    {too_deep, MOIRE_EFORMAT, "too deep"},
    {twice_defined, MOIRE_EFORMAT, "defined twice"},
    {too_few_inputs, MOIRE_EFORMAT, "more inputs or outputs"},
    {reads_what_nobody_defines, MOIRE_EFORMAT, "F0#1/x0"},
    {broken_default, MOIRE_EFORMAT, "function 'F0'"},
};

static void faults_are_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct ob *b = model(), *bodies[MOST_FUNCTIONS];
        for (int k = 0; k < MOST_FUNCTIONS; k++)
            bodies[k] = ob_create(17);
        faults[i].make(b, bodies);
        call(b, "F0", "x", "out");
        ob_output(b, "out");
        struct mo_graph *g = NULL;
        moire_error err = {0};
        const int rc = load(b, &b->env, &g, &err);
        if (rc != faults[i].code || !strstr(err.message, faults[i].says))
            fail_msg("fault %zu: %d, '%s'", i, rc, err.message);
        for (int k = 0; k < MOST_FUNCTIONS; k++)
            ob_destroy(bodies[k]);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_give_what_bodies_give),
                                       cmocka_unit_test(bodies_within_functions),
                                       cmocka_unit_test(faults_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
