/* SPDX-License-Identifier: Apache-2.0
 * attention_room.h - the scratch of attention in fp32: what its binder and its kernel agree on. */
#ifndef MO_SIMD_ATTENTION_ROOM_H
#define MO_SIMD_ATTENTION_ROOM_H
#include "runtime/base/numbers.h"
#include "variants/simd/params.h"

/* Vectors of queries that attention_lanes.h takes together; lanes of the widest set; rows of the tallest tile
 * (gemm.h), and what packing one may write beyond it. */
enum { MO_LANE_VECTORS = 3, MO_LANES_MOST = 16, MO_TILE_MOST = 14, MO_TILE_SLACK = 16 };
/* Keys whose scores, of 48 queries, stay in a first cache. */
enum { MO_KEY_BLOCK = 256 };

/* Keys of a block: of equal ones, whole panels. */
static inline int64_t mo_attention_block_of(int64_t keys) {
    const int64_t blocks = mo_ceil_div(keys, MO_KEY_BLOCK);
    return blocks ? mo_round_up(mo_ceil_div(keys, blocks), 16) : 16;
}

/* Floats from scratch on. */
struct mo_attention_places {
    int64_t keys, values;        /* packed */
    int64_t tile, rows, result;  /* a tile of queries: of Q or of weights, scores, result */
    int64_t query, columns, sum; /* in place of that: Q, scores, and result of lanes */
    int64_t floats;
};

static inline struct mo_attention_places mo_attention_places_of(const struct mo_attention_view *w) {
    const int64_t lanes = MO_LANE_VECTORS * MO_LANES_MOST, keys = mo_round_up(w->keys, 16),
                  width = mo_round_up(w->width, 16), longest = w->depth > w->keys ? w->depth : w->keys;
    struct mo_attention_places p = {.values = keys * w->depth};
    p.tile = p.query = p.values + width * w->keys;
    p.rows = p.tile + mo_round_up(MO_TILE_MOST * longest, 16) + MO_TILE_SLACK;
    p.result = p.rows + MO_TILE_MOST * keys;
    p.columns = p.query + lanes * w->depth;
    p.sum = p.columns + lanes * mo_attention_block_of(w->keys);
    const int64_t by_rows = p.result + MO_TILE_MOST * width, by_lanes = p.sum + lanes * width;
    p.floats = by_rows > by_lanes ? by_rows : by_lanes;
    return p;
}
#endif
