/* SPDX-License-Identifier: Apache-2.0
 * test_activate.c - the vector activations of every instruction set against double precision: relative error
 * over the whole range, what happens to zeros, infinities and NaN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include "variants/tiles.h"

enum { N = 160 };

/* Largest of |got - want| / max(|want|, least) for x in [from, to]. */
static double worst(const struct mo_tiles *tiles, enum mo_act act, double (*want)(double), double least,
                    double from, double to) {
    _Alignas(64) float x[N], y[N];
    double most = 0, step = (to - from) / 40000;
    for (int k = 0; k < 40000; k += N) {
        for (int i = 0; i < N; i++)
            y[i] = x[i] = (float)(from + (k + i) * step);
        tiles->activate(act, 0, 0, y, NULL, N);
        for (int i = 0; i < N; i++) {
            double w = want((double)x[i]);
            most = fmax(most, fabs((double)y[i] - w) / fmax(fabs(w), least));
        }
    }
    return most;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double silu(double x) {
    return x / (1 + exp(-x));
}
static double gelu(double x) {
    return x / 2 * (1 + erf(x * 0.70710678118654752440));
}
static double gelu_tanh(double x) {
    return x / 2 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static void activations_are_accurate(void **state) {
    (void)state;
    const struct {
        enum mo_act act;
        double (*want)(double);
        double least, from, to, bound;
    } table[] = {
        {MO_ACT_SIGMOID, sigmoid, 0, -25, 25, 1e-6},     {MO_ACT_SILU, silu, 1e-30, -25, 25, 1e-6},
        {MO_ACT_SIGMOID, sigmoid, 0, -86, 86, 2e-6},     {MO_ACT_SILU, silu, 1e-30, -86, 86, 2e-6},
        {MO_ACT_TANH, tanh, 1, -20, 20, 1e-6},           {MO_ACT_GELU, gelu, 1, -20, 20, 1e-6},
        {MO_ACT_GELU_TANH, gelu_tanh, 1, -20, 20, 1e-6},
    };
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
            double error = worst(mo_tiles_of((enum mo_isa)isa), table[i].act, table[i].want, table[i].least,
                                 table[i].from, table[i].to);
            if (error > table[i].bound)
                fprintf(stderr, "%s: row %zu: relative error %g\n", mo_isa_name((enum mo_isa)isa), i, error);
            assert_true(error <= table[i].bound);
        }
}

static void special_values_stay_special(void **state) {
    (void)state;
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        const struct mo_tiles *tiles = mo_tiles_of((enum mo_isa)isa);
        _Alignas(64) float y[16] = {NAN, INFINITY, 0, -0.0f, 1e30f, -200};
        tiles->activate(MO_ACT_SILU, 0, 0, y, NULL, 16);
        assert_true(isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 0);
        assert_true(fabsf(y[4] / 1e30f - 1) < 1e-6f && fabsf(y[5]) < 1e-30f);
        _Alignas(64) float z[16] = {NAN, INFINITY, -INFINITY, 0, 1e30f, -1e30f};
        tiles->activate(MO_ACT_SIGMOID, 0, 0, z, NULL, 16);
        assert_true(isnan(z[0]) && fabsf(z[1] - 1) < 1e-6f && fabsf(z[2]) < 1e-30f &&
                    fabsf(z[3] - 0.5f) < 1e-6f);
        assert_true(fabsf(z[4] - 1) < 1e-6f && fabsf(z[5]) < 1e-30f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_accurate),
        cmocka_unit_test(special_values_stay_special),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
