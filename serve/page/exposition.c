/* SPDX-License-Identifier: Apache-2.0
 * exposition.c - metrics in Prometheus' text format; see exposition.h. */
#include "serve/page/exposition.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A model at one moment, so that a page of many families is of one look. */
struct look {
    char labels[2 * MS_NAME + MS_VERSION + 40];
    struct ms_tally tally;
    int64_t qos_ns;
    bool ready;
};

static void head(struct ms_bytes *to, const char *name, const char *type, const char *help) {
    ms_bytes_print(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Names are UTF-8; quotes, backslashes and line ends are escaped as the format asks. */
static void set_labels(struct look *l, const struct ms_found *f) {
    size_t n = (size_t)snprintf(l->labels, sizeof l->labels, "model=\"");
    for (const char *c = f->name; *c; c++) {
        if (*c == '"' || *c == '\\' || *c == '\n') l->labels[n++] = '\\';
        l->labels[n++] = *c == '\n' ? 'n' : *c;
    }
    snprintf(l->labels + n, sizeof l->labels - n, "\",version=\"%s\"", f->version);
}

static struct look *look_at(struct ms_repository *r, int *n) {
    struct ms_model *all[MS_MODELS];
    ms_repository_take_all(r, all, n);
    struct look *looks = calloc((size_t)*n + 1, sizeof *looks);
    for (int i = 0; i < *n; i++) {
        if (looks) {
            pthread_mutex_lock(&r->lock);
            looks[i].tally = *all[i]->tally;
            looks[i].ready = all[i]->state == MS_READY;
            pthread_mutex_unlock(&r->lock);
            looks[i].qos_ns = all[i]->settings.qos_ns;
            set_labels(&looks[i], &all[i]->found);
        }
        ms_repository_give(all[i]);
    }
    if (!looks) *n = 0;
    return looks;
}

/* "MOIRE_EBUSY" -> "busy" */
static void reason_text(int code, char text[40]) {
    const char *name = moire_code_name(-code);
    size_t n = 0;
    if (!strncmp(name, "MOIRE_E", 7)) name += code == -MOIRE_EINVAL ? 6 : 7; /* "einval", but "busy" */
    for (; name[n] && n < 39; n++)
        text[n] = (char)tolower((unsigned char)name[n]);
    text[n] = 0;
}

static void write_counts(const struct look *l, int n, struct ms_bytes *to) {
    head(to, "moire_requests_total", "counter", "Requests by what became of them.");
    for (int i = 0; i < n; i++)
        for (int code = 0; code < MS_CODES; code++) {
            char reason[40];
            if (code && !l[i].tally.ended[code]) continue;
            if (code) reason_text(code, reason);
            ms_bytes_print(to, "moire_requests_total{%s,outcome=\"%s\"} %" PRId64 "\n", l[i].labels,
                           code ? reason : "ok", l[i].tally.ended[code]);
        }
    head(to, "moire_requests_in_time_total", "counter",
         "Answered requests that met their deadline or had none.");
    for (int i = 0; i < n; i++)
        ms_bytes_print(to, "moire_requests_in_time_total{%s} %" PRId64 "\n", l[i].labels, l[i].tally.in_time);
    head(to, "moire_requests_pending", "gauge", "Requests that wait or run.");
    for (int i = 0; i < n; i++)
        ms_bytes_print(to, "moire_requests_pending{%s} %" PRId64 "\n", l[i].labels, l[i].tally.pending);
    head(to, "moire_target_seconds", "gauge", "Latency target; 0 where there is none.");
    for (int i = 0; i < n; i++)
        ms_bytes_print(to, "moire_target_seconds{%s} %g\n", l[i].labels, (double)l[i].qos_ns / 1e9);
    head(to, "moire_model_ready", "gauge", "1 where the model takes requests.");
    for (int i = 0; i < n; i++)
        ms_bytes_print(to, "moire_model_ready{%s} %d\n", l[i].labels, l[i].ready);
}

static void write_histogram(const struct look *l, int n, const char *name, const char *help, size_t at,
                            struct ms_bytes *to) {
    head(to, name, "histogram", help);
    for (int i = 0; i < n; i++) {
        const struct ms_times *t = (const struct ms_times *)((const char *)&l[i].tally + at);
        int64_t sum = 0;
        for (int k = 0; k < MS_BOUNDS; k++) {
            sum += t->bucket[k];
            ms_bytes_print(to, "%s_bucket{%s,le=\"%g\"} %" PRId64 "\n", name, l[i].labels, ms_tally_bound[k],
                           sum);
        }
        ms_bytes_print(to, "%s_bucket{%s,le=\"+Inf\"} %" PRId64 "\n", name, l[i].labels, t->count);
        ms_bytes_print(to, "%s_sum{%s} %.9f\n%s_count{%s} %" PRId64 "\n", name, l[i].labels,
                       (double)t->sum_ns / 1e9, name, l[i].labels, t->count);
    }
}

static void write_runtime(moire_runtime *runtime, struct ms_bytes *to) {
    moire_runtime_stats *s = calloc(1, sizeof *s);
    if (!s) return;
    s->size = sizeof *s;
    if (!moire_runtime_get_stats(runtime, s, NULL)) {
        const struct {
            const char *name, *help;
            double value;
        } gauges[] = {
            {"moire_cores", "Cores of the runtime.", s->cores},
            {"moire_cores_held", "Cores under a block of layers.", s->cores_held},
            {"moire_pressure", "Pressure on shared caches, 0 to 1.", s->pressure},
            {"moire_pace", "Times their usual time that blocks take now.", s->pace},
            {"moire_uptime_seconds", "Since the runtime was made.", (double)s->uptime_ns / 1e9},
        };
        const struct {
            const char *part;
            int64_t bytes;
        } parts[] = {{"weights", s->memory.weights},
                     {"plans", s->memory.plans},
                     {"inputs", s->memory.inputs},
                     {"activations", s->memory.activations},
                     {"scratch", s->memory.scratch}};
        for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++) {
            head(to, gauges[i].name, "gauge", gauges[i].help);
            ms_bytes_print(to, "%s %g\n", gauges[i].name, gauges[i].value);
        }
        head(to, "moire_memory_bytes", "gauge", "Memory of the runtime by part.");
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            ms_bytes_print(to, "moire_memory_bytes{part=\"%s\"} %" PRId64 "\n", parts[i].part,
                           parts[i].bytes);
    }
    free(s);
}

void ms_exposition_write(struct ms_repository *repository, moire_runtime *runtime, struct ms_bytes *to) {
    int n;
    struct look *l = look_at(repository, &n);
    write_counts(l, n, to);
    write_histogram(l, n, "moire_request_seconds", "From the request to its answer, answered requests.",
                    offsetof(struct ms_tally, request), to);
    write_histogram(l, n, "moire_queue_seconds", "From the request to its first block.",
                    offsetof(struct ms_tally, queue), to);
    write_histogram(l, n, "moire_compute_seconds", "In blocks of layers.", offsetof(struct ms_tally, compute),
                    to);
    write_runtime(runtime, to);
    free(l);
}
