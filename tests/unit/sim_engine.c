/* SPDX-License-Identifier: Apache-2.0
 * sim_engine.c - virtual time: a binary heap of events around the scheduler core. */
#include "tests/unit/sim_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { ARRIVE, DONE, TIMER, CANCEL };

struct event {
    int64_t time;
    uint64_t order, handle;
    enum kind kind;
    int arg;
};

struct sim {
    const struct sim_config *c;
    struct mo_env env;
    struct mo_sched *sched;
    struct event *heap;
    int n_heap, cap_heap;
    uint64_t order, rng, arrivals[SIM_MAX_TENANTS]; /* a stream each: policies see the same arrivals */
    int64_t now, timer;
    struct mo_run run[SIM_MAX_CORES];
    int64_t run_start[SIM_MAX_CORES];
    bool core_busy[SIM_MAX_CORES];
    int tenant_of[SIM_MAX_TENANTS];
    int *resolved;
    int n_resolved, cap_resolved;
    int accepted, answered, released, violations;
    double busy;
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

static bool less(const struct event *a, const struct event *b) {
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void push(struct sim *s, struct event e) {
    if (s->n_heap == s->cap_heap) {
        s->cap_heap = s->cap_heap ? 2 * s->cap_heap : 1024;
        s->heap = realloc(s->heap, (size_t)s->cap_heap * sizeof *s->heap);
    }
    e.order = s->order++;
    int i = s->n_heap++;
    for (; i && less(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static struct event pop(struct sim *s) {
    struct event top = s->heap[0], e = s->heap[--s->n_heap];
    int i = 0;
    for (;;) {
        int k = 2 * i + 1;
        if (k >= s->n_heap) break;
        if (k + 1 < s->n_heap && less(&s->heap[k + 1], &s->heap[k])) k++;
        if (!less(&s->heap[k], &e)) break;
        s->heap[i] = s->heap[k];
        i = k;
    }
    s->heap[i] = e;
    return top;
}

static void log_event(struct sim *s, int kind, int slot, int tenant, int64_t a, int64_t b, int64_t c) {
    if (!s->c->ring) return;
    uint64_t handle = slot < 0 ? 0 : mo_query_handle(mo_sched_queries(s->sched), slot);
    mo_event_put(s->c->ring, s->now, kind, handle, tenant, a, b, c);
}

static void log_members(struct sim *s, int kind, const struct mo_run *run) {
    for (int c = mo_cores_next(&run->cores, -1); c >= 0; c = mo_cores_next(&run->cores, c))
        log_event(s, kind, run->query, run->tenant, run->begin, run->end, c);
}

/* The engine's table: the checks here are the test's own view of the rules, apart from the core's. */
static void start(void *self, const struct mo_run *run) {
    struct sim *s = self;
    int n = 0, others = 0;
    for (int c = 0; c < s->c->n_cores; c++)
        others += s->core_busy[c];
    for (int c = mo_cores_next(&run->cores, -1); c >= 0; c = mo_cores_next(&run->cores, c), n++) {
        if (c >= s->c->n_cores || s->core_busy[c])
            s->violations++;
        else
            s->core_busy[c] = true;
    }
    if (n != run->n_cores || run->begin >= run->end) s->violations++;
    double t = (double)mo_profile_time(s->profile[run->tenant], run->n_cores, run->begin, run->end);
    t *= (s->c->slowdown > 0 ? s->c->slowdown : 1) * (1 + s->c->noise * (uniform(&s->rng) - 0.5));
    if (others) t *= 1 + s->c->corun;
    s->run[run->lead] = *run;
    s->run_start[run->lead] = s->now;
    s->busy += t * n;
    log_members(s, MO_LOG_BLOCK_START, run);
    push(s, (struct event){.time = s->now + 3000 + (int64_t)t, .kind = DONE, .arg = run->lead});
}

static void set_timer(void *self, int64_t when) {
    struct sim *s = self;
    s->timer = when;
    if (when != MO_NEVER) push(s, (struct event){.time = when, .kind = TIMER});
}

static void resolved(void *self, int slot) {
    struct sim *s = self;
    if (s->n_resolved == s->cap_resolved) {
        s->cap_resolved = s->cap_resolved ? 2 * s->cap_resolved : 64;
        s->resolved = realloc(s->resolved, (size_t)s->cap_resolved * sizeof *s->resolved);
    }
    s->resolved[s->n_resolved++] = slot;
}

static void released(void *self, int tenant, void *user) {
    struct sim *s = self;
    if (user != s || tenant < 0 || tenant >= s->c->n_tenants) s->violations++;
    s->released++;
}

static void note_latency(struct sim *s, int tenant, int64_t ns) {
    if (s->n_lat[tenant] == s->cap_lat[tenant]) {
        s->cap_lat[tenant] = s->cap_lat[tenant] ? 2 * s->cap_lat[tenant] : 1024;
        s->lat[tenant] = realloc(s->lat[tenant], (size_t)s->cap_lat[tenant] * sizeof(float));
    }
    s->lat[tenant][s->n_lat[tenant]++] = (float)ns / 1e6f;
}

/* Callbacks run after the core has returned, as in the live engine. */
static void answer(struct sim *s) {
    while (s->n_resolved) {
        int slot = s->resolved[0];
        memmove(s->resolved, s->resolved + 1, (size_t)--s->n_resolved * sizeof *s->resolved);
        struct mo_queries *queries = mo_sched_queries(s->sched);
        struct mo_view_query *q = &queries->face[slot];
        int code = mo_query_outcome(queries, slot);
        s->answered++;
        if (q->arrival >= s->c->warmup_ns) {
            struct sim_tenant_result *r = &s->out->tenant[q->tenant];
            r->n++;
            r->ok += code == MOIRE_OK;
            r->in_time += code == MOIRE_OK && s->now <= q->deadline;
            note_latency(s, q->tenant, s->now - q->arrival);
        }
        log_event(s, MO_LOG_CALLBACK_IN, slot, q->tenant, code, 0, 0);
        log_event(s, MO_LOG_CALLBACK_OUT, slot, q->tenant, code, 0, 0);
        mo_sched_answered(s->sched, slot, s->now);
    }
}

static void arrive(struct sim *s, int tenant) {
    const struct sim_tenant *t = &s->c->tenant[tenant];
    int slot;
    log_event(s, MO_LOG_SUBMIT, -1, tenant, s->now, 0, 0);
    if (mo_sched_arrival(s->sched, tenant, s->now, s, s->now, &slot, NULL) == MOIRE_OK) {
        s->accepted++;
        if (uniform(&s->rng) < s->c->cancel_rate) {
            int64_t when = s->now + (int64_t)(uniform(&s->rng) * 3 * (double)t->solo_ns);
            push(s, (struct event){.time = when,
                                   .kind = CANCEL,
                                   .handle = mo_query_handle(mo_sched_queries(s->sched), slot)});
        }
    } else if (s->now >= s->c->warmup_ns) {
        s->out->tenant[tenant].n++;
        s->out->tenant[tenant].rejected++;
    }
    int64_t next = s->now + (int64_t)(-log(1 - uniform(&s->arrivals[tenant])) / t->rate * 1e9) + 1;
    if (next < s->c->duration_ns) push(s, (struct event){.time = next, .kind = ARRIVE, .arg = tenant});
}

static void done(struct sim *s, int lead) {
    struct mo_run *run = &s->run[lead];
    for (int c = mo_cores_next(&run->cores, -1); c >= 0; c = mo_cores_next(&run->cores, c))
        s->core_busy[c] = false;
    log_members(s, MO_LOG_BLOCK_END, run);
    mo_sched_block_done(s->sched, lead, true, MOIRE_OK, s->run_start[lead], s->now, s->now);
}

static void handle(struct sim *s, const struct event *e) {
    s->now = e->time;
    switch (e->kind) {
    case ARRIVE:
        arrive(s, e->arg);
        break;
    case DONE:
        done(s, e->arg);
        break;
    case TIMER:
        if (e->time == s->timer) mo_sched_timer(s->sched, s->now);
        break;
    case CANCEL:
        mo_sched_cancel(s->sched, e->handle, MOIRE_ECANCELLED, s->now);
        break;
    }
    answer(s);
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
    s->out->stats = *mo_sched_stats(s->sched);
    s->out->unanswered = s->accepted - s->answered;
    s->out->violations = s->violations;
    s->out->utilisation = s->busy / ((double)s->now * s->c->n_cores);
}

int sim_run(const struct sim_config *c, struct sim_result *out) {
    static const struct mo_engine_ops ops = {start, set_timer, resolved, released};
    struct sim s = {
        .c = c, .env = mo_env_default(), .rng = c->seed * 7919 + 1, .timer = MO_NEVER, .out = out};
    *out = (struct sim_result){0};
    struct mo_sched_config sc = {.env = &s.env,
                                 .policy = c->policy,
                                 .n_cores = c->n_cores,
                                 .max_queries = 4096,
                                 .max_tenants = SIM_MAX_TENANTS,
                                 .block_ns = c->block_ns,
                                 .ops = &ops,
                                 .engine = &s,
                                 .ring = c->ring};
    int rc = mo_sched_create(&sc, &s.sched, NULL);
    if (rc) return rc;
    for (int i = 0; i < c->n_tenants; i++) {
        const struct sim_tenant *t = &c->tenant[i];
        s.arrivals[i] = c->seed * 1000003 + (uint64_t)i * 7919;
        s.profile[i] = make_profile(&s.env, t, c->n_cores, (uint64_t)i + 1);
        struct mo_sched_tenant_config tc = {.qos_ns = t->qos_ns,
                                            .best_effort = t->best_effort,
                                            .shed_late = t->shed_late,
                                            .queue = t->queue ? t->queue : 1024,
                                            .instances = t->instances ? t->instances : c->n_cores + 2,
                                            .profile = s.profile[i]};
        mo_sched_tenant_open(s.sched, &tc, 0, &s.tenant_of[i], NULL);
        push(&s, (struct event){.time = (int64_t)(uniform(&s.arrivals[i]) / t->rate * 1e9) + 1,
                                .kind = ARRIVE,
                                .arg = i});
    }
    while (s.n_heap) {
        struct event e = pop(&s);
        if (!c->drain && e.time > c->duration_ns) break;
        handle(&s, &e);
    }
    summarise(&s);
    mo_sched_destroy(s.sched);
    for (int i = 0; i < c->n_tenants; i++) {
        mo_profile_destroy(s.profile[i]);
        free(s.lat[i]);
    }
    free(s.heap);
    free(s.resolved);
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
