/* SPDX-License-Identifier: Apache-2.0
 * solo.c - solo latency of one model on several systems, interleaved; see latency.h.
 *
 * All systems are loaded first, each in its process; then slices go round: a system runs back to back for one
 * slice while the others wait in a read.  A pause before each slice lets the last system's worker threads
 * fall asleep.  Machine noise so meets all systems alike, and the minimum over slices is comparable. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/load/latency.h"
#include "bench/load/score.h"
#include "runtime/base/numbers.h"

enum { PAUSE_MS = 60, SLICE_TIMEOUT_S = 300, MAX_SAMPLES = 100000 };

static const struct mo_bench_system solo_systems[] = {
    {"moire", "moire", "fcfs", "moire"},
    {"openvino", "openvino", "solo", "OpenVINO"},
    {"onnxruntime", "onnxruntime", "solo", "ONNX Runtime"},
    {"ncnn", "ncnn", "solo", "ncnn"},
    {"mnn", "mnn", "solo", "MNN"},
};

const struct mo_bench_system *mo_bench_solo_system(const char *family) {
    for (size_t i = 0; i < sizeof solo_systems / sizeof solo_systems[0]; i++)
        if (!strcmp(solo_systems[i].family, family)) return &solo_systems[i];
    return NULL;
}

int mo_bench_solo_append(struct mo_bench_solo *solo, const char *answer, moire_error *err) {
    char *at;
    if (strncmp(answer, "solo ", 5) != 0) return mo_fail(err, MOIRE_EFAILED, "unexpected answer");
    long n = strtol(answer + 5, &at, 10);
    if (n < 1 || n + solo->n > MAX_SAMPLES) return mo_fail(err, MOIRE_EFAILED, "no samples");
    double *samples = realloc(solo->samples, ((size_t)n + (size_t)solo->n) * sizeof *samples);
    if (!samples) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    solo->samples = samples;
    for (long i = 0; i < n; i++)
        samples[solo->n++] = (double)strtoll(at, &at, 10) * 1e-6;
    return MOIRE_OK;
}

void mo_bench_solo_summarize(struct mo_bench_solo *solo) {
    if (!solo->n) return;
    qsort(solo->samples, (size_t)solo->n, sizeof *solo->samples, mo_rising);
    solo->min_ms = solo->samples[0];
    solo->median_ms = mo_bench_percentile(solo->samples, solo->n, 50);
}

/* Fills the list of what to measure; returns its length. */
static int line_up(struct mo_bench_session *s, const struct mo_bench_solo_spec *spec, int threads,
                   struct mo_bench_solo *out) {
    int n = 0;
    memset(out, 0, MO_BENCH_MAX_SYSTEMS * sizeof *out);
    if (spec->moire) out[n++].system = mo_bench_solo_system("moire");
    if (spec->generic) out[n].generic = true, out[n++].system = mo_bench_solo_system("moire");
    for (int i = 0; i < spec->n_families && n < MO_BENCH_MAX_SYSTEMS; i++) {
        out[n].system = mo_bench_solo_system(spec->families[i]);
        const char *why = mo_bench_missing(s, spec->families[i]);
        if (why) snprintf(out[n].why, sizeof out[n].why, "%s", why);
        n++;
    }
    for (int i = 0; i < n; i++)
        out[i].threads = threads;
    return n;
}

/* Keeps a peer's failure as its reason; passes on interrupts and moire's own failures. */
static int tolerate(struct mo_bench_session *s, struct mo_bench_solo *solo, int code,
                    const moire_error *err) {
    if (!code || code == MOIRE_EINTERRUPTED || !strcmp(solo->system->family, "moire")) return code;
    snprintf(solo->why, sizeof solo->why, "%.199s", err->message);
    mo_bench_say(s, "bench: left out: %s", solo->why);
    return MOIRE_OK;
}

/* Asks moire how much of the model its store covers, and says so when the answer is little. */
static void ask_coverage(struct mo_bench_session *s, const char *model, struct mo_bench_child *child,
                         struct mo_bench_solo *solo) {
    char path[256], command[300];
    const char *answer;
    moire_error ignored;
    mo_bench_temporary(s, ".report", path, sizeof path);
    snprintf(command, sizeof command, "report %s", path);
    if (mo_bench_child_ask(child, command, 60, &answer, &ignored)) return;
    json_t *report = json_load_file(path, 0, NULL);
    const json_t *tenants = json_object_get(json_object_get(report, "kernels"), "tenants");
    solo->specialised = json_number_value(json_object_get(json_array_get(tenants, 0), "specialised_share"));
    json_decref(report);
    if (!solo->generic && solo->specialised < 0.5)
        mo_bench_say(s, "bench: %s: %.0f %% of the work has compiled kernels; `moire compile` makes the rest",
                     model, 100 * solo->specialised);
}

static int load_all(struct mo_bench_session *s, const struct mo_bench_tenant *tenant,
                    struct mo_bench_solo *solo, struct mo_bench_child *children, int n, moire_error *err) {
    const int64_t no_qos = 0;
    int code = MOIRE_OK;
    for (int i = 0; !code && i < n; i++) {
        if (solo[i].why[0]) continue;
        code = mo_bench_child_start(s, solo[i].system, tenant, &no_qos, 1, solo[i].threads, solo[i].generic,
                                    false, &children[i], err);
        if (!code && !strcmp(solo[i].system->family, "moire"))
            ask_coverage(s, tenant->name, &children[i], &solo[i]);
        code = tolerate(s, &solo[i], code, err);
    }
    return code;
}

int mo_bench_solo_measure(struct mo_bench_session *session, const struct mo_bench_tenant *tenant, int threads,
                          const struct mo_bench_solo_spec *spec, struct mo_bench_solo *out, int *n,
                          moire_error *err) {
    struct mo_bench_child children[MO_BENCH_MAX_SYSTEMS] = {0};
    char command[64];
    *n = line_up(session, spec, threads, out);
    int code = load_all(session, tenant, out, children, *n, err);
    snprintf(command, sizeof command, "solo 0 %d", (int)(spec->seconds * 1e3 / spec->slices));
    for (int slice = 0; !code && slice < spec->slices; slice++) {
        for (int i = 0; !code && i < *n; i++) {
            const char *answer;
            if (!children[i].pid) continue;
            poll(NULL, 0, PAUSE_MS);
            code = mo_bench_child_ask(&children[i], command, SLICE_TIMEOUT_S, &answer, err);
            if (!code) code = mo_bench_solo_append(&out[i], answer, err);
            if (code) code = tolerate(session, &out[i], code, err);
        }
    }
    for (int i = 0; i < *n; i++) {
        mo_bench_child_stop(&children[i]);
        mo_bench_solo_summarize(&out[i]);
    }
    return code;
}

void mo_bench_solo_free(struct mo_bench_solo *solo, int n) {
    for (int i = 0; i < n; i++)
        free(solo[i].samples);
}
