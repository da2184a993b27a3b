/* SPDX-License-Identifier: Apache-2.0
 * verb_tables.c - `moire tables`: the policies side by side on a simulated machine; see bench/sim/tables.h.
 */
#include <string.h>
#include "bench/report/headline.h"
#include "bench/report/report.h"
#include "bench/load/load_search.h"
#include "bench/sim/tables.h"
#include "runtime/sched/policy.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Simulates every scenario under every arrival process with every policy and prints one table a pair:\n"
    "highest load with 95 % in time (means over seeds, 95 % confidence intervals), share of the bound and "
    "of\n"
    "the best schedule found offline, loads over `layerwise` and `veltair` with what VELTAIR's paper "
    "claims,\n"
    "latency over solo, core-use gap, conflicts and their cost; then all policies at the same loads.  "
    "Without scenarios: the paper's "
    "light,\n"
    "medium, heavy and mix on its 64 cores.\n";

static const char notes[] =
    "Examples:\n"
    "  moire tables --output tables.json --report tables.html\n"
    "  moire tables veltair-mix --policy moire,lanes-reject,bound --arrivals-list poisson --seeds 3\n";

/* `first` if given, a list of policies, and the bound. */
static void choose(struct mo_bench_serve_options *s, const char *first, const struct mo_policy *const *list) {
    s->n_policies = 0;
    if (first) s->policies[s->n_policies++] = first;
    for (; *list && s->n_policies < MO_BENCH_MAX_SYSTEMS - 2; list++)
        s->policies[s->n_policies++] = (*list)->name;
    s->policies[s->n_policies++] = "offline";
    s->policies[s->n_policies++] = "bound";
}

/* Defaults that differ from those of one simulation. */
static int fill_serve(const struct mo_options *o, struct mo_bench_serve_options *s, moire_error *err) {
    enum { SEEDS = 10 };
    if (o->ablation && o->policies.n)
        return mo_fail(err, MOIRE_EINVAL, "--ablation and --policy: only one of them");
    int code = mo_bench_serve_options(o, true, s, err);
    if (o->ablation)
        choose(s, "moire", mo_policy_ablations());
    else if (!o->policies.n)
        choose(s, NULL, mo_policies());
    if (!(o->seconds > 0)) s->seconds = 20;
    for (int i = 0; !o->seed_count && i < SEEDS; i++)
        s->seeds[i] = (uint64_t)i + 1;
    if (!o->seed_count) s->n_seeds = SEEDS;
    s->n_loads = 0; /* these are not points of the search */
    if (!code && s->max_load / s->step > MO_BENCH_MAX_GRID)
        code = mo_fail(err, MOIRE_EINVAL, "--step: over %d steps to --max-load", MO_BENCH_MAX_GRID);
    return code;
}

/* What the tables are asked for, and where it is kept. */
struct work {
    struct mo_bench_tables_options tables;
    char machine[1024], paths[MO_BENCH_MAX_PIECES][1024];
};

static int fill(const struct mo_options *o, struct work *w, moire_error *err) {
    static const char *const shipped[] = {"veltair-light", "veltair-medium", "veltair-heavy", "veltair-mix"};
    struct mo_bench_tables_options *t = &w->tables;
    int given = o->operands.n, named = given ? given : (int)(sizeof shipped / sizeof *shipped);
    if (given > MO_BENCH_MAX_PIECES)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d scenarios", MO_BENCH_MAX_PIECES);
    int code = fill_serve(o, &t->simulate.serve, err);
    if (!code) code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, w->machine, sizeof w->machine, err);
    for (int i = 0; !code && i < named; i++) {
        code = mo_known_find_data(MO_KNOWN_SCENARIOS, given ? o->operands.word[i] : shipped[i], w->paths[i],
                                  sizeof w->paths[i], err);
        t->scenarios[t->n_scenarios++] = w->paths[i];
    }
    for (int i = 0; !code && i < o->processes.n; i++)
        if (!mo_process_parse(o->processes.word[i], &t->processes[t->n_processes++]))
            code = mo_flag_bad(err, "--arrivals-list", o->processes.word[i],
                               "must be poisson, uniform, gamma:CV or mmpp:CV");
    t->simulate.machine = w->machine;
    t->simulate.jobs = o->jobs;
    t->n_loads = o->loads.n;
    memcpy(t->loads, o->loads.value, (size_t)o->loads.n * sizeof *t->loads);
    t->simulate.n_with = o->with.n;
    memcpy(t->simulate.with, o->with.word, (size_t)o->with.n * sizeof *t->simulate.with);
    t->output = o->output;
    t->resume = o->resume;
    return code;
}

static int write_files(const struct mo_env *env, const struct mo_options *o, const json_t *document,
                       moire_error *err) {
    int code = o->output ? mo_bench_write_json(env, document, o->output, err) : MOIRE_OK;
    if (!code && o->report) code = mo_bench_tables_html(env, document, o->report, err);
    return code;
}

/* The document with what its tables say before everything else; itself when memory is out.  Takes it. */
static json_t *say_first(json_t *document) {
    json_t *said = mo_headline_before(mo_bench_tables_headline(document), document);
    if (!said) return document;
    json_decref(document);
    return said;
}

static int tables(struct mo_bench_session *session, const struct mo_options *o, struct work *w) {
    json_t *document = NULL;
    moire_error err = {0}, why = {0};
    int code = fill(o, w, &err);
    if (!code) code = mo_bench_tables(session, &w->tables, &document, &err);
    if (document) document = say_first(document);
    if (document && !o->json) mo_bench_tables_print(document);
    if (document && write_files(session->env, o, document, &why) && !code) {
        code = why.code;
        err = why;
    }
    if (!code && o->json) code = mo_print_json(document, &err);
    int exit = code ? mo_verb_fail_with(o, &err, document) : MO_EXIT_OK;
    json_decref(document);
    return exit;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    struct work *w = mo_alloc(env, sizeof *w);
    if (!w) return mo_verb_fail(o, (mo_fail(&err, MOIRE_ENOMEM, "out of memory"), &err));
    int code = mo_bench_open(env, o, &session, &paths, &err);
    if (code) {
        code = mo_verb_fail(o, &err);
    } else {
        code = tables(&session, o, w);
        mo_bench_session_close(&session);
    }
    mo_free(env, w);
    return code;
}

const struct mo_verb mo_verb_tables = {
    .name = "tables",
    .group = MO_GROUP_SIMULATE,
    .summary = "compare policies on a simulated machine, with the paper's claims",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_TABLES, .operands = "[SCENARIO ...]"}},
    .run = run,
};
