/* SPDX-License-Identifier: Apache-2.0
 * test_quotients.c - floats become bytes as a division says, although kernels multiply by an inverse: next to
 * every tie, for many scales, infinities, NaN and scales whose inverse would overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

enum { STEPS = 258, NEAR = 5, TIES = STEPS * NEAR, VALUES = TIES + 6, SCALES = 3000 };

/* Quotients of about k + 1/2, on both sides; and what has none. */
static void fill(float *x, float scale) {
    for (int k = 0; k < STEPS; k++) {
        float tie = ((float)(k - 1) + 0.5f) * scale;
        for (int i = 0; i < NEAR / 2; i++)
            tie = nextafterf(tie, -INFINITY);
        for (int i = 0; i < NEAR; i++, tie = nextafterf(tie, INFINITY))
            x[k * NEAR + i] = tie;
    }
    const float special[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, -0.0f};
    memcpy(x + TIES, special, sizeof special);
}

static int by_division(float x, float scale, float zero) {
    const float v = rintf(x / scale) + zero;
    return v > 255 ? 255 : v > 0 ? (int)v : 0;
}

static int wrong_bytes(enum mo_isa isa, float scale, float zero, const float *x, unsigned char *y,
                       uint32_t *scratch) {
    const struct mo_enter_params p = {
        .channels = 1, .area = VALUES, .unit = VALUES, .units = 1, .scale = scale, .zero = zero};
    const struct mo_kargs args = {.in = {x}, .out = {y}, .params = &p};
    mo_simd_of(isa)->enter_bytes(&args, 0, 1, scratch);
    int wrong = 0;
    for (int i = 0; i < VALUES; i++)
        wrong += y[i * 16] != by_division(x[i], scale, zero);
    return wrong;
}

static void quotients_are_exact(void **state) {
    (void)state;
    static float x[VALUES];
    static unsigned char y[VALUES * 16];
    static uint32_t scratch[VALUES];
    uint64_t seed = 1;
    int wrong = 0;
    for (int i = 0; i < SCALES; i++) {
        /* mantissas at random, and plain ones; exponents of models, and absurd ones */
        const float mantissa = i % 16 ? 1.0f + (float)(mo_splitmix(&seed) >> 41) * 0x1p-23f : 1.0f;
        const float scale = ldexpf(mantissa, i % 4 ? (int)(i % 24) - 16 : (int)(i % 240) - 125);
        fill(x, scale);
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
            wrong += wrong_bytes((enum mo_isa)isa, scale, (float)(i % 3 * 127), x, y, scratch);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(quotients_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
