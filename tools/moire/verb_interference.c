/* SPDX-License-Identifier: Apache-2.0
 * verb_interference.c - `moire interference`: the linear model of models side by side on a GPU, fitted to
 * measured pairs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/experiment.h"
#include "bench/fit/interference_fit.h"
#include "bench/data/machine.h"
#include "bench/report/report.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire interference fit PAIRS.csv [--against MACHINE] [--seed N] [--splits N]\n"
    "                              [--plot F.svg] [--output F.json] [--json]\n\n"
    "Fits slowdown = c1 l2_self + c2 l2_other + c3 memory_self + c4 memory_other + c5 to half of the "
    "measured\n"
    "pairs by least squares and tests it on the other half.  PAIRS.csv (bench/data/pairs.h) lies beside the\n"
    "profiles of its models.\n\n"
    "  --against MACHINE  tests the constants of that machine's GPUs on the same pairs; may be repeated\n"
    "  --seed N           of the split, 1 by default\n"
    "  --splits N         halves drawn to see how far the error depends on the draw, 20 by default\n"
    "  --plot F.svg       distribution of the errors\n"
    "  --output F.json    the document; --json prints it\n\n"
    "Exit codes: 0 done, 2 usage, 3 bad data, 4 no LAPACK (libopenblas0-pthread), system.\n\n"
    "Examples:\n"
    "  moire interference fit bench/gpus/v100/pairs.csv --against gpus4-2080ti --plot errors.svg\n";

enum { MAX_SPLITS = 1000 };

struct options {
    struct mo_interference_options fit;
    const char *pairs, *plot, *output, *against[MO_INTERFERENCE_MODELS];
    int n_against;
    bool json;
    char name[MO_INTERFERENCE_MODELS][80];
};

static int parse(struct options *o, struct mo_args *a, moire_error *err) {
    const struct {
        const char *flag, **to;
    } texts[] = {{"--plot", &o->plot}, {"--output", &o->output}, {"--against", NULL}};
    int64_t seed = 1;
    int code = MOIRE_OK;
    o->fit.splits = 20;
    while (!code && a->at < a->argc) {
        bool took = false;
        for (size_t i = 0; !took && i < sizeof texts / sizeof *texts; i++) {
            took = mo_args_flag(a, texts[i].flag, true);
            if (!took) continue;
            if (!a->value || (!texts[i].to && o->n_against == MO_INTERFERENCE_MODELS))
                return mo_fail(err, MOIRE_EINVAL, "%s needs a value, or has too many", texts[i].flag);
            *(texts[i].to ? texts[i].to : &o->against[o->n_against++]) = a->value;
        }
        if (took) continue;
        if (mo_args_flag(a, "--seed", true))
            code = mo_args_whole(a->value, 1, INT64_MAX, &seed)
                       ? MOIRE_OK
                       : mo_fail(err, MOIRE_EINVAL, "--seed wants a whole number from 1 on");
        else if (mo_args_flag(a, "--splits", true))
            code = mo_bench_whole("--splits", a->value, 1, MAX_SPLITS, &o->fit.splits, err);
        else if (mo_args_flag(a, "--json", false))
            o->json = true;
        else if (a->argv[a->at][0] == '-' || o->pairs)
            code = mo_fail(err, MOIRE_EINVAL, "%s: no such flag, or a second file", a->argv[a->at]);
        else
            o->pairs = a->argv[a->at++];
    }
    o->fit.seed = (uint64_t)seed;
    return code || o->pairs ? code : mo_fail(err, MOIRE_EINVAL, "needs a file of pairs");
}

/* One row for each type of GPU of the machines named. */
static int read_others(const struct mo_bench_session *s, struct options *o, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && i < o->n_against; i++) {
        struct mo_bench_machine m;
        char path[1200];
        code = mo_bench_find_data(s, "machines", o->against[i], path, sizeof path, err);
        if (!code) code = mo_bench_machine_open(s->env, path, &m, err);
        if (code) break;
        for (int g = 0; g < m.n_gpus && o->fit.n_others < MO_INTERFERENCE_MODELS; g++) {
            int at = o->fit.n_others++;
            snprintf(o->name[at], sizeof o->name[at], "%.70s", m.gpus[g].kind.name);
            o->fit.other[at] = (struct mo_interference_row){o->name[at], m.gpus[g].kind.interference};
        }
        mo_bench_machine_close(&m);
    }
    return code;
}

static int write_out(const struct mo_env *env, const struct options *o, const json_t *d, moire_error *err) {
    int code = o->output ? mo_bench_write_json(env, d, o->output, err) : MOIRE_OK;
    if (!code && o->plot) code = mo_interference_plot(env, d, o->plot, err);
    if (code) return code;
    if (o->json) return mo_bench_print_json(d, err);
    mo_interference_print(d);
    return MOIRE_OK;
}

static int fit(const struct mo_bench_session *s, struct options *o, int argc, char **argv, moire_error *err) {
    struct mo_pairs pairs = {0};
    json_t *d = NULL;
    int code = read_others(s, o, err);
    if (!code) code = mo_pairs_load(s->env, o->pairs, &pairs, err);
    if (!code) code = mo_interference_document(&pairs, &o->fit, &d, err);
    if (!code) code = mo_bench_describe(s->env, d, argc, argv, err);
    if (!code) code = write_out(s->env, o, d, err);
    json_decref(d);
    mo_pairs_free(&pairs);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    struct options o = {0};
    struct mo_args args = {.argc = argc, .argv = argv, .at = 2};
    struct mo_bench_session session;
    moire_error err = {0};
    if (argc < 2 || strcmp(argv[1], "fit") != 0) {
        fprintf(stderr, "moire interference: fit; `moire interference --help` explains\n");
        return MO_EXIT_USAGE;
    }
    int code = parse(&o, &args, &err);
    bool opened = !code && !(code = mo_bench_session_open(env, argc, argv, &session, &err));
    if (!code) code = fit(&session, &o, argc, argv, &err);
    if (opened) mo_bench_session_close(&session);
    return code ? mo_verb_fail("interference", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_interference = {
    .name = "interference",
    .summary = "models side by side on a GPU: the linear model fitted to measured pairs",
    .usage = usage,
    .outputs = {"--plot", "--output"},
    .run = run,
};
