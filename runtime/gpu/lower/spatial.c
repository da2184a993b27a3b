/* SPDX-License-Identifier: Apache-2.0
 * spatial.c - convolutions and pools that neither a library nor kernel_window.c takes: three spatial
 * dimensions, transposed, with weights that are computed, pools of integers.
 *
 * One thread an output element, for any rank from 3 to 5; taps outside of the input are left out. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* Coordinates of taps, and of what they read. */
static const char *const tap[] = {"k0", "k1", "k2"}, *const seen[] = {"q0", "q1", "q2"};

struct taps {
    struct mo_window w;
    int first; /* spatial dimension that is the outermost one there is */
    bool transposed, count_pads;
};

static bool taps_of(struct mo_lower *l, const int64_t *kernel, struct taps *t) {
    struct mo_value in[9];
    struct mo_op_ctx ctx = mo_lower_ctx(l, in, 9);
    if (l->rc) return false;
    l->rc = t->transposed ? mo_transpose_window(&ctx, &t->w)
                          : mo_window_init(&ctx, &ctx.in[0].shape, kernel, &t->w);
    t->first = 3 - t->w.nd;
    return !l->rc;
}

/* The loops over taps whose input q0, q1, q2 is there; or, with count_pads, is there or padding. */
static void open_taps(struct mo_gpu_text *t, const struct taps *s) {
    const struct mo_window *w = &s->w;
    for (int i = s->first; i < 3; i++) {
        int o = 2 + i - s->first;
        mo_gpu_printf(t, "    for (int k%d = 0; k%d < %lld; k%d++) {\n", i, i, (long long)w->k[i], i);
        if (s->transposed) {
            mo_gpu_printf(t, "    const int u%d = o%d + %lld - k%d * %lld;\n", i, o, (long long)w->pad[i], i,
                          (long long)w->dilation[i]);
            mo_gpu_printf(t, "    if (u%d < 0 || u%d %% %lld || u%d / %lld >= %lld) continue;\n", i, i,
                          (long long)w->stride[i], i, (long long)w->stride[i], (long long)w->out[i]);
            mo_gpu_printf(t, "    const int q%d = u%d / %lld;\n", i, i, (long long)w->stride[i]);
            continue;
        }
        mo_gpu_printf(t, "    const int q%d = o%d * %lld - %lld + k%d * %lld;\n", i, o,
                      (long long)w->stride[i], (long long)w->pad[i], i, (long long)w->dilation[i]);
        mo_gpu_printf(t, "    if (q%d < %lld || q%d >= %lld) continue;\n", i,
                      s->count_pads ? -(long long)w->pad[i] : 0, i,
                      (long long)w->in[i] + (s->count_pads ? w->pad_end[i] : 0));
    }
}

static void close_taps(struct mo_gpu_text *t, const struct taps *s) {
    for (int i = s->first; i < 3; i++)
        mo_gpu_printf(t, "    }\n");
}

/* Coordinates: two of them, then one for each spatial dimension. */
struct coordinates {
    const char *at[5];
};
static struct coordinates spatial(const struct taps *s, const char *a, const char *b,
                                  const char *const *names) {
    struct coordinates c = {.at = {a, b}};
    for (int i = s->first; i < 3; i++)
        c.at[2 + i - s->first] = names[i];
    return c;
}

/* --- convolutions --------------------------------------------------------------------------------------- */

struct conv {
    struct taps taps;
    int64_t inner, per_group; /* channels of a group, in and out */
    int x, w, bias, residual; /* operands */
};

/* The loop over taps and channels; `product` makes of xv and wv what is added to s. */
static void conv_sum(struct mo_each *e, const struct conv *c, const char *product) {
    struct mo_gpu_text *t = &e->body;
    const bool turned = c->taps.transposed;
    const struct coordinates x = spatial(&c->taps, "o0", "cx", seen),
                             w = turned ? spatial(&c->taps, "cx", "oc", tap)
                                        : spatial(&c->taps, "o1", "c", tap);
    mo_gpu_printf(t, "    const int oc = o1 %% %lld, g = o1 / %lld * %lld;\n    (void)oc;\n",
                  (long long)c->per_group, (long long)c->per_group, (long long)c->inner);
    open_taps(t, &c->taps);
    mo_gpu_printf(t, "    for (int c = 0; c < %lld; c++) {\n        const int cx = g + c;\n",
                  (long long)c->inner);
    mo_each_declare(e, "xv", c->x, x.at);
    mo_each_declare(e, "wv", c->w, w.at);
    mo_gpu_printf(t, "        s += %s;\n    }\n", product);
    close_taps(t, &c->taps);
}

static void finish(struct mo_each *e, const struct conv *c, const struct mo_fuse *fuse) {
    struct mo_gpu_text *t = &e->body;
    mo_gpu_printf(t, "    float r = s;\n");
    for (int last = 0; last < 2; last++) {
        if (c->residual >= 0 && fuse->residual_last == (last == 1))
            mo_each_text(e, "    r += @%d;\n", c->residual);
        if (!last) mo_gpu_printf(t, "    ");
        if (!last) mo_gpu_act_text(t, fuse->act, fuse->a, fuse->b);
    }
}

static bool integers_only(struct mo_lower *l, const struct mo_each *e, int k) {
    if (!strcmp(mo_gpu_value_type(e->arg[k].dtype), "float") || l->rc) return false;
    mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%s is not supported here on a GPU", mo_dtype_name(e->arg[k].dtype));
    return true;
}

/* The output, and the kernel over it with its first operands; the weights' shape says what a tap is. */
static bool begin_conv(struct mo_lower *l, const struct mo_gpu_view *x, const struct mo_gpu_view *w,
                       struct conv *c, struct mo_gpu_view *y, struct mo_each *e) {
    const int64_t groups = mo_attr_int(l->node, "group", 1);
    *y = mo_lower_out_like(l, 0, x);
    if (l->rc) return false;
    c->inner = x->d[1] / groups;
    c->per_group = y->d[1] / groups;
    mo_each_init(l, e, y);
    c->x = mo_each_arg(e, x, false);
    c->w = mo_each_arg(e, w, false);
    return true;
}

static void end_conv(struct mo_lower *l, const struct conv *c, const struct mo_gpu_view *y,
                     struct mo_each *e) {
    const int64_t *k = c->taps.w.k;
    e->flops = 2 * mo_gpu_count(y) * c->inner * k[0] * k[1] * k[2];
    mo_each_done(l, e);
}

void mo_lower_conv_any(struct mo_lower *l) {
    const struct mo_node *node = l->node;
    struct conv c = {.taps.transposed = !strcmp(node->op_type, "ConvTranspose"), .bias = -1, .residual = -1};
    const struct mo_shape *ws = &l->graph->tensors[node->in[1]]->shape;
    struct mo_gpu_view x = mo_lower_in(l, 0), y;
    struct mo_each e;
    if (node->fuse.gated) mo_lower_fail(l, MOIRE_EUNSUPPORTED, "a gate is not supported here on a GPU");
    if (l->rc || !taps_of(l, ws->d + 2, &c.taps)) return;
    const struct mo_gpu_view w = l->graph->tensors[node->in[1]]->data
                                     ? mo_lower_weight(l, node->in[1], MO_FORM_AS_IS, l->storage)
                                     : mo_lower_in(l, 1);
    if (!begin_conv(l, &x, &w, &c, &y, &e) || integers_only(l, &e, c.x)) return;
    if (mo_lower_has(l, 2)) {
        const struct mo_gpu_view bias = mo_lower_in(l, 2);
        c.bias = mo_each_arg(&e, &bias, false);
    }
    if (node->fuse.residual >= 0) {
        const struct mo_gpu_view residual = mo_lower_in(l, node->fuse.residual);
        c.residual = mo_each_arg(&e, &residual, false);
    }
    int out = mo_each_arg(&e, &y, true);
    mo_each_text(&e, c.bias >= 0 ? "    float s = @%d(o1);\n" : "    float s = 0;\n", c.bias);
    conv_sum(&e, &c, "xv * wv");
    finish(&e, &c, &node->fuse);
    mo_each_store(&e, out, mo_each_here, "r");
    end_conv(l, &c, &y, &e);
}

/* --- pools ---------------------------------------------------------------------------------------------- */

void mo_lower_pool_any(struct mo_lower *l) {
    const bool most = strstr(l->node->op_type, "Max") != NULL;
    struct taps s = {.count_pads = !most && mo_attr_int(l->node, "count_include_pad", 0) != 0};
    struct mo_gpu_view x = mo_lower_in(l, 0), y;
    struct mo_each e;
    if (l->node->n_out > 1 && l->node->out[1] >= 0)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "places are not supported on a GPU");
    if (l->rc || !taps_of(l, NULL, &s)) return;
    y = mo_lower_out_like(l, 0, &x);
    if (l->rc) return;
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    const int out = mo_each_arg(&e, &y, true);
    if (!most && integers_only(l, &e, 0)) return;
    mo_gpu_printf(&e.body, "    %s r = 0;\n    int seen = 0;\n", mo_gpu_value_type(e.arg[0].dtype));
    open_taps(&e.body, &s);
    mo_gpu_printf(&e.body, "    seen++;\n");
    for (int i = s.first; i < 3 && s.count_pads; i++)
        mo_gpu_printf(&e.body, "    if (q%d < 0 || q%d >= %lld) continue;\n", i, i, (long long)s.w.in[i]);
    const struct coordinates at = spatial(&s, "o0", "o1", seen);
    mo_each_declare(&e, "v", 0, at.at);
    mo_gpu_printf(&e.body, most ? "    if (seen == 1 || v > r || v != v) r = v;\n" : "    r += v;\n");
    close_taps(&e.body, &s);
    if (!most) mo_gpu_printf(&e.body, "    r /= seen ? seen : 1;\n");
    mo_each_store(&e, out, mo_each_here, "r");
    e.flops = mo_gpu_count(&y) * s.w.k[0] * s.w.k[1] * s.w.k[2];
    mo_each_done(l, &e);
}
