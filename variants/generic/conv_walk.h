/* SPDX-License-Identifier: Apache-2.0
 * conv_walk.h - what the built-in convolution kernels know about a bound layer: the grid of output tiles, the
 * offsets of the filter taps, and how work is cut into units.
 *
 * A layer of 8-bit numbers (moire.QConv) has tiles that add up int32 where the machine has an instruction for
 * that; else its windows are copied as floats, which are summed exactly up to 2^24.  Either way a tile's sums
 * go to scratch first, and from there, converted, to the output.
 *
 * Tiles are numbered row by row.  A unit is a run of consecutive tiles of one image and one or two blocks of
 * output channels.  Tiles whose window lies inside the image read the input in place (rows above and below
 * are clipped by taking fewer taps); the others read a zero-padded copy of their window in the caller's
 * scratch. */
#ifndef MO_CONV_WALK_H
#define MO_CONV_WALK_H
#include "variants/conv_geometry.h"
#include "variants/requant.h"
#include "variants/tiles.h"

enum mo_conv_kind { MO_CONV_BLOCKED, MO_CONV_FIRST, MO_CONV_DEPTHWISE };

/* What a layer of 8-bit numbers has besides. */
struct mo_conv_small {
    bool dot; /* tiles read bytes; else floats made of them */
    int zero; /* of x: what padding holds */
    const int32_t
        *sums; /* of each channel's weights, where a query says what zero is (mo_kargs.in); else NULL */
    struct mo_requant requant;
    const float *factor, *bias; /* by output channel, padded to blocks */
    int64_t sums_at;            /* where in scratch a tile's sums are */
    struct mo_tile_pack *pack;  /* tiles write the output themselves; NULL: sums are converted */
    mo_requantize_fn *requantize;
    mo_widen_fn *widen;
    mo_copy_pixels_fn *copy_pixels;
};

struct mo_conv_walk {
    enum mo_conv_kind kind;
    const struct mo_tiles *tiles;
    int stride; /* MO_TILE_S* */
    int side;   /* depthwise: index of the window kernels (tiles.h), or -1 */
    int64_t n, groups, h, w, oh, ow, kh, kw, sh, sw, dh, dw, pt, pl;
    const struct mo_conv_small *small; /* NULL: a layer of floats */
    int64_t pixel;            /* bytes of an input pixel: 64, 16 if it holds bytes, 4 in a plain input */
    int64_t element;          /* the same of a pixel that tiles read: 64 where bytes become floats */
    int64_t y_pixel;          /* bytes of an output pixel: 64 or 16; a row's, of matrices; likewise pixel */
    int64_t x_plane, y_plane; /* bytes from one block of channels to the next, in and out */
    int lanes;                /* channels of the last block that matrices have room for; else 16 */
    int64_t tap_bytes;        /* of one filter tap's weights, for a block of inputs and one of outputs */
    int64_t planes;           /* blocks (or channels) of one group's input */
    int64_t own_in, own_out;  /* channels of each of the groups that share blocks; 0: none do */
    int64_t last_plane;    /* the first block of inputs of the last group, which may begin within another's */
    int64_t ocb, last_ocb; /* output blocks of a group, and of the last one */
    int blocks;            /* output blocks of a tile */
    int64_t group_sets, sets;    /* tiles' worth of output blocks in a group, in all groups */
    int64_t rows, cols;          /* output rows of a tile; number of tiles in a row */
    int64_t col_size, col_extra; /* the first col_extra tiles of a row are one pixel wider than col_size */
    int64_t grid, chunks;        /* tiles of an image; units they are cut into */
    int64_t band;    /* output rows of a unit with all its blocks (conv_bands.c); 0: there are none */
    bool flat;       /* one row, read in place: no windows */
    bool sets_outer; /* unit order: output blocks outer, or chunks outer */
    const struct mo_tap *taps, *copy_taps; /* [plane, first only][kh][row_taps] */
    int64_t row_taps, span;                /* taps of a filter row; input columns that they read */
    int64_t copy_rows, copy_cols;          /* of a window copy */
    struct mo_tile tile;                   /* all that does not depend on the tile */
    enum mo_act act;                       /* applied after the tile is stored; NONE if the clamp does it */
    float a, b;
    bool res_late;      /* the residual is added after `act` */
    bool gated;         /* weights are multiplied by the image's gate first, in the scratch */
    int64_t gate_bytes; /* of scratch for them, before the window's */
};

mo_kernel mo_conv_walk_run;

/* Of groups that share blocks, as 24 channels do, most weights are zeros between them.  The input blocks of a
 * group with all that `blocks` of its output blocks have other weights for, but for quarters of blocks at
 * both ends. */
struct mo_conv_reach {
    int64_t first, planes;
    int64_t skip, drop; /* quarters of the first block, and of the last, with zeros only */
};
struct mo_conv_reach mo_conv_walk_reach(const struct mo_conv_walk *walk, int64_t group, int64_t block,
                                        int64_t blocks);

/* Fills a step for the layer.  Rows of 1x1 filters without pads and strides are joined into one. */
int mo_conv_walk_bind(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *conv,
                      enum mo_conv_kind kind, const char *const names[MO_ISA_COUNT], struct mo_step *step,
                      moire_error *err);
/* The plan of the walk alone, without weights; `small` as in the struct.  MOIRE_EUNSUPPORTED: a window would
 * be absurdly large. */
int mo_conv_walk_plan(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *conv,
                      enum mo_conv_kind kind, struct mo_conv_small *small, struct mo_step *step,
                      moire_error *err);
#endif
