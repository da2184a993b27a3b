/* SPDX-License-Identifier: Apache-2.0
 * contexts.c - the one split of a GPU's SMs, contexts of consecutive groups, tracks on them. */
#include "runtime/gpu/cuda/cuda.h"
#include "runtime/gpu/cuda/exec.h"

/* Groups that a split into groups of at least `least` SMs would have; 0 on failure. */
static unsigned groups_of(const struct mo_cuda_driver *cu, const struct mo_cu_resource *all, unsigned least,
                          unsigned *result) {
    unsigned n = 0;
    *result = cu->sm_split(NULL, &n, (const void *)all, NULL, 0, least);
    return *result ? 0 : n;
}

/* SMs of a unit: the driver's least, in its alignment, and so many that there are at most MO_GPU_UNITS of
 * them.
 */
static int unit_size(struct mo_cuda_gpu *gpu, const struct mo_cu_resource *all, unsigned *size, unsigned *n,
                     moire_error *err) {
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    const unsigned align = all->sm.align ? all->sm.align : 1;
    unsigned s, r;
    for (s = (all->sm.least + align - 1) / align * align;; s += align) {
        *n = groups_of(cu, all, s, &r);
        if (r) return mo_cuda_fail(gpu, r, err, "ask how the SMs can be split");
        if (*n == 0)
            return mo_fail(err, MOIRE_EUNSUPPORTED, "GPU %d: its %u SMs cannot be split into groups of %u",
                           gpu->index, all->sm.count, s);
        if (*n <= MO_GPU_UNITS) break;
    }
    *size = s;
    return MOIRE_OK;
}

int mo_cuda_split(struct mo_cuda_gpu *gpu, moire_error *err) {
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    struct mo_cu_resource all = {0}, rest = {0};
    unsigned size = 0, n = 0;
    unsigned r = cu->device_resource(gpu->device, (void *)&all, MO_CU_RESOURCE_SM);
    if (r) return mo_cuda_fail(gpu, r, err, "ask for its SMs");
    const int rc = unit_size(gpu, &all, &size, &n, err);
    if (rc) return rc;
    r = cu->sm_split((void *)gpu->groups, &n, (const void *)&all, (void *)&rest, 0, size);
    if (r) return mo_cuda_fail(gpu, r, err, "split its SMs");
    gpu->all = all;
    gpu->info.sms = (int)all.sm.count;
    gpu->info.units = (int)n;
    gpu->info.unit_sms = (int)gpu->groups[0].sm.count;
    gpu->info.least_sms = (int)all.sm.least;
    gpu->info.align_sms = (int)all.sm.align;
    return MOIRE_OK;
}

/* That of the pool, for one let more; NULL: it is not there. */
static struct mo_cuda_context *find(struct mo_cuda_gpu *gpu, int first, int units) {
    const struct mo_sys *sys = gpu->system->env->sys;
    mo_lock_take(sys, &gpu->system->lock);
    struct mo_cuda_context *c = gpu->contexts;
    while (c && !(c->first == first && c->units == units))
        c = c->next;
    if (c) c->users++;
    mo_lock_drop(sys, &gpu->system->lock);
    return c;
}

/* A green context of the groups.  The let of all units is of the resource before it was split: it has the SMs
 * that fit into no group too, and joins no groups of unlike sizes. */
static int make_green(struct mo_cuda_gpu *gpu, struct mo_cuda_context *c, moire_error *err) {
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    mo_cu_resource_desc desc = NULL;
    const bool whole = c->units == gpu->info.units;
    void *resources = whole ? &gpu->all : &gpu->groups[c->first];
    unsigned r = cu->resource_desc(&desc, resources, whole ? 1 : (unsigned)c->units);
    if (r) return mo_cuda_fail(gpu, r, err, "describe the SMs of a let");
    r = cu->green_create(&c->green, desc, gpu->device, MO_CU_GREEN_DEFAULT_STREAM);
    if (r) return mo_cuda_fail(gpu, r, err, "make the green context of a let");
    r = cu->green_context(&c->context, c->green);
    if (!r) return MOIRE_OK;
    cu->green_destroy(c->green);
    return mo_cuda_fail(gpu, r, err, "use the green context of a let");
}

static int make_context(struct mo_cuda_gpu *gpu, int first, int units, struct mo_cuda_context **out,
                        moire_error *err) {
    const struct mo_env *env = gpu->system->env;
    struct mo_cuda_context *c = mo_alloc(env, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "GPU %d: no host memory for a let", gpu->index);
    c->gpu = gpu;
    c->first = first;
    c->units = units;
    c->users = 1;
    int rc = mo_cuda_alive(gpu, err);
    if (!rc) rc = make_green(gpu, c, err);
    if (rc) {
        mo_free(env, c);
        return rc;
    }
    *out = c;
    return MOIRE_OK;
}

/* A new one, put into the pool. */
static int add_context(struct mo_cuda_gpu *gpu, int first, int units, struct mo_cuda_context **out,
                       moire_error *err) {
    const struct mo_sys *sys = gpu->system->env->sys;
    const int rc = make_context(gpu, first, units, out, err);
    if (rc) return rc;
    mo_lock_take(sys, &gpu->system->lock);
    (*out)->next = gpu->contexts;
    gpu->contexts = *out;
    mo_lock_drop(sys, &gpu->system->lock);
    return MOIRE_OK;
}

int mo_cuda_context_get(struct mo_cuda_gpu *gpu, int first, int units, struct mo_cuda_context **out,
                        moire_error *err) {
    const struct mo_sys *sys = gpu->system->env->sys;
    if (first < 0 || units < 1 || first + units > gpu->info.units)
        return mo_fail(err, MOIRE_EINVAL, "GPU %d has units 0 to %d; a let of %d from %d on does not exist",
                       gpu->index, gpu->info.units - 1, units, first);
    mo_lock_take(sys, &gpu->making);
    int rc = MOIRE_OK;
    if (!(*out = find(gpu, first, units))) rc = add_context(gpu, first, units, out, err);
    mo_lock_drop(sys, &gpu->making);
    return rc;
}

void mo_cuda_context_put(struct mo_cuda_context *c) {
    struct mo_gpu_system *s = c->gpu->system;
    mo_lock_take(s->env->sys, &s->lock);
    c->users--;
    c->left = ++c->gpu->closings;
    mo_lock_drop(s->env->sys, &s->lock);
}

int mo_cuda_context_aside(struct mo_cuda_context *c, struct mo_cuda_context **out, moire_error *err) {
    const int rc = c->aside ? MOIRE_OK : make_context(c->gpu, c->first, c->units, &c->aside, err);
    *out = c->aside;
    return rc;
}

static struct mo_cuda_track *free_track(struct mo_cuda_context *c, int priority) {
    const struct mo_sys *sys = c->gpu->system->env->sys;
    mo_lock_take(sys, &c->gpu->system->lock);
    struct mo_cuda_track *t = c->tracks;
    while (t && (t->open || t->queued || t->priority != priority))
        t = t->next;
    if (t) t->open = true;
    mo_lock_drop(sys, &c->gpu->system->lock);
    return t;
}

static void free_events(const struct mo_cuda_driver *cu, struct mo_cuda_track *t) {
    for (int i = 0; i < MO_CUDA_QUEUE_MOST; i++)
        for (int k = 0; k < MO_CUDA_MARKS; k++)
            if (t->tickets[i].marks[k]) cu->event_destroy(t->tickets[i].marks[k]);
}

/* Stream and events, in the context, which is current. */
static int fill_track(struct mo_cuda_gpu *gpu, struct mo_cuda_track *t, moire_error *err) {
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    const struct mo_cuda_context *c = t->context;
    const int level = gpu->priorities[t->priority];
    unsigned r = cu->green_stream(&t->stream, c->green, MO_CU_STREAM_NON_BLOCKING, level);
    if (r) return mo_cuda_fail(gpu, r, err, "make the stream of a let");
    for (int i = 0; i < MO_CUDA_QUEUE_MOST && !r; i++)
        for (int k = 0; k < MO_CUDA_MARKS && !r; k++)
            r = cu->event_create(&t->tickets[i].marks[k], 0);
    if (!r) return MOIRE_OK;
    free_events(cu, t);
    cu->stream_destroy(t->stream);
    return mo_cuda_fail(gpu, r, err, "make the events of a let");
}

int mo_cuda_track_take(struct mo_cuda_context *c, int priority, struct mo_cuda_track **out,
                       moire_error *err) {
    struct mo_cuda_gpu *gpu = c->gpu;
    const struct mo_env *env = gpu->system->env;
    if ((*out = free_track(c, priority))) return MOIRE_OK;
    struct mo_cuda_track *t = mo_alloc(env, sizeof *t);
    if (!t) return mo_fail(err, MOIRE_ENOMEM, "GPU %d: no host memory for a let", gpu->index);
    t->context = c;
    t->priority = priority;
    t->open = true;
    int rc = mo_cuda_enter(gpu, c, err);
    if (!rc) {
        rc = fill_track(gpu, t, err);
        mo_cuda_leave(gpu, c);
    }
    if (rc) {
        mo_free(env, t);
        return rc;
    }
    mo_lock_take(env->sys, &gpu->system->lock);
    t->next = c->tracks;
    c->tracks = t;
    mo_lock_drop(env->sys, &gpu->system->lock);
    *out = t;
    return MOIRE_OK;
}

void mo_cuda_track_give(struct mo_cuda_track *t) {
    struct mo_gpu_system *s = t->context->gpu->system;
    mo_lock_take(s->env->sys, &s->lock);
    t->open = false;
    mo_lock_drop(s->env->sys, &s->lock);
}

/* A lost GPU's objects stay: destroying them could wait for it. */
static void free_one(struct mo_cuda_context *c) {
    struct mo_cuda_gpu *gpu = c->gpu;
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    const bool usable = !mo_cuda_enter(gpu, c, NULL);
    while (c->tracks) {
        struct mo_cuda_track *t = c->tracks;
        c->tracks = t->next;
        if (usable) {
            free_events(cu, t);
            cu->stream_destroy(t->stream);
        }
        mo_free(gpu->system->env, t);
    }
    if (usable) mo_cuda_leave(gpu, c);
    if (usable) cu->green_destroy(c->green);
    mo_free(gpu->system->env, c);
}

static void free_context(struct mo_cuda_context *c) {
    if (c->aside) free_one(c->aside);
    free_one(c);
}

void mo_cuda_contexts_free(struct mo_cuda_gpu *gpu) {
    while (gpu->contexts) {
        struct mo_cuda_context *c = gpu->contexts;
        gpu->contexts = c->next;
        free_context(c);
    }
}

/* No let is of it, and the watcher is done with what was queued there.  The system's lock is held. */
static bool is_spare(const struct mo_cuda_context *c) {
    for (const struct mo_cuda_track *t = c->tracks; t; t = t->next)
        if (t->busy) return false;
    return c->users == 0;
}

/* Out of the pool: of more than MO_CUDA_SPARE spare contexts the one that was left first; NULL: there are not
 * so many. */
static struct mo_cuda_context *take_spare(struct mo_cuda_gpu *gpu) {
    const struct mo_sys *sys = gpu->system->env->sys;
    struct mo_cuda_context **oldest = NULL, *c = NULL;
    int spare = 0;
    mo_lock_take(sys, &gpu->system->lock);
    for (struct mo_cuda_context **at = &gpu->contexts; *at; at = &(*at)->next) {
        if (!is_spare(*at)) continue;
        if (!spare++ || (*at)->left < (*oldest)->left) oldest = at;
    }
    if (spare > MO_CUDA_SPARE) {
        c = *oldest;
        *oldest = c->next;
    }
    mo_lock_drop(sys, &gpu->system->lock);
    return c;
}

void mo_cuda_contexts_trim(struct mo_cuda_gpu *gpu) {
    struct mo_cuda_context *c;
    while (!mo_cuda_alive(gpu, NULL) && (c = take_spare(gpu))) {
        if (gpu->exec && !mo_cuda_enter(gpu, NULL, NULL)) {
            mo_cuda_exec_forget(gpu->exec, mo_cuda_place(c));
            mo_cuda_leave(gpu, NULL);
        }
        free_context(c);
    }
}
