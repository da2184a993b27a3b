/* SPDX-License-Identifier: Apache-2.0
 * formulas.c - pointwise operators that no pass fuses, as expressions over operands A, B and attributes P, Q:
 * one of floats, one of integers, or only one of them. */
#include <math.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

static const struct formula {
    const char *name, *floats, *integers;
    const char *p, *q; /* attributes */
    float p_default, q_default;
} formulas[] = {
    {"Sin", "sinf(A)", NULL, NULL, NULL, 0, 0},
    {"Cos", "cosf(A)", NULL, NULL, NULL, 0, 0},
    {"Tan", "tanf(A)", NULL, NULL, NULL, 0, 0},
    {"Sinh", "sinhf(A)", NULL, NULL, NULL, 0, 0},
    {"Cosh", "coshf(A)", NULL, NULL, NULL, 0, 0},
    {"Tanh", "tanhf(A)", NULL, NULL, NULL, 0, 0},
    {"Asin", "asinf(A)", NULL, NULL, NULL, 0, 0},
    {"Acos", "acosf(A)", NULL, NULL, NULL, 0, 0},
    {"Atan", "atanf(A)", NULL, NULL, NULL, 0, 0},
    {"Asinh", "asinhf(A)", NULL, NULL, NULL, 0, 0},
    {"Acosh", "acoshf(A)", NULL, NULL, NULL, 0, 0},
    {"Atanh", "atanhf(A)", NULL, NULL, NULL, 0, 0},
    {"Softplus", "A > 20 ? A : log1pf(expf(A))", NULL, NULL, NULL, 0, 0},
    {"Softsign", "A / (1 + fabsf(A))", NULL, NULL, NULL, 0, 0},
    {"Mish", "A * tanhf(A > 20 ? A : log1pf(expf(A)))", NULL, NULL, NULL, 0, 0},
    {"Relu", "A < 0 ? 0 : A", "A < 0 ? 0 : A", NULL, NULL, 0, 0},
    {"Sigmoid", "1 / (1 + expf(-A))", NULL, NULL, NULL, 0, 0},
    {"HardSwish", "mo_hswish(A, 0x1.555556p-3f, 0.5f)", NULL, NULL, NULL, 0, 0},
    {"HardSigmoid", "mo_hsigmoid(A, P, Q)", NULL, "alpha", "beta", 0.2f, 0.5f},
    {"LeakyRelu", "A < 0 ? P * A : A", NULL, "alpha", NULL, 0.01f, 0},
    {"Elu", "A < 0 ? P * expm1f(A) : A", NULL, "alpha", NULL, 1, 0},
    {"Selu", "Q * (A > 0 ? A : P * expm1f(A))", NULL, "alpha", "gamma", 1.67326319217681884765625f,
     1.05070102214813232421875f},
    {"Celu", "(A < 0 ? 0 : A) + fminf(0, P * expm1f(A / P))", NULL, "alpha", NULL, 1, 0},
    {"ThresholdedRelu", "A > P ? A : 0", NULL, "alpha", NULL, 1, 0},
    {"Shrink", "A < -P ? A + Q : A > P ? A - Q : 0", "A < -P ? A + Q : A > P ? A - Q : 0", "lambd", "bias",
     0.5f, 0},
    {"Swish", "A / (1 + expf(-P * A))", NULL, "alpha", NULL, 1, 0},
    {"IsInf", "(A == mo_inf && Q != 0) || (A == -mo_inf && P != 0)", NULL, "detect_negative",
     "detect_positive", 1, 1},
    {"Gelu", "P != 0 ? mo_gelu_tanh(A, 0, 0) : mo_gelu(A, 0, 0)", NULL, "approximate", NULL, 0, 0},
    {"PRelu", "A < 0 ? A * B : A", "A < 0 ? A * B : A", NULL, NULL, 0, 0},
    {"Mod", "fmodf(A, B)", "B == 0 ? 0 : P != 0 ? A % B : (A % B + B) % B", "fmod", NULL, 0, 0},
    {"BitwiseAnd", NULL, "A & B", NULL, NULL, 0, 0},
    {"BitwiseOr", NULL, "A | B", NULL, NULL, 0, 0},
    {"BitwiseXor", NULL, "A ^ B", NULL, NULL, 0, 0},
    {"BitwiseNot", NULL, "~A", NULL, NULL, 0, 0},
    {"BitShift", NULL, "P != 0 ? A >> B : A << B", "direction", NULL, 0, 0},
};

static const struct formula *find(const struct mo_node *node) {
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas && !*node->domain; i++)
        if (!strcmp(formulas[i].name, node->op_type)) return &formulas[i];
    return NULL;
}

bool mo_gpu_has_formula(const struct mo_node *node) {
    return find(node) != NULL;
}

/* A number, whether the operator has it as an integer, a float or one of two words. */
static float attribute(const struct mo_node *node, const char *name, float fallback) {
    const struct mo_attr *a = name ? mo_attr_find(node, name) : NULL;
    if (!a) return fallback;
    if (a->type == MO_ATTR_STRING) return !strcmp(a->s, "RIGHT") || !strcmp(a->s, "tanh");
    return a->type == MO_ATTR_INT ? (float)a->i : a->f;
}

const char *mo_gpu_formula(const struct mo_node *node, bool integers, float *p, float *q) {
    const struct formula *f = find(node);
    if (!f) return NULL;
    *p = attribute(node, f->p, f->p_default);
    *q = attribute(node, f->q, f->q_default);
    return integers ? f->integers : f->floats;
}
