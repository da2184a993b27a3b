/* SPDX-License-Identifier: Apache-2.0
 * program_run.c - programs between lets and their execution (exec.h): loading, the copies around a run. */
#include "runtime/gpu/cuda/cuda.h"
#include "runtime/gpu/cuda/exec.h"

#include <stdio.h>

/* The GPU's part that executes programs, made with the first one; the main context is current. */
static int executor(struct mo_cuda_gpu *gpu, moire_error *err) {
    const struct mo_gpu_system *s = gpu->system;
    const struct mo_cuda_exec_config config = {.env = s->env,
                                               .driver = &s->cu,
                                               .path = s->config.path,
                                               .cache = s->config.cache,
                                               .gpu = gpu->info.name,
                                               .driver_level = s->level,
                                               .major = gpu->info.major,
                                               .minor = gpu->info.minor,
                                               .sms = gpu->info.sms,
                                               .unit_sms = gpu->info.unit_sms,
                                               .lost = &gpu->lost,
                                               .hang_ns = s->config.hang_ns,
                                               .libraries_first = s->config.libraries_first};
    return gpu->exec ? MOIRE_OK : mo_cuda_exec_open(&config, &gpu->exec, err);
}

/* Counts the program's memory against the GPU's limit. */
static int count_memory(struct mo_gpu_loaded *p, moire_error *err) {
    struct mo_cuda_gpu *gpu = p->gpu;
    const struct mo_sys *sys = gpu->system->env->sys;
    mo_lock_take(sys, &gpu->system->lock);
    const int64_t left = gpu->limit - gpu->used;
    const bool fits = p->bytes <= left;
    if (fits) gpu->used += p->bytes;
    mo_lock_drop(sys, &gpu->system->lock);
    if (fits) return MOIRE_OK;
    return mo_fail(
        err, MOIRE_ENOMEM,
        "GPU %d: a program takes %.1f MB and %.1f MB of the memory it may use are left; unload models, "
        "lower the batch or raise the bound",
        gpu->index, (double)p->bytes * 1e-6, (double)left * 1e-6);
}

static int load(struct mo_cuda_gpu *gpu, const struct mo_gpu_program *program, int instances,
                struct mo_gpu_loaded **out, moire_error *err) {
    int rc = mo_cuda_enter(gpu, NULL, err);
    if (rc) return rc;
    rc = executor(gpu, err);
    if (!rc) rc = mo_cuda_exec_load(gpu->exec, program, instances, out, err);
    if (!rc) {
        (*out)->gpu = gpu;
        rc = count_memory(*out, err);
        if (rc) mo_cuda_exec_unload(*out);
    }
    if (rc) mo_cuda_note(gpu, err);
    mo_cuda_leave(gpu, NULL);
    return rc;
}

int mo_cuda_program_load(struct mo_gpu_system *s, int index, const struct mo_gpu_program *program,
                         int instances, struct mo_gpu_loaded **out, moire_error *err) {
    struct mo_gpu_loaded *loaded;
    moire_error own;
    if (!err) err = &own;
    struct mo_cuda_gpu *gpu = mo_cuda_gpu_of(s, index, err);
    if (!gpu) return MOIRE_EINVAL;
    if (instances < 1) return mo_fail(err, MOIRE_EINVAL, "a program needs an instance, not %d", instances);
    mo_lock_take(s->env->sys, &gpu->loading);
    const int rc = load(gpu, program, instances, &loaded, err);
    mo_lock_drop(s->env->sys, &gpu->loading);
    if (!rc) *out = loaded;
    return rc;
}

/* Ends one program, or, NULL, what executes all of them.  The loading lock is held. */
static void unload(struct mo_cuda_gpu *gpu, struct mo_gpu_loaded *p) {
    const bool usable = !mo_cuda_enter(gpu, NULL, NULL);
    if (!usable) gpu->exec->abandoned = true;
    if (p)
        mo_cuda_exec_unload(p);
    else
        mo_cuda_exec_close(gpu->exec);
    if (usable) mo_cuda_leave(gpu, NULL);
}

void mo_cuda_program_unload(struct mo_gpu_loaded *p) {
    if (!p) return;
    struct mo_cuda_gpu *gpu = p->gpu;
    struct mo_gpu_system *s = gpu->system;
    mo_lock_take(s->env->sys, &s->lock);
    gpu->used -= p->bytes;
    mo_lock_drop(s->env->sys, &s->lock);
    mo_lock_take(s->env->sys, &gpu->loading);
    unload(gpu, p);
    mo_lock_drop(s->env->sys, &gpu->loading);
}

void mo_cuda_programs_close(struct mo_cuda_gpu *gpu) {
    if (gpu->exec) unload(gpu, NULL);
    gpu->exec = NULL;
}

int64_t mo_cuda_program_bytes(const struct mo_gpu_loaded *program) {
    return program->bytes;
}

int mo_cuda_program_ways(struct mo_gpu_loaded *program, struct mo_gpu_ways *out, int room) {
    const struct mo_sys *sys = program->gpu->system->env->sys;
    mo_lock_take(sys, &program->gpu->loading);
    const int n = mo_cuda_exec_ways(program, out, room);
    mo_lock_drop(sys, &program->gpu->loading);
    return n;
}

/* How exec.h sees a track: SMs, and units packed as the name of a place. */
static struct mo_cuda_target target_of(const struct mo_cuda_track *t) {
    const struct mo_cuda_context *c = t->context;
    const struct mo_gpu_info *info = &c->gpu->info;
    return (struct mo_cuda_target){.context = c->context,
                                   .stream = t->stream,
                                   .marks = {t->tickets[0].marks[0], t->tickets[0].marks[1]},
                                   .place = mo_cuda_place(c),
                                   .sms = c->units == info->units ? info->sms : c->units * info->unit_sms};
}

/* In the context aside, on its stream, which has the least priority.  The loading lock is held. */
static int prepare_aside(struct mo_gpu_loaded *p, struct mo_cuda_context *aside, const struct mo_gpu_run *run,
                         moire_error *err) {
    struct mo_cuda_track *t;
    int rc = mo_cuda_track_take(aside, MO_GPU_PRIORITIES - 1, &t, err);
    if (rc) return rc;
    const struct mo_cuda_target target = target_of(t);
    rc = mo_cuda_enter(p->gpu, NULL, err);
    if (!rc) {
        const int n = p->program.n_segments;
        rc = run ? mo_cuda_exec_prepare(p, run->instance, &target, run->begin, run->end, err)
                 : mo_cuda_exec_prepare(p, -1, &target, 0, n, err);
        if (rc) mo_cuda_note(p->gpu, err);
        mo_cuda_leave(p->gpu, NULL);
    }
    mo_cuda_track_give(t);
    return rc;
}

/* Not in the let's context, in which runs of other programs go on meanwhile, but in one over the same groups:
 * the graphs that are captured there run on the same SMs.  `run` NULL: all instances. */
static int prepare(struct mo_gpu_loaded *p, struct mo_gpu_let *let, const struct mo_gpu_run *run,
                   moire_error *err) {
    struct mo_cuda_context *c = let->track->context;
    const struct mo_sys *sys = p->gpu->system->env->sys;
    struct mo_cuda_context *aside;
    moire_error unasked;
    if (!err) err = &unasked;
    if (c->gpu != p->gpu) return mo_fail(err, MOIRE_EINVAL, "let and program are on different GPUs");
    mo_lock_take(sys, &p->gpu->loading);
    mo_cuda_contexts_trim(p->gpu);
    int rc = mo_cuda_alive(p->gpu, err);
    if (!rc) rc = mo_cuda_context_aside(c, &aside, err);
    if (!rc) rc = prepare_aside(p, aside, run, err);
    mo_lock_drop(sys, &p->gpu->loading);
    return rc;
}

int mo_cuda_prepare(struct mo_gpu_loaded *p, struct mo_gpu_let *let, moire_error *err) {
    return prepare(p, let, NULL, err);
}

/* Copies port `i` of every query in or out; neighbours in host memory go at once.  Where a core looks at the
 * numbers, what a batch leaves free of its program's has those of its first query, lest anything fail there.
 */
static int copy_port(const struct mo_gpu_run *run, struct mo_cuda_track *t, const struct mo_gpu_port *port,
                     int i, int n_ports, bool out, moire_error *err) {
    const struct mo_cuda_driver *cu = &t->context->gpu->system->cu;
    const struct mo_gpu_program *program = &run->program->program;
    const size_t one = (size_t)(port->bytes / program->batch);
    const mo_cu_ptr base = run->program->arenas[run->instance] + (mo_cu_ptr)port->offset;
    const void *const *hosts = out ? (const void *const *)run->outputs : run->inputs;
    const bool full = !out && run->program->failure;
    for (int q = 0, next; q < (full ? (int)program->batch : run->batch); q = next) {
        const char *host = hosts[(q < run->batch ? q : 0) * n_ports + i];
        for (next = q + 1; next < run->batch; next++)
            if (hosts[next * n_ports + i] != host + (size_t)(next - q) * one) break;
        const size_t bytes = (size_t)(next - q) * one;
        const mo_cu_ptr at = base + (mo_cu_ptr)q * one;
        const unsigned r =
            out ? cu->copy_out(((void *const *)run->outputs)[q * n_ports + i], at, bytes, t->stream)
                : cu->copy_in(at, host, bytes, t->stream);
        if (r) return mo_cuda_fail(t->context->gpu, r, err, out ? "copy an output" : "copy an input");
    }
    return MOIRE_OK;
}

/* Behind the run in its stream: what failed of it on a core is its answer. */
static void collect(void *ctx) {
    struct mo_cuda_ticket *ticket = ctx;
    if (!ticket->core->code) return;
    ticket->failed = ticket->core->code;
    snprintf(ticket->message, sizeof ticket->message, "%s", ticket->core->message);
    ticket->core->code = MOIRE_OK;
}

static int collect_later(const struct mo_gpu_run *run, struct mo_cuda_track *t, moire_error *err) {
    struct mo_cuda_failure *failure = run->program->failure;
    t->filling->core = failure ? &failure[run->instance] : NULL;
    if (!failure) return MOIRE_OK;
    const unsigned r = t->context->gpu->system->cu.host_function(t->stream, collect, t->filling);
    return r ? mo_cuda_fail(t->context->gpu, r, err, "end layers on cores") : MOIRE_OK;
}

enum { PART_IN, PART_COMPUTE, PART_OUT };

static int enqueue(void *work, struct mo_cuda_track *t, int part, moire_error *err) {
    const struct mo_gpu_run *run = work;
    const struct mo_gpu_program *program = &run->program->program;
    int rc = MOIRE_OK;
    if (part == PART_COMPUTE) {
        const struct mo_cuda_target target = target_of(t);
        rc = mo_cuda_exec_queue(run->program, run->instance, &target, run->begin, run->end, err);
        moire_error second;
        const int later = collect_later(run, t, rc ? &second : err); /* of what was queued, too */
        return rc ? rc : later;
    }
    if (part == PART_IN && run->begin == 0)
        for (int i = 0; i < program->n_inputs && !rc; i++)
            rc = copy_port(run, t, &program->inputs[i], i, program->n_inputs, false, err);
    if (part == PART_OUT && run->end == program->n_segments)
        for (int i = 0; i < program->n_outputs && !rc; i++)
            rc = copy_port(run, t, &program->outputs[i], i, program->n_outputs, true, err);
    return rc;
}

int mo_cuda_run(const struct mo_gpu_run *run, moire_error *err) {
    const struct mo_gpu_program *program = &run->program->program;
    if (run->let->track->context->gpu != run->program->gpu)
        return mo_fail(err, MOIRE_EINVAL, "let and program are on different GPUs");
    if (run->instance < 0 || run->instance >= run->program->instances || run->batch < 1 ||
        run->batch > program->batch || run->begin < 0 || run->begin >= run->end ||
        run->end > program->n_segments)
        return mo_fail(err, MOIRE_EINVAL,
                       "a run of segments %d to %d of %d, batch %d of %d, instance %d of %d does not exist",
                       run->begin, run->end, program->n_segments, run->batch, (int)program->batch,
                       run->instance, run->program->instances);
    /* before the let's context is taken: it may be long */
    if (!mo_cuda_exec_ready(run->program, run->instance, target_of(run->let->track).place, run->begin,
                            run->end)) {
        const int rc = prepare(run->program, run->let, run, err);
        if (rc) return rc;
    }
    const struct mo_cuda_work work = {.enqueue = enqueue,
                                      .work = (void *)(uintptr_t)run,
                                      .hang_ns = run->hang_ns,
                                      .done = run->done,
                                      .ctx = run->ctx};
    return mo_cuda_submit(run->let, &work, err);
}
