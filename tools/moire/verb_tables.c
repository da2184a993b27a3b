/* SPDX-License-Identifier: Apache-2.0
 * verb_tables.c - `moire tables`: the policies side by side on a simulated machine; see bench/sim/tables.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/report/report.h"
#include "bench/load/search.h"
#include "bench/sim/tables.h"
#include "runtime/sched/policy.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire tables [SCENARIO ...] [--machine FILE.json] [--policy P,...] [--arrivals-list A,...]\n"
    "                    [--find-max SHARE] [--seconds S] [--seeds N] [--jobs N]\n"
    "                    [--output F.json [--resume]] [--report F.html] [--json]\n\n"
    "Simulates every scenario under every arrival process with every policy and prints one table a pair:\n"
    "highest load with 95 % in time (means over seeds, 95 % confidence intervals), share of the bound and "
    "of\n"
    "the best schedule found offline, loads over `layerwise` and `veltair` with what VELTAIR's paper "
    "claims,\n"
    "latency over solo, core-use gap, conflicts a query and their cost.  Without scenarios: the paper's "
    "light,\n"
    "medium, heavy and mix on its 64 cores.\n\n"
    "  --machine FILE         cores64 by default\n"
    "  --policy P,...         all by default, `offline` and `bound`\n"
    "  --ablation             the policies are moire, moire less one part each, and the bound\n"
    "  --arrivals-list A,...  poisson,gamma:4,mmpp:4 by default\n"
    "  --find-max SHARE       0.95 by default\n"
    "  --seconds S            simulated time of a probe, 20 by default\n"
    "  --seeds N              10 by default\n"
    "  --step S, --max-load L grid of the search, 0.025 and 1.6 by default\n"
    "  --jobs N               worker processes, one a core of this machine by default\n"
    "  --output F.json        the document; grows piece by piece\n"
    "  --resume               goes on with the pieces that F.json lacks\n"
    "  --report F.html        a self-contained page\n"
    "  --json                 the document on stdout\n"
    "  --quiet                no progress on stderr\n\n"
    "Examples:\n"
    "  moire tables --output tables.json --report tables.html\n"
    "  moire tables veltair-mix --policy moire,lanes-reject,bound --arrivals-list poisson --seeds 3\n";

struct tables_options {
    struct mo_bench_options bench;
    const char *machine, *processes;
    int jobs;
    char paths[MO_BENCH_MAX_PIECES][1024];
};

/* `first` if given, a list of policies, and the bound. */
static void choose(struct tables_options *o, const char *first, const struct mo_policy *const *list) {
    struct mo_bench_serve_options *s = &o->bench.serve;
    s->n_policies = 0;
    if (first) s->policies[s->n_policies++] = first;
    for (; *list && s->n_policies < MO_BENCH_MAX_SYSTEMS - 2; list++)
        s->policies[s->n_policies++] = (*list)->name;
    s->policies[s->n_policies++] = "offline";
    s->policies[s->n_policies++] = "bound";
}

static int own(struct tables_options *o, struct mo_args *args, bool *took, moire_error *err) {
    int code = MOIRE_OK;
    *took = true;
    if (mo_args_flag(args, "--machine", true)) {
        o->machine = args->value;
    } else if (mo_args_flag(args, "--arrivals-list", true)) {
        o->processes = args->value;
    } else if (mo_args_flag(args, "--ablation", false)) {
        choose(o, "moire", mo_policy_ablations());
    } else if (mo_args_flag(args, "--jobs", true)) {
        code = mo_bench_whole("--jobs", args->value, 1, 64, &o->jobs, err);
    } else {
        *took = false;
    }
    return code;
}

static int parse(struct tables_options *o, struct mo_args *args, moire_error *err) {
    while (args->at < args->argc) {
        bool took;
        int code = own(o, args, &took, err);
        if (!code && !took) code = mo_bench_options_take(&o->bench, args, &took, err);
        if (code) return code;
        if (!took)
            return mo_bench_bad_flag(err, args->argv[args->at], NULL,
                                     "no such flag; see moire tables --help");
    }
    if (!o->machine || !o->processes)
        return mo_fail(err, MOIRE_EINVAL, "--machine and --arrivals-list need a value");
    if (o->bench.latency.n_models > MO_BENCH_MAX_PIECES)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d scenarios", MO_BENCH_MAX_PIECES);
    if (o->bench.serve.max_load / o->bench.serve.step > MO_BENCH_MAX_GRID)
        return mo_fail(err, MOIRE_EINVAL, "--step: over %d steps to --max-load", MO_BENCH_MAX_GRID);
    return MOIRE_OK;
}

/* Defaults that differ from those of one simulation. */
static void set_defaults(struct tables_options *o) {
    struct mo_bench_serve_options *s = &o->bench.serve;
    *s = mo_bench_serve_defaults();
    choose(o, NULL, mo_policies());
    s->find_max = 0.95;
    s->seconds = 20;
    s->step = 0.025;
    s->max_load = 1.6;
    s->n_seeds = 10;
    for (int i = 0; i < s->n_seeds; i++)
        s->seeds[i] = (uint64_t)i + 1;
    o->bench.simulated = true;
    o->bench.reader = MO_READS_TABLES;
    o->machine = "cores64";
}

static int fill(const struct mo_bench_session *session, struct tables_options *o,
                struct mo_bench_tables_options *t, char *list, char *machine, size_t n, moire_error *err) {
    static const char *const shipped[] = {"veltair-light", "veltair-medium", "veltair-heavy", "veltair-mix"};
    char *parts[MO_BENCH_MAX_PIECES];
    int given = o->bench.latency.n_models, named = given ? given : (int)(sizeof shipped / sizeof *shipped);
    int code = mo_bench_find_data(session, "machines", o->machine, machine, n, err);
    for (int i = 0; !code && i < named; i++) {
        code = mo_bench_find_data(session, "scenarios", given ? o->bench.models[i] : shipped[i], o->paths[i],
                                  sizeof o->paths[i], err);
        t->scenarios[t->n_scenarios++] = o->paths[i];
    }
    t->n_processes = mo_bench_split(list, parts, MO_BENCH_MAX_PIECES);
    for (int i = 0; !code && i < t->n_processes; i++)
        if (!mo_process_parse(parts[i], &t->processes[i]))
            code =
                mo_bench_bad_flag(err, "--arrivals-list", parts[i], "must be poisson, gamma:CV or mmpp:CV");
    if (!code && t->n_processes < 1)
        code = mo_bench_bad_flag(err, "--arrivals-list", "", "needs processes with commas between");
    t->simulate =
        (struct mo_bench_simulate_options){.serve = o->bench.serve, .machine = machine, .jobs = o->jobs};
    if (o->bench.seconds > 0) t->simulate.serve.seconds = o->bench.seconds;
    t->output = o->bench.output;
    t->resume = o->bench.resume;
    return code;
}

static int write_outputs(const struct mo_env *env, const struct mo_bench_options *o, const json_t *document,
                         moire_error *err) {
    int code = MOIRE_OK;
    if (!o->json)
        mo_bench_tables_print(document);
    else
        code = mo_bench_print_json(document, err);
    if (!code && o->output) code = mo_bench_write_json(env, document, o->output, err);
    if (!code && o->report) code = mo_bench_tables_html(env, document, o->report, err);
    return code;
}

static int dispatch(const struct mo_env *env, struct tables_options *o, int argc, char **argv,
                    moire_error *err) {
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    struct mo_bench_session session;
    struct mo_bench_tables_options tables = {0};
    char machine[1024], list[512];
    json_t *document = NULL;
    int code = mo_bench_session_open(env, argc, argv, &session, err);
    if (code) return code;
    o->processes = "poisson,gamma:4,mmpp:4";
    code = parse(o, &args, err);
    session.quiet = o->bench.quiet;
    if (!code) {
        snprintf(list, sizeof list, "%s", o->processes);
        code = fill(&session, o, &tables, list, machine, sizeof machine, err);
    }
    if (!code) code = mo_bench_tables(&session, &tables, &document, err);
    if (document) {
        moire_error why;
        int wrote = write_outputs(env, &o->bench, document, &why);
        if (wrote && !code) *err = why;
        if (!code) code = wrote;
    }
    json_decref(document);
    mo_bench_session_close(&session);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    moire_error err = {0};
    struct tables_options *o = mo_alloc(env, sizeof *o);
    if (!o) return MO_EXIT_SYSTEM;
    set_defaults(o);
    int code = dispatch(env, o, argc, argv, &err);
    mo_free(env, o);
    return code ? mo_verb_fail("tables", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_tables = {
    .name = "tables",
    .summary = "policies side by side on a simulated machine, beside the paper's claims",
    .usage = usage,
    .outputs = {"--output", "--report", "--trace", "--record"},
    .run = run,
};
