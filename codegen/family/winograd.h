/* SPDX-License-Identifier: Apache-2.0
 * winograd.h - convolution by minimal filtering F(m x m, r x r): at stride 1 r = 3, m = 2 .. 6 and r = 5, m =
 * 2 .. 4; at stride 2 r = 3, m = 2 .. 5; and F(m, r) of filters of one row or one column at stride 1: r = 3,
 * m = 2, 4, 6, 8 and r = 5, 7, m = 2, 4, 6.
 *
 * The output is cut into tiles of m x m pixels, counted over all images; a block of tiles is worked off as
 *     V[a][tiles][IC]  = BT d BT^T of every input tile d     (a = 0 .. alpha^2 - 1)
 *     M[a][tiles][OC'] = V[a] U[a], alpha^2 products with the packed filters, for some output blocks OC'
 *     Y                = act(AT M AT^T + bias + residual), stored tile by tile.
 * Where m does not divide the output, the last tiles of its rows and columns are tails: they compute fewer
 * outputs from fewer of the alpha^2 products (mo_winograd_tail), as if the image were cut into tiles of two
 * sizes each way.  Tiles come in the order right column, inside, bottom row, corner: those that have a plane
 * of V follow each other then, whichever of its row and column the tails lack.
 *
 * Filters of one row are transformed across only: down, tiles have one row, of input, products and outputs,
 * and their matrices there are those of mo_winograd_identity(); filters of one column likewise.
 *
 * A dilated filter (stride 1) reads every D-th pixel: these are D images, whose outputs are every D-th one,
 * too.  A tile belongs to one of them, its pixels lie D apart; tiles of the D at the same place follow each
 * other.
 *
 * A unit is one block of tiles against one group of output blocks, output blocks innermost: V is computed
 * when a range of units enters a block of tiles, so only a split inside a block computes it twice.  V and M
 * lie in the caller's scratch; their planes are an odd number of cache lines apart, as a stride of 4 KiB
 * would put all alpha^2 of them into one set of the cache.
 *
 * Where the filters are half transformed (variants/winograd_matrices.h), the products go row by row of the
 * alpha^2 and a unit has one output block a register tile: a pair of columns shares the three vectors that
 * both come from, so a register tile has two of the alpha^2 products of its tiles.  That is 2 operations more
 * for each 2 T multiply-adds of T tiles, and less than half the bytes from memory: it pays where few tiles
 * use a filter, and where cores or models share the memory.
 *
 * Rounding errors are relative to the largest input of a tile, a few 1e-6 of the output's rms (variants/
 * winograd.h); a NaN or an infinity reaches every output of the tiles that read it, and no other. */
#ifndef MO_EMIT_WINOGRAD_H
#define MO_EMIT_WINOGRAD_H
#include "codegen/emit/emit.h"
#include "codegen/family/family.h"
#include "variants/winograd_matrices.h"

enum {
    MO_WINO_KNOB_M,        /* outputs of a tile in each direction */
    MO_WINO_KNOB_BLOCKS,   /* output blocks of a register tile */
    MO_WINO_KNOB_TILES,    /* most tiles of a register tile */
    MO_WINO_KNOB_BLOCK,    /* most tiles of a block of tiles */
    MO_WINO_KNOB_SETS,     /* register tiles' output blocks in a unit */
    MO_WINO_KNOB_PREFETCH, /* bytes ahead in the packed weights; 1: the next of the alpha^2 products; 0: none
                            */
    MO_WINO_KNOB_HALF,     /* 1: filters are half transformed */
    MO_WINO_KNOB_NUMBER,   /* of blocks of tiles, for many cores; 0: as many as BLOCK makes */
    MO_WINO_KNOBS
};

/* Bits of a kind of tiles: tiles of that kind are tails at the right or at the bottom of the image.  The same
 * bits name a class of planes: those that tails of that side lack. */
enum { MO_WINO_RIGHT = 1, MO_WINO_BOTTOM = 2, MO_WINO_KINDS = 4 };

struct mo_wino_kind {
    int64_t begin, end; /* in the order of all tiles */
    int64_t rows, cols; /* of an image */
    int64_t y, x;       /* row and column of the first tile */
};

struct mo_wino {
    const struct mo_problem *p;
    const struct mo_emit_isa *isa;
    struct mo_winograd matrix;
    struct mo_winograd whole_down, whole_across; /* matrix, or the identity */
    struct mo_winograd down, across;             /* of tails; as of whole tiles where there are none */
    struct mo_wino_kind kind[MO_WINO_KINDS];
    int kinds; /* 1, or all; also how many classes there are */
    enum mo_packing packing;
    int64_t dh, dw;                     /* pixels of a tile are so far apart: dilation */
    int64_t phases_down, phases_across; /* of the dh and dw images, those that have pixels */
    int64_t rows, cols, tiles;          /* tiles of an image, of all images */
    int64_t icb, ocb, square;           /* blocks of 16 channels; planes: alpha^2, of one dimension alpha */
    /* the point */
    int blocks, cut, sets; /* cut: most tiles of a register tile */
    int64_t ahead;         /* bytes; 0: no prefetch */
    /* derived: blocks of tiles have size or size + 1 tiles, the last `extra` the latter: more of theirs are
     * tails */
    int64_t tile_blocks, size, extra, oc_groups;
    int64_t v_plane, m_plane, m_block; /* bytes */
    int64_t u_plane, u_block;          /* of packed filters: to the next plane, to the next output block */
    bool kept; /* half transformed: filters of a pair of columns go to the scratch, behind M */
    int64_t scratch_bytes;
};
/* Describes a layer at a point; false when the point is illegal for it. */
bool mo_wino_describe(const struct mo_problem *p, const struct mo_point *point, struct mo_wino *out);
int64_t mo_wino_l3_bytes(const struct mo_wino *w);
int64_t mo_wino_block_bytes(const struct mo_wino *w);
bool mo_wino_streams_out(const struct mo_wino *w); /* the output is larger than a private cache */
bool mo_wino_streams_in(const struct mo_wino *w);  /* the input is, and comes in several blocks of tiles */
int64_t mo_wino_flops(const struct mo_wino *w);    /* executed, of the products */
double mo_wino_cost(const struct mo_wino *w);      /* nanoseconds on one core, for ranking */
/* The same of the core with most to do when `cores` split the units: its part of the products and output
 * tiles, and the whole input transform of every block of tiles that it enters. */
double mo_wino_part(const struct mo_wino *w, int cores);
/* The numbers of tiles of a register tile, over all blocks of tiles: bit n for n. */
uint64_t mo_wino_widths(const struct mo_wino *w);

/* winograd_tiles.c: tiles of several kinds. */
/* From the problem and matrix: all of tiles, kinds and dilation. */
void mo_wino_tile(struct mo_wino *w);
/* One dimension of the transforms of a kind's tiles. */
const struct mo_winograd *mo_wino_down(const struct mo_wino *w, int kind);
const struct mo_winograd *mo_wino_across(const struct mo_wino *w, int kind);
/* Class of plane (row, col). */
int mo_wino_class(const struct mo_wino *w, int row, int col);
/* Rows and columns of a class, as planes are in both. */
int mo_wino_class_rows(const struct mo_wino *w, int cls);
int mo_wino_class_cols(const struct mo_wino *w, int cls);
/* Of `count` tiles from `first` on, those that have the planes of a class; the first of them to *at.  0 also
 * for a class without planes. */
int64_t mo_wino_span(const struct mo_wino *w, int cls, int64_t first, int64_t count, int64_t *at);
/* Products of planes and tiles. */
int64_t mo_wino_planes(const struct mo_wino *w);
/* tile_at(): a tile's first output pixel; spans_of(): the tiles of a block by class. */
void mo_wino_emit_tiles(FILE *out, const struct mo_wino *w);

/* winograd_lines.c: the inline functions of one dimension of a transform, for tiles that are whole and those
 * that are tails that way. */
void mo_wino_emit_lines(FILE *out, const struct mo_wino *w);
/* winograd_products.c: the alpha^2 products of a block of tiles, as the function `multiply`. */
void mo_wino_emit_products(FILE *out, const struct mo_wino *w);
/* winograd_half.c: the same, of half-transformed filters. */
void mo_wino_emit_half(FILE *out, const struct mo_wino *w);
/* Of a class: columns of 0 and of infinity; calls of a product function for each register tile and output
 * block. */
int mo_wino_ends(const struct mo_wino *w, int cls);
int mo_wino_half_calls(const struct mo_wino *w, int cls);
/* winograd_fetch.c: `struct fetches`, fetches_of() for a unit, and fetch(), for each call of a product. */
void mo_wino_emit_fetch(FILE *out, const struct mo_wino *w);
/* winograd_emit.c */
int mo_wino_emit(const struct mo_wino *w, const char *name, FILE *out, moire_error *err);

extern const struct mo_emit_family mo_emit_family_winograd;
#endif
