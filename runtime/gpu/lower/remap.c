/* SPDX-License-Identifier: Apache-2.0
 * remap.c - Resize, whose outputs are inputs at other coordinates, and normalization over neighbouring
 * channels. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"
#include "runtime/ops/image/resize.h"

/* --- Resize --------------------------------------------------------------------------------------------- */

/* Tables of one axis: where its taps are and what they weigh; -1 as a source: outside of everything. */
static void add_axis(struct mo_lower *l, struct mo_each *e, const struct mo_resize_taps *t, int64_t n_out,
                     int *source, int *weight) {
    int32_t *sources = mo_alloc(l->env, (size_t)(n_out * t->n) * sizeof *sources + 1);
    struct mo_gpu_view v;
    if (!sources) mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n_out * t->n && sources; i++)
        sources[i] = t->outside[i / t->n] ? -1 : t->source[i];
    if (sources) v = mo_lower_numbers(l, MOIRE_I32, n_out * t->n, sources);
    mo_free(l->env, sources);
    if (l->rc) return;
    *source = mo_each_arg(e, &v, false);
    v = mo_lower_numbers(l, MOIRE_F32, n_out * t->n, t->weight);
    *weight = mo_each_arg(e, &v, false);
}

/* Loops over the taps of the axes that change, the weights multiplied on the way in. */
static void resize_text(struct mo_lower *l, struct mo_each *e, const struct mo_resize_taps *taps,
                        const bool *changes, float extrapolation) {
    static const char *const names[] = {"q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7"};
    const char *at[MO_VIEW_RANK], *product = "1";
    char place[48], weight[MO_VIEW_RANK][16];
    const int rank = e->over.rank;
    struct mo_gpu_text *t = &e->body;
    mo_gpu_printf(t, "    float r = 0;\n    int outside = 0;\n");
    for (int i = 0; i < rank; i++) {
        int source, weights;
        at[i] = changes[i] ? names[i] : mo_each_here[i];
        if (!changes[i]) continue;
        add_axis(l, e, &taps[i], e->over.d[i], &source, &weights);
        if (l->rc) return;
        snprintf(place, sizeof place, "o%d * %d + k%d", i, taps[i].n, i);
        snprintf(weight[i], sizeof weight[i], "w%d", i);
        mo_each_text(e,
                     "    for (int k%d = 0; k%d < %d; k%d++) {\n    const int q%d = (int)@%d(%s);\n"
                     "    if (q%d < 0) {\n        outside = 1;\n        continue;\n    }\n"
                     "    const float w%d = %s * @%d(%s);\n",
                     i, i, taps[i].n, i, i, source, place, i, i, product, weights, place);
        product = weight[i];
    }
    mo_gpu_printf(t, "    r += %s * (float)", product);
    mo_each_value(e, 0, at);
    mo_gpu_printf(t, ";\n");
    for (int i = 0; i < rank; i++)
        if (changes[i]) mo_gpu_printf(t, "    }\n");
    mo_gpu_printf(t, "    if (outside) r = ");
    mo_gpu_literal(t, extrapolation);
    mo_gpu_printf(t, ";\n");
}

void mo_lower_resize(struct mo_lower *l) {
    struct mo_resize_taps taps[MOIRE_MAX_RANK] = {{0}};
    struct mo_value in[4];
    const struct mo_op_ctx ctx = mo_lower_ctx(l, in, 4);
    struct mo_gpu_view x = mo_lower_in(l, 0), y = mo_lower_out_like(l, 0, &x);
    const struct mo_fuse *fuse = &l->node->fuse;
    bool changes[MO_VIEW_RANK] = {false};
    struct mo_each e;
    float extrapolation;
    int changed = 0;
    if (l->rc) return;
    l->rc = mo_resize_describe(&ctx, taps, &extrapolation);
    for (int i = 0; i < y.rank && !l->rc; i++) {
        for (int64_t k = 0; k < y.d[i] && !changes[i]; k++)
            changes[i] = taps[i].n > 1 || taps[i].source[k] != k || taps[i].outside[k];
        changed += changes[i];
    }
    if (changed > 4) mo_lower_fail(l, MOIRE_EUNSUPPORTED, "resizing over 4 axes is not supported on a GPU");
    if (!l->rc) {
        mo_each_init(l, &e, &y);
        mo_each_arg(&e, &x, false);
        resize_text(l, &e, taps, changes, extrapolation);
        e.out = mo_each_arg(&e, &y, true);
        mo_gpu_printf(&e.body, "    ");
        mo_gpu_act_text(&e.body, fuse->act, fuse->a, fuse->b);
        mo_each_close(l, &e, "r");
    }
    mo_resize_free(&ctx, taps);
}

/* --- normalization
 * --------------------------------------------------------------------------------------------- */

void mo_lower_lrn(struct mo_lower *l) {
    const int64_t size = mo_attr_int(l->node, "size", 1), low = (size - 1) / 2, high = size - 1 - low;
    const struct mo_gpu_view x = mo_lower_in(l, 0), y = mo_lower_out_like(l, 0, &x);
    struct mo_each e;
    if (l->rc) return;
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    e.out = mo_each_arg(&e, &y, true);
    mo_each_text(&e,
                 "    float s = 0;\n    const int from = o1 - %lld, to = o1 + %lld;\n"
                 "    for (int c = from < 0 ? 0 : from; c <= to && c < %lld; c++) {\n"
                 "        const float v = @0{1:c};\n        s += v * v;\n    }\n"
                 "    const float r = @0 / powf(",
                 (long long)low, (long long)high, (long long)e.arg[0].d[1]);
    mo_gpu_literal(&e.body, mo_attr_float(l->node, "bias", 1));
    mo_each_text(&e, " + ");
    mo_gpu_literal(&e.body, mo_attr_float(l->node, "alpha", 1e-4f) / (float)size);
    mo_each_text(&e, " * s, ");
    mo_gpu_literal(&e.body, mo_attr_float(l->node, "beta", 0.75f));
    mo_each_text(&e, ");\n");
    e.flops = mo_gpu_count(&e.over) * size * 2;
    mo_each_close(l, &e, "r");
}
