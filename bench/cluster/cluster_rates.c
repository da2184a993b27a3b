/* SPDX-License-Identifier: Apache-2.0
 * cluster_rates.c - the bisection of cluster_rates.h. */
#include "bench/cluster/cluster_rates.h"

#include <math.h>

enum { STEPS = 8, QUERIES = 1000 };
static const double SHORTEST_S = 2, LONGEST_S = 120;
static const double HOPELESS =
    1.3; /* times the misses that are allowed: the rest is chance, and the warm-up */
/* Of what the cores do by the profile: with more a queue grows, which a short run does not show. */
static const double HIGHEST = 0.95;

struct probe {
    struct mo_cluster_run run;
    struct mo_cluster_nodes nodes;
    struct mo_cluster_node node;
    struct mo_replica replica;
    struct mo_place_list placed[MO_BENCH_MAX_TENANTS];
    double qps[MO_BENCH_MAX_TENANTS];
    struct mo_cluster_result *result;
};

/* The model's queries on the machine, and nothing else. */
static int play(struct probe *p, int model, double rate, double target, bool *held, moire_error *err) {
    p->qps[model] = p->replica.qps = rate;
    p->run.seconds = mo_within(SHORTEST_S, LONGEST_S, QUERIES / rate);
    p->run.warmup_s = p->run.seconds / 10;
    p->run.misses = (int64_t)((1 - target) * HOPELESS * rate * p->run.seconds) + 1;
    int code = mo_cluster_simulate(&p->run, p->result, err);
    *held = !p->result->lost && !(mo_cluster_attainment(&p->result->all) < target);
    return code;
}

static int search(struct probe *p, int model, double target, double *holds, moire_error *err) {
    const struct mo_bench_simulation *s = p->run.simulation;
    const struct mo_profile *profile = s->profile[model];
    const int cores = p->node.cores;
    const double does = cores * 1e9 / (double)mo_profile_time(profile, 1, 0, profile->n_layers);
    const int64_t qos = s->mix.qos_ns[model];
    const int64_t least =
        mo_profile_time(profile, mo_profile_fastest(profile, 0, cores), 0, profile->n_layers);
    double low = 0, high = HIGHEST * does;
    bool held;
    *holds = 0;
    if (qos && least > qos) return MOIRE_OK;
    if (!qos) low = high;
    for (int i = 0; qos && i < STEPS; i++) {
        const double middle = (low + high) / 2;
        int code = play(p, model, middle, target, &held, err);
        if (code) return code;
        if (held)
            low = middle;
        else
            high = middle;
    }
    *holds = low;
    return MOIRE_OK;
}

int mo_cluster_rates(const struct mo_cluster_run *like, double target, double *holds, moire_error *err) {
    const struct mo_env *env = like->simulation->env;
    const int n_models = like->simulation->mix.scenario.n_tenants;
    int code = MOIRE_OK;
    struct mo_cluster_result *result = mo_alloc(env, sizeof *result);
    if (!result) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a simulated machine");
    for (int k = 0; !code && k < like->nodes->n_kinds; k++)
        for (int m = 0; !code && m < n_models; m++) {
            struct probe p = {.run = *like, .node = {.cores = like->nodes->cores[k]}, .result = result};
            p.nodes = (struct mo_cluster_nodes){.node = &p.node, .n = 1, .n_kinds = 1};
            p.nodes.cores[0] = p.nodes.most_cores = p.node.cores;
            p.placed[m] = (struct mo_place_list){&p.replica, 1};
            p.run.nodes = &p.nodes;
            p.run.placed = p.placed;
            p.run.qps = p.qps;
            p.run.holds = NULL;
            p.run.routing = MO_ROUTING_RANDOM;
            code = search(&p, m, target, &holds[(size_t)m * like->nodes->n_kinds + k], err);
        }
    mo_free(env, result);
    return code;
}
