/* SPDX-License-Identifier: Apache-2.0
 * profile_device.c - see profile_device.h.
 *
 * A file is written when its model is done, and also when a Ctrl-C comes in between, with what there is;
 * --resume takes that over. */
#define _GNU_SOURCE
#include "tools/moire/profile_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/machine.h"
#include "runtime/base/csv.h"
#include "runtime/base/output.h"
#include "runtime/gpu/measure_shares.h"
#include "runtime/profile/share_table.h"
#include "runtime/serve/gpu_programs.h"
#include "tools/moire/paths.h"

enum { MAX_MODELS = 64, NAME = 128 };

/* One command. */
struct job {
    struct mo_bench_session *session;
    const struct mo_profile_device_options *o;
    struct mo_gpu_device device;
    struct mo_gpus gpus;
    struct mo_gpu_info info;
    enum mo_gpu_precision precision;
    const char *name; /* of the model at hand */
    struct mo_measured model[MAX_MODELS];
    char names[MAX_MODELS][NAME];
    int n;
};

/* --- loading -------------------------------------------------------------------------------------------- */
static int load(struct job *j, const char *word, moire_error *err) {
    struct mo_bench_tenant t = {.name = word, .model = word};
    struct mo_gpu_programs programs = {0};
    for (int i = 0; i < j->o->n_shapes; i++)
        t.shapes[t.n_shapes++] = j->o->shapes[i];
    struct mo_region *region = mo_region_create(j->session->env);
    int code =
        region ? mo_bench_resolve(j->session, region, &t, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    struct mo_gpu_programs_request r = {
        .path = t.model,
        .shapes = t.shapes,
        .n_shapes = t.n_shapes,
        .max_batch = j->o->max_batch,
        .options = {.precision = j->precision, .model = (uint64_t)j->n + 1, .max_segments = 1}};
    if (!code) code = mo_gpu_programs_make(j->session->env, &r, &programs, err);
    if (!code)
        code = mo_measured_open(&j->device, j->o->gpu, programs.n, programs.program, &j->model[j->n], err);
    mo_gpu_programs_free(&programs);
    mo_region_destroy(region);
    if (code) return code;
    mo_path_bare(word, j->names[j->n++], NAME);
    return MOIRE_OK;
}

/* --- one model ------------------------------------------------------------------------------------------ */
static bool progress(void *ctx, int done, int all, int batch, int units, int64_t ns) {
    struct job *j = ctx;
    mo_bench_say(j->session, "profile: %s %3d/%d: batch %d on %d units of %d: %.1f us", j->name, done, all,
                 batch, units, mo_gpus_kind(&j->gpus, j->o->gpu)->units, (double)ns * 1e-3);
    return mo_bench_interrupted(j->session);
}

static int write_profile(const struct job *j, const char *path, struct mo_share_profile *p, double link,
                         moire_error *err) {
    char note[300], machine[160];
    size_t n;
    snprintf(machine, sizeof machine, "%.90s, driver %d.%d", j->info.name, j->info.driver / 1000,
             j->info.driver % 1000 / 10);
    snprintf(note, sizeof note,
             "%s on lets by green contexts; median of at least 3 runs, without copies (the link moved %.1f "
             "GB/s); l2 and "
             "dram estimated from the bytes that operations name",
             mo_gpu_precision_name(j->precision), link);
    struct mo_share_table t = {.model = j->name,
                               .machine = machine,
                               .source = "measured by `moire profile --device`",
                               .note = note,
                               .profile = p,
                               .region = mo_region_create(j->session->env)};
    const char *text = t.region ? mo_share_table_text(&t, &n) : NULL;
    int code = text ? mo_output_write(j->session->env, path, text, n, err)
                    : mo_fail(err, MOIRE_ENOMEM, "out of memory for the profile of '%s'", j->name);
    mo_region_destroy(t.region);
    return code;
}

/* The GPU with the sizes of lets that are to be measured. */
static struct mo_plan_kind wanted_sizes(const struct job *j) {
    struct mo_plan_kind kind = *mo_gpus_kind(&j->gpus, j->o->gpu);
    int n = 0;
    for (int i = 0; i < kind.n_sizes; i++) {
        bool wanted = !j->o->n_units;
        for (int k = 0; k < j->o->n_units; k++)
            wanted |= j->o->units[k] == kind.sizes[i];
        if (wanted) kind.sizes[n++] = kind.sizes[i];
    }
    kind.n_sizes = n;
    return kind;
}

/* What was written, as a line or as a row. */
static void report(const struct job *j, const char *path, const struct mo_share_profile *p,
                   const struct mo_plan_kind *kind) {
    const double whole = (double)mo_share_latency(p, 1, MO_SHARE_WHOLE) * 1e-6,
                 least = (double)mo_share_latency(p, 1, p->share[0]) * 1e-6,
                 rate = p->max_batch * 1e9 / (double)mo_share_latency(p, p->max_batch, MO_SHARE_WHOLE);
    if (j->o->rows)
        json_array_append_new(j->o->rows,
                              json_pack("{s:s, s:s, s:f, s:f, s:i, s:i, s:i, s:f}", "file", path, "model",
                                        j->name, "whole_gpu_ms", whole, "least_let_ms", least,
                                        "least_let_units", kind->sizes[0], "units", kind->units, "max_batch",
                                        p->max_batch, "queries_per_second", rate));
    else
        printf("%s: %s: one query %.3f ms on the whole GPU, %.3f ms on %d units of %d; batch %d %.0f/s\n",
               path, j->name, whole, least, kind->sizes[0], kind->units, p->max_batch, rate);
}

static int profile(struct job *j, int at, moire_error *err) {
    const struct mo_plan_kind kind = wanted_sizes(j);
    char path[MO_BENCH_PROFILE_PATH];
    struct mo_share_table had = {0};
    struct mo_share_profile *p = NULL;
    moire_error why;
    double link;
    j->name = j->names[at];
    mo_bench_machine_file(j->o->folder, j->name, path);
    bool resumed = j->o->resume && !mo_share_table_read(j->session->env, path, &had, &why);
    if (!kind.n_sizes) return mo_fail(err, MOIRE_EINVAL, "--units: the GPU has no let of such a size");
    struct mo_measure_options o = {.kind = &kind,
                                   .repetitions = j->o->repetitions,
                                   .have = resumed ? had.profile : NULL,
                                   .progress = progress,
                                   .ctx = j};
    int code = mo_measure_shares(&j->model[at], &o, &p, &link, err);
    if (p) {
        int wrote = write_profile(j, path, p, link, code ? &why : err);
        if (!code) code = wrote;
        if (!code) report(j, path, p, &kind);
        mo_share_destroy(p);
    }
    if (resumed) mo_share_table_free(&had);
    return code;
}

/* --- pairs ---------------------------------------------------------------------------------------------- */
static void write_pair(FILE *f, const struct job *j, const int at[2], const struct mo_measure_side side[2]) {
    const int units = mo_gpus_kind(&j->gpus, j->o->gpu)->units;
    mo_csv_put(f, j->names[at[0]]);
    fputc(',', f);
    mo_csv_put(f, j->names[at[1]]);
    fprintf(f, ",%d,%d,%d,%d,%.6g,%.6g\n", side[0].model->batch[side[0].bucket],
            side[1].model->batch[side[1].bucket], mo_share_of_units(side[0].units, units),
            mo_share_of_units(side[1].units, units), fmax((double)side[0].ns, 1) * 1e-3,
            fmax((double)side[1].ns, 1) * 1e-3);
}

/* Both in one of their batches, on lets that share the GPU in halves and about one to three. */
static int pair(struct job *j, FILE *f, const int at[2], moire_error *err) {
    const struct mo_plan_kind *kind = mo_gpus_kind(&j->gpus, j->o->gpu);
    int code = MOIRE_OK;
    for (int split = 0; split < 2 && !code; split++) {
        int units = split ? kind->units / 4 : kind->units / 2;
        for (int k = 0; k < 3 && !code && units; k++) {
            struct mo_measure_side side[2];
            for (int s = 0; s < 2; s++) {
                const struct mo_measured *m = &j->model[at[s]];
                side[s] = (struct mo_measure_side){.model = m, .bucket = k * (m->n_buckets - 1) / 2};
            }
            side[0].units = side[1].first = units;
            side[1].units = kind->units - units;
            code = mo_measure_pair(side, j->o->repetitions, err);
            if (!code) write_pair(f, j, at, side);
        }
    }
    mo_bench_say(j->session, "profile: %s beside %s", j->names[at[0]], j->names[at[1]]);
    return code || !mo_bench_interrupted(j->session) ? code : mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
}

static int pairs(struct job *j, moire_error *err) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return mo_fail(err, MOIRE_ENOMEM, "out of memory for pairs");
    fprintf(f, "# moire-pairs 1\n# machine %s\n# source measured by `moire profile --device`\n",
            j->info.name);
    fprintf(f, "a,b,batch_a,batch_b,share_a,share_b,us_a,us_b\n");
    int code = MOIRE_OK;
    for (int a = 0; a < j->n && !code; a++)
        for (int b = a; b < j->n && !code; b++)
            if (a != b || j->n == 1) code = pair(j, f, (const int[2]){a, b}, err);
    if (fclose(f) && !code) code = mo_fail(err, MOIRE_ENOMEM, "out of memory for pairs");
    if (!code) code = mo_output_write(j->session->env, j->o->pairs, text, n, err);
    free(text);
    return code;
}

/* --- the command ---------------------------------------------------------------------------------------- */
static int open_device(struct job *j, moire_error *err) {
    const struct mo_profile_device_options *o = j->o;
    if (o->precision && !mo_gpu_precision_of(o->precision, &j->precision))
        return mo_fail(err, MOIRE_EINVAL, "--precision: '%s' is none of fp32, tf32, fp16, bf16",
                       o->precision);
    if (o->n_models > MAX_MODELS) return mo_fail(err, MOIRE_ELIMIT, "more than %d models", MAX_MODELS);
    const struct mo_gpu_config config = {.process = o->process, .path = o->libraries, .cache = o->cache};
    int code = mo_gpu_device_open(j->session->env, o->device, &config, &j->device, err);
    if (!code) code = mo_gpu_device_gpus(&j->device, 0, &j->gpus, err);
    if (!code && (o->gpu < 0 || o->gpu >= j->gpus.n_gpus))
        code = mo_fail(err, MOIRE_EINVAL, "--gpu: there are %d", j->gpus.n_gpus);
    return code ? code : j->device.ops->describe(j->device.system, o->gpu, &j->info, err);
}

int mo_profile_device(struct mo_bench_session *session, const struct mo_profile_device_options *o,
                      moire_error *err) {
    struct job *j = mo_alloc(session->env, sizeof *j);
    if (!j) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    j->session = session;
    j->o = o;
    int code = open_device(j, err);
    for (int i = 0; i < o->n_models && !code; i++) {
        code = load(j, o->models[i], err);
        if (!code) code = profile(j, i, err);
    }
    if (!code && o->pairs) code = pairs(j, err);
    for (int i = 0; i < j->n; i++)
        mo_measured_close(&j->model[i]);
    mo_gpu_device_close(&j->device);
    mo_free(session->env, j);
    return code;
}
