/* SPDX-License-Identifier: Apache-2.0
 * events.h - what happened, for the history checker, the timeline and the Chrome trace.
 *
 * Every thread that reports owns one ring; entry i overwrites entry i - capacity.  One shared counter gives
 * all events a total order.  Recording is wait-free and allocates nothing.  Dump when the threads are quiet.
 * Text form, one event a line after a header of '#' lines (see mo_events_dump):
 *   seq time_ns ring KIND query tenant a b c */
#ifndef MO_EVENTS_H
#define MO_EVENTS_H
#include <stdatomic.h>
#include "runtime/base/env.h"

/* X(NAME, "meaning of a, b, c") */
#define MO_EVENT_KINDS(X)                                                                                    \
    X(SUBMIT, "a = scheduled arrival")                                                                       \
    X(ACCEPT, "a = scheduled arrival, b = deadline, c = the user's tag")                                     \
    X(REJECT, "a = code")                                                                                    \
    X(DISPATCH, "a, b = layers, c = cores of the let")                                                       \
    X(BASIS, "of the block just dispatched on cores: a = pressure for its versions, b = enum mo_cut, c = "   \
             "ns predicted")                                                                                 \
    X(MEMBER,                                                                                                \
      "joins the block just dispatched: a, b = layers, c = handle of its first query, which reports it")     \
    X(QUEUE, "the block just dispatched begins when the one that core a runs has ended")                     \
    X(BLOCK_START, "a, b = layers, c = core; one event a core of the let")                                   \
    X(BLOCK_END, "a, b = layers, c = core")                                                                  \
    X(TIMES,                                                                                                 \
      "of the block that a GPU ended, told ahead of its end: ns of a copies in, b kernels, c copies out")    \
    X(RESIZE, "of the running block: a cores are asked in, b asked out, c = ns predicted to its end")        \
    X(GROW, "core a enters the running block, b = cores in it now, c = its first layer")                     \
    X(LEAVE,                                                                                                 \
      "core a is out of a block, b = cores left in it, c = its first layer: asked to, or late for its end")  \
    X(BLOCK_DONE, "a, b = layers, c = cores still to come out; of blocks that were resized or left some in") \
    X(RESET, "the running block is killed: a, b = layers, c = ns of its work that are lost; it waits again") \
    X(RESTORED, "core a of a block that was killed can be used again")                                       \
    X(BLOCK_DROP, "a, b = layers, c = core; came after its latest start")                                    \
    X(CANCEL, "a = 1 when the query was still open")                                                         \
    X(RESOLVE, "a = code, b = deadline")                                                                     \
    X(CALLBACK_IN, "a = code")                                                                               \
    X(CALLBACK_OUT, "a = code")                                                                              \
    X(RELEASE, "slot and instance are free again")                                                           \
    X(OPEN, "tenant: a = layers, b = queue bound, c = instances")                                            \
    X(CLOSE, "tenant")                                                                                       \
    X(PRESSURE,                                                                                              \
      "a = pressure that decisions see from here on, in millionths; b = 1 from counters, 0 observed")        \
    X(VERSIONS,                                                                                              \
      "a = first layer, b = versions of c layers, octal digits from the lowest; before their block")         \
    X(COUNTERS, "a, b, c = what the source observed since the last sample, in millionths of its units")      \
    X(SAMPLE, "a = accepted so far, b = resolved so far, c = in flight")                                     \
    X(DRAINED, "nothing accepted is unanswered")                                                             \
    X(SHUTDOWN, "")

enum mo_event_code {
#define MO_EVENT_ENUM(name, text) MO_LOG_##name,
    MO_EVENT_KINDS(MO_EVENT_ENUM)
#undef MO_EVENT_ENUM
        MO_LOG_KINDS
};
/* PRESSURE, COUNTERS and BASIS carry numbers as whole millionths; VERSIONS at most so many layers. */
enum { MO_EVENT_UNIT = 1000000, MO_EVENT_VERSIONS = 20 };
const char *mo_event_name(int kind);

struct mo_event_entry {
    uint64_t seq, query;
    int64_t time, a, b, c;
    int16_t kind, ring;
    int32_t tenant;
};

struct mo_ring {
    struct mo_event_entry *entry;
    uint64_t mask, n; /* n events were recorded; the last mask + 1 are kept */
    _Atomic uint64_t *seq;
    int id;
};

struct mo_events {
    const struct mo_env *env;
    _Atomic uint64_t seq;
    int n_rings;
    struct mo_ring *ring;
};

/* n_rings rings of at least `capacity` entries each; NULL: out of memory. */
struct mo_events *mo_events_create(const struct mo_env *env, int n_rings, int64_t capacity);
void mo_events_destroy(struct mo_events *events);
/* Entry number of the oldest kept event of a ring .. ring->n. */
static inline uint64_t mo_ring_first(const struct mo_ring *r) {
    return r->n > r->mask + 1 ? r->n - r->mask - 1 : 0;
}
static inline const struct mo_event_entry *mo_ring_at(const struct mo_ring *r, uint64_t i) {
    return &r->entry[i & r->mask];
}

static inline void mo_event_put(struct mo_ring *r, int64_t time, int kind, uint64_t query, int tenant,
                                int64_t a, int64_t b, int64_t c) {
    if (!r) return;
    uint64_t seq = atomic_fetch_add_explicit(r->seq, 1, memory_order_relaxed);
    r->entry[r->n++ & r->mask] = (struct mo_event_entry){.seq = seq,
                                                         .query = query,
                                                         .time = time,
                                                         .a = a,
                                                         .b = b,
                                                         .c = c,
                                                         .kind = (int16_t)kind,
                                                         .ring = (int16_t)r->id,
                                                         .tenant = tenant};
}

/* Writes all rings, merged by seq, as text: "# moire-history 2", "# cores N", "# dropped N", `preface` (lines
 * of its own that begin with '#'; may be ""), the events, and "# end N" with their number. */
int mo_events_dump(const struct mo_events *events, int n_cores, const char *preface, const char *path,
                   moire_error *err);
#endif
