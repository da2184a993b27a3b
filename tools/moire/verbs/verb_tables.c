/* SPDX-License-Identifier: Apache-2.0
 * verb_tables.c - `moire tables`: the policies side by side on a simulated machine; see bench/sim/tables.h.
 */
#include <string.h>
#include "runtime/sched/policy.h"
#include "tools/moire/verbs/tabulated.h"

static const char about[] =
    "Simulates every scenario under every arrival process with every policy and prints one table a pair:\n"
    "highest load with 95 % in time (means over seeds, 95 % confidence intervals), share of the bound and "
    "of\n"
    "the best schedule found offline, loads over `layerwise` and `veltair` with what VELTAIR's paper "
    "claims,\n"
    "latency over solo, core-use gap, conflicts and their cost; how much of each tenant is in time at those\n"
    "loads; then all policies at the same loads.  Without scenarios: the paper's light, medium, heavy and "
    "mix\n"
    "on its 64 cores.  With --output and --resume it goes on where it was stopped, policy by policy, and\n"
    "takes further policies up.\n";

static const char notes[] =
    "Examples:\n"
    "  moire tables --output tables.json --report tables.html --resume\n"
    "  moire tables veltair-mix --policy moire,lanes-reject,bound --arrivals-list poisson --seeds 3\n";

/* `first` if given, a list of policies, and the bound. */
static void choose(struct mo_bench_serve_options *s, const char *first, const struct mo_policy *const *list) {
    s->n_policies = 0;
    if (first) s->policies[s->n_policies++] = first;
    for (; *list && s->n_policies < MO_BENCH_MAX_POLICIES - 2; list++)
        s->policies[s->n_policies++] = (*list)->name;
    s->policies[s->n_policies++] = "offline";
    s->policies[s->n_policies++] = "bound";
}

static int choose_policies(const struct mo_options *o, struct mo_bench_serve_options *s, moire_error *err) {
    if (o->ablation && o->policies.n)
        return mo_fail(err, MOIRE_EINVAL, "--ablation and --policy: only one of them");
    if (o->ablation)
        choose(s, "moire", mo_policy_ablations());
    else if (!o->policies.n)
        choose(s, NULL, mo_policies());
    return MOIRE_OK;
}

static int fill(const struct mo_options *o, void *work, struct mo_tabulated_paths *paths, moire_error *err) {
    struct mo_bench_tables_options *t = work;
    int code = mo_tabulated_fill(o, paths, &t->simulate, t->scenarios, &t->n_scenarios, err);
    if (!code) code = choose_policies(o, &t->simulate.serve, err);
    for (int i = 0; !code && i < o->processes.n; i++)
        if (!mo_process_parse(o->processes.word[i], &t->processes[t->n_processes++]))
            code = mo_flag_bad(err, "--arrivals-list", o->processes.word[i],
                               "must be poisson, uniform, gamma:CV or mmpp:CV");
    t->n_loads = o->loads.n;
    memcpy(t->loads, o->loads.value, (size_t)o->loads.n * sizeof *t->loads);
    t->output = o->output;
    t->resume = o->resume;
    return code;
}

static int make(struct mo_bench_session *session, const void *work, json_t **document, moire_error *err) {
    return mo_bench_tables(session, work, document, err);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    static const struct mo_tabulated how = {sizeof(struct mo_bench_tables_options),
                                            fill,
                                            make,
                                            mo_bench_tables_headline,
                                            mo_bench_tables_print,
                                            mo_bench_tables_html};
    return mo_tabulated_run(env, o, &how);
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
