/* SPDX-License-Identifier: Apache-2.0
 * test_winograd_emit.c - the generator's Winograd kernels against the reference and against double precision.
 * Skipped where there is no compiler. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/family/winograd.h"
#include "tests/unit/generator/emit_case.h"
#include "tests/unit/generator/wino_case.h"

/* Ragged extents, asymmetric pads, pads wider than a tile, batches, partial blocks of channels, every order
 * of epilogue; points whose last tiles, register tiles, output blocks and groups are shorter than the others.
 */
static const struct wino_case cases[] = {
    {{1, 32, 14, 14, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0},
     {{4, 1, 3, 16, 1, 0}, {4, 2, 2, 7, 1, 1024}, {4, 2, 14, 16, 1, 2048}}},
    {{2, 20, 7, 9, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_CLIP, 1},
     {{2, 1, 2, 9, 2, 1}, {2, 1, 6, 40, 1, 0}, {2, 2, 7, 11, 1, 1024}}},
    {{3, 16, 5, 3, 16, 3, 3, 1, 1, 1, 1, 0, 2, 1, 0, 1, MO_ACT_SILU, 2},
     {{4, 1, 1, 2, 1, 0}, {4, 1, 4, 12, 1, 0}, {4, 1, 5, 5, 1, 0}}},
    {{1, 40, 10, 23, 72, 3, 3, 1, 1, 1, 1, 2, 0, 0, 2, 1, MO_ACT_LEAKY, 1},
     {{4, 1, 3, 9, 3, 1024, 0, 5}, {4, 2, 2, 4, 2, 2048}, {4, 4, 6, 18, 1, 1024}}},
    {{1, 33, 13, 11, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 1},
     {{3, 1, 3, 7, 1, 0}, {5, 1, 5, 9, 2, 1024}, {5, 3, 9, 9, 1, 2048}}},
    {{2, 48, 8, 14, 32, 3, 3, 1, 1, 1, 1, 2, 1, 0, 1, 1, MO_ACT_LEAKY, 2},
     {{5, 1, 2, 4, 2, 0}, {6, 2, 2, 6, 1, 1024}, {6, 2, 14, 5, 1, 2048}}},
    {{1, 32, 7, 7, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0},
     {{6, 1, 2, 4, 2, 0}, {3, 2, 2, 9, 1, 0}, {3, 2, 9, 9, 2, 2048}}},
    {{1, 32, 19, 19, 48, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0},
     {{2, 1, 2, 9, 1, 0}, {4, 2, 2, 4, 1, 0}, {4, 3, 9, 9, 1, 2048}}},
    {{2, 20, 11, 28, 40, 3, 3, 2, 2, 1, 1, 0, 1, 2, 0, 1, MO_ACT_LEAKY, 1},
     {{3, 1, 2, 7, 2, 0}, {5, 1, 4, 6, 1, 0}, {5, 2, 5, 5, 1, 2048}}},
    {{1, 48, 14, 9, 64, 3, 3, 2, 2, 1, 1, 3, 3, 4, 5, 1, MO_ACT_NONE, 2},
     {{4, 1, 3, 6, 1, 0}, {2, 2, 2, 9, 1, 0}, {3, 2, 7, 12, 1, 2048}}},
    {{1, 16, 96, 96, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0}, /* larger than a cache */
     {{4, 1, 2, 31, 1, 0}, {6, 2, 2, 20, 1, 0}, {6, 3, 9, 52, 1, 2048}}},
    {{2, 32, 80, 81, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 1}, /* input, output and residual */
     {{4, 1, 2, 31, 2, 0}, {6, 2, 2, 20, 1, 0}, {6, 1, 13, 40, 2, 2048, 1}}},
    {{1, 16, 162, 162, 32, 3, 3, 2, 2, 1, 1, 0, 1, 2, 0, 1, MO_ACT_NONE, 0}, /* input only */
     {{3, 1, 2, 31, 1, 0}, {2, 2, 2, 20, 1, 0}, {4, 2, 14, 33, 1, 2048}}},
    {{2, 32, 9, 4, 32, 3, 3, 1, 1, 1, 1, 7, 6, 5, 7, 1, MO_ACT_NONE, 2},
     {{4, 1, 2, 5, 1, 0}, {2, 1, 5, 30, 2, 0}, {4, 2, 14, 28, 1, 0}}},
    {{1, 32, 13, 11, 48, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 1, MO_ACT_RELU, 1},
     {{2, 1, 3, 7, 1, 0}, {3, 1, 5, 9, 2, 1024}, {4, 3, 9, 9, 1, 2048}}},
    {{2, 20, 9, 7, 40, 5, 5, 1, 1, 1, 1, 4, 1, 0, 3, 1, MO_ACT_CLIP, 2},
     {{3, 1, 2, 4, 2, 0}, {4, 2, 2, 6, 1, 1024}, {2, 2, 14, 5, 1, 2048}}},
    {{1, 16, 4, 6, 16, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 1, MO_ACT_LEAKY, 0},
     {{4, 1, 2, 2, 1, 0}, {2, 1, 5, 6, 1, 0}, {3, 1, 9, 4, 1, 0}}},
    /* half-transformed filters */
    {{1, 32, 13, 11, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 1},
     {{3, 1, 3, 7, 1, 0}, {5, 1, 5, 9, 2, 1024}, {3, 1, 13, 20, 1, 0, 1}}},
    {{2, 48, 8, 14, 40, 3, 3, 1, 1, 1, 1, 2, 1, 0, 1, 1, MO_ACT_LEAKY, 2},
     {{5, 1, 2, 4, 2, 0}, {6, 2, 2, 6, 1, 1024}, {4, 1, 9, 24, 2, 0, 1}}},
    {{1, 64, 14, 14, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_CLIP, 0},
     {{4, 1, 3, 16, 1, 0}, {4, 2, 2, 7, 1, 1024}, {5, 1, 13, 9, 2, 0, 1, 4}}},
    {{1, 16, 9, 17, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
     {{6, 1, 2, 4, 2, 0}, {3, 2, 2, 9, 1, 0}, {6, 1, 4, 6, 1, 0, 1}}},
    /* tails of one to five outputs, each way, in one block of tiles and in blocks without whole tiles */
    {{2, 32, 20, 15, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 1},
     {{6, 1, 3, 5, 2, 0}, {6, 2, 2, 24, 1, 0}, {6, 1, 13, 24, 2, 2048, 1}}},
    {{3, 40, 13, 7, 40, 3, 3, 1, 1, 1, 1, 0, 1, 2, 1, 1, MO_ACT_SILU, 0},
     {{6, 1, 2, 18, 1, 0}, {6, 1, 6, 3, 2, 1024}, {6, 3, 9, 4, 1, 2048}}},
    {{1, 32, 17, 28, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 2},
     {{4, 1, 3, 7, 2, 0}, {6, 2, 2, 3, 2, 1}, {6, 1, 13, 15, 2, 2048, 1}}},
    {{2, 16, 11, 9, 32, 3, 3, 1, 1, 1, 1, 1, 2, 1, 1, 1, MO_ACT_CLIP, 0},
     {{5, 1, 3, 4, 1, 0}, {5, 1, 5, 12, 2, 0}, {5, 1, 13, 3, 1, 2048, 1}}},
    {{1, 16, 12, 38, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 1}, /* the right column only */
     {{6, 1, 3, 6, 1, 0}, {6, 2, 2, 14, 1, 0}, {6, 1, 13, 14, 2, 2048, 1}}},
    {{2, 16, 7, 8, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0}, /* the bottom row only */
     {{4, 1, 3, 3, 1, 0}, {2, 1, 5, 14, 2, 0}, {4, 1, 13, 4, 2, 2048, 1}}},
    {{2, 32, 8, 19, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0}, /* a tail without infinity */
     {{4, 1, 3, 3, 1, 0}, {2, 1, 5, 14, 2, 0}, {6, 1, 13, 5, 2, 2048, 1}}},
    {{2, 32, 9, 7, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 1},
     {{6, 1, 3, 3, 1, 0}, {3, 1, 5, 14, 2, 0}, {4, 1, 13, 12, 1, 2048, 1}}},
    {{2, 32, 13, 21, 40, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 1, MO_ACT_RELU, 0},
     {{4, 1, 3, 9, 1, 0}, {4, 1, 5, 48, 2, 0}, {2, 2, 14, 20, 1, 2048}}},
    {{2, 32, 13, 26, 40, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 1},
     {{5, 1, 3, 4, 1, 0}, {4, 1, 5, 16, 2, 0}, {4, 2, 14, 7, 1, 2048}}},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void gcc_kernels_match(void **state) {
    (void)state;
    wino_case_compare_all("gcc", cases, N_CASES, 1);
}

static void clang_kernels_match(void **state) {
    (void)state;
    wino_case_compare_all("clang", cases, N_CASES, 4);
}

/* Errors of both sizes on ReLU-like and on zero-mean input stay below two to three times those that
 * variants/winograd_matrices.h states, and below the 1e-4 of every kernel. */
static void errors_are_bounded(void **state) {
    (void)state;
    if (!wino_case_have("gcc")) skip();
    static const struct {
        int m, taps, stride;
        double largest, rms;
        int half;
    } most[] = {{2, 3, 1, 1e-5, 1e-6, 0}, {3, 3, 1, 2e-5, 2e-6, 0}, {4, 3, 1, 3e-5, 3e-6, 0},
                {5, 3, 1, 5e-5, 5e-6, 0}, {6, 3, 1, 1e-4, 1e-5, 0}, {2, 5, 1, 3e-5, 3e-6, 0},
                {3, 5, 1, 5e-5, 5e-6, 0}, {4, 5, 1, 1e-4, 1e-5, 0}, {2, 3, 2, 1e-5, 1e-6, 0},
                {3, 3, 2, 1e-5, 1e-6, 0}, {4, 3, 2, 2e-5, 2e-6, 0}, {5, 3, 2, 2e-5, 2e-6, 0},
                {3, 3, 1, 2e-5, 2e-6, 1}, {4, 3, 1, 3e-5, 3e-6, 1}, {5, 3, 1, 5e-5, 5e-6, 1},
                {6, 3, 1, 1e-4, 1e-5, 1}};
    for (size_t row = 0; row < sizeof most / sizeof *most; row++)
        for (int positive = 0; positive < 2; positive++) {
            const int m = most[row].m, taps = most[row].taps, pad = taps / 2, stride = most[row].stride;
            const struct conv_shape shape = {1, 128, 14,  15,  32,  taps, taps, stride,      stride,
                                             1, 1,   pad, pad, pad, pad,  1,    MO_ACT_NONE, 0};
            struct wino_kernel k;
            struct mo_point point = {.knob = {m, 1, 3, 12, 1, 0, most[row].half}};
            double largest, rms;
            if (most[row].half && mo_isa_detect() != MO_ISA_AVX512) continue;
            wino_case_open(&k, &shape, mo_isa_detect(), "gcc", &point, 5);
            for (int i = 0; positive && i < 128 * 14 * 15; i++)
                k.c.x[i] = fmaxf(k.c.x[i], 0);
            wino_case_run(&k, 1);
            wino_case_errors(&k, &largest, &rms);
            print_message(
                "F(%d,%d)%s, stride %d, %s input: error rms %.2g, largest %.2g of the output's rms\n", m,
                taps, most[row].half ? " half" : "", stride, positive ? "ReLU-like" : "zero-mean", rms,
                largest);
            assert_true(largest < most[row].largest && rms < most[row].rms);
            conv_case_close(&k.c);
        }
}

/* One NaN, one infinity, one huge value: outputs of tiles that do not read it keep their bytes. */
static void odd_values_stay(int m, int stride) {
    const struct conv_shape shape = {1, 16, 16 * stride, 16 * stride, 16, 3, 3, stride,      stride,
                                     1, 1,  1,           1,           1,  1, 1, MO_ACT_NONE, 0};
    const int row = stride * (m + 1), col = stride * (m + m / 2); /* read by tile (1, 1) and no other */
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f};
    struct wino_kernel k;
    struct mo_point point = {.knob = {m, 1, 3, 16, 1, 0}};
    wino_case_open(&k, &shape, mo_isa_detect(), "gcc", &point, 5);
    wino_case_run(&k, 1);
    size_t bytes = (size_t)k.c.y_floats * 4;
    float *clean = malloc(bytes);
    memcpy(clean, k.c.y, bytes);
    for (int i = 0; i < 4; i++) {
        float *at = &k.c.x[(row * 16 * stride + col) * 16 + 3], saved = *at;
        *at = odd[i];
        wino_case_run(&k, 1);
        *at = saved;
        for (int y = 0; y < 16; y++)
            for (int x = 0; x < 16; x++)
                for (int o = 0; o < 16; o++) {
                    float got = *wino_case_output(&k.c, o, y, x),
                          want = clean[wino_case_output(&k.c, o, y, x) - k.c.y];
                    bool touched = y / m == 1 && x / m == 1;
                    if (!touched) assert_memory_equal(&got, &want, 4);
                    bool reads = abs(y * stride - row) <= 1 && abs(x * stride - col) <= 1;
                    if (touched && reads && i < 3) assert_false(isfinite(got));
                }
    }
    free(clean);
    conv_case_close(&k.c);
}

static void odd_values_stay_in_their_tiles(void **state) {
    (void)state;
    if (!wino_case_have("gcc")) skip();
    for (int m = 3; m <= MO_WINO_M; m++)
        for (int stride = 1; stride <= MO_WINO_STRIDE; stride++)
            if (mo_winograd_packing(m, 3, stride, false) != MO_PACK_NONE) odd_values_stay(m, stride);
}

/* Points are legal, distinct and in order of predicted cost; other layers are not taken. */
static void points_are_ordered(void **state) {
    (void)state;
    struct mo_problem p = {.isa = MO_ISA_AVX512, .n = 1, .c = 64, .h = 28, .w = 28, .o = 96, .oh = 28};
    p.ow = 28, p.kh = p.kw = 3, p.sh = p.sw = p.dh = p.dw = p.groups = 1;
    p.pt = p.pl = p.pb = p.pr = 1;
    p.in_layout = p.out_layout = MO_C16;
    p.fuse.residual = -1;
    assert_true(mo_emit_family_winograd.takes(&p));
    for (int isa = 0; isa < MO_ISA_COUNT; isa++) {
        struct mo_point points[MO_MAX_POINTS];
        struct mo_wino w;
        p.isa = isa;
        int n = mo_emit_family_winograd.points(&p, points, MO_MAX_POINTS);
        assert_true(n >= 4);
        for (int i = 0; i < n; i++) {
            assert_true(mo_wino_describe(&p, &points[i], &w));
            assert_true(w.v_plane % 4096 && w.m_plane % 4096);
            assert_true(i == 0 || points[i].cost_ns >= points[i - 1].cost_ns);
            for (int j = 0; j < i; j++)
                assert_memory_not_equal(points[i].knob, points[j].knob, sizeof points[i].knob);
        }
        assert_int_equal(mo_emit_family_winograd.points(&p, points, 3), 3);
    }
    struct mo_point odd = {.knob = {4, 1, 9, 9, 1, 0, 1}};
    struct mo_wino w;
    p.isa = MO_ISA_AVX512;
    assert_true(mo_wino_describe(&p, &odd, &w) && w.packing == mo_winograd_packing(4, 3, 1, true));
    odd.knob[MO_WINO_KNOB_TILES] = 14; /* too many registers */
    assert_false(mo_wino_describe(&p, &odd, &w));
    odd.knob[MO_WINO_KNOB_TILES] = 9, odd.knob[MO_WINO_KNOB_M] = 2; /* there is none */
    assert_false(mo_wino_describe(&p, &odd, &w));
    p.kh = 5;
    assert_false(mo_emit_family_winograd.takes(&p));
    p.kw = 5;
    assert_true(mo_emit_family_winograd.takes(&p));
    p.sw = 2;
    assert_false(mo_emit_family_winograd.takes(&p));
    p.sh = 2;
    assert_false(mo_emit_family_winograd.takes(&p));
    p.kh = p.kw = 3;
    assert_true(mo_emit_family_winograd.takes(&p));
    p.sh = p.sw = 3;
    assert_false(mo_emit_family_winograd.takes(&p));
    p.sh = p.sw = 1, p.in_layout = MO_PLAIN;
    assert_false(mo_emit_family_winograd.takes(&p));
    p.in_layout = MO_C16, p.exact = true;
    assert_false(mo_emit_family_winograd.takes(&p));
}

/* Tiles of an image of h x w: products they take, and every plane's tiles in one piece, block by block. */
static void check_tiles(int h, int w, int m, bool half, int64_t planes) {
    struct mo_problem p = {.isa = MO_ISA_AVX512, .n = 3, .c = 32, .h = h, .w = w, .o = 32, .oh = h, .ow = w};
    p.kh = p.kw = 3, p.sh = p.sw = p.dh = p.dw = p.groups = 1;
    struct mo_point point = {.knob = {m, 1, 9, 7, 1, 0, half}};
    struct mo_wino t;
    assert_true(mo_wino_describe(&p, &point, &t));
    assert_int_equal(mo_wino_planes(&t), 3 * planes);
    int64_t sum = 0;
    for (int cls = 0; cls < t.kinds; cls++) {
        int64_t at, n = mo_wino_span(&t, cls, 0, t.tiles, &at), left = n;
        sum += n * mo_wino_class_rows(&t, cls) * mo_wino_class_cols(&t, cls);
        for (int64_t i = 0; i < t.tiles; i++) {
            int64_t tile, one = mo_wino_span(&t, cls, i, 1, &tile);
            assert_int_equal(one, n && i >= at && i < at + n);
            left -= one;
        }
        assert_int_equal(left, 0);
    }
    assert_int_equal(sum, 3 * planes);
}

static void tails_take_fewer_products(void **state) {
    (void)state;
    check_tiles(38, 38, 6, false, 52 * 52); /* tiles of 6 and one of 2: 8 products and 4 each way */
    check_tiles(38, 38, 6, true, 52 * 52);
    check_tiles(36, 42, 6, false, 48 * 56); /* none */
    check_tiles(19, 36, 6, false, 27 * 48); /* one of 1 */
    check_tiles(36, 19, 6, false, 48 * 27); /* to the right */
    check_tiles(36, 19, 6, true, 48 * 27);
    check_tiles(5, 5, 6, false, 64);       /* no tile is whole */
    check_tiles(14, 6, 5, false, 21 * 10); /* 4 outputs have no points of their own, 1 has */
    check_tiles(7, 8, 4, true, (6 + 5) * 12);
    check_tiles(8, 7, 4, true, 12 * (6 + 5)); /* without infinity, to the right */
}

/* As in test_strassen.c: one point more for each packing that is listed with fewer units than cores. */
static void many_cores_get_points(void **state) {
    (void)state;
    struct mo_problem p = {.isa = MO_ISA_AVX512, .n = 1, .c = 64, .h = 56, .w = 56, .o = 64, .oh = 56};
    p.ow = 56, p.kh = p.kw = 3, p.sh = p.sw = p.dh = p.dw = p.groups = 1;
    p.pt = p.pl = p.pb = p.pr = 1;
    p.in_layout = p.out_layout = MO_C16;
    p.fuse.residual = -1;
    struct mo_point few[MO_MAX_POINTS], many[MO_MAX_POINTS];
    struct mo_wino w;
    p.cores = 2;
    int n = mo_emit_family_winograd.points(&p, few, MO_MAX_POINTS);
    p.cores = 64;
    int all = mo_emit_family_winograd.points(&p, many, MO_MAX_POINTS);
    assert_true(all > n);
    for (int i = 0; i < n; i++)
        assert_memory_equal(few[i].knob, many[i].knob, sizeof few[i].knob);
    for (int i = n; i < all; i++) {
        assert_true(many[i].wide && many[i].units >= 64);
        assert_true(mo_wino_describe(&p, &many[i], &w) && w.tile_blocks * w.oc_groups == many[i].units);
        assert_int_equal(w.packing, many[i].packing);
        for (int k = 0; k < n; k++)
            assert_true(many[k].packing != many[i].packing || many[k].part_ns > many[i].part_ns);
        for (int k = n; k < i; k++)
            assert_int_not_equal(many[k].packing, many[i].packing);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcc_kernels_match),         cmocka_unit_test(clang_kernels_match),
        cmocka_unit_test(errors_are_bounded),        cmocka_unit_test(odd_values_stay_in_their_tiles),
        cmocka_unit_test(tails_take_fewer_products), cmocka_unit_test(points_are_ordered),
        cmocka_unit_test(many_cores_get_points),
    };
    return cmocka_run_group_tests(tests, emit_case_open, emit_case_close);
}
