/* SPDX-License-Identifier: Apache-2.0
 * child.c - the table of a plugin in a child process: lets and runs; see child.h. */
#include "runtime/gpu/child/child_impl.h"

#include <stdio.h>
#include <string.h>

/* --- GPUs ----------------------------------------------------------------------------------------------- */
static int count(const struct mo_gpu_system *s) {
    return s->n_gpus;
}

static int check_gpu(const struct mo_gpu_system *s, int gpu, moire_error *err) {
    if (gpu >= 0 && gpu < s->n_gpus) return MOIRE_OK;
    return mo_fail(err, MOIRE_EINVAL, "there is no GPU %d; there are 0 to %d", gpu, s->n_gpus - 1);
}

static int describe(struct mo_gpu_system *s, int gpu, struct mo_gpu_info *out, moire_error *err) {
    const int code = check_gpu(s, gpu, err);
    if (!code) *out = s->info[gpu];
    return code;
}

static int counters(struct mo_gpu_system *s, int gpu, struct mo_gpu_counters *out, moire_error *err) {
    struct mo_child_reply reply;
    int code = check_gpu(s, gpu, err);
    if (!code) code = mo_child_enter(s, 0, err);
    if (code) return code;
    code = mo_child_ask(s, &(struct mo_child_ask){.kind = MO_CHILD_COUNTERS, .n = {gpu, out != NULL}}, &reply,
                        err);
    mo_child_leave(s);
    if (code || !out) return code;
    *out = reply.counters;
    out->missing[sizeof out->missing - 1] = 0;
    return MOIRE_OK;
}

/* --- lets ----------------------------------------------------------------------------------------------- */
static int check_units(const struct mo_gpu_system *s, int gpu, int first, int units, moire_error *err) {
    int code = check_gpu(s, gpu, err);
    if (!code && (first < 0 || units < 1 || units > s->info[gpu].units - first))
        code = mo_fail(err, MOIRE_EINVAL, "GPU %d has units 0 to %d, no let of %d at unit %d", gpu,
                       s->info[gpu].units - 1, units, first);
    return code;
}

int mo_child_ask_let(struct mo_gpu_let *let, moire_error *err) {
    struct mo_child_reply reply;
    const struct mo_child_ask ask = {.kind = MO_CHILD_LET_OPEN,
                                     .n = {let->id, let->gpu, let->first, let->units, let->priority}};
    return mo_child_ask(let->system, &ask, &reply, err);
}

static int free_id(struct mo_gpu_let *const *lets) {
    int id = 0;
    while (id < MO_CHILD_LETS && lets[id])
        id++;
    return id < MO_CHILD_LETS ? id : -1;
}

/* Takes a let off the table; the lock is held. */
static void forget(struct mo_gpu_let *let) {
    let->system->lets[let->id] = NULL;
    mo_free(let->system->env, let);
}

static int let_open(struct mo_gpu_system *s, int gpu, int first, int units, int priority,
                    struct mo_gpu_let **out, moire_error *err) {
    int code = check_units(s, gpu, first, units, err);
    if (!code && (priority < 0 || priority >= MO_GPU_PRIORITIES))
        code = mo_fail(err, MOIRE_EINVAL, "priority %d of a let: there are 0 to %d", priority,
                       MO_GPU_PRIORITIES - 1);
    struct mo_gpu_let *let = code ? NULL : mo_alloc(s->env, sizeof *let);
    if (code) return code;
    if (!let) return mo_fail(err, MOIRE_ENOMEM, "GPU %d: no host memory for a let", gpu);
    *let = (struct mo_gpu_let){.system = s, .gpu = gpu, .first = first, .units = units, .priority = priority};
    mo_child_lock(s);
    mo_child_settle(s);
    let->id = free_id(s->lets);
    if (let->id >= 0) s->lets[let->id] = let;
    const bool up = mo_child_step_in(s, let->id >= 0);
    mo_child_unlock(s);
    if (let->id < 0) {
        mo_free(s->env, let);
        return mo_fail(err, MOIRE_ELIMIT, "more than %d lets are open", MO_CHILD_LETS);
    }
    *out = let;
    if (!up) return MOIRE_OK; /* opened in the next child */
    const uint32_t child = s->child;
    code = mo_child_ask_let(let, err);
    mo_child_lock(s);
    s->inside--;
    let->there = !code && s->child == child;
    if (code && code != MOIRE_EDEVICE) forget(let);
    mo_child_unlock(s);
    mo_child_ring_all(s);
    return code == MOIRE_EDEVICE ? MOIRE_OK : code;
}

static void let_close(struct mo_gpu_let *let) {
    if (!let) return;
    struct mo_gpu_system *s = let->system;
    const struct mo_sys *sys = s->env->sys;
    const uint64_t id = (uint64_t)let->id;
    mo_child_lock(s);
    mo_child_settle(s);
    while (let->there && atomic_load(&s->up) == MO_CHILD_UP && !atomic_load(&s->gone) &&
           !mo_child_put(s, MO_CHILD_CLOSE, &id, 1)) {
        mo_child_unlock(s);
        sys->sleep_until(sys->self, mo_now(s->env) + 100000);
        mo_child_lock(s);
    }
    let->closed = true;
    if (!let->queued) forget(let);
    mo_child_unlock(s);
}

static int let_probe(struct mo_gpu_let *let, uint64_t sms[MO_GPU_SM_WORDS], moire_error *err) {
    struct mo_gpu_system *s = let->system;
    struct mo_child_reply reply;
    int code = mo_child_enter(s, 0, err);
    if (code) return code;
    code = mo_child_ask(s, &(struct mo_child_ask){.kind = MO_CHILD_LET_PROBE, .n = {let->id}}, &reply, err);
    mo_child_leave(s);
    if (!code) memcpy(sms, reply.sms, sizeof reply.sms);
    return code;
}

/* --- the ring ------------------------------------------------------------------------------------------- */
bool mo_child_put(struct mo_gpu_system *s, int kind, const void *words, uint32_t n) {
    struct mo_child_channel *channel = s->channel;
    const uint32_t head = atomic_load_explicit(&channel->down.head, memory_order_acquire);
    const uint32_t used = s->tail - head, at = s->tail % MO_CHILD_WORDS;
    const uint32_t pad = at + 1 + n > MO_CHILD_WORDS ? MO_CHILD_WORDS - at : 0;
    if (used > MO_CHILD_WORDS || pad + 1 + n > MO_CHILD_WORDS - used) return false;
    if (pad) {
        const struct mo_child_head skip = {MO_CHILD_PAD, pad - 1};
        memcpy(&channel->words[at], &skip, sizeof skip);
        s->tail += pad;
    }
    const struct mo_child_head record = {(uint32_t)kind, n};
    uint64_t *to = &channel->words[s->tail % MO_CHILD_WORDS];
    memcpy(to, &record, sizeof record);
    memcpy(to + 1, words, (size_t)n * sizeof *to);
    s->tail += 1 + n;
    atomic_store(&channel->down.tail, s->tail);
    mo_child_ring_doorbell(s->env->sys, &channel->down);
    return true;
}

/* --- runs ----------------------------------------------------------------------------------------------- */
static int check_run(const struct mo_gpu_run *r, moire_error *err) {
    const struct mo_gpu_loaded *p = r->program;
    if (r->let->gpu != p->gpu) return mo_fail(err, MOIRE_EINVAL, "let and program are on different GPUs");
    if (r->instance < 0 || r->instance >= p->instances || r->batch < 1 || r->batch > p->batch ||
        r->begin < 0 || r->begin >= r->end || r->end > p->n_segments)
        return mo_fail(err, MOIRE_EINVAL,
                       "a run of segments %d to %d of %d, batch %d of %d, instance %d of %d does not exist",
                       r->begin, r->end, p->n_segments, r->batch, p->batch, r->instance, p->instances);
    return MOIRE_OK;
}

/* Can the child that is there take it?  The lock is held. */
static int check_child(const struct mo_gpu_run *r, moire_error *err) {
    const struct mo_gpu_let *let = r->let;
    const struct mo_gpu_loaded *p = r->program;
    struct mo_gpu_system *s = let->system;
    if (atomic_load(&s->up) != MO_CHILD_UP || s->lost_at || atomic_load(&s->gone))
        return mo_child_absent(s, err);
    if (!let->there || !p->there) {
        const moire_error *why = let->there ? &p->refused : &let->refused;
        return mo_fail(err, why->code ? why->code : MOIRE_EDEVICE, "%s",
                       why->code ? why->message : "the process of the GPUs is being started anew");
    }
    if (r->begin && p->filled[r->instance] != s->child)
        return mo_fail(err, MOIRE_EDEVICE,
                       "what the first segments of this batch left went with the process of the GPUs");
    if (let->queued >= s->config.queue || s->n_runs == MO_CHILD_ANSWERS)
        return mo_fail(err, MOIRE_EBUSY, "GPU %d: %d runs are queued on the let of units %d to %d, its bound",
                       let->gpu, let->queued, let->first, let->first + let->units - 1);
    return MOIRE_OK;
}

/* Where `n` ports of every query lie; false: not in staging memory. */
static bool find_ports(const struct mo_gpu_run *r, const void *const *hosts, int n, const int64_t *bytes,
                       uint64_t *out) {
    for (int i = 0; i < r->batch * n; i++)
        if (!mo_child_find(r->let->system, hosts[i], bytes[i % n], &out[i])) return false;
    return true;
}

enum { RUN_WORDS = sizeof(struct mo_child_run) / sizeof(uint64_t) };

/* The record of a run at `to`, which has room for it; 0: a tensor is not in staging memory. */
static uint32_t write_run(const struct mo_gpu_run *r, uint64_t id, uint64_t *to) {
    const struct mo_gpu_loaded *p = r->program;
    const struct mo_child_run head = {.run = id,
                                      .let = (uint32_t)r->let->id,
                                      .program = (uint32_t)p->id,
                                      .instance = r->instance,
                                      .begin = r->begin,
                                      .end = r->end,
                                      .batch = r->batch,
                                      .hang_ns = r->hang_ns};
    uint32_t n = RUN_WORDS;
    memcpy(to, &head, sizeof head);
    if (r->begin == 0) {
        if (!find_ports(r, r->inputs, p->n_inputs, p->port_bytes, to + n)) return 0;
        n += (uint32_t)(r->batch * p->n_inputs);
    }
    if (r->end == p->n_segments) {
        const void *const *outputs = (const void *const *)r->outputs;
        if (!find_ports(r, outputs, p->n_outputs, p->port_bytes + p->n_inputs, to + n)) return 0;
        n += (uint32_t)(r->batch * p->n_outputs);
    }
    return n;
}

static int queue_run(const struct mo_gpu_run *r, uint64_t *words, moire_error *err) {
    struct mo_gpu_let *let = r->let;
    struct mo_gpu_system *s = let->system;
    int code = check_child(r, err), at = 0;
    if (code) return code;
    while (s->runs[at].used)
        at++;
    struct mo_child_pending *run = &s->runs[at];
    const uint32_t generation = run->generation + 1;
    const uint32_t n = write_run(r, (uint64_t)generation << 32 | (uint32_t)at, words);
    if (!n) return mo_fail(err, MOIRE_EINVAL, "a tensor of a run is not in staging memory");
    *run = (struct mo_child_pending){.used = true,
                                     .generation = generation,
                                     .let = let,
                                     .submitted = mo_now(s->env),
                                     .hang_ns = r->hang_ns ? r->hang_ns : s->config.hang_ns,
                                     .done = r->done,
                                     .ctx = r->ctx};
    if (!mo_child_put(s, MO_CHILD_RUN, words, n)) {
        run->used = false;
        return mo_fail(err, MOIRE_EBUSY, "the queue to the process of the GPUs is full");
    }
    run->past = s->tail;
    if (!let->queued) let->since = 0;
    let->queue[let->queued++] = at;
    if (!s->n_runs++) s->progress_at = run->submitted;
    if (r->begin == 0) r->program->filled[r->instance] = s->child;
    return MOIRE_OK;
}

static int run(const struct mo_gpu_run *r, moire_error *err) {
    struct mo_gpu_system *s = r->let->system;
    const struct mo_gpu_loaded *p = r->program;
    int code = check_run(r, err);
    if (code) return code;
    const size_t places = (size_t)r->batch * (size_t)(p->n_inputs + p->n_outputs);
    uint64_t few[RUN_WORDS + 64], *words = few;
    if (places > 64) words = mo_alloc(s->env, (RUN_WORDS + places) * sizeof *words);
    if (!words) return mo_fail(err, MOIRE_ENOMEM, "GPU %d: no host memory for a run", r->let->gpu);
    mo_child_lock(s);
    code = queue_run(r, words, err);
    mo_child_unlock(s);
    if (words != few) mo_free(s->env, words);
    return code;
}

static int64_t program_bytes(const struct mo_gpu_loaded *p) {
    return p->bytes;
}

int mo_gpu_child_wanted(const char *process, bool *out, moire_error *err) {
    *out = process && (!strcmp(process, "child") || (!strncmp(process, "child:", 6) && process[6]));
    if (*out || !process || !strcmp(process, "in")) return MOIRE_OK;
    return mo_fail(err, MOIRE_EINVAL,
                   "'%.64s' is no process for a device: \"in\" (this one), \"child\" or \"child:FILE\" of "
                   "moire-gpu-child",
                   process);
}

void mo_gpu_child_stats(struct mo_gpu_system *s, struct mo_gpu_child_stats *out) {
    mo_child_lock(s);
    *out = s->stats;
    mo_child_unlock(s);
}

const struct mo_gpu_ops *mo_gpu_child_ops(void) {
    static const struct mo_gpu_ops table = {
        .abi = MO_GPU_ABI,
        .env_bytes = sizeof(struct mo_env) + sizeof(struct mo_sys),
        .name = "child",
        .open = mo_child_open,
        .close = mo_child_close,
        .count = count,
        .describe = describe,
        .counters = counters,
        .let_open = let_open,
        .let_close = let_close,
        .let_probe = let_probe,
        .program_load = mo_child_program_load,
        .program_unload = mo_child_program_unload,
        .program_bytes = program_bytes,
        .prepare = mo_child_prepare,
        .program_ways = mo_child_ways,
        .run = run,
        .staging_alloc = mo_child_staging_alloc,
        .staging_free = mo_child_staging_free,
    };
    return &table;
}
