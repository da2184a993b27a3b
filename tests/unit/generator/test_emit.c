/* SPDX-License-Identifier: Apache-2.0
 * test_emit.c - the generator's kernels: points of every family and instruction set are emitted, compiled,
 * loaded and compared with the reference.  Skipped where there is no compiler. */
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
#include "codegen/family/walk.h"
#include "tests/unit/kernels/conv_case.h"
#include "tests/unit/generator/emit_case.h"
#include "tests/unit/kernels/gemm_case.h"
#include "variants/conv_geometry.h"

static struct mo_env env;

static bool have(const char *compiler) {
    return emit_case_have(&env, compiler);
}

static const struct mo_variant *build(const char *compiler, const struct mo_emit_family *family,
                                      const struct mo_problem *p, const struct mo_point *point) {
    char why[300];
    const struct mo_variant *v = emit_case_build(&env, compiler, family, p, point, why, sizeof why);
    if (!v) fail_msg("%s: %s", p->signature, why);
    return v;
}

static const struct mo_emit_family *family_of(const struct mo_problem *p) {
    for (int i = 0; mo_emit_families()[i]; i++)
        if (mo_emit_families()[i]->takes(p)) return mo_emit_families()[i];
    return NULL;
}

enum { HALVES = -1, FETCHES = -2 };

/* Point `which` of a family; parts > 1: in so many parts of the input channels, and with folded broadcasts
 * where the level has them, which search points of small layers do not ask for.  HALVES: the first point on
 * vectors of half the width.  FETCHES: point `which` of those that prefetch weights. */
static struct mo_point choose(const struct mo_emit_family *family, const struct mo_problem *p, int which,
                              int parts) {
    struct mo_point points[MO_MAX_POINTS];
    int n = family->points(p, points, 12);
    if (n < 1) fail_msg("%s: no points", p->signature);
    while (parts == HALVES && which < n && !points[which].knob[MO_KNOB_HALVES])
        which++;
    if (parts == HALVES && which >= n) fail_msg("%s: no point on halves", p->signature);
    int fetching = 0;
    for (int i = 0; i < n && parts == FETCHES; i++)
        if (points[i].knob[MO_KNOB_PREFETCH]) points[fetching++] = points[i];
    if (parts == FETCHES && !(n = fetching)) fail_msg("%s: no point that prefetches", p->signature);
    struct mo_point point = points[which % n];
    if (parts > 1) {
        point.knob[MO_KNOB_PARTS] = parts;
        point.knob[MO_KNOB_FOLD] = p->isa == MO_ISA_AVX512;
    }
    return point;
}

static void check_conv(const char *compiler, const struct conv_shape *s, enum mo_layout in,
                       const char *family_name, enum mo_isa isa, int which, int parts) {
    struct conv_case c;
    struct mo_problem p;
    assert_true(conv_case_open(&c, s, in, (unsigned)which + 1));
    if (!mo_problem_from_node(c.graph, c.node, isa, &p)) fail_msg("%s: no problem", conv_case_text(s));
    const struct mo_emit_family *family = family_of(&p);
    assert_string_equal(family->name, family_name);
    struct mo_point point = choose(family, &p, which, parts);
    const struct mo_variant *v = build(compiler, family, &p, &point);
    struct mo_region *region = mo_region_create(&env);
    moire_error err = {0};
    if (mo_pack_weights(v->packing, c.graph, c.node, region, &c.args.weights, &c.args.bias, &err))
        fail_msg("%s", err.message);
    for (int ranges = 1; ranges <= 7; ranges += 3) {
        conv_case_run(&c, v->run, v->units, v->scratch_bytes, ranges);
        const char *wrong = conv_case_check(&c);
        if (wrong) fail_msg("%s (%s), %s: %s", v->name, compiler, conv_case_text(s), wrong);
    }
    mo_region_destroy(region);
    conv_case_close(&c);
}

static const struct {
    struct conv_shape shape;
    const char *family;
} shapes[] = {
    {{1, 32, 14, 14, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0}, "direct"},
    {{2, 40, 7, 7, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_CLIP, 2}, "direct"},
    {{1, 16, 9, 11, 48, 3, 5, 2, 1, 1, 2, 0, 2, 1, 1, 1, MO_ACT_SILU, 1}, "direct"},
    {{2, 64, 6, 9, 96, 3, 3, 1, 2, 1, 1, 1, 1, 1, 0, 2, MO_ACT_GELU, 2}, "direct"},
    {{1, 64, 5, 6, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 8, MO_ACT_LEAKY, 0}, "direct"},
    {{2, 24, 9, 13, 80, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_HSWISH, 1}, "pointwise"},
    {{1, 48, 9, 13, 40, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0, 1, MO_ACT_NONE, 1}, "pointwise"},
    {{1, 32, 1, 1, 20, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_SIGMOID, 0}, "pointwise"},
    {{1, 72, 8, 7, 24, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_SILU, 2}, "pointwise"},
    {{2, 16, 5, 9, 4, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_RELU, 0}, "pointwise"},
    {{2, 40, 9, 13, 24, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_CLIP, 1 | CONV_GATED}, "pointwise"},
    {{2, 72, 3, 4, 100, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_SILU, 2 | CONV_GATED}, "pointwise"},
    {{1, 48, 9, 13, 56, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0, 1, MO_ACT_NONE, CONV_GATED}, "pointwise"},
    {{1, 24, 9, 8, 72, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 2}, "direct"},
    {{2, 40, 14, 14, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 40, MO_ACT_CLIP, 0}, "depthwise"},
    {{1, 24, 15, 12, 24, 5, 5, 2, 2, 1, 1, 2, 1, 2, 2, 24, MO_ACT_SILU, 1}, "depthwise"},
    {{2, 3, 23, 20, 40, 7, 7, 2, 2, 1, 1, 3, 3, 3, 3, 1, MO_ACT_RELU, 0}, "first"},
    {{1, 1, 17, 19, 16, 5, 5, 1, 1, 1, 1, 0, 1, 2, 3, 1, MO_ACT_TANH, 2}, "first"},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void every_shape(const char *compiler, int step) {
    if (!have(compiler)) skip();
    for (int i = 0, k = 0; i < N_SHAPES; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa), k++)
            if (k % step == 0)
                check_conv(compiler, &shapes[i].shape, shapes[i].shape.c <= 8 ? MO_PLAIN : MO_C16,
                           shapes[i].family, isa, k, 1);
}

static void gcc_kernels_match(void **state) {
    (void)state;
    every_shape("gcc", 2);
}

static void clang_kernels_match(void **state) {
    (void)state;
    every_shape("clang", 5);
}

static void halves_match(void **state) {
    static const struct conv_shape odd[] = {
        {1, 20, 9, 7, 24, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_GELU, 2},
        {2, 33, 5, 8, 3, 1, 1, 2, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_RELU, 1},
        {1, 16, 8, 9, 18, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
    };
    (void)state;
    if (!have("gcc") || !mo_isa_covers(mo_isa_detect(), MO_ISA_AVX512)) skip();
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        check_conv("gcc", &odd[i], MO_C16, odd[i].kh > 1 ? "direct" : "pointwise", MO_ISA_AVX512, 0, HALVES);
}

/* Which form is faster depends on the core: a search that measures two points must see both. */
static void both_forms_come_first(void **state) {
    static const int depth[] = {48, 72, 96, 144};
    (void)state;
    for (size_t i = 0; i < sizeof depth / sizeof *depth; i++) {
        struct conv_shape s = {1, depth[i], 56, 56, 24, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_NONE, 0};
        struct conv_case c;
        struct mo_problem p;
        struct mo_point points[MO_MAX_POINTS];
        assert_true(conv_case_open(&c, &s, MO_C16, 1));
        assert_true(mo_problem_from_node(c.graph, c.node, MO_ISA_AVX512, &p));
        assert_true(family_of(&p)->points(&p, points, 12) > 2);
        assert_int_not_equal(points[0].knob[MO_KNOB_HALVES], points[1].knob[MO_KNOB_HALVES]);
        conv_case_close(&c);
    }
}

/* Outputs so large that tiles fetch their lines first. */
static void large_outputs_match(void **state) {
    static const struct conv_shape large = {1, 16, 61, 73, 72, 1, 1, 1,           1,
                                            1, 1,  0,  0,  0,  0, 1, MO_ACT_CLIP, 1};
    (void)state;
    if (!have("gcc")) skip();
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
        check_conv("gcc", &large, MO_C16, "pointwise", isa, 1, 1);
}

static void check_gemm(const struct gemm_shape *s, enum mo_isa isa, int which, int parts) {
    struct gemm_case c;
    struct mo_problem p;
    gemm_case_open(&c, s);
    assert_true(mo_problem_from_node(c.graph, c.node, isa, &p));
    const struct mo_emit_family *family = family_of(&p);
    assert_string_equal(family->name, "gemm");
    struct mo_point point = choose(family, &p, which, parts);
    const struct mo_variant *v = build("gcc", family, &p, &point);
    assert_int_equal(
        mo_pack_weights(v->packing, c.graph, c.node, c.graph->region, &c.args.weights, &c.args.bias, NULL),
        MOIRE_OK);
    gemm_case_run(&c, v->run, v->units, v->scratch_bytes);
    const char *wrong = gemm_case_check(&c);
    if (wrong) fail_msg("%s: %s", v->name, wrong);
    gemm_case_close(&c);
}

static void gemm_kernels_match(void **state) {
    (void)state;
    if (!have("gcc")) skip();
    static const struct gemm_shape table[] = {{1, 40, 36, MO_ACT_NONE, 0, 0, 0, 0},
                                              {1, 64, 160, MO_ACT_RELU, 2, 0, 0, 0},
                                              {3, 33, 24, MO_ACT_GELU, 1, 0, 0, 0},
                                              {29, 48, 64, MO_ACT_GELU_TANH, 2, 0, 0, 0},
                                              {16, 37, 52, MO_ACT_RELU, 1, 0, 0, 0}};
    int k = 0;
    for (int i = 0; i < 5; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa), k++)
            check_gemm(&table[i], isa, k, 1);
}

/* Rows of slices: images apart, or rows apart. */
static void sliced_products_match(void **state) {
    (void)state;
    if (!have("gcc")) skip();
    static const struct gemm_shape table[] = {
        {3, 40, 36, MO_ACT_RELU, 1, 2, 24, 0}, {29, 48, 64, MO_ACT_GELU, 2, 3, 0, 64},
        {16, 37, 52, MO_ACT_RELU, 0, 2, 5, 7}, {6, 64, 52, MO_ACT_GELU, 0, 0, 11, 0},
        {31, 33, 24, MO_ACT_NONE, 1, 0, 0, 9}, {5, 40, 20, MO_ACT_RELU, 2, 0, 8, 12}};
    int k = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa), k++)
            check_gemm(&table[i], isa, k, 1);
}

/* Products of many row tiles, of which the first asks for the next weights: a set's, or so many bytes ahead;
 * also of batches in slices, and with columns that fill no block. */
static void products_that_fetch_match(void **state) {
    (void)state;
    if (!have("gcc")) skip();
    static const struct gemm_shape table[] = {{61, 80, 197, MO_ACT_GELU, 1, 0, 0, 0},
                                              {45, 64, 176, MO_ACT_NONE, 2, 3, 24, 16},
                                              {97, 33, 330, MO_ACT_RELU, 0, 2, 5, 7}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
            check_gemm(&table[i], isa, 0, FETCHES);
            check_gemm(&table[i], isa, 1, FETCHES);
        }
}

/* Filters of more taps than most have: patches of an image, and samples of sound, with and without pads. */
static void long_filters_match(void **state) {
    static const struct conv_shape longs[] = {
        {2, 3, 64, 96, 40, 32, 32, 32, 32, 1, 1, 0, 0, 0, 0, 1, MO_ACT_NONE, 0},
        {2, 1, 1, 403, 17, 1, 80, 1, 16, 1, 1, 0, 0, 0, 0, 1, MO_ACT_RELU, 0},
        {1, 2, 1, 131, 33, 1, 96, 1, 3, 1, 1, 0, 20, 0, 9, 1, MO_ACT_SILU, 1},
        {2, 24, 1, 115, 40, 1, 41, 1, 2, 1, 1, 0, 0, 0, 0, 1, MO_ACT_RELU, 2},
    };
    (void)state;
    if (!have("gcc")) skip();
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
            check_conv("gcc", &longs[i], longs[i].c <= 8 ? MO_PLAIN : MO_C16,
                       longs[i].c <= 8 ? "first" : "direct", isa, (int)i, 1);
}

/* A residual that lies otherwise than the result has no compiled kernel. */
static void odd_residuals_are_refused(void **state) {
    (void)state;
    struct gemm_shape s = {5, 40, 20, MO_ACT_RELU, 2, 0, 0, 12};
    struct gemm_case c;
    struct mo_problem p;
    gemm_case_open(&c, &s);
    assert_true(mo_problem_from_node(c.graph, c.node, MO_ISA_AVX2, &p));
    c.graph->tensors[c.node->in[3]]->alias = -1;
    assert_false(mo_problem_from_node(c.graph, c.node, MO_ISA_AVX2, &p));
    gemm_case_close(&c);
}

/* Sums that rest in the output between parts of the input channels. */
static void parts_match(void **state) {
    (void)state;
    if (!have("gcc")) skip();
    static const struct conv_shape convs[] = {
        {2, 64, 6, 9, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 1},
        {1, 128, 5, 7, 48, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_GELU, 0},
        {1, 128, 7, 5, 64, 3, 1, 2, 1, 1, 1, 1, 0, 0, 0, 2, MO_ACT_NONE, 0},
    };
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        for (int i = 0; i < 3; i++)
            check_conv("gcc", &convs[i], MO_C16, i == 1 ? "pointwise" : "direct", isa, isa + i, 2);
        check_gemm(&(struct gemm_shape){6, 64, 52, MO_ACT_RELU, 1, 0, 0, 0}, isa, isa, 4);
        check_gemm(&(struct gemm_shape){8, 96, 24, MO_ACT_GELU, 0, 0, 0, 0}, isa, isa + 1, 2);
        check_gemm(&(struct gemm_shape){6, 64, 52, MO_ACT_RELU, 1, 2, 16, 4}, isa, isa, 2);
    }
}

/* Points are legal, distinct and in order of predicted cost. */
static void points_are_ordered(void **state) {
    (void)state;
    struct conv_case c;
    struct mo_problem p;
    struct mo_point points[MO_MAX_POINTS];
    assert_true(conv_case_open(&c, &shapes[0].shape, MO_C16, 1));
    assert_true(mo_problem_from_node(c.graph, c.node, MO_ISA_AVX512, &p));
    int n = family_of(&p)->points(&p, points, MO_MAX_POINTS);
    assert_true(n >= 8);
    for (int i = 1; i < n; i++) {
        assert_true(points[i].cost_ns >= points[i - 1].cost_ns);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(points[i].knob, points[k].knob, sizeof points[i].knob);
    }
    conv_case_close(&c);
}

/* A level serves machines of its own family that have it or more; base serves all. */
static void levels_cover(void **state) {
    (void)state;
    for (int have = 0; have < MO_ISA_COUNT; have++) {
        enum mo_isa level = (enum mo_isa)have;
        assert_true(mo_isa_covers(level, MO_ISA_BASE) && mo_isa_covers(level, level));
        assert_int_equal(mo_isa_covers(level, MO_ISA_AVX2), have == MO_ISA_AVX2 || have == MO_ISA_AVX512);
        assert_int_equal(mo_isa_covers(level, MO_ISA_AVX512), have == MO_ISA_AVX512);
        assert_int_equal(mo_isa_covers(level, MO_ISA_NEON), have == MO_ISA_NEON);
    }
}

/* A profiler shows the layer: no function of any family has a bare name. */
static void functions_bear_their_layer(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        struct conv_case c;
        struct mo_problem p;
        char *text = NULL;
        size_t n = 0;
        const enum mo_layout in = shapes[i].shape.c <= 8 ? MO_PLAIN : MO_C16;
        assert_true(conv_case_open(&c, &shapes[i].shape, in, 1));
        assert_true(mo_problem_from_node(c.graph, c.node, MO_ISA_BASE, &p));
        const struct mo_point point = choose(family_of(&p), &p, 0, 1);
        FILE *out = open_memstream(&text, &n);
        assert_int_equal(family_of(&p)->emit(&p, &point, out, NULL), MOIRE_OK);
        fclose(out);
        assert_non_null(strstr(text, "#define NAMED(f) moire_conv_f32_n"));
        assert_non_null(strstr(text, "void NAMED(tile_b"));
        assert_non_null(strstr(text, "static void NAMED(run)("));
        assert_null(strstr(text, "void run("));
        free(text);
        conv_case_close(&c);
    }
}

static int open_case(void **state) {
    env = mo_env_default();
    return emit_case_open(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcc_kernels_match),
        cmocka_unit_test(clang_kernels_match),
        cmocka_unit_test(halves_match),
        cmocka_unit_test(both_forms_come_first),
        cmocka_unit_test(large_outputs_match),
        cmocka_unit_test(gemm_kernels_match),
        cmocka_unit_test(parts_match),
        cmocka_unit_test(points_are_ordered),
        cmocka_unit_test(sliced_products_match),
        cmocka_unit_test(odd_residuals_are_refused),
        cmocka_unit_test(products_that_fetch_match),
        cmocka_unit_test(long_filters_match),
        cmocka_unit_test(levels_cover),
        cmocka_unit_test(functions_bear_their_layer),
    };
    return cmocka_run_group_tests(tests, open_case, emit_case_close);
}
