/* SPDX-License-Identifier: Apache-2.0
 * check.c - the rules.  The first breach ends the check. */
#include "tests/history/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CORES = 1024, MAX_TENANTS = 1024, MAX_RINGS = 2048, LINE = 400 };
enum { CODE_OK = 0, CODE_EXPIRED = -9 };
static const int64_t IDLE_LIMIT_NS = 1000000000;

struct event {
    uint64_t seq, query;
    int64_t time, a, b, c;
    int ring, tenant;
    char kind[24];
};

struct query {
    uint64_t handle;
    int tenant, next, code; /* next: first layer not run; code: of RESOLVE */
    int64_t deadline;
    bool resolved, in, out, released, started;
    int begin, end, want, starts, ends, drops; /* of the block under way; want = cores, 0 = none */
    uint64_t joined_before; /* the query that joined the same block before this one, 0 = none; */
    uint64_t latest;        /* of a block's first query: the one that joined last */
    bool member;            /* the block under way is another query's */
    /* Of a block whose cores change: asked in and out and not there yet; and that only BLOCK_DONE ends it. */
    int asked_in, asked_out;
    bool resized, grown;
};

struct tenant {
    bool opened, closed;
    int layers, queue, instances, waiting, holding;
};

struct core {
    uint64_t query; /* 0 = idle */
    uint64_t next;  /* the first query of the block that is queued behind, 0 = none */
    bool resetting; /* its block was killed and it is not usable yet; it counts as busy */
    int64_t begin, end;
};

/* A block that BLOCK_DONE has ended without some cores: so many of them will tell that they enter it. */
struct late {
    uint64_t query;
    int64_t begin, end;
    int n;
};

struct check {
    struct history_verdict v;
    int n_cores, busy, resetting; /* busy: with those that are reset */
    bool submitted;               /* the last event of the lock's ring was SUBMIT */
    int submit_ring;
    uint64_t last_seq;
    bool any;
    int64_t last_time[MAX_RINGS];
    struct tenant tenant[MAX_TENANTS];
    struct core core[MAX_CORES];
    struct late late[MAX_CORES]; /* a core is late for one block at a time */
    int n_late;
    struct query *table; /* open addressing, size a power of two */
    size_t size, used;
    long accepted, resolved, released;
    int64_t stalled_since; /* all cores idle and a query could run; -1 = not so */
};

static bool fail(struct check *k, const char *rule, const char *format, ...) {
    if (k->v.rule[0]) return false;
    snprintf(k->v.rule, sizeof k->v.rule, "%s", rule);
    va_list ap;
    va_start(ap, format);
    vsnprintf(k->v.message, sizeof k->v.message, format, ap);
    va_end(ap);
    return false;
}

/* --- queries by handle --- */
static struct query *slot_of(struct query *table, size_t size, uint64_t handle) {
    size_t at = (size_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (size - 1);
    while (table[at].handle && table[at].handle != handle)
        at = (at + 1) & (size - 1);
    return &table[at];
}

static struct query *find(struct check *k, uint64_t handle) {
    struct query *q = k->size && handle ? slot_of(k->table, k->size, handle) : NULL;
    return q && q->handle ? q : NULL;
}

static struct query *insert(struct check *k, uint64_t handle) {
    if (2 * k->used >= k->size) {
        size_t size = k->size ? 2 * k->size : 1024;
        struct query *fresh = calloc(size, sizeof *fresh);
        if (!fresh) return NULL;
        for (size_t i = 0; i < k->size; i++)
            if (k->table[i].handle) *slot_of(fresh, size, k->table[i].handle) = k->table[i];
        free(k->table);
        k->table = fresh;
        k->size = size;
    }
    struct query *q = slot_of(k->table, k->size, handle);
    q->handle = handle;
    k->used++;
    return q;
}

/* --- one function a kind of event; true = fine --- */
static bool on_open(struct check *k, const struct event *e) {
    struct tenant *t = &k->tenant[e->tenant];
    if (t->opened && !t->closed) return fail(k, "H10", "tenant %d opened twice", e->tenant);
    if (t->waiting || t->holding)
        return fail(k, "H10", "tenant %d reused while queries of it are open", e->tenant);
    if (e->a < 1 || e->a > INT32_MAX || e->b < 0 || e->b > INT32_MAX || e->c < 1 || e->c > INT32_MAX)
        return fail(k, "FORM", "OPEN of tenant %d with odd numbers", e->tenant);
    *t = (struct tenant){.opened = true, .layers = (int)e->a, .queue = (int)e->b, .instances = (int)e->c};
    return true;
}

static bool on_close(struct check *k, const struct event *e) {
    struct tenant *t = &k->tenant[e->tenant];
    if (!t->opened || t->closed) return fail(k, "H10", "CLOSE of tenant %d, which is not open", e->tenant);
    t->closed = true;
    return true;
}

static bool on_submit(struct check *k, const struct event *e) {
    if (k->submitted) return fail(k, "H1", "SUBMIT without ACCEPT or REJECT before the next");
    k->submitted = true;
    k->submit_ring = e->ring;
    return true;
}

static bool answer_submit(struct check *k, const struct event *e) {
    if (!k->submitted || k->submit_ring != e->ring) return fail(k, "H1", "%s without SUBMIT", e->kind);
    k->submitted = false;
    return true;
}

static bool on_accept(struct check *k, const struct event *e) {
    struct tenant *t = &k->tenant[e->tenant];
    if (!answer_submit(k, e)) return false;
    if (!t->opened || t->closed) return fail(k, "H10", "tenant %d accepts but is not open", e->tenant);
    if (!e->query) return fail(k, "FORM", "ACCEPT without a query");
    if (find(k, e->query)) return fail(k, "H1", "query %llu accepted twice", (unsigned long long)e->query);
    struct query *q = insert(k, e->query);
    if (!q) return fail(k, "FORM", "out of memory for the history");
    q->tenant = e->tenant;
    q->deadline = e->b;
    k->accepted++;
    if (++t->waiting > t->queue)
        return fail(k, "H7", "tenant %d: %d queries wait, bound %d", e->tenant, t->waiting, t->queue);
    return true;
}

static bool on_reject(struct check *k, const struct event *e) {
    if (e->a >= 0) return fail(k, "FORM", "REJECT with code %lld", (long long)e->a);
    return answer_submit(k, e);
}

/* A query that may run layers [a, b) does, alone or in a batch. */
static bool begin_block(struct check *k, const struct event *e, struct query *q) {
    struct tenant *t = &k->tenant[e->tenant];
    if (q->resolved) return fail(k, "H3", "block of a resolved query dispatched");
    if (q->want) return fail(k, "H3", "two blocks of one query at a time");
    if (e->a != q->next || e->b <= e->a || e->b > t->layers)
        return fail(k, "H3", "block [%lld,%lld) after layer %d of %d", (long long)e->a, (long long)e->b,
                    q->next, t->layers);
    if (!q->started) {
        q->started = true;
        t->waiting--;
        if (++t->holding > t->instances)
            return fail(k, "H7", "tenant %d: %d instances in use, it has %d", e->tenant, t->holding,
                        t->instances);
    }
    q->begin = (int)e->a;
    q->end = (int)e->b;
    q->starts = q->ends = q->drops = 0;
    q->asked_in = q->asked_out = 0;
    q->resized = q->grown = false;
    q->joined_before = q->latest = 0;
    return true;
}

static bool on_dispatch(struct check *k, const struct event *e, struct query *q) {
    if (!begin_block(k, e, q)) return false;
    if (e->c < 1 || e->c > k->n_cores) return fail(k, "H4", "let of %lld cores", (long long)e->c);
    q->want = (int)e->c;
    q->member = false;
    return true;
}

static bool on_member(struct check *k, const struct event *e, struct query *q) {
    struct query *first = e->c > 0 ? find(k, (uint64_t)e->c) : NULL;
    if (!begin_block(k, e, q)) return false;
    if (!first || !first->want || first->member || first->starts || first->drops)
        return fail(k, "H3", "query %llu joins a block that is not about to start",
                    (unsigned long long)e->query);
    if (first->tenant != q->tenant || first->begin != q->begin || first->end != q->end)
        return fail(k, "H3", "query %llu joins a block of other layers", (unsigned long long)e->query);
    q->want = 1;
    q->member = true;
    q->joined_before = first->latest;
    first->latest = e->query;
    return true;
}

static bool on_queue(struct check *k, const struct event *e, struct query *q) {
    if (e->a < 0 || e->a >= k->n_cores) return fail(k, "H4", "core %lld does not exist", (long long)e->a);
    struct core *core = &k->core[e->a];
    if (!core->query || core->query == e->query) return fail(k, "H4", "queued behind no block");
    if (core->next) return fail(k, "H4", "core %lld has a second block queued", (long long)e->a);
    if (!q->want || q->member || q->starts || q->drops)
        return fail(k, "H4", "what is queued was not dispatched");
    const struct query *first = find(k, core->query);
    if (q->begin || q->end != k->tenant[q->tenant].layers || core->end != k->tenant[first->tenant].layers)
        return fail(k, "H4", "queued behind or for a part of a batch");
    core->next = e->query;
    return true;
}

static bool is_current(const struct query *q, const struct event *e) {
    return q->want && !q->member && e->a == q->begin && e->b == q->end;
}

/* The block is over for every query in it. */
static void close_block(struct check *k, struct query *q) {
    bool ran = !q->drops;
    for (uint64_t joined_before = q->latest; q; joined_before = q ? q->joined_before : 0) {
        if (ran) q->next = q->end;
        q->want = 0;
        q = find(k, joined_before);
    }
}

/* A core's part is over: with the last one so is the block, unless its cores change. */
static void end_part(struct check *k, struct query *q) {
    if (!q->resized && q->ends + q->drops >= q->want) close_block(k, q);
}

/* A core tells of a block that BLOCK_DONE has ended without it; NULL: there is none. */
static const struct late *find_late(struct check *k, uint64_t query, int64_t begin) {
    for (int i = 0; i < k->n_late; i++) {
        struct late *l = &k->late[i];
        if (l->query != query || l->begin != begin) continue;
        if (--l->n > 0) return l;
        const struct late last = *l;
        *l = k->late[--k->n_late];
        k->late[k->n_late] = last;
        return &k->late[k->n_late];
    }
    return NULL;
}

static bool is_late(struct check *k, const struct event *e) {
    const struct late *l = find_late(k, e->query, e->a);
    return l && l->end == e->b;
}

static bool enter(struct check *k, const struct event *e, int64_t at, int64_t begin, int64_t end) {
    if (at < 0 || at >= k->n_cores) return fail(k, "H4", "core %lld does not exist", (long long)at);
    struct core *core = &k->core[at];
    if (core->query) return fail(k, "H4", "core %lld enters a block while it runs another", (long long)at);
    if (core->resetting) return fail(k, "H4", "core %lld runs while it is reset", (long long)at);
    if (core->next && core->next != e->query)
        return fail(k, "H4", "core %lld starts a block before the one that is queued", (long long)at);
    *core = (struct core){.query = e->query, .begin = begin, .end = end};
    k->busy++;
    return true;
}

static bool on_block_start(struct check *k, const struct event *e, struct query *q) {
    if (!enter(k, e, e->c, e->a, e->b)) return false;
    if (!is_current(q, e))
        return is_late(k, e) ? true : fail(k, "H3", "a block starts that was not dispatched");
    if (++q->starts > q->want) return fail(k, "H4", "more cores start the block than its let has");
    return true;
}

/* --- cores that come and go --- */
static bool on_resize(struct check *k, const struct event *e, struct query *q) {
    if (e->a < 0 || e->a > k->n_cores || e->b < 0 || e->b > k->n_cores || e->a + e->b < 1)
        return fail(k, "FORM", "%lld cores are asked in and %lld out", (long long)e->a, (long long)e->b);
    if (!q->want || q->member) return fail(k, "H3", "a block that does not run gets other cores");
    q->resized = true;
    q->asked_in += (int)e->a;
    q->asked_out += (int)e->b;
    return true;
}

static bool on_grow(struct check *k, const struct event *e, struct query *q) {
    bool runs = q->want && !q->member && q->asked_in > 0 && e->c == q->begin;
    if (e->b < 1 || e->b > k->n_cores) return fail(k, "FORM", "%lld cores in a block", (long long)e->b);
    if (!runs) {
        const struct late *l = find_late(k, e->query, e->c);
        if (!l) return fail(k, "H4", "core %lld enters a block that did not ask for it", (long long)e->a);
        return enter(k, e, e->a, l->begin, l->end);
    }
    q->asked_in--;
    q->grown = true;
    return enter(k, e, e->a, q->begin, q->end);
}

/* A core goes out because it was asked to, or because it was late for the end. */
static bool on_leave(struct check *k, const struct event *e, struct query *q) {
    if (e->a < 0 || e->a >= k->n_cores) return fail(k, "H4", "core %lld does not exist", (long long)e->a);
    struct core *core = &k->core[e->a];
    if (e->b < 0 || e->b > k->n_cores) return fail(k, "FORM", "%lld cores in a block", (long long)e->b);
    if (core->query != e->query)
        return fail(k, "H4", "core %lld leaves a block that it is not in", (long long)e->a);
    bool runs = q->want && !q->member && core->begin == q->begin;
    if (runs && q->asked_out-- < 1)
        return fail(k, "H4", "core %lld leaves a block and was not asked to", (long long)e->a);
    core->query = 0;
    k->busy--;
    return true;
}

static bool on_block_done(struct check *k, const struct event *e, struct query *q) {
    if (e->c < 0 || e->c > k->n_cores) return fail(k, "FORM", "%lld cores are late", (long long)e->c);
    bool over = !q->want && !q->resized && e->a == q->begin && e->b == q->end; /* all have told */
    if (!over && !is_current(q, e)) return fail(k, "H3", "the end of a block that does not run");
    if (!over && !q->starts && !q->drops && !q->grown) return fail(k, "H3", "a block ends that nobody ran");
    int late = over ? 0 : q->want - q->starts - q->drops + q->asked_in;
    if (late < 0 || late > e->c)
        return fail(k, "H4", "a block ends without %d cores, not %lld", late, (long long)e->c);
    if (late && k->n_late < MAX_CORES) k->late[k->n_late++] = (struct late){e->query, q->begin, q->end, late};
    q->resized = false;
    if (!over) close_block(k, q);
    return true;
}

/* The block is killed: its queries wait again from the first layer on, and its cores are out of use. */
static bool on_reset(struct check *k, const struct event *e, struct query *q) {
    struct tenant *t = &k->tenant[e->tenant];
    if (e->c < 0) return fail(k, "FORM", "negative work is lost");
    if (!is_current(q, e)) return fail(k, "H3", "a block is killed that does not run");
    for (int i = 0; i < k->n_cores; i++)
        if (k->core[i].query == e->query) {
            k->core[i] = (struct core){.resetting = true};
            k->resetting++;
        }
    for (uint64_t joined_before = q->latest; q; joined_before = q ? q->joined_before : 0) {
        q->want = 0;
        if (!q->resolved) {
            q->next = 0;
            q->started = q->resized = false;
            t->waiting++;
            t->holding--;
        }
        q = find(k, joined_before);
    }
    return true;
}

static bool on_restored(struct check *k, const struct event *e) {
    if (e->a < 0 || e->a >= k->n_cores || !k->core[e->a].resetting)
        return fail(k, "H4", "core %lld is back and was not reset", (long long)e->a);
    k->core[e->a].resetting = false;
    k->resetting--;
    k->busy--;
    return true;
}

static bool on_block_end(struct check *k, const struct event *e, struct query *q) {
    if (e->c < 0 || e->c >= k->n_cores) return fail(k, "H4", "core %lld does not exist", (long long)e->c);
    struct core *core = &k->core[e->c];
    if (core->query != e->query || core->begin != e->a || core->end != e->b)
        return fail(k, "H4", "core %lld ends a block that it does not run", (long long)e->c);
    core->query = 0;
    k->busy--;
    if (!is_current(q, e)) return true; /* it was late */
    q->ends++;
    end_part(k, q);
    return true;
}

static bool on_block_drop(struct check *k, const struct event *e, struct query *q) {
    if (!is_current(q, e))
        return is_late(k, e) ? true : fail(k, "H3", "a block is dropped that was not dispatched");
    if (q->starts) return fail(k, "H4", "a block both runs and is dropped");
    q->drops++;
    end_part(k, q);
    return true;
}

static bool on_resolve(struct check *k, const struct event *e, struct query *q) {
    if (q->resolved) return fail(k, "H1", "query %llu resolved twice", (unsigned long long)e->query);
    if (e->a > 0) return fail(k, "FORM", "RESOLVE with code %lld", (long long)e->a);
    if (e->a == CODE_OK && (q->next != k->tenant[q->tenant].layers || q->want))
        return fail(k, "H3", "OK after %d of %d layers", q->next, k->tenant[q->tenant].layers);
    if (e->a == CODE_EXPIRED && e->time < q->deadline)
        return fail(k, "H2", "expired %lld ns before its deadline", (long long)(q->deadline - e->time));
    if (e->b != q->deadline) return fail(k, "FORM", "the deadline changed");
    q->resolved = true;
    q->code = (int)e->a;
    k->resolved++;
    if (!q->started) k->tenant[q->tenant].waiting--;
    return true;
}

static bool on_callback_in(struct check *k, const struct event *e, struct query *q) {
    if (!q->resolved) return fail(k, "H1", "callback before the outcome was decided");
    if (q->in) return fail(k, "H1", "query %llu called back twice", (unsigned long long)e->query);
    if (e->a != q->code)
        return fail(k, "H1", "callback with code %lld, decided was %d", (long long)e->a, q->code);
    if (q->released) return fail(k, "H1", "callback after release");
    q->in = true;
    return true;
}

static bool on_callback_out(struct check *k, const struct event *e, struct query *q) {
    (void)e;
    if (!q->in || q->out) return fail(k, "H1", "callback returns that did not begin");
    q->out = true;
    return true;
}

static bool on_release(struct check *k, const struct event *e, struct query *q) {
    (void)e;
    if (q->released) return fail(k, "H1", "released twice");
    if (!q->out) return fail(k, "H1", "released before its callback returned");
    if (q->want) return fail(k, "H4", "released while a block of it runs");
    q->released = true;
    k->released++;
    if (q->started) k->tenant[q->tenant].holding--;
    return true;
}

enum { CUTS = 7, CUT_MODEL = 1 }; /* reasons for which a block may end */

/* Of a dispatch, ahead of its block. */
static bool on_basis(struct check *k, const struct event *e, struct query *q) {
    if (e->a < 0 || e->a > 1000000 || e->b < 0 || e->b >= CUTS || e->c < 0)
        return fail(k, "FORM", "pressure, cut or time of a decision that cannot be");
    if (!q->want || q->starts || q->drops) return fail(k, "H3", "the basis of no decision");
    if ((e->b == CUT_MODEL) != (q->end == k->tenant[q->tenant].layers))
        return fail(k, "H3", "a block up to layer %d says otherwise of its model's end", q->end);
    return true;
}

static bool on_versions(struct check *k, const struct event *e, struct query *q) {
    if (!q->want || e->a < q->begin || e->c < 1 || e->a + e->c > q->end)
        return fail(k, "H3", "versions of layers [%lld,%lld) in block [%d,%d)", (long long)e->a,
                    (long long)e->a + e->c, q->begin, q->end);
    return true;
}

static bool on_times(struct check *k, const struct event *e, struct query *q) {
    if (e->a < 0 || e->b < 0 || e->c < 0) return fail(k, "FORM", "negative times of a block");
    if (!q->want || q->starts != q->want || q->ends)
        return fail(k, "H3", "times of a block that is not about to end");
    return true;
}

static bool on_cancel(struct check *k, const struct event *e, struct query *q) {
    if (e->a && !q->resolved) return fail(k, "H1", "CANCEL says it decided, but nothing was");
    return true;
}

static bool on_drained(struct check *k) {
    if (k->accepted != k->released)
        return fail(k, "H5", "drained, but %ld of %ld queries are open", k->accepted - k->released,
                    k->accepted);
    return true;
}

static bool on_sample(struct check *k, const struct event *e) {
    if (e->a != k->accepted || e->b != k->resolved || e->c != k->accepted - k->resolved)
        return fail(k, "H5", "sample says %lld accepted, %lld resolved; the history has %ld and %ld",
                    (long long)e->a, (long long)e->b, k->accepted, k->resolved);
    return true;
}

static const struct {
    const char *kind;
    bool (*on)(struct check *k, const struct event *e, struct query *q);
} query_events[] = {
    {"DISPATCH", on_dispatch},
    {"BLOCK_START", on_block_start},
    {"BLOCK_END", on_block_end},
    {"BLOCK_DROP", on_block_drop},
    {"RESOLVE", on_resolve},
    {"CALLBACK_IN", on_callback_in},
    {"CALLBACK_OUT", on_callback_out},
    {"RELEASE", on_release},
    {"CANCEL", on_cancel},
    {"BASIS", on_basis},
    {"VERSIONS", on_versions},
    {"MEMBER", on_member},
    {"TIMES", on_times},
    {"QUEUE", on_queue},
    {"RESIZE", on_resize},
    {"GROW", on_grow},
    {"LEAVE", on_leave},
    {"BLOCK_DONE", on_block_done},
    {"RESET", on_reset},
};

static bool dispatch_query_event(struct check *k, const struct event *e, bool *known) {
    for (size_t i = 0; i < sizeof query_events / sizeof *query_events; i++) {
        if (strcmp(e->kind, query_events[i].kind)) continue;
        *known = true;
        struct query *q = find(k, e->query);
        if (!q) return fail(k, "H1", "%s of a query that was never accepted", e->kind);
        if (q->tenant != e->tenant)
            return fail(k, "H10", "%s names tenant %d, the query is of %d", e->kind, e->tenant, q->tenant);
        return query_events[i].on(k, e, q);
    }
    return true;
}

/* --- idle cores beside runnable work --- */
static bool could_run(const struct check *k) {
    for (int i = 0; i < MAX_TENANTS; i++) {
        const struct tenant *t = &k->tenant[i];
        if (t->opened && t->waiting > 0 && t->holding < t->instances) return true;
    }
    return false;
}

static bool watch_idle(struct check *k, const struct event *e) {
    if (k->stalled_since >= 0 && e->time - k->stalled_since > IDLE_LIMIT_NS)
        return fail(k, "H9", "all cores were idle for %lld ms while a query could run",
                    (long long)((e->time - k->stalled_since) / 1000000));
    bool stalled = !k->busy && could_run(k);
    if (!stalled)
        k->stalled_since = -1;
    else if (k->stalled_since < 0)
        k->stalled_since = e->time;
    return true;
}

/* --- reading --- */
/* Reads one number and the blank or end after it. */
static bool number(const char **at, long long *out) {
    char *end;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (end == *at || errno || (*end && *end != ' ')) return false;
    *at = *end ? end + 1 : end;
    return true;
}

static bool word(const char **at, char *out, size_t n) {
    const char *end = strchr(*at, ' ');
    size_t length = end ? (size_t)(end - *at) : 0;
    if (!length || length >= n) return false;
    memcpy(out, *at, length);
    out[length] = 0;
    *at = end + 1;
    return true;
}

static bool parse(struct check *k, const char *line, struct event *e) {
    const char *at = line;
    long long v[8] = {0}; /* seq, time, ring; query, tenant, a, b, c */
    bool ok =
        number(&at, &v[0]) && number(&at, &v[1]) && number(&at, &v[2]) && word(&at, e->kind, sizeof e->kind);
    for (int i = 3; i < 8 && ok; i++)
        ok = number(&at, &v[i]);
    if (!ok || *at || v[0] < 0 || v[3] < 0) return fail(k, "FORM", "not an event: %.80s", line);
    if (v[2] < 0 || v[2] >= MAX_RINGS || v[4] < -1 || v[4] >= MAX_TENANTS)
        return fail(k, "FORM", "ring %lld or tenant %lld out of range", v[2], v[4]);
    e->seq = (uint64_t)v[0], e->time = v[1], e->ring = (int)v[2];
    e->query = (uint64_t)v[3], e->tenant = (int)v[4], e->a = v[5], e->b = v[6], e->c = v[7];
    return true;
}

static bool event(struct check *k, const char *line) {
    struct event e = {0};
    if (!parse(k, line, &e)) return false;
    if (k->any && e.seq <= k->last_seq) return fail(k, "FORM", "sequence numbers go back");
    if (e.time < k->last_time[e.ring]) return fail(k, "FORM", "time goes back on thread %d", e.ring);
    k->any = true;
    k->last_seq = e.seq;
    k->last_time[e.ring] = e.time;
    k->v.events++;
    bool known = false, ok = dispatch_query_event(k, &e, &known);
    bool of_tenant = e.tenant >= 0;
    if (known) return ok && watch_idle(k, &e);
    if (!strcmp(e.kind, "DRAINED"))
        ok = on_drained(k);
    else if (!strcmp(e.kind, "SAMPLE"))
        ok = on_sample(k, &e);
    else if (!strcmp(e.kind, "SHUTDOWN") || !strcmp(e.kind, "COUNTERS"))
        ok = true;
    else if (!strcmp(e.kind, "PRESSURE"))
        ok = e.a >= 0 && e.a <= 1000000 ? true : fail(k, "FORM", "pressure %lld", (long long)e.a);
    else if (!of_tenant)
        ok = fail(k, "FORM", "%s without a tenant", e.kind);
    else if (!strcmp(e.kind, "OPEN"))
        ok = on_open(k, &e);
    else if (!strcmp(e.kind, "CLOSE"))
        ok = on_close(k, &e);
    else if (!strcmp(e.kind, "RESTORED"))
        ok = on_restored(k, &e);
    else if (!strcmp(e.kind, "SUBMIT"))
        ok = on_submit(k, &e);
    else if (!strcmp(e.kind, "ACCEPT"))
        ok = on_accept(k, &e);
    else if (!strcmp(e.kind, "REJECT"))
        ok = on_reject(k, &e);
    else
        ok = fail(k, "FORM", "unknown event %s", e.kind);
    return ok && watch_idle(k, &e);
}

static bool header(struct check *k, const char *line) {
    static const char cores[] = "# cores ", dropped[] = "# dropped ";
    long long n;
    if (!strncmp(line, cores, sizeof cores - 1)) {
        line += sizeof cores - 1;
        if (!number(&line, &n) || n < 1 || n > MAX_CORES) return fail(k, "FORM", "an odd number of cores");
        k->n_cores = (int)n;
    } else if (!strncmp(line, dropped, sizeof dropped - 1)) {
        line += sizeof dropped - 1;
        if (!number(&line, &n) || n) return fail(k, "FORM", "events were dropped: the history is not whole");
    }
    return true;
}

static bool at_end(struct check *k) {
    if (!k->n_cores) return fail(k, "FORM", "no '# cores' line");
    if (k->submitted) return fail(k, "H1", "the last SUBMIT has no ACCEPT or REJECT");
    for (size_t i = 0; i < k->size; i++) {
        const struct query *q = &k->table[i];
        if (q->handle && !q->out)
            return fail(k, "H1", "query %llu was accepted and never answered", (unsigned long long)q->handle);
    }
    if (k->accepted != k->released)
        return fail(k, "H5", "%ld queries were never released", k->accepted - k->released);
    const int running = k->busy - k->resetting;
    return running ? fail(k, "H4", "%d cores still run blocks", running) : true;
}

struct history_verdict history_check(const char *text, size_t n) {
    struct check *k = calloc(1, sizeof *k);
    struct history_verdict v = {.rule = "FORM", .message = "out of memory"};
    if (!k) return v;
    k->stalled_since = -1;
    bool ok = true;
    for (size_t at = 0; at < n && ok;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end ? (size_t)(end - text) - at : n - at;
        char line[LINE];
        k->v.line++;
        if (end && length >= sizeof line && text[at] == '#') { /* a recording's: profiles of its tenants */
            at += length + 1;
            continue;
        }
        if (length >= sizeof line || !end) {
            ok = fail(k, "FORM", end ? "a line is too long" : "the last line is cut");
            break;
        }
        memcpy(line, text + at, length);
        line[length] = 0;
        at += length + 1;
        if (line[0] == '#')
            ok = header(k, line);
        else
            ok = k->n_cores ? event(k, line) : fail(k, "FORM", "events before the '# cores' line");
    }
    if (ok) at_end(k);
    k->v.queries = k->accepted;
    v = k->v;
    free(k->table);
    free(k);
    return v;
}
