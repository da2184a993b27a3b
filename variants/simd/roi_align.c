/* SPDX-License-Identifier: Apache-2.0
 * roi_align.c - means of the regions of a RoiAlign in float32.
 *
 * What a bin reads of a map, and with which weights, is the same for all channels: a list of places, made
 * once a region.  Channels go by blocks of 16, pixels of a block side by side, so that a place is one vector.
 * A small map becomes such a block whole, for several regions; of a large one only those rows and columns
 * that a region reads.  What does not fit goes to the reference. */
#include "runtime/ops/image/roi_align.h"

#include <string.h>
#include "runtime/ops/util.h"
#include "variants/simd/simd.h"
#include "variants/simd/transpose.h"

enum {
    BLOCK = 16,
    VECS = BLOCK / LANES,
    GROUP = 32,         /* regions at a time */
    PLACES = 1 << 15,   /* of all of them */
    SMALL_MAP = 1 << 11 /* pixels: a block of such a map stays in a private cache */
};

struct place {
    int32_t at; /* in a tile: pixels times BLOCK */
    float weight;
};

struct work {
    const struct mo_op_ctx *ctx;
    int64_t c, h, w, bins;
    bool whole; /* a tile is the whole map */
    int n;      /* regions of the group */
    int64_t region[GROUP], image;
    int64_t places;
    struct place *place;
    int32_t *end;        /* of bin i of region g: end[g * bins + i] */
    int32_t *row, *slot; /* rows in the tile, and where a row of the map is there; below 0: nowhere */
    int64_t rows, first, columns;
    float *tile, *sums;
};

/* --- places --------------------------------------------------------------------------------------------- */
static void find_extent(struct work *w, const struct mo_roi_taps *rows, int64_t n_rows,
                        const struct mo_roi_taps *columns, int64_t n_columns) {
    int64_t last = 0;
    w->rows = 0;
    w->first = w->w;
    memset(w->slot, 0xff, (size_t)w->h * sizeof *w->slot);
    for (int64_t i = 0; i < n_rows; i++)
        if (w->slot[rows->tap[i].at] < 0) {
            w->slot[rows->tap[i].at] = (int32_t)w->rows;
            w->row[w->rows++] = (int32_t)rows->tap[i].at;
        }
    for (int64_t i = 0; i < n_columns; i++) {
        const int64_t at = columns->tap[i].at;
        if (at < w->first) w->first = at;
        if (at > last) last = at;
    }
    w->columns = n_columns ? last - w->first + 1 : 0;
}

static void add_places(struct work *w, const struct mo_roi_taps *rows, const struct mo_roi_taps *columns) {
    const int64_t *y = w->ctx->out[0].shape.d;
    for (int64_t i = 0; i < w->bins; i++) {
        const int64_t oy = i / y[3], ox = i % y[3];
        for (int64_t r = oy ? rows->end[oy - 1] : 0; r < rows->end[oy]; r++) {
            const int64_t row =
                w->whole ? rows->tap[r].at * w->w : w->slot[rows->tap[r].at] * w->columns - w->first;
            for (int64_t c = ox ? columns->end[ox - 1] : 0; c < columns->end[ox]; c++)
                w->place[w->places++] = (struct place){(int32_t)((row + columns->tap[c].at) * BLOCK),
                                                       (float)(rows->tap[r].weight * columns->tap[c].weight)};
        }
        w->end[w->n * w->bins + i] = (int32_t)w->places;
    }
}

/* --- channels ------------------------------------------------------------------------------------------- */
/* n pixels beside one another, of up to 16 planes.  Whole vectors are read where the map does not end. */
static void pack(const struct work *w, const float *from, int64_t n, int planes, float *to) {
    const int64_t plane = w->h * w->w;
    const float *end = (const float *)w->ctx->in[0].data + mo_count(&w->ctx->in[0]);
    for (int64_t i = 0; i < n; i += BLOCK, from += BLOCK, to += BLOCK * BLOCK) {
        const int m = n - i < BLOCK ? (int)(n - i) : BLOCK;
        if (planes == BLOCK && from + (BLOCK - 1) * plane + BLOCK <= end) {
            transpose16_to(from, plane, to, BLOCK, m);
            continue;
        }
        for (int k = 0; k < m; k++)
            for (int c = 0; c < BLOCK; c++)
                to[k * BLOCK + c] = c < planes ? from[c * plane + k] : 0;
    }
}

static void pack_tile(const struct work *w, int64_t c, int planes) {
    const float *x = (const float *)w->ctx->in[0].data + (w->image * w->c + c) * w->h * w->w;
    if (w->whole) {
        pack(w, x, w->h * w->w, planes, w->tile);
        return;
    }
    for (int64_t i = 0; i < w->rows; i++)
        pack(w, x + w->row[i] * w->w + w->first, w->columns, planes, w->tile + i * w->columns * BLOCK);
}

/* The bins of region g of the group, pixels of a block. */
static void add_up(const struct work *w, int g) {
    int64_t i = g ? w->end[g * w->bins - 1] : 0;
    for (int64_t bin = 0; bin < w->bins; bin++) {
        vec_value sum[VECS] = {{0}};
        for (; i < w->end[g * w->bins + bin]; i++) {
            const vec_value weight = vec_broadcast(&w->place[i].weight);
            const vec *x = (const vec *)(w->tile + w->place[i].at);
            for (int v = 0; v < VECS; v++)
                sum[v] = vec_mac(sum[v], weight, x[v]);
        }
        for (int v = 0; v < VECS; v++)
            *(vec *)(w->sums + bin * BLOCK + v * LANES) = sum[v];
    }
}

/* Planes of bins. */
static void unpack(const struct work *w, int64_t region, int64_t c, int planes) {
    float *to = (float *)w->ctx->out[0].data + (region * w->c + c) * w->bins;
    const int64_t squares = planes == BLOCK ? w->bins / BLOCK * BLOCK : 0;
    for (int64_t i = 0; i < squares; i += BLOCK)
        transpose16(w->sums + i * BLOCK, BLOCK, to + i, w->bins);
    for (int k = 0; k < planes; k++)
        for (int64_t i = squares; i < w->bins; i++)
            to[k * w->bins + i] = w->sums[i * BLOCK + k];
}

static void close_group(struct work *w) {
    for (int64_t c = 0; w->n && c < w->c; c += BLOCK) {
        const int planes = w->c - c < BLOCK ? (int)(w->c - c) : BLOCK;
        pack_tile(w, c, planes);
        for (int g = 0; g < w->n; g++) {
            add_up(w, g);
            unpack(w, w->region[g], c, planes);
        }
    }
    w->n = 0;
    w->places = 0;
}

/* --- regions -------------------------------------------------------------------------------------------- */
/* Into the group, which is closed first if it has no room; false: the reference is to do it. */
static bool add_region(struct work *w, int64_t r) {
    const int64_t *y = w->ctx->out[0].shape.d, image = mo_load_int(&w->ctx->in[2], r);
    const struct mo_roi roi = mo_roi_at(w->ctx, r);
    struct mo_roi_taps rows, columns;
    bool made = mo_roi_make_taps(w->ctx, &roi, &rows, &columns);
    if (made) {
        const int64_t n_rows = rows.end[y[2] - 1], n_columns = columns.end[y[3] - 1];
        made = n_rows <= PLACES && n_columns <= PLACES && n_rows * n_columns <= PLACES;
        if (made &&
            (!w->whole || w->n == GROUP || w->places + n_rows * n_columns > PLACES || image != w->image))
            close_group(w);
        if (made && !w->whole) find_extent(w, &rows, n_rows, &columns, n_columns);
        made = made && (w->whole || w->rows * w->columns <= PLACES);
    }
    if (made) {
        add_places(w, &rows, &columns);
        w->image = image;
        w->region[w->n++] = r;
    }
    mo_roi_free_taps(w->ctx, &rows);
    mo_roi_free_taps(w->ctx, &columns);
    return made;
}

/* One piece of memory; false: there is none. */
static bool make_room(struct work *w) {
    const size_t pixels = w->whole ? (size_t)(w->h * w->w) : PLACES, bins = (size_t)w->bins;
    const size_t tile = pixels * BLOCK * sizeof *w->tile, sums = bins * BLOCK * sizeof *w->sums;
    const size_t rows = w->whole ? 0 : (size_t)w->h * sizeof *w->row;
    char *at = mo_alloc(w->ctx->env,
                        tile + sums + PLACES * sizeof *w->place + GROUP * bins * sizeof *w->end + 2 * rows);
    if (!at) return false;
    w->tile = (float *)at;
    w->sums = (float *)(at += tile);
    w->place = (struct place *)(at += sums);
    w->end = (int32_t *)(at += PLACES * sizeof *w->place);
    w->row = (int32_t *)(at += GROUP * bins * sizeof *w->end);
    w->slot = (int32_t *)(at + rows);
    return true;
}

void MO_SIMD(roi_align)(const struct mo_op_ctx *ctx, int64_t from, int64_t to) {
    const int64_t *x = ctx->in[0].shape.d, *y = ctx->out[0].shape.d;
    struct work w = {.ctx = ctx, .c = x[1], .h = x[2], .w = x[3]};
    const bool fits = y[2] <= PLACES && y[3] <= PLACES && y[2] * y[3] <= PLACES && x[2] <= INT32_MAX / 2;
    w.bins = fits ? y[2] * y[3] : 0;
    w.whole = x[2] <= SMALL_MAP && x[3] <= SMALL_MAP && x[2] * x[3] <= SMALL_MAP &&
              x[2] * x[3] <= (to - from) * w.bins * 4;
    if (!fits || ctx->in[0].dtype != MOIRE_F32 || mo_roi_is_max(ctx) || !make_room(&w)) {
        mo_roi_align_parts.run(ctx, from, to);
        return;
    }
    for (int64_t r = from; r < to; r++)
        if (!add_region(&w, r)) mo_roi_align_parts.run(ctx, r, r + 1);
    close_group(&w);
    mo_free(ctx->env, w.tile);
}
