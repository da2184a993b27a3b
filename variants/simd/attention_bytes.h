/* SPDX-License-Identifier: Apache-2.0
 * attention_bytes.h - the scratch of attention of uint8: what its binder and its kernel agree on. */
#ifndef MO_SIMD_ATTENTION_BYTES_H
#define MO_SIMD_ATTENTION_BYTES_H
#include "variants/simd/attention_tiles.h"

struct mo_attention_bytes_room {
    int64_t depth_bytes, key_bytes;   /* of a row of Q and K, and of weights: whole steps of 64 */
    int64_t key_blocks, width_blocks; /* of 16 */
    /* where in scratch: K and V as tiles, what sums by them start from, rows, weights, scores, sums; the end
     */
    int64_t keys, values, key_start, value_start, rows, weights, scores, sums, bytes;
};

static inline struct mo_attention_bytes_room mo_attention_bytes_room_of(const struct mo_attention_view *w) {
    struct mo_attention_bytes_room r = {
        .depth_bytes = (w->depth + MO_MATRIX_STEP - 1) / MO_MATRIX_STEP * MO_MATRIX_STEP,
        .key_bytes = (w->keys + MO_MATRIX_STEP - 1) / MO_MATRIX_STEP * MO_MATRIX_STEP,
        .key_blocks = (w->keys + 15) / 16,
        .width_blocks = (w->width + 15) / 16};
    const int64_t most = r.key_blocks * 16 > MO_QUERY_ROWS ? r.key_blocks * 16 : MO_QUERY_ROWS;
    r.values = r.keys + r.key_blocks * r.depth_bytes * 16;
    r.key_start = r.values + r.width_blocks * r.key_bytes * 16;
    r.value_start = r.key_start + r.key_blocks * 64;
    r.rows = r.value_start + r.width_blocks * 64;
    const int64_t room = most * r.depth_bytes, edge = 4 * r.width_blocks * 16; /* edge: rows of V */
    r.weights = r.rows + (room > edge ? room : (edge + 63) / 64 * 64);
    r.scores = r.weights + MO_QUERY_ROWS * r.key_bytes;
    r.sums = r.scores + MO_QUERY_ROWS * r.key_blocks * 64;
    r.bytes = r.sums + MO_MATRIX_SUMS;
    return r;
}
#endif
