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
#include "runtime/ops/qconv.h"
#include "tests/unit/kernels/emit_case.h"
#include "variants/conv_geometry.h"
#include "variants/small_args.h"

/* Of a product of matrices: n x w rows of c columns, by c x o; kh is 0. */
struct shape {
    int n, c, h, w, o, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr, groups, x_zero, y_zero;
    moire_dtype to;
    enum mo_act act;
    const char *family;
};
static const struct shape shapes[] = {
    {1, 32, 14, 14, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, MOIRE_U8, MO_ACT_RELU, "direct"},
    {2, 40, 7, 7, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 117, 3, MOIRE_U8, MO_ACT_NONE, "direct"},
    {1, 16, 9, 11, 48, 3, 5, 2, 1, 1, 2, 0, 2, 1, 1, 1, 255, -7, MOIRE_I8, MO_ACT_CLIP, "direct"},
    {2, 64, 6, 9, 96, 3, 3, 1, 2, 1, 1, 1, 1, 1, 0, 2, 128, 0, MOIRE_F32, MO_ACT_GELU, "direct"},
    {1, 64, 5, 6, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 8, 12, 90, MOIRE_U8, MO_ACT_HSWISH, "direct"},
    {2, 3, 23, 20, 40, 7, 7, 2, 2, 1, 1, 3, 3, 3, 3, 1, 114, 0, MOIRE_U8, MO_ACT_RELU, "direct"},
    {1, 33, 4, 3, 20, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 1, 50, 200, MOIRE_U8, MO_ACT_NONE, "direct"},
    {2, 40, 14, 14, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 40, 0, 0, MOIRE_U8, MO_ACT_RELU, "depthwise"},
    {1, 24, 15, 12, 24, 5, 5, 2, 2, 1, 1, 2, 1, 2, 2, 24, 130, 7, MOIRE_U8, MO_ACT_SILU, "depthwise"},
    {1, 16, 9, 11, 16, 3, 3, 2, 2, 1, 1, 0, 1, 1, 0, 16, 3, -9, MOIRE_I8, MO_ACT_NONE, "depthwise"},
    {2, 48, 7, 23, 48, 7, 6, 1, 1, 1, 1, 3, 3, 3, 2, 48, 77, 0, MOIRE_F32, MO_ACT_NONE, "depthwise"},
    {2, 24, 9, 13, 80, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 77, 128, MOIRE_U8, MO_ACT_NONE, "pointwise"},
    {1, 48, 9, 13, 40, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0, 1, 0, 0, MOIRE_F32, MO_ACT_NONE, "pointwise"},
    {1, 32, 1, 1, 20, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 9, 0, MOIRE_U8, MO_ACT_SIGMOID, "pointwise"},
    {2, 72, 8, 7, 24, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, -128, MOIRE_I8, MO_ACT_RELU, "pointwise"},
    {1, 48, 1, 7, 32, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 31, 0, MOIRE_U8, MO_ACT_RELU, "gemm"},
    {2, 64, 1, 23, 80, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 128, 121, MOIRE_U8, MO_ACT_NONE, "gemm"},
    {1, 32, 1, 30, 56, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 5, 9, MOIRE_U8, MO_ACT_NONE, "gemm"},
    {1, 80, 1, 3, 37, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, -3, MOIRE_I8, MO_ACT_NONE, "gemm"},
    {2, 96, 1, 29, 41, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 99, 0, MOIRE_F32, MO_ACT_TANH, "gemm"},
    {1, 16, 6, 5, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 60, 5, MOIRE_U8, MO_ACT_NONE, "pointwise"},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, POINTS = 3 };

static struct mo_env env;

/* --- a layer --- */
static int add_tensor(struct mo_graph *g, moire_dtype type, bool constant, const struct mo_shape *shape) {
    struct mo_tensor *t =
        constant ? mo_graph_add_const(g, "t", type, shape) : mo_graph_add_tensor(g, "t", type, shape);
    assert_non_null(t);
    if (!constant && shape->rank == 4) t->layout = MO_C16;
    return t->id;
}

static void set_int(struct mo_graph *g, struct mo_node *node, const char *name, int value) {
    mo_node_add_attr(g, node, name, MO_ATTR_INT)->i = value;
}

static void set_ints(struct mo_graph *g, struct mo_node *node, const char *name, int n, const int *values) {
    int64_t *ints = mo_region_array(g->region, (size_t)n, sizeof *ints);
    for (int i = 0; i < n; i++)
        ints[i] = values[i];
    struct mo_attr *a = mo_node_add_attr(g, node, name, MO_ATTR_INTS);
    a->n = n;
    a->ints = ints;
}

static int extent(int in, int k, int s, int d, int pads) {
    return (in + pads - (k - 1) * d - 1) / s + 1;
}

static void add_window(struct mo_graph *g, struct mo_node *node, const struct shape *s) {
    const int oh = extent(s->h, s->kh, s->sh, s->dh, s->pt + s->pb),
              ow = extent(s->w, s->kw, s->sw, s->dw, s->pl + s->pr);
    node->in[MO_QCONV_X] = add_tensor(g, MOIRE_U8, false, &(struct mo_shape){4, {s->n, s->c, s->h, s->w}});
    node->in[MO_QCONV_WEIGHTS] =
        add_tensor(g, MOIRE_I8, true, &(struct mo_shape){4, {s->o, s->c / s->groups, s->kh, s->kw}});
    node->out[0] = add_tensor(g, s->to, false, &(struct mo_shape){4, {s->n, s->o, oh, ow}});
    set_ints(g, node, "strides", 2, (int[]){s->sh, s->sw});
    set_ints(g, node, "dilations", 2, (int[]){s->dh, s->dw});
    set_ints(g, node, "pads", 4, (int[]){s->pt, s->pl, s->pb, s->pr});
    set_int(g, node, "group", s->groups);
}

static void add_matrices(struct mo_graph *g, struct mo_node *node, const struct shape *s) {
    node->in[MO_QCONV_X] = add_tensor(g, MOIRE_U8, false, &(struct mo_shape){3, {s->n, s->w, s->c}});
    node->in[MO_QCONV_WEIGHTS] = add_tensor(g, MOIRE_I8, true, &(struct mo_shape){2, {s->o, s->c}});
    node->out[0] = add_tensor(g, s->to, false, &(struct mo_shape){3, {s->n, s->w, s->o}});
}

static struct mo_graph *graph_of(const struct shape *s) {
    struct mo_graph *g = mo_graph_create(&env);
    struct mo_node *node = mo_graph_add_node(g, "layer", s->kh ? "QConv" : "QMatMul", "moire", 4, 1);
    (s->kh ? add_window : add_matrices)(g, node, s);
    node->in[MO_QCONV_FACTOR] = add_tensor(g, MOIRE_F32, true, &(struct mo_shape){1, {s->o}});
    node->in[MO_QCONV_BIAS] = add_tensor(g, MOIRE_F32, true, &(struct mo_shape){1, {s->o}});
    node->fuse = (struct mo_fuse){.act = s->act, .a = -0.6f, .b = 0.9f, .residual = -1};
    if (s->act == MO_ACT_HSWISH) node->fuse.a = 1.0f / 6, node->fuse.b = 0.5f;
    set_int(g, node, "x_zero", s->x_zero);
    set_int(g, node, "to", s->to);
    if (s->to != MOIRE_F32) {
        mo_node_add_attr(g, node, "y_scale", MO_ATTR_FLOAT)->f = 0.02f;
        set_int(g, node, "y_zero", s->y_zero);
    }
    mo_graph_index(g);
    return g;
}

/* --- its kernels --- */
static const struct mo_emit_family *family_of(const struct mo_problem *p) {
    for (int i = 0; mo_emit_families()[i]; i++)
        if (mo_emit_families()[i]->takes(p)) return mo_emit_families()[i];
    return NULL;
}

/* Opens the layer's harness, with what the built-in kernel computes; false: this level multiplies no bytes.
 * With `pairs` it is for processors of the level that multiply int16 only. */
static bool open_layer(const struct shape *s, enum mo_isa isa, bool pairs, struct mo_layer *layer,
                       struct mo_harness *h) {
    struct mo_problem p;
    moire_error err = {0};
    struct mo_graph *g = graph_of(s);
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

static int check_layer(const char *compiler, const struct shape *s, enum mo_isa isa, bool pairs, int which) {
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
    for (int i = 0, k = 0; i < N_SHAPES; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa), k++)
            if (k % step == 0) {
                checked += check_layer(compiler, &shapes[i], (enum mo_isa)isa, false, i);
                if (isa == MO_ISA_AVX2) checked += check_layer(compiler, &shapes[i], isa, true, i);
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
    if (!open_layer(&shapes[0], isa, false, &layer, &h)) skip();
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
    struct shape s = shapes[0], fills = shapes[0];
    fills.x_zero = 7;
    s.act = MO_ACT_SILU;
    const struct shape *each[] = {&shapes[0], &s, &fills};
    for (int i = 0; i < 3; i++) {
        struct mo_graph *g = graph_of(each[i]);
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
