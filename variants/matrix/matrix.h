/* SPDX-License-Identifier: Apache-2.0
 * matrix.h - processors with a matrix unit: what such a unit does, as a table.
 *
 * A unit multiplies tiles of 16 rows of 64 bytes, which are 64 bytes of 8-bit numbers or 32 of bfloat16.  A
 * row of the left tile is a *position*, that is one pixel of the output; its 64 bytes are a *step* of the
 * sum: some taps of the filter and some input channels.  The right tile has four bytes of a step for each of
 * 16 output channels in a row.  What the sums are of, the caller says with places of steps in a packed copy
 * of the input (matrix_shape.h).
 *
 * The table of Intel's AMX is chosen where processor and system offer it; `mo_matrix_model` computes the same
 * in plain C, so that all that is built on a unit is tested everywhere. */
#ifndef MO_MATRIX_H
#define MO_MATRIX_H
#include "variants/kernel.h"
#include "variants/tiles.h"

enum {
    MO_MATRIX_POSITIONS = 16,
    MO_MATRIX_STEP = 64,
    MO_MATRIX_TILE = 1024,
    MO_MATRIX_PAIR = 2,
    MO_MATRIX_SUMS = 4096,
    MO_MATRIX_TERMS = 3 /* of bfloat16, whose sum is a float32 */
};

/* One or two tiles of positions by one or two blocks of 16 output channels. */
struct mo_matrix_job {
    const char *a[MO_MATRIX_PAIR]; /* first position of each tile */
    int64_t a_row;                 /* bytes from a position to the next */
    const int32_t *steps;          /* bytes from a position to each of its steps */
    int64_t n_steps;
    int64_t a_term;    /* of floats: bytes from a term of all positions to the next */
    const char *b;     /* [step][block][16][64]; of floats [step][term][block][16][64] */
    const void *start; /* what sums start from, 16 a block: int32 or float32; NULL: from what `sums` holds */
    const char *next;  /* weights of later jobs: so many bytes a step are asked for */
    int64_t next_bytes;
    char *sums; /* [block][tile][16 positions][16]; two tiles' room a block */
    /* A sum of few steps: what is done aside comes before its stores, since waiting stores would hold it up.
     * `zero`: what it starts from is zeros. */
    bool brief, zero;
    /* What may be done between the last steps, while the unit works: so many times, at most; NULL: nothing.
     */
    void (*aside)(void *of);
    void *of;
    int asides;
};
/* All positions of a tile are read, and 64 bytes of every step. */
typedef void mo_matrix_fn(const struct mo_matrix_job *job, int tiles, int blocks);

/* A row of pixels that is copied: blocks of 16 channels, which become bytes or bfloat16 side by side. */
struct mo_gather {
    const char *from;
    int64_t
        plane; /* bytes from one block of a pixel to the next; of narrow floats, from channel to channel */
    int64_t pixel;     /* bytes from a pixel to the next */
    int planes;        /* blocks; of narrow ones, channels (at most 4) */
    int lanes;         /* channels of the last block */
    const float *gate; /* factors of channels, by which these are multiplied first; NULL: none, or bytes */
    int64_t n;         /* pixels */
    char *to;
    int64_t width; /* bytes of a pixel there; what the blocks leave is zeroed */
    int64_t term;  /* of floats: bytes to the places of the second and the third term */
};
typedef void mo_gather_fn(const struct mo_gather *gather);

/* Sums of floats within [lo, hi] (a NaN stays one), after a residual of bfloat16 is added (NULL: none), to
 * bfloat16: pixels of 16 that follow each other. */
typedef void mo_narrow_fn(float lo, float hi, const float *sums, int64_t pixels, const char *residual,
                          char *y);

/* Sums of int32 of one block of 16 channels to uint8: times factors, plus `shift`, rounded to even.  Sums of
 * up to three pixels behind the last are read. */
typedef void mo_small_pixels_fn(const struct mo_tile_pack *pack, const char *sums, const float *factor,
                                const float *shift, int64_t pixels, char *y);
/* The same of two blocks, which lie side by side in rows of y. */
typedef void mo_small_rows_fn(const struct mo_tile_pack *pack, const char *sums, const float *factor,
                              const float *shift, int64_t rows, char *y, int64_t y_row);

struct mo_matrix_unit {
    const char *conv[MO_MATRIX_TYPES], *gemm[MO_MATRIX_TYPES]; /* names of kernels on it */
    bool vectors;        /* no unit in truth: no faster than other kernels of vectors may be */
    void (*begin)(void); /* by every thread, before its jobs and after them */
    void (*end)(void);
    mo_matrix_fn *run[MO_MATRIX_TYPES];
    mo_gather_fn *gather[MO_MATRIX_TYPES];
    /* pixels of at most four channels, the first of 16 bytes or in planes of floats; `width` apart */
    mo_gather_fn *gather_narrow[MO_MATRIX_TYPES];
    mo_gather_fn *gather_small; /* blocks that are bfloat16 already */
    mo_narrow_fn *narrow;
    mo_small_pixels_fn *small_pixels; /* NULL: there is none */
    mo_small_rows_fn *small_rows;     /* likewise */
};
extern const struct mo_matrix_unit mo_matrix_amx, mo_matrix_vectors, mo_matrix_neon, mo_matrix_model;

/* The unit that a machine of this level has for the type, and may use; else NULL.  Of bfloat16, vectors where
 * they are faster than those of float32. */
const struct mo_matrix_unit *mo_matrix_of(enum mo_isa isa, enum mo_matrix_type type);

/* The same, or what stands for it.  Asking the processor takes some 30 us: once a plan. */
const struct mo_matrix_unit *mo_matrix_choose(enum mo_units units, enum mo_isa isa, enum mo_matrix_type type);

/* To bfloat16, rounded to even; a NaN stays one. */
uint16_t mo_bfloat16(float x);
/* Three whose sum is x, the largest first: what the first leaves of it, rounded, and what both leave.  Of an
 * infinity or a NaN, and of what rounds to an infinity, the others are zeros. */
void mo_bfloat16_terms(float x, uint16_t terms[MO_MATRIX_TERMS]);
float mo_bfloat16_wide(uint16_t half);
#endif
