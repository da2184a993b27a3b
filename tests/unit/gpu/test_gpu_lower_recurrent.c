/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_lower_recurrent.c - random RNN, GRU and LSTM nodes lowered for a GPU, and those that are left to
 * cores, against the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tests/cuda/gpu_check.h"

enum { SEEDS = 24, MANY = 70 /* sequences */ };

struct dice {
    uint64_t state;
};

/* One of n. */
static int roll(struct dice *d, int n) {
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (int)(d->state >> 33) % n;
}

static const struct {
    const char *op;
    int gates, acts;
} cells[] = {{"RNN", 1, 1}, {"GRU", 3, 2}, {"LSTM", 4, 3}};

enum { NAMES = 64 };

/* Appends a word. */
static void word(char *names, const char *what) {
    const size_t n = strlen(names);
    snprintf(names + n, NAMES - n, "%s%s", n ? " " : "", what);
}

struct sizes {
    int seq, batch, in, hidden, directions, gates;
    bool batch_first, as_inputs; /* as_inputs: the weights are no constants */
    bool plain;                  /* a form that a GPU computes, else perhaps one for cores */
};

static void tensor(struct ob *b, const struct sizes *s, const char *name, const char *shape) {
    if (s->as_inputs)
        ob_input(b, name, MOIRE_F32, shape);
    else
        ob_random(b, name, shape);
}

static void weights(struct ob *b, struct dice *d, const struct sizes *s, char *names) {
    char shape[64];
    snprintf(shape, sizeof shape, s->batch_first ? "%d,%d,%d" : "%2$d,%1$d,%3$d", s->batch, s->seq, s->in);
    ob_input(b, "x", MOIRE_F32, shape);
    snprintf(shape, sizeof shape, "%d,%d,%d", s->directions, s->gates * s->hidden, s->in);
    tensor(b, s, "w", shape);
    snprintf(shape, sizeof shape, "%d,%d,%d", s->directions, s->gates * s->hidden, s->hidden);
    tensor(b, s, "r", shape);
    snprintf(shape, sizeof shape, "%d,%d", s->directions, 2 * s->gates * s->hidden);
    const bool bias = roll(d, 3) > 0;
    if (bias) tensor(b, s, "bias", shape);
    word(names, bias ? "x w r bias" : "x w r -");
}

/* Inputs behind the bias; with the weights as inputs there is no port left for them. */
static void others(struct ob *b, struct dice *d, const struct sizes *s, char *names) {
    char shape[64];
    const bool lstm = s->gates == 4, lengths = roll(d, 2) && !s->as_inputs && !s->plain,
               states = roll(d, 2) && !s->as_inputs, peepholes = lstm && roll(d, 2) && !s->plain;
    snprintf(shape, sizeof shape, "%d", s->batch);
    if (lengths) ob_input(b, "n", MOIRE_I32, shape);
    word(names, lengths ? "n" : "-");
    snprintf(shape, sizeof shape, s->batch_first ? "%d,%d,%d" : "%2$d,%1$d,%3$d", s->batch, s->directions,
             s->hidden);
    if (states) ob_input(b, "h0", MOIRE_F32, shape);
    word(names, states ? "h0" : "-");
    if (!lstm) return;
    if (states) ob_input(b, "c0", MOIRE_F32, shape);
    word(names, states ? "c0" : "-");
    snprintf(shape, sizeof shape, "%d,%d", s->directions, 3 * s->hidden);
    if (peepholes) ob_random(b, "p", shape);
    word(names, peepholes ? "p" : "-");
}

static void activations(struct ob *b, struct dice *d, int n) {
    static const char *const names[] = {
        "Affine",     "Relu",        "Tanh", "Sigmoid",  "LeakyRelu", "ThresholdedRelu",
        "ScaledTanh", "HardSigmoid", "Elu",  "Softsign", "Softplus"};
    Onnx__AttributeProto *a = ob_attr(b, "activations", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    a->strings = ob_alloc(b, (size_t)n * sizeof *a->strings);
    for (a->n_strings = 0; a->n_strings < (size_t)n; a->n_strings++) {
        const char *name = names[roll(d, sizeof names / sizeof *names)];
        a->strings[a->n_strings].data = (uint8_t *)ob_text(b, name);
        a->strings[a->n_strings].len = strlen(name);
    }
}

static void attributes(struct ob *b, struct dice *d, const struct sizes *s, int acts) {
    const int direction = roll(d, 2);
    ob_int(b, "hidden_size", s->hidden);
    ob_int(b, "layout", s->batch_first);
    ob_string(b, "direction", s->directions > 1 ? "bidirectional" : direction ? "reverse" : "forward");
    if (s->gates == 3) ob_int(b, "linear_before_reset", s->plain || roll(d, 2));
    if (s->plain) return;
    if (!roll(d, 3)) ob_float(b, "clip", 0.75f);
    if (s->gates == 4) ob_int(b, "input_forget", !roll(d, 3));
    if (!roll(d, 3)) activations(b, d, acts * s->directions);
}

static struct ob *random_node(uint64_t seed) {
    struct dice d = {seed * 977};
    const int cell = roll(&d, 3), many = !roll(&d, 3);
    struct sizes s = {.seq = 3 + roll(&d, 2), .in = 1 + roll(&d, 9), .hidden = 1 + roll(&d, 9)};
    char names[NAMES] = "", outputs[NAMES] = "";
    s.batch = many ? MANY + roll(&d, 3) : 1 + roll(&d, 4);
    s.directions = 1 + roll(&d, 2);
    s.gates = cells[cell].gates;
    s.batch_first = roll(&d, 2);
    s.as_inputs = !roll(&d, 4);
    s.plain = roll(&d, 4) > 0;
    print_message("seed %d: %s, %d steps of %d, %d to %d, %d directions%s%s\n", (int)seed, cells[cell].op,
                  s.seq, s.batch, s.in, s.hidden, s.directions, s.batch_first ? ", batch first" : "",
                  s.as_inputs ? ", no constants" : "");
    struct ob *b = ob_create(14);
    b->seed = seed;
    weights(b, &d, &s, names);
    others(b, &d, &s, names);
    const int wanted = roll(&d, 3);
    word(outputs, wanted == 2 ? "-" : "y");
    if (wanted) word(outputs, "h");
    if (wanted && cell == 2) word(outputs, "c");
    ob_node(b, cells[cell].op, names, outputs);
    attributes(b, &d, &s, cells[cell].acts);
    if (wanted != 2) ob_output(b, "y");
    if (wanted) ob_output(b, "h");
    if (wanted && cell == 2) ob_output(b, "c");
    return b;
}

static void random_nodes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        gpu_check(random_node(seed));
}

/* A product and a launch for every step, one product of all inputs and one launch before the first step; and
 * however many steps there are, the text of as many kernels. */
static void steps(void **state) {
    (void)state;
    int kernels[2];
    for (int i = 0; i < 2; i++) {
        struct ob *b = ob_create(14);
        ob_input(b, "x", MOIRE_F32, i ? "9,2,5" : "4,2,5");
        ob_random(b, "w", "1,12,5");
        ob_random(b, "r", "1,12,3");
        ob_node(b, "LSTM", "x w r", "y");
        ob_output(b, "y");
        struct mo_graph *g = gpu_case_parse(b, &(struct mo_frontend_options){.no_layout = true});
        struct mo_gpu_program *p = gpu_check_lower(g, MO_GPU_FP32, 1);
        int kinds[MO_GPU_KINDS] = {0};
        for (int k = 0; k < p->n_ops; k++)
            kinds[p->ops[k].kind]++;
        assert_int_equal(kinds[MO_GPU_GEMM], 1 + (i ? 9 : 4));
        assert_int_equal(kinds[MO_GPU_KERNEL], 1 + (i ? 9 : 4));
        kernels[i] = p->n_kernels;
        mo_gpu_program_destroy(p);
        mo_graph_destroy(g);
        ob_destroy(b);
    }
    assert_int_equal(kernels[0], kernels[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_nodes), cmocka_unit_test(steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
