/* SPDX-License-Identifier: Apache-2.0
 * verb_whatif.c - `moire whatif`: a recorded run on other cores, under other policies; see
 * bench/sim/replay.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/sim/replay.h"
#include "bench/report/report.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/replay_options.h"

enum { MOST = 1024 };

static const char usage[] =
    "usage: moire whatif TRACE [--cores N] [--policy P,...] [--machine FILE.json] [--measured]\n"
    "                    [--costs TRACE] [--speed] [--draws N] [--json] [--output F.json]\n\n"
    "Plays the arrivals of a recorded run (`moire bench serve --record`, moire_record()) in the simulator, "
    "on\n"
    "its own profiles.  Without flags as it was recorded: what the simulator predicts beside what happened,\n"
    "tenant by tenant.  With --cores or --policy: what these would have done.  Beyond the core counts that\n"
    "the trace has times for, layers follow Amdahl's law through the two largest.\n\n"
    "  --cores N            cores, as recorded by default\n"
    "  --policy P,...       policies, as recorded by default\n"
    "  --machine FILE       a file or a name in bench/machines: its costs beside the kernels; else 3 us a\n"
    "                       block\n" MO_REPLAY_USAGE
    "  --draws N            the mean of so many simulations, 1 by default\n"
    "  --json               the document on stdout instead of the table\n"
    "  --output F.json      the document to a file besides\n\n"
    "Examples:\n"
    "  moire bench serve mix --policy moire --load 0.6 --record run.trace\n"
    "  moire whatif run.trace\n"
    "  moire whatif run.trace --cores 16 --policy moire,lanes-reject\n";

static int take(struct mo_bench_replay_options *r, struct mo_bench_options *o, struct mo_args *args,
                bool *took, moire_error *err) {
    *took = true;
    if (mo_args_flag(args, "--cores", true))
        return mo_bench_whole("--cores", args->value, 1, MOST, &r->cores, err);
    if (mo_args_flag(args, "--draws", true))
        return mo_bench_whole("--draws", args->value, 1, MOST, &r->draws, err);
    if (mo_args_flag(args, "--machine", true)) {
        r->machine = args->value;
        return r->machine ? MOIRE_OK : mo_bench_bad_flag(err, "--machine", NULL, "needs a file");
    }
    int code = mo_replay_options_take(r, args, took, err);
    return code || *took ? code : mo_bench_options_take(o, args, took, err);
}

static int parse(struct mo_bench_replay_options *r, struct mo_bench_options *o, struct mo_args *args,
                 moire_error *err) {
    while (args->at < args->argc) {
        bool took;
        int code = take(r, o, args, &took, err);
        if (code) return code;
        if (!took)
            return mo_bench_bad_flag(err, args->argv[args->at], NULL,
                                     "no such flag; see moire whatif --help");
    }
    if (o->latency.n_models != 1) return mo_fail(err, MOIRE_EINVAL, "needs exactly one trace");
    r->trace = o->models[0];
    r->n_policies = o->serve.n_policies;
    for (int i = 0; i < r->n_policies; i++)
        r->policies[i] = o->serve.policies[i];
    return MOIRE_OK;
}

static int whatif(const struct mo_env *env, struct mo_bench_options *o, int argc, char **argv,
                  moire_error *err) {
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    struct mo_bench_replay_options r = {0};
    struct mo_bench_session session;
    char machine[1024];
    json_t *document = NULL;
    int code = mo_bench_session_open(env, argc, argv, &session, err);
    if (code) return code;
    code = parse(&r, o, &args, err);
    if (!code && r.machine) {
        code = mo_bench_find_data(&session, "machines", r.machine, machine, sizeof machine, err);
        r.machine = machine;
    }
    if (!code) code = mo_bench_replay(env, &r, &document, err);
    if (!code && !o->json) mo_bench_replay_print(document);
    if (!code && o->json) code = mo_bench_print_json(document, err);
    if (!code && o->output) code = mo_bench_write_json(env, document, o->output, err);
    json_decref(document);
    mo_bench_session_close(&session);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    moire_error err = {0};
    struct mo_bench_options *o = mo_alloc(env, sizeof *o);
    if (!o) return MO_EXIT_SYSTEM;
    o->reader = MO_READS_WHATIF;
    int code = whatif(env, o, argc, argv, &err);
    mo_free(env, o);
    return code ? mo_verb_fail("whatif", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_whatif = {
    .name = "whatif",
    .summary = "a recorded run in the simulator: as it was, on other cores, under other policies",
    .usage = usage,
    .outputs = {"--output", "--report", "--trace", "--record"},
    .run = run,
};
