/* SPDX-License-Identifier: Apache-2.0
 * act.c - activations on vectors, as text.
 *
 * exp: 2^(n + j/L + f) with L entries 2^(j/L), one for each lane, looked up by a permutation, and a
 * polynomial in the small f that is left; n is added to the exponent bits.  Without a permutation (base,
 * NEON) a degree-7 polynomial in pairs does it all.  Relative error below 5e-7 + 1.3e-8 |x| (else 1 ulp).
 * What limits these loops is the number of instructions on the multipliers' ports. erf: Abramowitz and
 * Stegun 7.1.26, absolute error below 2e-7.  NaN goes in, NaN comes out.
 */
#include "codegen/emit/emit.h"

#include <math.h>
#include <string.h>

bool mo_emit_act_needs_exp(enum mo_act act) {
    return act == MO_ACT_SIGMOID || act == MO_ACT_SILU || act == MO_ACT_TANH || act == MO_ACT_GELU ||
           act == MO_ACT_GELU_TANH;
}

/* vexp_parts(): exp(sign x) = the result times *p, so that 1 + exp(x) is one FMA; sign is 1 or -1. */
static void emit_exp_polynomial(FILE *out) {
    fputs("INLINE v vexp_parts(v x, const float sign, v *p) {\n"
          "    x = vmax(splat(-87.0f), vmin(splat(88.0f), sign * x));\n"
          "    v t = mac(splat(12582912.0f), x, splat(1.44269504f)); /* n in the low bits */\n"
          "    v n = t - splat(12582912.0f);\n"
          "    v f = mac(mac(x, n, splat(-0.693359375f)), n, splat(2.12194440e-4f));\n"
          "    v f2 = f * f;\n"
          "    v c01 = mac(splat(5.0000001201e-1f), f, splat(1.6666665459e-1f));\n"
          "    v c23 = mac(splat(4.1665795894e-2f), f, splat(8.3334519073e-3f));\n"
          "    v c45 = mac(splat(1.3981999507e-3f), f, splat(1.9875691500e-4f));\n"
          "    *p = mac(f + splat(1.0f), f2, mac(mac(c01, f2, c23), f2 * f2, c45));\n"
          "    return (v)(((vi)t << 23) + (vi)splat(1.0f));\n"
          "}\n",
          out);
}

static void emit_exp_table(FILE *out, const struct mo_emit_isa *isa) {
    /* minimax on |f| <= 1/32, 1/16 */
    static const char *const polynomials[] = {
        "mac(splat(6.931878328e-1f), f, splat(2.402335554e-1f))",
        "mac(splat(6.931471825e-1f), f, mac(splat(2.402640730e-1f), f, splat(5.550931767e-2f)))"};
    int log2 = isa->lanes == 16 ? 4 : 3;
    double magic = 12582912.0 / isa->lanes;
    fputs("/* bits of 2^(j/L), less those that the shifted j adds */\nstatic const vi exp_table = {", out);
    for (int j = 0; j < isa->lanes; j++) {
        float power = exp2f((float)j / (float)isa->lanes);
        int32_t bits;
        memcpy(&bits, &power, sizeof bits);
        fprintf(out, "%d, ", (int)(bits - (j << (23 - log2))));
    }
    fprintf(out,
            "};\n"
            "INLINE v vexp_parts(v x, const float sign, v *p) {\n"
            "    x = vmax(splat(sign < 0 ? -88.0f : -87.0f), vmin(splat(sign < 0 ? 87.0f : 88.0f), x));\n"
            "    v t = mac(splat(%.1ff), x, splat(sign * 1.44269504f)); /* n and j in the low bits */\n"
            "    v s, f = mac(splat(%.1ff) - t, x, splat(sign * 1.44269504f));\n"
            "    __asm__(\"vpermps %%1, %%2, %%0\" : \"=%s\"(s) : \"%s\"(exp_table), \"%s\"(t));\n"
            "    *p = mac(splat(1.0f), f, %s);\n"
            "    return (v)((vi)s + ((vi)t << %d));\n"
            "}\n",
            magic, magic, isa->constraint, isa->constraint, isa->constraint, polynomials[isa->lanes == 8],
            23 - log2);
}

void mo_emit_exp(FILE *out, const struct mo_emit_isa *isa) {
    if (isa->permutes)
        emit_exp_table(out, isa);
    else
        emit_exp_polynomial(out);
    fputs("INLINE v vexp(v x) { v p, s = vexp_parts(x, 1, &p); return s * p; }\n"
          "INLINE v vsigmoid(v x) {\n"
          "    v p, s = vexp_parts(x, -1, &p);\n"
          "    return vrecip(mac(splat(1.0f), s, p));\n}\n"
          "INLINE v vtanh(v x) { return splat(1.0f) - splat(2.0f) * vrecip(vexp(x + x) + splat(1.0f)); }\n"
          "INLINE v verf(v x) {\n"
          "    v neg = (v)((vi)x & (vi)splat(-0.0f)), y = (v)((vi)x ^ (vi)neg);\n"
          "    v t = vrecip(mac(splat(1.0f), splat(0.3275911f), y));\n"
          "    v p = mac(splat(-1.453152027f), t, splat(1.061405429f));\n"
          "    p = mac(splat(1.421413741f), t, p);\n"
          "    p = mac(splat(-0.284496736f), t, p);\n"
          "    p = mac(splat(0.254829592f), t, p);\n"
          "    return (v)((vi)(splat(1.0f) - t * p * vexp(-(y * y))) ^ (vi)neg);\n"
          "}\n\n",
          out);
}

/* The body of an activation. */
static const char *const bodies[MO_ACT_COUNT] = {
    [MO_ACT_NONE] = "x",
    [MO_ACT_RELU] = "vrelu(x)",
    [MO_ACT_CLIP] = "vmin(splat(b), vmax(splat(a), x))",
    [MO_ACT_LEAKY] = "vselect(x < splat(0.0f), splat(a) * x, x)",
    [MO_ACT_SIGMOID] = "vsigmoid(x)",
    [MO_ACT_SILU] = "x * vsigmoid(x)",
    [MO_ACT_HSIGMOID] = "vmin(splat(1.0f), vmax(splat(0.0f), splat(a) * x + splat(b)))",
    [MO_ACT_HSWISH] = "x * vmin(splat(1.0f), vmax(splat(0.0f), splat(a) * x + splat(b)))",
    [MO_ACT_TANH] = "vtanh(x)",
    /* (1 + tanh u) / 2 is the sigmoid of 2 u */
    [MO_ACT_GELU_TANH] = "x * vsigmoid(splat(1.5957691f) * x * mac(splat(1.0f), splat(0.044715f), x * x))",
    [MO_ACT_GELU] = "splat(0.5f) * x * (splat(1.0f) + verf(x * splat(0.70710678f)))",
};

void mo_emit_activation(FILE *out, enum mo_act act, const char *name) {
    fprintf(out, "INLINE v %s(v x, float a, float b) { (void)a; (void)b; return %s; }\n", name, bodies[act]);
}
