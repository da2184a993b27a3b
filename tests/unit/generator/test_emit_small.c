/* SPDX-License-Identifier: Apache-2.0
 * test_emit_small.c - the generator's kernels of 8-bit numbers: points of the families are emitted, compiled,
 * loaded and examined as the search does it, against exact sums and against the built-in kernel.  Skipped
 * where there is no compiler or no instruction that multiplies bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "codegen/search/harness.h"
#include "runtime/ops/moire/qconv.h"
#include "tests/unit/generator/emit_case.h"
#include "tests/unit/generator/small_case.h"
#include "variants/conv_geometry.h"
#include "variants/small_args.h"

enum { POINTS = 3 };

static struct mo_env env;

static const struct mo_emit_family *family_of(const struct mo_problem *p) {
    for (int i = 0; mo_emit_families()[i]; i++)
        if (mo_emit_families()[i]->takes(p)) return mo_emit_families()[i];
    return NULL;
}

/* Opens the layer's harness, with what the built-in kernel computes; false: this level multiplies no bytes.
 * With `pairs` it is for processors of the level that multiply int16 only. */
static bool open_layer(const struct small_shape *s, enum mo_isa isa, bool pairs, struct mo_layer *layer,
                       struct mo_harness *h) {
    struct mo_problem p;
    moire_error err = {0};
    struct mo_graph *g = small_case_graph(&env, s);
    const bool is_one = mo_problem_from_node(g, g->nodes[0], isa, &p);
    assert_int_equal(is_one, mo_isa_dot(isa) != MO_DOT_NONE);
    if (is_one) {
        if (pairs) p.dot = MO_DOT_AVX2;
        assert_int_equal(mo_layer_create(g, g->nodes[0], &p, layer, &err), MOIRE_OK);
        if (mo_harness_create(&env, layer, h, &err)) fail_msg("%s", err.message);
        assert_non_null(h->step.compiled_params);
        struct mo_runnable built_in = mo_harness_generic(h);
        if (!mo_verify(h, &built_in, &err)) fail_msg("%s: built in: %s", p.signature, err.message);
        assert_int_equal(mo_harness_keep_golden(h, &err), MOIRE_OK);
    }
    mo_graph_destroy(g);
    return is_one;
}

static void close_layer(struct mo_layer *layer, struct mo_harness *h) {
    mo_harness_destroy(h);
    mo_layer_destroy(layer);
}

static struct mo_runnable runnable_of(struct mo_harness *h, const struct mo_variant *v) {
    moire_error err = {0};
    if (mo_harness_pack(h, v->packing, &err)) fail_msg("%s", err.message);
    return (struct mo_runnable){
        .run = v->run, .units = v->units, .scratch_bytes = v->scratch_bytes, .packing = v->packing};
}

static int check_layer(const char *compiler, const struct small_shape *s, enum mo_isa isa, bool pairs,
                       int which) {
    struct mo_layer layer;
    struct mo_harness h;
    char why[300];
    moire_error err = {0};
    if (!open_layer(s, isa, pairs, &layer, &h)) return 0;
    const struct mo_problem *p = &layer.problem;
    const struct mo_emit_family *family = family_of(p);
    assert_string_equal(family->name, s->family);
    struct mo_point points[MO_MAX_POINTS];
    const int n = family->points(p, points, 12);
    assert_true(n > 0);
    for (int i = 0; i < POINTS; i++) {
        const struct mo_point *point = &points[(which + i * 5) % n];
        const struct mo_variant *v = emit_case_build(&env, compiler, family, p, point, why, sizeof why);
        if (!v) fail_msg("%s: %s", p->signature, why);
        struct mo_runnable r = runnable_of(&h, v);
        if (!mo_verify(&h, &r, &err))
            fail_msg("%s (%s), %s: %s", v->name, compiler, p->signature, err.message);
    }
    close_layer(&layer, &h);
    return 1;
}

static void every_shape(const char *compiler, int step) {
    int checked = 0;
    if (!emit_case_have(&env, compiler)) skip();
    for (int i = 0, k = 0; i < small_n_shapes; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa), k++)
            if (k % step == 0) {
                checked += check_layer(compiler, &small_shapes[i], (enum mo_isa)isa, false, i);
                if (isa == MO_ISA_AVX2) checked += check_layer(compiler, &small_shapes[i], isa, true, i);
            }
    if (!checked) skip();
}

static void gcc_kernels_match(void **state) {
    (void)state;
    every_shape("gcc", 1);
}

static void clang_kernels_match(void **state) {
    (void)state;
    every_shape("clang", 4);
}

/* --- the examination finds what is wrong --- */
static struct mo_runnable sound; /* of the kernel below */
static int wrong_byte;           /* of the output; the sound kernel's value is moved by two steps */

static void off_by_two(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    sound.run(args, begin, end, scratch);
    uint8_t *y = args->out[0];
    if (!begin) y[wrong_byte] = (uint8_t)(y[wrong_byte] ^ 2);
}

static void a_wrong_byte_is_found(void **state) {
    (void)state;
    struct mo_layer layer;
    struct mo_harness h;
    moire_error err = {0};
    const enum mo_isa isa = mo_isa_detect();
    if (!open_layer(&small_shapes[0], isa, false, &layer, &h)) skip();
    sound = mo_harness_generic(&h);
    struct mo_runnable r = sound;
    assert_true(mo_verify(&h, &r, &err));
    r.run = off_by_two;
    wrong_byte = 16 * 14 * 5 + 9; /* no point of the sample needs to be it */
    assert_false(mo_verify(&h, &r, &err));
    close_layer(&layer, &h);
}

/* The zero point shapes no code but where pads hold it; nor do scales or the activation. */
static void signatures_have_shapes_only(void **state) {
    (void)state;
    char text[3][256];
    struct small_shape s = small_shapes[0], fills = small_shapes[0];
    fills.x_zero = 7;
    s.act = MO_ACT_SILU;
    const struct small_shape *each[] = {&small_shapes[0], &s, &fills};
    for (int i = 0; i < 3; i++) {
        struct mo_graph *g = small_case_graph(&env, each[i]);
        assert_true(mo_layer_signature(g, g->nodes[0], text[i], sizeof text[i]));
        mo_graph_destroy(g);
    }
    assert_string_equal(text[0], "conv:u8>u8:n1:c32:h14:w14:o32:k3x3:s1x1:p1,1,1,1:d1x1:g1:c16>c16");
    assert_string_equal(text[1], text[0]);
    assert_string_equal(text[2], "conv:u8>u8:n1:c32:h14:w14:o32:k3x3:s1x1:p1,1,1,1:d1x1:g1:fill:c16>c16");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcc_kernels_match),
        cmocka_unit_test(clang_kernels_match),
        cmocka_unit_test(a_wrong_byte_is_found),
        cmocka_unit_test(signatures_have_shapes_only),
    };
    env = mo_env_default();
    return cmocka_run_group_tests(tests, emit_case_open, emit_case_close);
}
