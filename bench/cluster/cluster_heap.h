/* SPDX-License-Identifier: Apache-2.0
 * cluster_heap.h - which machine does something next: a binary heap over machines, in which each has one time
 * that may change.  Of several at one time the one with the lowest number is first. */
#ifndef MO_CLUSTER_HEAP_H
#define MO_CLUSTER_HEAP_H
#include "runtime/base/env.h"

struct mo_cluster_heap {
    int n;
    int *at;       /* heap of machines */
    int *place;    /* by machine: where it is in the heap */
    int64_t *when; /* by machine */
};

/* n machines, all at INT64_MAX, which is never.  False: out of memory. */
bool mo_cluster_heap_init(struct mo_cluster_heap *heap, struct mo_region *region, int n);
void mo_cluster_heap_set(struct mo_cluster_heap *heap, int machine, int64_t when);
static inline int mo_cluster_heap_first(const struct mo_cluster_heap *heap) {
    return heap->at[0];
}
static inline int64_t mo_cluster_heap_least(const struct mo_cluster_heap *heap) {
    return heap->when[heap->at[0]];
}
#endif
