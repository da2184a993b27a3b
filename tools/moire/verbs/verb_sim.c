/* SPDX-License-Identifier: Apache-2.0
 * verb_sim.c - `moire sim`: a scenario under load on a simulated machine. */
#include <string.h>
#include "bench/sim/simulate.h"
#include "runtime/sched/policy.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Plays a scenario of `moire bench serve` in virtual time: the scheduler and its policies are the live\n"
    "ones, block times come from measured profiles.  Same arrivals, scoring and result document.  The same\n"
    "command gives the same bytes, however many processes work on it.\n"
    "\n"
    "SCENARIO is a file or a name in bench/scenarios, the machine a file or a name in bench/machines;\n"
    "profiles are MODEL.csv files in the folder that the machine file names.  Targets that are multiples of\n"
    "the solo time count in the profile's; load 1.0 = rate x one-core solo time keeps all cores busy.\n"
    "\n"
    "With --replay the arrivals are those of a recorded run (`moire bench serve --record`,\n"
    "moire_record()), at load 1.00, and the first result is what happened.  Tenants, targets, profiles and\n"
    "cores are the recording's; with --machine the profiles, by the tenants' names, and the cores of that.\n"
    "\n"
    "On machines with GPUs: lets of them by a planner, batches, applications (bench/scenarios/README.md);\n"
    "policies moire-gpu, gpulet-int, sbp, inss, ...  With rates in the scenario load 1.0 is those.\n";

static const char notes[] =
    "Examples:\n"
    "  moire sim medium --machine cores64 --policy moire,fcfs --load 0.6 --seconds 60\n"
    "  moire sim medium --machine cores64 --find-max 0.95 --seeds 10 --json\n"
    "  moire sim --replay mix.trace --policy moire,lanes,bound\n";

/* What a recording settles cannot be asked for. */
static int check_replay(const struct mo_options *o, const struct mo_bench_serve_options *s,
                        moire_error *err) {
    if (o->operands.n) return mo_fail(err, MOIRE_EINVAL, "a scenario beside --replay");
    if (o->with.n)
        return mo_fail(err, MOIRE_EINVAL, "--with beside --replay: it is for machines of scenarios");
    if (s->n_loads || s->find_max > 0 || o->seconds > 0 || s->calibration)
        return mo_fail(
            err, MOIRE_EINVAL,
            "--load, --find-max, --seconds and --calibration: the recording of --replay says that");
    return MOIRE_OK;
}

static int check(const struct mo_options *o, const struct mo_bench_serve_options *s, moire_error *err) {
    const int code = mo_bench_check_weights(o, s, err);
    if (code) return code;
    if (o->replay) return check_replay(o, s, err);
    if (mo_bench_replay_pieces(o))
        return mo_fail(err, MOIRE_EINVAL, "--measured, --costs and --speed need --replay TRACE");
    if (!o->machine || !o->operands.n)
        return mo_fail(err, MOIRE_EINVAL, "needs a scenario and --machine; see moire help sim");
    return mo_bench_check_serve(s, err);
}

static int simulate(struct mo_bench_session *session, const struct mo_options *o, json_t **document,
                    moire_error *err) {
    char scenario[1024] = "", machine[1024] = "";
    struct mo_bench_simulate_options s = {
        .machine = machine,
        .jobs = o->jobs,
        .weights = o->weights,
        .cost = o->cost,
        .replay = {.trace = o->replay, .pieces = mo_bench_replay_pieces(o), .costs = o->costs}};
    int code = mo_bench_serve_options(o, true, &s.serve, err);
    if (!code) code = check(o, &s.serve, err);
    if (!code && !o->replay)
        code = mo_known_find_data(MO_KNOWN_SCENARIOS, o->operands.word[0], scenario, sizeof scenario, err);
    if (!code && o->machine)
        code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, machine, sizeof machine, err);
    if (code) return code;
    s.n_with = o->with.n;
    memcpy(s.with, o->with.word, (size_t)o->with.n * sizeof *s.with);
    s.replay.machine = o->machine ? machine : NULL;
    s.replay.machine_profiles = o->machine != NULL;
    s.serve.scenario = scenario;
    if (!s.serve.n_loads && !(s.serve.find_max > 0)) s.serve.loads[s.serve.n_loads++] = 0.5;
    return mo_bench_simulate(session, &s, document, err);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    json_t *document = NULL;
    int code = mo_bench_open(env, o, &session, &paths, &err);
    if (code) return mo_verb_fail(o, &err);
    (void)simulate(&session, o, &document, &err);
    code = mo_bench_conclude(&session, o, document, &err);
    json_decref(document);
    mo_bench_session_close(&session);
    return code;
}

const struct mo_verb mo_verb_sim = {
    .name = "sim",
    .group = MO_GROUP_SIMULATE,
    .summary = "serve a scenario on a simulated machine, with the live scheduler in virtual time",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_SIM, .operands = "[SCENARIO]"}},
    .run = run,
};
