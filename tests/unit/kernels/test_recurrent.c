/* SPDX-License-Identifier: Apache-2.0
 * test_recurrent.c - RNN, GRU and LSTM where the ONNX cases do not look: directions, lengths, activations
 * with parameters, clipping, and the two forms of the GRU, against the equations written out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include "tests/unit/kernels/op_case.h"

enum { SEQ = 3, BATCH = 2, IN = 2, HIDDEN = 2, MOST = 64 };
#define F MOIRE_F32

static void near(double is, double wanted) {
    if (fabs(is - wanted) > 1e-6) fail_msg("%g is not %g", is, wanted);
}

/* Something of every sign and no pattern. */
static void fill(double *v, int n, double phase) {
    for (int i = 0; i < n; i++)
        v[i] = 0.9 * sin(1.7 * i + phase);
}

struct weights {
    double x[SEQ * BATCH * IN], w[MOST], r[MOST], bias[MOST];
};

static void make(struct weights *v, int gates) {
    fill(v->x, SEQ * BATCH * IN, 0.3);
    fill(v->w, gates * HIDDEN * IN, 1.1);
    fill(v->r, gates * HIDDEN * HIDDEN, 2.2);
    fill(v->bias, 2 * gates * HIDDEN, 0.7);
}

/* Runs an operator of one direction on [SEQ][BATCH][IN]. */
static void run(struct op_case *c, const char *op, int gates, const char *attrs, const struct weights *v,
                const double *lengths) {
    char shape[32];
    op_case_open(c, op, 14);
    op_case_attrs(c, attrs);
    op_case_input(c, F, "3x2x2", v->x);
    snprintf(shape, sizeof shape, "1x%dx%d", gates * HIDDEN, IN);
    op_case_input(c, F, shape, v->w);
    op_case_input(c, F, shape, v->r);
    snprintf(shape, sizeof shape, "1x%d", 2 * gates * HIDDEN);
    op_case_input(c, F, shape, v->bias);
    if (lengths) op_case_input(c, MOIRE_I32, "2", lengths);
    if (op_case_run(c, 2)) fail_msg("%s", c->err.message);
}

static double at(const struct op_case *c, int t, int b, int j) {
    return op_case_out(c, 0, (t * BATCH + b) * HIDDEN + j);
}

static const struct {
    const char *op;
    int gates;
} cells[] = {{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};

static void backwards_is_forwards_on_the_reversed_sequence(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct weights v, turned;
        struct op_case there, back;
        make(&v, cells[k].gates);
        turned = v;
        for (int t = 0; t < SEQ; t++)
            for (int i = 0; i < BATCH * IN; i++)
                turned.x[t * BATCH * IN + i] = v.x[(SEQ - 1 - t) * BATCH * IN + i];
        run(&there, cells[k].op, cells[k].gates, "", &turned, NULL);
        run(&back, cells[k].op, cells[k].gates, "direction:reverse", &v, NULL);
        for (int t = 0; t < SEQ; t++)
            for (int i = 0; i < BATCH * HIDDEN; i++)
                near(at(&back, t, 0, i), at(&there, SEQ - 1 - t, 0, i));
        for (int i = 0; i < BATCH * HIDDEN; i++)
            near(op_case_out(&back, 1, i), op_case_out(&there, 1, i));
        op_case_close(&there);
        op_case_close(&back);
    }
}

static void shorter_sequences_stop(void **state) {
    (void)state;
    static const double lengths[] = {SEQ, 1};
    for (int k = 0; k < 3; k++) {
        struct weights v;
        struct op_case whole, cut;
        make(&v, cells[k].gates);
        run(&whole, cells[k].op, cells[k].gates, "", &v, NULL);
        run(&cut, cells[k].op, cells[k].gates, "", &v, lengths);
        for (int j = 0; j < HIDDEN; j++) {
            near(at(&cut, 2, 0, j), at(&whole, 2, 0, j));
            near(at(&cut, 0, 1, j), at(&whole, 0, 1, j));
            assert_true(at(&cut, 1, 1, j) == 0);
            near(op_case_out(&cut, 1, HIDDEN + j), at(&whole, 0, 1, j));
        }
        op_case_close(&whole);
        op_case_close(&cut);
    }
}

/* Sum of gate row `row` for the first step of the first sequence; the state is zero then. */
static double first_sum(const struct weights *v, int gates, int row) {
    double sum = v->bias[row] + v->bias[gates * HIDDEN + row];
    for (int i = 0; i < IN; i++)
        sum += v->x[i] * v->w[row * IN + i];
    return sum;
}

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

static void first_steps_follow_the_equations(void **state) {
    (void)state;
    struct weights v;
    struct op_case c;
    make(&v, 1);
    run(&c, "RNN", 1, "", &v, NULL);
    for (int j = 0; j < HIDDEN; j++)
        near(at(&c, 0, 0, j), tanh(first_sum(&v, 1, j)));
    op_case_close(&c);
    make(&v, 4);
    run(&c, "LSTM", 4, "", &v, NULL);
    for (int j = 0; j < HIDDEN; j++) {
        double i = logistic(first_sum(&v, 4, j)), o = logistic(first_sum(&v, 4, HIDDEN + j));
        double g = tanh(first_sum(&v, 4, 3 * HIDDEN + j));
        near(at(&c, 0, 0, j), o * tanh(i * g));
    }
    op_case_close(&c);
    make(&v, 3);
    for (int before = 0; before < 2; before++) {
        run(&c, "GRU", 3, before ? "linear_before_reset=1" : "", &v, NULL);
        for (int j = 0; j < HIDDEN; j++) {
            double z = logistic(first_sum(&v, 3, j)), r = logistic(first_sum(&v, 3, HIDDEN + j));
            double from_h = v.bias[3 * HIDDEN + 2 * HIDDEN + j], sum = first_sum(&v, 3, 2 * HIDDEN + j);
            double g = tanh(before ? sum - from_h + r * from_h : sum);
            near(at(&c, 0, 0, j), (1 - z) * g);
        }
        op_case_close(&c);
    }
}

/* The GRU's forms differ from the second step on in what the reset gate multiplies. */
static void the_second_step_of_a_gru(void **state) {
    (void)state;
    for (int before = 0; before < 2; before++) {
        struct weights v;
        struct op_case c;
        make(&v, 3);
        run(&c, "GRU", 3, before ? "linear_before_reset=1" : "", &v, NULL);
        double h[HIDDEN], gate[2][HIDDEN];
        for (int j = 0; j < HIDDEN; j++)
            h[j] = at(&c, 0, 0, j);
        for (int row = 0; row < 2 * HIDDEN; row++) {
            double sum = v.bias[row] + v.bias[3 * HIDDEN + row];
            for (int i = 0; i < IN; i++)
                sum += v.x[BATCH * IN + i] * v.w[row * IN + i] + h[i] * v.r[row * HIDDEN + i];
            gate[row / HIDDEN][row % HIDDEN] = logistic(sum);
        }
        for (int j = 0; j < HIDDEN; j++) {
            int row = 2 * HIDDEN + j;
            double from_x = v.bias[row], from_h = v.bias[3 * HIDDEN + row], reset = 0;
            for (int i = 0; i < IN; i++) {
                from_x += v.x[BATCH * IN + i] * v.w[row * IN + i];
                reset += (before ? 1 : gate[1][i]) * h[i] * v.r[row * HIDDEN + i];
            }
            double g = tanh(from_x + (before ? gate[1][j] * (from_h + reset) : from_h + reset));
            double z = gate[0][j];
            near(at(&c, 1, 0, j), (1 - z) * g + z * h[j]);
        }
        op_case_close(&c);
    }
}

static void activations_take_their_parameters(void **state) {
    (void)state;
    static const struct {
        const char *attrs;
        double a, b;
    } cases[] = {{"activations+LeakyRelu activation_alpha~0.25", 0.25, 1},
                 {"activations+LeakyRelu", 0.01, 1}};
    for (int k = 0; k < 2; k++) {
        struct weights v;
        struct op_case c;
        make(&v, 1);
        run(&c, "RNN", 1, cases[k].attrs, &v, NULL);
        for (int j = 0; j < HIDDEN; j++) {
            double sum = first_sum(&v, 1, j);
            near(at(&c, 0, 0, j), sum < 0 ? cases[k].a * sum : sum);
        }
        op_case_close(&c);
    }
}

static void sums_are_clipped(void **state) {
    (void)state;
    struct weights v;
    struct op_case c;
    make(&v, 1);
    run(&c, "RNN", 1, "clip=0.125", &v, NULL);
    for (int j = 0; j < HIDDEN; j++) {
        double sum = first_sum(&v, 1, j), cut = sum > 0.125 ? 0.125 : sum < -0.125 ? -0.125 : sum;
        near(at(&c, 0, 0, j), tanh(cut));
    }
    op_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backwards_is_forwards_on_the_reversed_sequence),
        cmocka_unit_test(shorter_sequences_stop),
        cmocka_unit_test(first_steps_follow_the_equations),
        cmocka_unit_test(the_second_step_of_a_gru),
        cmocka_unit_test(activations_take_their_parameters),
        cmocka_unit_test(sums_are_clipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
