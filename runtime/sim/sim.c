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
#include <math.h>
#include "runtime/base/numbers.h"
#include "runtime/sim/sim_impl.h"

/* --- blocks --------------------------------------------------------------------------------------------- */
static bool sooner(const struct mo_sim_work *a, const struct mo_sim_work *b) {
    return a->end != b->end ? a->end < b->end : a->order < b->order;
}

static void find_first(struct mo_sim *s) {
    int first = -1;
    s->moved = false;
    for (int i = 0; i < s->n_running; i++)
        if (first < 0 || sooner(&s->work[s->running[i]], &s->work[first])) first = s->running[i];
    s->first = first;
}

int64_t mo_sim_start(struct mo_sim *s, const struct mo_run *run, bool asleep) {
    const double *parts = s->config.spread[run->tenant].start[run->first][asleep];
    return (int64_t)parts[(int)(mo_draw_unit(&s->rng) * MO_SIM_PARTS)];
}

int64_t mo_sim_end_of(const struct mo_sim *s, const struct mo_sim_work *w) {
    double rest = w->left * w->pace;
    if (!mo_cores_none(&w->going)) return s->now;
    return s->config.pace ? mo_sim_pace_team_end(s->config.pace, &w->run.cores, w->seen, rest)
                          : w->seen + (int64_t)ceil(rest);
}

void mo_sim_catch_up(const struct mo_sim *s, struct mo_sim_work *w) {
    if (s->now <= w->seen) return;
    double passed = s->config.pace ? mo_sim_pace_team_work(s->config.pace, &w->run.cores, w->seen, s->now)
                                   : (double)(s->now - w->seen);
    w->left -= passed / w->pace;
    w->seen = s->now;
    if (w->left < 0) w->left = 0;
}

void mo_sim_repace(struct mo_sim *s, struct mo_sim_work *w, double pace) {
    if (pace == w->pace) return;
    mo_sim_catch_up(s, w);
    w->pace = pace;
    w->end = mo_sim_end_of(s, w);
}

void mo_sim_count(struct mo_sim *s, struct mo_sim_work *w) {
    if (!w->ran || s->now <= w->counted) return;
    mo_sched_stats(s->sched)->kernel_core_ns += (s->now - w->counted) * w->run.n_cores;
    w->counted = s->now;
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
    const struct mo_run *now = &s->work[run->lead].run;
    if (run->behind)
        return mo_cores_subset(&run->cores, &s->busy) && now->lead == run->lead && now->n_cores == n &&
               mo_cores_subset(&run->cores, &now->cores) && !s->queued[run->lead].run.batch;
    return n > 0 && n == run->n_cores && mo_cores_subset(&run->cores, &s->all) && run->begin < run->end &&
           !mo_cores_meet(&run->cores, &s->busy) && !mo_cores_meet(&run->cores, &s->resetting);
}

/* The cores are idle; the block was decided at `asked`. */
static void begin_block(struct mo_sim *s, const struct mo_run *run, int64_t asked) {
    struct mo_sim_work *w = &s->work[run->lead];
    w->asked = asked;
    double solo = s->device->time(s, run, w), profiled = solo;
    if (s->config.spread)
        solo *= s->config.spread[run->tenant]
                    .ratio[run->n_cores > 1][(int)(mo_draw_unit(&s->rng) * MO_SIM_PARTS)];
    else if (s->machine.slowdown > 0)
        solo *= s->machine.slowdown;
    if (s->machine.noise > 0 && !s->config.spread)
        solo *= 1 + s->machine.noise * (mo_draw_unit(&s->rng) - 0.5);
    w->run = *run;
    int64_t begin = s->device->begin(s, run, w);
    w->ran = begin <= run->latest_start;
    w->begin = w->seen = w->counted = begin;
    w->left = w->whole = w->ran ? solo : 0;
    w->factor = profiled > 0 ? solo / profiled : 1;
    w->at = run->begin;
    w->stop = run->end;
    w->leaving = w->going = (struct mo_cores){0};
    w->pace = 1;
    w->end = s->config.pace ? mo_sim_end_of(s, w) : begin + (int64_t)w->left;
    w->order = s->order++;
    mo_cores_join(&s->busy, &run->cores);
    s->n_busy += run->n_cores;
    s->running[s->n_running++] = run->lead;
    log_members(s, w->ran ? MO_LOG_BLOCK_START : MO_LOG_BLOCK_DROP, run, s->now);
    if (s->device->changed(s, w, 1))
        s->moved = true;
    else if (s->first < 0 || sooner(w, &s->work[s->first]))
        s->first = run->lead;
}

static void start(void *self, const struct mo_run *run) {
    struct mo_sim *s = self;
    s->broken += !possible(s, run);
    if (run->behind)
        s->queued[run->lead] = (struct mo_sim_work){.run = *run, .asked = s->now};
    else
        begin_block(s, run, s->now);
}

static void set_timer(void *self, int64_t when) {
    ((struct mo_sim *)self)->timer = when;
}

static void resolved(void *self, int slot) {
    struct mo_sim *s = self;
    mo_query_list_put(mo_sched_queries(s->sched), &s->resolved, slot);
}

static void prepare(void *self, int64_t expected_ns) {
    struct mo_sim *s = self;
    s->prepared = s->now + expected_ns;
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
        int tenant = queries->view[slot].tenant;
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

void mo_sim_take_out(struct mo_sim *s, int lead) {
    int i = 0;
    const struct mo_sim_work *w = &s->work[lead];
    while (s->running[i] != lead)
        i++;
    s->running[i] = s->running[--s->n_running];
    for (int c = s->config.starts ? mo_cores_next(&w->run.cores, -1) : -1; c >= 0;
         c = mo_cores_next(&w->run.cores, c))
        s->idle_since[c] = s->now;
    mo_cores_subtract(&s->busy, &w->run.cores);
    s->n_busy -= w->run.n_cores;
    s->device->changed(s, w, -1);
    s->moved = true;
}

static void end_block(struct mo_sim *s, int lead, int code) {
    struct mo_sim_work *w = &s->work[lead], *next = &s->queued[lead];
    const bool ran = w->ran;
    const int64_t begin = w->begin;
    mo_sim_take_out(s, lead);
    if (w->ran) {
        mo_sim_reuse_ran(&s->reuse, w->run.tenant, w->run.begin, w->run.end);
        if (s->device->ends && !code)
            s->device->ends(s, w, mo_query_handle(mo_sched_queries(s->sched), w->run.query));
        log_members(s, MO_LOG_BLOCK_END, &w->run, s->now);
        mo_sim_count(s, w);
    }
    if (next->run.batch) begin_block(s, &next->run, next->asked);
    next->run.batch = 0;
    mo_sched_block_done(s->sched, lead, ran, code, begin, s->now, NULL, s->now);
}

int64_t mo_sim_next(struct mo_sim *s) {
    if (s->moved) find_first(s);
    int64_t end = s->first >= 0 ? s->work[s->first].end : MO_NEVER;
    int64_t next = end < s->timer ? end : s->timer;
    if (s->restored < next) next = s->restored;
    return next < s->prepared ? next : s->prepared;
}

static void step(struct mo_sim *s, int64_t when) {
    s->now = when;
    const struct mo_sim_work *first = s->first >= 0 ? &s->work[s->first] : NULL;
    if (first && first->end == when) {
        if (!mo_cores_none(&first->going))
            mo_sim_let_go(s, s->first);
        else if (first->stop < first->run.end)
            mo_sim_end_phase(s, s->first);
        else
            end_block(s, s->first, MOIRE_OK);
    } else if (s->restored <= when) {
        mo_sim_restore(s);
    } else if (s->prepared <= when) {
        s->prepared = MO_NEVER;
        mo_sched_prepared(s->sched, when);
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

/* A query that was due at `arrival` comes in now. */
static int submit(struct mo_sim *s, int tenant, int64_t arrival, int64_t deadline, void *user,
                  uint64_t *handle, moire_error *err) {
    int slot;
    mo_event_put(s->config.ring, s->now, MO_LOG_SUBMIT, 0, tenant, arrival, 0, 0);
    /* the answer may come before the core returns: the count must know of it */
    s->unanswered++;
    int code = mo_sched_arrival_by(s->sched, tenant, arrival, deadline, user, s->now, &slot, err);
    if (code)
        s->unanswered--;
    else if (handle)
        *handle = mo_query_handle(mo_sched_queries(s->sched), slot);
    deliver(s);
    return code;
}

int mo_sim_submit_late(struct mo_sim *s, int tenant, int64_t arrival, void *user, uint64_t *handle,
                       moire_error *err) {
    int64_t qos = mo_sched_view(s->sched)->tenants[tenant].qos_ns, deadline;
    if (!qos || __builtin_add_overflow(arrival, qos, &deadline)) deadline = MO_NEVER;
    return submit(s, tenant, arrival, deadline, user, handle, err);
}

int mo_sim_submit(struct mo_sim *s, int tenant, void *user, uint64_t *handle, moire_error *err) {
    return mo_sim_submit_late(s, tenant, s->now, user, handle, err);
}

int mo_sim_submit_by(struct mo_sim *s, int tenant, int64_t deadline, void *user, uint64_t *handle,
                     moire_error *err) {
    return submit(s, tenant, s->now, deadline, user, handle, err);
}

int mo_sim_cancel(struct mo_sim *s, uint64_t handle) {
    int code = mo_sched_cancel(s->sched, handle, MOIRE_ECANCELLED, s->now);
    deliver(s);
    return code;
}

static int64_t cost_clock(void *self) {
    const struct mo_sim *s = self;
    return s->config.cost_clock(s->config.ctx);
}

/* --- create, destroy ------------------------------------------------------------------------------------ */
int mo_sim_create(const struct mo_sim_config *c, struct mo_sim **out, moire_error *err) {
    static const struct mo_engine_ops ops = {.start = start,
                                             .resize = mo_sim_resize,
                                             .reset = mo_sim_reset,
                                             .set_timer = set_timer,
                                             .resolved = resolved,
                                             .released = released,
                                             .prepare = prepare};
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
                         .prepared = MO_NEVER,
                         .restored = MO_NEVER,
                         .device = c->machine.gpus ? &mo_sim_gpus : &mo_sim_cores,
                         .rng = c->seed};
    s->profile = mo_alloc(c->env, (size_t)c->max_tenants * sizeof *s->profile);
    s->share = mo_alloc(c->env, (size_t)c->max_tenants * sizeof *s->share);
    s->active = mo_alloc(c->env, (size_t)c->max_tenants * sizeof *s->active);
    s->work = mo_alloc(c->env, n * sizeof *s->work);
    s->queued = mo_alloc(c->env, n * sizeof *s->queued);
    s->restored_at = mo_alloc(c->env, n * sizeof *s->restored_at);
    s->running = mo_alloc(c->env, n * sizeof *s->running);
    s->brought = mo_alloc(c->env, (size_t)c->max_tenants * sizeof *s->brought);
    s->idle_since = mo_alloc(c->env, n * sizeof *s->idle_since);
    int none = mo_sim_reuse_init(&s->reuse, c->env, c->machine.cache_bytes, c->max_tenants);
    int code = !none && s->profile && s->share && s->active && s->work && s->queued && s->restored_at &&
                       s->running && s->brought && s->idle_since
                   ? MOIRE_OK
                   : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d simulated cores", c->machine.n_cores);
    struct mo_sched_config sc = {
        .env = c->env,
        .policy = c->policy,
        .n_cores = c->machine.n_cores,
        .max_queries = c->max_queries,
        .max_tenants = c->max_tenants,
        .block_ns = c->block_ns,
        .reset_ns = c->machine.reset_ns,
        .objective = c->objective,
        .gpus = c->machine.gpus,
        .max_batch = c->machine.gpus ? MO_SHARE_BATCH : 1,
        .ops = &ops,
        .engine = s,
        .ring = c->ring,
        .memory = {c->machine.bytes_ns, c->machine.cache_bytes},
        .source = {"simulated counters", mo_sim_has_counters(&c->machine) ? mo_sim_read_pressure : NULL, s},
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
    mo_sim_reuse_free(&s->reuse);
    mo_free(s->env, s->active);
    mo_free(s->env, s->restored_at);
    mo_free(s->env, s->running);
    mo_free(s->env, s->brought);
    mo_free(s->env, s->idle_since);
    mo_free(s->env, s->queued);
    mo_free(s->env, s->work);
    mo_free(s->env, (void *)s->profile);
    mo_free(s->env, (void *)s->share);
    mo_free(s->env, s);
}

int mo_sim_open(struct mo_sim *s, const struct mo_sched_tenant_config *config, int *tenant,
                moire_error *err) {
    int code = mo_sched_tenant_open(s->sched, config, s->now, tenant, err);
    if (code) return code;
    s->profile[*tenant] = config->profile;
    s->share[*tenant] = config->share;
    return mo_sim_reuse_open(&s->reuse, *tenant, config->profile)
               ? mo_fail(err, MOIRE_ENOMEM, "out of memory for a simulated cache")
               : MOIRE_OK;
}

void mo_sim_gpu_lost(struct mo_sim *s, int gpu, bool lost) {
    mo_sched_gpu_lost(s->sched, gpu, lost, s->now);
    bool gone = mo_sched_view(s->sched)->gpu_lost[gpu];
    for (int i = 0; gone && i < s->n_running;) {
        const struct mo_sim_work *w = &s->work[s->running[i]];
        if (w->gpu != gpu) {
            i++;
            continue;
        }
        end_block(s, w->run.lead, MOIRE_EDEVICE);
        i = 0; /* others have begun elsewhere */
    }
    deliver(s);
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
