/* SPDX-License-Identifier: Apache-2.0
 * timeline.c - which model's blocks each core has run, in bins of time; see live_data.h.
 *
 * Blocks may be as short as 20 microseconds; a page has a pixel for some milliseconds.  A bin names the model
 * that had most of it, and says how much of it was busy, in eighths.  Runs of equal bins are one entry:
 * [first bin, bins, model, eighths], bins counted from the timeline's first. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "serve/page/live_data.h"

enum { MOST_BLOCKS = 4096, EIGHTHS = 8 };

struct run {
    int64_t bin, n; /* n 0: none yet */
    int model, eighths;
};
struct line {
    struct ms_bytes *to;
    int64_t first, end; /* bins of the timeline */
    int64_t bin;        /* that is being filled */
    int64_t *ns;        /* of each model in it; behind all: of models that are gone */
    int n;
    struct run run;
    bool any;
};

static void put_run(struct line *l) {
    if (l->run.n)
        ms_bytes_print(l->to, "%s[%" PRId64 ",%" PRId64 ",%d,%d]", l->any ? "," : "", l->run.bin - l->first,
                       l->run.n, l->run.model, l->run.eighths);
    l->any = l->any || l->run.n;
    l->run.n = 0;
}

/* The bin is full. */
static void put_bin(struct line *l) {
    int64_t busy = 0;
    int most = 0;
    for (int i = 0; i <= l->n; i++) {
        busy += l->ns[i];
        if (l->ns[i] > l->ns[most]) most = i;
    }
    const int model = most == l->n ? -1 : most;
    int eighths = (int)((busy * EIGHTHS + MS_BIN_NS / 2) / MS_BIN_NS);
    if (!busy || l->bin < l->first) return;
    if (!eighths) eighths = 1;
    if (!l->run.n || l->run.bin + l->run.n != l->bin || l->run.model != model || l->run.eighths != eighths) {
        put_run(l);
        l->run = (struct run){l->bin, 0, model, eighths};
    }
    l->run.n++;
}

static void go_to(struct line *l, int64_t bin) {
    if (bin == l->bin) return;
    put_bin(l);
    memset(l->ns, 0, (size_t)(l->n + 1) * sizeof *l->ns);
    l->bin = bin;
}

static void add_block(struct line *l, int model, int64_t start, int64_t end) {
    if (start < l->first * MS_BIN_NS) start = l->first * MS_BIN_NS;
    if (end > l->end * MS_BIN_NS) end = l->end * MS_BIN_NS;
    while (start < end) {
        const int64_t bin = start / MS_BIN_NS, stop = (bin + 1) * MS_BIN_NS;
        const int64_t to = stop < end ? stop : end;
        go_to(l, bin);
        l->ns[model] += to - start;
        start = to;
    }
}

static int model_of(const struct ms_look *look, uint64_t tenant) {
    for (int i = 0; i < look->n; i++)
        for (int k = 0; k < look->model[i].n_tenants; k++)
            if (look->model[i].tenant[k] == tenant) return i;
    return look->n;
}

static void write_core(struct line *l, const struct ms_look *look, const moire_block_row *rows, int n) {
    uint64_t tenant = 0;
    int model = look->n;
    l->bin = -1;
    l->any = false;
    memset(l->ns, 0, (size_t)(l->n + 1) * sizeof *l->ns);
    for (int i = 0; i < n; i++) {
        if (rows[i].tenant != tenant) {
            tenant = rows[i].tenant;
            model = model_of(look, tenant);
        }
        add_block(l, model, rows[i].start_ns, rows[i].end_ns ? rows[i].end_ns : look->now_ns);
    }
    go_to(l, -1);
    put_run(l);
}

void ms_timeline_write(const struct ms_look *look, moire_runtime *runtime, int64_t since,
                       struct ms_bytes *to) {
    const int64_t end = look->now_ns / MS_BIN_NS;
    const int64_t oldest = end - (int64_t)MS_LIVE_SECONDS * 1000000000 / MS_BIN_NS;
    const int cores = look->runtime.cores, room = cores * MOST_BLOCKS;
    struct line l = {.to = to, .first = since > oldest ? since : oldest, .end = end, .n = look->n};
    int n = 0;
    if (l.first > end) l.first = end;
    if (l.first < 0) l.first = 0;
    moire_block_row *rows = calloc((size_t)room + 1, sizeof *rows);
    l.ns = calloc((size_t)look->n + 1, sizeof *l.ns);
    if (!rows || !l.ns || moire_recent_blocks(runtime, l.first * MS_BIN_NS, rows, room, &n, NULL)) n = 0;
    if (n > room) n = room;
    ms_bytes_print(to, "{\"bin_ms\":%g,\"from\":%" PRId64 ",\"to\":%" PRId64 ",\"cores\":[", MS_BIN_NS / 1e6,
                   l.first, end);
    for (int core = 0, at = 0; core < cores; core++) {
        const int begin = at;
        while (at < n && rows[at].core == core)
            at++;
        ms_bytes_print(to, "%s[", core ? "," : "");
        if (l.ns) write_core(&l, look, rows + begin, at - begin);
        ms_bytes_print(to, "]");
    }
    ms_bytes_print(to, "]}");
    free(l.ns);
    free(rows);
}
