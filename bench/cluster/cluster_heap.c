/* SPDX-License-Identifier: Apache-2.0
 * cluster_heap.c - sifting; see cluster_heap.h. */
#include "bench/cluster/cluster_heap.h"

static bool sooner(const struct mo_cluster_heap *h, int a, int b) {
    return h->when[a] != h->when[b] ? h->when[a] < h->when[b] : a < b;
}

static void put(struct mo_cluster_heap *h, int place, int machine) {
    h->at[place] = machine;
    h->place[machine] = place;
}

bool mo_cluster_heap_init(struct mo_cluster_heap *h, struct mo_region *region, int n) {
    const size_t room = (size_t)n;
    *h = (struct mo_cluster_heap){.n = n,
                                  .at = mo_region_array(region, room, sizeof *h->at),
                                  .place = mo_region_array(region, room, sizeof *h->place),
                                  .when = mo_region_array(region, room, sizeof *h->when)};
    if (!h->at || !h->place || !h->when) return false;
    for (int i = 0; i < n; i++) {
        put(h, i, i);
        h->when[i] = INT64_MAX;
    }
    return true;
}

void mo_cluster_heap_set(struct mo_cluster_heap *h, int machine, int64_t when) {
    int i = h->place[machine];
    h->when[machine] = when;
    for (int up; i > 0 && sooner(h, machine, h->at[up = (i - 1) / 2]); i = up)
        put(h, i, h->at[up]);
    for (int down; (down = 2 * i + 1) < h->n; i = down) {
        if (down + 1 < h->n && sooner(h, h->at[down + 1], h->at[down])) down++;
        if (!sooner(h, h->at[down], machine)) break;
        put(h, i, h->at[down]);
    }
    put(h, i, machine);
}
