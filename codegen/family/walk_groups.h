/* SPDX-License-Identifier: Apache-2.0
 * walk_groups.h - a tile function of a walk; and what a walk over groups of any width (grouped.c) adds. */
#ifndef MO_WALK_GROUPS_H
#define MO_WALK_GROUPS_H
#include "codegen/family/walk.h"

/* A tile function: `blocks` output blocks, row class r, column class c. */
struct mo_walk_tile {
    const struct mo_walk *w;
    struct mo_mac mac;
    int r, c;
    int sources; /* grouped: groups of which a vector has channels, at most */
    bool last;   /* ends with the layer's last block, of which only some channels exist */
};

/* Pixels of the tile that filter tap (kh, kw) sees inside the image. */
static inline uint64_t mo_walk_tap_mask(const struct mo_walk_tile *t, int64_t kh, int64_t kw) {
    uint32_t rows = t->w->row.cls[t->r].valid[kh], cols = t->w->col.cls[t->c].valid[kw];
    if (t->w->flat) return cols ? rows : 0;
    uint64_t mask = 0;
    for (int i = 0; i < t->mac.rows; i++)
        if (rows >> i & 1) mask |= (uint64_t)cols << (i * t->mac.cols);
    return mask;
}

/* sources[]: by vector of outputs its groups' first input channels, and the lanes where these begin; mixed[]:
 * by block whether a vector has several; and how a vector is made of them. */
void mo_walk_emit_sources(FILE *out, const struct mo_walk *w);
/* All taps and channels of a tile of the block `part` at x, w. */
void mo_walk_emit_groups(FILE *out, const struct mo_walk_tile *t);
#endif
