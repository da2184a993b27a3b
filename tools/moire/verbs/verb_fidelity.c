/* SPDX-License-Identifier: Apache-2.0
 * verb_fidelity.c - `moire fidelity`: live runs on this machine beside their simulation; see
 * bench/sim/fidelity.h. */
#include "bench/sim/fidelity.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Serves the scenario live under every policy at every load, records it, and simulates the same arrivals\n"
    "several times over: on the profiles that the runtime has of its models, then with one more quantity as\n"
    "measured each time: service times and starts of a recording made before, the machine's speed over time\n"
    "and its stalls of the run itself.  One run is made twice: live runs differ, too.  It wants the machine\n"
    "to itself.\n";

static const char notes[] = "Example:\n"
                            "  moire fidelity mix --output fidelity.json\n";

static int fidelity(const struct mo_env *env, const struct mo_options *o, json_t **document,
                    moire_error *err) {
    struct mo_bench_fidelity_options f = {.output = o->output, .resume = o->resume};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    char scenario[1024];
    int code = mo_bench_open(env, o, &session, &paths, err);
    if (code) return code;
    code = mo_bench_serve_options(o, false, &f.serve, err);
    if (!code)
        code = mo_known_find_data(MO_KNOWN_SCENARIOS, o->operands.word[0], scenario, sizeof scenario, err);
    if (!code) {
        f.serve.scenario = scenario;
        f.serve.seconds = o->seconds > 0 ? o->seconds : 12;
        mo_bench_warn_busy(&session);
        code = mo_bench_fidelity(&session, &f, document, err);
    }
    if (*document && !o->json) mo_bench_fidelity_print(*document);
    if (!code && o->json) code = mo_print_json(*document, err);
    mo_bench_session_close(&session);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    json_t *document = NULL;
    int code = fidelity(env, o, &document, &err) ? mo_verb_fail_with(o, &err, document) : MO_EXIT_OK;
    json_decref(document);
    return code;
}

const struct mo_verb mo_verb_fidelity = {
    .name = "fidelity",
    .group = MO_GROUP_SIMULATE,
    .summary = "compare live runs on this machine with their simulation",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_FIDELITY, .operands = "SCENARIO"}},
    .run = run,
};
