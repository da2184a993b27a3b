/* SPDX-License-Identifier: Apache-2.0
 * test_conv.c - the built-in convolution kernels of every instruction set against the reference: ragged
 * shapes, pads, strides, dilations, groups, channel tails, activations, residuals, batches, any split of the
 * units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/kernels/conv_case.h"
#include "variants/generic/conv_walk.h"

extern const struct mo_family mo_family_conv_direct, mo_family_conv_pointwise, mo_family_conv_depthwise,
    mo_family_conv_first, mo_family_conv_grouped, mo_family_winograd;

/* Winograd's rounding: 1e-4 of the outputs' root mean square. */
static void allow_winograd(struct conv_case *c) {
    double sum = 0;
    int64_t n = mo_shape_count(&c->graph->tensors[c->node->out[0]]->shape);
    for (int64_t i = 0; i < n; i++)
        sum += (double)c->want[i] * (double)c->want[i];
    c->allowed = fmaxf(1e-4f, (float)(1e-4 * sqrt(sum / (double)n)));
}

/* The name of the kernel that the family chose. */
static const char *check_shape(const struct mo_family *family, const struct conv_shape *shape,
                               enum mo_layout in, unsigned seed) {
    struct conv_case c;
    const char *kernel = "";
    if (!conv_case_open(&c, shape, in, seed)) return kernel;
    if (family == &mo_family_winograd) allow_winograd(&c);
    unsigned need = in == MO_PLAIN ? MO_CAN_ENTER : MO_CAN_C16;
    if (!(family->layouts(c.graph, c.node) & need)) fail_msg("%s: not taken", conv_case_text(shape));
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        struct mo_binder binder = {
            .env = &c.env, .region = mo_region_create(&c.env), .isa = (enum mo_isa)isa, .graph = c.graph};
        struct mo_step step = {.node = c.node};
        moire_error err = {0};
        if (family->bind(&binder, c.node, &step, &err))
            fail_msg("%s: %s", conv_case_text(shape), err.message);
        c.args.weights = step.weights, c.args.bias = step.bias, c.args.params = step.params;
        int parts = 1 + (int)(seed % 5) * 3;
        conv_case_run(&c, step.run, step.units, step.scratch_bytes, parts);
        const char *wrong = conv_case_check(&c);
        if (wrong) fail_msg("%s, %s, %d parts: %s", step.kernel, conv_case_text(shape), parts, wrong);
        mo_region_destroy(binder.region);
        kernel = step.kernel;
    }
    conv_case_close(&c);
    return kernel;
}

/* Small deterministic choices. */
static unsigned pick(unsigned *seed, unsigned n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % n;
}

static struct conv_shape random_shape(unsigned *seed, const int *channels, int n_channels) {
    struct conv_shape s = {.n = 1 + (int)pick(seed, 2), .groups = 1};
    s.c = channels[pick(seed, (unsigned)n_channels)];
    s.o = 1 + (int)pick(seed, 70);
    s.h = 1 + (int)pick(seed, 20), s.w = 1 + (int)pick(seed, 35);
    s.kh = 1 + (int)pick(seed, 5), s.kw = 1 + (int)pick(seed, 5);
    s.sh = 1 + (int)pick(seed, 3), s.sw = 1 + (int)pick(seed, 3);
    s.dh = 1 + (int)pick(seed, 2), s.dw = 1 + (int)pick(seed, 2);
    s.pt = (int)pick(seed, 4), s.pl = (int)pick(seed, 4), s.pb = (int)pick(seed, 4),
    s.pr = (int)pick(seed, 4);
    s.act = pick(seed, MO_ACT_COUNT);
    s.residual = (int)pick(seed, 3);
    return s;
}

static void direct_matches(void **state) {
    (void)state;
    static const int channels[] = {1, 3, 16, 17, 24, 32, 40};
    unsigned seed = 1;
    for (unsigned i = 0; i < 120; i++) {
        struct conv_shape s = random_shape(&seed, channels, 7);
        if (s.kh * s.kw == 1) s.kw = 3;
        check_shape(&mo_family_conv_direct, &s, MO_C16, i);
    }
}

static void narrow_maps_match(void **state) {
    (void)state;
    for (int w = 1; w <= 9; w++)
        for (int h = 1; h <= 8; h += 3) {
            struct conv_shape s = {1, 32, h, w, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, w % 3};
            check_shape(&mo_family_conv_direct, &s, MO_C16, (unsigned)(w + h));
        }
    struct conv_shape pad = {1, 16, 2, 2, 16, 3, 3, 1, 1, 1, 1, 6, 5, 4, 7, 1, MO_ACT_NONE, 0};
    check_shape(&mo_family_conv_direct, &pad, MO_C16, 3);
}

static void pointwise_matches(void **state) {
    (void)state;
    static const int channels[] = {1, 16, 24, 48, 96};
    unsigned seed = 2;
    for (unsigned i = 0; i < 60; i++) {
        struct conv_shape s = random_shape(&seed, channels, 5);
        s.kh = s.kw = 1;
        if (i % 2) s.sh = s.sw = 1, s.pt = s.pl = s.pb = s.pr = 0;
        if (i % 3 == 0) s.residual |= CONV_GATED;
        check_shape(&mo_family_conv_pointwise, &s, MO_C16, i);
    }
}

static void depthwise_matches(void **state) {
    (void)state;
    static const int channels[] = {8, 16, 24, 32, 40};
    unsigned seed = 3;
    for (unsigned i = 0; i < 60; i++) {
        struct conv_shape s = random_shape(&seed, channels, 5);
        s.groups = s.o = s.c;
        check_shape(&mo_family_conv_depthwise, &s, MO_C16, i);
    }
}

/* The kernels for 3x3 and 5x5: every overhang on either side, with narrow maps and several tiles of a row. */
static void depthwise_windows_match(void **state) {
    (void)state;
    unsigned seed = 9;
    for (unsigned i = 0; i < 160; i++) {
        int side = i % 2 ? 5 : 3, stride = 1 + (int)(i / 2 % 2), most = side / 2 + 1;
        struct conv_shape s = {.n = 1, .c = 24, .o = 24, .groups = 24, .kh = side, .kw = side};
        s.h = 1 + (int)pick(&seed, 18), s.w = 1 + (int)pick(&seed, i % 3 ? 12 : 40);
        s.sh = s.sw = stride;
        s.dh = 1 + (int)pick(&seed, 2), s.dw = 1;
        s.pt = (int)pick(&seed, 4), s.pb = (int)pick(&seed, 4);
        s.pl = (int)pick(&seed, (unsigned)most), s.pr = (int)pick(&seed, (unsigned)most);
        s.act = pick(&seed, MO_ACT_COUNT);
        s.residual = (int)pick(&seed, 3);
        check_shape(&mo_family_conv_depthwise, &s, MO_C16, i);
    }
}

static void first_matches(void **state) {
    (void)state;
    static const int channels[] = {1, 2, 3, 4};
    unsigned seed = 4;
    for (unsigned i = 0; i < 60; i++) {
        struct conv_shape s = random_shape(&seed, channels, 4);
        check_shape(&mo_family_conv_first, &s, MO_PLAIN, i);
    }
}

/* High images, whose units are bands of several rows, the last one shorter: of any stride, dilation and pads.
 */
static void first_matches_in_bands(void **state) {
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct conv_shape s = {
            .n = 1 + i % 3, .c = 1 + i % 4, .h = 331, .w = 21, .o = 16 + 9 * i, .groups = 1};
        s.kh = 1 + i % 7, s.kw = 7 - i % 7, s.sh = 1 + i % 2, s.sw = 1 + i % 3, s.dh = 1 + i / 4,
        s.dw = 1 + i / 6;
        s.pt = i % 3, s.pl = 1 + i % 2, s.pb = i / 3, s.pr = i / 4;
        s.act = i % 2 ? MO_ACT_SILU : MO_ACT_RELU;
        check_shape(&mo_family_conv_first, &s, MO_PLAIN, i);
    }
}

static void groups_match(void **state) {
    (void)state;
    static const int table[][3] = {{32, 32, 2},    {64, 64, 8},    {48, 96, 3},    {32, 64, 8},
                                   {32, 64, 32},   {64, 32, 16},   {96, 96, 4},    {64, 128, 2},
                                   {256, 256, 32}, {9, 12, 3},     {35, 20, 5},    {72, 72, 3},
                                   {168, 168, 7},  {104, 208, 13}, {440, 440, 55}, {201, 134, 67},
                                   {240, 240, 6},  {112, 224, 2},  {80, 48, 2}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        struct conv_shape s = {2, table[i][0], 6, 9, table[i][1], 3, 3,           1 + i % 2,   1,
                               1, 1,           1, 1, 1,           0, table[i][2], MO_ACT_SILU, 1};
        check_shape(&mo_family_conv_grouped, &s, MO_C16, i);
    }
}

/* Two groups of 24 channels in three blocks: the block between them reads both, the others one and a half. */
static void groups_reach_what_is_theirs(void **state) {
    (void)state;
    const struct mo_conv_walk walk = {.planes = 3, .ocb = 3, .own_in = 24, .own_out = 24, .last_plane = 9};
    static const int64_t expected[3][4] = {{0, 2, 0, 2}, {0, 3, 0, 0}, {1, 2, 2, 0}};
    for (int64_t block = 0; block < 3; block++) {
        const struct mo_conv_reach reach = mo_conv_walk_reach(&walk, 0, block, 1);
        const int64_t found[4] = {reach.first, reach.planes, reach.skip, reach.drop};
        for (int i = 0; i < 4; i++)
            assert_int_equal(found[i], expected[block][i]);
    }
}

static void odd_layers_are_refused(void **state) {
    (void)state;
    struct conv_shape s = {1, 201, 6, 6, 134, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0, 67, MO_ACT_NONE, 0};
    struct conv_case c;
    assert_true(conv_case_open(&c, &s, MO_C16, 1));
    c.graph->exact = true;
    assert_int_equal(mo_family_conv_grouped.layouts(c.graph, c.node), 0);
    c.graph->exact = false;
    assert_int_equal(mo_family_conv_direct.layouts(c.graph, c.node), 0);
    c.graph->tensors[c.node->in[1]]->data = NULL; /* weights known at run time only */
    assert_int_equal(mo_family_conv_direct.layouts(c.graph, c.node), 0);
    conv_case_close(&c);
    s = (struct conv_shape){1, 9, 6, 6, 12, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0, 3, MO_ACT_NONE, 0};
    assert_true(conv_case_open(&c, &s, MO_C16, 1));
    assert_int_equal(mo_family_conv_grouped.layouts(c.graph, c.node), MO_CAN_C16);
    c.graph->exact = true; /* zeros between the groups would be products */
    assert_int_equal(mo_family_conv_grouped.layouts(c.graph, c.node), 0);
    conv_case_close(&c);
}

static const char *const winograd_forms[] = {"conv F(4x4,3x3) ", "conv F(2x2,3x3) ", "conv F(4x4,3x3) plain ",
                                             "conv F(2x2,3x3) plain "};
enum { N_FORMS = sizeof winograd_forms / sizeof *winograd_forms };

/* Whose name a kernel has: the longest that it begins with; -1: none's. */
static int form_of(const char *kernel) {
    for (int i = N_FORMS; i-- > 0;)
        if (!strncmp(kernel, winograd_forms[i], strlen(winograd_forms[i]))) return i;
    return -1;
}

static struct conv_shape winograd_shape(unsigned *seed, bool deep) {
    struct conv_shape s = {.n = 1 + (int)pick(seed, 3), .groups = 1, .kh = 3, .kw = 3};
    s.sh = s.sw = s.dh = s.dw = 1;
    int channels = deep ? 177 : 33, most = deep ? 8 : 16;
    s.c = channels + (int)pick(seed, 60), s.o = channels + (int)pick(seed, 90);
    s.h = 6 + (int)pick(seed, most), s.w = 6 + (int)pick(seed, most);
    s.pt = (int)pick(seed, 3), s.pl = (int)pick(seed, 3), s.pb = (int)pick(seed, 3),
    s.pr = (int)pick(seed, 3);
    s.act = pick(seed, MO_ACT_COUNT);
    s.residual = (int)pick(seed, 3);
    return s;
}

/* Both sizes of tiles, filters transformed when packed and as the kernel goes (one part and several), with
 * every remainder of a tile, lopsided pads, batches, channel tails. */
static void winograd_matches(void **state) {
    (void)state;
    unsigned seed = 6, uses[N_FORMS] = {0};
    for (unsigned i = 0; i < 120; i++) {
        struct conv_shape s = winograd_shape(&seed, i % 4 == 1);
        if (i % 12 == 1) s.n = s.pt = s.pl = s.pb = s.pr = 1, s.h = s.w = 6, s.c += 80; /* F(2x2) is best */
        struct conv_case c;
        assert_true(conv_case_open(&c, &s, MO_C16, i));
        bool taken = mo_family_winograd.layouts(c.graph, c.node);
        conv_case_close(&c);
        int form = taken ? form_of(check_shape(&mo_family_winograd, &s, MO_C16, i)) : -1;
        if (form >= 0) uses[form]++;
    }
    for (int i = 0; i < N_FORMS; i++)
        if (uses[i] < 3) fail_msg("%s: %u cases", winograd_forms[i], uses[i]);
}

static void exact_models_take_the_plain_sum(void **state) {
    (void)state;
    struct conv_shape s = {1, 64, 28, 28, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0};
    struct conv_case c;
    char fast[256], exact[256];
    assert_true(conv_case_open(&c, &s, MO_C16, 1));
    assert_int_equal(mo_family_winograd.layouts(c.graph, c.node), MO_CAN_C16);
    assert_true(mo_layer_signature(c.graph, c.node, fast, sizeof fast));
    c.graph->exact = true;
    assert_int_equal(mo_family_winograd.layouts(c.graph, c.node), 0);
    assert_true(mo_layer_signature(c.graph, c.node, exact, sizeof exact));
    assert_string_not_equal(fast, exact); /* compiled variants of the two are kept apart */
    conv_case_close(&c);
    s.kh = s.kw = 1; /* Strassen's algorithm */
    s.pt = s.pl = s.pb = s.pr = 0;
    assert_true(conv_case_open(&c, &s, MO_C16, 1));
    assert_true(mo_layer_signature(c.graph, c.node, fast, sizeof fast));
    c.graph->exact = true;
    assert_true(mo_layer_signature(c.graph, c.node, exact, sizeof exact));
    assert_string_not_equal(fast, exact);
    conv_case_close(&c);
    s.kh = s.kw = 3;
    s.sh = s.sw = 3; /* nothing but the plain sum there: one signature */
    assert_true(conv_case_open(&c, &s, MO_C16, 1));
    assert_true(mo_layer_signature(c.graph, c.node, fast, sizeof fast));
    c.graph->exact = true;
    assert_true(mo_layer_signature(c.graph, c.node, exact, sizeof exact));
    assert_string_equal(fast, exact);
    conv_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_matches),
        cmocka_unit_test(narrow_maps_match),
        cmocka_unit_test(pointwise_matches),
        cmocka_unit_test(depthwise_matches),
        cmocka_unit_test(first_matches),
        cmocka_unit_test(first_matches_in_bands),
        cmocka_unit_test(groups_match),
        cmocka_unit_test(groups_reach_what_is_theirs),
        cmocka_unit_test(depthwise_windows_match),
        cmocka_unit_test(odd_layers_are_refused),
        cmocka_unit_test(winograd_matches),
        cmocka_unit_test(exact_models_take_the_plain_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
