/* SPDX-License-Identifier: Apache-2.0
 * matrix_walk.h - convolutions and matrix products on a matrix unit: bound layers and their work.
 *
 * An image is cut into bands of output rows.  A unit is a band and some pairs of blocks of output channels;
 * it packs the input rows of its band (matrix_shape.h), unless the unit before it in the same call did, and
 * multiplies tile by tile.  Where packed columns are as dense as outputs, positions run on over the ends of
 * rows: what tiles compute between two rows is dropped.  Else a tile lies in one row.  A product of matrices
 * and a 1x1 filter over whole images have one long row (`line`). */
#ifndef MO_MATRIX_WALK_H
#define MO_MATRIX_WALK_H
#include "variants/generic/conv_walk.h"
#include "variants/matmul_rows.h"
#include "variants/matrix/matrix_shape.h"

/* The tiles of one job, where they begin, and how many blocks of them are written. */
struct mo_matrix_tiles {
    int n, written;
    int64_t row[MO_MATRIX_PAIR], column[MO_MATRIX_PAIR];
    const char *packed[MO_MATRIX_PAIR];
    char *sums;
    const struct set *of; /* matrix_walk.c */
};

/* Where a tensor's blocks, rows and pixels lie, in bytes. */
struct mo_matrix_place {
    int64_t plane, row, pixel;
    bool halves; /* floats as bfloat16 */
};

struct mo_matrix_walk {
    const struct mo_matrix_unit *unit;
    struct mo_matrix_shape shape;
    int64_t n, groups, ocb, icb, h, w, oh, ow, kh, sh, sw, dh, pt, pl;
    struct mo_matrix_place x, y, residual;
    int x_planes;             /* of the narrow inputs of floats: channels */
    int x_lanes;              /* channels of the last input block that are there */
    int y_lanes;              /* of the last output block; 16 where blocks are padded */
    bool gated;               /* channels of x have factors, the operand MO_GATE_IN; with `line` only */
    bool line;                /* see above: h = oh rows of one pixel */
    bool dense;               /* positions run on over the ends of rows */
    int64_t columns;          /* packed, of a row */
    int64_t band_rows, bands; /* output rows of a band */
    int64_t set_parts, sets;  /* pairs of blocks of a group, and parts that they are cut into */
    int64_t packed_rows;      /* of a whole band */
    int64_t chunk_bytes, term_bytes, sums_at; /* of a packed copy, and of all those of a term */
    /* steps of a sum are done in parts, each for `together` jobs before the next, so that its weights are
     * read from the first cache; jobs whose sums are not written yet, at most: a power of 2 */
    int64_t parts, together, unwritten;
    /* Lines of many channels are packed and multiplied slab by slab, so many steps each: sums of all jobs are
     * kept, of `slab_sets` pairs of blocks at most.  Else one slab is all. */
    int64_t slabs, slab_steps, slab_sets;
    int64_t ring_at; /* places of jobs, behind their sums: bytes */
    const int32_t *steps;
    const struct mo_conv_small *small; /* of bytes */
    struct mo_fuse fuse;               /* of floats */
    mo_write_floats_fn *write_floats;
    mo_gather_fn *gather;
    bool bounds; /* the activation of floats is none but these */
    float lo, hi;
};

mo_kernel mo_matrix_walk_run;

/* Tiles of positions of so many rows; and of a whole image. */
int64_t mo_matrix_walk_tiles(const struct mo_matrix_walk *walk, int64_t rows);
int64_t mo_matrix_image_tiles(const struct mo_conv *conv, const struct mo_matrix_shape *shape);

/* How many times as fast a layer of float32 is on the unit, by three terms a number, as the built-in kernels
 * of vectors are: estimated (matrix_terms.c). */
double mo_matrix_terms_gain(const struct mo_conv *conv, const struct mo_matrix_shape *shape);

/* A layer that can be planned: no absurd sizes. */
bool mo_matrix_walk_fits(const struct mo_conv *conv, const struct mo_matrix_shape *shape);

/* Fills a step but for weights and bias.  x, y and residual of conv are in blocks of 16, or plain where
 * conv->rows: of floats, as `product` says.  `small` is of layers of bytes, complete, and lives as long as
 * the plan; NULL: floats. */
int mo_matrix_walk_plan(const struct mo_binder *binder, const struct mo_node *node,
                        const struct mo_conv *conv, const struct mo_product *product,
                        const struct mo_matrix_shape *shape, const struct mo_matrix_unit *unit,
                        const struct mo_conv_small *small, struct mo_step *step, moire_error *err);
/* Whether a float convolution or product with constant weights is for such a unit, rounded to bfloat16
 * (variants/matrix/matrix_floats.c). */
bool mo_matrix_takes(const struct mo_graph *graph, const struct mo_node *node);
/* Whether a layer of float32, by terms, is so much faster there that no kernel of vectors need be tried. */
bool mo_matrix_stays(const struct mo_graph *graph, const struct mo_node *node);

/* Binds a QConv or QMatMul to such a unit (variants/generic/qconv.c).  MOIRE_EUNSUPPORTED: not this layer, or
 * there is no unit. */
int mo_qconv_bind_matrix(const struct mo_binder *binder, const struct mo_node *node,
                         const struct mo_matrix_unit *unit, struct mo_step *step, moire_error *err);
#endif
