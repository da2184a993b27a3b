/* SPDX-License-Identifier: Apache-2.0
 * bench_common.c - see bench_common.h. */
#define _GNU_SOURCE
#include "tools/moire/survey/survey.h"
#include "tools/moire/verbs/bench_common.h"

#include <stdio.h>
#include <string.h>
#include "bench/kernels/kernels.h"
#include "bench/alone/cold.h"
#include "bench/loadgen/loadgen.h"
#include "bench/report/headline.h"
#include "bench/report/report.h"
#include "bench/search/load_search.h"
#include "bench/search/seed_run.h"
#include "runtime/sched/policy.h"
#include "tools/moire/command_line/known.h"

/* --- options -------------------------------------------------------------------------------------------- */
int mo_bench_open(const struct mo_env *env, const struct mo_options *o, struct mo_bench_session *s,
                  struct mo_bench_paths *paths, moire_error *err) {
    int code = mo_bench_session_open(env, o->argc, o->argv, s, err);
    if (code) return code;
    s->quiet = o->quiet;
    /* these two measure the built-in kernels beside the compiled ones */
    const bool beside = o->command == MO_DO_LATENCY || o->command == MO_DO_COLD;
    s->generic = !beside && (o->generic || o->only_generic);
    s->exact = o->exact;
    s->record = o->record;
    s->pressure = o->pressure;
    s->proxy = o->proxy;
    s->device = o->device;
    s->process = o->process;
    s->libraries = o->libraries;
    s->precision = o->precision;
    s->weights = o->weights;
    if (o->device) s->gpus = o->gpus;
    if (o->models) s->models = o->models;
    if (mo_flag_find(o->command, "--device-cache", 14))
        s->device_cache = mo_path_device_cache(o->cache, paths->cache, sizeof paths->cache);
    if (!mo_flag_find(o->command, "--store", 7)) return MOIRE_OK;
    code = mo_path_store_there(o->store, paths->store, sizeof paths->store, err);
    s->store = code ? NULL : paths->store; /* without a home there is no default, and no compiled kernel */
    if (!code || !o->store) return MOIRE_OK;
    mo_bench_session_close(s);
    return code;
}

int mo_bench_policies(const struct mo_words *names, bool simulated, const char **out, int *n,
                      moire_error *err) {
    *n = 0;
    for (int i = 0; i < names->n; i++) {
        const char *name = names->word[i];
        bool clairvoyant = !strcmp(name, "bound") || !strcmp(name, "offline");
        if (!strcmp(name, "none")) continue;
        if (clairvoyant && !simulated)
            return mo_flag_bad(err, "--policy", name, "only `moire sim` and `moire tables` compute it");
        if (!mo_policy_find(name) && !clairvoyant)
            return mo_known_fail(MO_KNOWN_POLICIES, "--policy", name, err);
        out[(*n)++] = name;
    }
    return MOIRE_OK;
}

int mo_bench_check_weights(const struct mo_options *o, const struct mo_bench_serve_options *s,
                           moire_error *err) {
    bool learned = false;
    for (int i = 0; i < s->n_policies; i++) {
        const struct mo_policy *p = mo_policy_find(s->policies[i]);
        learned |= p && p->learned;
    }
    return o->weights && !learned
               ? mo_fail(err, MOIRE_EINVAL, "--weights goes with a --policy that learned: inss, inss-ni")
               : MOIRE_OK;
}

/* Seeds 1 to --seeds, or those of --seed, or as it was. */
static int take_seeds(const struct mo_options *o, struct mo_bench_serve_options *s, moire_error *err) {
    if (o->seed_count && o->seeds.n)
        return mo_fail(err, MOIRE_EINVAL, "--seeds and --seed: only one of them");
    if (o->seed_count || o->seeds.n) s->n_seeds = o->seed_count ? o->seed_count : o->seeds.n;
    for (int i = 0; i < o->seed_count; i++)
        s->seeds[i] = (uint64_t)i + 1;
    for (int i = 0; i < o->seeds.n; i++)
        s->seeds[i] = (uint64_t)o->seeds.value[i];
    return MOIRE_OK;
}

/* A search takes the verdict of each run, so that has to be a sound one. */
static double seconds(const struct mo_options *o, bool simulated) {
    if (o->seconds > 0) return o->seconds;
    if (!(o->find_max > 0)) return 10;
    return simulated ? 60 : 30;
}

int mo_bench_serve_options(const struct mo_options *o, bool simulated, struct mo_bench_serve_options *s,
                           moire_error *err) {
    *s = (struct mo_bench_serve_options){.n_loads = o->loads.n,
                                         .find_max = o->find_max,
                                         .step = o->step > 0 ? o->step : 0.05,
                                         .max_load = o->max_load > 0 ? o->max_load : 1.2,
                                         .expected = o->expect,
                                         .seconds = seconds(o, simulated),
                                         .enough = MO_BENCH_ENOUGH_QUERIES,
                                         .warmup = 1,
                                         .seeds = {1},
                                         .n_seeds = 1,
                                         .calibration_seconds = o->calibrate > 0 ? o->calibrate : 0.6,
                                         .calibration = o->calibration,
                                         .objective = o->objective};
    if (o->command == MO_DO_SERVE || o->command == MO_DO_SIM) s->warmup = o->warmup;
    memcpy(s->loads, o->loads.value, (size_t)o->loads.n * sizeof *s->loads);
    if (o->arrivals && !mo_process_parse(o->arrivals, &s->process))
        return mo_flag_bad(err, "--arrivals", o->arrivals,
                           "must be poisson, uniform, gamma:CV or mmpp:CV with a CV above 1, up to 20");
    int code = mo_bench_policies(&o->policies, simulated, s->policies, &s->n_policies, err);
    return code ? code : take_seeds(o, s, err);
}

int mo_bench_check_grid(const struct mo_bench_serve_options *s, moire_error *err) {
    if (s->max_load / s->step <= MO_BENCH_MAX_GRID) return MOIRE_OK;
    return mo_fail(err, MOIRE_EINVAL, "--step: over %d steps to --max-load", MO_BENCH_MAX_GRID);
}

int mo_bench_check_serve(const struct mo_bench_serve_options *s, moire_error *err) {
    int code = mo_bench_check_grid(s, err);
    if (code) return code;
    if (!s->n_policies && !s->n_peers) return mo_fail(err, MOIRE_EINVAL, "neither a policy nor a peer");
    return MOIRE_OK;
}

unsigned mo_bench_replay_pieces(const struct mo_options *o) {
    unsigned pieces = o->measured || o->costs ? MO_REPLAY_MEASURED : 0;
    if (o->speed) pieces |= MO_REPLAY_MEASURED | MO_REPLAY_LATE | MO_REPLAY_SPEED | MO_REPLAY_STALLS;
    return pieces;
}

/* --- data and results ----------------------------------------------------------------------------------- */
/* The machine's document has no table. */
static bool is_json(const struct mo_options *o) {
    return o->json || o->command == MO_DO_MACHINE;
}

static int write_all(struct mo_bench_session *s, const struct mo_options *o, const json_t *document,
                     moire_error *err) {
    static const struct {
        const char *kind;
        void (*print)(const json_t *document);
    } printers[] = {{"latency", mo_bench_latency_print},
                    {"cold", mo_bench_cold_print},
                    {"survey", mo_survey_print},
                    {"loadgen", mo_loadgen_print},
                    {"kernels", mo_bench_kernels_print}};
    const char *kind = json_string_value(json_object_get(document, "kind"));
    void (*print)(const json_t *) = mo_bench_serve_print; /* a served scenario has no "kind" */
    for (size_t i = 0; kind && i < sizeof printers / sizeof *printers; i++)
        if (!strcmp(kind, printers[i].kind)) print = printers[i].print;
    int code = MOIRE_OK;
    if (!is_json(o) && json_array_size(json_object_get(document, "results")) > 0) print(document);
    if (o->output) code = mo_bench_write_json(s->env, document, o->output, err);
    if (!code && !kind && o->trace) code = mo_bench_write_trace(s->env, document, o->trace, err);
    if (!code && !kind && o->report) code = mo_bench_write_html(s->env, document, o->report, err);
    if (!code && !kind && o->report) mo_bench_say(s, "report in %s", o->report);
    return code;
}

/* The document as it is written: the result of a scenario begins with what it says. */
static json_t *for_readers(const struct mo_env *env, json_t *document) {
    const bool served = !json_object_get(document, "kind") && json_object_get(document, "scenario");
    return served ? mo_headline_first(env, document) : json_incref(document);
}

int mo_bench_conclude(struct mo_bench_session *s, const struct mo_options *o, json_t *document,
                      moire_error *err) {
    moire_error why = {0};
    json_t *shown = document ? for_readers(s->env, document) : NULL;
    if (document && !shown && !err->code) mo_fail(err, MOIRE_ENOMEM, "out of memory for the result");
    if (shown && write_all(s, o, shown, &why) && !err->code) *err = why;
    if (shown && !err->code && is_json(o)) (void)mo_print_json(shown, err);
    int code = err->code ? mo_verb_fail_with(o, err, shown) : MO_EXIT_OK;
    json_decref(shown);
    return code;
}
