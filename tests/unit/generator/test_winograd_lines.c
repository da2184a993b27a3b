/* SPDX-License-Identifier: Apache-2.0
 * test_winograd_lines.c - the generator's Winograd kernels of filters of one row or one column, and of
 * dilated filters, against the reference and against double precision.  Skipped where there is no compiler.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/generator/emit_case.h"
#include "tests/unit/generator/wino_case.h"

static const struct wino_case cases[] = {
    /* one row and one column: tails, tiles that hang over, pads wider than a tile, one line of outputs */
    {{1, 64, 1, 61, 64, 1, 3, 1, 1, 1, 1, 0, 1, 0, 1, 1, MO_ACT_RELU, 0},
     {{6, 1, 3, 5, 2, 0}, {8, 2, 2, 4, 1, 0}, {8, 2, 14, 8, 1, 2048}}},
    {{2, 20, 7, 17, 40, 1, 3, 1, 1, 1, 1, 1, 0, 2, 2, 1, MO_ACT_CLIP, 1},
     {{2, 1, 2, 9, 2, 1}, {4, 1, 5, 40, 1, 0}, {6, 2, 7, 11, 2, 1024}}},
    {{3, 33, 17, 5, 48, 3, 1, 1, 1, 1, 1, 2, 0, 0, 0, 1, MO_ACT_SILU, 2},
     {{4, 1, 3, 7, 1, 0}, {6, 1, 5, 60, 1, 0}, {8, 3, 9, 30, 1, 0}}},
    {{2, 48, 9, 14, 32, 3, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, MO_ACT_LEAKY, 1},
     {{8, 1, 3, 7, 2, 0}, {4, 2, 2, 13, 1, 1024}, {2, 2, 14, 50, 1, 2048}}},
    {{1, 32, 17, 17, 48, 1, 7, 1, 1, 1, 1, 0, 3, 0, 3, 1, MO_ACT_RELU, 0},
     {{4, 1, 3, 16, 1, 0}, {6, 2, 2, 7, 1, 0}, {6, 3, 9, 51, 1, 2048}}},
    {{2, 40, 17, 9, 40, 7, 1, 1, 1, 1, 1, 3, 0, 3, 0, 1, MO_ACT_RELU, 2},
     {{6, 1, 2, 5, 2, 0}, {2, 1, 5, 33, 2, 1}, {4, 1, 13, 40, 2, 2048}}},
    {{1, 16, 5, 11, 32, 1, 7, 1, 1, 1, 1, 2, 6, 1, 8, 1, MO_ACT_NONE, 1},
     {{6, 1, 2, 3, 1, 0}, {4, 2, 2, 20, 1, 0}, {2, 2, 14, 28, 1, 2048}}},
    {{2, 32, 6, 13, 48, 1, 5, 1, 1, 1, 1, 0, 2, 0, 2, 1, MO_ACT_CLIP, 0},
     {{6, 1, 3, 7, 1, 0}, {4, 1, 5, 21, 1, 0}, {4, 3, 9, 20, 1, 2048}}},
    {{1, 48, 11, 6, 32, 5, 1, 1, 1, 1, 1, 4, 0, 0, 0, 1, MO_ACT_RELU, 1},
     {{2, 1, 3, 9, 2, 0}, {6, 2, 2, 6, 1, 0}, {6, 1, 13, 9, 2, 0}}},
    {{1, 64, 60, 300, 32, 1, 3, 1, 1, 1, 1, 0, 1, 0, 1, 1, MO_ACT_RELU, 1}, /* larger than a cache */
     {{4, 1, 3, 90, 1, 0}, {6, 2, 2, 61, 1, 0}, {8, 2, 14, 70, 1, 2048, 0, 33}}},
    {{2, 32, 61, 300, 48, 3, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, MO_ACT_RELU, 2},
     {{2, 1, 3, 90, 2, 0}, {4, 1, 5, 61, 3, 0}, {6, 3, 9, 200, 1, 2048}}},
    /* dilated: phases of unequal length, without a last tile, empty */
    {{1, 64, 1, 131, 64, 1, 3, 1, 1, 1, 4, 0, 4, 0, 4, 1, MO_ACT_RELU, 1},
     {{6, 1, 3, 5, 2, 0}, {4, 2, 2, 9, 1, 0}, {8, 2, 14, 17, 1, 2048}}},
    {{2, 32, 3, 51, 32, 1, 3, 1, 1, 5, 8, 0, 8, 0, 8, 1, MO_ACT_RELU, 0},
     {{6, 1, 3, 5, 2, 0}, {4, 2, 2, 9, 1, 0}, {2, 2, 14, 50, 1, 0}}},
    {{1, 32, 37, 4, 48, 3, 1, 1, 1, 6, 3, 6, 0, 6, 0, 1, MO_ACT_CLIP, 2},
     {{6, 1, 3, 9, 1, 0}, {4, 1, 5, 40, 1, 0}, {6, 1, 13, 24, 2, 0}}},
    {{1, 32, 5, 40, 32, 1, 7, 1, 1, 1, 13, 0, 39, 0, 39, 1, MO_ACT_NONE, 0},
     {{4, 1, 3, 9, 1, 0}, {2, 1, 5, 40, 1, 0}, {6, 1, 13, 24, 2, 0}}},
    {{2, 32, 16, 19, 48, 3, 3, 1, 1, 2, 2, 2, 2, 2, 2, 1, MO_ACT_RELU, 1},
     {{4, 1, 3, 9, 1, 0}, {6, 1, 5, 40, 1, 0}, {4, 2, 14, 16, 1, 2048}}},
    {{1, 40, 15, 10, 32, 3, 3, 1, 1, 4, 3, 4, 1, 3, 5, 1, MO_ACT_LEAKY, 2},
     {{2, 1, 3, 19, 1, 0}, {3, 1, 5, 40, 1, 0}, {6, 2, 14, 16, 1, 2048}}},
    {{1, 32, 21, 22, 64, 3, 3, 1, 1, 2, 3, 2, 3, 2, 3, 1, MO_ACT_RELU, 0}, /* half-transformed */
     {{5, 1, 2, 4, 2, 0}, {6, 2, 2, 6, 1, 1024}, {6, 1, 13, 24, 2, 0, 1}}},
    {{1, 32, 16, 17, 32, 5, 5, 1, 1, 3, 2, 6, 4, 6, 4, 1, MO_ACT_RELU, 1},
     {{2, 1, 2, 4, 2, 0}, {3, 2, 2, 6, 1, 1024}, {4, 1, 13, 24, 2, 0}}},
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

/* Data on which sums cancel or transforms lose most: a large mean under filters whose taps sum to 0, pixels
 * of alternating sign under taps that alternate too, channels of sizes from 1e-3 to 1e3. */
enum data { ZERO_MEAN, RELU_LIKE, LARGE_MEAN, ALTERNATING, UNEVEN, DATA };
static const char *const data_names[DATA] = {"zero-mean", "ReLU-like", "large mean", "alternating", "uneven"};

static void fill(struct wino_kernel *k, enum data data, int taps, int pixels) {
    float *w = k->c.graph->tensors[k->c.node->in[1]]->data, *x = k->c.x;
    const int channels = k->c.shape.c;
    for (int i = 0; i < channels * pixels; i++) {
        const int pixel = i / 16 % pixels, channel = i / 16 / pixels * 16 + i % 16;
        if (data == RELU_LIKE) x[i] = fmaxf(x[i], 0);
        if (data == LARGE_MEAN) x[i] += 100;
        if (data == ALTERNATING) x[i] = pixel % 2 ? -1 - x[i] / 100 : 1 + x[i] / 100;
        if (data == UNEVEN) x[i] *= powf(10, (float)(channel % 7 - 3));
    }
    for (int i = 0; i < k->c.shape.o * channels; i++, w += taps) {
        float mean = 0;
        for (int t = 0; t < taps; t++)
            mean += w[t] / (float)taps;
        for (int t = 0; t < taps; t++) {
            if (data == LARGE_MEAN) w[t] -= mean;
            if (data == ALTERNATING) w[t] = (t % 2 ? -1 : 1) * (w[t] - mean);
        }
    }
    wino_case_pack(k);
}

/* Of all data errors stay below two to three times those that variants/winograd_matrices.h states, and below
 * the 1e-4 of every kernel. */
static void errors_are_bounded(void **state) {
    (void)state;
    if (!wino_case_have("gcc")) skip();
    static const struct {
        int m, taps;
        double largest, rms;
    } most[] = {{2, 3, 1e-5, 1e-6},   {4, 3, 1e-5, 1.5e-6}, {6, 3, 2e-5, 3e-6}, {8, 3, 6e-5, 6e-6},
                {2, 5, 1e-5, 1.5e-6}, {4, 5, 2e-5, 3e-6},   {6, 5, 6e-5, 6e-6}, {2, 7, 2e-5, 3e-6},
                {4, 7, 6e-5, 6e-6},   {6, 7, 1e-4, 1.2e-5}};
    for (size_t row = 0; row < sizeof most / sizeof *most; row++)
        for (enum data data = 0; data < DATA; data++) {
            const int m = most[row].m, taps = most[row].taps, down = data % 2, kh = down ? taps : 1,
                      kw = down ? 1 : taps;
            const struct conv_shape shape = {
                1, 128, down ? 48 : 5, down ? 5 : 48, 32,     kh,     kw, 1,           1,
                1, 1,   kh / 2,        kw / 2,        kh / 2, kw / 2, 1,  MO_ACT_NONE, 0};
            struct wino_kernel k;
            struct mo_point point = {.knob = {m, 1, 3, 12, 1, 0}};
            double largest, rms;
            wino_case_open(&k, &shape, mo_isa_detect(), "gcc", &point, 5);
            fill(&k, data, taps, 5 * 48);
            wino_case_run(&k, 1);
            wino_case_errors(&k, &largest, &rms);
            print_message("F(%d,%d), %s input: error rms %.2g, largest %.2g of the output's rms\n", m, taps,
                          data_names[data], rms, largest);
            assert_true(largest < most[row].largest && rms < most[row].rms);
            conv_case_close(&k.c);
        }
}

/* A NaN reaches the outputs of the tiles that read it, and no other line, phase or tile. */
static void odd_values_stay_in_their_lines(void **state) {
    (void)state;
    if (!wino_case_have("gcc")) skip();
    const int m = 4, dilation = 3, row = 2, col = 20;
    const struct conv_shape shape = {1, 16, 4, 48, 16, 1, 3, 1, 1, 1, 3, 0, 3, 0, 3, 1, MO_ACT_NONE, 0};
    struct wino_kernel k;
    struct mo_point point = {.knob = {m, 1, 3, 16, 1, 0}};
    wino_case_open(&k, &shape, mo_isa_detect(), "gcc", &point, 5);
    wino_case_run(&k, 1);
    size_t bytes = (size_t)k.c.y_floats * 4;
    float *clean = malloc(bytes);
    assert_non_null(clean);
    memcpy(clean, k.c.y, bytes);
    k.c.x[(row * 48 + col) * 16 + 3] = NAN;
    wino_case_run(&k, 1);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 48; x++)
            for (int o = 0; o < 16; o++) {
                const float *got = wino_case_output(&k.c, o, y, x);
                const int last = col / dilation - x / dilation; /* within the phase */
                bool phase = y == row && x % dilation == col % dilation;
                bool tile = x / dilation / m == col / dilation / m; /* 6: no other tile reads it */
                if (!phase || !tile) assert_memory_equal(got, clean + (got - k.c.y), 4);
                if (phase && abs(last) <= 1) assert_true(isnan(*got));
            }
    free(clean);
    conv_case_close(&k.c);
}

static struct mo_problem problem_of(int kh, int kw, int oh, int ow) {
    struct mo_problem p = {
        .isa = MO_ISA_AVX512, .n = 1, .c = 64, .h = oh, .w = ow, .o = 96, .oh = oh, .ow = ow};
    p.kh = kh, p.kw = kw, p.pt = p.pb = kh / 2, p.pl = p.pr = kw / 2;
    p.sh = p.sw = p.dh = p.dw = p.groups = 1;
    p.in_layout = p.out_layout = MO_C16;
    p.fuse.residual = -1;
    return p;
}

static bool takes(int kh, int kw, int sh, int sw, int dh, int dw) {
    struct mo_problem p = problem_of(kh, kw, 28, 28);
    p.sh = sh, p.sw = sw, p.dh = dh, p.dw = dw;
    return mo_emit_family_winograd.takes(&p);
}

static void other_layers_are_not_taken(void **state) {
    (void)state;
    static const int lines[] = {3, 5, 7};
    for (int i = 0; i < 3; i++) {
        assert_true(takes(1, lines[i], 1, 1, 1, 4) && takes(lines[i], 1, 1, 1, 4, 1));
        assert_true(takes(1, lines[i], 1, 1, 60, 1)); /* of one row: nothing is dilated down */
        assert_false(takes(1, lines[i], 2, 1, 1, 1) || takes(1, lines[i], 1, 2, 1, 1));
        assert_false(takes(lines[i], 1, 2, 2, 1, 1) || takes(lines[i], 1, 1, 1, 28, 1));
    }
    assert_false(takes(1, 1, 1, 1, 1, 1) || takes(1, 4, 1, 1, 1, 1) || takes(9, 1, 1, 1, 1, 1));
    assert_false(takes(3, 5, 1, 1, 1, 1) || takes(7, 7, 1, 1, 1, 1) || takes(3, 7, 1, 1, 1, 1));
    assert_true(takes(3, 3, 1, 1, 2, 5) && takes(5, 5, 1, 1, 4, 4));
    assert_false(takes(3, 3, 2, 2, 2, 2) || takes(3, 3, 1, 1, 28, 28));
    struct mo_problem one = problem_of(1, 3, 9, 1);
    assert_false(mo_emit_family_winograd.takes(&one)); /* an output a line */
    one = problem_of(1, 3, 1, 9);
    assert_true(mo_emit_family_winograd.takes(&one));
    one.groups = 2;
    assert_false(mo_emit_family_winograd.takes(&one));
    one.groups = 1, one.exact = true;
    assert_false(mo_emit_family_winograd.takes(&one));
}

/* Points are legal; products as many as tiles of two sizes and of each phase take. */
static void tiles_are_counted(void **state) {
    (void)state;
    static const struct {
        int kh, kw, oh, ow, m, dh, dw, planes;
    } rows[] = {{1, 3, 5, 20, 6, 1, 1, 5 * (3 * 8 + 4)},
                {3, 1, 17, 3, 8, 1, 1, 3 * (2 * 10 + 3)},
                {1, 7, 4, 17, 6, 1, 1, 4 * (12 + 12 + 11)},
                {7, 1, 12, 12, 6, 1, 1, 12 * 24},
                {1, 3, 1, 51, 6, 1, 8, 8 * (8 + 3)},
                {1, 3, 2, 3, 4, 5, 9, 2 * 3 * 6},
                {3, 3, 12, 18, 6, 2, 3, 6 * 64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mo_problem p = problem_of(rows[i].kh, rows[i].kw, rows[i].oh, rows[i].ow);
        struct mo_point point = {.knob = {rows[i].m, 1, 9, 7, 1, 0}}, points[MO_MAX_POINTS];
        struct mo_wino w;
        p.dh = rows[i].dh, p.dw = rows[i].dw;
        assert_true(mo_wino_describe(&p, &point, &w));
        assert_int_equal(mo_wino_planes(&w), rows[i].planes);
        int n = mo_emit_family_winograd.points(&p, points, MO_MAX_POINTS);
        for (int k = 0; k < n; k++)
            assert_true(mo_wino_describe(&p, &points[k], &w));
    }
    struct mo_problem p = problem_of(1, 3, 1, 996);
    struct mo_point half = {.knob = {4, 1, 9, 7, 1, 0, 1}}, odd = {.knob = {3, 1, 9, 7, 1, 0}};
    struct mo_wino w;
    assert_false(mo_wino_describe(&p, &half, &w) || mo_wino_describe(&p, &odd, &w));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcc_kernels_match),          cmocka_unit_test(clang_kernels_match),
        cmocka_unit_test(errors_are_bounded),         cmocka_unit_test(odd_values_stay_in_their_lines),
        cmocka_unit_test(other_layers_are_not_taken), cmocka_unit_test(tiles_are_counted),
    };
    return cmocka_run_group_tests(tests, emit_case_open, emit_case_close);
}
