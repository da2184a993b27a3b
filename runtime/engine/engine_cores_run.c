/* SPDX-License-Identifier: Apache-2.0
 * engine_cores_run.c - workers in blocks.
 *
 * Whoever of a team comes first brings the input in; whoever finishes the last layer reports the block's end.
 * It gives the others some microseconds to get out and names those that have not: they hold nothing of the
 * block, so the query goes on without them, and come back on their own, as do cores that were asked to
 * leave. */
#include "runtime/base/lock.h"
#include "runtime/device/usdt.h"
#include "runtime/engine/engine_cores_impl.h"

enum { OUT_POLLS = 100 };

/* A core's part in a block. */
struct part {
    struct mo_team_block *block;
    struct mo_core_place *place;
    struct mo_ring *ring;
    int core;
    bool begun;
    uint64_t only; /* what a guest delivers */
    int64_t entry; /* of the core's recent blocks; -1: none */
};

/* --- events --------------------------------------------------------------------------------------------- */
static void log_part(const struct part *p, int kind) {
    const struct mo_run *run = &p->block->run;
    if (p->ring)
        mo_event_put(p->ring, mo_now(p->block->cores->env), kind, p->block->handle, run->tenant, run->begin,
                     run->end, p->core);
}

/* Of cores that come and go while the block runs; n: cores in it, as far as that is known. */
static void log_change(const struct part *p, int kind, int n) {
    if (p->ring)
        mo_event_put(p->ring, mo_now(p->block->cores->env), kind, p->block->handle, p->block->run.tenant,
                     p->core, n, p->block->run.begin);
}

static void begin_part(struct part *p) {
    const struct mo_run *run = &p->block->run;
    if (p->begun) return;
    p->begun = true;
    if (mo_recent_is_on(&p->block->cores->recent))
        p->entry =
            mo_recent_begin(&p->block->cores->recent, p->core, p->block->tenant.owner, run->begin, run->end);
    mo_probe_block_start(p->block->handle, run->tenant, run->begin, run->end, p->core);
    if (p->place->joined)
        log_change(p, MO_LOG_GROW, mo_claims_width(&p->block->claims));
    else
        log_part(p, MO_LOG_BLOCK_START);
}

/* The core is out of the block. */
static void end_recent(struct part *p) {
    if (p->entry >= 0) mo_recent_end(&p->block->cores->recent, p->core, p->entry);
    p->entry = -1;
}

/* The block has ended. */
static void end_part(struct part *p) {
    const struct mo_run *run = &p->block->run;
    if (p->block->drop && !p->place->joined) {
        log_part(p, MO_LOG_BLOCK_DROP);
        return;
    }
    begin_part(p);
    log_part(p, MO_LOG_BLOCK_END);
    end_recent(p);
    mo_probe_block_end(p->block->handle, run->tenant, run->begin, run->end, p->core);
}

/* Which versions the layers of a block run; nothing when all run their first. */
static void log_versions(struct mo_ring *ring, const struct mo_team_block *block) {
    const struct mo_run *run = &block->run;
    const struct mo_device_model *t = &block->tenant;
    if (!ring || !t->ops->version) return;
    for (int from = run->begin; from < run->end; from += MO_EVENT_VERSIONS) {
        int n = run->end - from < MO_EVENT_VERSIONS ? run->end - from : MO_EVENT_VERSIONS;
        int64_t digits = 0;
        for (int i = n; i-- > 0;)
            digits = digits << 3 | (t->ops->version(t->model, run->instance, from + i) & 7);
        if (digits)
            mo_event_put(ring, block->start, MO_LOG_VERSIONS, block->handle, run->tenant, from, digits, n);
    }
}

/* --- a member at work ----------------------------------------------------------------------------------- */
/* Who comes first decides whether the block is too late, and brings the input in. */
static int prepare(struct part *p) {
    struct mo_team_block *block = p->block;
    const struct mo_device_model *t = &block->tenant;
    block->start = mo_now(block->cores->env);
    block->drop = block->start > block->run.latest_start;
    if (block->drop) return MOIRE_EEXPIRED;
    log_versions(p->ring, block);
    begin_part(p);
    return block->run.first ? t->ops->begin(t->model, block->run.instance, block->user) : MOIRE_OK;
}

static int run_step(void *ctx, int step, int width, void *scratch) {
    struct part *p = ctx;
    const struct mo_team_block *block = p->block;
    if (step == 0) return prepare(p);
    begin_part(p);
    return block->tenant.ops->step(block->tenant.model, block->run.instance, block->run.begin + step - 1,
                                   width, scratch);
}

static void run_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    struct part *part = ctx;
    const struct mo_team_block *block = part->block;
    begin_part(part);
    block->tenant.ops->pieces(block->tenant.model, block->run.instance, block->run.begin + p->step - 1,
                              p->from, p->to, p->of, scratch);
}

static int run_again(void *ctx, int step, int width) {
    const struct part *part = ctx;
    const struct mo_team_block *block = part->block;
    const struct mo_device_model *t = &block->tenant;
    if (step == 0 || !t->ops->again) return 0;
    return t->ops->again(t->model, block->run.instance, block->run.begin + step - 1, width);
}

/* --- cores come back ------------------------------------------------------------------------------------ */
/* The lock is held.  The object is free when the last is out. */
static void go_out(struct mo_team_block *block, int core) {
    struct mo_cores_engine *c = block->cores;
    mo_cores_remove(&block->inside, core);
    if (--block->n_inside > 0) return;
    block->next_free = c->free;
    c->free = block;
}

/* A core that is not in the block when that ends, or that is late for it. */
static void come_back(struct part *p, enum mo_claims_end end) {
    struct mo_team_block *block = p->block;
    struct mo_cores_engine *c = block->cores;
    struct mo_device *d = c->device;
    struct mo_cores core = {0};
    mo_cores_add(&core, p->core);
    end_recent(p);
    mo_device_take(d);
    bool late = atomic_exchange(&p->place->state, MO_CORE_OUT) == MO_CORE_LATE;
    int64_t now = mo_now(d->env);
    if (end == MO_CLAIMS_LEFT) log_change(p, MO_LOG_LEAVE, late ? 0 : block->n_inside - 1);
    if (late) {
        d->n_late--;
    } else {
        mo_cores_remove(&block->leaving, p->core);
        block->changes_ns += now;
    }
    const int lead = late ? -1 : block->run.lead;
    go_out(block, p->core);
    mo_sched_cores_back(d->sched, lead, &core, now);
    mo_device_drop_and_deliver(d, p->ring, p->core, p->only);
}

/* Whether one of the others is still in the block. */
static bool is_inside(const struct mo_team_block *block, const struct mo_cores *cores) {
    for (int core = mo_cores_next(cores, -1); core >= 0; core = mo_cores_next(cores, core))
        if (atomic_load_explicit(&block->cores->place[core].state, memory_order_acquire) == MO_CORE_IN)
            return true;
    return false;
}

/* The lock is held and the block has ended: those that are still inside are told to come back on their own.
 */
static struct mo_cores cores_late(struct mo_team_block *block) {
    struct mo_cores late = {0};
    const struct mo_cores cores = block->inside;
    for (int core = mo_cores_next(&cores, -1); core >= 0; core = mo_cores_next(&cores, core)) {
        uint32_t in = MO_CORE_IN;
        if (atomic_compare_exchange_strong(&block->cores->place[core].state, &in, MO_CORE_LATE))
            mo_cores_add(&late, core);
    }
    return late;
}

static void complete(struct part *p, int code) {
    struct mo_team_block *block = p->block;
    struct mo_cores_engine *c = block->cores;
    struct mo_device *d = c->device;
    const struct mo_device_model *t = &block->tenant;
    const int64_t from = block->start;
    const bool ran = !block->drop;
    const int lead = block->run.lead;
    if (!ran) code = MOIRE_OK;
    if (t->ops->rest && !code) t->ops->rest(t->model, block->user, ran ? block->run.end : block->run.begin);
    mo_device_take(d);
    end_part(p); /* so that nobody gives cores to a block of which all have said that it ended */
    int64_t end = mo_now(d->env);
    const struct mo_cores inside = block->inside, late = cores_late(block);
    mo_sched_stats(d->sched)->kernel_core_ns +=
        block->n_inside * end + block->changes_ns - block->run.n_cores * from;
    for (int core = mo_cores_next(&inside, -1); core >= 0; core = mo_cores_next(&inside, core))
        if (!mo_cores_has(&late, core))
            go_out(block, core); /* with the last, the next block may be this one */
    const int n_late = mo_cores_count(&late);
    d->n_late += n_late;
    mo_sched_block_done(d->sched, lead, ran, code, from, end, n_late ? &late : NULL, end);
    mo_device_drop_and_deliver(d, p->ring, p->core, p->only);
}

/* Gives the others time to get out. */
static void end_block(struct part *p, int code) {
    struct mo_team_block *block = p->block;
    atomic_store(&p->place->state, MO_CORE_OUT);
    if (block->run.n_cores > 1)
        for (int i = 0; i < OUT_POLLS && is_inside(block, &block->run.cores); i++)
            mo_cpu_relax();
    complete(p, code);
}

void mo_team_block_work(void *ctx, int core, int worker, int n_workers) {
    static const struct mo_claims_calls calls = {run_step, run_pieces, run_again};
    struct mo_team_block *block = ctx;
    struct mo_cores_engine *c = block->cores;
    struct part part = {.block = block,
                        .place = &c->place[core],
                        .ring = mo_device_ring(c->device, core),
                        .core = core,
                        .only = c->place[core].guest ? block->handle : 0,
                        .entry = -1};
    int code = MOIRE_OK;
    (void)worker, (void)n_workers;
    enum mo_claims_end end =
        mo_claims_work(&block->claims, &part.place->member, &calls, &part, c->scratch[core], &code);
    if (end == MO_CLAIMS_LEFT) {
        begin_part(&part);
        come_back(&part, end);
        return;
    }
    if (end == MO_CLAIMS_LAST) {
        end_block(&part, code);
        return;
    }
    end_part(&part);
    uint32_t in = MO_CORE_IN;
    if (!atomic_compare_exchange_strong(&part.place->state, &in, MO_CORE_OUT)) come_back(&part, end);
}
