/* SPDX-License-Identifier: Apache-2.0
 * sim.c - virtual time around the scheduler core.
 *
 * There is no queue of events: arrivals come from the driver, the core has one timer, and what remains is the
 * earliest end among the blocks that run, at most one a core.  That end is kept at hand; a scan over the
 * running blocks finds the next one, which for the let counts of real machines is cheaper than a heap, and
 * with contention every end moves anyway.
 *
 * Blocks that end at one instant end in the order in which they began; a block's end comes before a timer,
 * and both before an arrival of the same instant. */
#include "runtime/sim/sim.h"

#include <math.h>

static const double ALIKE = 1e-9;

/* A block on its way. */
struct work {
    struct mo_run run;
    int64_t begin, end;   /* layers run in [begin, end) if nothing changes */
    int64_t seen;         /* `left` is as of this time */
    double left;          /* ns of solo time to go */
    double pace;          /* ns of real time for one of solo time */
    double once;          /* bytes a ns of solo time: read once a query, */
    double alone, shared; /* and read again, nobody else running and everybody */
    double demand;        /* of these, to memory now */
    uint64_t order;
    bool ran;
};

struct mo_sim {
    const struct mo_env *env;
    struct mo_sim_machine machine;
    struct mo_sched *sched;
    struct mo_sim_config config;
    const struct mo_profile **profile; /* by tenant */
    struct work *work;                 /* by lead core */
    int *running;                      /* lead cores of running blocks */
    int n_running, first;              /* first: of them, the one that ends first; -1 = none */
    int n_busy;                        /* cores */
    struct mo_cores all, busy;
    int64_t *idle_since; /* by core */
    struct mo_query_list resolved;
    int64_t now, timer, unanswered, broken;
    double demand;   /* of all running blocks on memory, bytes a ns */
    int *active;     /* running blocks by tenant */
    double resident; /* bytes that the tenants with running blocks touch in a query */
    uint64_t order, rng;
};

/* --- speed ---------------------------------------------------------------------------------------------- */
/* splitmix64: one word of state, any seed is good */
static double uniform(uint64_t *s) {
    uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static bool contended(const struct mo_sim *s) {
    return s->machine.corun > 0 || s->machine.bytes_ns > 0;
}

/* Share of the traffic that the shared cache does not catch: what the active models touch competes for it,
 * and each keeps its part. */
static double missed(const struct mo_sim *s) {
    double cache = s->machine.cache_bytes;
    return cache <= 0 ? 1 : s->resident > cache ? 1 - cache / s->resident : 0;
}

/* What a block asks of memory now. */
static double demand_of(const struct mo_sim *s, const struct work *w, double miss) {
    int others = s->machine.n_cores - w->run.n_cores;
    double busy = others > 0 ? (double)(s->n_busy - w->run.n_cores) / others : 0;
    return w->once * miss + w->alone + busy * (w->shared - w->alone);
}

/* Bytes a ns that a core may have when all blocks together ask for more than there is: those that ask for
 * less than their cores' part leave the rest to the others. */
static double fair_part(const struct mo_sim *s) {
    double part = s->machine.bytes_ns / s->n_busy;
    for (;;) {
        double left = s->machine.bytes_ns;
        int cores = 0;
        for (int i = 0; i < s->n_running; i++) {
            const struct work *w = &s->work[s->running[i]];
            if (w->demand <= part * w->run.n_cores)
                left -= w->demand;
            else
                cores += w->run.n_cores;
        }
        double next = cores ? left / cores : part;
        if (next <= part * (1 + ALIKE)) return part;
        part = next;
    }
}

static double pace_of(const struct mo_sim *s, const struct work *w, double part) {
    double pace = s->n_running > 1 ? 1 + s->machine.corun : 1, share = part * w->run.n_cores;
    return w->demand > share ? pace * w->demand / share : pace;
}

/* A block of the tenant begins (+1) or ends (-1). */
static void note_active(struct mo_sim *s, int tenant, int change) {
    const struct mo_profile *p = s->profile[tenant];
    s->active[tenant] += change;
    if (s->active[tenant] == (change > 0))
        s->resident += change * (double)mo_profile_bytes(p, 0, p->n_layers);
}

static bool sooner(const struct work *a, const struct work *b) {
    return a->end != b->end ? a->end < b->end : a->order < b->order;
}

static void find_first(struct mo_sim *s) {
    int first = -1;
    for (int i = 0; i < s->n_running; i++)
        if (first < 0 || sooner(&s->work[s->running[i]], &s->work[first])) first = s->running[i];
    s->first = first;
}

/* When what is left of a block is done if nothing changes. */
static int64_t end_of(const struct mo_sim *s, const struct work *w) {
    double rest = w->left * w->pace;
    return s->config.pace ? mo_sim_pace_end(s->config.pace, w->run.lead, w->seen, rest)
                          : w->seen + (int64_t)ceil(rest);
}

/* What of a block's time has passed, at the pace that it had. */
static void catch_up(const struct mo_sim *s, struct work *w) {
    if (s->now <= w->seen) return;
    double passed = s->config.pace ? mo_sim_pace_work(s->config.pace, w->run.lead, w->seen, s->now)
                                   : (double)(s->now - w->seen);
    w->left -= passed / w->pace;
    w->seen = s->now;
    if (w->left < 0) w->left = 0;
}

/* The set of running blocks has changed: what is left of each goes on at its new pace. */
static void revise(struct mo_sim *s) {
    double miss = missed(s), part = INFINITY;
    s->demand = 0;
    for (int i = 0; i < s->n_running && s->machine.bytes_ns > 0; i++) {
        struct work *w = &s->work[s->running[i]];
        w->demand = demand_of(s, w, miss);
        s->demand += w->demand;
    }
    if (s->machine.bytes_ns > 0 && s->demand > s->machine.bytes_ns) part = fair_part(s);
    for (int i = 0; i < s->n_running; i++) {
        struct work *w = &s->work[s->running[i]];
        double pace = pace_of(s, w, part);
        if (pace == w->pace) continue;
        catch_up(s, w);
        w->pace = pace;
        w->end = end_of(s, w);
    }
    find_first(s);
}

/* --- the core's calls ----------------------------------------------------------------------------------- */
static void log_members(const struct mo_sim *s, int kind, const struct mo_run *run, int64_t when) {
    if (!s->config.ring) return;
    uint64_t handle = mo_query_handle(mo_sched_queries(s->sched), run->query);
    for (int c = mo_cores_next(&run->cores, -1); c >= 0; c = mo_cores_next(&run->cores, c))
        mo_event_put(s->config.ring, when, kind, handle, run->tenant, run->begin, run->end, c);
}

static bool possible(const struct mo_sim *s, const struct mo_run *run) {
    int n = mo_cores_count(&run->cores);
    return n > 0 && n == run->n_cores && mo_cores_subset(&run->cores, &s->all) && run->begin < run->end &&
           !mo_cores_meet(&run->cores, &s->busy);
}

/* Solo time of a block in the versions chosen for it, and what it reads a ns of that. */
static double block_time(const struct mo_profile *p, const struct mo_run *run, struct work *w) {
    int n = run->n_cores, begin = run->begin, end = run->end;
    double solo = (double)mo_profile_time(p, n, begin, end);
    w->alone = w->shared = 0;
    if (p->level) {
        const struct mo_profile_level *at = mo_profile_at(p, run->pressure);
        solo = (double)mo_profile_part(p, at->solo, n, begin, end);
        w->alone = (double)mo_profile_part(p, at->alone, n, begin, end) / solo;
        w->shared = (double)mo_profile_part(p, at->shared, n, begin, end) / solo;
    }
    w->once = solo > 0 ? (double)mo_profile_bytes(p, begin, end) / solo : 0;
    return solo;
}

/* From a decision to the first layer. */
static int64_t start_cost(struct mo_sim *s, const struct mo_run *run) {
    if (!s->config.starts) return s->machine.block_ns + (run->first ? s->machine.query_ns : 0);
    bool asleep = true; /* the first core to begin is one that spins, if any does */
    for (int c = mo_cores_next(&run->cores, -1); c >= 0; c = mo_cores_next(&run->cores, c))
        asleep = asleep && s->now - s->idle_since[c] > MO_SPIN_NS;
    const double *parts = s->config.spread[run->tenant].start[run->first][asleep];
    return (int64_t)parts[(int)(uniform(&s->rng) * MO_SIM_PARTS)];
}

static void start(void *self, const struct mo_run *run) {
    struct mo_sim *s = self;
    struct work *w = &s->work[run->lead];
    const struct mo_profile *profile = s->profile[run->tenant];
    s->broken += !possible(s, run);
    double solo = block_time(profile, run, w);
    if (s->config.spread)
        solo *= s->config.spread[run->tenant].ratio[run->n_cores > 1][(int)(uniform(&s->rng) * MO_SIM_PARTS)];
    else if (s->machine.slowdown > 0)
        solo *= s->machine.slowdown;
    if (s->machine.noise > 0 && !s->config.spread) solo *= 1 + s->machine.noise * (uniform(&s->rng) - 0.5);
    int64_t begin = s->now + start_cost(s, run);
    w->run = *run;
    w->ran = begin <= run->latest_start;
    w->begin = w->seen = begin;
    w->left = w->ran ? solo : 0;
    w->pace = 1;
    w->end = s->config.pace ? end_of(s, w) : begin + (int64_t)w->left;
    w->order = s->order++;
    mo_cores_join(&s->busy, &run->cores);
    s->n_busy += run->n_cores;
    s->running[s->n_running++] = run->lead;
    note_active(s, run->tenant, 1);
    log_members(s, w->ran ? MO_LOG_BLOCK_START : MO_LOG_BLOCK_DROP, run, s->now);
    if (contended(s))
        revise(s);
    else if (s->first < 0 || sooner(w, &s->work[s->first]))
        s->first = run->lead;
}

static void set_timer(void *self, int64_t when) {
    ((struct mo_sim *)self)->timer = when;
}

static void resolved(void *self, int slot) {
    struct mo_sim *s = self;
    mo_query_list_put(mo_sched_queries(s->sched), &s->resolved, slot);
}

static void released(void *self, int tenant, void *user) {
    (void)self, (void)tenant, (void)user;
}

/* --- events --------------------------------------------------------------------------------------------- */
/* Answers are delivered after the core has returned, as in the live engine. */
static void deliver(struct mo_sim *s) {
    struct mo_queries *queries = mo_sched_queries(s->sched);
    struct mo_answer answer;
    for (int slot; (slot = mo_query_list_take(queries, &s->resolved, &answer)) >= 0;) {
        int tenant = queries->face[slot].tenant;
        s->unanswered--;
        if (s->config.ring)
            mo_event_put(s->config.ring, s->now, MO_LOG_CALLBACK_IN, answer.query, tenant, answer.code, 0, 0);
        s->config.answer(s->config.ctx, tenant, &answer);
        if (s->config.ring)
            mo_event_put(s->config.ring, s->now, MO_LOG_CALLBACK_OUT, answer.query, tenant, answer.code, 0,
                         0);
        mo_sched_answered(s->sched, slot, s->now);
    }
}

static void end_block(struct mo_sim *s) {
    int lead = s->first, i = 0;
    struct work *w = &s->work[lead];
    while (s->running[i] != lead)
        i++;
    s->running[i] = s->running[--s->n_running];
    note_active(s, w->run.tenant, -1);
    for (int c = mo_cores_next(&w->run.cores, -1); c >= 0; c = mo_cores_next(&w->run.cores, c))
        s->idle_since[c] = s->now;
    mo_cores_subtract(&s->busy, &w->run.cores);
    s->n_busy -= w->run.n_cores;
    if (contended(s))
        revise(s);
    else
        find_first(s);
    if (w->ran) {
        log_members(s, MO_LOG_BLOCK_END, &w->run, s->now);
        mo_sched_stats(s->sched)->kernel_core_ns += (s->now - w->begin) * w->run.n_cores;
    }
    mo_sched_block_done(s->sched, lead, w->ran, MOIRE_OK, w->begin, s->now, s->now);
}

int64_t mo_sim_next(const struct mo_sim *s) {
    int64_t end = s->first >= 0 ? s->work[s->first].end : MO_NEVER;
    return end < s->timer ? end : s->timer;
}

static void step(struct mo_sim *s, int64_t when) {
    s->now = when;
    if (s->first >= 0 && s->work[s->first].end == when) {
        end_block(s);
    } else {
        s->timer = MO_NEVER;
        mo_sched_timer(s->sched, when);
    }
    deliver(s);
}

void mo_sim_advance(struct mo_sim *s, int64_t to) {
    for (int64_t next; (next = mo_sim_next(s)) <= to && next != MO_NEVER;)
        step(s, next > s->now ? next : s->now);
    if (to > s->now) s->now = to;
}

int64_t mo_sim_drain(struct mo_sim *s) {
    for (int64_t next; s->unanswered && (next = mo_sim_next(s)) != MO_NEVER;)
        step(s, next > s->now ? next : s->now);
    return s->unanswered;
}

int mo_sim_submit(struct mo_sim *s, int tenant, void *user, uint64_t *handle, moire_error *err) {
    int slot;
    mo_event_put(s->config.ring, s->now, MO_LOG_SUBMIT, 0, tenant, s->now, 0, 0);
    /* the answer may come before the core returns: the count must know of it */
    s->unanswered++;
    int code = mo_sched_arrival(s->sched, tenant, s->now, user, s->now, &slot, err);
    if (code)
        s->unanswered--;
    else if (handle)
        *handle = mo_query_handle(mo_sched_queries(s->sched), slot);
    deliver(s);
    return code;
}

int mo_sim_cancel(struct mo_sim *s, uint64_t handle) {
    int code = mo_sched_cancel(s->sched, handle, MOIRE_ECANCELLED, s->now);
    deliver(s);
    return code;
}

/* What counters would say: the share of the memory ceiling that is asked for. */
static bool read_pressure(void *self, int64_t now, double *pressure) {
    const struct mo_sim *s = self;
    (void)now;
    *pressure = s->demand / s->machine.bytes_ns;
    return true;
}

static int64_t cost_clock(void *self) {
    const struct mo_sim *s = self;
    return s->config.cost_clock(s->config.ctx);
}

/* --- create, destroy ------------------------------------------------------------------------------------ */
int mo_sim_create(const struct mo_sim_config *c, struct mo_sim **out, moire_error *err) {
    static const struct mo_engine_ops ops = {start, set_timer, resolved, released};
    struct mo_sim *s = mo_alloc(c->env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a simulated engine");
    size_t n = (size_t)c->machine.n_cores;
    *s = (struct mo_sim){.env = c->env,
                         .machine = c->machine,
                         .config = *c,
                         .all = mo_cores_first(c->machine.n_cores),
                         .first = -1,
                         .resolved = MO_QUERY_LIST_EMPTY,
                         .timer = MO_NEVER,
                         .rng = c->seed};
    s->profile = mo_alloc(c->env, (size_t)c->max_tenants * sizeof *s->profile);
    s->active = mo_alloc(c->env, (size_t)c->max_tenants * sizeof *s->active);
    s->work = mo_alloc(c->env, n * sizeof *s->work);
    s->running = mo_alloc(c->env, n * sizeof *s->running);
    s->idle_since = mo_alloc(c->env, n * sizeof *s->idle_since);
    int code = s->profile && s->active && s->work && s->running && s->idle_since
                   ? MOIRE_OK
                   : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d simulated cores", c->machine.n_cores);
    struct mo_sched_config sc = {
        .env = c->env,
        .policy = c->policy,
        .n_cores = c->machine.n_cores,
        .max_queries = c->max_queries,
        .max_tenants = c->max_tenants,
        .block_ns = c->block_ns,
        .ops = &ops,
        .engine = s,
        .ring = c->ring,
        .source = {"simulated counters", c->machine.bytes_ns > 0 ? read_pressure : NULL, s},
        .cost_clock = c->cost_clock ? cost_clock : NULL};
    if (!code) code = mo_sched_create(&sc, &s->sched, err);
    if (code)
        mo_sim_destroy(s);
    else
        *out = s;
    return code;
}

void mo_sim_destroy(struct mo_sim *s) {
    if (!s) return;
    mo_sched_destroy(s->sched);
    mo_free(s->env, s->active);
    mo_free(s->env, s->running);
    mo_free(s->env, s->idle_since);
    mo_free(s->env, s->work);
    mo_free(s->env, (void *)s->profile);
    mo_free(s->env, s);
}

int mo_sim_open(struct mo_sim *s, const struct mo_sched_tenant_config *config, int *tenant,
                moire_error *err) {
    int code = mo_sched_tenant_open(s->sched, config, s->now, tenant, err);
    if (!code) s->profile[*tenant] = config->profile;
    return code;
}

int64_t mo_sim_now(const struct mo_sim *s) {
    return s->now;
}
struct mo_sched *mo_sim_sched(struct mo_sim *s) {
    return s->sched;
}
int64_t mo_sim_broken(const struct mo_sim *s) {
    return s->broken;
}
