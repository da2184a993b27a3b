/* SPDX-License-Identifier: Apache-2.0
 * live_data.c - what happens in the server now, as JSON; see live_data.h. */
#include "serve/page/live_data.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LOADS = 64 };

static void write_text(struct ms_bytes *to, const char *key, const char *text) {
    ms_bytes_print(to, "\"%s\":", key);
    ms_bytes_quote(to, text);
    ms_bytes_print(to, ",");
}

static void write_memory(const moire_memory *m, struct ms_bytes *to) {
    ms_bytes_print(to,
                   "\"memory\":{\"weights\":%" PRId64 ",\"plans\":%" PRId64 ",\"inputs\":%" PRId64
                   ",\"activations\":%" PRId64 ",\"scratch\":%" PRId64 "}",
                   m->weights, m->plans, m->inputs, m->activations, m->scratch);
}

/* Buckets up to the last that counts something. */
static void write_times(const char *name, const struct ms_times *t, struct ms_bytes *to) {
    int n = MS_BOUNDS + 1;
    while (n && !t->bucket[n - 1])
        n--;
    ms_bytes_print(to, "\"%s\":{\"count\":%" PRId64 ",\"sum_ms\":%.3f,\"buckets\":[", name, t->count,
                   (double)t->sum_ns / 1e6);
    for (int i = 0; i < n; i++)
        ms_bytes_print(to, "%s%" PRId64, i ? "," : "", t->bucket[i]);
    ms_bytes_print(to, "]},");
}

static void write_shares(const struct ms_model_look *m, struct ms_bytes *to) {
    ms_bytes_print(to, "\"minute\":{\"due\":%" PRId64 ",\"in_time\":%" PRId64 "},", m->lately.due,
                   m->lately.in_time);
    ms_bytes_print(to, "\"total\":{\"due\":%" PRId64 ",\"in_time\":%" PRId64 "},", m->tally.share.due,
                   m->tally.share.in_time);
    ms_bytes_print(to,
                   "\"ended\":{\"ok\":%" PRId64 ",\"queue_full\":%" PRId64 ",\"expired\":%" PRId64
                   ",\"late\":%" PRId64 ",\"cancelled\":%" PRId64 ",\"all\":%" PRId64 "},",
                   m->tally.ended[0], m->tally.ended[-MOIRE_EBUSY], m->tally.ended[-MOIRE_EEXPIRED],
                   m->tally.ended[-MOIRE_ESHED], m->tally.ended[-MOIRE_ECANCELLED],
                   m->tally.ended[0] + ms_tally_failed(&m->tally));
}

static void write_model(const struct ms_model_look *m, struct ms_bytes *to) {
    ms_bytes_print(to, "{");
    write_text(to, "name", m->name);
    write_text(to, "version", m->version);
    write_text(to, "state", ms_state_name(*m->stuck ? MS_UNAVAILABLE : m->state));
    write_text(to, "reason", *m->stuck ? m->stuck : m->reason);
    write_text(to, "class", m->cls == MOIRE_BEST_EFFORT ? "best-effort" : "latency-critical");
    ms_bytes_print(to, "\"target_ms\":%.6g,\"priority\":%d,\"below\":%s,\"stuck\":%s,",
                   (double)m->qos_ns / 1e6, m->priority, m->below ? "true" : "false",
                   *m->stuck ? "true" : "false");
    write_shares(m, to);
    ms_bytes_print(to, "\"pending\":%" PRId64 ",\"waiting\":%d,\"running\":%d,\"cores\":%d,",
                   m->tally.pending, m->waiting, m->running, m->cores);
    write_times("request", &m->tally.request, to);
    write_times("queue", &m->tally.queue, to);
    write_times("compute", &m->tally.compute, to);
    ms_bytes_print(to, "\"shapes\":%d,\"layers\":%d,\"compiled_layers\":%d,\"reference_layers\":%d,",
                   m->n_tenants, m->layers, m->compiled_layers, m->reference_layers);
    ms_bytes_print(to, "\"version_runs\":[");
    for (int v = 0; v < MOIRE_VERSIONS; v++)
        ms_bytes_print(to, "%s%" PRId64, v ? "," : "", m->version_runs[v]);
    ms_bytes_print(to, "],");
    write_memory(&m->memory, to);
    ms_bytes_print(to, "}");
}

static void write_server(const moire_runtime_stats *s, struct ms_bytes *to) {
    ms_bytes_print(to,
                   "\"server\":{\"uptime_s\":%.3f,\"cores\":%d,\"cores_held\":%d,\"pressure\":%.4f,\"pace\":"
                   "%.4f,\"waiting\":%d,\"paused\":%d,\"blocks\":%" PRId64 ",\"stalls\":%" PRId64 ",",
                   (double)s->uptime_ns / 1e9, s->cores, s->cores_held, s->pressure, s->pace, s->waiting,
                   s->paused, s->blocks_run, s->stalls);
    write_memory(&s->memory, to);
    ms_bytes_print(to, "},");
}

/* Names of what the runtime loads now. */
static void write_loads(moire_runtime *runtime, struct ms_bytes *to) {
    int n = 0;
    bool any = false;
    moire_tenants(runtime, NULL, 0, &n, NULL);
    moire_tenant_row *rows = calloc((size_t)n + LOADS, sizeof *rows);
    const int room = n + LOADS;
    ms_bytes_print(to, "\"loading\":[");
    if (!rows || moire_tenants(runtime, rows, room, &n, NULL)) n = 0;
    for (int i = 0; i < n && i < room; i++) {
        if (rows[i].state != MOIRE_TENANT_LOADING) continue;
        ms_bytes_print(to, any ? "," : "");
        ms_bytes_quote(to, rows[i].name);
        any = true;
    }
    ms_bytes_print(to, "],");
    free(rows);
}

static void write_bounds(struct ms_bytes *to) {
    ms_bytes_print(to, "\"bounds_ms\":[");
    for (int i = 0; i < MS_BOUNDS; i++)
        ms_bytes_print(to, "%s%.6g", i ? "," : "", ms_tally_bound[i] * 1e3);
    ms_bytes_print(to, "],");
}

void ms_live_write(struct ms_repository *repository, moire_runtime *runtime, int64_t since,
                   struct ms_bytes *to) {
    struct ms_look look;
    if (!ms_look_open(repository, runtime, &look)) {
        to->failed = true;
        return;
    }
    ms_bytes_print(to, "{");
    write_text(to, "version", moire_version());
    ms_bytes_print(to, "\"goal\":%g,\"ready\":%s,", MS_GOAL,
                   ms_repository_is_ready(repository) && !look.stuck ? "true" : "false");
    write_server(&look.runtime, to);
    write_loads(runtime, to);
    write_bounds(to);
    ms_bytes_print(to, "\"models\":[");
    for (int i = 0; i < look.n; i++) {
        ms_bytes_print(to, i ? "," : "");
        write_model(&look.model[i], to);
    }
    ms_bytes_print(to, "]");
    if (since >= 0) {
        ms_bytes_print(to, ",\"timeline\":");
        ms_timeline_write(&look, runtime, since, to);
    }
    ms_bytes_print(to, "}");
    ms_look_close(&look);
}
