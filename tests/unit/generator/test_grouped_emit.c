/* SPDX-License-Identifier: Apache-2.0
 * test_grouped_emit.c - the generator's kernels for groups of any width, compared with the reference on every
 * level.  Skipped where there is no compiler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/family/walk.h"
#include "tests/unit/generator/emit_case.h"
#include "tests/unit/kernels/conv_case.h"
#include "variants/conv_geometry.h"

static struct mo_env env;
static const struct mo_emit_family *const family = &mo_emit_family_grouped;

/* Point `which` of the family, in ranges of units that are one, and several. */
static void check(const char *compiler, const struct conv_shape *s, enum mo_isa isa, int which) {
    struct conv_case c;
    struct mo_problem p;
    struct mo_point points[MO_MAX_POINTS];
    char why[300];
    moire_error err = {0};
    assert_true(conv_case_open(&c, s, MO_C16, (unsigned)which + 1));
    if (!mo_problem_from_node(c.graph, c.node, isa, &p) || !family->takes(&p))
        fail_msg("%s, %s: not taken", mo_isa_name(isa), conv_case_text(s));
    const int n = family->points(&p, points, 12);
    assert_true(n > 0);
    const struct mo_variant *v =
        emit_case_build(&env, compiler, family, &p, &points[which % n], why, sizeof why);
    if (!v) fail_msg("%s: %s", p.signature, why);
    struct mo_region *region = mo_region_create(&env);
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

static const struct conv_shape shapes[] = {
    /* whole groups in a vector, and blocks that they do not fill */
    {2, 22, 7, 9, 22, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 11, MO_ACT_RELU, 0},
    {1, 128, 14, 14, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 32, MO_ACT_RELU, 0},
    {2, 52, 9, 8, 52, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 13, MO_ACT_NONE, 1},
    {1, 104, 13, 15, 104, 3, 3, 2, 1, 1, 1, 1, 0, 1, 1, 13, MO_ACT_GELU, 2},
    /* vectors with channels of several groups: odd and even numbers of them */
    {2, 72, 14, 9, 72, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3, MO_ACT_RELU, 1},
    {1, 168, 15, 14, 168, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 7, MO_ACT_RELU, 2},
    {3, 48, 7, 7, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2, MO_ACT_CLIP, 0},
    {1, 15, 6, 7, 15, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 5, MO_ACT_NONE, 2},
    {1, 35, 8, 5, 35, 3, 5, 1, 1, 2, 1, 2, 2, 2, 2, 7, MO_ACT_LEAKY, 0},
    {2, 60, 6, 6, 60, 3, 3, 1, 1, 1, 2, 1, 2, 1, 2, 6, MO_ACT_SILU, 1},
    {1, 51, 5, 9, 51, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1, 3, MO_ACT_RELU, 0},
    {1, 120, 9, 7, 120, 5, 3, 1, 1, 1, 1, 2, 1, 2, 1, 3, MO_ACT_RELU, 1},
    /* whole blocks; other widths out than in; a filter of one tap, flat and not */
    {2, 96, 7, 7, 96, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3, MO_ACT_RELU, 1},
    {1, 24, 7, 8, 60, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3, MO_ACT_NONE, 1},
    {2, 40, 6, 7, 15, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0, 5, MO_ACT_HSWISH, 0},
    {2, 72, 5, 7, 72, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 3, MO_ACT_TANH, 2},
    {1, 56, 9, 7, 56, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0, 7, MO_ACT_RELU, 0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void every_shape(const char *compiler, int step) {
    if (!emit_case_have(&env, compiler)) skip();
    for (int i = 0, k = 0; i < N_SHAPES; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa), k++)
            if (k % step == 0) check(compiler, &shapes[i], isa, i);
}

static void gcc_kernels_match(void **state) {
    (void)state;
    every_shape("gcc", 1);
}

static void clang_kernels_match(void **state) {
    (void)state;
    every_shape("clang", 4);
}

/* Every width from 2 to 40, in odd numbers of groups, on the levels by turns; what no vector can be made for
 * is refused. */
static void every_width_matches(void **state) {
    (void)state;
    if (!emit_case_have(&env, "gcc")) skip();
    int isa = -1;
    for (int width = 2; width <= 40; width++) {
        isa = mo_isa_next(isa);
        if (isa == MO_ISA_COUNT) isa = mo_isa_next(-1);
        const int groups = width < 8 ? 9 : 3, stride = 1 + width % 2;
        const struct conv_shape s = {1 + width % 3,
                                     width * groups,
                                     5,
                                     8,
                                     width * groups,
                                     3,
                                     3,
                                     stride,
                                     stride,
                                     1,
                                     1,
                                     1,
                                     1,
                                     1,
                                     1,
                                     groups,
                                     width % 2 ? MO_ACT_RELU : MO_ACT_NONE,
                                     width % 3};
        check("gcc", &s, isa, width);
    }
}

/* What the family does not take. */
static void others_are_refused(void **state) {
    (void)state;
    static const struct conv_shape others[] = {
        {1, 40, 7, 7, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 40, MO_ACT_NONE, 0}, /* depthwise */
        {1, 40, 7, 7, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 0},
        {1, 64, 9, 9, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 32, MO_ACT_NONE, 0}, /* 16 groups in a vector */
        {1, 48, 9, 19, 48, 3, 9, 1, 1, 1, 1, 1, 1, 1, 1, 3, MO_ACT_NONE, 0}, /* nine weights in registers */
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct conv_case c;
        struct mo_problem p;
        assert_true(conv_case_open(&c, &others[i], MO_C16, 1));
        if (mo_problem_from_node(c.graph, c.node, MO_ISA_AVX512, &p)) assert_false(family->takes(&p));
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
        cmocka_unit_test(every_width_matches),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, open_case, emit_case_close);
}
