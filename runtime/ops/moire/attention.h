/* SPDX-License-Identifier: Apache-2.0
 * attention.h - where the operands of moire.Attention lie: extents and element strides, read from shapes and
 * attributes by its inference, its reference and the binder of its kernel alike. */
#ifndef MO_OPS_ATTENTION_H
#define MO_OPS_ATTENTION_H
#include "runtime/graph/graph.h"

/* Element (batch b, head h, row s, column d) is at + b * batch + h * head + s * row + d. */
struct mo_attention_operand {
    int64_t at, batch, head, row;
};

struct mo_attention_view {
    int64_t batch, heads, queries, keys;
    int64_t depth, width; /* columns of Q and K, and of V and the output */
    struct mo_attention_operand q, k, v, y;
    struct mo_shape out;
    float scale;
};

/* What becomes of a score under the mask. */
enum mo_attention_mask {
    MO_MASK_NONE,
    MO_MASK_ADD,  /* fp32: it is added */
    MO_MASK_FILL, /* bool: where true, the score becomes attribute `fill` */
    MO_MASK_KEEP  /* bool: where false, it does */
};
enum mo_attention_mask mo_attention_mask_of(const struct mo_node *node, const struct mo_value *mask);

/* moire.QAttention: the same of uint8, rounded where the model rounds.  A number q stands for
 * (q - zero) * scale; scale 0: those of scores are not rounded. */
enum mo_attention_part {
    MO_ATTENTION_Q,
    MO_ATTENTION_K,
    MO_ATTENTION_V,
    MO_ATTENTION_SCORES,  /* `inner` Q K^T */
    MO_ATTENTION_WEIGHTS, /* what the softmax gives */
    MO_ATTENTION_Y,
    MO_ATTENTION_PARTS
};
struct mo_attention_rounding {
    float scale[MO_ATTENTION_PARTS];
    int zero[MO_ATTENTION_PARTS];
    float inner; /* factor of scores before they are rounded; view.scale comes after */
};
/* Names of their attributes. */
extern const char *const mo_attention_scales[MO_ATTENTION_PARTS],
    *const mo_attention_zeros[MO_ATTENTION_PARTS];
void mo_attention_rounding_of(const struct mo_node *node, struct mo_attention_rounding *out);

/* False when the shapes of query, key and value or the attributes do not fit together. */
bool mo_attention_view_of(const struct mo_node *node, const struct mo_shape *q, const struct mo_shape *k,
                          const struct mo_shape *v, struct mo_attention_view *out);
/* Strides of a mask that broadcasts to [batch, heads, queries, keys]; 0 = broadcast. */
void mo_attention_mask_strides(const struct mo_shape *mask, int64_t stride[4]);
/* Of n scores, in place; what references do. */
void mo_attention_softmax(double *p, int64_t n);
#endif
