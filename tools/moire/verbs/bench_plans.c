/* SPDX-License-Identifier: Apache-2.0
 * bench_plans.c - `moire bench plans`: planners of lets side by side; see bench/plans/plans.h. */
#include <stdio.h>
#include <unistd.h>
#include "bench/data/loads.h"
#include "bench/data/experiment.h"
#include "bench/plans/plans.h"
#include "bench/report/headline.h"
#include "bench/report/report.h"
#include "tools/moire/verbs/bench_common.h"

enum { SCENARIOS = 5, PATH = 1200 };
static const char *const scenarios[SCENARIOS] = {"gpulet-equal", "gpulet-long-only", "gpulet-short-skew",
                                                 "game", "traffic"};
static const char *const machines[] = {"gpus4-2080ti", "gpus2-v100"};

struct work {
    struct mo_plans_options plans;
    char path[MO_PLANS_MACHINES + SCENARIOS][PATH];
};

static int find_planners(const struct mo_words *names, struct mo_plans_options *p, moire_error *err) {
    for (int i = 0; i < names->n; i++) {
        const struct mo_planner *planner = mo_planner_find(names->word[i]);
        if (!planner) return mo_known_fail(MO_KNOWN_PLANNERS, "--planner", names->word[i], err);
        p->planner[p->n_planners++] = planner;
    }
    for (int i = 0; !names->n && mo_planners()[i] && p->n_planners < MO_PLANS_PLANNERS; i++)
        p->planner[p->n_planners++] = mo_planners()[i];
    for (int i = 0; !names->n && mo_planners_published()[i] && p->n_planners < MO_PLANS_PLANNERS; i++)
        p->planner[p->n_planners++] = mo_planners_published()[i];
    return MOIRE_OK;
}

static int find_files(struct work *w, const struct mo_options *o, moire_error *err) {
    int code = MOIRE_OK, named = o->machines.n ? o->machines.n : (int)(sizeof machines / sizeof *machines);
    for (int i = 0; !code && i < named; i++) {
        const char *word = o->machines.n ? o->machines.word[i] : machines[i];
        w->plans.machine[w->plans.n_machines++] = w->path[i];
        code = mo_known_find_data(MO_KNOWN_MACHINES, word, w->path[i], PATH, err);
    }
    for (int i = 0; !code && i < SCENARIOS; i++) {
        char *path = w->path[MO_PLANS_MACHINES + i];
        code = mo_known_find_data(MO_KNOWN_SCENARIOS, scenarios[i], path, PATH, err);
        w->plans.scenario[w->plans.n_scenarios++] = path;
    }
    return code ? code : find_planners(&o->planners, &w->plans, err);
}

static void progress(void *ctx, int done, int all) {
    enum { WIDTH = 40 };
    int *shown = ctx, part = (int)((int64_t)WIDTH * done / all);
    if (part == *shown) return;
    *shown = part;
    fprintf(stderr, "\rplans [%.*s%*s] %d of %d ", part, "########################################",
            WIDTH - part, "", done, all);
}

static int compare(const struct mo_env *env, struct work *w, const struct mo_options *o, moire_error *err) {
    json_t *d = NULL;
    int shown = -1;
    bool bar = !o->quiet && isatty(STDERR_FILENO);
    w->plans.progress = bar ? progress : NULL;
    w->plans.ctx = &shown;
    int code = mo_plans_document(env, &w->plans, &d, err);
    if (bar) fprintf(stderr, "\r\033[K");
    if (!code) code = mo_bench_describe(env, d, o->argc, o->argv, err);
    json_t *said = code ? NULL : mo_headline_before(mo_plans_headline(d), d);
    if (said) {
        json_decref(d);
        d = said;
    }
    if (!code && o->output) code = mo_bench_write_json(env, d, o->output, err);
    if (!code && o->report) code = mo_plans_report(env, d, o->report, err);
    if (!code && o->json)
        code = mo_print_json(d, err);
    else if (!code)
        mo_plans_print(d);
    json_decref(d);
    return code;
}

int mo_bench_run_plans(struct mo_bench_session *session, const struct mo_options *o, json_t **document,
                       moire_error *err) {
    const struct mo_env *env = session->env;
    struct work *w = mo_alloc(env, sizeof *w);
    (void)document; /* what it writes is not a table of systems */
    if (!w) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    w->plans = (struct mo_plans_options){.every = o->every_nth,
                                         .load = o->load,
                                         .scaling = !o->no_scaling,
                                         .seed = (uint64_t)o->seed,
                                         .jobs = o->jobs ? o->jobs : session->cores};
    int code = find_files(w, o, err);
    if (!code) code = compare(env, w, o, err);
    mo_free(env, w);
    return code;
}
