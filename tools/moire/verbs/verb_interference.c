/* SPDX-License-Identifier: Apache-2.0
 * verb_interference.c - `moire interference`: the linear model of models side by side on a GPU, or InSS's
 * latency model, fitted to measured pairs. */
#include <stdio.h>
#include <string.h>
#include "bench/data/experiment.h"
#include "bench/fit/inss_check.h"
#include "bench/fit/interference_fit.h"
#include "bench/data/machine.h"
#include "bench/report/report.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Fits slowdown = c1 l2_self + c2 l2_other + c3 memory_self + c4 memory_other + c5 to half of the "
    "measured\n"
    "pairs by least squares and tests it on the other half.  PAIRS.csv (bench/data/pairs.h) lies beside the\n"
    "profiles of its models.  --model inss fits InSS's latency model to 16 solo runs (batches 1, 4, 16, 32\n"
    "on 20, 40, 60, 80 % of the GPU) and 3 runs beside others of each model, and tests it on all else.\n";

static const char notes[] =
    "Exit code 4: also when there is no LAPACK (libopenblas0-pthread).\n"
    "\n"
    "Examples:\n"
    "  moire interference fit bench/gpus/v100/pairs.csv --against gpus4-2080ti --plot errors.svg\n"
    "  moire interference fit bench/gpus/v100/pairs.csv --model inss\n";

struct work {
    const struct mo_options *o;
    struct mo_interference_options fit;
    char name[MO_INTERFERENCE_MODELS][80];
};

/* One row for each type of GPU of the machines named. */
static int read_others(const struct mo_bench_session *s, struct work *w, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && i < w->o->against.n; i++) {
        struct mo_bench_machine m;
        char path[1200];
        code = mo_known_find_data(MO_KNOWN_MACHINES, w->o->against.word[i], path, sizeof path, err);
        if (!code) code = mo_bench_machine_open(s->env, path, &m, err);
        if (code) break;
        for (int g = 0; g < m.n_gpus && w->fit.n_others < MO_INTERFERENCE_MODELS; g++) {
            int at = w->fit.n_others++;
            snprintf(w->name[at], sizeof w->name[at], "%.70s", m.gpus[g].kind.name);
            w->fit.other[at] = (struct mo_interference_row){w->name[at], m.gpus[g].kind.interference};
        }
        mo_bench_machine_close(&m);
    }
    return code;
}

static bool inss(const struct mo_options *o) {
    return !strcmp(o->model, "inss");
}

static int write_out(const struct mo_env *env, const struct mo_options *o, const json_t *d,
                     moire_error *err) {
    int code = o->output ? mo_bench_write_json(env, d, o->output, err) : MOIRE_OK;
    if (!code && o->plot) code = mo_interference_plot(env, d, o->plot, err);
    if (code) return code;
    if (o->json) return mo_print_json(d, err);
    (inss(o) ? mo_inss_print : mo_interference_print)(d);
    return MOIRE_OK;
}

static int fit_inss(const struct mo_pairs *pairs, const struct mo_options *o, json_t **out,
                    moire_error *err) {
    const struct mo_inss_options options = {(uint64_t)o->seed, o->splits, mo_inss_grid()};
    moire_error why = {0};
    if (o->plot || o->against.n)
        return mo_fail(err, MOIRE_EINVAL, "--plot and --against go with --model linear, not with inss");
    int code = mo_inss_document(pairs, &options, out, &why);
    return code ? mo_fail(err, code, "%s: %s", o->operands.word[0], why.message) : MOIRE_OK;
}

static int fit(const struct mo_bench_session *s, struct work *w, moire_error *err) {
    struct mo_pairs pairs = {0};
    json_t *d = NULL;
    int code = read_others(s, w, err);
    if (!code) code = mo_pairs_load(s->env, w->o->operands.word[0], &pairs, err);
    if (!code)
        code =
            inss(w->o) ? fit_inss(&pairs, w->o, &d, err) : mo_interference_document(&pairs, &w->fit, &d, err);
    if (!code) code = mo_bench_describe(s->env, d, w->o->argc, w->o->argv, err);
    if (!code) code = write_out(s->env, w->o, d, err);
    json_decref(d);
    mo_pairs_free(&pairs);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    struct work w = {.o = o, .fit = {.splits = o->splits, .seed = (uint64_t)o->seed}};
    struct mo_bench_session session;
    moire_error err = {0};
    int code = mo_bench_session_open(env, o->argc, o->argv, &session, &err);
    if (code) return mo_verb_fail(o, &err);
    code = fit(&session, &w, &err);
    mo_bench_session_close(&session);
    return code ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_interference = {
    .name = "interference",
    .group = MO_GROUP_MEASURE,
    .summary = "fit the slowdown of models side by side on a GPU",
    .about = about,
    .notes = notes,
    .commands = {{.name = "fit", .command = MO_DO_INTERFERENCE, .operands = "PAIRS.csv"}},
    .run = run,
};
