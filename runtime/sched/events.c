/* SPDX-License-Identifier: Apache-2.0
 * events.c - event rings and their dump. */
#include "runtime/sched/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/output.h"

const char *mo_event_name(int kind) {
    static const char *const names[] = {
#define NAME(name, text) #name,
        MO_EVENT_KINDS(NAME)
#undef NAME
    };
    return kind >= 0 && kind < MO_LOG_KINDS ? names[kind] : "UNKNOWN";
}

struct mo_events *mo_events_create(const struct mo_env *env, int n_rings, int64_t capacity) {
    uint64_t size = 16;
    while (size < (uint64_t)capacity && size < UINT64_C(1) << 30)
        size *= 2;
    struct mo_events *e = mo_alloc(env, sizeof *e);
    if (!e) return NULL;
    e->env = env;
    e->ring = mo_alloc(env, (size_t)n_rings * sizeof *e->ring);
    for (e->n_rings = 0; e->ring && e->n_rings < n_rings; e->n_rings++) {
        struct mo_event_entry *entry = mo_alloc(env, size * sizeof *entry);
        if (!entry) break;
        e->ring[e->n_rings] =
            (struct mo_ring){.entry = entry, .mask = size - 1, .seq = &e->seq, .id = e->n_rings};
    }
    if (e->n_rings == n_rings) return e;
    mo_events_destroy(e);
    return NULL;
}

void mo_events_destroy(struct mo_events *e) {
    if (!e) return;
    for (int i = 0; i < e->n_rings; i++)
        mo_free(e->env, e->ring[i].entry);
    mo_free(e->env, e->ring);
    mo_free(e->env, e);
}

/* A small write buffer over an output. */
struct text {
    struct mo_output output;
    size_t n;
    char buffer[16384];
};

static void flush_text(struct text *t) {
    mo_output_put(&t->output, t->buffer, t->n);
    t->n = 0;
}

static void put_line(struct text *t, const char *line, size_t n) {
    if (t->n + n > sizeof t->buffer) flush_text(t);
    memcpy(t->buffer + t->n, line, n);
    t->n += n;
}

/* Of any length. */
static void put_text(struct text *t, const char *text) {
    for (size_t n = strlen(text), some; n; n -= some, text += some) {
        some = n < sizeof t->buffer ? n : sizeof t->buffer;
        put_line(t, text, some);
    }
}

static void put_event(struct text *t, const struct mo_event_entry *e) {
    char line[256];
    int n = snprintf(line, sizeof line,
                     "%" PRIu64 " %" PRId64 " %d %s %" PRIu64 " %d %" PRId64 " %" PRId64 " %" PRId64 "\n",
                     e->seq, e->time, e->ring, mo_event_name(e->kind), e->query, e->tenant, e->a, e->b, e->c);
    put_line(t, line, (size_t)n);
}

/* Merges the rings by seq; the number of rings is small, so the next event is found by looking at each. */
static uint64_t put_all(struct text *t, const struct mo_events *e, uint64_t *at) {
    for (uint64_t n = 0;; n++) {
        int best = -1;
        for (int i = 0; i < e->n_rings; i++) {
            if (at[i] >= e->ring[i].n) continue;
            if (best < 0 || mo_ring_at(&e->ring[i], at[i])->seq < mo_ring_at(&e->ring[best], at[best])->seq)
                best = i;
        }
        if (best < 0) return n;
        put_event(t, mo_ring_at(&e->ring[best], at[best]++));
    }
}

static int dump(struct text *t, const struct mo_events *e, uint64_t *at, int n_cores, const char *preface,
                const char *path, moire_error *err) {
    int code = mo_output_open(e->env, path, &t->output, err);
    if (code) return code;
    uint64_t dropped = 0;
    for (int i = 0; i < e->n_rings; i++)
        dropped += at[i] = mo_ring_first(&e->ring[i]);
    char line[128];
    int n = snprintf(line, sizeof line, "# moire-history 2\n# cores %d\n# dropped %" PRIu64 "\n", n_cores,
                     dropped);
    put_line(t, line, (size_t)n);
    put_text(t, preface);
    n = snprintf(line, sizeof line, "# end %" PRIu64 "\n", put_all(t, e, at));
    put_line(t, line, (size_t)n);
    flush_text(t);
    return mo_output_close(&t->output, err);
}

int mo_events_dump(const struct mo_events *e, int n_cores, const char *preface, const char *path,
                   moire_error *err) {
    uint64_t *at = mo_alloc(e->env, (size_t)e->n_rings * sizeof *at);
    struct text *t = mo_alloc(e->env, sizeof *t);
    int code = at && t ? dump(t, e, at, n_cores, preface, path, err)
                       : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory writing the event history", path);
    mo_free(e->env, at);
    mo_free(e->env, t);
    return code;
}
