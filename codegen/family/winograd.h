/* SPDX-License-Identifier: Apache-2.0
 * winograd.h - convolution by minimal filtering F(m x m, r x r): at stride 1 r = 3, m = 2 .. 6 and r = 5, m =
 * 2 .. 4; at stride 2 r = 3, m = 2 .. 5.
 *
 * The output is cut into tiles of m x m pixels, counted over all images; a block of tiles is worked off as
 *     V[a][tiles][IC]  = BT d BT^T of every input tile d     (a = 0 .. alpha^2 - 1)
 *     M[a][tiles][OC'] = V[a] U[a], alpha^2 products with the packed filters, for some output blocks OC'
 *     Y                = act(AT M AT^T + bias + residual), stored tile by tile.
 * A unit is one block of tiles against one group of output blocks, output blocks innermost: V is computed
 * when a range of units enters a block of tiles, so only a split inside a block computes it twice.  V and M
 * lie in the caller's scratch; their planes are an odd number of cache lines apart, as a stride of 4 KiB
 * would put all alpha^2 of them into one set of the cache.
 *
 * Where the filters are half transformed (variants/winograd.h), the products go row by row of the alpha^2 and
 * a unit has one output block a register tile: a pair of columns shares the three vectors that both come
 * from, so a register tile has two of the alpha^2 products of its tiles.  That is 2 operations more for each
 * 2 T multiply-adds of T tiles, and less than half the bytes from memory: it pays where few tiles use a
 * filter, and where cores or models share the memory.
 *
 * Rounding errors are relative to the largest input of a tile, a few 1e-6 of the output's rms (variants/
 * winograd.h); a NaN or an infinity reaches every output of the tiles that read it, and no other. */
#ifndef MO_EMIT_WINOGRAD_H
#define MO_EMIT_WINOGRAD_H
#include "codegen/emit/emit.h"
#include "codegen/family/family.h"
#include "variants/winograd.h"

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

struct mo_wino {
    const struct mo_problem *p;
    const struct mo_emit_isa *isa;
    struct mo_winograd matrix;
    enum mo_packing packing;
    int64_t rows, cols, tiles; /* tiles of an image, of all images */
    int64_t icb, ocb, square;  /* blocks of 16 channels; alpha^2 */
    /* the point */
    int blocks, cut, sets; /* cut: most tiles of a register tile */
    int64_t ahead;         /* bytes; 0: no prefetch */
    /* derived: blocks of tiles have size or size + 1 tiles, the first `extra` the latter */
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
/* Smallest and largest number of tiles of a register tile over all blocks of tiles. */
void mo_wino_cuts(const struct mo_wino *w, int *least, int *most);

/* winograd_lines.c: the inline functions input_line and output_line, one dimension of a transform. */
void mo_wino_emit_lines(FILE *out, const struct mo_wino *w);
/* winograd_products.c: the alpha^2 products of a block of tiles, as the function `multiply`. */
void mo_wino_emit_products(FILE *out, const struct mo_wino *w);
/* winograd_half.c: the same, of half-transformed filters. */
void mo_wino_emit_half(FILE *out, const struct mo_wino *w);
/* winograd_fetch.c: `struct fetches`, fetches_of() for a unit, and fetch(), for each call of a product. */
void mo_wino_emit_fetch(FILE *out, const struct mo_wino *w);
/* winograd_emit.c */
int mo_wino_emit(const struct mo_wino *w, const char *name, FILE *out, moire_error *err);

extern const struct mo_emit_family mo_emit_family_winograd;
#endif
