/* SPDX-License-Identifier: Apache-2.0
 * conv_bind.c - plans the walk of a built-in convolution: tile size, taps, units.
 *
 * Tiles split a row evenly (never 14 + 2).  The larger of weights and input is the outer loop's, so that it
 * is streamed once.  A unit is worth a few microseconds, and there are at least 64 of them where the layer
 * allows. */
#include "variants/generic/conv_walk.h"

#include <math.h>

enum {
    UNIT_FLOPS = 1000000,
    DOT_UNIT_FLOPS = 4000000,
    MIN_UNITS = 64,
    DEPTHWISE_ROWS = 14,
    WINDOW_BYTES = 16 << 10,
    SLICE_BYTES = 256 << 10,
    NEAR_BYTES = 2048,
    BAND_BYTES = 128 << 10,
    MAX_WINDOW_BYTES = 64 << 20
};

static void copy_geometry(const struct mo_conv *v, struct mo_conv_walk *c) {
    c->n = v->n, c->groups = v->groups;
    c->h = v->h, c->w = v->w, c->oh = v->oh, c->ow = v->ow;
    c->kh = v->kh, c->kw = v->kw, c->sh = v->sh, c->sw = v->sw, c->dh = v->dh, c->dw = v->dw;
    c->pt = v->pt, c->pl = v->pl;
    bool flat = v->kh == 1 && v->kw == 1 && v->sh == 1 && v->sw == 1 && v->h == v->oh && v->w == v->ow;
    if (flat && v->pt == 0 && v->pl == 0) {
        c->w = c->ow = v->h * v->w;
        c->h = c->oh = 1;
    }
}

/* As many rows as keep the copy of a window in L1, but enough units for many cores. */
static int64_t depthwise_rows(const struct mo_conv_walk *c) {
    int64_t rows = WINDOW_BYTES / (c->w * c->sh * 64);
    rows = rows < 2 ? 2 : rows > DEPTHWISE_ROWS ? DEPTHWISE_ROWS : rows;
    if (rows > c->oh) rows = c->oh;
    while (rows > 2 && c->n * c->ocb * ((c->oh + rows - 1) / rows) < MIN_UNITS)
        rows = (rows + 1) / 2;
    int64_t parts = (c->oh + rows - 1) / rows;
    return (c->oh + parts - 1) / parts;
}

/* A tap is four columns of a filter row. */
static bool quads(const struct mo_conv_walk *c) {
    return c->kind == MO_CONV_DEPTHWISE && c->small && c->small->dot;
}

/* Which of the kernels made for one size of filter serves the layer; -1: none. */
static int window_side(const struct mo_conv_walk *c) {
    if (c->kind != MO_CONV_DEPTHWISE || c->stride == MO_TILE_SX || c->dw != 1) return -1;
    if (quads(c)) return -1;
    for (int i = 0; i < MO_TILE_SIDES; i++)
        if (c->kh == mo_tile_side(i) && c->kw == mo_tile_side(i)) return i;
    return -1;
}

/* Products of quarters of a block of input channels by a block of outputs that a pixel of a group takes, by
 * tiles of so many blocks. */
static int64_t products(const struct mo_conv_walk *c, int64_t blocks) {
    int64_t sum = 0;
    for (int64_t b = 0; b < c->ocb; b += blocks) {
        const int64_t n = c->ocb - b < blocks ? c->ocb - b : blocks;
        const struct mo_conv_reach reach = mo_conv_walk_reach(c, 0, b, n);
        sum += n * (4 * reach.planes - reach.skip - reach.drop);
    }
    return sum;
}

static void choose_tile(struct mo_conv_walk *c) {
    c->blocks = c->kind != MO_CONV_DEPTHWISE && c->ocb > 1 && c->tiles->max_pixels[2] ? 2 : 1;
    /* one block alone meets fewer zeros, but loads a weight for half as many products */
    if (c->own_in && products(c, 1) * 10 < products(c, c->blocks) * 9) c->blocks = 1;
    int64_t most = c->tiles->max_pixels[c->blocks];
    c->rows = 1;
    if (c->kind == MO_CONV_BLOCKED && c->oh > 1 && c->ow <= MO_TILE_ROW2 &&
        c->tiles->conv2[c->blocks][c->ow][c->stride] && c->tiles->conv2[1][c->ow][c->stride])
        c->rows = 2;
    if (c->kind == MO_CONV_DEPTHWISE) c->rows = depthwise_rows(c);
    c->cols = (c->ow + most - 1) / most;
    c->grid = (c->oh + c->rows - 1) / c->rows * c->cols;
    c->col_size = c->ow / c->cols, c->col_extra = c->ow % c->cols;
    c->group_sets = (c->ocb + c->blocks - 1) / c->blocks;
    c->sets = c->groups * c->group_sets;
}

static void choose_units(struct mo_conv_walk *c, const struct mo_conv *v) {
    double flops = 2.0 * (double)v->oh * (double)v->ow * (double)v->o * (double)(v->kh * v->kw);
    if (c->kind != MO_CONV_DEPTHWISE) flops *= (double)v->cg;
    double most = (double)c->n * (double)c->sets * (double)c->grid,
           want = flops * (double)c->n / (c->small && c->small->dot ? DOT_UNIT_FLOPS : UNIT_FLOPS);
    if (want < MIN_UNITS) want = MIN_UNITS;
    if (want > most) want = most;
    c->chunks = (int64_t)ceil(want / ((double)c->n * (double)c->sets));
    if (c->chunks > c->grid) c->chunks = c->grid;
    if (c->chunks < 1) c->chunks = 1;
    /* units of one size, where it takes few more: two halves of them take the same time */
    int64_t tiles = c->grid / c->chunks, even = (c->grid + tiles - 1) / tiles;
    if (even * 4 <= c->chunks * 5) c->chunks = even;
    if (c->kind == MO_CONV_DEPTHWISE) c->chunks = c->grid / c->cols;
    double weights = (double)v->o * (double)v->cg * (double)(v->kh * v->kw),
           in = (double)v->c * (double)v->h * (double)v->w;
    c->sets_outer = c->kind == MO_CONV_DEPTHWISE || weights >= in;
}

/* Rows of a band: few enough that there are units for many cores; its copy stays in the private cache. */
static void choose_band(struct mo_conv_walk *c, const struct mo_conv *v) {
    if (c->kind != MO_CONV_FIRST || c->small || v->pt + v->pl + v->pb + v->pr == 0) return;
    const int64_t row = c->planes * ((c->ow - 1) * c->sw + c->span) * c->element,
                  window = (c->kh - 1) * c->dh + 1;
    if (row * window > BAND_BYTES) return;
    c->band = c->n * c->oh / MIN_UNITS;
    if (c->band > c->oh) c->band = c->oh;
    while (c->band > 1 && row * ((c->band - 1) * c->sh + window) > BAND_BYTES)
        c->band--;
    if (c->band < 1) c->band = 1;
    c->chunks = (c->oh + c->band - 1) / c->band;
}

static void set_strides(struct mo_conv_walk *c) {
    struct mo_tile *t = &c->tile;
    int64_t taps = c->kh * c->row_taps;
    t->n_outer = c->kind == MO_CONV_BLOCKED ? c->planes : 1;
    t->x_outer = c->element == c->pixel ? c->x_plane : c->h * c->w * c->element;
    t->w_outer = taps * c->tap_bytes;
    if (c->side >= 0) t->x_outer = c->dh * c->w * 64, t->w_outer = c->kw * 64;
    t->w_block = c->planes * taps * c->tap_bytes;
    t->w_ahead = t->w_block * c->blocks <= SLICE_BYTES ? t->w_block * c->blocks : NEAR_BYTES;
    t->y_block = c->y_plane, t->res_block = c->oh * c->ow * 64;
    t->y_row = c->ow * c->y_pixel;
    t->x_row = c->sh * c->w * c->element;
    t->px = c->sw * c->element;
    int64_t most = c->tiles->max_pixels[c->blocks] < c->ow ? c->tiles->max_pixels[c->blocks] : c->ow;
    c->copy_cols = (most - 1) * c->sw + c->span;
    c->copy_rows = c->rows == 1 ? c->kh : (c->rows - 1) * c->sh + (c->kh - 1) * c->dh + 1;
    if (!c->band) return;
    c->copy_cols = (c->ow - 1) * c->sw + c->span;
    c->copy_rows = (c->band - 1) * c->sh + (c->kh - 1) * c->dh + 1;
}

static bool fill_taps(struct mo_region *region, struct mo_conv_walk *c) {
    bool first = c->kind == MO_CONV_FIRST;
    int64_t planes = first ? c->planes : 1, step = quads(c) ? 4 : c->dw;
    int64_t n = planes * c->kh * c->row_taps, i = 0;
    struct mo_tap *taps = mo_region_array(region, (size_t)n, sizeof *taps);
    struct mo_tap *copy = mo_region_array(region, (size_t)n, sizeof *copy);
    if (!taps || !copy) return false;
    for (int64_t p = 0; p < planes; p++)
        for (int64_t kh = 0; kh < c->kh; kh++)
            for (int64_t kw = 0; kw < c->row_taps; kw++, i++) {
                int64_t row = c->rows == 1 && !c->band ? kh : kh * c->dh;
                taps[i].x = ((p * c->h + kh * c->dh) * c->w + kw * step) * c->element;
                copy[i].x = ((p * c->copy_rows + row) * c->copy_cols + kw * step) * c->element;
                taps[i].w = copy[i].w = i * c->tap_bytes;
            }
    c->taps = taps, c->copy_taps = copy;
    return true;
}

static void set_epilogue(struct mo_conv_walk *c, const struct mo_fuse *f) {
    c->act = mo_fuse_bounds(f, &c->tile.lo, &c->tile.hi) ? MO_ACT_NONE : f->act;
    c->a = f->a, c->b = f->b;
    c->res_late = f->residual_last;
    c->tile.res_last = f->residual_last;
}

static void describe(const struct mo_conv *v, struct mo_conv_walk *c, struct mo_conv_small *small,
                     struct mo_step *step) {
    int64_t taps = v->kh * v->kw, cg = v->cg / v->merge;
    if (v->depthwise) cg = 1;
    step->units = c->n * (c->band ? 1 : c->sets) * c->chunks;
    int64_t window = c->planes * c->copy_rows * c->copy_cols * c->element;
    step->scratch_bytes = window + c->gate_bytes;
    if (small) {
        small->sums_at = (window + 63) / 64 * 64;
        step->scratch_bytes = small->sums_at + c->blocks * (c->rows * MO_TILE_PIXELS + 1) * 64;
    }
    int64_t size = small ? 1 : 4, out = (int64_t)mo_dtype_bytes(v->y->dtype);
    step->flops = 2 * v->n * v->o * v->oh * v->ow * taps * cg;
    if (c->own_in) step->executed = 2 * 64 * v->n * c->groups * products(c, c->blocks) * v->oh * v->ow * taps;
    step->bytes = v->n * (size * v->c * v->h * v->w + out * v->o * v->oh * v->ow * (v->residual ? 2 : 1)) +
                  size * v->o * cg * taps;
}

/* Bytes of pixels in memory and in tiles, and of a tap's weights. */
static void set_pixels(struct mo_conv_walk *c, const struct mo_conv *v, const struct mo_conv_small *small) {
    bool dot = small && small->dot;
    c->pixel = small ? 16 : c->kind == MO_CONV_FIRST ? 4 : 64;
    c->y_pixel = v->y->dtype == MOIRE_F32 ? 64 : 16;
    c->x_plane = c->h * c->w * c->pixel, c->y_plane = c->oh * c->ow * c->y_pixel;
    c->lanes = 16;
    if (v->rows) {
        c->x_plane = 16, c->y_plane = c->y_pixel;
        c->pixel = v->c, c->y_pixel = v->o * (c->y_pixel / 16);
        c->lanes = (int)(v->o - (v->ocb - 1) * 16);
    }
    c->element = small && !dot ? 64 : c->pixel;
    c->tap_bytes = c->kind != MO_CONV_BLOCKED ? 64 : !dot ? 1024 : v->c > 4 ? 256 : 64;
    if (dot && c->tiles->pairs) c->tap_bytes *= 2;
}

int mo_conv_walk_plan(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *v,
                      enum mo_conv_kind kind, struct mo_conv_small *small, struct mo_step *step,
                      moire_error *err) {
    struct mo_conv_walk *c = mo_region_alloc(binder->region, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    copy_geometry(v, c);
    c->kind = kind;
    c->small = small;
    c->tiles = small && small->dot ? mo_dot_tiles_of(binder->isa, kind == MO_CONV_BLOCKED && v->c <= 4)
                                   : mo_tiles_of(binder->isa);
    c->stride = v->sw == 1 ? MO_TILE_S1 : v->sw == 2 ? MO_TILE_S2 : MO_TILE_SX;
    if (v->rows && small && small->dot) c->stride = MO_TILE_SX;
    c->side = window_side(c);
    c->row_taps = quads(c) ? (c->kw + 3) / 4 : c->kw;
    c->span = quads(c) ? c->row_taps * 4 : (c->kw - 1) * c->dw + 1;
    set_pixels(c, v, small);
    c->planes = kind == MO_CONV_BLOCKED ? v->icb : kind == MO_CONV_FIRST ? v->c : 1;
    c->ocb = kind == MO_CONV_DEPTHWISE ? (v->o + 15) / 16 : v->ocb;
    if (kind == MO_CONV_DEPTHWISE) c->groups = 1;
    if (kind == MO_CONV_BLOCKED && v->merge > 1) c->own_in = v->cg / v->merge, c->own_out = v->og / v->merge;
    c->last_ocb = (v->o + 15) / 16 - (c->groups - 1) * c->ocb;
    c->last_plane = mo_conv_first_block(v, c->groups - 1);
    choose_tile(c);
    choose_units(c, v);
    choose_band(c, v);
    set_strides(c);
    /* absurd dilations of a padded input: the reference needs no copy of the window */
    if ((double)c->planes * (double)c->copy_rows * (double)(c->copy_cols * c->element) > MAX_WINDOW_BYTES)
        return MOIRE_EUNSUPPORTED;
    c->flat = kind == MO_CONV_BLOCKED && c->oh == 1 && c->h == 1 && c->kh == 1 && c->kw == 1 && c->sw == 1 &&
              !c->pt && !c->pl && c->w == c->ow && !(small && !small->dot);
    set_epilogue(c, small ? &(struct mo_fuse){.residual = -1} : &node->fuse);
    c->gated = v->gate;
    c->gate_bytes = c->gated ? c->ocb * c->tile.w_block : 0;
    if (!fill_taps(binder->region, c))
        return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    step->run = mo_conv_walk_run;
    step->kind = "generic";
    step->params = c;
    describe(v, c, small, step);
    return MOIRE_OK;
}

int mo_conv_walk_bind(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *v,
                      enum mo_conv_kind kind, const char *const names[MO_ISA_COUNT], struct mo_step *step,
                      moire_error *err) {
    static const enum mo_packing packings[] = {MO_PACK_CONV16, MO_PACK_FIRST16, MO_PACK_DW16};
    int rc = mo_conv_walk_plan(binder, node, v, kind, NULL, step, err);
    if (!rc)
        rc = mo_pack_weights(packings[kind], binder->graph, node, binder->region, &step->weights, &step->bias,
                             err);
    step->packing = packings[kind];
    step->kernel = names[binder->isa];
    return rc;
}
