/* SPDX-License-Identifier: Apache-2.0
 * wino_case.c - see wino_case.h. */
#include "tests/unit/generator/wino_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/generator/emit_case.h"
#include "variants/conv_geometry.h"

bool wino_case_have(const char *compiler) {
    struct mo_env env = mo_env_default();
    return emit_case_have(&env, compiler);
}

void wino_case_pack(struct wino_kernel *k) {
    assert_int_equal(mo_pack_weights(k->v->packing, k->c.graph, k->c.node, k->c.graph->region,
                                     &k->c.args.weights, &k->c.args.bias, NULL),
                     MOIRE_OK);
}

void wino_case_open(struct wino_kernel *k, const struct conv_shape *s, enum mo_isa isa, const char *compiler,
                    const struct mo_point *point, unsigned seed) {
    struct mo_env env = mo_env_default();
    char why[300];
    assert_true(conv_case_open(&k->c, s, MO_C16, seed));
    conv_case_allow_mixing(&k->c);
    assert_true(mo_problem_from_node(k->c.graph, k->c.node, isa, &k->p));
    assert_true(mo_emit_family_winograd.takes(&k->p));
    k->v = emit_case_build(&env, compiler, &mo_emit_family_winograd, &k->p, point, why, sizeof why);
    if (!k->v) fail_msg("%s: %s", conv_case_text(s), why);
    wino_case_pack(k);
}

void wino_case_run(struct wino_kernel *k, int parts) {
    conv_case_run(&k->c, k->v->run, k->v->units, k->v->scratch_bytes, parts);
}

static void compare(const char *compiler, const struct wino_case *at, enum mo_isa isa, unsigned seed) {
    struct wino_kernel k;
    struct mo_point point = {.cost_ns = 0};
    memcpy(point.knob, at->knob[isa], sizeof point.knob);
    wino_case_open(&k, &at->shape, isa, compiler, &point, seed);
    wino_case_run(&k, 1);
    const char *wrong = conv_case_check(&k.c);
    if (wrong) fail_msg("%s (%s), %s: %s", k.v->name, compiler, conv_case_text(&k.c.shape), wrong);
    size_t bytes = (size_t)k.c.y_floats * 4;
    float *whole = malloc(bytes);
    assert_non_null(whole);
    memcpy(whole, k.c.y, bytes);
    for (int parts = 2; parts <= 7; parts += 5) {
        wino_case_run(&k, parts);
        assert_memory_equal(whole, k.c.y, bytes);
    }
    free(whole);
    conv_case_close(&k.c);
}

void wino_case_compare_all(const char *compiler, const struct wino_case *cases, int n, int step) {
    if (!wino_case_have(compiler)) skip();
    for (int i = 0, at = 0; i < n; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa), at++)
            if (at % step == 0) compare(compiler, &cases[i], isa, (unsigned)at + 1);
}

/* Double precision, from the definition; adds the squares of all products. */
static double exact(const struct conv_case *c, int o, int y, int x, double *squares) {
    const struct conv_shape *s = &c->shape;
    const float *w = c->graph->tensors[c->node->in[1]]->data;
    double sum = 0;
    for (int i = 0; i < s->c; i++)
        for (int r = 0; r < s->kh * s->kw; r++) {
            int iy = y * s->sh + r / s->kw * s->dh - s->pt, ix = x * s->sw + r % s->kw * s->dw - s->pl;
            if (iy < 0 || ix < 0 || iy >= s->h || ix >= s->w) continue;
            double product = (double)w[(o * s->c + i) * s->kh * s->kw + r] *
                             c->x[((int64_t)(i / 16 * s->h + iy) * s->w + ix) * 16 + i % 16];
            sum += product;
            *squares += product * product;
        }
    int b = c->node->in[2];
    return b < 0 ? sum : sum + ((const float *)c->graph->tensors[b]->data)[o];
}

float *wino_case_output(const struct conv_case *c, int o, int y, int x) {
    int64_t h = c->graph->tensors[c->node->out[0]]->shape.d[2],
            w = c->graph->tensors[c->node->out[0]]->shape.d[3];
    return &c->y[((o / 16 * h + y) * w + x) * 16 + o % 16];
}

void wino_case_errors(const struct wino_kernel *k, double *largest, double *rms) {
    double squares = 0, products = 0, wrong = 0, worst = 0;
    int count = 0;
    for (int o = 0; o < k->c.shape.o; o++)
        for (int y = 0; y < k->p.oh; y++)
            for (int x = 0; x < k->p.ow; x++, count++) {
                double want = exact(&k->c, o, y, x, &products),
                       e = fabs(*wino_case_output(&k->c, o, y, x) - want);
                squares += want * want;
                wrong += e * e;
                worst = fmax(worst, e);
            }
    squares = fmax(squares, products);
    *rms = sqrt(wrong / squares);
    *largest = worst / sqrt(squares / count);
}
