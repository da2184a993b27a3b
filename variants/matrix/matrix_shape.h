/* SPDX-License-Identifier: Apache-2.0
 * matrix_shape.h - how a convolution becomes products of tiles: the packed copy of the input, the steps of
 * the sums, and the order of the weights.
 *
 * The input is copied pixel by pixel, all channels of a pixel side by side, up to 64 bytes of them; further
 * channels go to further copies ("chunks").  So the columns that a row of a filter meets follow each other:
 * kw pixels are a run of kw * width bytes, cut into steps of 64.  Weights of what is left of the last step
 * are zero.  Inputs of at most four channels take four a pixel, and several rows of the image are laid into
 * one pixel (`fold`), so that a step is well filled: of 7x7 filters over three channels, two rows.
 *
 * Only rows and columns that some filter meets are copied: with 1x1 filters, every stride-th. */
#ifndef MO_MATRIX_SHAPE_H
#define MO_MATRIX_SHAPE_H
#include "variants/conv_geometry.h"
#include "variants/matrix/matrix.h"

struct mo_matrix_shape {
    enum mo_matrix_type type;
    bool narrow;
    int element;                   /* bytes of one */
    int terms;                     /* that a number is the sum of: copies of the input, and tiles of a step */
    int64_t width;                 /* bytes of a packed pixel */
    int64_t chunks;                /* packed copies */
    int64_t planes;                /* blocks of 16 channels in one; 1 of narrow inputs */
    int64_t fold;                  /* image rows in a packed pixel */
    int64_t filter_rows;           /* kh / fold, rounded up */
    int64_t runs;                  /* of a filter row: 1, or kw where columns are dilated */
    int64_t run_steps;             /* steps of a run */
    int64_t steps;                 /* of a sum */
    int64_t row_step, column_step; /* image rows and columns from one that is packed to the next */
};

/* False: channels do not fit (narrow is for at most 4, of one group). */
bool mo_matrix_shape_of(const struct mo_conv *conv, enum mo_matrix_type type, bool narrow,
                        struct mo_matrix_shape *out);

/* Whether a convolution is taken as narrow: of bytes, pixels of 16 whose first four count; of floats, a plain
 * image. */
bool mo_matrix_narrow(const struct mo_conv *conv);
/* A product of so many columns by a matrix of k rows as a convolution: geometry only, no tensors. */
void mo_matrix_product(int64_t k, int64_t columns, struct mo_conv *out);

/* Bytes of the weights: [group][OC/32][step][term][2][16][64], the last of a group with an odd block
 * [step][term][1]. */
int64_t mo_matrix_weight_bytes(const struct mo_matrix_shape *shape, const struct mo_conv *conv);
/* Of a block of output channels in that order. */
int64_t mo_matrix_block_at(const struct mo_matrix_shape *shape, int64_t ocb, int64_t group, int64_t block);

/* Weights in the model's order: o * o_stride + channel * c_stride + tap, int8 or (times scale) float32. */
struct mo_matrix_filter {
    const void *data;
    int64_t o_stride, c_stride;
    float scale;
};
/* Packs them into as many zeros.  sums: of the weights of each output channel, padded to blocks; NULL: not
 * wanted (never of floats). */
void mo_matrix_pack(const struct mo_matrix_shape *shape, const struct mo_conv *conv,
                    const struct mo_matrix_filter *filter, char *out, int32_t *sums);
#endif
