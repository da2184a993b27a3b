/* SPDX-License-Identifier: Apache-2.0
 * test_winograd.c - the matrices of Winograd's filtering, and its packed weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "tests/unit/conv_case.h"
#include "variants/conv.h"
#include "variants/winograd.h"

/* AT [(G g) . (BT d)] is the filter of d by g, in one dimension, for unit vectors g and d: exactly linear. */
static void matrices_filter(void **state) {
    int found = 0;
    (void)state;
    struct mo_winograd w;
    assert_false(mo_winograd_of(MO_PACK_CONV16, &w));
    assert_false(mo_winograd_of(MO_PACK_NONE, &w));
    assert_int_equal(mo_winograd_packing(1, 3), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(MO_WINO_M + 1, 3), MO_PACK_NONE);
    assert_int_equal(mo_winograd_packing(2, 4), MO_PACK_NONE);
    for (int taps = 3, m = MO_WINO_LEAST; taps <= 5; m < MO_WINO_M ? m++ : (m = MO_WINO_LEAST, taps += 2)) {
        if (mo_winograd_packing(m, taps) == MO_PACK_NONE) continue;
        found++;
        assert_true(mo_winograd_of(mo_winograd_packing(m, taps), &w));
        assert_int_equal(w.m, m);
        assert_int_equal(w.taps, taps);
        assert_int_equal(w.alpha, m + taps - 1);
        for (int tap = 0; tap < taps; tap++)
            for (int at = 0; at < w.alpha; at++)
                for (int y = 0; y < w.m; y++) {
                    double sum = 0;
                    for (int i = 0; i < w.alpha; i++)
                        sum += w.at[y][i] * w.g[i][tap] * w.bt[i][at];
                    assert_true(fabs(sum - (y + tap == at)) < 1e-13);
                }
    }
    assert_int_equal(found, 8);
}

/* Every packed value is G g G^T of its filter; channels beyond the layer's are zero. */
static void check_weights(int taps) {
    struct conv_shape shape = {1, 20, 5, 5, 36, taps, taps, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0};
    struct conv_case c;
    assert_true(conv_case_open(&c, &shape, MO_C16, 1));
    const float *g = c.graph->tensors[c.node->in[1]]->data;
    for (int m = MO_WINO_LEAST; m <= MO_WINO_M; m++) {
        struct mo_winograd w;
        const void *packed;
        const float *bias;
        enum mo_packing packing = mo_winograd_packing(m, taps);
        if (packing == MO_PACK_NONE) continue;
        assert_true(mo_winograd_of(packing, &w));
        assert_int_equal(mo_pack_bytes(packing, c.graph, c.node), 3 * w.alpha * w.alpha * 2 * 1024);
        assert_int_equal(mo_pack_weights(packing, c.graph, c.node, c.graph->region, &packed, &bias, NULL),
                         MOIRE_OK);
        const float *u = packed;
        for (int o = 0; o < 48; o++)
            for (int i = 0; i < 32; i++)
                for (int k = 0; k < w.alpha * w.alpha; k++) {
                    double want = 0;
                    for (int t = 0; t < taps * taps && o < 36 && i < 20; t++)
                        want += w.g[k / w.alpha][t / taps] * g[(o * 20 + i) * taps * taps + t] *
                                w.g[k % w.alpha][t % taps];
                    int64_t at =
                        (((o / 16 * w.alpha * w.alpha + k) * 2 + i / 16) * 16 + i % 16) * 16 + o % 16;
                    assert_true(fabs(u[at] - want) <= 1e-7 * fabs(want) + 1e-12);
                }
    }
    conv_case_close(&c);
}

static void weights_are_transformed(void **state) {
    (void)state;
    check_weights(3);
    check_weights(5);
}

/* Strided, dilated, grouped and other filters are refused. */
static void other_layers_are_refused(void **state) {
    (void)state;
    static const struct conv_shape shapes[] = {
        {1, 32, 9, 9, 32, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 3, 3, 1, 1, 1, 2, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2, MO_ACT_NONE, 0},
        {1, 32, 9, 9, 32, 3, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
    };
    for (int i = 0; i < 4; i++) {
        struct conv_case c;
        assert_true(conv_case_open(&c, &shapes[i], MO_C16, 1));
        for (int m = MO_WINO_LEAST; m <= MO_WINO_M; m++)
            assert_int_equal(mo_pack_bytes(mo_winograd_packing(m, 3), c.graph, c.node), -1);
        conv_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_filter),
        cmocka_unit_test(weights_are_transformed),
        cmocka_unit_test(other_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
