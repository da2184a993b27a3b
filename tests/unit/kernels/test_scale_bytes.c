/* SPDX-License-Identifier: Apache-2.0
 * test_scale_bytes.c - bytes times a float of their channel, at every level of instructions: equal to the
 * definition to the byte, also where products are no numbers, or none that a byte or an int32 holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

enum { MOST_AREA = 39, BLOCKS = 3, LANES = 16 };

static uint8_t defined(const struct mo_scale_params *p, uint8_t x, float by) {
    const float whole = (float)((p->is_signed ? (int8_t)x : x) - p->from);
    const float v = whole * (by * p->scale);
    if (!(v > p->lo)) return (uint8_t)(int)(p->lo + (float)p->zero);
    return (uint8_t)((int)rintf(v < p->hi ? v : p->hi) + p->zero);
}

static int wrong_at(enum mo_isa isa, const struct mo_scale_params *p, const uint8_t *x, const float *by) {
    const int n = BLOCKS * (int)p->area * LANES;
    uint8_t y[BLOCKS * MOST_AREA * LANES + 1];
    memset(y, 0xa5, sizeof y);
    struct mo_kargs args = {.out = {y}, .params = p};
    args.in[p->x] = x;
    args.in[1 - p->x] = by;
    mo_simd_of(isa)->scale_bytes(&args, 0, 1, NULL);
    mo_simd_of(isa)->scale_bytes(&args, 1, BLOCKS, NULL);
    int wrong = y[n] != 0xa5;
    for (int i = 0; i < n; i++) {
        const int block = i / (int)(p->area * LANES);
        wrong += y[i] != defined(p, x[i], by[block * LANES + i % LANES]);
    }
    if (wrong) print_error("%s, area %d: %d wrong\n", mo_isa_name(isa), (int)p->area, wrong);
    return wrong;
}

static int wrong_of(const struct mo_scale_params *p, const uint8_t *x, const float *by) {
    int wrong = 0;
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
        if (mo_isa_covers(mo_isa_detect(), (enum mo_isa)isa)) wrong += wrong_at((enum mo_isa)isa, p, x, by);
    return wrong;
}

static void bytes_are_scaled(void **state) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 3e7f, -3e7f, 0.0f, -0.0f, 1e-30f};
    static const int areas[] = {1, 2, 3, 4, 7, 30, MOST_AREA}, zeros[] = {0, 3, 128, 255};
    enum { ODD = sizeof odd / sizeof *odd };
    uint8_t x[BLOCKS * MOST_AREA * LANES];
    float by[BLOCKS * LANES];
    uint64_t seed = 1;
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (uint8_t)(mo_splitmix(&seed) >> 40);
    for (int k = 0; k < 7 * 4 * 4; k++) {
        const bool is_signed = k & 1;
        const struct mo_scale_params p = {.x = k >> 1 & 1,
                                          .from = is_signed ? -5 : zeros[k % 4],
                                          .scale = 0.02f,
                                          .zero = zeros[k / 4 % 4],
                                          .lo = (float)-zeros[k / 4 % 4],
                                          .hi = 255.0f - (float)zeros[k / 4 % 4],
                                          .is_signed = is_signed,
                                          .area = areas[k / 16]};
        for (int i = 0; i < BLOCKS * LANES; i++) /* the first block is ordinary */
            by[i] = i >= LANES && i % 3 == 0 ? odd[(i / 3 + k) % ODD]
                                             : (float)(mo_splitmix(&seed) >> 40) * 0x1p-18f - 20;
        wrong += wrong_of(&p, x, by);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_scaled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
