/* SPDX-License-Identifier: Apache-2.0
 * verb_profile.c - `moire profile`: measures layer times by cores and writes them as profile files. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/output.h"
#include "codegen/tune/stress.h"
#include "bench/load/session.h"
#include "runtime/device/topology.h"
#include "runtime/plan/describe.h"
#include "runtime/plan/versions.h"
#include "runtime/engine/calibrate.h"
#include "runtime/profile/profile_table.h"
#include "runtime/serve/parts.h"
#include "tools/moire/verbs/bench_common.h"
#include "tools/moire/profile_device.h"

static const char about[] =
    "Measures every layer of each model alone on the machine, in each of its versions (`moire tune`), on 1,\n"
    "2, 4, ... and all cores, and writes DIR/MODEL.csv: the profiles that `moire sim` replays (format:\n"
    "runtime/profile/profile_table.h).  A time is the shortest of the repetitions.\n"
    "\n"
    "With --pressure every layer is also timed while a neighbour (`moire stress`) loads the upper half of "
    "the\n"
    "cores.  For a layer that needs those cores itself the time alone is multiplied by the slowdown on the\n"
    "most cores that leave them free.  A time that falls while the pressure rises is noise, and the time at\n"
    "less pressure is taken; a time that more than doubles, and grows by more than 20 us, when cores are "
    "added\n"
    "is noise too.  A note in the file says how many such times there were.\n"
    "\n"
    "With --device the models are measured on a GPU: the time of a batch of 1, 2, 4, ... queries on lets of\n"
    "every size, the bytes that operations move, and the copies (format: runtime/profile/share_table.h).  "
    "With\n"
    "--pairs also every two of the models side by side, for `moire interference fit`.\n";

static const char notes[] = "Example:\n"
                            "  moire profile resnet50 googlenet --output bench/machines/cloud-2core-zen4\n"
                            "  moire profile resnet50 vgg16 --device cuda --output bench/gpus/h200 --pairs "
                            "bench/gpus/h200/pairs.csv\n";

/* The profiles of one model: [version][n-th level]. */
struct measured {
    moire_tenant *tenant;
    const struct mo_plan *plan;
    const struct mo_options *options;
    json_t *rows;                           /* what was written, with --json */
    int levels[MO_STRESS_LEVELS], n_levels; /* of pressure; the first is 0 */
    int n_versions, settled;                /* settled: times that were noise */
    struct mo_profile *profile[MO_STORE_VERSIONS][MO_STRESS_LEVELS];
};

/* What the core with most to do does of a version of a layer, in the same unit for all numbers of cores. */
static double part_of(const struct mo_step *step, int version, int cores) {
    if (mo_step_workers(step, 2) < 2) return 1;
    if (step->n_versions) return mo_version_time(&step->version[version], 0, cores);
    if (step->rounds && step->units < cores) return 1.0 / mo_step_workers(step, cores);
    int64_t most = (step->units + cores - 1) / cores;
    return (double)most / (double)step->units;
}

/* Time of a layer in a version, on so many cores, at the n-th level; in us. */
static double time_of(const struct measured *m, int layer, int version, int level, int cores) {
    const struct mo_profile *alone = m->profile[version][0], *p = m->profile[version][level];
    int most = p->max_cores < cores ? p->max_cores : cores;
    double ns = (double)mo_profile_time(alone, cores, layer, layer + 1);
    if (cores > alone->max_cores)
        ns *= part_of(&m->plan->steps[layer], version, cores) /
              part_of(&m->plan->steps[layer], version, alone->max_cores);
    double slower = (double)mo_profile_time(p, most, layer, layer + 1) /
                    (double)mo_profile_time(alone, most, layer, layer + 1);
    return fmax(ns * slower, 1) * 1e-3; /* no time of a profile is shorter */
}

/* Into how many pieces a layer can be cut. */
static double pieces_of(const struct mo_step *step) {
    const int64_t n = step->rounds && step->rounds->pieces > step->units ? step->rounds->pieces : step->units;
    return n > 1 ? (double)n : 1;
}

static void fill_line(struct measured *m, int layer, int version, int level, struct mo_profile_table *table,
                      double *us) {
    const struct mo_step *step = &m->plan->steps[layer];
    struct mo_profile_line *line = &table->lines[table->n_lines++];
    *line = (struct mo_profile_line){.layer = layer,
                                     .variant = version,
                                     .batch = 1,
                                     .pressure = (double)m->levels[level] / (MO_STRESS_LEVELS - 1),
                                     .kib = (double)step->bytes / 1024,
                                     .cold_us =
                                         mo_profile_extra(m->profile[version][0], 1, layer, layer + 1) * 1e-3,
                                     .mops = (double)step->flops * 1e-6,
                                     .units = pieces_of(step),
                                     .us = us};
    if (step->n_versions) {
        const struct mo_version *v = &step->version[version];
        line->units = (double)v->units;
        line->block_kib = (double)v->block_bytes / 1024;
        line->l3_kib = (double)v->l3_bytes / 1024;
    }
    mo_layer_text(m->plan->graph, step->node, line->name, sizeof line->name);
    for (int c = 0; c < table->n_counts; c++)
        us[c] = time_of(m, layer, version, level, table->counts[c]);
    m->settled += mo_profile_settle(us, level ? line[-1].us : NULL, table->n_counts);
}

static int fill_lines(struct measured *m, struct mo_profile_table *table) {
    int layers = m->plan->n_steps, levels = m->n_levels;
    size_t lines = (size_t)layers * (size_t)m->n_versions * (size_t)levels;
    double *us = mo_region_array(table->region, lines * (size_t)table->n_counts, sizeof *us);
    table->lines = mo_region_array(table->region, lines, sizeof *table->lines);
    if (!us || !table->lines) return MOIRE_ENOMEM;
    for (int l = 0; l < layers; l++) {
        int n = m->plan->steps[l].n_versions;
        for (int v = 0; v < (n > 1 ? n : 1); v++)
            for (int level = 0; level < levels; level++, us += table->n_counts)
                fill_line(m, l, v, level, table, us);
    }
    table->n_layers = layers;
    table->units = table->locality = table->cold = table->mops = true;
    return MOIRE_OK;
}

/* What was written, as a line; with --json as a row. */
static void report(const struct measured *m, const char *path, const char *noise) {
    const struct mo_profile *p = m->profile[0][0];
    const double one = (double)mo_profile_time(p, 1, 0, p->n_layers) * 1e-6,
                 all = (double)mo_profile_time(p, p->max_cores, 0, p->n_layers) * 1e-6;
    if (m->options->json) {
        json_array_append_new(m->rows, json_pack("{s:s, s:i, s:f, s:f, s:i, s:i, s:i, s:i}", "file", path,
                                                 "layers", p->n_layers, "one_core_ms", one, "all_cores_ms",
                                                 all, "cores", p->max_cores, "versions", m->n_versions,
                                                 "pressure_levels", m->n_levels, "noisy_times", m->settled));
        return;
    }
    if (m->settled) printf("%s: %s: measure again on a quiet machine\n", path, noise);
    printf("%s: %d layers, %.3f ms on one core, %.3f ms on %d; %d version%s, %d level%s of pressure\n", path,
           p->n_layers, one, all, p->max_cores, m->n_versions, m->n_versions > 1 ? "s" : "", m->n_levels,
           m->n_levels > 1 ? "s" : "");
}

static int write_profile(const struct mo_env *env, struct measured *m, const char *folder, const char *model,
                         moire_error *err) {
    char path[1200], note[128];
    size_t n = 0;
    const struct mo_profile *p = m->profile[0][0];
    struct mo_profile_table table = {.region = mo_region_create(env),
                                     .model = model,
                                     .source = "measured by `moire profile`, shortest of the repetitions"};
    for (int c = 1; c <= p->max_cores && table.n_counts < MO_PROFILE_COUNTS; c++)
        if (p->measured[c]) table.counts[table.n_counts++] = c;
    for (int c = 2 * p->max_cores; c <= m->options->predict && table.n_counts < MO_PROFILE_COUNTS; c *= 2)
        table.counts[table.n_counts++] = c;
    if (table.counts[table.n_counts - 1] > p->max_cores)
        table.source =
            "measured by `moire profile`, shortest of the repetitions; more cores than the machine "
            "has predicted by units";
    bool bad = !table.region || fill_lines(m, &table);
    snprintf(note, sizeof note, "%d of %d times were noise and stand at what the neighbouring ones allow",
             m->settled, table.n_lines * table.n_counts);
    if (m->settled) table.note = note;
    const char *text = bad ? NULL : mo_profile_table_text(&table, &n);
    snprintf(path, sizeof path, "%s/%s.csv", folder, model);
    int code = text ? mo_output_write(env, path, text, n, err)
                    : mo_fail(err, MOIRE_ENOMEM, "out of memory for the profile of '%s'", model);
    mo_profile_table_free(&table);
    if (!code) report(m, path, note);
    return code;
}

/* Walkers on the upper half of the runtime's cores. */
static int start_neighbour(const struct mo_runtime_parts *parts, struct mo_stress **out, moire_error *err) {
    const struct mo_topology *t = parts->topology;
    struct mo_stress_config config = {.env = parts->env,
                                      .kind = MO_STRESS_L3,
                                      .cpu = t->cpu + t->n_cores / 2,
                                      .n = t->n_cores - t->n_cores / 2,
                                      .l2_bytes = t->l2_bytes,
                                      .l3_bytes = t->l3_bytes};
    if (t->n_cores < 2) return mo_fail(err, MOIRE_EINVAL, "--pressure needs a second core for the neighbour");
    return mo_stress_create(&config, out, err);
}

static int measure_versions(const struct mo_runtime_parts *parts, struct measured *m,
                            struct mo_stress *stress, moire_error *err) {
    moire_tenant *t = m->tenant;
    struct mo_instance *instance = mo_tenant_parts(t).instance;
    struct mo_request *sample;
    int code = mo_tenant_sample(t, &sample, err), all = mo_device_units(parts->cores);
    struct mo_model_ops fixed = mo_serve_model;
    int v = 0;
    fixed.select_versions = NULL; /* the version is given */
    while (!code && v < m->n_versions) {
        mo_instance_version(instance, v);
        int i = 0;
        do {
            int level = m->levels[i];
            if (stress) mo_stress_set(stress, level);
            code = mo_calibrate(parts->cores, parts->env, &fixed, t, 0, m->plan->n_steps,
                                m->plan->scratch_bytes + 64, m->options->repetitions, level ? all / 2 : all,
                                level ? 0 : mo_calibrate_sweep(parts->topology), &m->profile[v][i], err);
        } while (!code && ++i < m->n_levels);
        v++;
    }
    const char *why = mo_instance_message(instance);
    if (code && code != MOIRE_ENOMEM && why && *why)
        mo_fail(err, code, "'%s' fails on the inputs of a measurement: %s", mo_tenant_parts(t).name, why);
    if (sample) mo_serve_model.release(t, sample);
    return code;
}

static int measure_tenant(moire_runtime *rt, moire_tenant *t, const struct mo_options *o,
                          const struct mo_env *env, const char *name, json_t *rows, moire_error *err) {
    const struct mo_runtime_parts parts = mo_runtime_parts(rt);
    struct measured m = {.tenant = t,
                         .plan = mo_tenant_parts(t).plan,
                         .options = o,
                         .rows = rows,
                         .n_versions = 1,
                         .n_levels = 1 + o->levels.n};
    struct mo_stress *stress = NULL;
    for (int i = 0; i < o->levels.n; i++)
        m.levels[i + 1] = (int)o->levels.value[i];
    for (int k = 0; k < m.plan->n_steps; k++)
        if (m.plan->steps[k].n_versions > m.n_versions) m.n_versions = m.plan->steps[k].n_versions;
    int code = m.n_levels > 1 ? start_neighbour(&parts, &stress, err) : MOIRE_OK;
    if (!code) code = measure_versions(&parts, &m, stress, err);
    mo_stress_destroy(stress);
    if (!code) code = write_profile(env, &m, o->output, name, err);
    for (int v = 0; v < m.n_versions; v++)
        for (int i = 0; i < MO_STRESS_LEVELS; i++)
            mo_profile_destroy(m.profile[v][i]);
    return code;
}

/* One model in a runtime of its own. */
static int measure(struct mo_bench_session *s, const struct mo_options *o, const char *word, json_t *rows,
                   moire_error *err) {
    struct mo_bench_tenant model = {.name = word, .model = word};
    moire_runtime *runtime = NULL;
    moire_tenant *tenant;
    moire_tenant_config tc;
    moire_config config;
    char name[128];
    mo_path_bare(word, name, sizeof name);
    moire_config_init(&config);
    moire_tenant_config_init(&tc);
    config.store = s->store;
    config.generic_only = o->generic;
    config.threads = o->thread_counts.n ? (int)o->thread_counts.value[0] : 0;
    for (int i = 0; i < o->shapes.n; i++)
        model.shapes[model.n_shapes++] = o->shapes.shape[i];
    struct mo_region *region = mo_region_create(s->env);
    int code =
        region ? mo_bench_resolve(s, region, &model, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    tc.shapes = model.shapes;
    tc.n_shapes = model.n_shapes;
    if (!code) code = mo_runtime_create(&config, NULL, 0, &runtime, err);
    if (!code) code = moire_load(runtime, model.model, &tc, &tenant, err);
    if (!code) code = measure_tenant(runtime, tenant, o, s->env, name, rows, err);
    if (runtime) moire_runtime_destroy(runtime, 0);
    mo_region_destroy(region);
    return code;
}

static int check_rising(const char *flag, const struct mo_wholes *list, moire_error *err) {
    for (int i = 1; i < list->n; i++)
        if (list->value[i] <= list->value[i - 1])
            return mo_flag_bad(err, flag, NULL, "needs rising numbers, as in 1,2,4");
    return MOIRE_OK;
}

static int measure_on_device(struct mo_bench_session *s, const struct mo_options *o, json_t *rows,
                             moire_error *err) {
    struct mo_profile_device_options d = {.device = o->device,
                                          .process = o->process,
                                          .libraries = o->libraries,
                                          .cache = s->device_cache,
                                          .folder = o->output,
                                          .pairs = o->pairs,
                                          .precision = o->precision,
                                          .models = o->operands.word,
                                          .n_models = o->operands.n,
                                          .n_units = o->units.n,
                                          .gpu = o->gpu,
                                          .repetitions = o->repetitions,
                                          .max_batch = o->max_batch,
                                          .resume = o->resume,
                                          .shapes = o->shapes.shape,
                                          .n_shapes = o->shapes.n,
                                          .rows = o->json ? rows : NULL};
    for (int i = 0; i < o->units.n; i++)
        d.units[i] = (int)o->units.value[i];
    return mo_profile_device(s, &d, err);
}

static int measure_all(struct mo_bench_session *s, const struct mo_options *o, json_t *rows,
                       moire_error *err) {
    int code = check_rising("--pressure", &o->levels, err);
    if (!code) code = check_rising("--units", &o->units, err);
    if (code) return code;
    mo_bench_warn_busy(s);
    if (o->device) return measure_on_device(s, o, rows, err);
    for (int i = 0; !code && i < o->operands.n; i++)
        code = mo_bench_interrupted(s) ? mo_fail(err, MOIRE_EINTERRUPTED, "interrupted")
                                       : measure(s, o, o->operands.word[i], rows, err);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    int code = mo_bench_open(env, o, &session, &paths, &err);
    if (code) return mo_verb_fail(o, &err);
    json_t *document = json_pack("{s:[]}", "profiles");
    code = document ? measure_all(&session, o, json_object_get(document, "profiles"), &err)
                    : mo_fail(&err, MOIRE_ENOMEM, "out of memory");
    mo_bench_session_close(&session);
    if (!code && o->json) code = mo_print_json(document, &err);
    code = code ? mo_verb_fail_with(o, &err, document) : MO_EXIT_OK;
    json_decref(document);
    return code;
}

const struct mo_verb mo_verb_profile = {
    .name = "profile",
    .group = MO_GROUP_MEASURE,
    .summary = "measure layer times by cores, as profiles for the simulator",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_PROFILE, .operands = "FILE.onnx|NAME ..."}},
    .run = run,
};
