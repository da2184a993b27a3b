/* SPDX-License-Identifier: Apache-2.0
 * params.h - what the binders (variants/generic) hand the built-in kernels through mo_kargs.params.
 * Strides are in elements unless a name ends in _bytes. */
#ifndef MO_SIMD_PARAMS_H
#define MO_SIMD_PARAMS_H
#include "runtime/ops/moire/attention.h"
#include "runtime/ops/moire/frames.h"
#include "runtime/ops/moire/tap_sum.h"
#include "runtime/ops/moire/fused.h"
#include "runtime/ops/recurrent.h"
#include "variants/requant.h"
#include "variants/tiles.h"
#include "variants/winograd_matrices.h"

enum { MO_MAX_DIMS = 2 * MOIRE_MAX_RANK, MO_CHUNK = 4096, MO_SLICE = 256 };

/* The lanes of MO_C16 beyond a tensor's channels, in one image: of the floats from `from` on, those of every
 * 16 from `used` on; used 0: there are none.  Kernels whose results might not be finite there write zeros
 * (docs/legality.md): what others multiply with the zeros of padded weights must be finite. */
struct mo_padding {
    int64_t from;
    int used;
};
/* The same zeros in the n floats of an image that begin with float `at`. */
static inline void mo_clear_padding(const struct mo_padding *padding, float *y, int64_t at, int64_t n) {
    if (!padding->used) return;
    for (int64_t i = at < padding->from ? padding->from - at : 0; i < n; i++)
        if (((at + i) & 15) >= padding->used) y[i] = 0.0f;
}

/* gemm: C[image][rows][n] = A[image][rows][k] x packed B + bias, then the epilogue.
 * unit = (image, chunk of rows, group of panels), group innermost. */
struct mo_gemm_params {
    int64_t images, rows, k, n;
    int64_t a_row, a_step; /* from row to row and from k to k of A */
    int64_t c_row, residual_row;
    int64_t chunk, chunks; /* rows a chunk, chunks an image */
    int64_t k_block;       /* products added before C is written back */
    int64_t group, groups; /* panels a unit */
    bool float16;          /* MO_PACK_GEMM16_FLOAT16: panels of a k block are widened into scratch first */
    int64_t wide_at;       /* floats from scratch to these */
    struct mo_fuse fuse;
};

/* matmul: both operands are activations, B is packed into scratch; bias and epilogue as gemm.  unit =
 * (matrix, group of panels). */
struct mo_matmul_params {
    int64_t rows, k, n;
    int64_t a_row, a_step, b_row, b_step; /* b_row: from k to k; b_step: from column to column */
    int64_t group, groups;
    int rank; /* leading dimensions, broadcast */
    int64_t dims[MOIRE_MAX_RANK], a_dims[MOIRE_MAX_RANK], b_dims[MOIRE_MAX_RANK];
    struct mo_fuse fuse;
};

/* attention: softmax(scale Q K^T + mask) V, operands as runtime/ops/moire/attention.h tells.  unit = (batch,
 * head, chunk of queries). */
struct mo_matrix_unit;
struct mo_attention_params {
    struct mo_attention_view view;
    int64_t chunk, chunks;
    enum mo_attention_mask mask;
    float fill;
    int64_t mask_stride[4]; /* along batch, head, query and key; 0 = broadcast */
    /* attention_halves: the unit that multiplies, and places of steps in a row */
    const struct mo_matrix_unit *unit;
    const int32_t *steps;
};

/* attention_bytes: the same of uint8, with what its conversions come to.  A number less its zero point is
 * what products take; K and V are moved by 128 to be signed, and so are their zero points here. */
struct mo_attention_bytes_params {
    struct mo_attention_params of; /* view.scale: of a rounded score, or of `to_scores` times a sum */
    int q_zero, k_zero, v_zero, scores_zero, weights_zero, y_zero;
    bool rounds;                       /* scores are rounded to 8 bits */
    float to_scores, to_weights, to_y; /* factors from sums, and from what the softmax gives */
};

/* recurrent: the steps of moire.RNN, GRU and LSTM (runtime/ops/recurrent.h), R packed as MO_FORM_RECURRENT.
 * What is constant of lengths, first states, peepholes and bias is here, as the arguments do not have it; the
 * rest of lengths and first states is in the arguments.  unit = (direction, piece of the batch); in rounds,
 * which share MO_RECURRENT_PLACES times [batch][padded] floats a direction (states after an even number of
 * steps, after an odd one, cells): (direction, block of 16 states). */
enum { MO_RECURRENT_PLACES = 3 };
struct mo_recurrent_params {
    enum mo_cell cell;
    int gates, directions;
    bool before_reset, input_forget;
    bool backward[MO_RECURRENT_DIRECTIONS];
    float clip;                         /* INFINITY: none */
    int64_t seq, batch, hidden, padded; /* padded: to whole vectors of 16 */
    int64_t pieces, most; /* pieces of the batch, sequences that a call takes together at most */
    int64_t x_step, x_row, y_step, y_row, y_way; /* from step to step, sequence to sequence, ... */
    int64_t state_row, state_way;                /* ... and direction to direction */
    struct mo_fuse act[MO_RECURRENT_DIRECTIONS][MO_RECURRENT_ACTS];
    const int32_t *lengths;
    const float *first[2];    /* h, c */
    const float *peep, *bias; /* [direction][3][hidden], [direction][hidden]; NULL: none */
};

/* Elementwise functions beyond the fused activations, numbered after them. */
enum mo_unary {
    MO_UNARY_EXP = MO_ACT_COUNT,
    MO_UNARY_ERF,
    MO_UNARY_ABS,
    MO_UNARY_NEG,
    MO_UNARY_SQRT,
    MO_UNARY_RECIPROCAL,
    MO_UNARY_COPY
};

/* unary: y = f(x) over the elements of an image.  unit = (image, chunk of MO_CHUNK elements). */
struct mo_unary_params {
    int function; /* enum mo_act or enum mo_unary */
    float a, b;
    int64_t images, count, chunks;
    struct mo_padding padding; /* with padding every image is one of `images` */
};

enum mo_binary {
    MO_BINARY_ADD,
    MO_BINARY_SUB,
    MO_BINARY_MUL,
    MO_BINARY_DIV,
    MO_BINARY_MIN,
    MO_BINARY_MAX,
    MO_BINARY_POW,
    MO_BINARY_PRELU
};

/* One operand of binary: strides over the outer dimensions, over rows of the inner pair, and 0 or 1 inside.
 */
struct mo_operand {
    int64_t outer[MO_MAX_DIMS], row;
    int64_t step;
    bool per_image;       /* moves on by in_image */
    const float *blocked; /* a per-channel constant padded for MO_C16, or NULL: as in kargs */
};

/* binary: y = act(a op b), broadcast.  An image is [dims...][rows][columns], out contiguous.
 * unit = (image, index over dims, group of rows, group of columns). */
struct mo_binary_params {
    enum mo_binary op;
    struct mo_fuse fuse;
    int rank;
    int64_t images, dims[MO_MAX_DIMS], outer, rows, columns;
    int64_t row_group, row_groups, column_group, column_groups;
    struct mo_operand a, b;
    struct mo_padding padding; /* with padding every image is one of `images` */
};

/* fused: a program of pointwise steps over strips of MO_STRIP elements, which stay in the L1 cache.  Values
 * are floats, bools 0 and 1; `program` names them by buffer: inputs first, then n_buffers of results, which
 * steps share as values die.  Dimensions, groups and units as binary. */
enum { MO_STRIP = 512 };
struct mo_fused_params {
    struct mo_fused program;
    int n_buffers, result[MO_FUSED_STEPS]; /* of every step: its buffer */
    moire_dtype dtype[MO_FUSED_INPUTS], out_dtype;
    struct mo_operand in[MO_FUSED_INPUTS];
    struct mo_padding padding; /* with padding every image is one of `images` */
    int rank;
    int64_t images, dims[MO_MAX_DIMS], outer, rows, columns;
    int64_t row_group, row_groups, column_group, column_groups;
};

/* enter_bytes: a plain image of at most four channels, quantized, as pixels of MO_C16.  unit = (image, `unit`
 * of the pixels). */
struct mo_enter_params {
    int64_t channels, area, unit, units; /* units an image */
    float scale, zero;
};
/* sum_bytes: y = x0 * factor[0] + x1 * factor[1] + add, within [lo, hi], rounded to even, + zero; all of them
 * bytes.  lookup: y = table[x].  unit = `unit` of the bytes. */
struct mo_sum_params {
    int64_t bytes, unit;
    float factor[2], add, lo, hi;
    int zero;
    bool is_signed[2], to_signed;
};
/* scale_bytes: y = (in[x] - from) * scale * g, of bytes in MO_C16, with g = in[1 - x] a float for each image
 * and channel; within [lo, hi], rounded to even, + zero.  unit = (image, block). */
struct mo_scale_params {
    int x, from, zero;
    float scale, lo, hi;
    bool is_signed; /* x */
    int64_t area;
};
struct mo_lookup_params {
    int64_t bytes, unit;
    bool permutes; /* the level can, by instructions: AVX2, or AVX-512 with VBMI */
    uint8_t table[256];
};

/* affine: y = act(x * scale[c] + shift[c]).  unit = (image, channel or block of 16 channels). */
struct mo_affine_params {
    const float *scale, *shift; /* padded to 16 */
    int64_t channels, area;
    int lanes; /* 1: plain, 16: MO_C16 */
    struct mo_fuse fuse;
};

/* softmax over the middle of [outer][n][inner].  unit = outer row, times chunks of inner. */
struct mo_softmax_params {
    int64_t outer, n, inner, chunks;
    bool log;
};

/* layernorm over rows of n, scale in[1], bias in[2] (may be absent). unit = row. */
struct mo_layernorm_params {
    int64_t rows, n;
    float epsilon;
    bool centred; /* false: RMSNormalization, which takes no mean away */
};

/* rotate: the first `turned` columns of each row.  Rows lie [batch][heads][inner], angles (cos in[1], sin
 * in[2]) [batch][inner]; with heads_inner rows [..][inner], angles [..].  unit = row. */
struct mo_rotate_params {
    int64_t heads, inner, columns, turned;
    bool heads_inner, interleaved;
};

/* instance: y = (x - mean) / sqrt(variance + epsilon) * in[1] + in[2] for each channel of an image.  unit =
 * (image, channel or block of 16 channels). */
struct mo_instance_params {
    int64_t channels, area;
    int lanes; /* 1: plain, 16: MO_C16 */
    float epsilon;
};

enum mo_reduction { MO_REDUCE_MEAN, MO_REDUCE_SUM, MO_REDUCE_MAX, MO_REDUCE_MIN };

/* reduce the middle of [outer][n][inner].  unit = outer, times chunks of inner. */
struct mo_reduce_params {
    enum mo_reduction op;
    int64_t outer, n, inner, chunks;
};

/* frames: an image is `part` floats of each of `parts` frames, or of one; `size` of them come from a frame of
 * x, and the others are zero.  unit = (clip, chunk of MO_FRAMES_CHUNK floats, image, part): a chunk of all
 * frames of a clip stays in the cache while all images take theirs. */
enum { MO_FRAMES_CHUNK = 4096 };
struct mo_frames_params {
    struct mo_clip_window window;
    int64_t size, part, parts, chunks;
    struct mo_padding padding; /* of the lanes of an image of x */
};

/* tap_sum: h rows of w pixels in blocks, to plain rows.  unit = (image, row). */
struct mo_tap_sum_params {
    struct mo_tap_sum of;
    int64_t h, w;
    float bias[MO_TAP_SUM_OUTPUTS];
    struct mo_fuse fuse; /* no residual */
};

/* pool over windows of [channels][h][w] (lanes 1) or [blocks][h][w][16].
 * unit = (image, channel or block, output row); a global pool has one output row of one pixel. */
struct mo_pool_params {
    bool max, include_pad;
    int lanes, out_lanes;     /* out_lanes 1 with lanes 16: a global pool that leaves the blocked layout */
    int64_t channels, planes; /* real channels; channels or blocks of an image */
    int64_t h, w, oh, ow, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr;
    int64_t left, right; /* columns that windows read beside the image, of pool_bytes */
    struct mo_fuse fuse;
    struct mo_padding padding;
};

/* First tap and one past the last whose input coordinate lies in [0, size). */
static inline void mo_clip_taps(int64_t start, int64_t taps, int64_t dilation, int64_t size, int64_t *lo,
                                int64_t *hi) {
    *lo = start < 0 ? (-start + dilation - 1) / dilation : 0;
    *hi = start >= size ? 0 : (size - start + dilation - 1) / dilation;
    if (*hi > taps) *hi = taps;
    if (*lo > *hi) *lo = *hi;
}

/* mean_bytes: y = (mean of x - zero) * scale over planes of bytes, [channels][area] (lanes 1) or
 * [blocks][area][16].  unit = (image, channel or block). */
struct mo_mean_params {
    int64_t planes, area;
    float zero, scale;
    int lanes;
};

/* reorder between plain and MO_C16.  unit = (image, block of 16 channels, chunk of pixels). */
struct mo_reorder_params {
    int64_t channels, blocks, area, chunk, chunks;
    bool to_blocked;
    bool bytes; /* elements are 8 bits, else floats */
};

/* copy: boxes of elements between strided places; the last dimension of `out` is contiguous in out.
 * unit = (box, group of rows); rows = all dimensions but the last. */
struct mo_box {
    int in, out; /* index into kargs; in -1: the fill element, read with strides of 0 */
    int rank;
    int64_t dims[MOIRE_MAX_RANK + 1], in_stride[MOIRE_MAX_RANK + 1],
        out_stride[MOIRE_MAX_RANK + 1]; /* bytes */
    int64_t in_at, out_at;              /* bytes */
    int64_t rows, group, first_unit;
};
struct mo_copy_params {
    int n_boxes, element; /* bytes of an element */
    const struct mo_box *boxes;
    const void *fill; /* one element, for boxes of padding */
};

/* concat of channels in MO_C16, where inputs may begin inside a block: runs of lanes by output block.
 * unit = (image, output block, chunk of pixels). */
struct mo_lanes {
    int in;        /* index into kargs; -1: zeros (padding of the last block) */
    int64_t block; /* of the input */
    int from, to, count;
};
struct mo_concat_params {
    int64_t area, blocks, chunk, chunks;
    int64_t element;  /* bytes of a lane: 4 or 1 */
    const int *first; /* of every block: its first run; blocks + 1 entries */
    const struct mo_lanes *runs;
};

/* resize of the last two dimensions by two taps a dimension (one when nearest).
 * unit = (image, plane, output row). */
struct mo_resize_params {
    int64_t planes, h, w, oh, ow;
    int lanes;
    bool nearest;
    const int32_t *y0, *y1, *x0, *x1; /* source rows and columns */
    const float *fy, *fx;             /* weight of the second tap */
};

/* Pixels of MO_C16 whose squares lie in lrn's scratch at a time, each between 16 zeros. */
enum { MO_LRN_PIXELS = 8 };
/* lrn across channels.  unit = (image, row of pixels). */
struct mo_lrn_params {
    int64_t channels, area, chunk, chunks;
    int lanes;
    int64_t before, after;   /* channels of the window on either side */
    float alpha, beta, bias; /* alpha already divided by the window size */
    struct mo_padding padding;
};

/* deconv_narrow: transposed convolution whose windows neither overlap nor leave gaps (kernel = stride, no
 * pads) and have at most 16 results (channels x kernel), which then are the lanes.  MO_C16 in, plain out,
 * weights [IC padded][16], bias by lane.  unit = (image, input row). */
struct mo_narrow_params {
    int64_t blocks_in, h, w;
    int channels, kh, kw;
    struct mo_fuse fuse;
};

/* Largest m of the built-in Winograd kernels. */
enum { MO_WINO_BUILT_M = 4, MO_WINO_BUILT_ALPHA = MO_WINO_BUILT_M + 2 };

/* winograd: 3x3 convolution of stride 1 in MO_C16, F(m x m, 3 x 3), m = 2 or 4, weights as
 * mo_winograd_packing() names them, or MO_PACK_CONV16 when the kernel transforms them.  Tiles are numbered
 * over all images.  unit = (chunk of tiles, group of output blocks), group innermost; a call takes the blocks
 * of its groups in sets. */
struct mo_winograd_params {
    const struct mo_tiles *tiles; /* micro-kernels of the products */
    struct mo_tile tile;          /* what all products have in common */
    int m, set;                   /* side of a tile; output blocks of a product */
    int64_t blocks_in, blocks_out, h, w, oh, ow, pt, pl;
    int64_t columns, image_tiles, total, chunks; /* tiles of a row, of an image, of all; chunks of them */
    int64_t groups;
    bool transforms; /* filters are as the model has them */
    int64_t parts;   /* of the input blocks; their products are added one after the other */
    /* floats; *_at: where it begins in the scratch; u_plane: of transformed filters, packed or in the scratch
     */
    int64_t v_plane, v_block, m_block, m_at, u_plane, u_at;
    float g[MO_WINO_BUILT_ALPHA][3];
    float bt[MO_WINO_BUILT_ALPHA][MO_WINO_BUILT_ALPHA], at[MO_WINO_BUILT_M][MO_WINO_BUILT_ALPHA];
    struct mo_fuse fuse;
    bool clamp; /* the epilogue is: add the residual, clamp to [lo, hi] */
    float lo, hi;
};

/* winograd_bytes: the same of 8-bit numbers in whole numbers, m = 2 or 4, weights as MO_PACK_WHOLE_WINO2 or
 * MO_PACK_WHOLE_WINO4, args->bias what sums of x - 128 start from, int32.  Units as above. */
struct mo_winograd_bytes_params {
    const struct mo_tiles *tiles;
    struct mo_tile tile;
    int m, zero; /* zero: the byte that stands for it */
    int64_t blocks_in, blocks_out, h, w, oh, ow, pt, pl;
    int64_t columns, image_tiles, total, chunks, groups;
    int64_t parts; /* of the input blocks: as many as sums have bits for */
    /* bytes */
    int64_t v_plane, v_block, m_plane, sum_row, m_at, sum_at, u_plane, y_pixel;
    struct mo_requant requant;
    const float *factor, *bias; /* by output channel, padded to blocks */
};

/* deconv: transposed convolution, MO_C16 in and out, weights [OC/16][KH][KW][ICB*16][16].
 * unit = (image, block of output channels, output row). */
struct mo_deconv_params {
    int64_t blocks_in, blocks_out, h, w, oh, ow, kh, kw, sh, sw, dh, dw, pt, pl;
    struct mo_fuse fuse;
};
#endif
