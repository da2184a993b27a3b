/* SPDX-License-Identifier: Apache-2.0
 * attention_halves.h - the scratch of attention by bfloat16: what its binder and its kernel agree on. */
#ifndef MO_SIMD_ATTENTION_HALVES_H
#define MO_SIMD_ATTENTION_HALVES_H
#include "variants/simd/attention_tiles.h"

struct mo_attention_room {
    int64_t depth_bytes, key_bytes, width_bytes; /* of a row of Q and K, of weights, of V as halves */
    int64_t key_blocks, width_blocks;            /* of 16 */
    /* where in scratch: K and V as tiles, rows of halves, scores, sums; and the end */
    int64_t keys, values, rows, weights, scores, sums, bytes;
};

static inline struct mo_attention_room mo_attention_room_of(const struct mo_attention_view *w) {
    struct mo_attention_room r = {.depth_bytes = (w->depth + 31) / 32 * MO_MATRIX_STEP,
                                  .key_bytes = (w->keys + 31) / 32 * MO_MATRIX_STEP,
                                  .width_bytes = (w->width + 31) / 32 * MO_MATRIX_STEP,
                                  .key_blocks = (w->keys + 15) / 16,
                                  .width_blocks = (w->width + 15) / 16};
    const int64_t widest = r.depth_bytes > r.width_bytes ? r.depth_bytes : r.width_bytes;
    const int64_t longest =
        (w->keys + 31) / 32 * 32 > MO_QUERY_ROWS ? (w->keys + 31) / 32 * 32 : MO_QUERY_ROWS;
    r.values = r.keys + r.key_blocks * r.depth_bytes * 16;
    r.rows = r.values + r.width_blocks * r.key_bytes * 16;
    r.weights = r.rows + longest * widest;
    r.scores = r.weights + MO_QUERY_ROWS * r.key_bytes;
    r.sums = r.scores + MO_QUERY_ROWS * r.key_blocks * 64;
    r.bytes = r.sums + MO_MATRIX_SUMS;
    return r;
}
#endif
