/* SPDX-License-Identifier: Apache-2.0
 * conv_geometry.h - the geometry of a convolution layer, read once from a node; and packed weights.
 *
 * Groups whose channel counts are no multiples of 16 are merged, `merge` at a time, into groups that are, or
 * into one: the merged weights are block-diagonal with zeros between.  `groups`, `cg` and `og` are those
 * after merging.  Of floats the last one may have a rest of the model's groups: it has fewer blocks of
 * outputs, and reads blocks of inputs from before its own, by zeros, where its own are fewer. */
#ifndef MO_CONV_H
#define MO_CONV_H
#include "runtime/ops/moire/qconv.h"
#include "variants/kernel.h"

struct mo_conv {
    int64_t n, c, h, w, o, oh, ow;
    int64_t kh, kw, sh, sw, dh, dw;
    int64_t pt, pl, pb, pr;
    int64_t groups, merge; /* node's groups / merge, rounded up */
    int64_t cg, og;        /* channels in and out of a group, as in the model (merged, unpadded) */
    int64_t icb, ocb;      /* blocks of 16 of a group */
    bool depthwise;        /* one channel in and out per group */
    bool rest;             /* the last group has fewer of the node's groups than `merge` */
    bool rows;             /* a product of matrices: pixels are the rows of x and y, which are plain */
    const struct mo_tensor *x, *weights, *bias, *y, *residual, *gate; /* bias, residual, gate may be NULL */
    const struct mo_tensor *x_zero; /* of 8-bit numbers, where only queries know it; else NULL */
};

/* The block of inputs with which a group begins. */
static inline int64_t mo_conv_first_block(const struct mo_conv *c, int64_t group) {
    const int64_t last = (c->c + 15) / 16 - c->icb, at = group * c->icb;
    return at < last ? at : last;
}

/* What Winograd's algorithm with filters of 3x3 is for: one group, stride 1, taps side by side. */
static inline bool mo_conv_is_three(const struct mo_conv *c) {
    return c->groups == 1 && c->merge == 1 && !c->depthwise && c->kh == 3 && c->kw == 3 && c->sh == 1 &&
           c->sw == 1 && c->dh == 1 && c->dw == 1;
}

/* False: not a 2-D float Conv with constant weights whose shape is known and whose groups can be blocked. */
bool mo_conv_read(const struct mo_graph *graph, const struct mo_node *node, struct mo_conv *out);

/* Of a moire.QConv or QMatMul: the same, and what its numbers stand for (runtime/ops/moire/qconv.h); no
 * residual, no gate. */
bool mo_qconv_geometry(const struct mo_graph *graph, const struct mo_node *node, struct mo_conv *out,
                       struct mo_qconv *q);
/* Whether a convolution node with out->x, weights and y, whatever their types, could be one. */
bool mo_qconv_shapes(const struct mo_node *node, struct mo_conv *out);
/* The same of a product of matrices, weights [O,C], whose geometry this fills; C is a multiple of 16. */
bool mo_qmatmul_shapes(struct mo_conv *out);

/* Packs the constant weights and bias of a Conv, MatMul or Gemm.  The arrays are 64-byte aligned, belong to
 * the region and are zero beyond the layer's channels; the bias covers every block of 16 outputs.  Of a
 * moire.QConv or QMatMul the bias is what its int32 sums start from: see mo_pack_small_start(). */
int mo_pack_weights(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node,
                    struct mo_region *region, const void **weights, const float **bias, moire_error *err);
/* Bytes of the packed weights, without packing; -1: this layer cannot be packed so. */
int64_t mo_pack_bytes(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node);
/* The filter of a convolution alone: floats that it takes packed, -1 where it cannot be packed so; and
 * packing it into as many zeros. */
int64_t mo_filter_floats(enum mo_packing packing, const struct mo_conv *conv);
void mo_pack_filter(enum mo_packing packing, const struct mo_conv *conv, float *out);

/* Packs the filter of a moire.QConv, as MO_PACK_DOT16 or MO_PACK_NARROW16 with *sums those of each output
 * channel's weights, or in float32 by another packing (*sums NULL).  Memory as above. */
int mo_pack_small(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node,
                  struct mo_region *region, const void **weights, const int32_t **sums, moire_error *err);
/* Bytes of that, with the sums; -1: the layer cannot be packed so. */
int64_t mo_pack_small_bytes(enum mo_packing packing, const struct mo_graph *graph,
                            const struct mo_node *node);
/* The same with what sums of products start from, int32 by output channel: minus the zero point of x times
 * the sum of the channel's weights. */
int mo_pack_small_start(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node,
                        struct mo_region *region, const void **weights, const float **start,
                        moire_error *err);
/* Pads of one axis by SAME_*: what makes `out` windows of size k, stride s and dilation d cover `in` (or the
 * reverse when transposed); the odd one lies behind when `upper`. */
void mo_same_pads(int64_t in, int64_t out, int64_t k, int64_t s, int64_t d, bool upper, int64_t *before,
                  int64_t *after);
#endif
