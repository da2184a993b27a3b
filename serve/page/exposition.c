/* SPDX-License-Identifier: Apache-2.0
 * exposition.c - metrics in Prometheus' text format; see exposition.h.  docs/serving-metrics.md lists them.
 */
#include "serve/page/exposition.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- text --- */
void ms_exposition_head(struct ms_bytes *to, const char *name, const char *type, const char *help) {
    ms_bytes_print(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Names are UTF-8; quotes, backslashes and line ends are escaped as the format asks. */
void ms_exposition_labels(const struct ms_model_look *m, char labels[MS_LABELS]) {
    size_t n = (size_t)snprintf(labels, MS_LABELS, "model=\"");
    for (const char *c = m->name; *c; c++) {
        if (*c == '"' || *c == '\\' || *c == '\n') labels[n++] = '\\';
        labels[n++] = *c == '\n' ? 'n' : *c;
    }
    snprintf(labels + n, MS_LABELS - n, "\",version=\"%s\"", m->version);
}

/* --- a value a model --- */
static double target(const struct ms_model_look *m) {
    return (double)m->qos_ns / 1e9;
}
static double attainment(const struct ms_model_look *m) {
    return m->lately.due ? (double)m->lately.in_time / (double)m->lately.due : 1;
}
static double is_below(const struct ms_model_look *m) {
    return m->below;
}
static double due(const struct ms_model_look *m) {
    return (double)m->tally.share.due;
}
static double in_time(const struct ms_model_look *m) {
    return (double)m->tally.share.in_time;
}
static double pending(const struct ms_model_look *m) {
    return (double)m->tally.pending;
}
static double runs(const struct ms_model_look *m) {
    return (double)m->tally.runs;
}
static double run_rows(const struct ms_model_look *m) {
    return (double)m->tally.rows;
}
static double waiting(const struct ms_model_look *m) {
    return m->waiting;
}
static double cores(const struct ms_model_look *m) {
    return m->cores;
}
static double ready(const struct ms_model_look *m) {
    return m->state == MS_READY && !*m->stuck;
}
static double stuck(const struct ms_model_look *m) {
    return *m->stuck != 0;
}

static void write_values(const struct ms_look *l, struct ms_bytes *to) {
    static const struct {
        const char *name, *type, *help;
        double (*value)(const struct ms_model_look *model);
    } rows[] = {
        {"moire_requests_due_total", "counter",
         "Requests that count for the target: all but what their client did wrong or cancelled.", due},
        {"moire_requests_in_time_total", "counter",
         "Of these, answered by their deadline, or without one to meet.", in_time},
        {"moire_attainment_ratio", "gauge",
         "Share of due requests in time over the last minute; 1: none due.", attainment},
        {"moire_below_target", "gauge", "1 where that share is below 0.95 of a model with a target.",
         is_below},
        {"moire_requests_pending", "gauge", "Requests that wait or run.", pending},
        {"moire_runs_total", "counter", "Runs that were answered, of one query or of several joined.", runs},
        {"moire_rows_total", "counter", "Rows of these: the mean size of a run is their quotient.", run_rows},
        {"moire_queue_depth", "gauge", "Queries that wait for their first block.", waiting},
        {"moire_model_cores_held", "gauge", "Cores under a block of the model.", cores},
        {"moire_target_seconds", "gauge", "Latency target, 0: none.", target},
        {"moire_model_ready", "gauge", "1 where the model takes requests and nothing of it is stuck.", ready},
        {"moire_model_stuck", "gauge", "1 where a block or callback of the model does not come back.", stuck},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ms_exposition_head(to, rows[k].name, rows[k].type, rows[k].help);
        for (int i = 0; i < l->n; i++) {
            char labels[MS_LABELS];
            ms_exposition_labels(&l->model[i], labels);
            ms_bytes_print(to, "%s{%s} %.17g\n", rows[k].name, labels, rows[k].value(&l->model[i]));
        }
    }
}

/* --- several values a model, by one label more --- */
/* "MOIRE_EBUSY" -> "busy" */
static void outcome_text(int code, char text[40]) {
    const char *name = moire_code_name(-code);
    size_t n = 0;
    if (!strncmp(name, "MOIRE_E", 7)) name += code == -MOIRE_EINVAL ? 6 : 7; /* "einval", but "busy" */
    for (; name[n] && n < 39; n++)
        text[n] = (char)tolower((unsigned char)name[n]);
    text[n] = 0;
}

static void write_outcomes(const struct ms_look *l, struct ms_bytes *to) {
    ms_exposition_head(to, "moire_requests_total", "counter", "Requests by what became of them.");
    for (int i = 0; i < l->n; i++)
        for (int code = 0; code < MS_CODES; code++) {
            char outcome[40] = "ok", labels[MS_LABELS];
            if (code && !l->model[i].tally.ended[code]) continue;
            if (code) outcome_text(code, outcome);
            ms_exposition_labels(&l->model[i], labels);
            ms_bytes_print(to, "moire_requests_total{%s,outcome=\"%s\"} %" PRId64 "\n", labels, outcome,
                           l->model[i].tally.ended[code]);
        }
}

static void write_sheds(const struct ms_look *l, struct ms_bytes *to) {
    static const struct {
        int code;
        const char *reason;
    } rows[] = {{MOIRE_EBUSY, "queue_full"},
                {MOIRE_EEXPIRED, "expired"},
                {MOIRE_ESHED, "late"},
                {MOIRE_EUNLOADED, "unloads"},
                {MOIRE_ESHUTDOWN, "shuts_down"}};
    ms_exposition_head(to, "moire_sheds_total", "counter",
                       "Requests that were not run to an answer, by reason.");
    for (int i = 0; i < l->n; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            char labels[MS_LABELS];
            ms_exposition_labels(&l->model[i], labels);
            ms_bytes_print(to, "moire_sheds_total{%s,reason=\"%s\"} %" PRId64 "\n", labels, rows[k].reason,
                           l->model[i].tally.ended[-rows[k].code]);
        }
}

static void write_kernels(const struct ms_look *l, struct ms_bytes *to) {
    ms_exposition_head(to, "moire_layers", "gauge", "Layers of the model by the kernels that run them.");
    for (int i = 0; i < l->n; i++) {
        const struct ms_model_look *m = &l->model[i];
        char labels[MS_LABELS];
        ms_exposition_labels(m, labels);
        ms_bytes_print(to, "moire_layers{%s,kernel=\"compiled\"} %d\n", labels, m->compiled_layers);
        ms_bytes_print(to, "moire_layers{%s,kernel=\"built_in\"} %d\n", labels,
                       m->layers - m->compiled_layers - m->reference_layers);
        ms_bytes_print(to, "moire_layers{%s,kernel=\"reference\"} %d\n", labels, m->reference_layers);
    }
    ms_exposition_head(to, "moire_version_runs_total", "counter",
                       "Runs of layers that have several compiled versions, by the version chosen.");
    for (int i = 0; i < l->n; i++)
        for (int v = 0; v < MOIRE_VERSIONS; v++) {
            char labels[MS_LABELS];
            if (v && !l->model[i].version_runs[v]) continue;
            ms_exposition_labels(&l->model[i], labels);
            ms_bytes_print(to, "moire_version_runs_total{%s,kernel_version=\"%d\"} %" PRId64 "\n", labels, v,
                           l->model[i].version_runs[v]);
        }
}

/* --- memory, of models and of all --- */
struct part {
    const char *name;
    size_t at; /* of moire_memory */
};
static const struct part parts[] = {{"weights", offsetof(moire_memory, weights)},
                                    {"plans", offsetof(moire_memory, plans)},
                                    {"inputs", offsetof(moire_memory, inputs)},
                                    {"activations", offsetof(moire_memory, activations)},
                                    {"scratch", offsetof(moire_memory, scratch)}};
enum { PARTS = sizeof parts / sizeof *parts, PARTS_OF_MODELS = 3 };

static int64_t part_of(const moire_memory *m, const struct part *part) {
    int64_t bytes;
    memcpy(&bytes, (const char *)m + part->at, sizeof bytes);
    return bytes;
}

static void write_memory(const struct ms_look *l, struct ms_bytes *to) {
    ms_exposition_head(to, "moire_memory_bytes", "gauge", "Memory of the runtime by part.");
    for (int k = 0; k < PARTS; k++)
        ms_bytes_print(to, "moire_memory_bytes{part=\"%s\"} %" PRId64 "\n", parts[k].name,
                       part_of(&l->runtime.memory, &parts[k]));
    ms_exposition_head(to, "moire_model_memory_bytes", "gauge",
                       "Memory that a model has to itself, by part.");
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < PARTS_OF_MODELS; k++) {
            char labels[MS_LABELS];
            ms_exposition_labels(&l->model[i], labels);
            ms_bytes_print(to, "moire_model_memory_bytes{%s,part=\"%s\"} %" PRId64 "\n", labels,
                           parts[k].name, part_of(&l->model[i].memory, &parts[k]));
        }
}

/* --- histograms --- */
/* Their bounds here, a part of the tally's. */
static const double bounds[] = {0.0005, 0.001, 0.002, 0.004, 0.006, 0.01, 0.015, 0.025,
                                0.05,   0.1,   0.2,   0.5,   1,     2,    5};

static void write_histogram(const struct ms_model_look *m, const char *name, const struct ms_times *t,
                            struct ms_bytes *to) {
    char labels[MS_LABELS];
    int64_t sum = 0;
    int at = 0;
    ms_exposition_labels(m, labels);
    for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++) {
        while (at < MS_BOUNDS && ms_tally_bound[at] < bounds[k] * 1.0001)
            sum += t->bucket[at++];
        ms_bytes_print(to, "%s_bucket{%s,le=\"%g\"} %" PRId64 "\n", name, labels, bounds[k], sum);
    }
    ms_bytes_print(to, "%s_bucket{%s,le=\"+Inf\"} %" PRId64 "\n", name, labels, t->count);
    ms_bytes_print(to, "%s_sum{%s} %.9f\n%s_count{%s} %" PRId64 "\n", name, labels, (double)t->sum_ns / 1e9,
                   name, labels, t->count);
}

static void write_histograms(const struct ms_look *l, struct ms_bytes *to) {
    static const struct {
        const char *name, *help;
        size_t at; /* of struct ms_tally */
    } rows[] = {
        {"moire_request_seconds", "From the request to its answer, answered requests.",
         offsetof(struct ms_tally, request)},
        {"moire_queue_seconds", "From the request to its first block.", offsetof(struct ms_tally, queue)},
        {"moire_compute_seconds", "In blocks of layers.", offsetof(struct ms_tally, compute)}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ms_exposition_head(to, rows[k].name, "histogram", rows[k].help);
        for (int i = 0; i < l->n; i++) {
            const char *tally = (const char *)&l->model[i].tally;
            write_histogram(&l->model[i], rows[k].name, (const void *)(tally + rows[k].at), to);
        }
    }
}

/* --- the runtime --- */
static void write_runtime(const moire_runtime_stats *s, bool all_stuck, struct ms_bytes *to) {
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"moire_cores", "gauge", "Cores of the runtime.", s->cores},
        {"moire_cores_held", "gauge", "Cores under a block of layers.", s->cores_held},
        {"moire_pressure", "gauge", "Pressure on shared caches, 0 to 1.", s->pressure},
        {"moire_pace", "gauge", "Times their usual time that blocks take now.", s->pace},
        {"moire_uptime_seconds", "gauge", "Since the runtime was made.", (double)s->uptime_ns / 1e9},
        {"moire_blocks_total", "counter", "Blocks that were started.", (double)s->blocks_run},
        {"moire_stalls_total", "counter", "Blocks that were late by far.", (double)s->stalls},
        {"moire_stuck_total", "counter", "Blocks and callbacks that did not come back in time.",
         (double)s->stucks},
        {"moire_server_stuck", "gauge", "1 where no core is left to serve.", all_stuck},
        {"moire_spills_total", "counter", "Paused queries whose activations made room for another's.",
         (double)s->spills},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ms_exposition_head(to, rows[i].name, rows[i].type, rows[i].help);
        ms_bytes_print(to, "%s %.17g\n", rows[i].name, rows[i].value);
    }
}

void ms_exposition_write(struct ms_repository *repository, moire_runtime *runtime, bool nv,
                         struct ms_bytes *to) {
    struct ms_look look;
    if (!ms_look_open(repository, runtime, &look)) {
        to->failed = true;
        return;
    }
    write_outcomes(&look, to);
    write_values(&look, to);
    write_sheds(&look, to);
    write_histograms(&look, to);
    write_kernels(&look, to);
    write_memory(&look, to);
    write_runtime(&look.runtime, look.stuck, to);
    if (nv) ms_exposition_nv(&look, to);
    ms_look_close(&look);
}
