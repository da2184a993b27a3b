/* SPDX-License-Identifier: Apache-2.0
 * engine_cores.c - the table of cores: starts blocks on teams of workers, and gives them other cores while
 * they run; see engine_cores.h. */
#include "runtime/engine/engine_cores_impl.h"

enum { CLAIMS_SPIN = 4000 };

/* --- open, close ---------------------------------------------------------------------------------------- */
static int open_cores(struct mo_device *device, const void *options, void **self,
                      struct mo_device_about *about, moire_error *err) {
    const struct mo_engine_cores_options *o = options;
    const struct mo_env *env = device->env;
    struct mo_cores_engine *c = *self = mo_alloc(env, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine");
    c->device = device;
    c->env = env;
    c->n = about->n_units = o->topology->n_cores;
    mo_recent_init(&c->recent, env, c->n);
    c->team_config = (struct mo_team_config){.env = env,
                                             .n = c->n,
                                             .spin_ns = MO_SPIN_NS,
                                             .cpu = o->no_pin ? NULL : o->topology->cpu,
                                             .lent = o->lent};
    size_t n = (size_t)c->n;
    c->blocks = mo_alloc(env, n * sizeof *c->blocks);
    c->led = mo_alloc(env, n * sizeof *c->led);
    c->place = mo_alloc(env, n * sizeof *c->place);
    c->scratch = mo_alloc(env, n * sizeof *c->scratch);
    bool ok = c->blocks && c->led && c->place && c->scratch;
    for (size_t i = 0; ok && i < n; i++) {
        struct mo_team_block *block = &c->blocks[i];
        block->cores = c;
        block->ranges = mo_alloc(env, n * sizeof *block->ranges);
        ok = block->ranges != NULL;
        mo_claims_init(&block->claims, env, block->ranges, c->n, CLAIMS_SPIN);
        block->next_free = c->free;
        c->free = block;
    }
    return ok ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine of %d cores", c->n);
}

static int begin(void *self, moire_error *err) {
    struct mo_cores_engine *c = self;
    return mo_team_create(&c->team_config, &c->team, err);
}

static void close_cores(void *self) {
    struct mo_cores_engine *c = self;
    mo_team_destroy(c->team);
    for (int i = 0; i < c->n; i++) {
        if (c->blocks) mo_free(c->env, c->blocks[i].ranges);
        if (c->scratch) mo_free(c->env, c->scratch[i]);
    }
    mo_recent_close(&c->recent);
    void *const parts[] = {c->blocks, c->led, c->place, c->scratch, c};
    const struct mo_env *env = c->env;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mo_free(env, parts[i]);
}

struct mo_recent *mo_engine_cores_recent(struct mo_device *device) {
    return &((struct mo_cores_engine *)device->self)->recent;
}

static int64_t cpu_ns(void *self) {
    return mo_team_cpu_ns(((struct mo_cores_engine *)self)->team);
}

/* --- a block begins, and gets other cores; the lock is held --------------------------------------------- */
static void call_in(struct mo_team_block *block, int core, int seat, bool joined) {
    struct mo_cores_engine *c = block->cores;
    struct mo_core_place *place = &c->place[core];
    struct mo_device_guest *guest = c->device->guest;
    const struct mo_job job = {mo_team_block_work, block, seat, block->n_inside};
    mo_claims_seat(&place->member, seat);
    atomic_store_explicit(&place->state, MO_CORE_IN, memory_order_relaxed);
    place->joined = joined;
    place->guest = guest && guest->user == block->user && guest->core < 0 &&
                   mo_team_put_guest(c->team, core, guest->cpu, &job);
    if (place->guest) guest->core = core;
    if (place->guest || !mo_team_put(c->team, core, &job)) return;
    mo_cores_add(&c->wake, core);
    c->any_wake = true;
}

static void start(void *self, const struct mo_run *run) {
    struct mo_cores_engine *c = self;
    struct mo_queries *q = mo_sched_queries(c->device->sched);
    struct mo_team_block *block = c->led[run->lead] = c->free;
    c->free = block->next_free;
    block->run = *run;
    block->inside = run->cores;
    block->leaving = (struct mo_cores){0};
    block->n_inside = run->n_cores;
    block->changes_ns = 0;
    block->tenant = c->device->tenants[run->tenant];
    block->user = q->record[run->query].user;
    block->handle = mo_query_handle(q, run->query);
    block->drop = false;
    if (block->tenant.ops->hold) block->run.first = block->tenant.ops->hold(block->tenant.model, block->user);
    if (block->tenant.ops->select_versions)
        block->tenant.ops->select_versions(block->tenant.model, run->instance, run->begin, run->end,
                                           run->pressure, run->n_cores);
    mo_claims_begin(&block->claims, run->end - run->begin + 1, run->n_cores);
    int seat = 0;
    for (int core = run->lead; core >= 0; core = mo_cores_next(&run->cores, core))
        call_in(block, core, seat++, false);
}

/* Seats from 0 without gaps for the n cores that stay: who has one of these keeps it, for its caches hold
 * what belongs to that; who joins gets what is free. */
static void join(struct mo_team_block *block, const struct mo_cores *stay, const struct mo_cores *joining,
                 int n) {
    struct mo_core_place *place = block->cores->place;
    struct mo_cores taken = {0}, moved = *joining;
    for (int core = mo_cores_next(stay, -1); core >= 0; core = mo_cores_next(stay, core)) {
        int seat = mo_claims_seat_of(&place[core].member);
        if (seat < n && !mo_cores_has(&taken, seat))
            mo_cores_add(&taken, seat);
        else
            mo_cores_add(&moved, core);
    }
    int seat = -1;
    for (int core = mo_cores_next(&moved, -1); core >= 0; core = mo_cores_next(&moved, core)) {
        while (mo_cores_has(&taken, ++seat))
            ;
        if (mo_cores_has(joining, core))
            call_in(block, core, seat, true);
        else
            mo_claims_move(&place[core].member, seat);
    }
}

static void resize(void *self, const struct mo_resize *r) {
    struct mo_cores_engine *c = self;
    struct mo_team_block *block = c->led[r->lead];
    struct mo_cores stay = block->inside;
    mo_cores_join(&block->leaving, &r->leave);
    mo_cores_subtract(&stay, &block->leaving);
    mo_cores_join(&block->inside, &r->join);
    int joining = mo_cores_count(&r->join);
    block->n_inside += joining;
    if (joining) block->changes_ns -= joining * mo_now(c->env);
    mo_claims_resize(&block->claims, r->n_cores);
    for (int core = mo_cores_next(&r->leave, -1); core >= 0; core = mo_cores_next(&r->leave, core))
        mo_claims_leave(&c->place[core].member);
    if (!mo_cores_none(&r->leave)) {
        mo_cores_add(&c->rouse, (int)(block - c->blocks));
        c->any_wake = true;
    }
    join(block, &stay, &r->join, r->n_cores);
}

/* A team that is roused may be over by then, or be the next one: its members look, and sleep again. */
static void wake_all(struct mo_cores_engine *c, const struct mo_cores *wake, const struct mo_cores *rouse) {
    for (int core = mo_cores_next(wake, -1); core >= 0; core = mo_cores_next(wake, core))
        mo_team_wake(c->team, core);
    for (int i = mo_cores_next(rouse, -1); i >= 0; i = mo_cores_next(rouse, i))
        mo_claims_rouse(&c->blocks[i].claims);
}

static void leave(void *self) {
    struct mo_cores_engine *c = self;
    bool any = c->any_wake;
    struct mo_cores wake, rouse;
    if (any) {
        wake = c->wake;
        rouse = c->rouse;
        c->wake = c->rouse = (struct mo_cores){0};
    }
    c->any_wake = false;
    bool doorbell = mo_device_unlock(c->device);
    if (any) wake_all(c, &wake, &rouse);
    if (doorbell) mo_device_ring_doorbell(c->device);
}

static void be_guest(void *self, int core) {
    mo_team_be_guest(((struct mo_cores_engine *)self)->team, core);
}

const struct mo_device_calls mo_engine_cores = {
    .name = "cores",
    .open = open_cores,
    .begin = begin,
    .close = close_cores,
    .start = start,
    .resize = resize,
    .leave = leave,
    .be_guest = be_guest,
    .cpu_ns = cpu_ns,
};
