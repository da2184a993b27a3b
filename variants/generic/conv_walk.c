/* SPDX-License-Identifier: Apache-2.0
 * conv_walk.c - runs the built-in convolution micro-kernels over the tiles of a layer. */
#include "variants/generic/conv_walk.h"

#include <string.h>

/* Where a tile is: output rows [row, row+rows), columns [col, col+cols), and its window in the input. */
struct spot {
    int64_t image, group, block; /* block: of output channels, within the group */
    int64_t row, rows, col, cols;
    int64_t iy, ix; /* first input row and column, may be negative */
    int64_t k0, k1; /* filter rows that touch the image (tiles of one row) */
    int blocks;
};

static int64_t floor_div(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static void clip_rows(const struct mo_conv_walk *c, struct spot *s) {
    s->k0 = s->iy >= 0 ? 0 : (-s->iy + c->dh - 1) / c->dh;
    s->k1 = floor_div(c->h - 1 - s->iy, c->dh) + 1;
    if (s->k1 > c->kh) s->k1 = c->kh;
    if (s->k0 > s->k1) s->k0 = s->k1 = 0;
    if (s->k1 < 0) s->k0 = s->k1 = 0;
}

/* The window can be read in place: all columns inside, and rows inside or clippable. */
static bool in_place(const struct mo_conv_walk *c, const struct spot *s) {
    if (s->ix < 0 || s->ix + (s->cols - 1) * c->sw + (c->kw - 1) * c->dw >= c->w) return false;
    if (s->rows == 1 && c->kind != MO_CONV_FIRST) return true;
    return s->iy >= 0 && s->iy + (s->rows - 1) * c->sh + (c->kh - 1) * c->dh < c->h;
}

static void copy_row(const struct mo_conv_walk *c, char *to, const char *from, int64_t ix, int64_t cols) {
    int64_t skip = ix < 0 ? -ix : 0, n = c->w - ix < cols ? c->w - ix : cols;
    if (skip > cols) skip = cols;
    if (n < skip) n = skip;
    memset(to, 0, (size_t)(skip * c->element));
    memcpy(to + skip * c->element, from + (ix + skip) * c->element * (n > skip),
           (size_t)((n - skip) * c->element));
    memset(to + n * c->element, 0, (size_t)((cols - n) * c->element));
}

/* A zero-padded copy of the tile's window: [plane][row][copy_cols].  A tile of one row copies the kh rows it
 * reads; a tile of two the whole span. */
static void copy_window(const struct mo_conv_walk *c, const struct spot *s, const char *x, char *to) {
    int64_t cols = (s->cols - 1) * c->sw + (c->kw - 1) * c->dw + 1;
    int64_t step = c->rows == 1 ? c->dh : 1, row_bytes = c->copy_cols * c->element;
    for (int64_t plane = 0; plane < c->planes; plane++)
        for (int64_t r = 0; r < c->copy_rows; r++) {
            char *row = to + (plane * c->copy_rows + r) * row_bytes;
            int64_t iy = s->iy + r * step;
            if (iy < 0 || iy >= c->h)
                memset(row, 0, (size_t)(cols * c->element));
            else
                copy_row(c, row, x + (plane * c->h + iy) * c->w * c->element, s->ix, cols);
        }
}

static mo_tile_fn *tile_fn(const struct mo_conv_walk *c, const struct spot *s) {
    if (c->kind == MO_CONV_FIRST) return c->tiles->first[s->blocks][s->cols][c->stride];
    if (c->kind == MO_CONV_DEPTHWISE) return c->tiles->depthwise[s->cols][c->stride];
    if (s->rows == 2) return c->tiles->conv2[s->blocks][s->cols][c->stride];
    return c->tiles->conv[s->blocks][s->cols][c->stride];
}

static void finish(const struct mo_conv_walk *c, const struct spot *s, const struct mo_tile *t,
                   const char *res) {
    for (int b = 0; b < s->blocks; b++)
        for (int64_t r = 0; r < s->rows; r++) {
            int64_t at = b * t->y_block + r * t->y_row;
            const void *add = c->res_late && res ? res + at : NULL;
            c->tiles->activate(c->act, c->a, c->b, (float *)(t->y + at), add, s->cols * 16);
        }
}

static void run_tile(const struct mo_conv_walk *c, const struct mo_kargs *args, struct spot *s,
                     char *scratch) {
    struct mo_tile t = c->tile;
    int64_t first = s->group * c->ocb + s->block, pixel = s->row * c->ow + s->col;
    int64_t at = s->image * args->out_image[0] + (first * c->oh * c->ow + pixel) * 64;
    const char *res = args->residual;
    if (res) res += s->image * args->residual_image + (first * c->oh * c->ow + pixel) * 64;
    t.y = (char *)args->out[0] + at;
    t.res = c->act != MO_ACT_NONE && c->res_late ? NULL : res;
    t.bias = args->bias + first * 16;
    t.w = (const char *)args->weights + first * t.w_block;
    int64_t in_plane = c->kind == MO_CONV_DEPTHWISE ? first : s->group * c->planes;
    const char *x =
        (const char *)args->in[0] + s->image * args->in_image[0] + in_plane * c->h * c->w * c->element;
    s->iy = s->row * c->sh - c->pt, s->ix = s->col * c->sw - c->pl;
    if (in_place(c, s)) {
        clip_rows(c, s);
        t.x = x + (s->iy * c->w + s->ix) * c->element;
        bool all = c->kind == MO_CONV_FIRST;
        t.taps = c->taps + (all ? 0 : s->k0 * c->kw);
        t.n_taps = all ? c->planes * c->kh * c->kw : (s->k1 - s->k0) * c->kw;
    } else {
        copy_window(c, s, x, scratch);
        t.x = scratch;
        t.taps = c->copy_taps;
        t.n_taps = (c->kind == MO_CONV_FIRST ? c->planes : 1) * c->kh * c->kw;
        t.x_outer = c->copy_rows * c->copy_cols * c->element;
        t.x_row = c->sh * c->copy_cols * c->element;
    }
    tile_fn(c, s)(&t);
    if (c->act != MO_ACT_NONE) finish(c, s, &t, res);
}

/* Work of one unit: which image, output blocks and tiles. */
static void run_unit(const struct mo_conv_walk *c, const struct mo_kargs *args, int64_t unit, char *scratch) {
    int64_t per_image = c->sets * c->chunks, in_image = unit % per_image;
    int64_t set = c->sets_outer ? in_image / c->chunks : in_image % c->sets;
    int64_t chunk = c->sets_outer ? in_image % c->chunks : in_image / c->sets;
    int64_t per_group = (c->ocb + c->blocks - 1) / c->blocks;
    struct spot s = {
        .image = unit / per_image, .group = set / per_group, .block = set % per_group * c->blocks};
    s.blocks = c->ocb - s.block < c->blocks ? (int)(c->ocb - s.block) : c->blocks;
    for (int64_t t = chunk * c->grid / c->chunks; t < (chunk + 1) * c->grid / c->chunks; t++) {
        int64_t col = t % c->cols;
        s.row = t / c->cols * c->rows;
        s.rows = c->oh - s.row < c->rows ? c->oh - s.row : c->rows;
        s.col = col * c->ow / c->cols;
        s.cols = (col + 1) * c->ow / c->cols - s.col;
        run_tile(c, args, &s, scratch);
    }
}

void mo_conv_walk_run(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    for (int64_t unit = begin; unit < end; unit++)
        run_unit(args->params, args, unit, scratch);
}
