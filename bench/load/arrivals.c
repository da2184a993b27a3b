/* SPDX-License-Identifier: Apache-2.0
 * arrivals.c - seeded schedules; see arrivals.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/scenario.h"
#include "bench/load/arrivals.h"

enum { MAX_ARRIVALS = 10 * 1000 * 1000 };

/* The end of a gap that begins at `at` ns and lasts `gap` means of the full rate: time passes slower where
 * the curve is below its largest. */
static double after_gap(const struct mo_bench_curve *curve, double full, double rate, double at, double gap) {
    if (!curve || !curve->n) return at + gap / rate * 1e9;
    for (int i = 0; i < curve->n; i++) {
        double end = i + 1 < curve->n ? curve->at_s[i + 1] * 1e9 : INFINITY;
        double now = rate * (curve->rate[i] / full);
        if (at >= end) continue;
        if (now > 0 && at + gap / now * 1e9 < end) return at + gap / now * 1e9;
        gap -= now > 0 ? (end - at) * 1e-9 * now : 0;
        at = end;
    }
    return INFINITY;
}

static double full_rate(const struct mo_bench_curve *curve) {
    double full = 0;
    for (int i = 0; curve && i < curve->n; i++)
        full = fmax(full, curve->rate[i]);
    return full;
}

/* Walks one tenant's stream; stores when `to` is given.  Returns the number of arrivals, -1 for too many. */
static int walk(const struct mo_process *process, uint64_t seed, int tenant, double rate,
                const struct mo_bench_curve *curve, int64_t total_ns, struct mo_bench_arrival *to) {
    struct mo_process_state state;
    if (!(rate > 0)) return 0;
    mo_process_start(&state, process, seed, (uint64_t)tenant);
    int n = 0;
    double at = 0, full = full_rate(curve);
    for (;;) {
        at = after_gap(curve, full, rate, at, mo_process_gap(&state));
        if (!(at < (double)total_ns)) return n;
        if (n == MAX_ARRIVALS) return -1;
        if (to) to[n] = (struct mo_bench_arrival){(int64_t)at, tenant};
        n++;
    }
}

static int by_time(const void *pa, const void *pb) {
    const struct mo_bench_arrival *a = pa, *b = pb;
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns ? -1 : 1;
    return (a->tenant > b->tenant) - (a->tenant < b->tenant);
}

int mo_bench_schedule_draw(const struct mo_env *env, const struct mo_process *process, uint64_t seed,
                           const double *rates, const struct mo_bench_curve *curves, int n_tenants,
                           int64_t warmup_ns, int64_t window_ns, int64_t total_ns,
                           struct mo_bench_schedule *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    int64_t n = 0;
    for (int i = 0; i < n_tenants; i++) {
        if (!(rates[i] >= 0) || !isfinite(rates[i]))
            return mo_fail(err, MOIRE_EINVAL, "tenant %d: the arrival rate must not be negative", i);
        int k = walk(process, seed, i, rates[i], curves ? &curves[i] : NULL, total_ns, NULL);
        if (k < 0 || (n += k) > MAX_ARRIVALS)
            return mo_fail(err, MOIRE_ELIMIT, "more than %d arrivals; lower the load or the seconds",
                           MAX_ARRIVALS);
    }
    out->items = mo_alloc(env, ((size_t)n + 1) * sizeof *out->items);
    if (!out->items) return mo_fail(err, MOIRE_ENOMEM, "no memory for %lld arrivals", (long long)n);
    for (int i = 0; i < n_tenants; i++)
        out->n += walk(process, seed, i, rates[i], curves ? &curves[i] : NULL, total_ns, out->items + out->n);
    qsort(out->items, (size_t)out->n, sizeof *out->items, by_time);
    out->warmup_ns = warmup_ns;
    out->window_ns = window_ns;
    out->total_ns = total_ns;
    return MOIRE_OK;
}

int mo_bench_schedule_copy(const struct mo_env *env, const struct mo_bench_schedule *from,
                           struct mo_bench_schedule *out, moire_error *err) {
    *out = *from;
    out->items = mo_alloc(env, ((size_t)from->n + 1) * sizeof *out->items);
    if (!out->items) return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d arrivals", from->n);
    memcpy(out->items, from->items, (size_t)from->n * sizeof *out->items);
    return MOIRE_OK;
}

void mo_bench_schedule_free(const struct mo_env *env, struct mo_bench_schedule *schedule) {
    mo_free(env, schedule->items);
    memset(schedule, 0, sizeof *schedule);
}

int mo_bench_schedule_write(const struct mo_bench_schedule *s, const char *path, moire_error *err) {
    FILE *f = fopen(path, "we");
    if (!f) return mo_fail(err, MOIRE_EIO, "%s: %s", path, strerror(errno));
    fprintf(f, "# moire schedule 1 warmup_ns %lld window_ns %lld total_ns %lld n %d", (long long)s->warmup_ns,
            (long long)s->window_ns, (long long)s->total_ns, s->n);
    if (s->n_closed) fprintf(f, " room %d closed ", s->room);
    for (int i = 0; i < s->n_closed; i++)
        fprintf(f, "%s%d:%d", i ? "," : "", s->closed[i].tenant, s->closed[i].outstanding);
    fprintf(f, "\n");
    for (int i = 0; i < s->n; i++)
        fprintf(f, "%lld,%d\n", (long long)s->items[i].at_ns, s->items[i].tenant);
    bool bad = ferror(f) != 0;
    if (fclose(f) || bad) return mo_fail(err, MOIRE_EIO, "%s: cannot be written", path);
    return MOIRE_OK;
}

/* "123,4\n" */
static int parse_line(const char *line, int n_tenants, int64_t after, struct mo_bench_arrival *out) {
    char *end;
    errno = 0;
    long long at = strtoll(line, &end, 10);
    if (errno || end == line || *end != ',' || at < after) return -1;
    const char *second = end + 1;
    long tenant = strtol(second, &end, 10);
    if (errno || end == second || *end != '\n' || tenant < 0 || tenant >= n_tenants) return -1;
    *out = (struct mo_bench_arrival){at, (int)tenant};
    return 0;
}

/* The number after `key` in a header line; -1 when there is none or it is negative. */
static int64_t header_number(const char *line, const char *key) {
    const char *at = strstr(line, key);
    char *end;
    if (!at) return -1;
    at += strlen(key);
    errno = 0;
    long long v = strtoll(at, &end, 10);
    return errno || end == at || v < 0 ? -1 : v;
}

/* "2:4,5:1" behind " closed " in a header line; nothing there: no closed loops. */
static int read_closed(const char *line, int n_tenants, struct mo_bench_schedule *out) {
    static const char key[] = " closed ";
    const char *at = strstr(line, key);
    if (!at) return 0;
    out->room = (int)header_number(line, " room ");
    for (at += sizeof key - 1; out->n_closed < MO_BENCH_MAX_CLOSED;) {
        char *end;
        struct mo_bench_closed *c = &out->closed[out->n_closed++];
        c->tenant = (int)strtol(at, &end, 10);
        if (end == at || *end != ':' || c->tenant < 0 || c->tenant >= n_tenants) return -1;
        c->outstanding = (int)strtol(at = end + 1, &end, 10);
        if (end == at || c->outstanding < 1 || c->outstanding > out->room) return -1;
        if (*end == '\n') return out->room <= MAX_ARRIVALS ? 0 : -1;
        if (*end != ',') return -1;
        at = end + 1;
    }
    return -1;
}

static int read_header(FILE *f, const char *path, int n_tenants, struct mo_bench_schedule *out, int64_t *n,
                       moire_error *err) {
    char line[256];
    bool bad = true;
    *n = -1;
    if (fgets(line, sizeof line, f) && !strncmp(line, "# moire schedule 1 ", 19)) {
        out->warmup_ns = header_number(line, " warmup_ns ");
        out->window_ns = header_number(line, " window_ns ");
        out->total_ns = header_number(line, " total_ns ");
        *n = header_number(line, " n ");
        bad = read_closed(line, n_tenants, out) != 0;
    }
    if (bad || *n < 0 || *n > MAX_ARRIVALS || out->warmup_ns < 0 || out->window_ns < 0 || out->total_ns < 0)
        return mo_fail(err, MOIRE_EFORMAT, "%s:1: not a moire schedule", path);
    return MOIRE_OK;
}

static int read_lines(FILE *f, const char *path, int n_tenants, int64_t n, struct mo_bench_schedule *out,
                      moire_error *err) {
    char line[256];
    for (int64_t after = 0; out->n < n; out->n++) {
        if (!fgets(line, sizeof line, f) || parse_line(line, n_tenants, after, &out->items[out->n]))
            return mo_fail(err, MOIRE_EFORMAT, "%s:%d: not \"time_ns,tenant\" in order", path, out->n + 2);
        after = out->items[out->n].at_ns;
    }
    return MOIRE_OK;
}

int mo_bench_schedule_read(const struct mo_env *env, const char *path, int n_tenants,
                           struct mo_bench_schedule *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    FILE *f = fopen(path, "re");
    if (!f) return mo_fail(err, MOIRE_EIO, "%s: %s", path, strerror(errno));
    int64_t n;
    int code = read_header(f, path, n_tenants, out, &n, err);
    if (!code) out->items = mo_alloc(env, ((size_t)n + 1) * sizeof *out->items);
    if (!code && !out->items) code = mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    if (out->items) code = read_lines(f, path, n_tenants, n, out, err);
    fclose(f);
    if (code) mo_bench_schedule_free(env, out);
    return code;
}
