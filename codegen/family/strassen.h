/* SPDX-License-Identifier: Apache-2.0
 * strassen.h - 1x1 convolution and matrix products by one level of Strassen's algorithm, seven eighths of the
 * multiplications, or of Hopcroft and Kerr's, 26 of 32 (variants/strassen_terms.h).
 *
 * Pixels i and i + P of an image (P = half of them, rounded up) are a pair; the pairs are cut into chunks, a
 * chunk into register tiles.  Input and output channels are cut into the scheme's ranges.  A chunk is
 * worked off as
 *     V[p][pairs][K / depth]          = combinations of the ranges of its pixels  (p = 0 .. products - 1)
 *     M[p][pairs][blocks]             = V[p] U[p], with the packed combinations of weights, for one set of
 * blocks outputs of each pair and column = combinations of M + what earlier parts left there, or bias and
 * residual. A range of input channels may be taken in parts.  A unit is one chunk against one group of sets,
 * groups innermost: without parts V is computed when a range of units enters a chunk.  V and M lie in the
 * caller's scratch, their planes an odd number of cache lines apart.  What an image or a matrix lacks to
 * equal ranges counts as zeros.
 *
 * The weights of a set lie in panels, one for each product, in the order in which they are read.  The first
 * register tile of a chunk would wait for its panel and the others find it in a cache; so every tile fetches
 * its share of the next panel, and the reads from memory are spread evenly over the products.
 *
 * Rounding errors are relative to the largest input of a pair, some 1e-6 of the output's rms; a NaN or an
 * infinity reaches every output of its pair of pixels, and no other. */
#ifndef MO_EMIT_STRASSEN_H
#define MO_EMIT_STRASSEN_H
#include "codegen/emit/emit.h"
#include "codegen/family/family.h"
#include "variants/strassen_terms.h"

enum {
    MO_STRASSEN_KNOB_BLOCKS,   /* output blocks (of each column) of a register tile and of a panel: 1, 2, 4 */
    MO_STRASSEN_KNOB_TILES,    /* register tiles of a chunk */
    MO_STRASSEN_KNOB_PARTS,    /* of a range of input channels */
    MO_STRASSEN_KNOB_SETS,     /* of output blocks in a unit */
    MO_STRASSEN_KNOB_PREFETCH, /* 1: each product fetches its share of the next panel of weights */
    MO_STRASSEN_KNOB_CHUNKS,   /* of an image, for many cores; 0: as many as TILES makes */
    MO_STRASSEN_KNOB_SCHEME,   /* index of mo_strassen_schemes */
    MO_STRASSEN_KNOBS
};

/* Most of V: a private cache, but for what streams by; where channels are in one part also a shared one. */
enum { MO_STRASSEN_V_BYTES = 896 << 10, MO_STRASSEN_V_SHARED = 8 << 20 };

struct mo_strassen {
    const struct mo_problem *p;
    const struct mo_emit_isa *isa;
    bool rows;             /* matrix product of plain rows; else blocked channels */
    int64_t pixels, pairs; /* of an image */
    const struct mo_strassen_scheme *scheme;
    int64_t icb, ocb, kb, nb; /* blocks of 16 channels in and out, and of the first ranges */
    int64_t x_pixel, x_block, y_pixel, y_block; /* bytes */
    /* the point */
    int blocks, cut; /* cut: most pairs of a register tile */
    int64_t parts, sets;
    bool prefetch;
    enum mo_packing packing;
    /* derived: chunks of an image have size or size + 1 pairs, the first `extra` the latter */
    int64_t chunks, size, extra, groups;
    int64_t share; /* bytes of the next panel that a product fetches in four channels */
    int64_t v_plane, m_plane, m_block, scratch_bytes; /* bytes */
};
/* Describes a layer at a point; false when the point is illegal for it. */
bool mo_strassen_describe(const struct mo_problem *p, const struct mo_point *point, struct mo_strassen *out);
int64_t mo_strassen_l3_bytes(const struct mo_strassen *s);
int64_t mo_strassen_flops(const struct mo_strassen *s); /* executed, of the products */
double mo_strassen_cost(const struct mo_strassen *s);   /* nanoseconds on one core, for ranking */
/* The same of the core with most to do when `cores` split the units: it makes V of every chunk it enters. */
double mo_strassen_part(const struct mo_strassen *s, int cores);
/* Smallest and largest number of pairs of a register tile over all chunks. */
void mo_strassen_cuts(const struct mo_strassen *s, int *least, int *most);
int mo_strassen_emit(const struct mo_strassen *s, const char *name, FILE *out, moire_error *err);

extern const struct mo_emit_family mo_emit_family_strassen;
#endif
