/* SPDX-License-Identifier: Apache-2.0
 * recurrent_acts.c - the activations that RNN, GRU and LSTM may name, in double. */
#include <math.h>
#include <string.h>
#include "runtime/ops/recurrent.h"

static double affine(double x, double a, double b) {
    return a * x + b;
}
static double relu(double x, double a, double b) {
    (void)a, (void)b;
    return x > 0 ? x : 0;
}
static double hyperbolic(double x, double a, double b) {
    (void)a, (void)b;
    return tanh(x);
}
static double sigmoid(double x, double a, double b) {
    (void)a, (void)b;
    return 1 / (1 + exp(-x));
}
static double leaky_relu(double x, double a, double b) {
    (void)b;
    return x < 0 ? a * x : x;
}
static double thresholded_relu(double x, double a, double b) {
    (void)b;
    return x > a ? x : 0;
}
static double scaled_tanh(double x, double a, double b) {
    return a * tanh(b * x);
}
static double hard_sigmoid(double x, double a, double b) {
    double y = a * x + b;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}
static double elu(double x, double a, double b) {
    (void)b;
    return x < 0 ? a * expm1(x) : x;
}
static double softsign(double x, double a, double b) {
    (void)a, (void)b;
    return x / (1 + fabs(x));
}
static double softplus(double x, double a, double b) {
    (void)a, (void)b;
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* a and b are the coefficients that hold when the attributes give none. */
static const struct mo_recurrent_act acts[] = {
    {"Affine", affine, 2, 1, 0, MO_ACT_NONE},
    {"Relu", relu, 0, 0, 0, MO_ACT_RELU},
    {"Tanh", hyperbolic, 0, 0, 0, MO_ACT_TANH},
    {"Sigmoid", sigmoid, 0, 0, 0, MO_ACT_SIGMOID},
    {"LeakyRelu", leaky_relu, 1, 0.01, 0, MO_ACT_LEAKY},
    {"ThresholdedRelu", thresholded_relu, 1, 1, 0, MO_ACT_NONE},
    {"ScaledTanh", scaled_tanh, 2, 1, 1, MO_ACT_NONE},
    {"HardSigmoid", hard_sigmoid, 2, 0.2, 0.5, MO_ACT_HSIGMOID},
    {"Elu", elu, 1, 1, 0, MO_ACT_NONE},
    {"Softsign", softsign, 0, 0, 0, MO_ACT_NONE},
    {"Softplus", softplus, 0, 0, 0, MO_ACT_NONE},
};

const struct mo_recurrent_act *mo_recurrent_act_of(const char *name) {
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(acts[i].name, name)) return &acts[i];
    return NULL;
}

bool mo_recurrent_is_fused(const struct mo_node *node) {
    const struct mo_attr *names = mo_attr_find(node, "activations");
    bool all = !names || names->type == MO_ATTR_STRINGS;
    for (int i = 0; names && all && i < names->n; i++) {
        const struct mo_recurrent_act *act = mo_recurrent_act_of(names->strings[i]);
        all = act && act->fused != MO_ACT_NONE;
    }
    return all;
}
