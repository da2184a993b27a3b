/* SPDX-License-Identifier: Apache-2.0
 * fused_bytes.c - binds the kinds of moire.Fused whose operands and result are bytes, and images that become
 * so.
 *
 *   dequantize both, add, perhaps relu or clip, quantize     one multiply-add an operand
 *   dequantize one, multiply by floats of which there is     one multiply-add an element
 *     one for each image and channel, quantize
 *   anything that depends on one byte                        a table of all 256 results */
#include "variants/generic/fused_bytes.h"

#include <math.h>

enum { BYTES_PER_UNIT = 16384, VALUES = 256 };

static bool lies_like(const struct mo_graph *g, const struct mo_tensor *t, const struct mo_tensor *y) {
    return mo_eight_bits(t) && !t->data && t->layout == y->layout && mo_shape_equal(&t->shape, &y->shape) &&
           mo_dense(g, t);
}

static int bound(const struct mo_tensor *y, mo_kernel *run, const char *name, const void *params,
                 struct mo_step *step, moire_error *err) {
    int64_t n = mo_tensor_bytes(y);
    return mo_bound(step, run, name, params, (n + BYTES_PER_UNIT - 1) / BYTES_PER_UNIT, err);
}

/* --- images -------------------------------------------------------------------------------------------- */

bool mo_fused_enters(const struct mo_graph *g, const struct mo_node *node, const struct mo_fused *f) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    return node->n_in == 1 && f->n == 1 && f->step[0].op == MO_FUSED_QUANTIZE_U8 && mo_f32(x) && !x->data &&
           x->shape.rank >= 3 && x->shape.d[1] <= 4 && mo_shape_equal(&x->shape, &y->shape);
}

int mo_fused_enter_bind(const struct mo_binder *binder, const struct mo_node *node, const struct mo_fused *f,
                        struct mo_step *step, moire_error *err) {
    enum { PIXELS = 1024 };
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0);
    struct mo_enter_params p = {.channels = x->shape.d[1],
                                .area = mo_span(x, 2, x->shape.rank),
                                .unit = PIXELS,
                                .scale = f->step[0].a,
                                .zero = f->step[0].b};
    p.units = (p.area + PIXELS - 1) / PIXELS;
    step->scratch_bytes = PIXELS * 4;
    return mo_bound(step, mo_simd_of(binder->isa)->enter_bytes, "image to bytes",
                    mo_keep(binder, &p, sizeof p), x->shape.d[0] * p.units, err);
}

/* --- sums ---------------------------------------------------------------------------------------------- */

/* Steps 0 and 1 dequantize, the third adds; *last: the quantizing one, *act: the one between, or NULL. */
static bool is_sum(const struct mo_fused *f, const struct mo_fused_step **act,
                   const struct mo_fused_step **last) {
    const struct mo_fused_step *s = f->step;
    if (f->n_in != 2 || (f->n != 4 && f->n != 5)) return false;
    if (s[0].op != MO_FUSED_DEQUANTIZE || s[1].op != MO_FUSED_DEQUANTIZE || s[2].op != MO_FUSED_ADD)
        return false;
    bool both = (s[2].arg[0] == 2 && s[2].arg[1] == 3) || (s[2].arg[0] == 3 && s[2].arg[1] == 2);
    if (s[0].arg[0] == s[1].arg[0] || !both) return false;
    *act = f->n == 5 ? &s[3] : NULL;
    *last = &s[f->n - 1];
    bool clamps = !*act || ((*act)->op == MO_FUSED_ACTIVATION && (*act)->arg[0] == 4 &&
                            ((*act)->act == MO_ACT_RELU || (*act)->act == MO_ACT_CLIP));
    return clamps && ((*last)->op == MO_FUSED_QUANTIZE_U8 || (*last)->op == MO_FUSED_QUANTIZE_I8) &&
           (*last)->arg[0] == f->n;
}

/* In steps of the output above its zero point. */
static bool sum_of(const struct mo_fused *f, struct mo_sum_params *p) {
    const struct mo_fused_step *act, *last;
    if (!is_sum(f, &act, &last)) return false;
    for (int k = 0; k < 2; k++) {
        const struct mo_fused_step *s = &f->step[k];
        p->factor[s->arg[0]] = s->a / last->a;
        p->add -= s->b * (s->a / last->a);
    }
    float low = last->op == MO_FUSED_QUANTIZE_I8 ? -128.0f : 0.0f;
    p->zero = (int)last->b;
    p->to_signed = last->op == MO_FUSED_QUANTIZE_I8;
    p->lo = low - last->b, p->hi = low + 255 - last->b;
    if (act && act->act == MO_ACT_RELU) p->lo = fmaxf(p->lo, 0);
    if (act && act->act == MO_ACT_CLIP) {
        p->hi = fminf(p->hi, fmaxf(p->lo, act->b / last->a));
        p->lo = fminf(p->hi, fmaxf(p->lo, act->a / last->a));
    }
    double most = 256 * (fabs((double)p->factor[0]) + fabs((double)p->factor[1])) + fabs((double)p->add);
    return most < 4e6; /* what the kernel's way of rounding takes */
}

/* --- factors by channel -------------------------------------------------------------------------------- */

/* A float for each image and channel of y. */
static bool is_factor(const struct mo_graph *g, const struct mo_tensor *t, const struct mo_tensor *y) {
    if (!mo_f32(t) || t->data || t->layout != y->layout || t->shape.rank != y->shape.rank || !mo_dense(g, t))
        return false;
    return t->shape.d[0] == y->shape.d[0] && t->shape.d[1] == y->shape.d[1] &&
           mo_span(t, 2, t->shape.rank) == 1;
}

/* The steps are: dequantize, multiply, quantize. */
static bool scale_of(const struct mo_graph *g, const struct mo_node *node, const struct mo_fused *f,
                     struct mo_scale_params *p) {
    const struct mo_fused_step *s = f->step;
    const struct mo_tensor *y = mo_node_out(g, node, 0);
    if (f->n_in != 2 || f->n != 3 || s[0].op != MO_FUSED_DEQUANTIZE || s[1].op != MO_FUSED_MUL ||
        s[2].op != MO_FUSED_QUANTIZE_U8 || y->layout != MO_C16)
        return false;
    p->x = s[0].arg[0];
    if (s[1].arg[0] + s[1].arg[1] != 2 + (1 - p->x) || s[1].arg[0] == s[1].arg[1]) return false;
    if (!lies_like(g, mo_node_in(g, node, p->x), y) || !is_factor(g, mo_node_in(g, node, 1 - p->x), y))
        return false;
    p->is_signed = mo_node_in(g, node, p->x)->dtype == MOIRE_I8;
    p->from = (int)s[0].b, p->scale = s[0].a / s[2].a;
    p->zero = (int)s[2].b;
    p->lo = -s[2].b, p->hi = 255 - s[2].b;
    p->area = mo_span(y, 2, y->shape.rank);
    return true;
}

/* --- tables -------------------------------------------------------------------------------------------- */

/* The results of the general kernel for all bytes. */
static int fill_table(const struct mo_binder *binder, const struct mo_fused *f, moire_dtype from,
                      moire_dtype to, uint8_t *table) {
    struct mo_fused_params p;
    uint8_t all[VALUES];
    for (int i = 0; i < VALUES; i++)
        all[i] = (uint8_t)i;
    mo_fused_flat(f, from, to, VALUES, &p);
    void *scratch = mo_alloc(binder->env, (size_t)(p.program.n_in + p.n_buffers) * MO_STRIP * sizeof(float));
    if (!scratch) return MOIRE_ENOMEM;
    struct mo_kargs args = {.in = {all}, .out = {table}, .params = &p};
    mo_simd_of(binder->isa)->fused(&args, 0, 1, scratch);
    mo_free(binder->env, scratch);
    return MOIRE_OK;
}

int mo_fused_bytes_bind(const struct mo_binder *binder, const struct mo_node *node, const struct mo_fused *f,
                        struct mo_step *step, moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *y = mo_node_out(g, node, 0);
    const struct mo_simd_table *simd = mo_simd_of(binder->isa);
    if (!mo_eight_bits(y) || !mo_dense(g, y)) return MOIRE_EUNSUPPORTED;
    struct mo_scale_params scale;
    if (scale_of(g, node, f, &scale))
        return mo_bound(step, simd->scale_bytes, "scaled bytes", mo_keep(binder, &scale, sizeof scale),
                        y->shape.d[0] * ((y->shape.d[1] + 15) / 16), err);
    for (int k = 0; k < node->n_in; k++)
        if (!lies_like(g, mo_node_in(g, node, k), y)) return MOIRE_EUNSUPPORTED;
    struct mo_sum_params sum = {.bytes = mo_tensor_bytes(y), .unit = BYTES_PER_UNIT};
    if (node->n_in == 2 && sum_of(f, &sum)) {
        for (int k = 0; k < 2; k++)
            sum.is_signed[k] = mo_node_in(g, node, k)->dtype == MOIRE_I8;
        return bound(y, simd->sum_bytes, "sum of bytes", mo_keep(binder, &sum, sizeof sum), step, err);
    }
    if (node->n_in != 1) return MOIRE_EUNSUPPORTED;
    struct mo_lookup_params look = {.bytes = mo_tensor_bytes(y),
                                    .unit = BYTES_PER_UNIT,
                                    .permutes = binder->isa == MO_ISA_AVX2 ||
                                                (binder->isa == MO_ISA_AVX512 && mo_isa_has_vbmi())};
    if (fill_table(binder, f, mo_node_in(g, node, 0)->dtype, y->dtype, look.table))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory while binding '%s'", node->name);
    return bound(y, simd->lookup, "lookup", mo_keep(binder, &look, sizeof look), step, err);
}
