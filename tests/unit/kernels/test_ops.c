/* SPDX-License-Identifier: Apache-2.0
 * test_ops.c - references: what the backend tests do not cover: fused epilogues, number formats, corner cases
 * of old versions, running out of memory.  Refusals of bad input are in test_ops_bad.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/kernels/op_case.h"

#define F MOIRE_F32
#define I MOIRE_I64

/* --- epilogues --- */
static void conv_applies_its_epilogue(void **state) {
    (void)state;
    /* 1x1 conv with weight 2, bias -3 over 0..3; residual 1, 1, 1, -9 */
    const double weight[] = {2}, bias[] = {-3}, residual[] = {1, 1, 1, -9};
    const double before[] = {0, 0, 2, 0}, after[] = {1, 1, 2, -6};
    for (int last = 0; last < 2; last++) {
        struct op_case c;
        op_case_open(&c, "Conv", 13);
        op_case_input(&c, F, "1x1x2x2", NULL);
        op_case_input(&c, F, "1x1x1x1", weight);
        op_case_input(&c, F, "1", bias);
        op_case_input(&c, F, "1x1x2x2", residual);
        c.node->fuse = (struct mo_fuse){.act = MO_ACT_RELU, .residual = 3, .residual_last = last};
        assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
        for (int i = 0; i < 4; i++)
            assert_true(op_case_out(&c, 0, i) == (last ? after[i] : before[i]));
        op_case_close(&c);
    }
}

/* Without a bias the residual may sit in its place. */
static void residual_is_no_bias(void **state) {
    (void)state;
    const double weight[] = {2};
    struct op_case c;
    op_case_open(&c, "Conv", 13);
    op_case_input(&c, F, "1x1x2x2", NULL);
    op_case_input(&c, F, "1x1x1x1", weight);
    op_case_input(&c, F, "1x1x2x2", NULL);
    c.node->fuse = (struct mo_fuse){.residual = 2};
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    for (int i = 0; i < 4; i++)
        assert_true(op_case_out(&c, 0, i) == 3 * i);
    op_case_close(&c);
}

static void activations_match_their_formulas(void **state) {
    (void)state;
    static const struct {
        enum mo_act act;
        float a, b, x, y;
    } rows[] = {{MO_ACT_NONE, 0, 0, -2, -2},
                {MO_ACT_RELU, 0, 0, -2, 0},
                {MO_ACT_CLIP, 0, 6, 7, 6},
                {MO_ACT_LEAKY, 0.1f, 0, -2, -0.2f},
                {MO_ACT_SIGMOID, 0, 0, 0, 0.5f},
                {MO_ACT_SILU, 0, 0, 0, 0},
                {MO_ACT_HSIGMOID, 0.2f, 0.5f, 1, 0.7f},
                {MO_ACT_HSWISH, 1 / 6.f, 0.5f, 3, 3},
                {MO_ACT_TANH, 0, 0, 0, 0},
                {MO_ACT_GELU, 0, 0, 1, 0.841344746f}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(fabsf(mo_activate(rows[i].act, rows[i].a, rows[i].b, rows[i].x) - rows[i].y) < 1e-6f);
    assert_true(isnan(mo_activate(MO_ACT_RELU, 0, 0, NAN)));
}

/* Right shifts of signed numbers bring in the sign; amounts that are no bit of the type leave only that. */
static void shifts_keep_the_sign(void **state) {
    (void)state;
    const double x[] = {-8, -8, -8, 8, -128}, by[] = {1, 8, -1, 64, 7}, right[] = {-4, -1, -1, 0, -1},
                 left[] = {-16, 0, 0, 0, 0};
    for (int k = 0; k < 2; k++) {
        struct op_case c;
        op_case_open(&c, "BitShift", 28);
        op_case_attrs(&c, k ? "direction:LEFT" : "direction:RIGHT");
        op_case_input(&c, MOIRE_I8, "5", x);
        op_case_input(&c, MOIRE_I8, "5", by);
        assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
        for (int i = 0; i < 5; i++)
            assert_true(op_case_out(&c, 0, i) == (k ? left[i] : right[i]));
        op_case_close(&c);
    }
}

/* Depth of four from 1x2x2x2, channel by channel or place by place. */
static void depth_has_two_orders(void **state) {
    (void)state;
    for (int crd = 0; crd < 2; crd++) {
        struct op_case c;
        op_case_open(&c, "SpaceToDepth", 28);
        op_case_attrs(&c, crd ? "blocksize=2 mode:CRD" : "blocksize=2");
        op_case_input(&c, F, "1x2x2x2", NULL);
        assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
        for (int i = 0; i < 8; i++)
            assert_true(op_case_out(&c, 0, i) == (crd ? i : i % 2 * 4 + i / 2));
        op_case_close(&c);
    }
}

/* --- signals --- */
/* One side of a spectrum says all of a real signal, of even and of odd length. */
static void one_side_of_a_spectrum_goes_back(void **state) {
    (void)state;
    const double x[] = {1, -2, 3, 0.5, 7};
    for (int n = 4; n <= 5; n++) {
        const double length = n;
        double spectrum[6];
        struct op_case c;
        op_case_open(&c, "DFT", 17);
        op_case_attrs(&c, "onesided=1 axis=1");
        op_case_input(&c, F, n == 4 ? "1x4x1" : "1x5x1", x);
        assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
        for (int i = 0; i < 6; i++)
            spectrum[i] = op_case_out(&c, 0, i);
        op_case_close(&c);
        op_case_open(&c, "DFT", 17);
        op_case_attrs(&c, "onesided=1 inverse=1 axis=1");
        op_case_input(&c, F, "1x3x2", spectrum);
        if (n == 5) op_case_input(&c, I, "", &length); /* by default it is even */
        assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
        assert_int_equal(c.out[0].shape.d[1], n);
        assert_int_equal(c.out[0].shape.d[2], 1);
        for (int i = 0; i < n; i++)
            assert_true(fabs(op_case_out(&c, 0, i) - x[i]) < 1e-5);
        op_case_close(&c);
    }
}

/* --- numbers --- */
static void half_floats_round_trip(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = mo_half_to_float((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(mo_half_to_float(mo_float_to_half(f))));
        else
            assert_int_equal(mo_float_to_half(f), h);
    }
    assert_int_equal(mo_float_to_half(65519.f), 0x7bff); /* rounds down to the largest */
    assert_int_equal(mo_float_to_half(65520.f), 0x7c00);
    assert_int_equal(mo_float_to_half(1.00048828125f), 0x3c00); /* a tie goes to even */
    assert_int_equal(mo_float_to_half(0x1p-25f), 0);
}

static void casts_saturate_and_wrap(void **state) {
    (void)state;
    const double x[] = {1e30, -1e30, NAN, -1.9};
    const double want[] = {INT32_MAX, INT32_MIN, 0, -1};
    struct op_case c;
    op_case_open(&c, "Cast", 13);
    op_case_attrs(&c, "to=6");
    op_case_input(&c, F, "4", x);
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    for (int i = 0; i < 4; i++)
        assert_true(op_case_out(&c, 0, i) == want[i]);
    op_case_close(&c);
    const double ints[] = {300, -1};
    op_case_open(&c, "Cast", 13);
    op_case_attrs(&c, "to=2");
    op_case_input(&c, I, "2", ints);
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_true(op_case_out(&c, 0, 0) == 44 && op_case_out(&c, 0, 1) == 255);
    op_case_close(&c);
}

static void integer_division_never_traps(void **state) {
    (void)state;
    struct op_case c;
    op_case_open(&c, "Div", 13);
    op_case_input(&c, I, "1", NULL);
    op_case_input(&c, I, "1", (const double[]){-1});
    *(int64_t *)c.in[0].data = INT64_MIN;
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_true(*(int64_t *)c.out[0].data == INT64_MIN);
    op_case_close(&c);
}

/* Values beyond 2^53 pass unchanged, unsigned order is unsigned, and Shrink is no identity. */
static void wide_integers_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *op;
        moire_dtype dtype;
        uint64_t x, y;
    } rows[] = {{"Abs", MOIRE_I64, (uint64_t)-9007199254740993, 9007199254740993},
                {"Neg", MOIRE_I64, 9007199254740993, (uint64_t)-9007199254740993},
                {"Relu", MOIRE_I64, (uint64_t)-1, 0},
                {"Sign", MOIRE_I64, (uint64_t)-5, (uint64_t)-1},
                {"Sign", MOIRE_U64, UINT64_MAX, 1},
                {"Abs", MOIRE_U64, UINT64_MAX, UINT64_MAX},
                {"Clip", MOIRE_U64, UINT64_MAX, UINT64_MAX},
                {"Clip", MOIRE_I64, 9007199254740993, 9007199254740993},
                {"Shrink", MOIRE_I64, 0, 0},
                {"BitwiseNot", MOIRE_U64, 1, UINT64_MAX - 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct op_case c;
        op_case_open(&c, rows[i].op, 18);
        op_case_input(&c, rows[i].dtype, "1", NULL);
        memcpy(c.in[0].data, &rows[i].x, 8);
        assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
        assert_memory_equal(c.out[0].data, &rows[i].y, 8);
        op_case_close(&c);
    }
    struct op_case c;
    op_case_open(&c, "Shrink", 18);
    op_case_attrs(&c, "lambd=1.5 bias=1.0");
    op_case_input(&c, I, "2", (const double[]){3, 1});
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_true(op_case_out(&c, 0, 0) == 2 && op_case_out(&c, 0, 1) == 0);
    op_case_close(&c);
}

/* --- versions --- */
static void softmax_flattens_before_13(void **state) {
    (void)state;
    struct op_case c;
    op_case_open(&c, "Softmax", 11);
    op_case_attrs(&c, "axis=1");
    op_case_input(&c, F, "1x2x2", (const double[]){1, 1, 1, 1});
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_true(fabs(op_case_out(&c, 0, 3) - 0.25) < 1e-7);
    c.g->opset = 13;
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_true(fabs(op_case_out(&c, 0, 3) - 0.5) < 1e-7);
    op_case_close(&c);
}

/* More than 2^24, beyond which float32 has no odd numbers. */
static void gemm_on_doubles_is_exact(void **state) {
    (void)state;
    struct op_case c;
    op_case_open(&c, "Gemm", 13);
    op_case_input(&c, MOIRE_F64, "1x2", (const double[]){5001, 3});
    op_case_input(&c, MOIRE_F64, "2x1", (const double[]){5003, 4});
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_true(op_case_out(&c, 0, 0) == 5001.0 * 5003 + 12);
    op_case_close(&c);
}

static void slice_accepts_extreme_bounds(void **state) {
    (void)state;
    struct op_case c;
    op_case_open(&c, "Slice", 13);
    op_case_input(&c, F, "4", NULL);
    for (int i = 0; i < 4; i++)
        op_case_input(&c, I, "1", (const double[]){0});
    *(int64_t *)c.in[1].data = INT64_MAX;
    *(int64_t *)c.in[2].data = INT64_MIN;
    *(int64_t *)c.in[4].data = -1;
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_int_equal(c.out[0].shape.d[0], 4);
    assert_true(op_case_out(&c, 0, 0) == 3 && op_case_out(&c, 0, 3) == 0);
    *(int64_t *)c.in[4].data = INT64_MIN;
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_int_equal(c.out[0].shape.d[0], 1);
    op_case_close(&c);
}

static void ceil_mode_drops_windows_in_the_padding(void **state) {
    (void)state;
    struct op_case c;
    op_case_open(&c, "MaxPool", 12);
    op_case_attrs(&c, "kernel_shape=1,1 strides=2,2 ceil_mode=1 pads=0,0,1,1");
    op_case_input(&c, F, "1x1x2x2", NULL);
    assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
    assert_int_equal(c.out[0].shape.d[2], 1);
    assert_true(op_case_out(&c, 0, 0) == 0);
    op_case_close(&c);
}

/* --- out of memory: every scratch allocation may fail, without leak or crash --- */
struct starved {
    struct op_case *c;
    struct fault_sys *f;
};

static int run_starved(void *ctx) {
    const struct starved *s = ctx;
    s->c->scratch = &s->f->table;
    return op_case_run(s->c, 1);
}

static void out_of_memory_is_reported(void **state) {
    (void)state;
    static const struct {
        const char *op, *attrs, *shapes[5];
        moire_dtype types[5];
    } rows[] = {
        {"Gemm", "", {"2x3", "3x2"}, {F, F}},
        {"Softmax", "", {"2x3"}, {F}},
        {"MaxPool", "kernel_shape=2,2", {"1x1x4x4"}, {F}},
        {"ReduceSum", "", {"2x3"}, {F}},
        {"Unique", "", {"6"}, {F}},
        {"NonMaxSuppression", "", {"1x2x4", "1x1x2", "1"}, {F, F, I}},
        {"Upsample", "scales~1,1,2,2 mode:linear", {"1x1x2x2"}, {F}},
        {"Det", "", {"2x2"}, {F}},
        {"MeanVarianceNormalization", "", {"1x1x2x2"}, {F}},
        {"SoftmaxCrossEntropyLoss", "", {"2x3", "2"}, {F, I}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct op_case c;
        struct fault_sys f;
        op_case_open(&c, rows[i].op, strcmp(rows[i].op, "Upsample") ? 13 : 9);
        op_case_attrs(&c, rows[i].attrs);
        for (int k = 0; k < 5 && rows[i].shapes[k]; k++)
            op_case_input(&c, rows[i].types[k], rows[i].shapes[k], NULL);
        fault_sys_init(&f);
        assert_true(fault_sys_sweep(&f, run_starved, &(struct starved){&c, &f}, MOIRE_ENOMEM) > 0);
        op_case_close(&c);
    }
}

/* Of values that rise evenly a bin's mean is the value at its middle, however many samples it has: few enough
 * to keep for all channels, or not. */
static void regions_of_a_slope_are_its_middles(void **state) {
    static const struct {
        moire_dtype type;
        const char *attrs;
    } rows[] = {{MOIRE_F32, "output_height=2 output_width=3 sampling_ratio=1"},
                {MOIRE_F32, "output_height=2 output_width=3 sampling_ratio=2"},
                {MOIRE_F32, "output_height=2 output_width=3 sampling_ratio=120"},
                {MOIRE_F64, "output_height=2 output_width=3 sampling_ratio=2"},
                {MOIRE_F64, "output_height=2 output_width=3 sampling_ratio=120"}};
    static const double box[] = {1, 2, 7, 6}, image[] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct op_case c;
        op_case_open(&c, "RoiAlign", 10);
        op_case_attrs(&c, rows[i].attrs);
        op_case_input(&c, rows[i].type, "1x2x8x10", NULL);
        op_case_input(&c, rows[i].type, "1x4", box);
        op_case_input(&c, MOIRE_I64, "1", image);
        assert_int_equal(op_case_run(&c, 1), MOIRE_OK);
        for (int k = 0; k < 12; k++) {
            const int channel = k / 6, y = 3 + 2 * (k / 3 % 2), x = 2 + 2 * (k % 3);
            assert_true(fabs(op_case_out(&c, 0, k) - (channel * 80 + y * 10 + x)) < 1e-4);
        }
        op_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_applies_its_epilogue),
        cmocka_unit_test(residual_is_no_bias),
        cmocka_unit_test(activations_match_their_formulas),
        cmocka_unit_test(shifts_keep_the_sign),
        cmocka_unit_test(depth_has_two_orders),
        cmocka_unit_test(one_side_of_a_spectrum_goes_back),
        cmocka_unit_test(half_floats_round_trip),
        cmocka_unit_test(casts_saturate_and_wrap),
        cmocka_unit_test(integer_division_never_traps),
        cmocka_unit_test(wide_integers_are_exact),
        cmocka_unit_test(softmax_flattens_before_13),
        cmocka_unit_test(gemm_on_doubles_is_exact),
        cmocka_unit_test(slice_accepts_extreme_bounds),
        cmocka_unit_test(ceil_mode_drops_windows_in_the_padding),
        cmocka_unit_test(regions_of_a_slope_are_its_middles),
        cmocka_unit_test(out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
