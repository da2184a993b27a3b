/* SPDX-License-Identifier: Apache-2.0
 * signal.c - DFT and STFT of any length: a thread a bin sums over the samples, with a table of the unit
 * circle. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"
#include "runtime/ops/signal.h"

struct transform {
    int64_t samples, length;
    bool inverse, complex;
    const char *const *at; /* coordinates of sample `s`, but for the last axis: `last` is its number */
    int last, bin;         /* the coordinate that counts bins */
    int64_t window_at;     /* the sample that the window begins at */
};

enum { SIGNAL, WINDOW = 2 };

/* x (re and im) = the sample, windowed when there is a window of `n` elements. */
static void sample_text(struct mo_each *e, const struct transform *f, int64_t window) {
    const char *at[MO_VIEW_RANK];
    memcpy(at, f->at, sizeof at);
    mo_gpu_printf(&e->body, "    float weight = 1;\n");
    if (window) {
        mo_gpu_printf(&e->body,
                      "    const int u = s - %lld;\n    if (u < 0 || u >= %lld) continue;\n    weight = ",
                      (long long)f->window_at, (long long)window);
        mo_each_value(e, WINDOW, (const char *const[]){"u"});
        mo_gpu_printf(&e->body, ";\n");
    }
    for (int part = 0; part < 2; part++) {
        at[f->last] = part ? "1" : "0";
        mo_gpu_printf(&e->body, "    const float x%d = weight * ", part);
        if (part && !f->complex)
            mo_gpu_printf(&e->body, "0");
        else
            mo_each_value(e, SIGNAL, at);
        mo_gpu_printf(&e->body, ";\n");
    }
}

static void sums_text(struct mo_each *e, const struct transform *f, int64_t window) {
    struct mo_gpu_text *t = &e->body;
    mo_gpu_printf(
        t,
        "    float re = 0, im = 0;\n    int turn = 0;\n"
        "    for (int s = 0; s < %lld; s++, turn = turn + o%d >= %lld ? turn + o%d - %lld : turn + o%d) {\n",
        (long long)f->samples, f->bin, (long long)f->length, f->bin, (long long)f->length, f->bin);
    sample_text(e, f, window);
    mo_gpu_printf(t, "    const float c = ");
    mo_each_value(e, 1, (const char *const[]){"2 * turn"});
    mo_gpu_printf(t, ", i = %s", f->inverse ? "" : "-");
    mo_each_value(e, 1, (const char *const[]){"2 * turn + 1"});
    mo_gpu_printf(t, ";\n    re += x0 * c - x1 * i;\n    im += x0 * i + x1 * c;\n    }\n");
    if (f->inverse)
        mo_gpu_printf(t, "    re /= %lld;\n    im /= %lld;\n", (long long)f->length, (long long)f->length);
}

/* The unit circle as fp32. */
static struct mo_gpu_view circle(struct mo_lower *l, const struct mo_op_ctx *ctx, int64_t length) {
    struct mo_gpu_view v = {.rank = -1};
    double *turn = mo_turns(ctx, length);
    float *narrow = turn ? mo_alloc(l->env, (size_t)(2 * length) * sizeof *narrow) : NULL;
    if (!narrow) mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
    for (int64_t i = 0; i < 2 * length && narrow; i++)
        narrow[i] = (float)turn[i];
    if (narrow) v = mo_lower_numbers(l, MOIRE_F32, 2 * length, narrow);
    mo_free(l->env, narrow);
    mo_free(l->env, turn);
    return v;
}

static void transform(struct mo_lower *l, const struct mo_op_ctx *ctx, const struct mo_gpu_view *x,
                      const struct mo_gpu_view *window, const struct transform *f) {
    const char *at[MO_VIEW_RANK];
    const struct mo_gpu_view turns = circle(l, ctx, f->length);
    struct mo_gpu_view y = {.rank = -1};
    struct mo_each e;
    if (!l->rc) y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    const int last = y.rank - 1;
    const struct mo_gpu_view bins = mo_gpu_slice(&y, last, 0, 1, 1);
    mo_each_init(l, &e, &bins);
    mo_each_arg(&e, x, false);
    mo_each_arg(&e, &turns, false);
    if (window) mo_each_arg(&e, window, false);
    const int out = mo_each_arg(&e, &y, true);
    sums_text(&e, f, window ? mo_gpu_count(window) : 0);
    memcpy(at, mo_each_here, sizeof at);
    for (int part = 0; part < 2; part++) {
        at[last] = part ? "1" : "0";
        mo_each_store(&e, out, at, part ? "im" : "re");
    }
    e.flops = 8 * mo_gpu_count(&bins) * f->samples;
    mo_each_done(l, &e);
}

/* Floats, so that sums are. */
static void check_type(struct mo_lower *l, const struct mo_value *x) {
    if (x->dtype != MOIRE_F32)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%s is not supported by this operator on a GPU",
                      mo_dtype_name(x->dtype));
}

void mo_lower_dft(struct mo_lower *l) {
    struct mo_value in[3];
    const struct mo_op_ctx ctx = mo_lower_ctx(l, in, 3);
    const char *at[MO_VIEW_RANK];
    int axis = 0;
    int64_t length = 0;
    check_type(l, &in[0]);
    if (!l->rc && mo_dft_to_real(&ctx))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "the inverse of one side is not supported on a GPU");
    struct mo_gpu_view x = mo_lower_in(l, 0);
    if (!l->rc) l->rc = mo_dft_describe(&ctx, &axis, &length);
    if (l->rc) return;
    memcpy(at, mo_each_here, sizeof at);
    at[axis] = "s";
    const struct transform f = {.samples = x.d[axis] < length ? x.d[axis] : length,
                                .length = length,
                                .inverse = mo_attr_int(l->node, "inverse", 0) != 0,
                                .complex = x.d[x.rank - 1] == 2,
                                .at = at,
                                .last = x.rank - 1,
                                .bin = axis};
    transform(l, &ctx, &x, NULL, &f);
}

void mo_lower_stft(struct mo_lower *l) {
    struct mo_value in[4];
    const struct mo_op_ctx ctx = mo_lower_ctx(l, in, 4);
    const char *at[MO_VIEW_RANK] = {"o0"};
    char sample[48];
    struct mo_frames frames;
    check_type(l, &in[0]);
    struct mo_gpu_view x = mo_lower_in(l, 0), window = {.rank = -1};
    if (mo_lower_has(l, 2)) window = mo_lower_in(l, 2);
    if (!l->rc) l->rc = mo_stft_describe(&ctx, &frames);
    if (l->rc) return;
    snprintf(sample, sizeof sample, "o1 * %lld + s", (long long)frames.step);
    at[1] = sample;
    const struct transform f = {.samples = frames.length,
                                .length = frames.length,
                                .complex = x.rank == 3 && x.d[2] == 2,
                                .at = at,
                                .last = 2,
                                .bin = 2,
                                .window_at =
                                    window.rank < 0 ? 0 : (frames.length - mo_gpu_count(&window)) / 2};
    transform(l, &ctx, &x, window.rank < 0 ? NULL : &window, &f);
}
