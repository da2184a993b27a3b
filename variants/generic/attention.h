/* SPDX-License-Identifier: Apache-2.0
 * attention.h - what the binders of attention share (attention.c). */
#ifndef MO_GENERIC_ATTENTION_H
#define MO_GENERIC_ATTENTION_H
#include "variants/generic/bind.h"
#include "variants/simd/params.h"

/* No mask, or one of floats or flags whose shape is known. */
bool mo_attention_mask_fits(const struct mo_tensor *mask);
/* `mask` may be NULL. */
void mo_attention_set_mask(const struct mo_node *node, const struct mo_tensor *mask,
                           struct mo_attention_params *p);
/* On a matrix unit: units of so many queries, and the steps of rows of up to `bytes`; false: out of memory,
 * or rows too long. */
bool mo_attention_set_unit(const struct mo_binder *binder, const struct mo_matrix_unit *unit, int64_t bytes,
                           struct mo_attention_params *p);
#endif
