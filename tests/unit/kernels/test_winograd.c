/* SPDX-License-Identifier: Apache-2.0
 * test_winograd.c - the matrices of Winograd's filtering, and its packed weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "tests/unit/kernels/conv_case.h"
#include "variants/conv_geometry.h"
#include "variants/winograd_matrices.h"

static const struct {
    int m, taps, stride, half, line;
} kinds[] = {{2, 3, 1, 0, 0}, {3, 3, 1, 0, 0}, {4, 3, 1, 0, 0}, {5, 3, 1, 0, 0}, {6, 3, 1, 0, 0},
             {2, 5, 1, 0, 0}, {3, 5, 1, 0, 0}, {4, 5, 1, 0, 0}, {2, 3, 2, 0, 0}, {3, 3, 2, 0, 0},
             {4, 3, 2, 0, 0}, {5, 3, 2, 0, 0}, {3, 3, 1, 1, 0}, {4, 3, 1, 1, 0}, {5, 3, 1, 1, 0},
             {6, 3, 1, 1, 0}, {2, 3, 1, 0, 1}, {4, 3, 1, 0, 1}, {6, 3, 1, 0, 1}, {8, 3, 1, 0, 1},
             {2, 5, 1, 0, 1}, {4, 5, 1, 0, 1}, {6, 5, 1, 0, 1}, {2, 7, 1, 0, 1}, {4, 7, 1, 0, 1},
             {6, 7, 1, 0, 1}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static enum mo_packing packing_of(int kind) {
    if (kinds[kind].line) return mo_winograd_line(kinds[kind].m, kinds[kind].taps);
    return mo_winograd_packing(kinds[kind].m, kinds[kind].taps, kinds[kind].stride, kinds[kind].half != 0);
}

/* AT [(G g) . (BT d)] is the filter of d by g, in one dimension, for unit vectors g and d: exactly linear. */
static void matrices_filter(void **state) {
    (void)state;
    struct mo_winograd w;
    assert_false(mo_winograd_of(MO_PACK_CONV16, &w));
    assert_false(mo_winograd_of(MO_PACK_NONE, &w));
    assert_int_equal(mo_winograd_packing(1, 3, 1, false), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(7, 3, 1, false), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(8, 3, 1, false), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(2, 4, 1, false), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(6, 3, 2, false), MO_PACK_NONE);
    assert_int_equal(mo_winograd_line(MO_WINO_M + 1, 3), MO_PACK_NONE);
    assert_int_equal(mo_winograd_line(3, 3), MO_PACK_NONE);
    assert_int_equal(mo_winograd_line(0, 0), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(2, 3, 3, false), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(2, 3, 1, true), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(0, 0, 0, false), MO_PACK_NONE);
    assert_false(mo_winograd_of(MO_PACK_STRASSEN, &w));
    assert_false(mo_winograd_of(MO_PACK_COUNT, &w));
    /* compiled kernels and stores hold the numbers */
    assert_int_equal(mo_winograd_packing(4, 3, 1, false), 5);
    assert_int_equal(mo_winograd_packing(2, 3, 1, false), 6);
    assert_int_equal(mo_winograd_packing(6, 3, 1, true), 21);
    assert_int_equal(mo_winograd_line(2, 3), 33);
    assert_int_equal(mo_winograd_line(6, 7), 42);
    for (int i = 0; i < N_KINDS; i++) {
        assert_true(mo_winograd_of(packing_of(i), &w));
        assert_int_equal(w.m, kinds[i].m);
        assert_int_equal(w.taps, kinds[i].taps);
        assert_int_equal(w.stride, kinds[i].stride);
        assert_int_equal(w.half, kinds[i].half);
        assert_int_equal(w.line, kinds[i].line);
        assert_int_equal(w.alpha, (w.m - 1) * w.stride + w.taps);
        for (int tap = 0; tap < w.taps; tap++)
            for (int at = 0; at < w.alpha; at++)
                for (int y = 0; y < w.m; y++) {
                    double sum = 0;
                    for (int k = 0; k < w.alpha; k++)
                        sum += w.at[y][k] * w.g[k][tap] * w.bt[k][at];
                    assert_true(fabs(sum - (y * w.stride + tap == at)) < 1e-12);
                }
    }
}

/* AT [(G g) . (BT d)] is the filter of d by g, for unit vectors, whatever part of the filters a tail uses. */
static void check_tail(const struct mo_winograd *full, const struct mo_winograd *w) {
    assert_int_equal(w->alpha, (w->m - 1) * w->stride + w->taps);
    for (int k = 0; k < w->alpha; k++) {
        assert_true(k ? w->of[k] > w->of[k - 1] : w->of[k] == 0);
        assert_true(w->of[k] < full->alpha);
    }
    for (int tap = 0; tap < w->taps; tap++)
        for (int at = 0; at < w->alpha; at++)
            for (int y = 0; y < w->m; y++) {
                double sum = 0;
                for (int k = 0; k < w->alpha; k++)
                    sum += w->at[y][k] * full->g[w->of[k]][tap] * w->bt[k][at];
                assert_true(fabs(sum - (y * w->stride + tap == at)) < 1e-12);
            }
}

static void tails_filter(void **state) {
    (void)state;
    struct mo_winograd full, w;
    for (int i = 0; i < N_KINDS; i++) {
        assert_true(mo_winograd_of(packing_of(i), &full));
        assert_false(mo_winograd_tail(&full, 0, &w));
        assert_false(mo_winograd_tail(&full, full.m, &w));
        for (int m = 1; m < full.m; m++) {
            bool even = (full.points - full.m + m) % 2 == 0;
            assert_int_equal(mo_winograd_tail(&full, m, &w), full.infinity || !even);
            if (full.infinity || !even) check_tail(&full, &w);
        }
    }
}

/* G g G^T of a filter at plane k; half transformed, G g at row k / taps and column k % taps; of one line, G
 * g. */
static double transformed(const struct mo_winograd *w, const float *g, int k) {
    double sum = 0;
    for (int t = 0; w->line && t < w->taps; t++)
        sum += w->g[k][t] * g[t];
    if (w->line) return sum;
    int columns = w->half ? w->taps : w->lines;
    for (int t = 0; t < w->taps * w->taps; t++)
        sum += w->g[k / columns][t / w->taps] * g[t] *
               (w->half ? t % w->taps == k % columns : w->g[k % columns][t % w->taps]);
    return sum;
}

/* Every packed value is that of its filter of kh x kw; channels beyond the layer's are zero. */
static void check_weights(int kind, int kh, int kw) {
    int taps = kinds[kind].taps, stride = kinds[kind].stride;
    struct conv_shape shape = {1, 20, 7, 7, 36, kh, kw, stride, stride, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0};
    enum mo_packing packing = packing_of(kind);
    struct mo_winograd w;
    struct conv_case c;
    const void *packed;
    const float *bias;
    assert_true(conv_case_open(&c, &shape, MO_C16, 1));
    const float *g = c.graph->tensors[c.node->in[1]]->data;
    assert_true(mo_winograd_of(packing, &w));
    const int n = mo_winograd_floats(&w);
    assert_int_equal(w.lines, stride == 1 ? w.alpha : w.m + 2);
    assert_int_equal(n, w.lines * (w.line ? 1 : w.half ? taps : w.lines));
    assert_int_equal(mo_pack_bytes(packing, c.graph, c.node), 3 * n * 2 * 1024);
    assert_int_equal(mo_pack_weights(packing, c.graph, c.node, c.graph->region, &packed, &bias, NULL),
                     MOIRE_OK);
    const float *u = packed;
    for (int o = 0; o < 48; o++)
        for (int i = 0; i < 32; i++)
            for (int k = 0; k < n; k++) {
                double want = o < 36 && i < 20 ? transformed(&w, g + (o * 20 + i) * kh * kw, k) : 0;
                int64_t at = (((o / 16 * n + k) * 2 + i / 16) * 16 + i % 16) * 16 + o % 16;
                if (w.half)
                    at = (((int64_t)(o / 16 * w.alpha + k / taps) * 32 + i) * taps + k % taps) * 16 + o % 16;
                assert_true(fabs(u[at] - want) <= 1e-7 * fabs(want) + 1e-12);
            }
    conv_case_close(&c);
}

static void weights_are_transformed(void **state) {
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        int taps = kinds[i].taps;
        check_weights(i, kinds[i].line ? 1 : taps, taps);
        if (kinds[i].line) check_weights(i, taps, 1);
    }
}

/* Unevenly strided, dilated where strided, grouped and other filters are refused. */
static void other_layers_are_refused(void **state) {
    (void)state;
    static const struct conv_shape shapes[] = {
        {1, 32, 9, 9, 32, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 3, 3, 2, 2, 1, 2, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 3, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 1, 3, 1, 2, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 9, 1, 1, 1, 1, 1, 4, 1, 4, 1, 1, MO_ACT_NONE, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct conv_case c;
        assert_true(conv_case_open(&c, &shapes[i], MO_C16, 1));
        for (int kind = 0; kind < N_KINDS; kind++)
            assert_int_equal(mo_pack_bytes(packing_of(kind), c.graph, c.node), -1);
        conv_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_filter),
        cmocka_unit_test(tails_filter),
        cmocka_unit_test(weights_are_transformed),
        cmocka_unit_test(other_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
