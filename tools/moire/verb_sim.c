/* SPDX-License-Identifier: Apache-2.0
 * verb_sim.c - `moire sim`: a scenario under load on a simulated machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/sim/simulate.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/replay_options.h"

static const char usage[] =
    "usage: moire sim SCENARIO --machine FILE.json [--policy P,...] [--load L,...] [--find-max SHARE]\n"
    "                 [--seconds S] [--seeds N | --seed K,...] [--jobs N] [--report F.html] [--json]\n"
    "       moire sim --replay TRACE [--machine FILE.json] [--policy P,...] [--measured] [--costs TRACE]\n"
    "                 [--speed] ...\n\n"
    "Plays a scenario of `moire bench serve` in virtual time: the scheduler and its policies are the live\n"
    "ones, block times come from measured profiles.  Same arrivals, scoring and result document.  The same\n"
    "command gives the same bytes, however many processes work on it.\n\n"
    "SCENARIO is a file or a name in bench/scenarios, the machine a file or a name in bench/machines;\n"
    "profiles are MODEL.csv files in the folder that the machine file names.  Targets that are multiples of\n"
    "the solo time count in the profile's; load 1.0 = rate x one-core solo time keeps all cores busy.\n\n"
    "With --replay the arrivals are those of a recorded run (`moire bench serve --record`,\n"
    "moire_record()), at load 1.00, and the first result is what happened.  Tenants, targets, profiles and\n"
    "cores are the recording's; with --machine the profiles, by the tenants' names, and the cores of "
    "that.\n\n"
    "On machines with GPUs: lets of them by a planner, batches, applications (bench/scenarios/README.md);\n"
    "policies moire-gpu, gpulet-int, sbp, ...  With rates in the scenario load 1.0 is those.\n\n"
    "  --machine FILE       the machine, needed\n"
    "  --policy P,...       policies (moire, fcfs, fcfs-1, ...); bound: an upper limit for any scheduler;\n"
    "                       offline: the best schedule found with all arrivals known\n"
    "  --load L,...         loads to simulate, 0.5 by default\n"
    "  --find-max SHARE     highest load at which SHARE of all queries, and of every tenant's, is in time\n"
    "  --step S             grid of that search, 0.05 by default\n"
    "  --max-load L         end of that grid, 1.2 by default\n"
    "  --expect L           where that search begins, 0.5 by default\n"
    "  --arrivals PROCESS   poisson, gamma:CV or mmpp:CV (bursts of the same index of dispersion)\n"
    "  --seconds S          simulated time that counts, 10 by default\n"
    "  --warmup S           simulated time before it, 1 by default\n"
    "  --seeds N            seeds 1 to N; the summary then has means and 95 % confidence intervals\n"
    "  --seed K,...         these seeds\n"
    "  --jobs N             worker processes, one a core of this machine by default\n"
    "  --cost               measure what decisions cost (real time, so not the same each time)\n"
    "  --calibration F      take QoS targets and solo times from an earlier result\n"
    "  --report F.html      a self-contained page with plots\n"
    "  --replay TRACE       a recorded run in place of a scenario; with it:\n" MO_REPLAY_USAGE
    "  --json               the result document on stdout instead of the tables\n"
    "  --output F.json      the result document to a file besides\n"
    "  --quiet              no progress on stderr\n\n"
    "Examples:\n"
    "  moire sim medium --machine cores64 --policy moire,fcfs --load 0.6 --seconds 60\n"
    "  moire sim medium --machine cores64 --find-max 0.95 --seeds 10 --json\n"
    "  moire sim --replay mix.trace --policy moire,lanes,bound\n";

struct sim_options {
    struct mo_bench_options bench;
    struct mo_bench_replay_options replay;
    const char *machine;
    int jobs;
    bool cost;
};

/* The flags that only this verb has. */
static int own(struct sim_options *o, struct mo_args *args, bool *took, moire_error *err) {
    int code = MOIRE_OK;
    *took = true;
    if (mo_args_flag(args, "--machine", true)) {
        o->machine = args->value;
        if (!o->machine) code = mo_bench_bad_flag(err, "--machine", NULL, "needs a file");
    } else if (mo_args_flag(args, "--jobs", true)) {
        code = mo_bench_whole("--jobs", args->value, 1, 64, &o->jobs, err);
    } else if (mo_args_flag(args, "--cost", false)) {
        o->cost = true;
    } else if (mo_args_flag(args, "--replay", true)) {
        o->replay.trace = args->value;
        if (!o->replay.trace) code = mo_bench_bad_flag(err, "--replay", NULL, "needs a trace");
    } else {
        code = mo_replay_options_take(&o->replay, args, took, err);
    }
    return code;
}

/* What a recording settles cannot be asked for. */
static int check_replay(const struct sim_options *o, moire_error *err) {
    const struct mo_bench_serve_options *s = &o->bench.serve;
    if (o->bench.latency.n_models) return mo_fail(err, MOIRE_EINVAL, "a scenario beside --replay");
    if (s->n_loads || s->find_max > 0 || o->bench.seconds > 0 || s->calibration)
        return mo_fail(
            err, MOIRE_EINVAL,
            "--load, --find-max, --seconds and --calibration: the recording of --replay says that");
    for (int i = 0; i < s->n_policies; i++)
        if (!mo_policy_find(s->policies[i]) && strcmp(s->policies[i], "bound") != 0 &&
            strcmp(s->policies[i], "offline") != 0)
            return mo_fail(err, MOIRE_EINVAL, "no policy '%s'", s->policies[i]);
    return MOIRE_OK;
}

static int parse(struct sim_options *o, struct mo_args *args, moire_error *err) {
    while (args->at < args->argc) {
        bool took;
        int code = own(o, args, &took, err);
        if (!code && !took) code = mo_bench_options_take(&o->bench, args, &took, err);
        if (code) return code;
        if (!took)
            return mo_bench_bad_flag(err, args->argv[args->at], NULL, "no such flag; see moire sim --help");
    }
    if (o->replay.trace) return check_replay(o, err);
    if (o->replay.pieces)
        return mo_fail(err, MOIRE_EINVAL, "--measured, --costs and --speed need --replay TRACE");
    if (!o->machine) return mo_fail(err, MOIRE_EINVAL, "--machine is needed; see moire sim --help");
    return mo_bench_check_serve(&o->bench, err);
}

static int simulate(struct mo_bench_session *session, struct sim_options *o, json_t **document,
                    moire_error *err) {
    char scenario[1024] = "", machine[1024] = "";
    int code = MOIRE_OK;
    if (!o->replay.trace)
        code = mo_bench_find_data(session, "scenarios", o->bench.models[0], scenario, sizeof scenario, err);
    if (!code && o->machine)
        code = mo_bench_find_data(session, "machines", o->machine, machine, sizeof machine, err);
    if (code) return code;
    struct mo_bench_simulate_options s = {
        .serve = o->bench.serve, .machine = machine, .jobs = o->jobs, .cost = o->cost, .replay = o->replay};
    s.replay.machine = o->machine ? machine : NULL;
    s.replay.machine_profiles = o->machine != NULL;
    s.serve.scenario = scenario;
    if (o->bench.seconds > 0) s.serve.seconds = o->bench.seconds;
    if (!s.serve.n_loads && !(s.serve.find_max > 0)) s.serve.loads[s.serve.n_loads++] = 0.5;
    return mo_bench_simulate(session, &s, document, err);
}

static int dispatch(const struct mo_env *env, int argc, char **argv, moire_error *err) {
    struct sim_options *o = mo_alloc(env, sizeof *o);
    struct mo_bench_session session;
    if (!o) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    o->bench.serve = mo_bench_serve_defaults();
    o->bench.simulated = true;
    o->bench.reader = MO_READS_SIM;
    int code = mo_bench_session_open(env, argc, argv, &session, err);
    if (code) {
        mo_free(env, o);
        return code;
    }
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    json_t *document = NULL;
    code = parse(o, &args, err);
    session.quiet = o->bench.quiet;
    if (!code) code = simulate(&session, o, &document, err);
    if (document) {
        moire_error why;
        int wrote = mo_bench_write_outputs(&session, &o->bench, document, &why);
        if (wrote && !code) *err = why;
        if (wrote && !code) code = wrote;
    }
    json_decref(document);
    mo_bench_session_close(&session);
    mo_free(env, o);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    moire_error err = {0};
    int code = dispatch(env, argc, argv, &err);
    return code ? mo_verb_fail("sim", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_sim = {
    .name = "sim",
    .summary = "serve a scenario on a simulated machine, with the live scheduler in virtual time",
    .usage = usage,
    .outputs = {"--output", "--report", "--trace", "--record"},
    .run = run,
};
