/* SPDX-License-Identifier: Apache-2.0
 * bench_plans.c - `moire bench plans`: planners of lets side by side; see bench/plans/plans.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/loads.h"
#include "bench/data/experiment.h"
#include "bench/plans/plans.h"
#include "bench/report/report.h"
#include "tools/moire/bench_options.h"

enum { SCENARIOS = 5, PATH = 1200 };
static const char *const scenarios[SCENARIOS] = {"gpulet-equal", "gpulet-long-only", "gpulet-short-skew",
                                                 "game", "traffic"};
static const char *const machines[] = {"gpus4-2080ti", "gpus2-v100"};

struct options {
    struct mo_plans_options plans;
    const char *report, *output;
    bool json, quiet;
    char path[MO_PLANS_MACHINES + SCENARIOS][PATH];
};

/* A comma list of planners, cut up in place. */
static int take_planners(struct options *o, char *list, moire_error *err) {
    o->plans.n_planners = 0;
    for (char *word = list ? strtok(list, ",") : NULL; word; word = strtok(NULL, ",")) {
        const struct mo_planner *p = mo_planner_find(word);
        if (!p) return mo_fail(err, MOIRE_EINVAL, "--planner %s: no such planner", word);
        if (o->plans.n_planners == MO_PLANS_PLANNERS)
            return mo_fail(err, MOIRE_EINVAL, "--planner: too many planners");
        o->plans.planner[o->plans.n_planners++] = p;
    }
    return o->plans.n_planners ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "--planner needs planners");
}

static int take_machine(struct options *o, const struct mo_bench_session *s, const char *word,
                        moire_error *err) {
    if (!word || o->plans.n_machines == MO_PLANS_MACHINES)
        return mo_fail(err, MOIRE_EINVAL, "--machine needs a name, or has too many");
    char *path = o->path[o->plans.n_machines];
    o->plans.machine[o->plans.n_machines++] = path;
    return mo_bench_find_data(s, "machines", word, path, PATH, err);
}

static int take(struct options *o, const struct mo_bench_session *s, struct mo_args *a, moire_error *err) {
    if (mo_args_flag(a, "--every", true))
        return mo_bench_whole("--every", a->value, 1, MO_LOADS_GRID, &o->plans.every, err);
    if (mo_args_flag(a, "--jobs", true))
        return mo_bench_whole("--jobs", a->value, 1, 64, &o->plans.jobs, err);
    if (mo_args_flag(a, "--load", true))
        return mo_bench_number("--load", a->value, 0.01, 100, &o->plans.load, err);
    if (mo_args_flag(a, "--seed", true)) {
        int64_t seed;
        if (!mo_args_whole(a->value, 0, INT64_MAX, &seed))
            return mo_bench_bad_flag(err, "--seed", a->value, "must be a whole number");
        o->plans.seed = (uint64_t)seed;
        return MOIRE_OK;
    }
    if (mo_args_flag(a, "--machine", true)) return take_machine(o, s, a->value, err);
    if (mo_args_flag(a, "--planner", true)) return take_planners(o, (char *)a->value, err);
    if (mo_args_flag(a, "--report", true)) {
        o->report = a->value;
        return o->report ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "--report needs a file");
    }
    if (mo_args_flag(a, "--output", true)) {
        o->output = a->value;
        return o->output ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "--output needs a file");
    }
    const struct {
        const char *flag;
        bool *to, value;
    } words[] = {
        {"--json", &o->json, true}, {"--quiet", &o->quiet, true}, {"--no-scaling", &o->plans.scaling, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (mo_args_flag(a, words[i].flag, false)) {
            *words[i].to = words[i].value;
            return MOIRE_OK;
        }
    return mo_bench_bad_flag(err, a->argv[a->at], NULL, "no such flag; see moire bench --help");
}

static int complete(struct options *o, const struct mo_bench_session *s, moire_error *err) {
    int code = MOIRE_OK;
    bool none = !o->plans.n_machines;
    for (size_t i = 0; !code && none && i < sizeof machines / sizeof *machines; i++)
        code = take_machine(o, s, machines[i], err);
    bool all = !o->plans.n_planners;
    for (int i = 0; all && mo_planners()[i] && i < MO_PLANS_PLANNERS; i++)
        o->plans.planner[o->plans.n_planners++] = mo_planners()[i];
    for (int i = 0; !code && i < SCENARIOS; i++) {
        char *path = o->path[MO_PLANS_MACHINES + i];
        code = mo_bench_find_data(s, "scenarios", scenarios[i], path, PATH, err);
        o->plans.scenario[o->plans.n_scenarios++] = path;
    }
    return code;
}

static void progress(void *ctx, int done, int all) {
    enum { WIDTH = 40 };
    int *shown = ctx, part = (int)((int64_t)WIDTH * done / all);
    if (part == *shown) return;
    *shown = part;
    fprintf(stderr, "\rplans [%.*s%*s] %d of %d ", part, "########################################",
            WIDTH - part, "", done, all);
}

static int compare(const struct mo_env *env, struct options *o, int argc, char **argv, moire_error *err) {
    json_t *d = NULL;
    int shown = -1;
    bool bar = !o->quiet && isatty(STDERR_FILENO);
    o->plans.progress = bar ? progress : NULL;
    o->plans.ctx = &shown;
    int code = mo_plans_document(env, &o->plans, &d, err);
    if (bar) fprintf(stderr, "\r\033[K");
    if (!code) code = mo_bench_describe(env, d, argc, argv, err);
    if (!code && o->output) code = mo_bench_write_json(env, d, o->output, err);
    if (!code && o->report) code = mo_plans_report(env, d, o->report, err);
    if (!code && o->json)
        code = mo_bench_print_json(d, err);
    else if (!code)
        mo_plans_print(d);
    json_decref(d);
    return code;
}

int mo_bench_run_plans(const struct mo_env *env, int argc, char **argv, moire_error *err) {
    struct mo_args args = {.argc = argc, .argv = argv, .at = 2};
    struct mo_bench_session session;
    struct options *o = mo_alloc(env, sizeof *o);
    if (!o) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    o->plans = (struct mo_plans_options){.every = 1, .load = 1, .scaling = true, .seed = 1};
    int code = mo_bench_session_open(env, argc, argv, &session, err);
    bool opened = !code;
    if (opened) o->plans.jobs = session.cores;
    while (!code && args.at < argc)
        code = take(o, &session, &args, err);
    if (!code) code = complete(o, &session, err);
    if (!code) code = compare(env, o, argc, argv, err);
    if (opened) mo_bench_session_close(&session);
    mo_free(env, o);
    return code;
}
