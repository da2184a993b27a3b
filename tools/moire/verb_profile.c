/* SPDX-License-Identifier: Apache-2.0
 * verb_profile.c - `moire profile`: measures layer times by cores and writes them as profile files. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/publish.h"
#include "bench/session.h"
#include "runtime/plan/describe.h"
#include "runtime/sched/calibrate.h"
#include "runtime/sched/profile_table.h"
#include "runtime/serve/runtime.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/paths.h"

static const char usage[] =
    "usage: moire profile FILE.onnx|NAME ... --output DIR [--repetitions N] [--threads N] [--shape "
    "NAME=d,d,...]\n"
    "                     [--generic] [--store DIR] [--models DIR]\n\n"
    "Measures every layer of each model alone on the machine, on 1, 2, 4, ... and all cores, and writes\n"
    "DIR/MODEL.csv: the profiles that `moire sim` replays (format: runtime/sched/profile_table.h).\n"
    "A time is the shortest of the repetitions.\n\n"
    "  --output DIR         folder of the files, which must exist\n"
    "  --repetitions N      20 by default\n"
    "  --threads N          at most so many cores, all by default\n"
    "  --shape NAME=d,d,... shape of an input that the file leaves open\n"
    "  --generic            the built-in kernels only\n"
    "  --store DIR          folder of compiled variants\n"
    "  --models DIR         folder of zoo files, built on first use\n\n"
    "Example:\n"
    "  moire profile resnet50 googlenet --output bench/machines/cloud-2core-avx512\n";

struct profile_options {
    struct mo_bench_options bench;
    int repetitions;
};

/* What was asked for, without folder and ".onnx": the name by which `moire sim` looks. */
static void base_name(const char *word, char *out, size_t n) {
    const char *slash = strrchr(word, '/'), *base = slash ? slash + 1 : word;
    size_t length = strlen(base);
    if (length > 5 && !strcmp(base + length - 5, ".onnx")) length -= 5;
    snprintf(out, n, "%.*s", (int)(length < n ? length : n - 1), base);
}

static int fill_lines(const moire_tenant *t, const struct mo_profile *p, struct mo_profile_table *table) {
    double *us = mo_region_array(table->region, (size_t)p->n_layers * (size_t)table->n_counts, sizeof *us);
    table->lines = mo_region_array(table->region, (size_t)p->n_layers, sizeof *table->lines);
    if (!us || !table->lines) return MOIRE_ENOMEM;
    for (int l = 0; l < p->n_layers; l++, us += table->n_counts) {
        const struct mo_step *step = &t->plan->steps[l];
        struct mo_profile_line *line = &table->lines[l];
        *line = (struct mo_profile_line){.layer = l,
                                         .batch = 1,
                                         .kib = (double)step->bytes / 1024,
                                         .units = step->units > 1 ? (double)step->units : 1,
                                         .us = us};
        mo_layer_text(t->plan->graph, step->node, line->name, sizeof line->name);
        for (int c = 0; c < table->n_counts; c++)
            us[c] = (double)mo_profile_time(p, table->counts[c], l, l + 1) * 1e-3;
    }
    table->n_layers = table->n_lines = p->n_layers;
    table->units = true;
    return MOIRE_OK;
}

static int write_profile(const struct mo_env *env, const moire_tenant *t, const struct mo_profile *p,
                         const char *folder, const char *model, moire_error *err) {
    char path[1200];
    size_t n = 0;
    struct mo_profile_table table = {.region = mo_region_create(env),
                                     .model = model,
                                     .source = "measured by `moire profile`, shortest of the repetitions"};
    for (int c = 1; c <= p->max_cores && table.n_counts < MO_PROFILE_COUNTS; c++)
        if (p->measured[c]) table.counts[table.n_counts++] = c;
    const char *text = table.region && !fill_lines(t, p, &table) ? mo_profile_table_text(&table, &n) : NULL;
    snprintf(path, sizeof path, "%s/%s.csv", folder, model);
    int code = text ? mo_bench_publish(env, path, text, n, err)
                    : mo_fail(err, MOIRE_ENOMEM, "out of memory for the profile of '%s'", model);
    mo_profile_table_free(&table);
    if (!code)
        printf("%s: %d layers, %.3f ms on one core, %.3f ms on %d\n", path, p->n_layers,
               (double)mo_profile_time(p, 1, 0, p->n_layers) * 1e-6,
               (double)mo_profile_time(p, p->max_cores, 0, p->n_layers) * 1e-6, p->max_cores);
    return code;
}

/* One model in a runtime of its own. */
static int measure(struct mo_bench_session *s, const struct profile_options *o, const char *word,
                   moire_error *err) {
    struct mo_bench_tenant model = {.name = word, .model = word};
    struct mo_profile *profile = NULL;
    moire_runtime *runtime = NULL;
    moire_tenant *tenant;
    moire_tenant_config tc;
    moire_config config;
    char name[128];
    base_name(word, name, sizeof name);
    moire_config_init(&config);
    moire_tenant_config_init(&tc);
    config.store = s->store;
    config.generic_only = o->bench.generic;
    config.threads = o->bench.latency.n_threads ? o->bench.latency.threads[0] : 0;
    for (int i = 0; i < o->bench.latency.n_shapes; i++)
        model.shapes[model.n_shapes++] = o->bench.shapes[i];
    struct mo_region *region = mo_region_create(s->env);
    int code =
        region ? mo_bench_resolve(s, region, &model, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    tc.shapes = model.shapes;
    tc.n_shapes = model.n_shapes;
    if (!code) code = mo_runtime_create(&config, NULL, 0, &runtime, err);
    if (!code) code = moire_load(runtime, model.model, &tc, &tenant, err);
    if (!code) /* loading left a sample input in instance 0 */
        code = mo_calibrate(runtime->engine, &runtime->env, &mo_serve_model, tenant, 0, tenant->plan->n_steps,
                            o->repetitions, &profile, err);
    if (!code) code = write_profile(s->env, tenant, profile, o->bench.output, name, err);
    mo_profile_destroy(profile);
    if (runtime) moire_runtime_destroy(runtime, 0);
    mo_region_destroy(region);
    return code;
}

static int parse(struct profile_options *o, struct mo_args *args, moire_error *err) {
    while (args->at < args->argc) {
        bool took;
        if (mo_args_flag(args, "--repetitions", true)) {
            char *end = NULL;
            long v = args->value ? strtol(args->value, &end, 10) : 0;
            if (!end || *end || v < 1 || v > 100000)
                return mo_bench_bad_flag(err, "--repetitions", args->value, "must be 1 to 100000");
            o->repetitions = (int)v;
            continue;
        }
        int code = mo_bench_options_take(&o->bench, args, &took, err);
        if (code) return code;
        if (!took)
            return mo_bench_bad_flag(err, args->argv[args->at], NULL,
                                     "no such flag; see moire profile --help");
    }
    if (!o->bench.latency.n_models) return mo_fail(err, MOIRE_EINVAL, "needs a file or a zoo name");
    return o->bench.output ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "--output is needed: a folder");
}

static int dispatch(const struct mo_env *env, int argc, char **argv, moire_error *err) {
    struct profile_options *o = mo_alloc(env, sizeof *o);
    struct mo_bench_session session;
    if (!o) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    o->repetitions = 20;
    int code = mo_bench_session_open(env, argc, argv, &session, err);
    bool opened = !code;
    if (!code) code = parse(o, &args, err);
    if (!code) {
        session.store = mo_path_store(o->bench.store, o->bench.store_path, sizeof o->bench.store_path, NULL)
                            ? o->bench.store
                            : o->bench.store_path;
        if (o->bench.models_folder) session.models = o->bench.models_folder;
        mo_bench_warn_busy(&session);
    }
    for (int i = 0; !code && i < o->bench.latency.n_models; i++)
        code = mo_bench_interrupted(&session) ? mo_fail(err, MOIRE_EINTERRUPTED, "interrupted")
                                              : measure(&session, o, o->bench.models[i], err);
    if (opened) mo_bench_session_close(&session);
    mo_free(env, o);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    moire_error err = {0};
    int code = dispatch(env, argc, argv, &err);
    return code ? mo_verb_fail("profile", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_profile = {
    .name = "profile",
    .summary = "measure layer times by cores, as profiles for the simulator",
    .usage = usage,
    .run = run,
};
