/* SPDX-License-Identifier: Apache-2.0
 * fused_bytes.h - programs of bytes that have loops of their own. */
#ifndef MO_GENERIC_FUSED_BYTES_H
#define MO_GENERIC_FUSED_BYTES_H
#include "variants/generic/broadcast.h"

/* The sum of two tensors of bytes, or a function of one, as bytes: all operands lie like the output.
 * MOIRE_EUNSUPPORTED: the program is another. */
int mo_fused_bytes_bind(const struct mo_binder *binder, const struct mo_node *node, const struct mo_fused *f,
                        struct mo_step *step, moire_error *err);
/* An image of floats that is quantized, from plain to blocks of bytes: whether that is the node, and its
 * bind. */
bool mo_fused_enters(const struct mo_graph *g, const struct mo_node *node, const struct mo_fused *f);
int mo_fused_enter_bind(const struct mo_binder *binder, const struct mo_node *node, const struct mo_fused *f,
                        struct mo_step *step, moire_error *err);
/* Params of the general kernel for `n` numbers of one operand, one after the other (fused.c). */
void mo_fused_flat(const struct mo_fused *f, moire_dtype from, moire_dtype to, int64_t n,
                   struct mo_fused_params *p);
#endif
