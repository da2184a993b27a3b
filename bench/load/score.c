/* SPDX-License-Identifier: Apache-2.0
 * score.c - percentiles and within-QoS shares; see score.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/load/score.h"
#include "runtime/base/numbers.h"

double mo_bench_percentile(const double *sorted, int n, double p) {
    if (n <= 0) return 0;
    int rank = (int)ceil(p / 100.0 * n - 1e-9);
    if (rank < 1) rank = 1;
    return sorted[(rank > n ? n : rank) - 1];
}

void mo_bench_wilson(int met, int n, double interval[2]) {
    static const double z2 = 1.959963984540054 * 1.959963984540054;
    interval[0] = 0;
    interval[1] = 1;
    if (n <= 0) return;
    double p = (double)met / n, middle = (p + z2 / (2 * n)) / (1 + z2 / n);
    double half = sqrt(z2 * (p * (1 - p) + z2 / (4.0 * n)) / n) / (1 + z2 / n);
    if (met > 0) interval[0] = middle - half;
    if (met < n) interval[1] = middle + half;
}

static void add(struct mo_bench_tenant_score *t, int64_t at_ns, const struct mo_bench_record *r,
                int64_t qos_ns, int64_t last_ns) {
    t->n++;
    if (r->start_ns >= 0) t->entry_ms[t->n_entry++] = (double)(r->start_ns - at_ns) * 1e-6;
    bool finished = r->end_ns >= 0 && r->code == MOIRE_OK;
    if (!finished && (r->code == MOIRE_ESHED || r->code == MOIRE_EEXPIRED || r->code == MOIRE_EBUSY)) {
        t->shed++;
        return;
    }
    if (r->code != MOIRE_OK && r->code != MOIRE_ECANCELLED) {
        t->failed++;
        return;
    }
    int64_t latency = (finished ? r->end_ns : last_ns) - at_ns;
    if (!finished) t->unfinished++;
    if (finished && latency <= qos_ns) t->met++;
    t->latency_ms[t->n_latency++] = (double)latency * 1e-6;
}

static void finish(struct mo_bench_tenant_score *t) {
    qsort(t->latency_ms, (size_t)t->n_latency, sizeof *t->latency_ms, mo_rising);
    double sum = 0;
    for (int i = 0; i < t->n_latency; i++)
        sum += t->latency_ms[i];
    t->mean_ms = t->n_latency ? sum / t->n_latency : 0;
    t->p50_ms = mo_bench_percentile(t->latency_ms, t->n_latency, 50);
    t->p95_ms = mo_bench_percentile(t->latency_ms, t->n_latency, 95);
    t->p99_ms = mo_bench_percentile(t->latency_ms, t->n_latency, 99);
    t->max_ms = t->n_latency ? t->latency_ms[t->n_latency - 1] : 0;
    qsort(t->entry_ms, (size_t)t->n_entry, sizeof *t->entry_ms, mo_rising);
    t->entry_p50_ms = mo_bench_percentile(t->entry_ms, t->n_entry, 50);
    t->entry_p99_ms = mo_bench_percentile(t->entry_ms, t->n_entry, 99);
    t->entry_max_ms = mo_bench_percentile(t->entry_ms, t->n_entry, 100);
    t->within = t->n ? (double)t->met / t->n : -1;
}

static int reserve(const struct mo_env *env, const struct mo_bench_schedule *s, int n_tenants,
                   struct mo_bench_score *out) {
    out->tenants = mo_alloc(env, (size_t)n_tenants * sizeof *out->tenants);
    if (!out->tenants) return MOIRE_ENOMEM;
    out->n_tenants = n_tenants;
    for (int i = 0; i < n_tenants; i++) {
        int n = 0;
        for (int q = 0; q < s->n; q++)
            n += s->items[q].tenant == i;
        out->tenants[i].latency_ms = mo_alloc(env, ((size_t)n + 1) * sizeof(double));
        out->tenants[i].entry_ms = mo_alloc(env, ((size_t)n + 1) * sizeof(double));
        if (!out->tenants[i].latency_ms || !out->tenants[i].entry_ms) return MOIRE_ENOMEM;
    }
    return MOIRE_OK;
}

static void total(struct mo_bench_score *out) {
    out->worst = out->overall = -1;
    out->worst_tenant = -1;
    for (int i = 0; i < out->n_tenants; i++) {
        struct mo_bench_tenant_score *t = &out->tenants[i];
        finish(t);
        out->n += t->n;
        out->met += t->met;
        if (!t->n || (out->worst_tenant >= 0 && t->within >= out->worst)) continue;
        out->worst = t->within;
        out->worst_tenant = i;
    }
    if (out->n) out->overall = (double)out->met / out->n;
}

int mo_bench_score(const struct mo_env *env, const struct mo_bench_schedule *schedule,
                   const struct mo_bench_record *records, const int64_t *qos_ns, int n_tenants,
                   int64_t cut_ns, struct mo_bench_score *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    out->cut_ns = cut_ns;
    double *late = mo_alloc(env, ((size_t)schedule->n + 1) * sizeof *late);
    if (!late || reserve(env, schedule, n_tenants, out)) {
        mo_free(env, late);
        mo_bench_score_free(env, out);
        return mo_fail(err, MOIRE_ENOMEM, "no memory to score %d queries", schedule->n);
    }
    int64_t last_ns = cut_ns < schedule->total_ns ? cut_ns : schedule->total_ns;
    int n_late = 0;
    for (int q = 0; q < schedule->n; q++) {
        const struct mo_bench_arrival *a = &schedule->items[q];
        if (!mo_bench_counts(schedule, a->at_ns) || a->at_ns + qos_ns[a->tenant] > cut_ns) continue;
        add(&out->tenants[a->tenant], a->at_ns, &records[q], qos_ns[a->tenant], last_ns);
        if (records[q].issue_ns >= 0) late[n_late++] = (double)(records[q].issue_ns - a->at_ns) * 1e-6;
    }
    qsort(late, (size_t)n_late, sizeof *late, mo_rising);
    out->issue_late_ms = mo_bench_percentile(late, n_late, 99);
    mo_free(env, late);
    total(out);
    return MOIRE_OK;
}

void mo_bench_score_free(const struct mo_env *env, struct mo_bench_score *score) {
    for (int i = 0; i < score->n_tenants; i++) {
        mo_free(env, score->tenants[i].latency_ms);
        mo_free(env, score->tenants[i].entry_ms);
    }
    mo_free(env, score->tenants);
    memset(score, 0, sizeof *score);
}

int mo_bench_records_write(const struct mo_bench_record *records, int n, int64_t cut_ns, const char *path,
                           moire_error *err) {
    FILE *f = fopen(path, "we");
    if (!f) return mo_fail(err, MOIRE_EIO, "%s: %s", path, strerror(errno));
    fprintf(f, "# moire records 1 cut_ns %lld\n", (long long)cut_ns);
    for (int i = 0; i < n; i++)
        fprintf(f, "%d,%lld,%lld,%lld,%d\n", i, (long long)records[i].issue_ns,
                (long long)records[i].start_ns, (long long)records[i].end_ns, records[i].code);
    bool bad = ferror(f) != 0;
    if (fclose(f) || bad) return mo_fail(err, MOIRE_EIO, "%s: cannot be written", path);
    return MOIRE_OK;
}

/* Five whole numbers with commas between. */
static int parse_record(const char *line, long long v[5]) {
    for (int i = 0; i < 5; i++) {
        char *end;
        errno = 0;
        v[i] = strtoll(line, &end, 10);
        if (errno || end == line || *end != (i < 4 ? ',' : '\n')) return -1;
        line = end + 1;
    }
    return 0;
}

int mo_bench_records_read(const char *path, struct mo_bench_record *records, int n, int64_t *cut_ns,
                          moire_error *err) {
    mo_bench_records_clear(records, n);
    FILE *f = fopen(path, "re");
    if (!f) return mo_fail(err, MOIRE_EIO, "%s: %s", path, strerror(errno));
    char line[256];
    static const char head[] = "# moire records 1 cut_ns ";
    long long v[5];
    int code = MOIRE_OK, at = 1;
    if (!fgets(line, sizeof line, f) || strncmp(line, head, sizeof head - 1) != 0)
        code = mo_fail(err, MOIRE_EFORMAT, "%s:1: not a file of moire records", path);
    else
        *cut_ns = strtoll(line + sizeof head - 1, NULL, 10);
    while (!code && fgets(line, sizeof line, f)) {
        at++;
        if (parse_record(line, v) || v[0] < 0 || v[0] >= n)
            code = mo_fail(err, MOIRE_EFORMAT, "%s:%d: not \"index,issue,start,end,code\"", path, at);
        else
            records[v[0]] = (struct mo_bench_record){v[1], v[2], v[3], (int)v[4]};
    }
    fclose(f);
    return code;
}
