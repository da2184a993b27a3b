/* SPDX-License-Identifier: Apache-2.0
 * make_move.c - random movements: reshapes, transposes, pads, tiles, channels to space and back. */
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

static int reshape(struct dt_maker *m, int x, int rank, const int64_t *d) {
    int in[] = {x, dt_list(m, rank, d)};
    return dt_chain(m, "Reshape", 2, in);
}

/* Merges two neighbours, splits one, or writes 0 and -1. */
static void view(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    int64_t d[MOIRE_MAX_RANK + 1] = {0};
    int rank = 0, at = s.rank ? dt_roll(m, s.rank) : 0;
    bool merge = dt_roll(m, 2);
    if (s.rank < 1 || (!merge && s.rank >= 6)) return;
    for (int i = 0; i < s.rank; i++) {
        int64_t part = 2;
        while (part < s.d[i] && s.d[i] % part)
            part++;
        if (i == at && merge && i + 1 < s.rank) {
            d[rank++] = s.d[i] * s.d[i + 1];
            i++;
        } else if (i == at && !merge && s.d[i] > 1) {
            d[rank++] = part;
            d[rank++] = s.d[i] / part;
        } else {
            d[rank++] = s.d[i];
        }
    }
    if (dt_roll(m, 3) == 0 && d[0] == s.d[0]) d[0] = 0;
    if (dt_roll(m, 3) == 0) d[rank - 1] = -1;
    reshape(m, x, rank, d);
}

static void flatten(struct dt_maker *m, int x) {
    int rank = dt_shape(m, x)->rank;
    struct mo_node *n = dt_node(m, "Flatten", 1, &x, 1);
    dt_int(m, n, "axis", rank > 1 && dt_roll(m, 3) ? 1 : dt_roll(m, rank + 1));
    dt_keep(m, n);
}

static void squeeze(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    int64_t axis = s.rank ? dt_roll(m, s.rank) : 0;
    bool can = s.rank > 1 && s.d[axis] == 1;
    if (!can && s.rank > 5) return;
    struct mo_node *n = dt_node(m, can ? "Squeeze" : "Unsqueeze", 1, &x, 1);
    dt_sizes(m, n, 13, 1, "axes", 1, &axis);
    dt_keep(m, n);
}

static void transpose(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    int64_t perm[MOIRE_MAX_RANK];
    struct mo_node *n = dt_node(m, "Transpose", 1, &x, 1);
    for (int i = 0; i < s.rank; i++)
        perm[i] = i;
    int swaps = 1 + dt_roll(m, 2);
    for (int i = 0; i < swaps && s.rank > 1; i++) {
        int a = dt_roll(m, s.rank), b = dt_roll(m, s.rank);
        int64_t t = perm[a];
        perm[a] = perm[b], perm[b] = t;
    }
    if (dt_roll(m, 6)) dt_ints(m, n, "perm", s.rank, perm);
    dt_keep(m, n);
}

/* Groups of channels interleaved: reshape, transpose, reshape. */
static void shuffle(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank != 4 || s.d[1] % 2) return;
    int split = reshape(m, x, 5, (int64_t[]){s.d[0], 2, s.d[1] / 2, s.d[2], s.d[3]});
    if (split < 0) return;
    struct mo_node *n = dt_node(m, "Transpose", 1, &split, 1);
    dt_ints(m, n, "perm", 5, (int64_t[]){0, 2, 1, 3, 4});
    if (dt_keep(m, n)) reshape(m, n->out[0], 4, s.d);
}

static void pad(struct dt_maker *m, int x) {
    static const char *const modes[] = {"constant", "constant", "edge", "reflect"};
    struct mo_shape s = *dt_shape(m, x);
    int64_t pads[2 * MOIRE_MAX_RANK] = {0};
    if (s.rank < 1) return;
    const char *mode = DT_OF(m, modes);
    for (int i = 0; i < s.rank; i++) {
        bool spatial = i >= 2 || s.rank < 3;
        if (!spatial && dt_roll(m, 6)) continue;
        int most = *mode == 'r' ? (int)s.d[i] : 4;
        pads[i] = dt_roll(m, most > 4 ? 4 : most);
        pads[s.rank + i] = dt_roll(m, most > 4 ? 4 : most);
    }
    struct mo_node *n = dt_node(m, "Pad", 1, &x, 1);
    dt_string(m, n, "mode", mode);
    dt_sizes(m, n, 11, 1, "pads", 2 * s.rank, pads);
    dt_keep(m, n);
}

static void tile(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    int64_t times[MOIRE_MAX_RANK];
    if (s.rank < 1) return;
    for (int i = 0; i < s.rank; i++)
        times[i] = 1 + dt_roll(m, 4) / 3;
    int in[] = {x, dt_list(m, s.rank, times)};
    dt_chain(m, "Tile", 2, in);
}

static void expand(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 1) return;
    for (int i = 0; i < s.rank; i++)
        if (s.d[i] == 1) s.d[i] = 1 + dt_roll(m, 4);
    int in[] = {x, dt_list(m, s.rank, s.d)};
    dt_chain(m, "Expand", 2, in);
}

static void depth_space(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank != 4) return;
    bool up = s.d[1] % 4 == 0;
    struct mo_node *n = dt_node(m, up ? "DepthToSpace" : "SpaceToDepth", 1, &x, 1);
    dt_int(m, n, "blocksize", 2);
    if (up && m->g->opset >= 11 && dt_roll(m, 2)) dt_string(m, n, "mode", "CRD");
    dt_keep(m, n);
}

const struct dt_kind dt_kinds_move[] = {
    {"view", 8, MO_ANY, view},
    {"flatten", 2, MO_ANY, flatten},
    {"squeeze", 3, MO_ANY, squeeze},
    {"transpose", 7, MO_ANY, transpose},
    {"shuffle", 2, MO_ANY, shuffle},
    {"pad", 4, MO_NUMBERS, pad},
    {"tile", 1, MO_ANY, tile},
    {"expand", 2, MO_ANY, expand},
    {"depth space", 2, MO_FLOATS, depth_space},
    {0},
};
