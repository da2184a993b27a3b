/* SPDX-License-Identifier: Apache-2.0
 * conv_window.c - padded copies of what tiles read where their windows leave the image: of one tile, or of a
 * band of rows for all tiles in it. */
#include <string.h>
#include "variants/generic/conv_spot.h"

/* n pixels of bytes from `from` on, as floats. */
static void widen_pixels(const struct mo_conv_walk *c, const char *from, float *to, int64_t n) {
    int64_t run = c->pixel == 16 ? n : 1; /* that lie one after the other */
    for (int64_t i = 0; i < n; i += run)
        c->small->widen((const uint8_t *)from + i * c->pixel, c->small->zero, to + i * 16, run * 16);
}

/* What padding is in a copy: the byte that stands for zero, or zeros. */
static int filler(const struct mo_conv_walk *c) {
    return c->small && c->small->dot ? c->small->zero : 0;
}

/* Rows outside the image are zeros, which tiles of one row need not read. */
bool mo_conv_clips_copy(const struct mo_conv_walk *c) {
    return c->kind == MO_CONV_BLOCKED && c->rows == 1 && filler(c) == 0 && !(c->small && c->small->sums);
}

static void copy_row(const struct mo_conv_walk *c, char *to, const char *from, int64_t ix, int64_t cols) {
    int64_t skip = ix < 0 ? -ix : 0, n = c->w - ix < cols ? c->w - ix : cols;
    if (skip > cols) skip = cols;
    if (n < skip) n = skip;
    if (c->element == 64 && !c->small) {
        c->tiles->copy(to, from + (ix + skip) * 64 * (n > skip), skip, n - skip, cols - n);
        return;
    }
    from += (ix + skip) * c->pixel * (n > skip);
    if (c->small && c->small->dot) {
        c->small->copy_pixels(to, from, skip, n - skip, cols - n, filler(c));
        return;
    }
    memset(to, filler(c), (size_t)(skip * c->element));
    if (c->small)
        widen_pixels(c, from, (float *)(to + skip * 64), n - skip);
    else
        memcpy(to + skip * c->element, from, (size_t)((n - skip) * c->element));
    memset(to + n * c->element, filler(c), (size_t)((cols - n) * c->element));
}

/* A padded copy of the tile's window: [plane][row][copy_cols].  A tile of one row copies of the kh rows it
 * reads those from k0 to k1; a tile of several, or a band, the whole span. */
void mo_conv_copy_window(const struct mo_conv_walk *c, const struct mo_conv_spot *s, const char *x,
                         char *to) {
    int64_t cols = (s->cols - 1) * c->sw + (c->kw - 1) * c->dw + 1;
    int64_t step = c->rows == 1 && !c->band ? c->dh : 1, row_bytes = c->copy_cols * c->element;
    int64_t rows = c->copy_rows - ((c->band ? c->band : c->rows) - s->rows) * c->sh;
    const int64_t first = mo_conv_clips_copy(c) ? s->k0 : 0, end = mo_conv_clips_copy(c) ? s->k1 : rows;
    for (int64_t plane = 0; plane < s->planes; plane++)
        for (int64_t r = first; r < end; r++) {
            char *row = to + (plane * c->copy_rows + r) * row_bytes;
            int64_t iy = s->iy + r * step;
            if (iy < 0 || iy >= c->h)
                memset(row, filler(c), (size_t)(cols * c->element));
            else
                copy_row(c, row, x + plane * c->x_plane + iy * c->w * c->pixel, s->ix, cols);
        }
}
