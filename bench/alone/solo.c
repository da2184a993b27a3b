/* SPDX-License-Identifier: Apache-2.0
 * solo.c - solo latency of one model on several systems, interleaved; see latency.h.
 *
 * All systems are loaded first, each in its process; then slices go round: a system runs back to back for one
 * slice while the others wait in a read.  Worker threads of some systems spin on after a run: a slice begins
 * when none of them uses a processor any more.  Machine noise so meets all systems alike, and the minimum
 * over slices is comparable. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/alone/latency.h"
#include "bench/load/score.h"
#include "runtime/base/numbers.h"

enum { REST_STEP_MS = 20, REST_MS = 2000, SLICE_TIMEOUT_S = 300, MAX_SAMPLES = 100000 };

/* Processor time that all runners together may take in one step and count as asleep. */
static const double asleep_s = 0.001;

static const struct mo_bench_system solo_systems[] = {
    {"moire", "moire", "fcfs", "moire", NULL},
    {"openvino", "openvino", "solo", "OpenVINO", NULL},
    {"onnxruntime", "onnxruntime", "solo", "ONNX Runtime", NULL},
    {"ncnn", "ncnn", "solo", "ncnn", NULL},
    {"mnn", "mnn", "solo", "MNN", NULL},
    {"tvm", "tvm", "solo", "TVM", NULL},
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

/* Appends what to measure with so many threads to a list of n; returns its new length. */
static int line_up(struct mo_bench_session *s, const struct mo_bench_solo_spec *spec, int threads,
                   struct mo_bench_solo *out, int n) {
    const int first = n;
    if (n + spec->moire + spec->generic > MO_BENCH_MAX_SYSTEMS) return n;
    if (spec->moire) out[n++].system = mo_bench_solo_system("moire");
    if (spec->generic) out[n].generic = true, out[n++].system = mo_bench_solo_system("moire");
    for (int i = 0; i < spec->n_families && n < MO_BENCH_MAX_SYSTEMS; i++) {
        out[n].system = mo_bench_solo_system(spec->families[i]);
        const char *why = mo_bench_missing(s, spec->families[i]);
        if (why) snprintf(out[n].why, sizeof out[n].why, "%s", why);
        n++;
    }
    for (int i = first; i < n; i++)
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

/* Asks moire how much of the model its store covers; say: tells the user when it is little. */
static void ask_coverage(struct mo_bench_session *s, const char *model, struct mo_bench_child *child,
                         struct mo_bench_solo *solo, bool say) {
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
    if (say && !solo->generic && solo->specialised < 0.5)
        mo_bench_say(s, "bench: %s: %.0f %% of the work has compiled kernels; `moire compile` makes the rest",
                     model, 100 * solo->specialised);
}

static int load_all(struct mo_bench_solo_set *set, const struct mo_bench_tenant *tenant, moire_error *err) {
    const int64_t no_qos = 0;
    int code = MOIRE_OK;
    for (int i = 0; !code && i < set->n; i++) {
        struct mo_bench_solo *solo = &set->solo[i];
        if (solo->why[0]) continue;
        code = mo_bench_child_start(set->session, solo->system, tenant, &no_qos, 1, solo->threads,
                                    solo->generic, false, &set->child[i], err);
        if (!code && !strcmp(solo->system->family, "moire"))
            ask_coverage(set->session, tenant->name, &set->child[i], solo,
                         solo->threads == set->solo[0].threads);
        code = tolerate(set->session, solo, code, err);
    }
    return code;
}

int mo_bench_solo_open(struct mo_bench_session *session, const struct mo_bench_tenant *tenant,
                       const int *threads, int n_threads, const struct mo_bench_solo_spec *spec,
                       struct mo_bench_solo_set *set, moire_error *err) {
    memset(set, 0, sizeof *set);
    set->session = session;
    for (int i = 0; i < n_threads; i++)
        set->n = line_up(session, spec, threads[i], set->solo, set->n);
    return load_all(set, tenant, err);
}

static double used_by(const struct mo_bench_solo_set *set) {
    double used = 0;
    for (int i = 0; i < set->n; i++)
        if (set->child[i].pid) used += mo_cpu_time_of(set->child[i].pid);
    return used;
}

/* Waits until every runner sleeps, or for so long that one never will. */
static void rest(const struct mo_bench_solo_set *set) {
    double before = -1;
    for (int waited = 0; waited < REST_MS; waited += REST_STEP_MS) {
        double used = used_by(set);
        for (const struct mo_bench_solo_set *s = set->beside; s && s != set; s = s->beside)
            used += used_by(s);
        if (before >= 0 && used - before < asleep_s) return;
        before = used;
        poll(NULL, 0, REST_STEP_MS);
    }
}

int mo_bench_solo_slice(struct mo_bench_solo_set *set, int i, int ms, struct mo_bench_solo_taken *taken,
                        moire_error *err) {
    struct mo_bench_solo *solo = &set->solo[i];
    struct mo_bench_child *child = &set->child[i];
    char command[64];
    const char *answer;
    const int before = solo->n;
    memset(taken, 0, sizeof *taken);
    snprintf(command, sizeof command, "solo 0 %d", ms);
    rest(set);
    const struct mo_cpu_moment from = mo_cpu_moment_now(child->pid);
    int code = mo_bench_child_ask(child, command, SLICE_TIMEOUT_S, &answer, err);
    const struct mo_cpu_moment to = mo_cpu_moment_now(child->pid);
    if (!code) code = mo_bench_solo_append(solo, answer, err);
    if (code) {
        code = tolerate(set->session, solo, code, err);
        if (!code) mo_bench_child_stop(child);
        return code;
    }
    mo_others_add(&taken->others, &from, &to);
    taken->least_ms = solo->samples[before];
    for (int k = before; k < solo->n; k++)
        if (solo->samples[k] < taken->least_ms) taken->least_ms = solo->samples[k];
    return MOIRE_OK;
}

void mo_bench_solo_close(struct mo_bench_solo_set *set) {
    for (int i = 0; i < set->n; i++) {
        mo_bench_child_stop(&set->child[i]);
        mo_bench_solo_summarize(&set->solo[i]);
    }
}

int mo_bench_solo_measure(struct mo_bench_session *session, const struct mo_bench_tenant *tenant, int threads,
                          const struct mo_bench_solo_spec *spec, struct mo_bench_solo *out, int *n,
                          moire_error *err) {
    struct mo_bench_solo_set set;
    struct mo_bench_solo_taken taken;
    int code = mo_bench_solo_open(session, tenant, &threads, 1, spec, &set, err);
    for (int slice = 0; !code && slice < spec->slices; slice++)
        for (int i = 0; !code && i < set.n; i++)
            if (set.child[i].pid)
                code = mo_bench_solo_slice(&set, i, (int)(spec->seconds * 1e3 / spec->slices), &taken, err);
    mo_bench_solo_close(&set);
    memcpy(out, set.solo, sizeof set.solo);
    *n = set.n;
    return code;
}

void mo_bench_solo_free(struct mo_bench_solo *solo, int n) {
    for (int i = 0; i < n; i++)
        free(solo[i].samples);
}
