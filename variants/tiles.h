/* SPDX-License-Identifier: Apache-2.0
 * tiles.h - the built-in micro-kernels: one output tile (1 or 2 blocks of 16 channels by some pixels) of a
 * convolution whose shape is known at run time only.
 *
 * tools/emit-generic.c writes them with the emitters of codegen/emit, once for each instruction set; the
 * drivers in variants/generic/conv*.c walk the layer tile by tile.  A tile reads its input through a list of
 * taps, so stride, dilation, clipped rows and padded copies are all the caller's choice of offsets. */
#ifndef MO_TILES_H
#define MO_TILES_H
#include "variants/kernel.h"

/* Byte offsets of one filter tap: into the input and into the weights of a block. */
struct mo_tap {
    int64_t x, w;
};

/* How tiles of bytes make bytes of their sums: sum x factor + shift, rounded to even; `zero` is added, and
 * what lies outside [lo, hi] is moved there.  Every value fits an int32.  Vectors of equal lanes. */
struct mo_tile_pack {
    int16_t zero[32];
    uint8_t lo[64], hi[64];
};

struct mo_tile {
    const char *x, *w; /* first pixel, first weight */
    const struct mo_tap *taps;
    int64_t n_taps;
    int64_t n_outer;          /* blocks of input channels; 1 for first layers and depthwise */
    int64_t x_outer, w_outer; /* bytes from one to the next */
    int64_t skip, drop;       /* `part`: quarters of the first block, and of the last, with no weights */
    int64_t w_ahead; /* distance of weight prefetches: the next output blocks' if they fit the cache */
    int64_t w_block, y_block; /* bytes from one block of output channels to the next */
    int64_t x_row, y_row;     /* bytes from a row of the tile to the next, in and out */
    int64_t repeat;           /* depthwise: rows of the tile, each like the first */
    int64_t px;               /* bytes between pixels, for the run-time stride class */
    const float *bias;        /* of the first block; the next follows it */
    char *y;
    const char *res;   /* residual at y's place in its own tensor, or NULL */
    int64_t res_block; /* like y_block */
    float lo, hi;      /* clamp: -inf, +inf for none */
    int res_last;      /* residual is added after the clamp */
    const struct mo_tile_pack
        *pack; /* of tiles of bytes: the output is uint8, 16 bytes a pixel; NULL: it is sums */
    const float *factor, *shift; /* for that, like bias */
};
typedef void mo_tile_fn(const struct mo_tile *tile);

enum { MO_TILE_BLOCKS = 2, MO_TILE_PIXELS = 14, MO_TILE_ROW2 = 7 };
/* Depthwise kernels of 3x3 and 5x5: n_outer is the number of filter rows, x_outer and w_outer the bytes
 * between them, n_taps and taps are not read.  `left` columns before the first pixel's window and `right`
 * behind the last one's lie outside the image: those taps are left out. */
enum { MO_TILE_SIDES = 2, MO_TILE_OVERHANG = 2 };
static inline int mo_tile_side(int index) {
    return 3 + 2 * index;
}
/* Distance between pixels: 1 or 2 elements (a float of a plain input, 16 floats of a blocked one), or
 * tile->px. */
enum { MO_TILE_S1, MO_TILE_S2, MO_TILE_SX, MO_TILE_STRIDES };

/* NULL entries: the instruction set has too few registers. */
struct mo_tiles {
    bool pairs; /* of bytes: weights are int16, by pairs */
    int max_pixels[MO_TILE_BLOCKS +
                   1]; /* of one row, by number of blocks; 0 = that many blocks not available */
    mo_tile_fn *conv[MO_TILE_BLOCKS + 1][MO_TILE_PIXELS + 1][MO_TILE_STRIDES]; /* C16 input */
    mo_tile_fn
        *part[MO_TILE_BLOCKS + 1][MO_TILE_PIXELS + 1][MO_TILE_STRIDES];       /* not all quarters of blocks */
    mo_tile_fn *conv2[MO_TILE_BLOCKS + 1][MO_TILE_ROW2 + 1][MO_TILE_STRIDES]; /* two rows */
    mo_tile_fn *first[MO_TILE_BLOCKS + 1][MO_TILE_PIXELS + 1][MO_TILE_STRIDES]; /* plain input */
    mo_tile_fn
        *wide[MO_TILE_PIXELS + 1]; /* of bytes, with `pairs`: input pixels are int16, one after the other */
    mo_tile_fn *depthwise[MO_TILE_PIXELS + 1][MO_TILE_STRIDES];
    /* [side][pixels][stride 1 or 2][left][right] */
    mo_tile_fn
        *window[MO_TILE_SIDES][MO_TILE_PIXELS + 1][MO_TILE_SX][MO_TILE_OVERHANG + 1][MO_TILE_OVERHANG + 1];
    /* pixels of 16 floats: `before` zeros, `n` copied, `after` zeros */
    void (*copy)(char *to, const char *from, int64_t before, int64_t n, int64_t after);
    /* n rows of 16 weights, each times its factor */
    void (*gate)(char *to, const char *from, const char *factors, int64_t n);
    /* y = act(y), then y += res (same layout) when res is not NULL; n floats, a multiple of 16 */
    void (*activate)(enum mo_act act, float a, float b, float *y, const float *res, int64_t n);
};
extern const struct mo_tiles mo_tiles_base, mo_tiles_avx2, mo_tiles_avx512, mo_tiles_neon;
extern const struct mo_tiles mo_tiles_avx512vnni, mo_tiles_avx512vnni_narrow, mo_tiles_avxvnni,
    mo_tiles_avxvnni_narrow, mo_tiles_avx2pairs, mo_tiles_avx2pairs_narrow;
const struct mo_tiles *mo_tiles_of(enum mo_isa isa);

/* Tiles of bytes, where a level and this machine have an instruction for them; else NULL.  Only max_pixels,
 * conv, conv2, wide and depthwise are there.  Input pixels are 16 bytes (uint8), of which `narrow` ones use
 * 4; weights as MO_PACK_DOT16, MO_PACK_DOTDW16 (a tap is four columns: four pixels are read) or
 * MO_PACK_NARROW16, or with `pairs` their forms in int16.  Accumulators are int32: they start from what
 * `bias` points to, of that type; clamp and residual are not read. */
const struct mo_tiles *mo_dot_tiles_of(enum mo_isa isa, bool narrow);
#endif
