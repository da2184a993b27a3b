/* SPDX-License-Identifier: Apache-2.0
 * test_strassen.c - the generator's Strassen kernels against the reference and against double precision.
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
#include "codegen/family/strassen.h"
#include "tests/unit/kernels/conv_case.h"
#include "tests/unit/generator/emit_case.h"
#include "tests/unit/kernels/gemm_case.h"
#include "variants/conv_geometry.h"

static struct mo_env env;
static const struct mo_emit_family *const family = &mo_emit_family_strassen;

static const struct mo_variant *build(const struct mo_problem *p, const int *knob, const char *compiler) {
    char why[300];
    struct mo_point point = {.cost_ns = 0};
    memcpy(point.knob, knob, MO_STRASSEN_KNOBS * sizeof *knob);
    assert_true(family->takes(p));
    const struct mo_variant *v = emit_case_build(&env, compiler, family, p, &point, why, sizeof why);
    if (!v) fail_msg("%s: %s", p->signature, why);
    return v;
}

/* The kernel of one point on a case, its weights packed. */
static const struct mo_variant *open_conv(struct conv_case *c, const struct conv_shape *s, enum mo_isa isa,
                                          const int *knob, const char *compiler) {
    struct mo_problem p;
    assert_true(conv_case_open(c, s, MO_C16, 7));
    assert_true(mo_problem_from_node(c->graph, c->node, isa, &p));
    const struct mo_variant *v = build(&p, knob, compiler);
    assert_int_equal(mo_pack_weights(v->packing, c->graph, c->node, c->graph->region, &c->args.weights,
                                     &c->args.bias, NULL),
                     MOIRE_OK);
    return v;
}

/* Odd numbers of pixels, of blocks in and out; batches; every order of epilogue; knobs (blocks, tiles, parts,
 * sets, prefetch, chunks) whose last chunks, register tiles, sets, groups and parts are shorter than the
 * others. */
static const struct {
    struct conv_shape shape;
    int knob[MO_ISA_COUNT][MO_STRASSEN_KNOBS];
} cases[] = {
    {{1, 128, 8, 8, 64, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_RELU, 0},
     {{1, 3, 1, 1, 0}, {1, 2, 1, 2, 1, 7}, {2, 1, 1, 1, 1, 11}}},
    {{2, 144, 5, 5, 80, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_SILU, 1},
     {{1, 2, 2, 1, 1}, {2, 1, 4, 1, 0}, {2, 1, 3, 1, 0}}},
    {{1, 176, 7, 9, 120, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_NONE, 2},
     {{1, 1, 1, 3, 0}, {1, 3, 1, 2, 0}, {4, 1, 1, 1, 1}}},
    {{1, 128, 9, 12, 64, 1, 1, 2, 3, 1, 1, 0, 0, 0, 0, 1, MO_ACT_RELU, 1},
     {{1, 2, 2, 1, 0}, {1, 2, 1, 1, 0}, {2, 1, 1, 2, 1}}},
    {{3, 128, 6, 7, 144, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_CLIP, 0},
     {{2, 2, 4, 2, 0, 21}, {2, 4, 3, 1, 0}, {4, 2, 4, 2, 0, 4}}},
    {{1, 272, 5, 7, 272, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_RELU, 1},
     {{1, 2, 1, 1, 0, 0, 1}, {2, 3, 1, 2, 1, 0, 1}, {4, 1, 2, 1, 1, 0, 1}}},
    {{2, 256, 6, 6, 320, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_NONE, 2},
     {{2, 1, 1, 1, 1, 0, 1}, {1, 2, 1, 1, 1, 3, 1}, {2, 1, 1, 3, 1, 0, 1}}},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void compare_all(const char *compiler, int step) {
    if (!emit_case_have(&env, compiler)) skip();
    for (int i = 0, n = 0; i < N_CASES; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa), n++) {
            if (n % step) continue;
            struct conv_case c;
            const struct mo_variant *v = open_conv(&c, &cases[i].shape, isa, cases[i].knob[isa], compiler);
            conv_case_run(&c, v->run, v->units, v->scratch_bytes, 1);
            const char *wrong = conv_case_check(&c);
            if (wrong) fail_msg("%s (%s), %s: %s", v->name, compiler, conv_case_text(&c.shape), wrong);
            size_t bytes = (size_t)c.y_floats * 4;
            float *whole = malloc(bytes);
            memcpy(whole, c.y, bytes);
            for (int parts = 2; parts <= 7; parts += 5) {
                conv_case_run(&c, v->run, v->units, v->scratch_bytes, parts);
                assert_memory_equal(whole, c.y, bytes);
            }
            free(whole);
            conv_case_close(&c);
        }
}

static void gcc_kernels_match(void **state) {
    (void)state;
    compare_all("gcc", 1);
}

static void clang_kernels_match(void **state) {
    (void)state;
    compare_all("clang", 5);
}

/* y = a b + c on plain rows with ReLU-like a, against double precision: the errors stay where those of a
 * direct sum are, a few 1e-7 of the output's rms. */
static void check_rows(int m, int k, int n, enum mo_isa isa, const int *knob) {
    struct mo_graph *g = mo_graph_create(&env);
    struct mo_shape as = {2, {m, k}}, bs = {2, {n, k}}, cs = {1, {n}}, ys = {2, {m, n}};
    struct mo_tensor *a = mo_graph_add_tensor(g, "a", MOIRE_F32, &as),
                     *b = mo_graph_add_const(g, "b", MOIRE_F32, &bs),
                     *c = mo_graph_add_const(g, "c", MOIRE_F32, &cs),
                     *y = mo_graph_add_tensor(g, "y", MOIRE_F32, &ys);
    struct mo_node *node = mo_graph_add_node(g, "fc", "Gemm", "", 3, 1);
    node->in[0] = a->id, node->in[1] = b->id, node->in[2] = c->id, node->out[0] = y->id;
    node->fuse.residual = -1;
    struct mo_attr *trans = mo_node_add_attr(g, node, "transB", MO_ATTR_INT);
    trans->i = 1;
    float *av = malloc((size_t)m * k * 4), *yv = malloc(((size_t)m * n + 16) * 4), *bv = b->data,
          *cv = c->data;
    for (int i = 0; i < m * k; i++)
        av[i] = fmaxf(0, (float)((i * 37 + 11) % 101) / 50 - 1);
    for (int i = 0; i < k * n; i++)
        bv[i] = (float)((i * 41 + 3) % 89) / 44 - 1;
    for (int i = 0; i < n; i++)
        cv[i] = (float)(i % 7);
    for (int i = 0; i < m * n + 16; i++)
        yv[i] = -777;
    struct mo_problem p;
    assert_true(mo_problem_from_node(g, node, isa, &p));
    const struct mo_variant *v = build(&p, knob, "gcc");
    struct mo_kargs args = {.in = {av, bv, cv}, .out = {yv}};
    assert_int_equal(mo_pack_weights(v->packing, g, node, g->region, &args.weights, &args.bias, NULL),
                     MOIRE_OK);
    void *scratch = aligned_alloc(64, (size_t)v->scratch_bytes);
    for (int64_t u = v->units - 1; u >= 0; u--)
        v->run(&args, u, u + 1, scratch);
    double squares = 0, worst = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = cv[j];
            for (int q = 0; q < k; q++)
                sum += (double)av[i * k + q] * bv[j * k + q];
            squares += sum * sum;
            worst = fmax(worst, fabs(sum - yv[i * n + j]));
        }
    print_message("%s: largest error %.2g of the output's rms\n", v->name, worst / sqrt(squares / m / n));
    assert_true(worst < 1e-5 * sqrt(squares / m / n));
    for (int i = 0; i < 16; i++)
        assert_true(yv[m * n + i] == -777);
    free(scratch);
    free(av);
    free(yv);
    mo_graph_destroy(g);
}

static void rows_match(void **state) {
    (void)state;
    if (!emit_case_have(&env, "gcc")) skip();
    static const int knob[MO_ISA_COUNT][MO_STRASSEN_KNOBS] = {
        {1, 2, 1, 2, 0}, {2, 1, 2, 1, 1}, {4, 2, 3, 2, 1}};
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        int four[MO_STRASSEN_KNOBS];
        memcpy(four, knob[isa], sizeof four);
        four[MO_STRASSEN_KNOB_SCHEME] = 1;
        check_rows(37, 144, 160, isa, knob[isa]);
        check_rows(64, 256, 128, isa, knob[isa]);
        check_rows(37, 272, 432, isa, four);
        check_rows(64, 512, 256, isa, four);
    }
}

/* Rows of slices: images apart, or rows apart. */
static void sliced_rows_match(void **state) {
    (void)state;
    if (!emit_case_have(&env, "gcc")) skip();
    static const int knob[MO_STRASSEN_SCHEMES][MO_ISA_COUNT][MO_STRASSEN_KNOBS] = {
        {{1, 2, 1, 2, 0}, {2, 1, 2, 1, 1}, {2, 2, 3, 2, 1}},
        {{1, 2, 1, 2, 0, 0, 1}, {2, 1, 2, 1, 1, 0, 1}, {4, 2, 3, 1, 1, 0, 1}}};
    static const struct gemm_shape table[] = {{19, 144, 80, MO_ACT_RELU, 1, 2, 24, 16},
                                              {37, 128, 64, MO_ACT_GELU, 0, 0, 5, 9},
                                              {19, 272, 272, MO_ACT_RELU, 1, 2, 24, 16},
                                              {37, 256, 320, MO_ACT_GELU, 0, 0, 5, 9}};
    for (int i = 0; i < 4; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
            struct gemm_case c;
            struct mo_problem p;
            gemm_case_open(&c, &table[i]);
            assert_true(mo_problem_from_node(c.graph, c.node, isa, &p));
            const struct mo_variant *v = build(&p, knob[i / 2][isa], "gcc");
            assert_int_equal(mo_pack_weights(v->packing, c.graph, c.node, c.graph->region, &c.args.weights,
                                             &c.args.bias, NULL),
                             MOIRE_OK);
            gemm_case_run(&c, v->run, v->units, v->scratch_bytes);
            const char *wrong = gemm_case_check(&c);
            if (wrong) fail_msg("%s: %s", v->name, wrong);
            gemm_case_close(&c);
        }
}

/* One NaN, one infinity: outputs of other pixels keep their bytes, those of the pixel itself are not finite.
 */
static void odd_values_stay_in_their_pairs(void **state) {
    (void)state;
    if (!emit_case_have(&env, "gcc")) skip();
    static const struct conv_shape s = {1, 128, 5, 8, 64, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_NONE, 0};
    static const int knob[MO_STRASSEN_KNOBS] = {1, 2, 1, 1, 0};
    enum { PIXELS = 40, PIXEL = 7 };
    struct conv_case c;
    const struct mo_variant *v = open_conv(&c, &s, mo_isa_detect(), knob, "gcc");
    conv_case_run(&c, v->run, v->units, v->scratch_bytes, 1);
    float *clean = malloc((size_t)c.y_floats * 4);
    memcpy(clean, c.y, (size_t)c.y_floats * 4);
    for (int i = 0; i < 2; i++) {
        float *at = &c.x[PIXEL * 16 + 3], saved = *at;
        *at = i ? INFINITY : NAN;
        conv_case_run(&c, v->run, v->units, v->scratch_bytes, 1);
        *at = saved;
        for (int k = 0; k < 4 * PIXELS * 16; k++) {
            int pixel = k / 16 % PIXELS;
            if (pixel == PIXEL) assert_false(isfinite(c.y[k]));
            if (pixel % (PIXELS / 2) != PIXEL) assert_memory_equal(&c.y[k], &clean[k], 4);
        }
    }
    free(clean);
    conv_case_close(&c);
}

/* What a scheme makes of numbers a[i] and b[j] is each output's sum of products, whatever they are: the
 * coefficients of every a[i] b[j] are those of the definition. */
static void schemes_are_products(void **state) {
    (void)state;
    for (int i = 0; i < MO_STRASSEN_SCHEMES; i++) {
        const struct mo_strassen_scheme *s = &mo_strassen_schemes[i];
        for (int c = 0; c < 2 * s->columns; c++)
            for (int a = 0; a < 2 * s->depth; a++)
                for (int b = 0; b < s->depth * s->columns; b++) {
                    int sum = 0, row = c / s->columns, column = c % s->columns;
                    for (int p = 0; p < s->products; p++)
                        sum += s->out[c][p] * s->left[p][a] * s->right[p][b];
                    bool term =
                        a / s->depth == row && a % s->depth == b / s->columns && b % s->columns == column;
                    assert_int_equal(sum, term);
                }
    }
}

/* Points are legal and in order of predicted cost, V stays in a private cache or a shared one; other layers
 * are not taken.
 */
static void points_are_ordered(void **state) {
    (void)state;
    struct mo_problem p = {.n = 1, .c = 2048, .h = 14, .w = 14, .o = 512, .oh = 14, .ow = 14};
    p.kh = p.kw = p.sh = p.sw = p.dh = p.dw = p.groups = 1;
    p.in_layout = p.out_layout = MO_C16;
    p.fuse.residual = -1;
    for (int isa = 0; isa < MO_ISA_COUNT; isa++) {
        struct mo_point points[MO_MAX_POINTS];
        struct mo_strassen s;
        p.isa = isa;
        int n = family->points(&p, points, MO_MAX_POINTS), large = 0;
        assert_true(n >= 3);
        for (int i = 0; i < n; i++) {
            assert_true(mo_strassen_describe(&p, &points[i], &s));
            const int64_t v = s.scheme->products * s.v_plane;
            assert_true(v <= (s.parts == 1 ? MO_STRASSEN_V_SHARED : MO_STRASSEN_V_BYTES));
            large += v > MO_STRASSEN_V_BYTES && s.chunks > 1;
            assert_true(s.v_plane % 4096 && s.m_plane % 4096);
            assert_true(i == 0 || points[i].cost_ns >= points[i - 1].cost_ns);
        }
        assert_true(large > 0);
        assert_int_equal(family->points(&p, points, 2), 2);
    }
    struct mo_problem deep = p; /* parts are not allowed before a late residual: only small chunks are left */
    struct mo_point points[MO_MAX_POINTS];
    deep.isa = MO_ISA_AVX512, deep.c = 262144, deep.fuse.residual = 2, deep.fuse.residual_last = true;
    assert_int_equal(family->points(&deep, points, MO_MAX_POINTS), 0);
    deep.c = 4096;
    for (int i = family->points(&deep, points, MO_MAX_POINTS); i-- > 0;)
        assert_int_equal(points[i].knob[MO_STRASSEN_KNOB_PARTS], 1);
    struct mo_problem other[4] = {p, p, p, p};
    other[0].exact = true, other[1].pl = 1, other[2].c = 2040, other[3].in_layout = MO_PLAIN;
    for (int i = 0; i < 4; i++)
        assert_false(family->takes(&other[i]));
}

/* When the layer may get more cores than the listed points of a packing have units, a point that feeds them
 * is added for each and no other changes. */
static void many_cores_get_a_point(void **state) {
    (void)state;
    struct mo_problem p = {.isa = MO_ISA_AVX512, .n = 1, .c = 1024, .h = 14, .w = 14, .o = 256, .oh = 14};
    p.ow = 14, p.kh = p.kw = p.sh = p.sw = p.dh = p.dw = p.groups = 1;
    p.in_layout = p.out_layout = MO_C16;
    p.fuse.residual = -1;
    struct mo_point few[MO_MAX_POINTS], many[MO_MAX_POINTS];
    struct mo_strassen s;
    p.cores = 2;
    int n = family->points(&p, few, MO_MAX_POINTS);
    p.cores = 64;
    int all = family->points(&p, many, MO_MAX_POINTS);
    assert_int_equal(all, n + 4); /* both schemes, panels of two and of four blocks */
    for (int i = 0; i < n; i++) {
        assert_memory_equal(few[i].knob, many[i].knob, sizeof few[i].knob);
        assert_true(many[i].units < 64 && !many[i].wide && !few[i].wide);
    }
    for (int w = n; w < all; w++) {
        assert_true(many[w].wide && many[w].units >= 64);
        assert_true(mo_strassen_describe(&p, &many[w], &s) && p.n * s.chunks * s.groups == many[w].units);
        for (int i = 0; i < n; i++)
            assert_true(many[i].packing != many[w].packing || many[i].part_ns > many[w].part_ns);
    }
    for (int w = n + 1; w < all; w++)
        assert_int_not_equal(many[w].packing, many[w - 1].packing);
    assert_int_equal(family->points(&p, many, n), n); /* no room */
}

static int open_case(void **state) {
    env = mo_env_default();
    return emit_case_open(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcc_kernels_match),
        cmocka_unit_test(clang_kernels_match),
        cmocka_unit_test(rows_match),
        cmocka_unit_test(sliced_rows_match),
        cmocka_unit_test(odd_values_stay_in_their_pairs),
        cmocka_unit_test(schemes_are_products),
        cmocka_unit_test(points_are_ordered),
        cmocka_unit_test(many_cores_get_a_point),
    };
    return cmocka_run_group_tests(tests, open_case, emit_case_close);
}
