/* SPDX-License-Identifier: Apache-2.0
 * trace.c - the reader of trace.h: one pass over the lines; queries are found by handle in a hash table.
 * Remarks are read by trace_head.c and trace_gpus.c.
 *
 * On GPUs a block's first query speaks for all of its batch.  A block begins when it is decided, on each unit
 * of its let; TIMES, ahead of its end, says how much of the time up to there was kernels and copies.  What is
 * neither is what it took to start it. */
#define _GNU_SOURCE
#include "bench/data/trace_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/file.h"
#include "runtime/sched/events.h"

static const double stall_ns = 1e7, stall_ratio = 8;
static const int64_t last_time = INT64_C(1) << 62; /* of an event or an arrival: differences are numbers */

/* --- events --------------------------------------------------------------------------------------------- */
static size_t slot_of(const struct mo_trace_reader *r, uint64_t handle) {
    size_t at = (handle * UINT64_C(0x9e3779b97f4a7c15) >> 20) & r->mask;
    while (r->table[at] && r->t->queries[r->table[at] - 1].handle != handle)
        at = (at + 1) & r->mask;
    return at;
}

static struct mo_trace_query *find(const struct mo_trace_reader *r, uint64_t handle) {
    int i = r->table[slot_of(r, handle)];
    return i ? &r->t->queries[i - 1] : NULL;
}

struct event {
    int64_t time, tenant, a, b, c;
    uint64_t query;
    char kind[16];
};

static bool read_event(const char *at, struct event *e) {
    int64_t seq, ring, query;
    char *end;
    if (!mo_trace_number(&at, 0, INT64_MAX, &seq) || !mo_trace_number(&at, 0, last_time, &e->time) ||
        !mo_trace_number(&at, 0, INT16_MAX, &ring))
        return false;
    const char *space = strchr(at, ' ');
    size_t n = space ? (size_t)(space - at) : 0;
    if (n < 1 || n >= sizeof e->kind) return false;
    memcpy(e->kind, at, n);
    e->kind[n] = 0;
    errno = 0;
    e->query = strtoull(space + 1, &end, 10);
    query = end != space + 1 && *end == ' ' && !errno;
    at = end + (query != 0);
    return query && mo_trace_number(&at, -1, INT32_MAX, &e->tenant) &&
           mo_trace_number(&at, INT64_MIN, INT64_MAX, &e->a) &&
           mo_trace_number(&at, INT64_MIN, INT64_MAX, &e->b) &&
           mo_trace_number(&at, INT64_MIN, INT64_MAX, &e->c) && !*at;
}

/* A query has arrived; handle 0: it was refused. */
static int on_arrival(struct mo_trace_reader *r, const struct event *e, uint64_t handle, int64_t arrival,
                      int code) {
    struct mo_trace *t = r->t;
    if (arrival < 0 || arrival > last_time) return mo_trace_fail(r, "an arrival at a time that cannot be");
    r->late += (double)(e->time - arrival);
    if (e->tenant < 0 || e->tenant >= t->n_tenants || !t->tenants[e->tenant].name[0])
        return mo_trace_fail(r, "a query of a tenant that the trace does not name");
    bool early = e->time < arrival;
    t->queries[t->n_queries++] = (struct mo_trace_query){.handle = handle,
                                                         .arrival = arrival,
                                                         .accepted = early ? arrival : e->time,
                                                         .comes = early ? e->time : arrival,
                                                         .tenant = (int)e->tenant,
                                                         .code = code};
    if (!handle) return MOIRE_OK;
    size_t at = slot_of(r, handle);
    if (r->table[at]) return mo_trace_fail(r, "a query is accepted twice");
    r->table[at] = t->n_queries;
    return MOIRE_OK;
}

double mo_trace_predicted(const struct mo_trace *trace, const struct mo_trace_query *q, int64_t begin,
                          int64_t end) {
    const struct mo_trace_tenant *t = &trace->tenants[q->tenant];
    double sum = 0;
    if (trace->gpus.n_gpus) return mo_trace_gpu_predicted(trace, q, begin, end);
    for (int k = 0; k < t->n_counts; k++)
        for (int64_t l = begin; t->counts[k] == q->cores && l < end; l++)
            sum += (double)t->times[k][l];
    return sum;
}

static void note_wait(struct mo_trace_reader *r, struct mo_trace_query *q, double wait, bool asleep) {
    bool first = !q->began;
    r->waits[first] += wait;
    r->n_waits[first] += 1;
    r->t->starts[r->t->n_starts++] = (struct mo_trace_start){q->tenant, first, asleep, wait > 0 ? wait : 0};
    q->began = true;
}

/* The first core of a block to begin tells how long that took. */
static void note_start(struct mo_trace_reader *r, struct mo_trace_query *q, const struct event *e) {
    if ((int)e->c < q->lead) q->lead = (int)e->c;
    if (!q->decided) return;
    if (!r->t->gpus.n_gpus)
        note_wait(r, q, (double)(e->time - q->decided), q->decided - r->running[e->c].ended > MO_SPIN_NS);
    q->decided = 0;
    q->block_start = q->block_end = e->time;
}

static int on_times(struct mo_trace_reader *r, struct mo_trace_query *q, const struct event *e) {
    const int64_t most = INT64_C(1) << 60;
    if (!r->t->gpus.n_gpus) return mo_trace_fail(r, "times of a GPU's block in a history of cores");
    if (e->a < 0 || e->b < 0 || e->c < 0 || e->a > most || e->b > most || e->c > most)
        return mo_trace_fail(r, "times of a block that cannot be");
    if (q->timed || q->left <= 0 || q->decided) return mo_trace_fail(r, "times of a block that does not run");
    double busy = (double)e->a + (double)e->b + (double)e->c;
    if (e->time >= r->t->since && !q->queued)
        note_wait(r, q, (double)(e->time - q->block_start) - busy, false);
    q->timed = true;
    q->block_start = e->time - e->b;
    return MOIRE_OK;
}

/* A query joins the block of another. */
static int on_member(struct mo_trace_reader *r, struct mo_trace_query *q, const struct event *e) {
    struct mo_trace_query *first = find(r, (uint64_t)e->c);
    if (!q->start) q->start = e->time;
    if (!first) return MOIRE_OK;
    if (first->tenant != q->tenant || first == q || !first->left)
        return mo_trace_fail(r, "a query joins a block that is not there, or another tenant's");
    if (first->batch == MO_SHARE_BATCH) return mo_trace_fail(r, "a batch larger than there can be");
    first->batch++;
    return MOIRE_OK;
}

static bool is_stall(double took, double solo) {
    return took > solo + stall_ns && took > stall_ratio * solo;
}

void mo_trace_note_block(struct mo_trace *t, const struct mo_trace_query *q, double solo) {
    double observed = (double)(q->block_end - q->block_start);
    if (is_stall(observed, solo)) {
        t->n_stalls++;
        t->stall_ns += observed - solo;
    } else {
        t->blocks[t->n_blocks++] =
            (struct mo_trace_block){q->tenant, q->cores, (float)observed, (float)solo, q->block_end, q->lead};
    }
}

void mo_trace_note_span(struct mo_trace *t, const struct mo_trace_query *q, int core, int64_t begin,
                        int64_t end, double solo) {
    bool stalled = is_stall((double)(end - begin), solo);
    t->spans[t->n_spans++] = (struct mo_trace_span){q->tenant, q->cores, core, stalled, begin, end, solo};
}

/* A core has ended its part of a block. */
static void note_end(struct mo_trace_reader *r, struct mo_trace_query *q, const struct event *e,
                     int64_t start, double solo) {
    struct mo_trace *t = r->t;
    double took = (double)(e->time - start);
    t->block_ns += took;
    t->predicted_ns += solo;
    if (e->time > q->block_end) q->block_end = e->time;
    if (e->time < t->since || q->left <= 0) return;
    mo_trace_note_span(t, q, (int)e->c, start, e->time, solo);
    if (--q->left == 0) mo_trace_note_block(t, q, solo);
}

static int on_block(struct mo_trace_reader *r, const struct event *e, bool begins) {
    struct mo_trace_query *q = find(r, e->query);
    if (e->c < 0 || e->c >= r->t->cores) return mo_trace_fail(r, "a block on a core that is not there");
    struct mo_trace_running *b = &r->running[e->c];
    bool ended = !begins && q && b->query == e->query;
    struct mo_trace_running was = *b;
    if (begins && q && e->a == q->begin) { /* else it was late */
        note_start(r, q, e);
        mo_trace_enter(r, q, (int)e->c, e->time);
    } else if (ended && q->resized && e->time > q->block_end) {
        q->block_end = e->time;
    }
    *b = (struct mo_trace_running){begins ? e->query : 0, e->time, begins ? was.ended : e->time};
    if (!ended) return MOIRE_OK;
    if (e->a < 0 || e->b > r->t->tenants[q->tenant].n_layers || e->a >= e->b)
        return mo_trace_fail(r, "a block of layers that are not there");
    bool gpus = r->t->gpus.n_gpus > 0;
    if (gpus && !q->timed) return MOIRE_OK;              /* the GPU failed it */
    if (q->resized || e->a != q->begin) return MOIRE_OK; /* its time is no profile's; it was late */
    double solo = mo_trace_predicted(r->t, q, e->a, e->b);
    if (solo > 0) note_end(r, q, e, gpus ? q->block_start : was.start, solo);
    return MOIRE_OK;
}

/* --- pressure ------------------------------------------------------------------------------------------- */
static int on_pressure(struct mo_trace_reader *r, const struct event *e) {
    struct mo_trace *t = r->t;
    if (e->a < 0 || e->a > MO_EVENT_UNIT || e->b < 0 || e->b > 1)
        return mo_trace_fail(r, "a pressure out of 0 to 1000000 millionths, or of an unknown origin");
    if (t->n_pressures && e->time < t->pressures[t->n_pressures - 1].time)
        return mo_trace_fail(r, "the time of the pressure goes back");
    t->pressures[t->n_pressures++] =
        (struct mo_trace_pressure){e->time, (double)e->a / MO_EVENT_UNIT, e->b == 1};
    return MOIRE_OK;
}

static int on_counters(struct mo_trace_reader *r, const struct event *e) {
    struct mo_trace *t = r->t;
    const int64_t v[MO_OBSERVABLES] = {e->a, e->b, e->c};
    if (!t->source) return mo_trace_fail(r, "counters that no '# counters' line names");
    if (t->n_counters && e->time < t->counters[t->n_counters - 1].time)
        return mo_trace_fail(r, "the time of the counters goes back");
    struct mo_trace_counters *to = &t->counters[t->n_counters++];
    to->time = e->time;
    for (int i = 0; i < MO_OBSERVABLES; i++) {
        if (v[i] < 0 || (i >= t->source->n && v[i]))
            return mo_trace_fail(r, "counters that the source does not have");
        to->value[i] = (double)v[i] / MO_EVENT_UNIT;
    }
    return MOIRE_OK;
}

static int on_versions(struct mo_trace_reader *r, const struct event *e) {
    const struct mo_trace_query *q = find(r, e->query);
    int64_t n = e->c;
    if (n < 1 || n > MO_EVENT_VERSIONS || e->b < 0 || e->b >> 3 * n)
        return mo_trace_fail(r, "not the versions of 1 to 20 layers");
    if (!q) return MOIRE_OK;
    if (e->a < 0 || e->a > r->t->tenants[q->tenant].n_layers - n)
        return mo_trace_fail(r, "versions of layers that are not there");
    for (int64_t digits = e->b; digits; digits >>= 3)
        r->t->adapted += (digits & 7) != 0;
    return MOIRE_OK;
}

static int on_event(struct mo_trace_reader *r, const char *line) {
    struct event e;
    if (!read_event(line, &e))
        return mo_trace_fail(r, "not an event: \"seq time ring KIND query tenant a b c\"");
    if (!r->t->cores) return mo_trace_fail(r, "events before the '# cores' line");
    int code = r->headed ? MOIRE_OK : mo_trace_gpu_head(r);
    if (code) return code;
    r->headed = true;
    r->events++;
    bool counts = e.time >= r->t->since;
    if (!strcmp(e.kind, "SUBMIT")) r->submitted = e.a;
    if (!strcmp(e.kind, "ACCEPT") && counts) return on_arrival(r, &e, e.query, e.a, MOIRE_EUNLOADED);
    if (!strcmp(e.kind, "REJECT") && counts) return on_arrival(r, &e, 0, r->submitted, (int)e.a);
    if (!strcmp(e.kind, "BLOCK_START")) return on_block(r, &e, true);
    if (!strcmp(e.kind, "BLOCK_END")) return on_block(r, &e, false);
    if (!strcmp(e.kind, "PRESSURE")) return on_pressure(r, &e);
    if (!strcmp(e.kind, "COUNTERS")) return on_counters(r, &e);
    if (!strcmp(e.kind, "VERSIONS")) return on_versions(r, &e);
    struct mo_trace_query *q = find(r, e.query);
    if (!q) return MOIRE_OK;
    if (!strcmp(e.kind, "RESIZE")) return mo_trace_resize(r, q, e.a, e.b);
    if (!strcmp(e.kind, "GROW")) return mo_trace_core(r, q, e.a, e.time, true);
    if (!strcmp(e.kind, "LEAVE")) return mo_trace_core(r, q, e.a, e.time, false);
    if (!strcmp(e.kind, "BLOCK_DONE")) return mo_trace_done(r, q, e.c, e.time);
    if (!strcmp(e.kind, "TIMES")) return on_times(r, q, &e);
    if (!strcmp(e.kind, "MEMBER")) return on_member(r, q, &e);
    if (!strcmp(e.kind, "QUEUE")) q->queued = true; /* it waits for another block, whatever starting takes */
    if (!strcmp(e.kind, "DISPATCH")) {
        if (!q->start) q->start = e.time;
        q->cores = (int)e.c;
        q->decided = e.time;
        q->left = q->cores;
        q->lead = r->t->cores;
        q->batch = 1;
        q->timed = q->queued = q->resized = false;
        q->begin = (int)e.a;
        q->stop = (int)e.b;
        q->stays = 0;
        if (e.a < 0 || e.a >= e.b || e.b > r->t->tenants[q->tenant].n_layers)
            return mo_trace_fail(r, "a dispatch of layers that are not there");
        r->t->layers += e.b - e.a;
    } else if (!strcmp(e.kind, "RESOLVE")) {
        q->end = e.time;
        q->code = (int)e.a;
    }
    return MOIRE_OK;
}

/* --- the file ------------------------------------------------------------------------------------------- */
static int by_coming(const void *pa, const void *pb) {
    const struct mo_trace_query *a = pa, *b = pb;
    if (a->comes != b->comes) return a->comes < b->comes ? -1 : 1;
    return (a->handle > b->handle) - (a->handle < b->handle);
}

static int by_end(const void *pa, const void *pb) {
    const struct mo_trace_block *a = pa, *b = pb;
    return (a->end > b->end) - (a->end < b->end);
}

static int by_span_end(const void *pa, const void *pb) {
    const struct mo_trace_span *a = pa, *b = pb;
    return (a->end > b->end) - (a->end < b->end);
}

static int read_version(struct mo_trace_reader *r, const char *line) {
    int64_t version;
    if (!mo_trace_starts(&line, "# moire-history ") || !mo_trace_number(&line, 1, 2, &version) || *line)
        return mo_trace_fail(r, "not a trace: the first line must be '# moire-history 1' or 2");
    r->t->version = (int)version;
    return MOIRE_OK;
}

static int read_lines(struct mo_trace_reader *r, char *text) {
    int code = MOIRE_OK;
    for (char *line = text, *end; !code && *line; line = end + 1) {
        r->line++;
        end = strchr(line, '\n');
        if (!end) return mo_trace_fail(r, "the last line is cut off");
        *end = 0;
        if (r->line == 1)
            code = read_version(r, line);
        else
            code = r->end >= 0    ? mo_trace_fail(r, "more after the '# end' line")
                   : *line == '#' ? mo_trace_remark(r, line)
                                  : on_event(r, line);
    }
    if (code) return code;
    if (r->end < 0) return mo_trace_fail(r, "cut off: it does not end with an '# end' line");
    if (r->end != r->events)
        return mo_trace_fail(r, "events are missing: the '# end' line tells of another number");
    if (!r->t->n_queries) return mo_trace_fail(r, "no query in it");
    r->t->wait_ns = r->n_waits[0] > 0 ? r->waits[0] / r->n_waits[0] : 0;
    r->t->late_ns = r->late / r->t->n_queries;
    r->t->first_wait_ns = r->n_waits[1] > 0 ? r->waits[1] / r->n_waits[1] : r->t->wait_ns;
    return MOIRE_OK;
}

/* Room for what a text of so many lines can hold. */
static bool make_room(struct mo_trace_reader *r, size_t lines) {
    struct mo_trace *t = r->t;
    size_t entries = 64;
    while (entries < 2 * lines)
        entries *= 2;
    r->mask = entries - 1;
    t->tenants = mo_region_array(t->region, MO_BENCH_MAX_TENANTS, sizeof *t->tenants);
    t->queries = mo_region_array(t->region, lines + 1, sizeof *t->queries);
    t->pressures = mo_region_array(t->region, lines + 1, sizeof *t->pressures);
    t->counters = mo_region_array(t->region, lines + 1, sizeof *t->counters);
    t->blocks = mo_region_array(t->region, lines + 1, sizeof *t->blocks);
    t->spans = mo_region_array(t->region, lines + 1, sizeof *t->spans);
    t->starts = mo_region_array(t->region, lines + 1, sizeof *t->starts);
    r->table = mo_alloc(r->env, entries * sizeof *r->table);
    r->running = mo_alloc(r->env, MO_TRACE_CORES * sizeof *r->running);
    r->stays = mo_alloc(r->env, (lines + 2) * sizeof *r->stays);
    return t->tenants && t->queries && t->pressures && t->counters && t->blocks && t->spans && t->starts &&
           r->table && r->running && r->stays;
}

int mo_trace_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                   struct mo_trace *out, moire_error *err) {
    struct mo_trace_reader r = {.env = env, .path = path, .end = -1, .t = out, .err = err};
    size_t lines = 1;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    *out = (struct mo_trace){.region = mo_region_create(env)};
    char *copy = out->region && !memchr(text, 0, n) ? mo_region_string(out->region, text, n) : NULL;
    int code;
    if (memchr(text, 0, n))
        code = mo_fail(err, MOIRE_EFORMAT, "%s: not a trace: it has bytes that are no text", path);
    else
        code = copy && make_room(&r, lines) ? read_lines(&r, copy)
                                            : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    mo_free(env, r.table);
    mo_free(env, r.running);
    mo_free(env, r.stays);
    if (code) {
        mo_trace_free(out);
        return code;
    }
    qsort(out->queries, (size_t)out->n_queries, sizeof *out->queries, by_coming);
    qsort(out->spans, (size_t)out->n_spans, sizeof *out->spans, by_span_end);
    qsort(out->blocks, (size_t)out->n_blocks, sizeof *out->blocks, by_end);
    return MOIRE_OK;
}

int mo_trace_read(const struct mo_env *env, const char *path, struct mo_trace *out, moire_error *err) {
    char *text;
    size_t n;
    int code = mo_file_read(env, path, env->limits.trace_bytes, "trace_bytes", &text, &n, err);
    if (!code) code = mo_trace_parse(env, path, text, n, out, err);
    mo_free(env, text);
    return code;
}

void mo_trace_free(struct mo_trace *trace) {
    for (int i = 0; i < trace->n_tenants; i++)
        for (int k = 0; k < MO_PLAN_KINDS; k++)
            mo_share_destroy(trace->tenants[i].share[k]);
    mo_region_destroy(trace->region);
    *trace = (struct mo_trace){0};
}
