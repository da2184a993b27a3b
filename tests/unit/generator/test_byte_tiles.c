/* SPDX-License-Identifier: Apache-2.0
 * test_byte_tiles.c - sums of bytes become outputs by one rounding: sum x factor + shift is a fused
 * multiply-add in tiles and in requantize(), as it is in the reference.  Else two kernels of one layer round
 * what lies near a tie to different steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "variants/simd/simd.h"
#include "variants/tiles.h"

enum { PIXELS = 4, CHANNELS = 16, ROUNDS = 100 };

/* Sums x 0.1f lie just beside a tie, which a product rounded by itself would hit. */
static const float factor_of_all = 0.1f, shift_of_all = -1000;

static float factor[CHANNELS], shift[CHANNELS];
static int32_t sums[PIXELS * CHANNELS];
static struct mo_tile_pack pack;

static void prepare(int round) {
    for (int i = 0; i < CHANNELS; i++)
        factor[i] = factor_of_all, shift[i] = shift_of_all;
    for (int i = 0; i < PIXELS * CHANNELS; i++)
        sums[i] = 10005 + 10 * (round + i % CHANNELS);
    memset(pack.hi, 255, sizeof pack.hi);
}

static int wanted(int channel) {
    return (int)rintf(fmaf((float)sums[channel], factor_of_all, shift_of_all));
}

static void expect(const uint8_t *y) {
    for (int i = 0; i < PIXELS * CHANNELS; i++)
        assert_int_equal(y[i], wanted(i % CHANNELS));
}

/* All pixels of a tile without products are what its sums start from. */
static void run_tile(mo_tile_fn *run) {
    static const uint8_t x[1024];
    static const struct mo_tap tap;
    uint8_t y[PIXELS * CHANNELS] = {0};
    const struct mo_tile tile = {.x = (const char *)x,
                                 .w = (const char *)x,
                                 .taps = &tap,
                                 .bias = (const float *)(const void *)sums,
                                 .y = (char *)y,
                                 .repeat = 1,
                                 .px = 16,
                                 .pack = &pack,
                                 .factor = factor,
                                 .shift = shift};
    if (!run) return;
    run(&tile);
    expect(y);
}

static void tiles_round_once(void **state) {
    (void)state;
    int levels = 0;
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        const struct mo_tiles *tiles = mo_dot_tiles_of((enum mo_isa)isa, false);
        for (int round = 0; tiles && round < ROUNDS; round++) {
            prepare(round);
            run_tile(tiles->conv[1][PIXELS][MO_TILE_S1]);
            run_tile(tiles->depthwise[PIXELS][MO_TILE_S1]);
        }
        levels += tiles != NULL;
    }
    if (!levels) skip();
}

static void requantize_rounds_once(void **state) {
    (void)state;
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        if (isa == MO_ISA_BASE) continue; /* has no such instruction */
        for (int round = 0; round < ROUNDS; round++)
            for (int packs = 0; packs < 2; packs++) {
                uint8_t y[PIXELS * CHANNELS];
                const struct mo_requant q = {
                    .ints = true, .to = MOIRE_U8, .steps = 1, .lo = 0, .hi = 255, .packs = packs};
                prepare(round);
                mo_simd_of((enum mo_isa)isa)
                    ->requantize(&q, sums, factor, shift, PIXELS, (char *)y, CHANNELS);
                expect(y);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_round_once),
        cmocka_unit_test(requantize_rounds_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
