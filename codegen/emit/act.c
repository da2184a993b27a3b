/* SPDX-License-Identifier: Apache-2.0
 * act.c - activations on vectors, as text.
 *
 * exp: range reduction by 2^n with a two-part ln 2 and a degree-7 polynomial in pairs (short chains: what
 * limits a loop of these is the latency of few iterations), about 1 ulp; n is added to the exponent bits.
 * erf: Abramowitz and Stegun 7.1.26, absolute error below 2e-7.  NaN goes in, NaN comes out.
 */
#include "codegen/emit/emit.h"

bool mo_emit_act_needs_exp(enum mo_act act) {
    return act == MO_ACT_SIGMOID || act == MO_ACT_SILU || act == MO_ACT_TANH || act == MO_ACT_GELU;
}

void mo_emit_exp(FILE *out) {
    fputs("INLINE v vexp(v x) {\n"
          "    x = vmax(splat(-87.0f), vmin(splat(88.0f), x));\n"
          "    v t = mac(splat(12582912.0f), x, splat(1.44269504f)); /* n in the low bits */\n"
          "    v n = t - splat(12582912.0f);\n"
          "    v f = mac(mac(x, n, splat(-0.693359375f)), n, splat(2.12194440e-4f));\n"
          "    v f2 = f * f;\n"
          "    v c01 = mac(splat(5.0000001201e-1f), f, splat(1.6666665459e-1f));\n"
          "    v c23 = mac(splat(4.1665795894e-2f), f, splat(8.3334519073e-3f));\n"
          "    v c45 = mac(splat(1.3981999507e-3f), f, splat(1.9875691500e-4f));\n"
          "    v p = mac(f + splat(1.0f), f2, mac(mac(c01, f2, c23), f2 * f2, c45));\n"
          "    return (v)((vi)p + ((vi)t << 23));\n"
          "}\n"
          "INLINE v vsigmoid(v x) { return vrecip(splat(1.0f) + vexp(-x)); }\n"
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
    [MO_ACT_GELU] = "splat(0.5f) * x * (splat(1.0f) + verf(x * splat(0.70710678f)))",
};

void mo_emit_activation(FILE *out, enum mo_act act, const char *name) {
    fprintf(out, "INLINE v %s(v x, float a, float b) { (void)a; (void)b; return %s; }\n", name, bodies[act]);
}
