/* SPDX-License-Identifier: Apache-2.0
 * statistics.c - the public statistics of a tenant and of a runtime: counts from accounting.h, what is under
 * way from the engine, memory from plans and pools. */
#include <string.h>
#include "runtime/serve/common.h"
#include "runtime/serve/gpu.h"

/* --- memory and kernels --------------------------------------------------------------------------------- */
static moire_memory memory_of(moire_tenant *t) {
    moire_memory m = {0};
    if (t->plan) {
        const struct mo_trusted_file *image = &t->compiled.file;
        const struct mo_graph *graph = t->plan->graph;
        m.weights = image->bytes ? (int64_t)image->n : t->plan->weight_bytes + t->plan->shared_bytes;
        m.plans = (int64_t)(mo_region_bytes(t->plan->region) + mo_region_bytes(graph->region)) -
                  t->plan->weight_bytes;
        m.weights += mo_plan_count_shaped(t->plan).weight_bytes;
        m.activations = t->plan->arena_bytes;
        m.scratch = t->plan->scratch_bytes;
    }
    if (t->requests) m.inputs = (int64_t)mo_arenas_state(t->requests).bytes;
    if (t->gpu) {
        m.device_weights = t->gpu->weight_bytes;
        m.device_staging = atomic_load(&t->gpu->staged);
    }
    return m;
}

static void add_memory(moire_memory *sum, const moire_memory *m) {
    sum->weights += m->weights;
    sum->plans += m->plans;
    sum->inputs += m->inputs;
    sum->device_weights += m->device_weights;
    sum->device_staging += m->device_staging;
    if (m->scratch > sum->scratch) sum->scratch = m->scratch;
}

static void describe_kernels(const struct mo_plan *plan, moire_tenant_stats *out) {
    int64_t all = 0, compiled = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct mo_step *step = &plan->steps[i];
        bool special = !strcmp(step->kind, "specialised");
        all += step->flops;
        compiled += special ? step->flops : 0;
        out->compiled_layers += special;
        out->reference_layers += !strcmp(step->kind, "reference");
    }
    out->layers = plan->n_steps;
    out->compiled_share = all > 0 ? (double)compiled / (double)all : 0;
}

/* --- public --------------------------------------------------------------------------------------------- */
/* The caller's struct may be shorter or longer than this library's. */
static int check_size(const char *call, size_t size, moire_error *err) {
    if (size >= sizeof(size_t) && size <= 1 << 20) return MOIRE_OK;
    return mo_fail(err, MOIRE_EINVAL, "%s: out->size is %zu; set it to sizeof *out", call, size);
}

static void copy_known(void *out, size_t room, void *from, size_t size) {
    size_t n = room < size ? room : size;
    memcpy(from, &room, sizeof room); /* size stays what the caller has set */
    memcpy(out, from, n);
}

static void add_now(const struct mo_device_now *now, int *waiting, int *paused, int *blocks) {
    *waiting += now->waiting;
    *paused += now->paused;
    *blocks += now->blocks;
}

int moire_tenant_get_stats(moire_tenant *t, moire_tenant_stats *out, moire_error *err) {
    if (!t || !out) return mo_fail(err, MOIRE_EINVAL, "moire_tenant_get_stats: an argument is NULL");
    const moire_runtime *rt = t->runtime;
    int rc = check_size("moire_tenant_get_stats", out->size, err);
    if (!rc) rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    struct mo_account account = {0};
    mo_account_add(rt->env.sys, &t->accounting, &account);
    bool closed = mo_account_is_closed(rt->env.sys, &t->accounting);
    moire_tenant_stats s = {.id = t->number,
                            .state = closed ? MOIRE_TENANT_DRAINING : MOIRE_TENANT_READY,
                            .counts = account.counts,
                            .times = account.times,
                            .memory = memory_of(t)};
    for (int i = 0; i < t->n_places; i++) {
        struct mo_device_now now;
        mo_engine_now(rt->engine, t->place[i].tenant, &now);
        add_now(&now, &s.waiting, &s.paused, &s.blocks);
        *(t->place[i].self == t ? &s.cores : &s.units) += now.units;
    }
    if (t->plan) describe_kernels(t->plan, &s);
    for (int i = 0; i < MOIRE_VERSIONS; i++)
        s.version_runs[i] = atomic_load_explicit(&t->version_runs[i], memory_order_relaxed);
    s.shared_weights = t->plan ? t->plan->shared_bytes : 0;
    s.slow_layers = t->slow.layers;
    s.slow_share = t->slow.share;
    mo_slow_text(&t->slow, s.slow, sizeof s.slow);
    copy_known(out, out->size, &s, sizeof s);
    return MOIRE_OK;
}

/* Counts and memory of all tenants, of one moment each. */
static void sum_tenants(moire_runtime *rt, moire_runtime_stats *s) {
    struct mo_account account;
    mo_lock_take(rt->env.sys, &rt->listing);
    account = rt->past;
    s->tenants = rt->n_tenants;
    for (moire_tenant *t = rt->tenants; t; t = t->next) {
        moire_memory m = memory_of(t);
        if (t->plan) m.weights -= t->plan->shared_bytes;
        mo_account_add(rt->env.sys, &t->accounting, &account);
        add_memory(&s->memory, &m);
    }
    mo_common_add(rt, &s->memory);
    mo_lock_drop(rt->env.sys, &rt->listing);
    s->counts = account.counts;
    s->times = account.times;
    s->memory.scratch *= mo_device_units(rt->cores);
    const struct mo_arenas_state arenas = mo_arenas_state(rt->pools.arenas),
                                 kept = mo_arenas_state(rt->pools.kept);
    s->memory.activations = (int64_t)(arenas.bytes + kept.bytes);
    s->spilled_bytes = (int64_t)kept.bytes;
    s->arenas_most = (int64_t)atomic_load_explicit(&rt->pools.most, memory_order_relaxed);
    s->arenas_taken = arenas.taken;
    s->spilled = kept.taken;
    s->spills = atomic_load_explicit(&rt->pools.spills, memory_order_relaxed);
}

static void look_at_engine(const moire_runtime *rt, moire_runtime_stats *s) {
    struct mo_sched_stats sched;
    for (int i = 0; i < mo_engine_devices(rt->engine); i++) {
        struct mo_device *d = mo_engine_device(rt->engine, i);
        struct mo_device_now now;
        mo_device_now(d, -1, &now);
        add_now(&now, &s->waiting, &s->paused, &s->blocks);
        *(d == rt->cores ? &s->cores : &s->units) += mo_device_units(d);
        *(d == rt->cores ? &s->cores_held : &s->units_held) += now.units;
        s->stucks += mo_device_stucks(d);
        if (d != rt->cores) continue;
        s->pressure = now.pressure[MO_PRESSURE_CACHE];
        s->pace = now.pace;
    }
    mo_engine_stats(rt->engine, &sched);
    s->blocks_run = sched.blocks;
    s->blocks_refused = sched.refused;
    s->stalls = sched.stalls;
    s->stall_ns = sched.stall_ns;
    s->stall_sheds = sched.stall_sheds;
    s->block = sched.block_ns;
    s->decision = sched.decision_ns;
}

int moire_runtime_get_stats(moire_runtime *rt, moire_runtime_stats *out, moire_error *err) {
    if (!rt || !out) return mo_fail(err, MOIRE_EINVAL, "moire_runtime_get_stats: an argument is NULL");
    int rc = check_size("moire_runtime_get_stats", out->size, err);
    if (!rc) rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    moire_runtime_stats s = {.uptime_ns = mo_now(&rt->env) - rt->created};
    sum_tenants(rt, &s);
    look_at_engine(rt, &s);
    copy_known(out, out->size, &s, sizeof s);
    return MOIRE_OK;
}
