/* SPDX-License-Identifier: Apache-2.0
 * core_spans.h - when which core ran which block, from event rings, for timelines. */
#ifndef MO_BENCH_CORE_SPANS_H
#define MO_BENCH_CORE_SPANS_H
#include <jansson.h>
#include "runtime/sched/events.h"

/* Appends [track + core, tenant, query, start us, end us, first layer, last layer, layers in another version
 * than their first] for every time that a core was in a block, from its start, or from when it joined, to its
 * end or to when it left; of those that began at `from` or later, in us since then.  locked: the ring of
 * decisions.  It stops a ring behind the one that fills `blocks` to `most`. */
void mo_bench_core_spans(const struct mo_events *events, const struct mo_ring *locked, int64_t from,
                         int track, size_t most, json_t *blocks);
#endif
