/* SPDX-License-Identifier: Apache-2.0
 * test_recurrent_ways.c - RNN, GRU and LSTM become a product and a recurrence where the kernel takes all that
 * their attributes say, and stay whole elsewhere; either way gives what the operator's reference gives, by
 * references and by the kernels of every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "tests/unit/codegen/used_memory.h"
#include "tests/unit/codegen/ways_case.h"
#include "tools/moire/verify/ways.h"

enum { CASES = 160, INPUTS = 4, OUTPUTS = 3, ACTS = 6 };

static const struct {
    const char *op;
    int gates, acts, states;
} cells[] = {{"RNN", 1, 1, 1}, {"GRU", 3, 2, 1}, {"LSTM", 4, 3, 2}};

/* What one node is to be. */
struct draw {
    uint64_t seed;
    int cell, seq, batch, in, hidden, directions;
    bool batch_first, fast;
    char text[200]; /* for messages */
};

static int below(struct draw *d, int n) {
    return (int)(mo_splitmix(&d->seed) >> 33) % n;
}

/* One more operand; an empty name: it is left out. */
static void operand(char *inputs, size_t n, const char *name) {
    snprintf(inputs + strlen(inputs), n - strlen(inputs), " %s", *name ? name : "-");
}

static const char *shape_of(char text[48], int a, int b, int c) {
    snprintf(text, 48, "%d,%d,%d", a, b, c);
    return text;
}

/* A constant, or an input of the model, or nothing. */
static void state(struct ob *b, struct draw *d, const char *name, char *inputs, size_t n) {
    char shape[48];
    const int how = below(d, 3), first = d->batch_first ? d->batch : d->directions;
    shape_of(shape, first, d->batch_first ? d->directions : d->batch, d->hidden);
    if (how == 1) ob_random(b, name, shape);
    if (how == 2) ob_input(b, name, MOIRE_F32, shape);
    operand(inputs, n, how ? name : "");
}

/* The same of lengths; those of the model are drawn in range. */
static void lengths(struct ob *b, struct draw *d, char *inputs, size_t n) {
    const int how = below(d, 3);
    char shape[24], list[200] = "";
    for (int i = 0; i < d->batch; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", i ? "," : "", below(d, d->seq + 1));
    snprintf(shape, sizeof shape, "%d", d->batch);
    if (how == 1) ob_integers(b, "lengths", list, MOIRE_I32);
    if (how == 2) ob_input(b, "lengths", MOIRE_I32, shape);
    operand(inputs, n, how ? "lengths" : "");
}

static void activations(struct ob *b, struct draw *d) {
    static const char *const names[] = {"Sigmoid",     "Tanh", "Relu",     "LeakyRelu",
                                        "HardSigmoid", "Elu",  "Softsign", "ScaledTanh"};
    static const float alpha[] = {0.3f, 0.2f, 0.4f, 0.7f, 0.6f, 0.5f};
    const int n = d->directions * cells[d->cell].acts, choice = below(d, 5) ? 5 : 8;
    Onnx__AttributeProto *a = ob_attr(b, "activations", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    a->n_strings = (size_t)n;
    a->strings = ob_alloc(b, (size_t)n * sizeof *a->strings);
    for (int i = 0; i < n; i++) {
        const int k = below(d, choice);
        d->fast = d->fast && k < 5;
        a->strings[i].data = (uint8_t *)ob_text(b, names[k]);
        a->strings[i].len = strlen(names[k]);
    }
    for (int i = 0; i < 2; i++) { /* more than are taken */
        a = ob_attr(b, i ? "activation_beta" : "activation_alpha",
                    ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
        a->n_floats = ACTS;
        a->floats = ob_alloc(b, sizeof alpha);
        memcpy(a->floats, alpha, sizeof alpha);
    }
}

static void attributes(struct ob *b, struct draw *d) {
    ob_int(b, "hidden_size", d->hidden);
    if (d->batch_first) ob_int(b, "layout", 1);
    if (d->directions == 2)
        ob_string(b, "direction", "bidirectional");
    else if (below(d, 2))
        ob_string(b, "direction", "reverse");
    const bool own = !below(d, 3); /* clipped, or states may grow out of every range */
    if (own || !below(d, 3)) ob_float(b, "clip", 0.9f);
    if (d->cell == 1 && below(d, 2)) ob_int(b, "linear_before_reset", 1);
    if (d->cell == 2 && below(d, 2)) ob_int(b, "input_forget", 1);
    if (own) activations(b, d);
}

static struct ob *build(struct draw *d) {
    struct ob *b = ob_create(14);
    char inputs[80] = "x w r", shape[48];
    *d = (struct draw){.seed = d->seed, .cell = below(d, 3), .fast = true};
    d->seq = 1 + below(d, 6);
    d->batch = below(d, 3) ? 1 + below(d, 5) : 1 + below(d, 20);
    d->in = 1 + below(d, 20);
    d->hidden = below(d, 4) ? 1 + below(d, 40) : 16 * (1 + below(d, 3));
    d->directions = 1 + below(d, 2);
    d->batch_first = below(d, 2);
    const int rows = cells[d->cell].gates * d->hidden;
    snprintf(d->text, sizeof d->text, "%s of %d steps, %d sequences, %d to %d", cells[d->cell].op, d->seq,
             d->batch, d->in, d->hidden);
    ob_input(b, "x", MOIRE_F32,
             shape_of(shape, d->batch_first ? d->batch : d->seq, d->batch_first ? d->seq : d->batch, d->in));
    ob_random(b, "w", shape_of(shape, d->directions, rows, d->in));
    ob_random(b, "r", shape_of(shape, d->directions, rows, d->hidden));
    const bool biased = below(d, 4);
    snprintf(shape, sizeof shape, "%d,%d", d->directions, 2 * rows);
    if (biased) ob_random(b, "bias", shape);
    operand(inputs, sizeof inputs, biased ? "bias" : "");
    lengths(b, d, inputs, sizeof inputs);
    for (int i = 0; i < cells[d->cell].states; i++)
        state(b, d, i ? "c" : "h", inputs, sizeof inputs);
    snprintf(shape, sizeof shape, "%d,%d", d->directions, 3 * d->hidden);
    if (d->cell == 2 && below(d, 2)) {
        ob_random(b, "peep", shape);
        operand(inputs, sizeof inputs, "peep");
    }
    ob_node(b, cells[d->cell].op, inputs, d->cell == 2 ? "y yh yc" : "y yh");
    attributes(b, d);
    for (int i = 0; i <= cells[d->cell].states; i++)
        ob_output(b, i == 0 ? "y" : i == 1 ? "yh" : "yc");
    return b;
}

static int fill(struct ob *b, struct draw *d, const struct mo_graph *g, moire_tensor *in) {
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        in[i] = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(in[i].shape, t->shape.d, sizeof in[i].shape);
        in[i].data = ob_alloc(b, in[i].bytes);
        for (int64_t k = 0; k < mo_shape_count(&t->shape); k++)
            if (t->dtype == MOIRE_I32)
                ((int32_t *)in[i].data)[k] = below(d, d->seq + 1);
            else
                ((float *)in[i].data)[k] = (float)below(d, 2001) / 1000 - 1;
    }
    return g->n_inputs;
}

/* Of the range of an output. */
static double distance(const moire_tensor *got, const moire_tensor *want) {
    double range = 1, most = 0;
    assert_int_equal(got->bytes, want->bytes);
    for (size_t i = 0; i < want->bytes / sizeof(float); i++) {
        const double g = (double)((const float *)got->data)[i], w = (double)((const float *)want->data)[i];
        range = fmax(range, fabs(w));
        most = fmax(most, isnan(g - w) ? INFINITY : fabs(g - w));
    }
    return most / range;
}

/* The plan's recurrence, in one layer or two. */
static const struct mo_step *recurrence(const struct mo_plan *plan, const char *op) {
    for (int i = 0; i < plan->n_steps; i++)
        if (!strcmp(plan->steps[i].node->op_type, op)) return &plan->steps[i];
    fail_msg("no layer is a %s", op);
    return NULL;
}

static struct mo_plan *plan_of(struct ob *b, int isa) {
    struct mo_plan *plan = NULL;
    moire_error err = {0};
    const struct mo_plan_options options = {.isa = isa < 0 ? MO_ISA_BASE : (enum mo_isa)isa,
                                            .reference_only = isa < 0};
    if (mo_plan_build(ways_graph(b, true, true), &options, &plan, &err)) fail_msg("%s", err.message);
    return plan;
}

/* By the references of what passes make (isa < 0), or by kernels. */
static int check(struct ob *b, const struct draw *d, int isa, const moire_tensor *in, int n,
                 const moire_tensor *want) {
    struct mo_plan *plan = plan_of(b, isa);
    moire_tensor got[OUTPUTS] = {{0}};
    moire_error err = {0};
    int wrong = 0;
    const struct mo_step *step = recurrence(plan, cells[d->cell].op);
    const bool split = !strcmp(step->node->domain, "moire"), kernel = step->run;
    if (split != d->fast || kernel != (d->fast && isa >= 0)) {
        print_error("%s: %s%s\n", d->text, split ? "in two" : "whole", kernel ? ", by a kernel" : "");
        wrong++;
    }
    if (run_in_used_memory(plan, in, n, got, &err)) fail_msg("%s: %s", d->text, err.message);
    for (int i = 0; i <= cells[d->cell].states; i++) {
        const double off = distance(&got[i], &want[i]);
        if (off <= 2e-5) continue;
        print_error("%s: output %d is %g off by %s\n", d->text, i, off,
                    isa < 0 ? "reference" : mo_isa_name((enum mo_isa)isa));
        wrong++;
    }
    mo_way_free(&b->env, got, cells[d->cell].states + 1);
    mo_plan_destroy(plan);
    return wrong;
}

static void any_attributes_give_the_same(void **state_) {
    (void)state_;
    int wrong = 0, fast = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct draw d = {.seed = seed};
        struct ob *b = build(&d);
        struct mo_graph *plain = ways_graph(b, false, false);
        moire_tensor in[INPUTS] = {{0}}, want[OUTPUTS] = {{0}};
        moire_error err = {0};
        const int n = fill(b, &d, plain, in);
        if (mo_way_run_reference(plain, in, n, want, &err)) fail_msg("%s: %s", d.text, err.message);
        int off = 0;
        for (int isa = -1; isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
            off += check(b, &d, isa, in, n, want);
        if (off) print_error("seed %d\n", (int)seed);
        wrong += off;
        fast += d.fast;
        mo_way_free(&b->env, want, plain->n_outputs);
        mo_graph_destroy(plain);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
    assert_true(fast > CASES / 2 && fast < CASES);
}

/* --- what is not taken ---------------------------------------------------------------------------------- */
static struct ob *gru(const char *lengths_given, const char *changed) {
    struct ob *b = ob_create(14);
    const bool input = !lengths_given;
    ob_input(b, "x", MOIRE_F32, "3,2,4");
    if (!strcmp(changed, "r"))
        ob_input(b, "r", MOIRE_F32, "1,15,5");
    else
        ob_random(b, "r", "1,15,5");
    ob_random(b, "w", "1,15,4");
    if (input)
        ob_input(b, "lengths", MOIRE_I32, "2");
    else
        ob_integers(b, "lengths", lengths_given, MOIRE_I32);
    ob_node(b, "GRU", "x w r - lengths", "y");
    ob_int(b, "hidden_size", 5);
    ob_output(b, "y");
    return b;
}

static void computed_weights_and_wrong_lengths_stay(void **state_) {
    (void)state_;
    static const struct {
        const char *lengths, *changed;
        bool split;
    } rows[] = {{"3,0", "", true}, {"3,4", "", false}, {"-1,1", "", false}, {"1,2", "r", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ob *b = gru(rows[i].lengths, rows[i].changed);
        struct mo_plan *plan = plan_of(b, MO_ISA_BASE);
        assert_int_equal(!strcmp(recurrence(plan, "GRU")->node->domain, "moire"), rows[i].split);
        mo_plan_destroy(plan);
        ob_destroy(b);
    }
}

static void wrong_lengths_of_a_query_are_refused(void **state_) {
    (void)state_;
    struct ob *b = gru(NULL, "");
    struct mo_plan *plan = plan_of(b, MO_ISA_BASE);
    float x[24] = {0};
    int32_t given[] = {2, 4};
    moire_tensor in[] = {{.dtype = MOIRE_F32, .rank = 3, .shape = {3, 2, 4}, .data = x, .bytes = sizeof x},
                         {.dtype = MOIRE_I32, .rank = 1, .shape = {2}, .data = given, .bytes = sizeof given}};
    moire_tensor out[1] = {{0}};
    moire_error err = {0};
    assert_non_null(recurrence(plan, "GRU")->run);
    assert_int_equal(mo_way_run_built(plan, in, 2, out, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "length 4 of sequence 1 is out of range"));
    given[1] = 3;
    assert_int_equal(mo_way_run_built(plan, in, 2, out, &err), MOIRE_OK);
    mo_way_free(&b->env, out, 1);
    mo_plan_destroy(plan);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_attributes_give_the_same),
        cmocka_unit_test(computed_weights_and_wrong_lengths_stay),
        cmocka_unit_test(wrong_lengths_of_a_query_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
