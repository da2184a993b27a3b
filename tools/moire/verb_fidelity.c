/* SPDX-License-Identifier: Apache-2.0
 * verb_fidelity.c - `moire fidelity`: live runs on this machine beside their simulation; see
 * bench/sim/fidelity.h. */
#include <stdio.h>
#include "bench/sim/fidelity.h"
#include "tools/moire/bench_options.h"

static const char usage[] =
    "usage: moire fidelity SCENARIO [--policy P,...] [--load L,...] [--seconds S] [--seed K]\n"
    "                      [--output F.json [--resume]] [--json]\n\n"
    "Serves the scenario live under every policy at every load, records it, and simulates the same arrivals\n"
    "several times over: on the profiles that the runtime has of its models, then with one more quantity as\n"
    "measured each time: service times and starts of a recording made before, the machine's speed over time\n"
    "and its stalls of the run itself.  One run is made twice: live runs differ, too.  It wants the machine\n"
    "to itself.\n\n"
    "  --policy P,...  moire,lanes,fcfs by default\n"
    "  --load L,...    by default 0.5, 0.7 and 0.9 of the highest load at which 95 % are in time, which is\n"
    "                  simulated for each policy with what blocks took in its recording\n"
    "  --seconds S     time of a run that counts, 12 by default\n"
    "  --seed K        of the arrivals\n"
    "  --store DIR     folder of compiled variants;  --generic: built-in kernels only\n"
    "  --models DIR    folder of zoo files, built on first use\n"
    "  --output F.json the document; grows run by run\n"
    "  --resume        goes on with the runs that F.json lacks\n"
    "  --json          the document on stdout\n"
    "  --quiet         no progress on stderr\n\n"
    "Example:\n"
    "  moire fidelity mix --output fidelity.json\n";

static int parse(struct mo_bench_options *o, struct mo_args *args, moire_error *err) {
    while (args->at < args->argc) {
        bool took;
        int code = mo_bench_options_take(o, args, &took, err);
        if (code) return code;
        if (!took)
            return mo_bench_bad_flag(err, args->argv[args->at], NULL,
                                     "no such flag; see moire fidelity --help");
    }
    return o->latency.n_models == 1 ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "needs exactly one scenario");
}

static void set_defaults(struct mo_bench_options *o) {
    static const char *const policies[] = {"moire", "lanes", "fcfs"};
    o->reader = MO_READS_FIDELITY;
    o->serve = mo_bench_serve_defaults();
    o->serve.seconds = 12;
    o->serve.n_policies = 3;
    for (int i = 0; i < 3; i++)
        o->serve.policies[i] = policies[i];
}

static int fidelity(const struct mo_env *env, struct mo_bench_options *o, int argc, char **argv,
                    moire_error *err) {
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    struct mo_bench_session session;
    char scenario[1024];
    json_t *document = NULL;
    int code = mo_bench_session_open(env, argc, argv, &session, err);
    if (code) return code;
    set_defaults(o);
    code = parse(o, &args, err);
    session.quiet = o->quiet;
    session.generic = o->generic;
    if (!code)
        code = mo_bench_find_data(&session, "scenarios", o->latency.n_models ? o->models[0] : "", scenario,
                                  sizeof scenario, err);
    if (!code) code = mo_bench_use_store(&session, o, err);
    if (!code) {
        struct mo_bench_fidelity_options f = {.serve = o->serve, .output = o->output, .resume = o->resume};
        if (o->models_folder) session.models = o->models_folder;
        f.serve.scenario = scenario;
        if (o->seconds > 0) f.serve.seconds = o->seconds;
        mo_bench_warn_busy(&session);
        code = mo_bench_fidelity(&session, &f, &document, err);
    }
    if (document && !o->json) mo_bench_fidelity_print(document);
    if (document && o->json && mo_bench_print_json(document, err)) code = MOIRE_EIO;
    json_decref(document);
    mo_bench_session_close(&session);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    moire_error err = {0};
    struct mo_bench_options *o = mo_alloc(env, sizeof *o);
    if (!o) return MO_EXIT_SYSTEM;
    int code = fidelity(env, o, argc, argv, &err);
    mo_free(env, o);
    return code ? mo_verb_fail("fidelity", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_fidelity = {
    .name = "fidelity",
    .summary = "live runs on this machine beside their simulation",
    .usage = usage,
    .outputs = {"--output", "--report", "--trace", "--record"},
    .run = run,
};
