/* SPDX-License-Identifier: Apache-2.0
 * verb_capacity.c - `moire capacity`: how many cores a scenario needs; see bench/sim/capacity.h. */
#include <stdio.h>
#include <stdlib.h>
#include "bench/sim/capacity.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire capacity SCENARIO --machine FILE.json --qps R [--target SHARE] [--every] [--policy P]\n"
    "                      [--arrivals PROCESS] [--seconds S] [--seed K,...] [--json]\n\n"
    "The fewest cores of a simulated machine on which SHARE of the scenario's queries are in time when R of\n"
    "them come a second, shared out by the tenants' weights.  Bisection over core counts; the machine's own\n"
    "is the most that is tried.  Exit code 5: not even that is enough.\n\n"
    "  --machine FILE       the machine, needed\n"
    "  --qps R              queries a second of all tenants together, needed\n"
    "  --target SHARE       0.95 by default\n"
    "  --every              of every tenant's queries, not of all\n"
    "  --policy P           moire by default\n"
    "  --arrivals PROCESS   poisson, gamma:CV or mmpp:CV\n"
    "  --seconds S          simulated time of a probe, 10 by default\n"
    "  --seed K,...         the mean over these seeds counts\n"
    "  --json               the document on stdout\n"
    "  --quiet              no progress on stderr\n\n"
    "Example:\n"
    "  moire capacity veltair-medium --machine cores64 --qps 200\n";

struct capacity_options {
    struct mo_bench_options bench;
    const char *machine;
    double qps, target;
    bool every;
};

static int parse(struct capacity_options *o, struct mo_args *args, moire_error *err) {
    while (args->at < args->argc) {
        bool took = true;
        int code = MOIRE_OK;
        if (mo_args_flag(args, "--machine", true))
            o->machine = args->value;
        else if (mo_args_flag(args, "--qps", true))
            code = mo_bench_number("--qps", args->value, 1e-6, 1e9, &o->qps, err);
        else if (mo_args_flag(args, "--target", true))
            code = mo_bench_number("--target", args->value, 0.01, 1, &o->target, err);
        else if (mo_args_flag(args, "--every", false))
            o->every = true;
        else
            code = mo_bench_options_take(&o->bench, args, &took, err);
        if (code) return code;
        if (!took)
            return mo_bench_bad_flag(err, args->argv[args->at], NULL,
                                     "no such flag; see moire capacity --help");
    }
    if (o->bench.latency.n_models != 1 || !o->machine || !(o->qps > 0) || o->bench.serve.n_policies != 1)
        return mo_fail(err, MOIRE_EINVAL, "needs one scenario, --machine, --qps and one policy");
    return MOIRE_OK;
}

static int capacity(struct mo_bench_session *session, struct capacity_options *o, json_t **document,
                    moire_error *err) {
    char scenario[1024], machine[1024];
    int code = mo_bench_find_data(session, "scenarios", o->bench.models[0], scenario, sizeof scenario, err);
    if (!code) code = mo_bench_find_data(session, "machines", o->machine, machine, sizeof machine, err);
    if (code) return code;
    struct mo_bench_capacity_options c = {.simulate = {.serve = o->bench.serve, .machine = machine},
                                          .policy = o->bench.serve.policies[0],
                                          .qps = o->qps,
                                          .every = o->every};
    c.simulate.serve.scenario = scenario;
    c.simulate.serve.find_max = o->target;
    if (o->bench.seconds > 0) c.simulate.serve.seconds = o->bench.seconds;
    return mo_bench_capacity(session, &c, document, err);
}

static int show(const struct capacity_options *o, const json_t *document, moire_error *err) {
    int cores = (int)json_integer_value(json_object_get(document, "cores"));
    if (o->bench.json && mo_bench_print_json(document, err)) return MOIRE_EIO;
    if (!o->bench.json && cores)
        printf("%d cores hold %.1f %% in time at %g queries a second\n", cores, 100 * o->target, o->qps);
    return cores ? MOIRE_OK
                 : mo_fail(err, MOIRE_EFAILED,
                           "not even all cores of the machine hold %.1f %% at %g queries a "
                           "second",
                           100 * o->target, o->qps);
}

static int run(const struct mo_env *env, int argc, char **argv) {
    moire_error err = {0};
    struct capacity_options *o = mo_alloc(env, sizeof *o);
    struct mo_bench_session session;
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    json_t *document = NULL;
    if (!o) return MO_EXIT_SYSTEM;
    o->bench.reader = MO_READS_CAPACITY;
    o->bench.serve = mo_bench_serve_defaults();
    o->bench.serve.n_policies = 1;
    o->target = 0.95;
    int code = mo_bench_session_open(env, argc, argv, &session, &err);
    if (!code) {
        code = parse(o, &args, &err);
        session.quiet = o->bench.quiet;
        if (!code) code = capacity(&session, o, &document, &err);
        if (!code) code = show(o, document, &err);
        json_decref(document);
        mo_bench_session_close(&session);
    }
    mo_free(env, o);
    if (!code) return MO_EXIT_OK;
    int exit_code = mo_verb_fail("capacity", &err);
    return code == MOIRE_EFAILED ? MO_EXIT_FAILED : exit_code;
}

const struct mo_verb mo_verb_capacity = {
    .name = "capacity",
    .summary = "the fewest cores of a simulated machine that serve a scenario at a given rate",
    .usage = usage,
    .outputs = {"--output", "--report", "--trace", "--record"},
    .run = run,
};
