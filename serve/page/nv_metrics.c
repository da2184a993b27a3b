/* SPDX-License-Identifier: Apache-2.0
 * nv_metrics.c - the names that Triton gives its metrics, so that dashboards and autoscalers made for it work
 * unchanged; see exposition.h.
 *
 * Labels and units are Triton's (microseconds, no suffix "_total").  What has no meaning here is left out:
 * GPUs, caches of responses, sequences. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/page/exposition.h"

/* --- of models --- */
static int64_t us(int64_t ns) {
    return ns / 1000;
}
static int64_t success(const struct ms_model_look *m) {
    return m->tally.ended[0];
}
static int64_t request_us(const struct ms_model_look *m) {
    return us(m->tally.request.sum_ns);
}
static int64_t queue_us(const struct ms_model_look *m) {
    return us(m->tally.queue.sum_ns);
}
static int64_t input_us(const struct ms_model_look *m) {
    return us(m->tally.input_ns);
}
static int64_t infer_us(const struct ms_model_look *m) {
    return us(m->tally.compute.sum_ns);
}
static int64_t output_us(const struct ms_model_look *m) {
    return us(m->tally.output_ns);
}
static int64_t rows(const struct ms_model_look *m) {
    return m->tally.rows;
}
static int64_t runs(const struct ms_model_look *m) {
    return m->tally.runs;
}
static int64_t pending(const struct ms_model_look *m) {
    return m->tally.pending;
}

static void write_values(const struct ms_look *l, struct ms_bytes *to) {
    static const struct {
        const char *name, *type, *help;
        int64_t (*value)(const struct ms_model_look *model);
    } values[] = {
        {"nv_inference_request_success", "counter", "Number of successful inference requests", success},
        {"nv_inference_count", "counter", "Number of inferences performed", rows},
        {"nv_inference_exec_count", "counter", "Number of model executions performed", runs},
        {"nv_inference_request_duration_us", "counter",
         "Cumulative inference request duration in microseconds", request_us},
        {"nv_inference_queue_duration_us", "counter", "Cumulative inference queuing duration in microseconds",
         queue_us},
        {"nv_inference_compute_input_duration_us", "counter",
         "Cumulative compute input duration in microseconds", input_us},
        {"nv_inference_compute_infer_duration_us", "counter",
         "Cumulative compute inference duration in microseconds", infer_us},
        {"nv_inference_compute_output_duration_us", "counter",
         "Cumulative inference compute output duration in microseconds", output_us},
        {"nv_inference_pending_request_count", "gauge", "Instantaneous number of pending requests", pending},
    };
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        ms_exposition_head(to, values[k].name, values[k].type, values[k].help);
        for (int i = 0; i < l->n; i++) {
            char labels[MS_LABELS];
            ms_exposition_labels(&l->model[i], labels);
            ms_bytes_print(to, "%s{%s} %" PRId64 "\n", values[k].name, labels, values[k].value(&l->model[i]));
        }
    }
}

/* Triton's four reasons. */
enum reason { REJECTED, CANCELED, BACKEND, OTHER, REASONS };
static enum reason reason_of(int code) {
    switch (code) {
    case MOIRE_EBUSY:
    case MOIRE_EEXPIRED:
    case MOIRE_ESHED:
    case MOIRE_ELIMIT:
    case MOIRE_EUNLOADED:
    case MOIRE_ESHUTDOWN:
        return REJECTED;
    case MOIRE_ECANCELLED:
        return CANCELED;
    case MOIRE_EFAILED:
    case MOIRE_EDEVICE:
    case MOIRE_ENOMEM:
    case MOIRE_EINTERNAL:
        return BACKEND;
    default:
        return OTHER;
    }
}

static void write_failures(const struct ms_look *l, struct ms_bytes *to) {
    static const char *const names[] = {"REJECTED", "CANCELED", "BACKEND", "OTHER"};
    ms_exposition_head(to, "nv_inference_request_failure", "counter", "Number of failed inference requests");
    for (int i = 0; i < l->n; i++) {
        int64_t n[REASONS] = {0};
        char labels[MS_LABELS];
        for (int code = 1; code < MS_CODES; code++)
            n[reason_of(-code)] += l->model[i].tally.ended[code];
        ms_exposition_labels(&l->model[i], labels);
        for (int k = 0; k < REASONS; k++)
            ms_bytes_print(to, "nv_inference_request_failure{%s,reason=\"%s\"} %" PRId64 "\n", labels,
                           names[k], n[k]);
    }
}

/* --- of the machine --- */
static void write_machine(struct ms_bytes *to) {
    long long total = 0, available = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, "MemTotal:", 9)) total = strtoll(line + 9, NULL, 10);
        if (!strncmp(line, "MemAvailable:", 13)) available = strtoll(line + 13, NULL, 10);
    }
    fclose(f);
    ms_exposition_head(to, "nv_cpu_memory_total_bytes", "gauge", "CPU total memory (RAM), in bytes");
    ms_bytes_print(to, "nv_cpu_memory_total_bytes %lld\n", total * 1024);
    ms_exposition_head(to, "nv_cpu_memory_used_bytes", "gauge", "CPU used memory (RAM), in bytes");
    ms_bytes_print(to, "nv_cpu_memory_used_bytes %lld\n", (total - available) * 1024);
}

void ms_exposition_nv(const struct ms_look *look, struct ms_bytes *to) {
    write_values(look, to);
    write_failures(look, to);
    write_machine(to);
}
