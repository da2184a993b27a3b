/* SPDX-License-Identifier: Apache-2.0
 * conv_spot.h - what the files of the built-in convolution's walk share: a place in a layer, and what tiles
 * there read and write. */
#ifndef MO_CONV_SPOT_H
#define MO_CONV_SPOT_H
#include "variants/generic/conv_walk.h"

/* Where a tile is: output rows [row, row+rows), columns [col, col+cols), and its window in the input. */
struct mo_conv_spot {
    int64_t image, group, block; /* block: of output channels, within the group */
    int64_t row, rows, col, cols;
    int64_t iy, ix; /* first input row and column, may be negative */
    int64_t k0, k1; /* filter rows that touch the image (tiles of one row) */
    int blocks;
    int64_t planes;     /* input blocks that it reads */
    bool part;          /* not all quarters of the first or the last */
    mo_tile_fn *window; /* depthwise: the kernel made for this size of filter and overhang, or NULL */
};

/* Where a tile reads, but for its place in the plane, and where it writes. */
struct mo_conv_places {
    const char *x, *res;
    char *y, *sums; /* sums: NULL where tiles write the output itself */
};

/* A tile of one row reads the filter rows of a copy that touch the image only: the others are zeros. */
bool mo_conv_clips_copy(const struct mo_conv_walk *walk);
/* A padded copy of a spot's window at `to`: [plane][row][copy_cols] (conv_window.c). */
void mo_conv_copy_window(const struct mo_conv_walk *walk, const struct mo_conv_spot *spot, const char *x,
                         char *to);
/* Sets up what tiles of one image and set of output blocks share. */
struct mo_conv_places mo_conv_open_tiles(const struct mo_conv_walk *walk, const struct mo_kargs *args,
                                         struct mo_conv_spot *spot, char *scratch, struct mo_tile *tile);
/* Where the tile at a pixel writes; and what follows it. */
void mo_conv_place_tile(const struct mo_conv_walk *walk, const struct mo_conv_spot *spot,
                        const struct mo_conv_places *places, int64_t pixel, struct mo_tile *tile);
void mo_conv_close_tile(const struct mo_conv_walk *walk, const struct mo_conv_spot *spot,
                        const struct mo_conv_places *places, int64_t pixel, const struct mo_tile *tile);
/* A unit that is a band of rows (conv_bands.c). */
void mo_conv_run_band(const struct mo_conv_walk *walk, const struct mo_kargs *args, int64_t unit,
                      char *scratch);
#endif
