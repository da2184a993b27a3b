/* SPDX-License-Identifier: Apache-2.0
 * verb_capacity.c - `moire capacity`: how many cores a scenario needs (bench/sim/capacity.h), or with --nodes
 * which models go on which of many machines (bench/cluster/cluster.h). */
#include <stdio.h>
#include <string.h>
#include "bench/cluster/cluster.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "The fewest cores of a simulated machine on which SHARE of the scenario's queries are in time when R of\n"
    "them come a second, shared out by the tenants' weights.  Bisection over core counts; the machine's own\n"
    "is the most that is tried.\n"
    "\n"
    "With --nodes the machines are those of a file, each with the profiles of --machine: which models go on\n"
    "which, how many replicas of each, and how many queries are in time under a routing, or under all side "
    "by\n"
    "side.  Every machine is simulated with its own queues and policy.  --json prints the plan.  With "
    "--scale\n"
    "the highest rates of several numbers of machines.\n";

static const char notes[] =
    "Exit code 5: not even all cores, or all machines, are enough; the message says what does not fit.\n"
    "\n"
    "Examples:\n"
    "  moire capacity veltair-medium --machine cores64 --qps 200\n"
    "  moire capacity veltair-mix --machine cores64 --nodes cluster.json --qps 5000 --routing all\n";

/* Data files by their names. */
struct files {
    char scenario[1024], machine[1024];
};

static int read_options(const struct mo_options *o, struct files *files, struct mo_bench_capacity_options *c,
                        moire_error *err) {
    struct mo_bench_serve_options *serve = &c->simulate.serve;
    *c = (struct mo_bench_capacity_options){
        .simulate = {.machine = files->machine}, .qps = o->qps, .every = o->every};
    int code = mo_bench_serve_options(o, false, serve, err);
    if (!code && o->scale.n && !o->nodes) code = mo_fail(err, MOIRE_EINVAL, "--scale needs --nodes FILE");
    if (!code && !o->scale.n && !(o->qps > 0))
        code = mo_fail(err, MOIRE_EINVAL, "needs --qps R, queries a second of all tenants together");
    if (!code && serve->n_policies != 1) code = mo_fail(err, MOIRE_EINVAL, "needs one policy");
    if (!code)
        code = mo_known_find_data(MO_KNOWN_SCENARIOS, o->operands.word[0], files->scenario,
                                  sizeof files->scenario, err);
    if (!code)
        code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, files->machine, sizeof files->machine, err);
    if (code) return code;
    serve->scenario = files->scenario;
    serve->find_max = o->target;
    c->policy = serve->policies[0];
    return MOIRE_OK;
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

static int scale_out(struct mo_bench_session *session, const struct mo_options *o,
                     const struct mo_cluster_options *cluster, json_t **document, moire_error *err) {
    int code = mo_bench_scale_out(session, cluster, document, err);
    if (!code && o->json) return mo_print_json(*document, err);
    if (!code) mo_scale_out_print(*document);
    return code;
}

/* A plan that does not hold its target is shown, too: it says where it falls short. */
static int plan(struct mo_bench_session *session, const struct mo_options *o,
                const struct mo_bench_capacity_options *c, json_t **document, moire_error *err) {
    struct mo_cluster_options cluster = {.capacity = *c, .nodes = o->nodes};
    json_t *summary = NULL;
    for (int r = 0; r < MO_ROUTINGS; r++)
        cluster.routed[r] =
            !strcmp(o->routing, "all") || !strcmp(o->routing, mo_routing_name((enum mo_routing)r));
    if (o->scale.n) {
        cluster.scale = o->scale.value;
        cluster.n_scale = o->scale.n;
        cluster.capacity.qps = 1; /* only its parts count */
        return scale_out(session, o, &cluster, document, err);
    }
    int code = mo_bench_cluster(session, &cluster, document, &summary, err);
    if (*document && !o->json) mo_cluster_print(*document, summary);
    if (!code && o->json) code = mo_print_json(*document, err);
    json_decref(summary);
    return code;
}

static int capacity(struct mo_bench_session *session, const struct mo_options *o, json_t **document,
                    moire_error *err) {
    struct files files;
    struct mo_bench_capacity_options c;
    int code = read_options(o, &files, &c, err);
    if (code) return code;
    if (o->nodes) return plan(session, o, &c, document, err);
    code = mo_bench_capacity(session, &c, document, err);
    return code ? code : show(o, *document, err);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    json_t *document = NULL;
    int code = mo_bench_open(env, o, &session, &paths, &err);
    if (!code) {
        code = capacity(&session, o, &document, &err);
        mo_bench_session_close(&session);
    }
    code = code ? mo_verb_fail_with(o, &err, document) : MO_EXIT_OK;
    json_decref(document);
    return code;
}

const struct mo_verb mo_verb_capacity = {
    .name = "capacity",
    .group = MO_GROUP_SIMULATE,
    .summary = "find the fewest cores that serve a scenario at a rate, or place it on many machines",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_CAPACITY, .operands = "SCENARIO"}},
    .run = run,
};
