/* SPDX-License-Identifier: Apache-2.0
 * elements.h - moving elements of any type: to and from places, in steps, again and again; and the places
 * that a tensor of indices names along an axis. */
#ifndef MO_OPS_ELEMENTS_H
#define MO_OPS_ELEMENTS_H
#include "runtime/ops/util.h"

/* Elements of `bytes` bytes each (1, 2, 4 or 8); memory does not overlap.
 * take: to[k] = from[at[k]]; put: to[at[k]] = from[k]; step: to[k] = from[k * step], step of any sign. */
void mo_elements_take(void *to, const void *from, const int64_t *at, int64_t n, size_t bytes);
void mo_elements_put(void *to, const int64_t *at, const void *from, int64_t n, size_t bytes);
void mo_elements_step(void *to, const void *from, int64_t step, int64_t n, size_t bytes);
/* The first `filled` bytes of `all`, over and over. */
void mo_elements_repeat(void *to, size_t filled, size_t all);

enum { MO_INDEX_SPAN = 256 };

/* Index i of a tensor of indices, normalized to [0, n); -1 and an error otherwise. */
int64_t mo_index_at(const struct mo_op_ctx *ctx, const struct mo_value *indices, int64_t i, int64_t n);

/* Walks a tensor of indices in order, in spans.  Element i of it means the element of `data` that has its
 * coordinates, but the index itself along the axis.  The tensor may be repeated to a shape. */
struct mo_index_walk {
    const struct mo_value *indices;
    int64_t n, along;                                  /* of data: the axis and its stride */
    int rank;                                          /* of the walk: neighbours are merged */
    int64_t d[MOIRE_MAX_RANK], stride[MOIRE_MAX_RANK]; /* 0 along the axis */
    int64_t step[MOIRE_MAX_RANK];                      /* in `indices`; 0 where they are repeated */
    int64_t index[MOIRE_MAX_RANK], row, in_row, base, from, next, all; /* where it is; from: in `indices` */
    int64_t first, count;                                              /* the span, in the walk */
    int64_t at[MO_INDEX_SPAN];                                         /* and what it means in data */
    bool joined;                                                       /* at[k] is at[0] + k */
};
/* `shape`, to which the indices broadcast, has data's rank and is no larger than data but along the axis. */
void mo_index_walk_init(struct mo_index_walk *w, const struct mo_shape *data, const struct mo_value *indices,
                        const struct mo_shape *shape, int axis);
/* 1: a span; 0: there is none any more; below 0: an index is out of range. */
int mo_index_walk_next(const struct mo_op_ctx *ctx, struct mo_index_walk *w);
#endif
