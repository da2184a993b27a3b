/* SPDX-License-Identifier: Apache-2.0
 * verb_whatif.c - `moire whatif`: a recorded run on other cores, under other policies; see
 * bench/sim/replay.h. */
#include "bench/sim/replay.h"
#include "bench/report/report.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Plays the arrivals of a recorded run (`moire bench serve --record`, moire_record()) in the simulator, "
    "on\n"
    "its own profiles.  Without flags as it was recorded: what the simulator predicts beside what happened,\n"
    "tenant by tenant.  With --cores or --policy: what these would have done.  Beyond the core counts that\n"
    "the trace has times for, layers follow Amdahl's law through the two largest.\n";

static const char notes[] = "Examples:\n"
                            "  moire bench serve mix --policy moire --load 0.6 --record run.trace\n"
                            "  moire whatif run.trace\n"
                            "  moire whatif run.trace --cores 16 --policy moire,lanes-reject\n";

static int whatif(const struct mo_env *env, const struct mo_options *o, moire_error *err) {
    struct mo_bench_replay_options r = {.trace = o->operands.word[0],
                                        .cores = o->cores,
                                        .pieces = mo_bench_replay_pieces(o),
                                        .costs = o->costs,
                                        .draws = o->draws};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    char machine[1024];
    json_t *document = NULL;
    int code = mo_bench_open(env, o, &session, &paths, err);
    if (code) return code;
    code = mo_bench_policies(&o->policies, false, r.policies, &r.n_policies, err);
    if (!code && o->machine) {
        code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, machine, sizeof machine, err);
        r.machine = machine;
    }
    if (!code) code = mo_bench_replay(env, &r, &document, err);
    if (!code && !o->json) mo_bench_replay_print(document);
    if (!code && o->output) code = mo_bench_write_json(env, document, o->output, err);
    if (!code && o->json) code = mo_print_json(document, err);
    json_decref(document);
    mo_bench_session_close(&session);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    return whatif(env, o, &err) ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_whatif = {
    .name = "whatif",
    .group = MO_GROUP_SIMULATE,
    .summary = "replay a recorded run in the simulator: as it was, on other cores, under other policies",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_WHATIF, .operands = "TRACE"}},
    .run = run,
};
