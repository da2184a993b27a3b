/* SPDX-License-Identifier: Apache-2.0
 * verb_capacity.c - `moire capacity`: how many cores a scenario needs; see bench/sim/capacity.h. */
#include <stdio.h>
#include "bench/sim/capacity.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "The fewest cores of a simulated machine on which SHARE of the scenario's queries are in time when R of\n"
    "them come a second, shared out by the tenants' weights.  Bisection over core counts; the machine's own\n"
    "is the most that is tried.  \n";

static const char notes[] = "Exit code 5: not even all cores of the machine are enough.\n"
                            "\n"
                            "Example:\n"
                            "  moire capacity veltair-medium --machine cores64 --qps 200\n";

static int capacity(struct mo_bench_session *session, const struct mo_options *o, json_t **document,
                    moire_error *err) {
    char scenario[1024], machine[1024];
    struct mo_bench_capacity_options c = {.simulate = {.machine = machine}, .qps = o->qps, .every = o->every};
    struct mo_bench_serve_options *serve = &c.simulate.serve;
    int code = mo_bench_serve_options(o, false, serve, err);
    if (!code && serve->n_policies != 1) code = mo_fail(err, MOIRE_EINVAL, "needs one policy");
    if (!code)
        code = mo_known_find_data(MO_KNOWN_SCENARIOS, o->operands.word[0], scenario, sizeof scenario, err);
    if (!code) code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, machine, sizeof machine, err);
    if (code) return code;
    serve->scenario = scenario;
    serve->find_max = o->target;
    c.policy = serve->policies[0];
    return mo_bench_capacity(session, &c, document, err);
}

static int show(const struct mo_options *o, const json_t *document, moire_error *err) {
    int cores = (int)json_integer_value(json_object_get(document, "cores"));
    if (o->json && cores) return mo_print_json(document, err);
    if (cores)
        printf("%d cores hold %.1f %% in time at %g queries a second\n", cores, 100 * o->target, o->qps);
    return cores ? MOIRE_OK
                 : mo_fail(err, MOIRE_EFAILED,
                           "not even all cores of the machine hold %.1f %% at %g queries a second",
                           100 * o->target, o->qps);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    json_t *document = NULL;
    int code = mo_bench_open(env, o, &session, &paths, &err);
    if (!code) {
        code = capacity(&session, o, &document, &err);
        if (!code) code = show(o, document, &err);
        mo_bench_session_close(&session);
    }
    code = code ? mo_verb_fail_with(o, &err, document) : MO_EXIT_OK;
    json_decref(document);
    return code;
}

const struct mo_verb mo_verb_capacity = {
    .name = "capacity",
    .group = MO_GROUP_SIMULATE,
    .summary = "find the fewest cores of a simulated machine that serve a scenario at a given rate",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_CAPACITY, .operands = "SCENARIO"}},
    .run = run,
};
