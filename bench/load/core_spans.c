/* SPDX-License-Identifier: Apache-2.0
 * core_spans.c - pairs the events of cores that enter and leave blocks; see core_spans.h.
 *
 * A core, or a unit of a GPU, is in one block at a time and tells of it in one ring.  One that joins a
 * running block tells no layers: its query's latest decision does. */
#include "bench/load/core_spans.h"

#include "runtime/base/cores.h"

/* The query's latest DISPATCH before an event; NULL: it is no longer kept. */
static const struct mo_event_entry *dispatch_of(const struct mo_ring *locked,
                                                const struct mo_event_entry *e) {
    uint64_t first = mo_ring_first(locked), lo = first, hi = locked->n;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (mo_ring_at(locked, mid)->seq < e->seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    while (lo-- > first) {
        const struct mo_event_entry *d = mo_ring_at(locked, lo);
        if (d->kind == MO_LOG_DISPATCH && d->query == e->query) return d;
    }
    return NULL;
}

static bool enters(const struct mo_event_entry *e) {
    return e->kind == MO_LOG_BLOCK_START || e->kind == MO_LOG_GROW;
}

static bool goes(const struct mo_event_entry *e) {
    return e->kind == MO_LOG_BLOCK_END || e->kind == MO_LOG_LEAVE;
}

static int64_t core_of(const struct mo_event_entry *e) {
    return e->kind == MO_LOG_GROW || e->kind == MO_LOG_LEAVE ? e->a : e->c;
}

static void put(const struct mo_event_entry *in, const struct mo_event_entry *out,
                const struct mo_ring *locked, int64_t from, int track, int adapted, json_t *blocks) {
    const struct mo_event_entry *layers = in->kind == MO_LOG_GROW ? dispatch_of(locked, in) : in;
    if (!layers) return;
    json_array_append_new(
        blocks, json_pack("[i,i,I,f,f,i,i,i]", track + (int)core_of(in), (int)out->tenant,
                          (json_int_t)(out->query & 0xffffffffu), (double)(in->time - from) * 1e-3,
                          (double)(out->time - from) * 1e-3, (int)layers->a, (int)layers->b, adapted));
}

static void pair(const struct mo_ring *ring, const struct mo_ring *locked, int64_t from, int track,
                 json_t *blocks) {
    const struct mo_event_entry *in[MO_MAX_CORES] = {NULL};
    int adapted = 0; /* layers of the block that run another version than their first; told ahead of it */
    for (uint64_t i = mo_ring_first(ring); i < ring->n; i++) {
        const struct mo_event_entry *e = mo_ring_at(ring, i);
        int64_t core = core_of(e);
        for (int64_t digits = e->kind == MO_LOG_VERSIONS ? e->b : 0; digits; digits >>= 3)
            adapted += (digits & 7) != 0;
        if (e->kind == MO_LOG_BLOCK_DROP) adapted = 0;
        if ((!enters(e) && !goes(e)) || core < 0 || core >= MO_MAX_CORES) continue;
        if (enters(e)) {
            if (e->time >= from) in[core] = e;
            continue;
        }
        if (in[core] && in[core]->query == e->query) put(in[core], e, locked, from, track, adapted, blocks);
        in[core] = NULL;
        adapted = 0;
    }
}

void mo_bench_core_spans(const struct mo_events *events, const struct mo_ring *locked, int64_t from,
                         int track, size_t most, json_t *blocks) {
    for (int r = 0; r < events->n_rings && json_array_size(blocks) < most; r++)
        pair(&events->ring[r], locked, from, track, blocks);
}
