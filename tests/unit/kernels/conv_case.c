/* SPDX-License-Identifier: Apache-2.0
 * conv_case.c - see conv_case.h. */
#include "tests/unit/kernels/conv_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/op.h"

enum { GUARD = 64 }; /* floats on each side of a buffer */
static const float guard = -12345.5f;

static float noise(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1.0f;
}

static int64_t blocks(int64_t c) {
    return (c + 15) / 16;
}

static void set_ints(struct conv_case *c, const char *name, int n, const int *values) {
    int64_t *ints = mo_region_array(c->graph->region, (size_t)n, sizeof *ints);
    for (int i = 0; i < n; i++)
        ints[i] = values[i];
    struct mo_attr *a = mo_node_add_attr(c->graph, c->node, name, MO_ATTR_INTS);
    a->n = n;
    a->ints = ints;
}

static float *buffer(int64_t floats) {
    float *p = aligned_alloc(64, (size_t)((floats + 2 * GUARD) * 4 + 63) / 64 * 64);
    for (int64_t i = 0; i < floats + 2 * GUARD; i++)
        p[i] = guard;
    return p + GUARD;
}

static int add_tensor(struct conv_case *c, const char *name, enum mo_layout layout, int64_t d0, int64_t d1,
                      int64_t d2, int64_t d3, bool constant, unsigned *seed) {
    struct mo_shape shape = {.rank = 4, .d = {d0, d1, d2, d3}};
    if (!constant) {
        struct mo_tensor *t = mo_graph_add_tensor(c->graph, name, MOIRE_F32, &shape);
        t->layout = layout;
        return t->id;
    }
    if (d1 == 0) shape = (struct mo_shape){.rank = 1, .d = {d0}};
    struct mo_tensor *t = mo_graph_add_const(c->graph, name, MOIRE_F32, &shape);
    for (int64_t i = 0; i < mo_shape_count(&shape); i++)
        ((float *)t->data)[i] = noise(seed);
    return t->id;
}

static void build_node(struct conv_case *c, enum mo_layout in, unsigned *seed, int oh, int ow) {
    const struct conv_shape *s = &c->shape;
    int x = add_tensor(c, "x", in, s->n, s->c, s->h, s->w, false, seed);
    int w = add_tensor(c, "w", MO_PLAIN, s->o, s->c / s->groups, s->kh, s->kw, true, seed);
    int b = *seed % 4 ? add_tensor(c, "b", MO_PLAIN, s->o, 0, 0, 0, true, seed) : -1;
    int r = s->residual ? add_tensor(c, "r", MO_C16, s->n, s->o, oh, ow, false, seed) : -1;
    int y = add_tensor(c, "y", MO_C16, s->n, s->o, oh, ow, false, seed);
    int gate = c->gated ? add_tensor(c, "gate", MO_C16, s->n, s->c, 1, 1, false, seed) : -1;
    c->node = mo_graph_add_node(c->graph, "conv", "Conv", "", c->gated ? 5 : r >= 0 ? 4 : 3, 1);
    c->node->in[0] = x, c->node->in[1] = w, c->node->in[2] = b, c->node->out[0] = y;
    if (r >= 0) c->node->in[3] = r;
    if (c->gated) c->node->in[3] = r, c->node->in[MO_GATE_IN] = gate;
    float a = s->act == MO_ACT_LEAKY ? 0.1f : s->act == MO_ACT_CLIP ? -0.25f : 1.0f / 6;
    c->node->fuse = (struct mo_fuse){.act = s->act,
                                     .a = a,
                                     .b = 0.5f,
                                     .residual = r >= 0 ? 3 : -1,
                                     .residual_last = s->residual == 2,
                                     .gated = c->gated};
    set_ints(c, "strides", 2, (int[]){s->sh, s->sw});
    set_ints(c, "dilations", 2, (int[]){s->dh, s->dw});
    set_ints(c, "pads", 4, (int[]){s->pt, s->pl, s->pb, s->pr});
    struct mo_attr *group = mo_node_add_attr(c->graph, c->node, "group", MO_ATTR_INT);
    group->i = s->groups;
}

/* Fills plain[] with noise and *blocked, images `gap` floats apart, with the same and junk in the tail lanes.
 */
static float *fill_blocked(const float *plain, int n, int ch, int64_t pixels, int64_t gap) {
    int64_t image = blocks(ch) * 16 * pixels + gap;
    float *to = buffer(n * image);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < blocks(ch) * 16; k++)
            for (int64_t p = 0; p < pixels; p++)
                to[i * image + (k / 16 * pixels + p) * 16 + k % 16] =
                    k < ch ? plain[(i * ch + k) * pixels + p] : 777.0f;
    return to;
}

static float *random_plain(int64_t n, unsigned *seed) {
    float *p = calloc((size_t)n, 4);
    if (!p) abort();
    for (int64_t i = 0; i < n; i++)
        p[i] = noise(seed);
    return p;
}

static void reference(struct conv_case *c, float *x, const float *res) {
    struct mo_graph *g = c->graph;
    struct mo_node plain = *c->node;
    plain.fuse = (struct mo_fuse){.residual = -1};
    plain.n_in = 3;
    struct mo_value in[3] = {
        mo_tensor_value(g->tensors[plain.in[0]]), mo_tensor_value(g->tensors[plain.in[1]]), {0}};
    if (plain.in[2] >= 0) in[2] = mo_tensor_value(g->tensors[plain.in[2]]);
    in[0].data = x;
    struct mo_value out = mo_tensor_value(g->tensors[plain.out[0]]);
    int64_t n = mo_shape_count(&out.shape);
    out.data = c->want = calloc((size_t)n, 4);
    struct mo_op_ctx ctx = {.node = &plain, .env = &c->env, .n_in = 3, .n_out = 1, .in = in, .out = &out};
    if (mo_op_find("Conv", "")->run(&ctx)) abort();
    const struct mo_fuse *f = &c->node->fuse;
    for (int64_t i = 0; i < n; i++) {
        if (c->shape.residual == 1) c->want[i] += res[i];
        c->want[i] = mo_activate(f->act, f->a, f->b, c->want[i]);
        if (c->shape.residual == 2) c->want[i] += res[i];
    }
}

/* A gate, and x times it: the reference then needs none. */
static void apply_gate(struct conv_case *c, float *x, int64_t pixels, unsigned *seed) {
    const struct conv_shape *s = &c->shape;
    float *gate = random_plain((int64_t)s->n * s->c, seed);
    for (int64_t i = 0; i < (int64_t)s->n * s->c * pixels; i++)
        x[i] *= gate[i / pixels];
    c->gate = fill_blocked(gate, s->n, s->c, 1, 64);
    c->args.in[MO_GATE_IN] = c->gate;
    c->args.in_image[MO_GATE_IN] = (blocks(s->c) * 16 + 64) * 4;
    free(gate);
}

static void open_buffers(struct conv_case *c, enum mo_layout in, unsigned *seed, int oh, int ow) {
    const struct conv_shape *s = &c->shape;
    int64_t in_pixels = (int64_t)s->h * s->w, pixels = (int64_t)oh * ow;
    float *x = random_plain(s->n * s->c * in_pixels, seed), *res = random_plain(s->n * s->o * pixels, seed);
    c->y_image = blocks(s->o) * 16 * pixels;
    c->y_gap = 48;
    if (in == MO_PLAIN) {
        c->x = buffer(s->n * s->c * in_pixels);
        memcpy(c->x, x, (size_t)(s->n * s->c * in_pixels) * 4);
        c->args.in_image[0] = s->c * in_pixels * 4;
    } else {
        c->x = fill_blocked(x, s->n, s->c, in_pixels, 16);
        c->args.in_image[0] = (blocks(s->c) * 16 * in_pixels + 16) * 4;
    }
    c->res = fill_blocked(res, s->n, s->o, pixels, 32);
    if (c->gated) apply_gate(c, x, in_pixels, seed);
    c->y_floats = s->n * (c->y_image + c->y_gap);
    c->y = buffer(c->y_floats);
    c->args.in[0] = c->x, c->args.out[0] = c->y;
    c->args.out_image[0] = (c->y_image + c->y_gap) * 4;
    if (s->residual) c->args.residual = c->args.in[3] = c->res;
    c->args.residual_image = c->args.in_image[3] = (c->y_image + 32) * 4;
    reference(c, x, res);
    free(x);
    free(res);
}

bool conv_case_open(struct conv_case *c, const struct conv_shape *s, enum mo_layout in, unsigned seed) {
    memset(c, 0, sizeof *c);
    int oh = s->h + s->pt + s->pb - (s->kh - 1) * s->dh - 1,
        ow = s->w + s->pl + s->pr - (s->kw - 1) * s->dw - 1;
    if (oh < 0 || ow < 0) return false;
    c->shape = *s;
    c->gated = s->residual & CONV_GATED;
    c->shape.residual &= ~CONV_GATED;
    c->allowed = 1e-4f;
    c->env = mo_env_default();
    c->graph = mo_graph_create(&c->env);
    build_node(c, in, &seed, oh / s->sh + 1, ow / s->sw + 1);
    mo_graph_index(c->graph);
    open_buffers(c, in, &seed, oh / s->sh + 1, ow / s->sw + 1);
    return true;
}

void conv_case_allow_mixing(struct conv_case *c) {
    double sum = 0;
    int64_t n = mo_shape_count(&c->graph->tensors[c->node->out[0]]->shape);
    for (int64_t i = 0; i < n; i++)
        sum += (double)c->want[i] * (double)c->want[i];
    c->allowed = fmaxf(1e-4f, (float)(1e-4 * sqrt(sum / (double)n)));
}

void conv_case_close(struct conv_case *c) {
    mo_graph_destroy(c->graph);
    free(c->x - GUARD);
    free(c->y - GUARD);
    free(c->res - GUARD);
    if (c->gate) free(c->gate - GUARD);
    free(c->want);
}

void conv_case_run(struct conv_case *c, mo_kernel *run, int64_t units, int64_t scratch_bytes, int parts) {
    for (int64_t i = 0; i < c->y_floats; i++)
        c->y[i] = guard;
    float *scratch = buffer(scratch_bytes / 4 + 1);
    if (parts > units) parts = (int)units;
    for (int k = 0; k < parts; k++) {
        int p = (k * 7 + 3) % parts; /* a shuffle when 7 does not divide parts, else plain order */
        if (parts % 7 == 0) p = parts - 1 - k;
        run(&c->args, units * p / parts, units * (p + 1) / parts, scratch);
    }
    free(scratch - GUARD);
}

static bool guards_hold(const float *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (p[i] != guard) return false;
    return true;
}

const char *conv_case_check(const struct conv_case *c) {
    static char text[200];
    const struct mo_shape *y = &c->graph->tensors[c->node->out[0]]->shape;
    int64_t pixels = y->d[2] * y->d[3], step = c->y_image + c->y_gap, o = y->d[1];
    if (!guards_hold(c->y - GUARD, GUARD) || !guards_hold(c->y + c->y_floats, GUARD))
        return "wrote outside the output";
    for (int64_t n = 0; n < y->d[0]; n++) {
        if (!guards_hold(c->y + n * step + c->y_image, c->y_gap)) return "wrote between images";
        for (int64_t k = 0; k < blocks(o) * 16; k++)
            for (int64_t p = 0; p < pixels; p++) {
                float got = c->y[n * step + (k / 16 * pixels + p) * 16 + k % 16];
                if (k >= o && isfinite(got)) continue;
                float want = k < o ? c->want[(n * o + k) * pixels + p] : 0;
                if (k < o && fabsf(got - want) <= c->allowed + 2e-5f * fabsf(want)) continue;
                snprintf(text, sizeof text, "image %d channel %d pixel %d: %g, want %g", (int)n, (int)k,
                         (int)p, (double)got, (double)want);
                return text;
            }
    }
    return NULL;
}

const char *conv_case_text(const struct conv_shape *s) {
    static char text[200];
    snprintf(text, sizeof text, "n%d c%d %dx%d o%d k%dx%d s%dx%d d%dx%d p%d,%d,%d,%d g%d act%d res%d", s->n,
             s->c, s->h, s->w, s->o, s->kh, s->kw, s->sh, s->sw, s->dh, s->dw, s->pt, s->pl, s->pb, s->pr,
             s->groups, (int)s->act, s->residual);
    return text;
}
