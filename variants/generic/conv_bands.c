/* SPDX-License-Identifier: Apache-2.0
 * conv_bands.c - layers whose input has few channels, with pads, band by band.
 *
 * Such a tile reads few channels of a large window, so that a copy of it, at the border of the image, takes
 * nearly as long as its products.  A unit is therefore a band of whole output rows with all output blocks:
 * what it reads is copied once, with the pads around it, and every tile reads the copy. */
#include "variants/generic/conv_spot.h"

/* The tiles of one row of a band, whose window begins at `x`. */
static void run_row(const struct mo_conv_walk *c, struct mo_conv_spot *s, const struct mo_conv_places *p,
                    struct mo_tile t, const char *x) {
    s->col = 0;
    for (int64_t tile = 0; tile < c->cols; tile++, s->col += s->cols) {
        const int64_t pixel = s->row * c->ow + s->col;
        s->cols = c->col_size + (tile < c->col_extra);
        t.x = x + s->col * c->sw * c->element;
        mo_conv_place_tile(c, s, p, pixel, &t);
        c->tiles->first[s->blocks][s->cols][c->stride](&t);
        mo_conv_close_tile(c, s, p, pixel, &t);
    }
}

void mo_conv_run_band(const struct mo_conv_walk *c, const struct mo_kargs *args, int64_t unit,
                      char *scratch) {
    const int64_t image = unit / c->chunks, top = unit % c->chunks * c->band;
    const int64_t rows = c->oh - top < c->band ? c->oh - top : c->band;
    const char *x = (const char *)args->in[0] + image * args->in_image[0];
    struct mo_conv_spot s = {.image = image, .rows = rows, .cols = c->ow, .planes = c->planes};
    s.iy = top * c->sh - c->pt, s.ix = -c->pl;
    mo_conv_copy_window(c, &s, x, scratch);
    s.rows = 1;
    for (s.block = 0; s.block < c->ocb; s.block += c->blocks) {
        struct mo_tile t = c->tile;
        s.blocks = c->ocb - s.block < c->blocks ? (int)(c->ocb - s.block) : c->blocks;
        const struct mo_conv_places p = mo_conv_open_tiles(c, args, &s, scratch, &t);
        t.taps = c->copy_taps;
        t.n_taps = c->planes * c->kh * c->row_taps;
        for (int64_t r = 0; r < rows; r++) {
            s.row = top + r;
            run_row(c, &s, &p, t, scratch + r * c->sh * c->copy_cols * c->element);
        }
    }
}
