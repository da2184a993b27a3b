/* SPDX-License-Identifier: Apache-2.0
 * cluster_sim.c - the common clock of a cluster; see cluster_sim.h. */
#include "bench/cluster/cluster_sim.h"

#include <math.h>
#include <string.h>
#include "bench/cluster/cluster_heap.h"

enum { LOOK_EVERY = 4096, CHUNK = 1024, SPARE_INSTANCES = 8, START_NS = 1 };
static const int64_t SECOND = 1000000000;

/* A query on its way. */
struct query {
    struct query *next; /* free */
    int64_t arrival;
    int model, replica;
    bool open;
};

struct world {
    const struct mo_cluster_run *run;
    struct mo_cluster_result *result;
    const struct mo_env *env;
    struct mo_region *region;
    struct mo_router *router;
    struct mo_sim **sim; /* by machine; NULL = it has no model */
    struct mo_cluster_heap heap;
    int *tenant; /* [machine][model]: the model's number there */
    struct mo_process_state arrivals[MO_BENCH_MAX_TENANTS];
    double at[MO_BENCH_MAX_TENANTS]; /* ns of each model's next arrival */
    struct query *free;
    int64_t open, twice, now;
    int64_t missed;           /* of all that came, so far */
    double most_open;         /* with more on their way, `misses` of them are late */
    int64_t begin, end, last; /* what arrives in [begin, end) counts; arrivals end at `last` */
};

/* --- counts --------------------------------------------------------------------------------------------- */
double mo_cluster_attainment(const struct mo_cluster_count *c) {
    return c->asked ? (double)c->in_time / (double)c->asked : NAN;
}

double mo_cluster_quantile_ms(const struct mo_cluster_count *c, double q) {
    int64_t want = (int64_t)(q * (double)c->answered), seen = 0;
    for (int i = 0; c->answered && i < MO_LATENCY_BUCKETS; i++) {
        seen += c->bucket[i];
        if (seen > want || seen == c->answered) return exp2((i + 0.5) / MO_LATENCY_OCTAVE) * 1e-6;
    }
    return NAN;
}

static void count_answer(struct mo_cluster_count *c, int64_t latency, int64_t qos) {
    int at = latency > 1 ? (int)(log2((double)latency) * MO_LATENCY_OCTAVE) : 0;
    c->answered++;
    c->in_time += !qos || latency <= qos;
    c->bucket[at < MO_LATENCY_BUCKETS ? at : MO_LATENCY_BUCKETS - 1]++;
}

/* A query is over: answered at `end`, or with another code than MOIRE_OK not. */
static void conclude(struct world *w, struct query *q, int code, int64_t end) {
    if (!q->open) {
        w->twice++;
        return;
    }
    q->open = false;
    w->open--;
    mo_router_answered(w->router, q->model, q->replica);
    const int64_t qos = w->run->simulation->mix.qos_ns[q->model];
    w->missed += code != MOIRE_OK || (qos && end - q->arrival > qos);
    if (q->arrival >= w->begin && q->arrival < w->end && code == MOIRE_OK) {
        count_answer(&w->result->all, end - q->arrival, qos);
        count_answer(&w->result->model[q->model], end - q->arrival, qos);
    }
    q->next = w->free;
    w->free = q;
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    (void)tenant;
    conclude(ctx, a->user, a->code, a->end);
}

/* --- arrivals ------------------------------------------------------------------------------------------- */
static struct query *take(struct world *w) {
    if (!w->free) {
        struct query *more = mo_region_array(w->region, CHUNK, sizeof *more);
        for (int i = 0; more && i < CHUNK; i++) {
            more[i].next = w->free;
            w->free = &more[i];
        }
    }
    struct query *q = w->free;
    if (q) w->free = q->next;
    return q;
}

static int next_model(const struct world *w) {
    int first = 0;
    for (int m = 1; m < w->run->simulation->mix.scenario.n_tenants; m++)
        if (w->at[m] < w->at[first]) first = m;
    return first;
}

static void draw_next(struct world *w, int model) {
    w->at[model] += mo_process_gap(&w->arrivals[model]) / w->run->qps[model] * (double)SECOND;
}

static int arrive(struct world *w, int model, moire_error *err) {
    struct query *q = take(w);
    if (!q) return mo_fail(err, MOIRE_ENOMEM, "out of memory for queries on their way");
    const int replica = mo_router_send(w->router, model);
    const int node = w->run->placed[model].replica[replica].node;
    *q = (struct query){.arrival = w->now, .model = model, .replica = replica, .open = true};
    w->open++;
    w->result->sent++;
    if (w->now >= w->begin && w->now < w->end) {
        w->result->all.asked++;
        w->result->model[model].asked++;
    }
    mo_sim_advance(w->sim[node], w->now);
    const int n_models = w->run->simulation->mix.scenario.n_tenants;
    int code = mo_sim_submit(w->sim[node], w->tenant[(size_t)node * n_models + model], q, NULL, NULL);
    if (code) conclude(w, q, code, w->now);
    mo_cluster_heap_set(&w->heap, node, mo_sim_next(w->sim[node]));
    return MOIRE_OK;
}

/* --- the clock ------------------------------------------------------------------------------------------ */
static bool goes_on(struct world *w) {
    const struct mo_cluster_run *run = w->run;
    if (++w->result->events % LOOK_EVERY || !run->look) return true;
    double share = (double)w->now / (double)w->last;
    return run->look(run->ctx, share < 1 ? share : 1, w->result->events);
}

static bool is_lost(const struct world *w) {
    return w->run->misses && (w->missed > w->run->misses || (double)w->open > w->most_open);
}

/* Queries that came within their targets, as many as chance may make them, are no misses yet. */
static double most_open(const struct mo_cluster_run *run) {
    const struct mo_bench_mix *mix = &run->simulation->mix;
    double young = 0;
    for (int m = 0; m < mix->scenario.n_tenants; m++)
        young += run->qps[m] * (double)mix->qos_ns[m] * 1e-9;
    return (double)run->misses + young + 10 * (sqrt(young) + 1);
}

/* All arrivals, and then what is left to be answered. */
static int drive(struct world *w, moire_error *err) {
    for (;;) {
        const int model = next_model(w);
        const bool more = w->at[model] < (double)w->last;
        const int64_t arrival = more ? (int64_t)w->at[model] + START_NS : MO_NEVER;
        const int64_t happens = mo_cluster_heap_least(&w->heap);
        if (!more && !w->open) return MOIRE_OK;
        if (!more && happens == MO_NEVER)
            return mo_fail(err, MOIRE_EFAILED, "%lld queries have no answer, and nothing more happens",
                           (long long)w->open);
        if (happens <= arrival) {
            const int node = mo_cluster_heap_first(&w->heap);
            w->now = happens;
            mo_sim_advance(w->sim[node], happens);
            mo_cluster_heap_set(&w->heap, node, mo_sim_next(w->sim[node]));
        } else {
            w->now = arrival;
            int code = arrive(w, model, err);
            if (code) return code;
            draw_next(w, model);
        }
        w->result->lost = is_lost(w);
        if (w->result->lost) return MOIRE_OK;
        if (!goes_on(w)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
    }
}

/* --- the machines --------------------------------------------------------------------------------------- */
static int open_model(struct world *w, int node, int model, moire_error *err) {
    const struct mo_bench_simulation *s = w->run->simulation;
    const struct mo_bench_tenant *t = &s->mix.scenario.tenants[model];
    const int64_t arenas = w->run->nodes->node[node].cores + SPARE_INSTANCES, most = w->env->limits.arenas;
    const struct mo_sched_tenant_config c = {.qos_ns = s->mix.qos_ns[model],
                                             .best_effort = t->cls == MOIRE_BEST_EFFORT,
                                             .shed_late = t->shed_late,
                                             .priority = t->priority,
                                             .cores = t->cores,
                                             .weight = t->share,
                                             .queue = (int)w->env->limits.queue,
                                             .instances = (int)(arenas < most ? arenas : most),
                                             .profile = s->profile[model]};
    return mo_sim_open(w->sim[node], &c, &w->tenant[(size_t)node * s->mix.scenario.n_tenants + model], err);
}

static int open_node(struct world *w, int node, moire_error *err) {
    const struct mo_bench_simulation *s = w->run->simulation;
    struct mo_sim_config config = {.env = w->env,
                                   .policy = w->run->policy,
                                   .machine = s->machine.sim,
                                   .max_queries = (int)w->env->limits.queries,
                                   .max_tenants = s->mix.scenario.n_tenants,
                                   .objective = s->mix.scenario.objective,
                                   .seed = mo_mix(w->run->seed + MO_GOLDEN * (uint64_t)(node + 1)),
                                   .answer = answer,
                                   .ctx = w};
    config.machine.n_cores = w->run->nodes->node[node].cores;
    config.machine.power = NULL;
    return mo_sim_create(&config, &w->sim[node], err);
}

/* A machine is made for its first model, so that one without costs nothing. */
static int open_nodes(struct world *w, moire_error *err) {
    int code = MOIRE_OK;
    for (int m = 0; m < w->run->simulation->mix.scenario.n_tenants; m++)
        for (int i = 0; !code && i < w->run->placed[m].n; i++) {
            const int node = w->run->placed[m].replica[i].node;
            if (!w->sim[node]) code = open_node(w, node, err);
            if (!code) mo_sim_advance(w->sim[node], START_NS);
            if (!code) code = open_model(w, node, m, err);
        }
    for (int i = 0; !code && i < w->run->nodes->n; i++)
        if (w->sim[i]) mo_cluster_heap_set(&w->heap, i, mo_sim_next(w->sim[i]));
    return code;
}

static int open_router(struct world *w, moire_error *err) {
    const struct mo_bench_simulation *s = w->run->simulation;
    const struct mo_cluster_nodes *nodes = w->run->nodes;
    const int n_models = s->mix.scenario.n_tenants;
    struct mo_route_model models[MO_BENCH_MAX_TENANTS];
    struct mo_route_node *route = mo_region_array(w->region, (size_t)nodes->n, sizeof *route);
    int64_t *least = mo_region_array(w->region, (size_t)n_models * nodes->n_kinds, sizeof *least);
    int64_t *parts = mo_region_array(w->region, (size_t)n_models * nodes->n_kinds, sizeof *parts);
    if (!route || !least || !parts) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a cluster");
    for (int i = 0; i < nodes->n; i++)
        route[i] = (struct mo_route_node){nodes->node[i].kind};
    for (int m = 0; m < n_models; m++) {
        const struct mo_profile *p = s->profile[m];
        int64_t *of = least + (size_t)m * nodes->n_kinds;
        int64_t *part = parts + (size_t)m * nodes->n_kinds;
        for (int k = 0; k < nodes->n_kinds; k++) {
            const double held = w->run->holds ? w->run->holds[(size_t)m * nodes->n_kinds + k] : 0;
            of[k] = mo_profile_time(p, mo_profile_fastest(p, 0, nodes->cores[k]), 0, p->n_layers);
            part[k] =
                held > 0 ? (int64_t)(1e9 / held) : mo_profile_time(p, 1, 0, p->n_layers) / nodes->cores[k];
        }
        models[m] = (struct mo_route_model){
            .qos_ns = s->mix.qos_ns[m], .placed = &w->run->placed[m], .least_ns = of, .part_ns = part};
    }
    return mo_router_create(&(struct mo_router_config){.env = w->env,
                                                       .routing = w->run->routing,
                                                       .models = models,
                                                       .nodes = route,
                                                       .n_models = n_models,
                                                       .n_nodes = nodes->n,
                                                       .seed = w->run->seed},
                            &w->router, err);
}

static void begin_arrivals(struct world *w) {
    const struct mo_bench_simulation *s = w->run->simulation;
    int64_t longest = 0;
    for (int m = 0; m < s->mix.scenario.n_tenants; m++) {
        const bool asked = w->run->qps[m] > 0 && w->run->placed[m].n;
        if (s->mix.qos_ns[m] > longest) longest = s->mix.qos_ns[m];
        mo_process_start(&w->arrivals[m], &w->run->process, w->run->seed, (uint64_t)m);
        w->at[m] = asked ? 0 : INFINITY;
        if (asked) draw_next(w, m);
    }
    const int64_t window = (int64_t)(w->run->seconds * (double)SECOND);
    w->most_open = most_open(w->run);
    w->begin = START_NS + (int64_t)(w->run->warmup_s * (double)SECOND);
    w->end = w->begin + window;
    w->last = w->end + (longest < window ? longest : window); /* the last that count meet the same load */
}

static void close_world(struct world *w) {
    for (int i = 0; w->sim && i < w->run->nodes->n; i++)
        mo_sim_destroy(w->sim[i]);
    mo_router_destroy(w->router);
    mo_region_destroy(w->region);
}

static int64_t broken(const struct world *w) {
    int64_t n = 0;
    for (int i = 0; i < w->run->nodes->n; i++)
        n += w->sim[i] ? mo_sim_broken(w->sim[i]) : 0;
    return n;
}

int mo_cluster_simulate(const struct mo_cluster_run *run, struct mo_cluster_result *out, moire_error *err) {
    const struct mo_env *env = run->simulation->env;
    const size_t nodes = (size_t)run->nodes->n, models = (size_t)run->simulation->mix.scenario.n_tenants;
    struct world w = {.run = run, .result = out, .env = env, .region = mo_region_create(env)};
    memset(out, 0, sizeof *out);
    const int64_t began = mo_now(env);
    w.sim = w.region ? mo_region_array(w.region, nodes, sizeof *w.sim) : NULL;
    w.tenant = w.region ? mo_region_array(w.region, nodes * models, sizeof *w.tenant) : NULL;
    int code = w.sim && w.tenant && mo_cluster_heap_init(&w.heap, w.region, run->nodes->n)
                   ? open_router(&w, err)
                   : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d machines", run->nodes->n);
    if (!code) code = open_nodes(&w, err);
    if (!code) begin_arrivals(&w);
    if (!code) code = drive(&w, err);
    if (!code && (w.twice || broken(&w)))
        code = mo_fail(err, MOIRE_EFAILED, "%lld answers too many, %lld blocks that no machine could run",
                       (long long)w.twice, (long long)broken(&w));
    close_world(&w);
    out->real_ns = mo_now(env) - began;
    return code;
}
