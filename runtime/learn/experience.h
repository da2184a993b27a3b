/* SPDX-License-Identifier: Apache-2.0
 * experience.h - what an agent has lived through: a ring of rows of floats, from which batches are drawn
 * evenly and with replacement. */
#ifndef MO_EXPERIENCE_H
#define MO_EXPERIENCE_H
#include <string.h>
#include "runtime/base/env.h"
#include "runtime/learn/draws.h"

struct mo_experience {
    int width, room, n, next; /* floats of a row; rows that fit, that are there; where the next one goes */
    float *rows;              /* [room][width] */
};

/* False: out of memory. */
static inline bool mo_experience_make(struct mo_region *region, int width, int room,
                                      struct mo_experience *out) {
    *out = (struct mo_experience){.width = width, .room = room};
    out->rows = mo_region_reserve(region, (size_t)width * (size_t)room * sizeof(float));
    return out->rows;
}

/* The row that the caller fills: the oldest when there is no room for more. */
static inline float *mo_experience_add(struct mo_experience *e) {
    float *row = e->rows + (size_t)e->next * (size_t)e->width;
    e->next = (e->next + 1) % e->room;
    if (e->n < e->room) e->n++;
    return row;
}

/* n rows into out, [n][width]; there must be one at least. */
static inline void mo_experience_draw(const struct mo_experience *e, uint64_t *rng, int n, float *out) {
    for (int i = 0; i < n; i++)
        memcpy(out + (size_t)i * (size_t)e->width,
               e->rows + (size_t)mo_draw_below(rng, e->n) * (size_t)e->width, (size_t)e->width * sizeof *out);
}
#endif
