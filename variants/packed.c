/* SPDX-License-Identifier: Apache-2.0
 * packed.c - places of packed weights; see packed.h. */
#include "variants/packed.h"

#include <string.h>

/* Stands for a place that a compiled model does not have.  Nobody reads it: the plan is refused. */
static const char absent[64];

static bool remember(const struct mo_graph *graph, const struct mo_packed_place *place) {
    struct mo_packed_places *p = graph->packed;
    if (p->n == p->cap) {
        int cap = p->cap ? 2 * p->cap : 64;
        struct mo_packed_place *wider = mo_region_array(graph->region, (size_t)cap, sizeof *wider);
        if (!wider) return false;
        if (p->n) memcpy(wider, p->place, (size_t)p->n * sizeof *wider);
        p->place = wider;
        p->cap = cap;
    }
    p->place[p->n++] = *place;
    return true;
}

static void *find_ready(const struct mo_packed_places *p, const struct mo_packed_place *wanted) {
    for (int i = 0; i < p->n; i++)
        if (p->place[i].node == wanted->node && p->place[i].turn == wanted->turn)
            return p->place[i].bytes == wanted->bytes ? p->place[i].data : (void *)(uintptr_t)absent;
    return (void *)(uintptr_t)absent;
}

void *mo_packed_take(const struct mo_graph *graph, const struct mo_node *node, struct mo_region *region,
                     size_t bytes, bool *filled) {
    struct mo_packed_places *p = graph->packed;
    *filled = false;
    if (!p) return mo_region_alloc(region, bytes);
    p->turn = p->node == node->id ? p->turn + 1 : 0;
    p->node = node->id;
    struct mo_packed_place place = {.node = node->id, .turn = p->turn, .bytes = (int64_t)bytes};
    *filled = p->ready;
    if (p->ready) return find_ready(p, &place);
    place.data = mo_region_alloc(region, bytes);
    return place.data && remember(graph, &place) ? place.data : NULL;
}

const struct mo_packed_place *mo_packed_find(const struct mo_packed_places *packed, const void *weights) {
    for (int i = 0; weights && i < packed->n; i++)
        if (packed->place[i].data == weights) return &packed->place[i];
    return NULL;
}

bool mo_packed_is_absent(const void *weights) {
    return weights == absent;
}

void mo_packed_drop(const struct mo_graph *graph, const void *weights) {
    struct mo_packed_places *p = graph->packed;
    for (int i = 0; p && !p->ready && i < p->n; i++)
        if (p->place[i].data == weights) p->place[i].data = NULL;
}
