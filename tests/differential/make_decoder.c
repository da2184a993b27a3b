/* SPDX-License-Identifier: Apache-2.0
 * make_decoder.c - random nodes of what decoders are made of since opset 23: attention as one operator,
 * positions by rotation, caches that are written to. */
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

enum { ATTENTION = 23, CACHES = 24, WINDOWS = 25 }; /* opsets */
enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS, INPUTS };

struct sizes {
    int64_t batch, heads, groups, queries, keys, past, depth, width; /* keys: without the past */
    bool rows_first;
};

/* A divisor of n, up to 6. */
static int64_t divisor(struct dt_maker *m, int64_t n) {
    const int64_t d = 1 + dt_roll(m, 6);
    return n % d ? 1 : d;
}

static bool pick_sizes(struct dt_maker *m, int x, struct sizes *z) {
    const struct mo_shape *s = dt_shape(m, x);
    if (s->rank != 3 && s->rank != 4) return false;
    z->rows_first = s->rank == 3;
    z->batch = s->d[0];
    z->heads = z->rows_first ? divisor(m, s->d[2]) : s->d[1];
    z->groups = divisor(m, z->heads);
    z->queries = s->d[s->rank - 2];
    z->depth = z->rows_first ? s->d[2] / z->heads : s->d[3];
    z->keys = dt_roll(m, 2) ? z->queries : 1 + dt_roll(m, 20);
    z->width = dt_roll(m, 2) ? z->depth : 1 + dt_roll(m, 20);
    z->past = dt_roll(m, 3) ? 0 : 1 + dt_roll(m, 12);
    return true;
}

/* Keys or values; sometimes the queries are, too. */
static int keys(struct dt_maker *m, int x, const struct sizes *z, int64_t columns) {
    const int64_t rows[] = {z->batch, z->keys, z->groups * columns};
    const int64_t heads[] = {z->batch, z->groups, z->keys, columns};
    if (z->groups == z->heads && z->keys == z->queries && columns == z->depth && dt_roll(m, 2)) return x;
    return dt_const(m, dt_type(m, x), z->rows_first ? 3 : 4, z->rows_first ? rows : heads, 1, 0);
}

static int mask(struct dt_maker *m, int x, const struct sizes *z) {
    int64_t d[] = {z->batch, z->heads, z->queries, z->keys + z->past};
    const int rank = 2 + dt_roll(m, 3);
    if (dt_roll(m, 2)) return -1;
    for (int i = 0; i < 3; i++)
        if (dt_roll(m, 2)) d[i] = 1;
    return dt_const(m, dt_type(m, x), rank, d + 4 - rank, 1, 0);
}

/* How many keys of each of the batch count. */
static int lengths(struct dt_maker *m, const struct sizes *z) {
    int64_t n[32];
    for (int64_t b = 0; b < z->batch; b++)
        n[b] = 1 + dt_roll(m, (int)z->keys);
    return dt_list(m, z->batch, n);
}

static void scaled_attention(struct dt_maker *m, int x) {
    struct sizes z;
    if (m->g->opset < ATTENTION || !pick_sizes(m, x, &z)) return;
    int in[INPUTS] = {x, keys(m, x, &z, z.depth), keys(m, x, &z, z.width), mask(m, x, &z), -1, -1, -1};
    const int64_t past_k[] = {z.batch, z.groups, z.past, z.depth},
                  past_v[] = {z.batch, z.groups, z.past, z.width};
    if (z.past) in[PAST_K] = dt_const(m, dt_type(m, x), 4, past_k, 1, 0);
    if (z.past) in[PAST_V] = dt_const(m, dt_type(m, x), 4, past_v, 1, 0);
    const bool counted = !z.past && m->g->opset >= CACHES && z.batch <= 32 && dt_roll(m, 3) == 0;
    if (counted) in[LENGTHS] = lengths(m, &z);
    struct mo_node *n = dt_node(m, "Attention",
                                counted  ? INPUTS
                                : z.past ? LENGTHS
                                         : PAST_K,
                                in, z.past ? 3 : 1);
    if (z.rows_first) dt_int(m, n, "q_num_heads", z.heads);
    if (z.rows_first) dt_int(m, n, "kv_num_heads", z.groups);
    const bool placed = !z.past || z.keys == z.queries; /* else ONNX Runtime places queries elsewhere */
    if (placed && dt_roll(m, 2)) dt_int(m, n, "is_causal", 1);
    if (dt_roll(m, 3) == 0) dt_float(m, n, "scale", 0.3);
    if (dt_roll(m, 6) == 0) dt_float(m, n, "softcap", 2);
    if (placed && m->g->opset >= WINDOWS && dt_roll(m, 3) == 0)
        dt_int(m, n, "left_window_size", dt_roll(m, 6));
    if (placed && m->g->opset >= WINDOWS && dt_roll(m, 3) == 0)
        dt_int(m, n, "right_window_size", dt_roll(m, 6));
    dt_keep(m, n);
}

static void rotary(struct dt_maker *m, int x) {
    struct sizes z;
    if (m->g->opset < ATTENTION || !pick_sizes(m, x, &z) || z.depth < 2) return;
    const bool part = dt_roll(m, 3) == 0, by_id = dt_roll(m, 2) && z.batch * z.queries <= 64;
    const int64_t turned = part || z.depth % 2 ? z.depth / 4 * 2 : z.depth, rows = by_id ? 9 : z.queries;
    const int64_t caches[] = {z.batch, rows, turned / 2}, ids[] = {z.batch, z.queries};
    if (!turned) return;
    int in[4] = {x, -1, -1, -1};
    for (int i = 1; i < 3; i++)
        in[i] = dt_const(m, dt_type(m, x), by_id ? 2 : 3, caches + by_id, 1, 0);
    if (by_id) in[3] = dt_const(m, MOIRE_I64, 2, ids, 0, 0);
    for (int64_t i = 0; by_id && i < ids[0] * ids[1]; i++)
        ((int64_t *)m->g->tensors[in[3]]->data)[i] = dt_roll(m, (int)rows);
    struct mo_node *n = dt_node(m, "RotaryEmbedding", by_id ? 4 : 3, in, 1);
    if (z.rows_first) dt_int(m, n, "num_heads", z.heads);
    if (turned < z.depth) dt_int(m, n, "rotary_embedding_dim", turned);
    if (dt_roll(m, 2)) dt_int(m, n, "interleaved", 1);
    dt_keep(m, n);
}

static void tensor_scatter(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (m->g->opset < CACHES || s.rank < 2 || s.d[0] > 32) return;
    const int axis = 1 + dt_roll(m, s.rank - 1);
    const int64_t most = s.d[axis];
    int64_t at[32];
    s.d[axis] = 1 + dt_roll(m, (int)most);
    const bool circular = dt_roll(m, 2);
    for (int64_t b = 0; b < s.d[0]; b++)
        at[b] = dt_roll(m, circular ? (int)most : (int)(most - s.d[axis] + 1));
    int in[] = {x, dt_const(m, dt_type(m, x), s.rank, s.d, 1, 0), dt_list(m, s.d[0], at)};
    struct mo_node *n = dt_node(m, "TensorScatter", 3, in, 1);
    dt_int(m, n, "axis", dt_roll(m, 2) ? axis : axis - s.rank);
    if (circular) dt_string(m, n, "mode", "circular");
    dt_keep(m, n);
}

/* Few graphs have an opset in which there are these.  ONNX Runtime computes the attention of doubles in
 * floats. */
enum { UP_TO_FLOAT = MO_TYPE(MOIRE_F32) | MO_TYPE(MOIRE_F16) };
const struct dt_kind dt_kinds_decoder[] = {
    {"scaled attention", 16, UP_TO_FLOAT, scaled_attention},
    {"rotary", 6, MO_FLOATS, rotary},
    {"tensor scatter", 4, MO_FLOATS | MO_TYPE(MOIRE_I64), tensor_scatter},
    {0},
};
