/* SPDX-License-Identifier: Apache-2.0
 * part.h - layers whose results lie in their input as they are, which need not be copied, or lie there with
 * strides.  By the boxes that the copying kernel would walk, so that what is called a part is what that
 * kernel would have copied. */
#ifndef MO_VARIANTS_PART_H
#define MO_VARIANTS_PART_H
#include "runtime/graph/graph.h"
#include "variants/simd/params.h"

/* Whether output k of a Slice, Split or Transpose of a plain tensor is one run of the input's bytes, and at
 * which of them it begins. */
bool mo_is_part(const struct mo_graph *g, const struct mo_node *node, int k, int64_t *offset);
/* What output k of a Slice or Split takes from its input, along the input's dimensions: extents, bytes from
 * element to element, and the first byte.  False when that is not known. */
bool mo_part_box(const struct mo_graph *g, const struct mo_node *node, int k, struct mo_box *out);
#endif
