/* SPDX-License-Identifier: Apache-2.0
 * cluster.c - from a scenario and machines to a plan; see cluster.h. */
#include "bench/cluster/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/cluster/cluster_plan.h"
#include "bench/cluster/cluster_rates.h"
#include "bench/load/moire_report.h"
#include "runtime/sched/policy.h"

static const int64_t SAY_EVERY = 5000000000;

/* --- what is planned ------------------------------------------------------------------------------------ */
static int check_scenario(const struct mo_bench_simulation *s, moire_error *err) {
    const struct mo_bench_scenario *scenario = &s->mix.scenario;
    if (s->side)
        return mo_fail(err, MOIRE_EINVAL, "'%s' has GPUs: machines of a cluster have cores", s->machine.name);
    if (mo_bench_stalls_any(&s->machine.stalls))
        return mo_fail(err, MOIRE_EINVAL, "'%s' stalls: machines of a cluster do not", s->machine.name);
    for (int i = 0; i < scenario->n_tenants; i++)
        if (scenario->tenants[i].curve.n)
            return mo_fail(err, MOIRE_EINVAL,
                           "tenant '%s' has a rate that changes: a plan is for one rate; take its highest",
                           scenario->tenants[i].name);
    return mo_bench_no_closed_loops(scenario, "a cluster", err);
}

/* The machine with as many cores as the largest of the cluster: its profiles, and targets that are multiples
 * of the time on all cores. */
static int open_largest(struct mo_cluster_planning *c, const struct mo_cluster_options *o, moire_error *err) {
    struct mo_bench_machine whole;
    struct mo_bench_simulate_options own = o->capacity.simulate;
    char cores[32];
    int code = mo_bench_machine_load(c->env, own.machine, &whole, err);
    if (code) return code;
    if (c->nodes.most_cores > whole.sim.n_cores)
        code = mo_fail(err, MOIRE_EINVAL, "%s: %d cores, but the profiles of '%s' end at %d", o->nodes,
                       c->nodes.most_cores, whole.name, whole.sim.n_cores);
    mo_bench_machine_close(&whole);
    if (code) return code;
    snprintf(cores, sizeof cores, "cores=%d", c->nodes.most_cores);
    own.with[own.n_with++] = cores;
    code = mo_bench_simulation_open(c->env, &own, &c->simulation, err);
    return code ? code : check_scenario(&c->simulation, err);
}

int mo_cluster_share_out(struct mo_cluster_planning *c, moire_error *err) {
    const struct mo_bench_mix *mix = &c->simulation.mix;
    double sum = 0;
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        c->qps[i] = mix->scenario.rated ? mix->scenario.tenants[i].rate : mix->weight[i];
        sum += c->qps[i];
    }
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        c->qps[i] *= c->qps_all / sum;
        if (!(c->qps[i] > 0) || !isfinite(c->qps[i]))
            return mo_fail(err, MOIRE_EINVAL,
                           "tenant '%s' has no share of the queries: give it a weight or a target",
                           mix->scenario.tenants[i].name);
    }
    return MOIRE_OK;
}

int mo_cluster_place(struct mo_cluster_planning *c, moire_error *err) {
    const int n_models = c->simulation.mix.scenario.n_tenants;
    struct mo_place_node *nodes = mo_alloc(c->env, (size_t)c->nodes.n * sizeof *nodes);
    if (!nodes) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a plan");
    for (int i = 0; i < c->nodes.n; i++)
        nodes[i] = (struct mo_place_node){c->nodes.node[i].kind, c->nodes.node[i].memory_mb};
    for (int m = 0; m < n_models; m++) {
        const struct mo_profile *p = c->simulation.profile[m];
        c->models[m] =
            (struct mo_place_model){.name = c->simulation.mix.scenario.tenants[m].name,
                                    .qps = c->qps[m],
                                    .memory_mb = (double)mo_profile_bytes(p, 0, p->n_layers) * 0x1p-20,
                                    .holds = c->holds + (size_t)m * c->nodes.n_kinds};
    }
    if (c->placed.region) mo_place_free(&c->placed);
    int code = mo_place(&(struct mo_place_problem){.env = c->env,
                                                   .models = c->models,
                                                   .n_models = n_models,
                                                   .nodes = nodes,
                                                   .n_nodes = c->nodes.n,
                                                   .limit = c->limit},
                        &c->placed, err);
    mo_free(c->env, nodes);
    return code;
}

/* --- simulating it -------------------------------------------------------------------------------------- */
struct watch {
    struct mo_cluster_planning *c;
    const char *what;
    int64_t began, said;
    bool probing; /* what a machine holds: shares of a probe say nothing */
};

static bool look(void *ctx, double share, int64_t events) {
    struct watch *w = ctx;
    const int64_t now = mo_now(w->c->env);
    if (now - w->said >= SAY_EVERY) {
        w->said = now;
        if (w->probing)
            mo_bench_say(w->c->session, "capacity: looking for what a machine holds, %.0f s so far",
                         (double)(now - w->began) * 1e-9);
        else
            mo_bench_say(w->c->session, "capacity: %s: %.0f %% simulated, %.2f million events a second",
                         w->what, 100 * share, (double)events * 1e3 / (double)(now - w->began));
    }
    return !mo_bench_interrupted(w->c->session);
}

static struct watch watch(struct mo_cluster_planning *c, const char *what) {
    const int64_t now = mo_now(c->env);
    return (struct watch){.c = c, .what = what, .began = now, .said = now, .probing = !what};
}

static struct mo_cluster_run run_of(struct mo_cluster_planning *c, struct watch *w) {
    return (struct mo_cluster_run){.simulation = &c->simulation,
                                   .policy = c->policy,
                                   .nodes = &c->nodes,
                                   .placed = c->placed.list,
                                   .qps = c->qps,
                                   .holds = c->holds,
                                   .process = c->process,
                                   .seed = c->seed,
                                   .warmup_s = MO_CLUSTER_WARMUP_S,
                                   .seconds = c->seconds,
                                   .look = look,
                                   .ctx = w};
}

int mo_cluster_find_rates(struct mo_cluster_planning *c, moire_error *err) {
    struct watch w = watch(c, NULL);
    const struct mo_cluster_run run = run_of(c, &w);
    c->holds =
        mo_alloc(c->env, (size_t)c->simulation.mix.scenario.n_tenants * c->nodes.n_kinds * sizeof *c->holds);
    if (!c->holds) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a plan");
    for (int m = 0; m < c->simulation.mix.scenario.n_tenants; m++) {
        const struct mo_profile *p = c->simulation.profile[m];
        if (!mo_profile_bytes(p, 0, p->n_layers))
            mo_bench_say(c->session,
                         "capacity: the profile of '%s' does not know its memory: it counts as none",
                         c->simulation.mix.scenario.tenants[m].name);
    }
    return mo_cluster_rates(&run, c->target, c->holds, err);
}

int mo_cluster_try(struct mo_cluster_planning *c, enum mo_routing routing, double seconds, int64_t misses,
                   struct mo_cluster_result *out, moire_error *err) {
    struct watch w = watch(c, mo_routing_name(routing));
    struct mo_cluster_run run = run_of(c, &w);
    run.routing = routing;
    run.seconds = seconds;
    run.misses = misses;
    return mo_cluster_simulate(&run, out, err);
}

static int simulate(struct mo_cluster_planning *c, const bool *routed, moire_error *err) {
    int code = MOIRE_OK;
    for (int r = 0; !code && r < MO_ROUTINGS; r++) {
        if (!routed[r]) continue;
        struct mo_cluster_result *result = c->result[r] = mo_alloc(c->env, sizeof *result);
        code = result ? mo_cluster_try(c, (enum mo_routing)r, c->seconds, 0, result, err)
                      : mo_fail(err, MOIRE_ENOMEM, "out of memory for a simulated cluster");
        if (code) break;
        mo_bench_say(c->session, "capacity: %s: %.2f %% in time, %.2f million events a second",
                     mo_routing_name((enum mo_routing)r), 100 * mo_cluster_attainment(&result->all),
                     (double)result->events * 1e3 / (double)result->real_ns);
        if (c->best < 0 || result->all.in_time >= c->result[c->best]->all.in_time) c->best = r;
    }
    return code;
}

/* --- the command ---------------------------------------------------------------------------------------- */
int mo_cluster_planning_open(struct mo_cluster_planning *c, const struct mo_cluster_options *o,
                             moire_error *err) {
    const struct mo_bench_serve_options *serve = &o->capacity.simulate.serve;
    c->policy = mo_policy_find(o->capacity.policy);
    if (!c->policy) return mo_fail(err, MOIRE_EINVAL, "no policy '%s'", o->capacity.policy);
    if (serve->n_seeds != 1) return mo_fail(err, MOIRE_EINVAL, "a cluster is simulated with one seed");
    c->qps_all = o->capacity.qps;
    c->target = serve->find_max;
    c->seconds = serve->seconds;
    c->process = serve->process;
    c->seed = serve->seeds[0];
    c->limit = 1;
    int code = mo_cluster_nodes_load(c->env, o->nodes, &c->nodes, err);
    if (!code) code = open_largest(c, o, err);
    return code ? code : mo_cluster_share_out(c, err);
}

void mo_cluster_planning_close(struct mo_cluster_planning *c) {
    for (int r = 0; r < MO_ROUTINGS; r++)
        mo_free(c->env, c->result[r]);
    if (c->placed.region) mo_place_free(&c->placed);
    mo_free(c->env, c->holds);
    mo_bench_simulation_close(&c->simulation);
    mo_cluster_nodes_close(&c->nodes);
}

/* The plan is right and does not hold: who reads the exit code must know. */
static int check_target(const struct mo_cluster_planning *c, bool every, moire_error *err) {
    const struct mo_cluster_result *r = c->result[c->best];
    const struct mo_cluster_count *least = &r->all;
    const char *whose = "all";
    for (int m = 0; every && m < c->simulation.mix.scenario.n_tenants; m++)
        if (mo_cluster_attainment(&r->model[m]) < mo_cluster_attainment(least)) {
            least = &r->model[m];
            whose = c->models[m].name;
        }
    if (!(mo_cluster_attainment(least) < c->target)) return MOIRE_OK;
    return mo_fail(
        err, MOIRE_EFAILED,
        "in the simulation %.2f %% of the queries of %s are in time, not %.2f %%: give more machines, or "
        "ask for less",
        100 * mo_cluster_attainment(least), whose, 100 * c->target);
}

int mo_bench_cluster(struct mo_bench_session *session, const struct mo_cluster_options *o, json_t **out,
                     json_t **summary, moire_error *err) {
    struct mo_cluster_planning c = {.session = session, .env = session->env, .best = -1};
    *out = *summary = NULL;
    int code = mo_cluster_planning_open(&c, o, err);
    if (!code) code = mo_cluster_find_rates(&c, err);
    if (!code) code = mo_cluster_place(&c, err);
    if (!code) code = simulate(&c, o->routed, err);
    if (!code) {
        *out = mo_cluster_plan_json(&c);
        *summary = mo_cluster_summary_json(&c);
        code = *out && *summary ? check_target(&c, o->capacity.every, err)
                                : mo_fail(err, MOIRE_ENOMEM, "out of memory for a plan");
    }
    mo_cluster_planning_close(&c);
    return code;
}
