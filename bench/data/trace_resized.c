/* SPDX-License-Identifier: Apache-2.0
 * trace_resized.c - blocks of a trace whose cores come and go.
 *
 * Of every block it is known which core was in it when.  A block that was resized ran on several core counts;
 * if it took the same multiple of its profile on each of them, that is the one with which its layers, one
 * after the other on the cores that were there, end when the block did.  With it the block and its cores'
 * times are entries of the trace like those of any other block.
 *
 * A block that ended without some of its cores (they were late) did so at BLOCK_DONE: what these tell
 * afterwards is of no block any more. */
#include <math.h>
#include "bench/data/trace_impl.h"

enum { CUTS = 64, HALVINGS = 40 };
static const double least = 1.0 / 64, most = 1 << 20; /* multiples of a profile that are looked for */

int mo_trace_resize(const struct mo_trace_reader *r, struct mo_trace_query *q, int64_t in, int64_t out) {
    if (in < 0 || in > r->t->cores || out < 0 || out > r->t->cores || in + out < 1)
        return mo_trace_fail(r, "a block that gains and loses cores, but no number that can be");
    q->resized = true;
    return MOIRE_OK;
}

void mo_trace_enter(struct mo_trace_reader *r, struct mo_trace_query *q, int core, int64_t time) {
    int at = ++r->n_stays; /* 0 ends a list */
    r->stays[at] = (struct mo_trace_stay){core, q->stays, time, -1};
    q->stays = at;
}

int mo_trace_core(struct mo_trace_reader *r, struct mo_trace_query *q, int64_t core, int64_t time,
                  bool joins) {
    if (core < 0 || core >= r->t->cores) return mo_trace_fail(r, "a core that is not there joins or leaves");
    struct mo_trace_running *b = &r->running[core];
    *b = (struct mo_trace_running){joins ? q->handle : 0, time, joins ? b->ended : time};
    if (joins && q->resized) mo_trace_enter(r, q, (int)core, time);
    for (int i = joins ? 0 : q->stays; i; i = r->stays[i].next)
        if (r->stays[i].core == core && r->stays[i].end < 0) r->stays[i].end = time;
    return MOIRE_OK;
}

/* --- how fast a resized block was ----------------------------------------------------------------------- */
/* Between two changes of a block's cores; a layer takes few[l] + part * (many[l] - few[l]) then. */
struct stretch {
    int64_t begin;
    const int64_t *few, *many; /* times on the next counts that were measured */
    double part;
};

/* Counts between two that were measured lie on the line through (1 / count, time). */
static void find_times(const struct mo_trace_tenant *t, int cores, struct stretch *s) {
    int k = 0;
    while (k + 1 < t->n_counts && t->counts[k] < cores)
        k++;
    s->few = s->many = t->times[k];
    if (!k || t->counts[k] <= cores) return;
    double fewer = 1.0 / t->counts[k - 1], more = 1.0 / t->counts[k];
    s->few = t->times[k - 1];
    s->part = (fewer - 1.0 / cores) / (fewer - more);
}

static double layer_ns(const struct stretch *s, int layer) {
    return (double)s->few[layer] + s->part * (double)(s->many[layer] - s->few[layer]);
}

static int cores_at(const struct mo_trace_reader *r, const struct mo_trace_query *q, int64_t time) {
    int n = 0;
    for (int i = q->stays; i; i = r->stays[i].next)
        n += r->stays[i].begin <= time && (r->stays[i].end < 0 || r->stays[i].end > time);
    return n;
}

static void cut_at(struct stretch *s, int *n, int64_t time) {
    int at = *n;
    while (at > 0 && s[at - 1].begin > time)
        at--;
    if ((at > 0 && s[at - 1].begin == time) || *n == CUTS) return;
    for (int i = (*n)++; i > at; i--)
        s[i] = s[i - 1];
    s[at] = (struct stretch){.begin = time};
}

/* Fills the stretches from the block's begin to `end`; 0: too many, one without a core,
 * or no profile. */
static int stretches(const struct mo_trace_reader *r, const struct mo_trace_query *q, int64_t end,
                     struct stretch s[CUTS]) {
    const struct mo_trace_tenant *t = &r->t->tenants[q->tenant];
    int n = 0;
    if (!t->n_counts) return 0;
    for (int i = q->stays; i; i = r->stays[i].next) {
        if (r->stays[i].begin < end) cut_at(s, &n, r->stays[i].begin);
        if (r->stays[i].end >= 0 && r->stays[i].end < end) cut_at(s, &n, r->stays[i].end);
    }
    for (int i = 0; i < n && n < CUTS; i++) {
        int cores = cores_at(r, q, s[i].begin);
        if (!cores) return 0;
        find_times(t, cores, &s[i]);
    }
    return n < CUTS ? n : 0;
}

/* Whether the layers are done by `end` if each takes `ratio` of its profile. */
static bool ends_by(const struct mo_trace_query *q, const struct stretch *s, int n, int64_t end,
                    double ratio) {
    double part = 0; /* done of the layer */
    int layer = q->begin;
    for (int i = 0; i < n; i++) {
        double ns = (double)((i + 1 < n ? s[i + 1].begin : end) - s[i].begin) / ratio;
        for (; layer < q->stop; layer++, part = 0) {
            double left = (1 - part) * layer_ns(&s[i], layer);
            if (ns < left) break;
            ns -= left;
        }
        if (layer == q->stop) return true;
        part += ns / layer_ns(&s[i], layer);
    }
    return false;
}

/* A resized block has ended: 0 where it cannot be told. */
static double ratio_of(const struct mo_trace_reader *r, const struct mo_trace_query *q, int64_t end) {
    struct stretch s[CUTS];
    int n = stretches(r, q, end, s);
    double lo = least, hi = most; /* done with lo, not with hi */
    if (!n || !ends_by(q, s, n, end, lo) || ends_by(q, s, n, end, hi)) return 0;
    for (int i = 0; i < HALVINGS; i++) {
        double mid = sqrt(lo * hi);
        if (ends_by(q, s, n, end, mid))
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* How long a stay lasted; who was in it to the end was until then. */
static double length(const struct mo_trace_stay *stay, int64_t end) {
    int64_t until = stay->end >= 0 && stay->end < end ? stay->end : end;
    return until > stay->begin ? (double)(until - stay->begin) : 0;
}

static void note_resized(struct mo_trace_reader *r, struct mo_trace_query *q) {
    const int64_t end = q->block_end;
    struct mo_trace *t = r->t;
    double ratio = ratio_of(r, q, end), core_ns = 0, took = (double)(end - q->block_start);
    if (ratio <= 0) return;
    for (int i = q->stays; i; i = r->stays[i].next)
        core_ns += length(&r->stays[i], end);
    double cores = core_ns / took + 0.5;
    q->cores = cores < 1 ? 1 : cores < t->cores ? (int)cores : t->cores;
    for (int i = q->stays; i; i = r->stays[i].next) {
        const struct mo_trace_stay *stay = &r->stays[i];
        double ns = length(stay, end);
        if (ns > 0) mo_trace_note_span(t, q, stay->core, stay->begin, stay->begin + (int64_t)ns, ns / ratio);
    }
    t->block_ns += core_ns;
    t->predicted_ns += core_ns / ratio;
    mo_trace_note_block(t, q, took / ratio);
}

int mo_trace_done(struct mo_trace_reader *r, struct mo_trace_query *q, int64_t late, int64_t time) {
    if (late < 0 || late > r->t->cores)
        return mo_trace_fail(r, "a block that ends without a number of cores that cannot be");
    bool whole = q->block_end > q->block_start; /* a core has told of its end */
    if (!whole) q->block_end = time;
    if (!q->decided && q->left > 0 && time >= r->t->since && q->block_end > q->block_start) {
        double solo = q->resized ? 0 : mo_trace_predicted(r->t, q, q->begin, q->stop);
        if (q->resized)
            note_resized(r, q);
        else if (solo > 0)
            mo_trace_note_block(r->t, q, solo);
    }
    q->left = 0;
    q->resized = false;
    return MOIRE_OK;
}
