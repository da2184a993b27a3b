/* SPDX-License-Identifier: Apache-2.0
 * conv_walk.c - runs the built-in convolution micro-kernels over the tiles of a layer. */
#include "variants/generic/conv_spot.h"

#include <string.h>

struct mo_conv_reach mo_conv_walk_reach(const struct mo_conv_walk *c, int64_t group, int64_t block,
                                        int64_t blocks) {
    if (!c->own_in) return (struct mo_conv_reach){.planes = c->planes};
    /* a last group that begins within another's has its weights later in the blocks */
    const int64_t behind = group * c->planes > c->last_plane ? group * c->planes - c->last_plane : 0;
    const int64_t low = block * 16 / c->own_out * c->own_in;
    const int64_t high = (((block + blocks) * 16 - 1) / c->own_out + 1) * c->own_in;
    const int64_t end = (high + 15) / 16 + behind;
    struct mo_conv_reach reach = {.first = low / 16 + behind};
    reach.planes = (end < c->planes ? end : c->planes) - reach.first;
    if (c->small && c->small->dot) return reach; /* tiles of bytes take whole blocks */
    reach.skip = low % 16 / 4;
    reach.drop = end <= c->planes ? (16 - high % 16) % 16 / 4 : 0;
    return reach;
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static void clip_rows(const struct mo_conv_walk *c, struct mo_conv_spot *s) {
    s->k0 = s->iy >= 0 ? 0 : (-s->iy + c->dh - 1) / c->dh;
    s->k1 = floor_div(c->h - 1 - s->iy, c->dh) + 1;
    if (s->k1 > c->kh) s->k1 = c->kh;
    if (s->k0 > s->k1) s->k0 = s->k1 = 0;
    if (s->k1 < 0) s->k0 = s->k1 = 0;
}

/* The window can be read in place: all columns inside, and rows inside or clippable. */
static bool in_place(const struct mo_conv_walk *c, const struct mo_conv_spot *s) {
    if (c->small && !c->small->dot) return false;
    if (s->window) return true;
    if (s->ix < 0 || s->ix + (s->cols - 1) * c->sw + c->span > c->w) return false;
    bool clips = !c->small || c->small->zero == 0; /* rows outside hold zeros */
    bool one = c->kind == MO_CONV_DEPTHWISE || (s->rows == 1 && c->kind == MO_CONV_BLOCKED);
    if (one && clips) return true;
    return s->iy >= 0 && s->iy + (s->rows - 1) * c->sh + (c->kh - 1) * c->dh < c->h;
}

/* Depthwise: the kernel for a window that begins `left` columns before the image and ends `right` behind it;
 * NULL: there is none. */
static mo_tile_fn *window_fn(const struct mo_conv_walk *c, const struct mo_conv_spot *s) {
    if (c->side >= 0 && c->small) return c->tiles->window[c->side][s->cols][c->stride][0][0]; /* of a copy */
    int64_t left = s->ix < 0 ? -s->ix : 0, end = s->ix + (s->cols - 1) * c->sw + c->kw;
    int64_t right = end > c->w ? end - c->w : 0;
    if (c->side < 0 || left > MO_TILE_OVERHANG || right > MO_TILE_OVERHANG) return NULL;
    return c->tiles->window[c->side][s->cols][c->stride][left][right];
}

static mo_tile_fn *tile_fn(const struct mo_conv_walk *c, const struct mo_conv_spot *s) {
    if (c->kind == MO_CONV_FIRST) return c->tiles->first[s->blocks][s->cols][c->stride];
    if (s->window) return s->window;
    if (c->kind == MO_CONV_DEPTHWISE) return c->tiles->depthwise[s->cols][c->stride];
    if (s->rows == 2) return c->tiles->conv2[s->blocks][s->cols][c->stride];
    if (s->part) return c->tiles->part[s->blocks][s->cols][c->stride];
    return c->tiles->conv[s->blocks][s->cols][c->stride];
}

/* Sums of a row's last block, whose other lanes are the next row's. */
static void convert_part(const struct mo_conv_walk *c, const char *sums, int64_t channel, int64_t pixels,
                         char *y) {
    const struct mo_conv_small *small = c->small;
    const int64_t size = small->requant.to == MOIRE_F32 ? 4 : 1;
    char all[MO_TILE_PIXELS * 64];
    small->requantize(&small->requant, sums, small->factor + channel, small->bias + channel, pixels, all,
                      16 * size);
    for (int64_t i = 0; i < pixels; i++)
        memcpy(y + i * c->y_pixel, all + i * 16 * size, (size_t)(c->lanes * size));
}

/* A tile's sums, to the output at y. */
static void convert(const struct mo_conv_walk *c, const struct mo_conv_spot *s, const struct mo_tile *t,
                    char *y) {
    const struct mo_conv_small *small = c->small;
    int64_t channel = (s->group * c->ocb + s->block) * 16;
    for (int b = 0; b < s->blocks; b++, channel += 16)
        for (int64_t r = 0; r < s->rows; r++) {
            const char *sums = t->y + b * t->y_block + r * t->y_row;
            char *to = y + b * c->y_plane + r * c->ow * c->y_pixel;
            if (c->lanes < 16 && s->block + b == c->ocb - 1)
                convert_part(c, sums, channel, s->cols, to);
            else
                small->requantize(&small->requant, sums, small->factor + channel, small->bias + channel,
                                  s->cols, to, c->y_pixel);
        }
}

static void finish(const struct mo_conv_walk *c, const struct mo_conv_spot *s, const struct mo_tile *t,
                   const char *res) {
    for (int b = 0; b < s->blocks; b++)
        for (int64_t r = 0; r < s->rows; r++) {
            int64_t at = b * t->y_block + r * t->y_row;
            const void *add = c->res_late && res ? res + at : NULL;
            c->tiles->activate(c->act, c->a, c->b, (float *)(t->y + at), add, s->cols * 16);
        }
}

/* Points a depthwise tile at the filter rows [k0, k1) of its first row. */
static void aim(const struct mo_conv_walk *c, const struct mo_conv_spot *s, struct mo_tile *t, const char *x,
                const char *w) {
    t->x = x + (s->iy * c->w + s->ix) * c->element;
    if (s->window) {
        t->x += s->k0 * t->x_outer;
        t->w = w + s->k0 * t->w_outer;
        t->n_outer = s->k1 - s->k0;
        return;
    }
    t->taps = c->taps + s->k0 * c->row_taps;
    t->n_taps = (s->k1 - s->k0) * c->row_taps;
}

/* A depthwise tile read in place: rows that are clipped one by one, the others in one call. */
static void run_rows(const struct mo_conv_walk *c, struct mo_conv_spot *s, struct mo_tile *t, const char *x) {
    int64_t rows = s->rows, taps_rows = (c->kh - 1) * c->dh, first = s->iy;
    const char *w = t->w;
    for (int64_t r = 0; r < rows; r += t->repeat) {
        s->iy = first + r * c->sh;
        clip_rows(c, s);
        t->repeat = 1;
        if (s->iy >= 0 && s->iy + taps_rows < c->h) {
            t->repeat = (c->h - 1 - taps_rows - s->iy) / c->sh + 1;
            if (t->repeat > rows - r) t->repeat = rows - r;
        }
        aim(c, s, t, x, w);
        tile_fn(c, s)(t);
        t->y += t->repeat * t->y_row;
        if (t->res) t->res += t->repeat * t->y_row;
    }
    t->y -= rows * t->y_row;
}

static void run_in_place(const struct mo_conv_walk *c, struct mo_conv_spot *s, struct mo_tile *t,
                         const char *x) {
    if (c->kind == MO_CONV_DEPTHWISE) {
        run_rows(c, s, t, x);
        return;
    }
    bool all = c->kind == MO_CONV_FIRST;
    clip_rows(c, s);
    t->x = x + (s->iy * c->w + s->ix) * c->element;
    t->taps = c->taps + (all ? 0 : s->k0 * c->kw);
    t->n_taps = all ? c->planes * c->kh * c->kw : (s->k1 - s->k0) * c->kw;
    tile_fn(c, s)(t);
}

static void run_copied(const struct mo_conv_walk *c, struct mo_conv_spot *s, struct mo_tile *t, const char *x,
                       char *scratch) {
    const bool clips = mo_conv_clips_copy(c);
    if (clips) clip_rows(c, s);
    mo_conv_copy_window(c, s, x, scratch);
    t->x = scratch;
    t->taps = c->copy_taps + (clips ? s->k0 * c->row_taps : 0);
    t->n_taps = (c->kind == MO_CONV_FIRST ? c->planes : 1) * (clips ? s->k1 - s->k0 : c->kh) * c->row_taps;
    t->x_outer = c->copy_rows * c->copy_cols * c->element;
    t->x_row = c->sh * c->copy_cols * c->element;
    t->repeat = s->rows;
    if (s->window) { /* all of its rows, and one after the other where only those were copied */
        t->n_outer = c->kh;
        t->x_outer = (c->rows == 1 ? 1 : c->dh) * c->copy_cols * c->element;
    }
    tile_fn(c, s)(t);
}

/* What sums start from with this query's zero point, in the type of the tiles; behind their place in scratch.
 */
static const float *start_sums(const struct mo_conv_walk *c, const struct mo_kargs *args,
                               const struct mo_conv_spot *s, int64_t first, char *scratch) {
    const int32_t zero = *(const uint8_t *)args->in[MO_QCONV_X_ZERO], *sums = c->small->sums + first * 16;
    char *start = scratch + c->small->sums_at + c->blocks * c->rows * MO_TILE_PIXELS * 64;
    for (int i = 0; i < s->blocks * 16; i++) {
        const int32_t whole = -zero * sums[i];
        const float real = (float)whole;
        memcpy(start + i * 4, c->small->dot ? (const void *)&whole : (const void *)&real, 4);
    }
    return (const float *)start;
}

struct mo_conv_places mo_conv_open_tiles(const struct mo_conv_walk *c, const struct mo_kargs *args,
                                         struct mo_conv_spot *s, char *scratch, struct mo_tile *t) {
    int64_t first = s->group * c->ocb + s->block, plane = first * c->oh * c->ow * 64;
    int64_t in_plane = c->kind == MO_CONV_DEPTHWISE ? first : s->group * c->planes;
    if (c->kind == MO_CONV_BLOCKED && in_plane > c->last_plane) in_plane = c->last_plane;
    const struct mo_conv_reach reach = mo_conv_walk_reach(c, s->group, s->block, s->blocks);
    s->planes = reach.planes;
    in_plane += reach.first;
    s->part = reach.skip + reach.drop;
    if (c->own_in) t->n_outer = s->planes, t->skip = reach.skip, t->drop = reach.drop;
    struct mo_conv_places p = {.x = (const char *)args->in[0] + s->image * args->in_image[0] +
                                    in_plane * c->x_plane,
                               .y = (char *)args->out[0] + s->image * args->out_image[0] + first * c->y_plane,
                               .res = args->residual,
                               .sums = c->small && !c->small->pack ? scratch + c->small->sums_at : NULL};
    if (p.res) p.res += s->image * args->residual_image + plane;
    t->bias = args->bias + first * 16;
    t->w = (const char *)args->weights + first * t->w_block + reach.first * t->w_outer;
    if (c->small && c->small->sums) t->bias = start_sums(c, args, s, first, scratch);
    if (c->small) {
        t->pack = c->small->pack;
        t->factor = c->small->factor + first * 16, t->shift = c->small->bias + first * 16;
    }
    return p;
}

void mo_conv_place_tile(const struct mo_conv_walk *c, const struct mo_conv_spot *s,
                        const struct mo_conv_places *p, int64_t pixel, struct mo_tile *t) {
    t->y = p->y + pixel * c->y_pixel;
    t->res = p->res && !(c->act != MO_ACT_NONE && c->res_late) ? p->res + pixel * 64 : NULL;
    if (!p->sums) return;
    t->y = p->sums;
    t->y_row = s->cols * 64, t->y_block = s->rows * t->y_row;
}

void mo_conv_close_tile(const struct mo_conv_walk *c, const struct mo_conv_spot *s,
                        const struct mo_conv_places *p, int64_t pixel, const struct mo_tile *t) {
    if (p->sums) convert(c, s, t, p->y + pixel * c->y_pixel);
    if (c->act != MO_ACT_NONE) finish(c, s, t, p->res ? p->res + pixel * 64 : NULL);
}

static void run_tile(const struct mo_conv_walk *c, struct mo_conv_spot *s, const struct mo_conv_places *p,
                     struct mo_tile t, char *scratch) {
    int64_t pixel = s->row * c->ow + s->col;
    mo_conv_place_tile(c, s, p, pixel, &t);
    s->iy = s->row * c->sh - c->pt, s->ix = s->col * c->sw - c->pl;
    s->window = window_fn(c, s);
    if (in_place(c, s))
        run_in_place(c, s, &t, p->x);
    else
        run_copied(c, s, &t, p->x, scratch);
    mo_conv_close_tile(c, s, p, pixel, &t);
}

/* Tiles of a layer without windows: they follow each other in one row. */
static void run_flat(const struct mo_conv_walk *c, struct mo_conv_spot *s, const struct mo_conv_places *p,
                     struct mo_tile t, int64_t tile, int64_t end) {
    s->rows = 1;
    s->col = tile * c->col_size + (tile < c->col_extra ? tile : c->col_extra);
    t.taps = c->taps;
    t.n_taps = 1;
    for (; tile < end; tile++, s->col += s->cols) {
        s->cols = c->col_size + (tile < c->col_extra);
        t.x = p->x + s->col * c->element;
        mo_conv_place_tile(c, s, p, s->col, &t);
        c->tiles->conv[s->blocks][s->cols][c->stride](&t);
        mo_conv_close_tile(c, s, p, s->col, &t);
    }
}

/* 32-bit division is much the faster; a small layer is nothing but such overhead. */
static int64_t divide(int64_t a, int64_t b) {
    return (uint32_t)a == (uint64_t)a && (uint32_t)b == (uint64_t)b ? (uint32_t)a / (uint32_t)b : a / b;
}

/* Work of one unit: which image, output blocks and tiles. */
static void run_unit(const struct mo_conv_walk *c, const struct mo_kargs *args, int64_t unit, char *scratch) {
    if (c->band) {
        mo_conv_run_band(c, args, unit, scratch);
        return;
    }
    int64_t per_image = c->sets * c->chunks, inner = c->sets_outer ? c->chunks : c->sets;
    struct mo_conv_spot s = {.image = c->n == 1 ? 0 : divide(unit, per_image)};
    unit -= s.image * per_image;
    int64_t outer = divide(unit, inner), set = outer, chunk = unit - outer * inner;
    if (!c->sets_outer) set = chunk, chunk = outer;
    s.group = c->groups == 1 ? 0 : divide(set, c->group_sets);
    s.block = (set - s.group * c->group_sets) * c->blocks;
    const int64_t left = (s.group == c->groups - 1 ? c->last_ocb : c->ocb) - s.block;
    if (left < 1) return;
    s.blocks = left < c->blocks ? (int)left : c->blocks;
    int64_t tile = divide(chunk * c->grid, c->chunks), end = divide((chunk + 1) * c->grid, c->chunks);
    struct mo_tile t = c->tile;
    struct mo_conv_places p = mo_conv_open_tiles(c, args, &s, scratch, &t);
    if (c->flat) {
        run_flat(c, &s, &p, t, tile, end);
        return;
    }
    int64_t tile_row = divide(tile, c->cols), col = tile - tile_row * c->cols;
    for (; tile < end; tile++) {
        s.row = tile_row * c->rows;
        s.rows = c->oh - s.row < c->rows ? c->oh - s.row : c->rows;
        s.col = col * c->col_size + (col < c->col_extra ? col : c->col_extra);
        s.cols = c->col_size + (col < c->col_extra);
        run_tile(c, &s, &p, t, scratch);
        if (++col == c->cols) col = 0, tile_row++;
    }
}

/* The layer's weights times the gate of one image. */
static void gate_weights(const struct mo_conv_walk *c, const struct mo_kargs *args, int64_t image, char *to) {
    const char *gate = (const char *)args->in[MO_GATE_IN] + image * args->in_image[MO_GATE_IN];
    const char *from = args->weights;
    for (int64_t at = 0; at < c->gate_bytes; at += c->tile.w_block)
        c->tiles->gate(to + at, from + at, gate, c->planes * 16);
}

static void run_gated(const struct mo_conv_walk *c, const struct mo_kargs *args, int64_t begin, int64_t end,
                      char *scratch) {
    struct mo_kargs gated = *args;
    int64_t per_image = c->sets * c->chunks;
    gated.weights = scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        if (unit == begin || unit % per_image == 0) gate_weights(c, args, unit / per_image, scratch);
        run_unit(c, &gated, unit, scratch + c->gate_bytes);
    }
}

void mo_conv_walk_run(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_conv_walk *c = args->params;
    if (c->gated) {
        run_gated(c, args, begin, end, scratch);
        return;
    }
    for (int64_t unit = begin; unit < end; unit++)
        run_unit(c, args, unit, scratch);
}
