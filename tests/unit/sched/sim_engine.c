/* SPDX-License-Identifier: Apache-2.0
 * sim_engine.c - drives the simulated engine with Poisson arrivals and random cancels. */
#include "tests/unit/sched/sim_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/sim/sim.h"

enum { MAX_CANCELS = 4096 };

struct cancel {
    int64_t time;
    uint64_t handle;
};

struct sim {
    const struct sim_config *c;
    struct mo_sim *engine;
    uint64_t rng, arrivals[SIM_MAX_TENANTS]; /* a stream each: policies see the same arrivals */
    int64_t next[SIM_MAX_TENANTS];
    struct cancel cancels[MAX_CANCELS];
    int n_cancels, accepted, answered, violations;
    struct mo_profile *profile[SIM_MAX_TENANTS];
    float *lat[SIM_MAX_TENANTS];
    int n_lat[SIM_MAX_TENANTS], cap_lat[SIM_MAX_TENANTS];
    struct sim_result *out;
};

static double uniform(uint64_t *s) {
    uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void note_latency(struct sim *s, int tenant, int64_t ns) {
    if (s->n_lat[tenant] == s->cap_lat[tenant]) {
        s->cap_lat[tenant] = s->cap_lat[tenant] ? 2 * s->cap_lat[tenant] : 1024;
        s->lat[tenant] = realloc(s->lat[tenant], (size_t)s->cap_lat[tenant] * sizeof(float));
    }
    s->lat[tenant][s->n_lat[tenant]++] = (float)ns / 1e6f;
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct sim *s = ctx;
    s->answered++;
    if (a->user != s || tenant < 0 || tenant >= s->c->n_tenants || a->end > mo_sim_now(s->engine))
        s->violations++;
    if (a->arrival < s->c->warmup_ns) return;
    struct sim_tenant_result *r = &s->out->tenant[tenant];
    r->n++;
    r->ok += a->code == MOIRE_OK;
    r->in_time += a->code == MOIRE_OK && (!a->deadline || a->end <= a->deadline);
    if (s->c->trace && a->end > s->c->trace->end_ns) s->c->trace->end_ns = a->end;
    note_latency(s, tenant, a->end - a->arrival);
}

static void note_arrival(struct sim *s, int tenant, int64_t now) {
    struct sim_trace *trace = s->c->trace;
    const struct mo_profile *p = s->profile[tenant];
    int64_t qos = s->c->tenant[tenant].qos_ns, least = mo_bound_least_time(p, s->c->n_cores);
    if (!trace || trace->n == SIM_MAX_ARRIVALS) return;
    trace->tenant[tenant] = (struct mo_bound_tenant){mo_bound_need(p, s->c->n_cores, (double)qos),
                                                     mo_bound_need(p, s->c->n_cores, INFINITY)};
    trace->query[trace->n++] = (struct mo_bound_query){now, now + (least > qos ? 0 : qos), tenant};
}

static void arrive(struct sim *s, int tenant) {
    const struct sim_tenant *t = &s->c->tenant[tenant];
    int64_t now = mo_sim_now(s->engine);
    uint64_t handle;
    note_arrival(s, tenant, now);
    if (mo_sim_submit(s->engine, tenant, s, &handle, NULL) == MOIRE_OK) {
        s->accepted++;
        if (uniform(&s->rng) < s->c->cancel_rate && s->n_cancels < MAX_CANCELS) {
            int64_t when = now + (int64_t)(uniform(&s->rng) * 3 * (double)t->solo_ns);
            s->cancels[s->n_cancels++] = (struct cancel){when, handle};
        }
    } else if (now >= s->c->warmup_ns) {
        s->out->tenant[tenant].n++;
        s->out->tenant[tenant].rejected++;
    }
    s->next[tenant] = now + (int64_t)(-log(1 - uniform(&s->arrivals[tenant])) / t->rate * 1e9) + 1;
    if (s->next[tenant] >= s->c->duration_ns) s->next[tenant] = INT64_MAX;
}

/* The next arrival or cancel; false when there is none. */
/* No tenant's blocks have more cores than it may have. */
static void check_bounds(struct sim *s) {
    const struct mo_view *v = mo_sched_view(mo_sim_sched(s->engine));
    int held[SIM_MAX_TENANTS] = {0};
    for (int i = 0; i < v->n_running; i++) {
        const struct mo_view_run *run = &v->runs[v->running[i]];
        held[v->queries[run->query].tenant] += run->n_cores;
    }
    for (int i = 0; i < s->c->n_tenants; i++)
        if (s->c->tenant[i].cores && held[i] > s->c->tenant[i].cores) s->violations++;
}

static bool drive(struct sim *s) {
    int tenant = 0, which = -1;
    for (int i = 1; i < s->c->n_tenants; i++)
        if (s->next[i] < s->next[tenant]) tenant = i;
    int64_t when = s->next[tenant];
    for (int i = 0; i < s->n_cancels; i++)
        if (s->cancels[i].time < when) when = s->cancels[which = i].time;
    if (when == INT64_MAX) return false;
    while (mo_sim_next(s->engine) < when) {
        mo_sim_advance(s->engine, mo_sim_next(s->engine));
        check_bounds(s);
    }
    mo_sim_advance(s->engine, when);
    if (which < 0) {
        arrive(s, tenant);
    } else {
        uint64_t handle = s->cancels[which].handle;
        s->cancels[which] = s->cancels[--s->n_cancels];
        mo_sim_cancel(s->engine, handle);
    }
    check_bounds(s);
    return true;
}

/* Layers of uneven length that add up to the model's time. */
static struct mo_profile *make_profile(const struct mo_env *env, const struct sim_tenant *t, int cores,
                                       uint64_t seed) {
    struct mo_profile *p = mo_profile_create(env, t->n_layers, cores);
    int64_t *ns = calloc((size_t)t->n_layers, sizeof *ns);
    double total = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t s = seed;
        for (int i = 0; i < t->n_layers; i++) {
            double w = 0.2 + uniform(&s);
            if (!pass)
                total += w;
            else
                ns[i] = (int64_t)(w / total * (double)t->solo_ns);
        }
    }
    mo_profile_record(p, 1, ns);
    /* Amdahl from the speedup on two cores */
    double serial = 2 / t->speedup2 - 1;
    for (int c = 2; c <= cores; c++) {
        int64_t *row = calloc((size_t)t->n_layers, sizeof *row);
        for (int i = 0; i < t->n_layers; i++)
            row[i] = (int64_t)((double)ns[i] * (serial + (1 - serial) / c));
        mo_profile_record(p, c, row);
        free(row);
    }
    free(ns);
    mo_profile_finish(p);
    return p;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void summarise(struct sim *s) {
    int n = 0, in_time = 0;
    s->out->worst = 1;
    for (int i = 0; i < s->c->n_tenants; i++) {
        struct sim_tenant_result *r = &s->out->tenant[i];
        n += r->n;
        in_time += r->in_time;
        double share = r->n ? (double)r->in_time / r->n : 1;
        if (share < s->out->worst && !s->c->tenant[i].best_effort) s->out->worst = share;
        if (!s->n_lat[i]) continue;
        qsort(s->lat[i], (size_t)s->n_lat[i], sizeof(float), by_value);
        r->p50_ms = (double)s->lat[i][s->n_lat[i] / 2];
        r->p99_ms = (double)s->lat[i][(int)(0.99 * s->n_lat[i])];
    }
    s->out->overall = n ? (double)in_time / n : 1;
    s->out->stats = *mo_sched_stats(mo_sim_sched(s->engine));
    s->out->unanswered = s->accepted - s->answered;
    s->out->violations = s->violations + (int)mo_sim_broken(s->engine);
    s->out->utilisation =
        (double)s->out->stats.kernel_core_ns / ((double)mo_sim_now(s->engine) * s->c->n_cores);
}

static int create(struct sim *s, const struct mo_env *env) {
    const struct sim_config *c = s->c;
    struct mo_sim_config config = {.env = env,
                                   .policy = c->policy,
                                   .machine = {.n_cores = c->n_cores,
                                               .block_ns = 3000,
                                               .noise = c->noise,
                                               .slowdown = c->slowdown,
                                               .corun = c->corun},
                                   .max_queries = 4096,
                                   .max_tenants = SIM_MAX_TENANTS,
                                   .block_ns = c->block_ns,
                                   .objective = c->objective,
                                   .seed = c->seed * 7919 + 1,
                                   .ring = c->ring,
                                   .answer = answer,
                                   .ctx = s};
    return mo_sim_create(&config, &s->engine, NULL);
}

static void open_tenant(struct sim *s, const struct mo_env *env, int i) {
    const struct sim_tenant *t = &s->c->tenant[i];
    s->arrivals[i] = s->c->seed * 1000003 + (uint64_t)i * 7919;
    s->profile[i] = make_profile(env, t, s->c->n_cores, (uint64_t)i + 1);
    struct mo_sched_tenant_config tc = {.qos_ns = t->qos_ns,
                                        .best_effort = t->best_effort,
                                        .shed_late = t->shed_late,
                                        .queue = t->queue ? t->queue : 1024,
                                        .cores = t->cores,
                                        .weight = t->weight,
                                        .instances = t->instances ? t->instances : s->c->n_cores + 2,
                                        .profile = s->profile[i]};
    int index;
    if (mo_sim_open(s->engine, &tc, &index, NULL) || index != i) s->violations++;
    s->next[i] = (int64_t)(uniform(&s->arrivals[i]) / t->rate * 1e9) + 1;
}

int sim_run(const struct sim_config *c, struct sim_result *out) {
    struct mo_env env = mo_env_default();
    struct sim *s = calloc(1, sizeof *s);
    s->c = c;
    s->out = out;
    s->rng = c->seed * 104729 + 1;
    *out = (struct sim_result){0};
    int rc = create(s, &env);
    if (rc) {
        free(s);
        return rc;
    }
    for (int i = 0; i < c->n_tenants; i++)
        open_tenant(s, &env, i);
    while (drive(s))
        continue;
    if (c->drain)
        mo_sim_drain(s->engine);
    else
        mo_sim_advance(s->engine, c->duration_ns);
    while (c->drain && mo_sched_view(mo_sim_sched(s->engine))->n_running) /* blocks of cancelled queries */
        mo_sim_advance(s->engine, mo_sim_next(s->engine));
    summarise(s);
    mo_sim_destroy(s->engine);
    for (int i = 0; i < c->n_tenants; i++) {
        mo_profile_destroy(s->profile[i]);
        free(s->lat[i]);
    }
    free(s);
    return MOIRE_OK;
}

void sim_mix(struct sim_config *c, double load, double factor, double speed) {
    /* one-core times in ms, layers, speedup on two cores */
    static const struct {
        double ms, speedup;
        int layers;
    } mix[] = {{7.5, 1.75, 55}, {11, 1.7, 85}, {30, 1.85, 65}, {70, 1.9, 60}, {62, 1.9, 12}, {280, 1.9, 70}};
    c->n_tenants = 6;
    double total = 0;
    for (int i = 0; i < 6; i++) {
        double qos = factor * mix[i].ms / mix[i].speedup;
        c->tenant[i] = (struct sim_tenant){.solo_ns = (int64_t)(mix[i].ms * 1e6 / speed),
                                           .n_layers = mix[i].layers,
                                           .speedup2 = mix[i].speedup,
                                           .qos_ns = (int64_t)(qos * 1e6)};
        total += mix[i].ms / qos;
    }
    /* frequency proportional to 1/QoS, so that sum rate x one-core time of the fastest system = load x cores
     */
    for (int i = 0; i < 6; i++) {
        double qos_ms = (double)c->tenant[i].qos_ns / 1e6;
        c->tenant[i].rate = load * c->n_cores * 1000 / (total * qos_ms);
    }
}
