/* SPDX-License-Identifier: Apache-2.0
 * rotary.h - RotaryEmbedding: pairs of columns turned by the angles of their row's position.
 *
 *   X [B,H,S,D], or [B,S,H*D] with num_heads; cos and sin [P,R/2] by position_ids [B,S], or [B,S,R/2]; Y as
 * X. The first R columns of a head are turned (rotary_embedding_dim, 0: all D), the others copied.  Columns c
 * and c + R/2 are a pair, or with `interleaved` 2c and 2c + 1:  (x, y) -> (x cos - y sin, x sin + y cos). */
#ifndef MO_ROTARY_H
#define MO_ROTARY_H
#include "runtime/graph/graph.h"

struct mo_rotary {
    int64_t batch, heads, rows, columns, turned;
    bool rows_first, interleaved; /* rows_first: rank 3, a row's heads side by side */
};
/* NULL, or what does not fit. */
const char *mo_rotary_of(const struct mo_node *node, const struct mo_shape *x, struct mo_rotary *out);
#endif
