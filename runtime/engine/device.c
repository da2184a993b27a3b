/* SPDX-License-Identifier: Apache-2.0
 * device.c - a device's loop as callers see it: create, open, submit, cancel, drain, close; statistics. */
#include <string.h>
#include "runtime/device/usdt.h"
#include "runtime/engine/device_impl.h"

/* --- the core's calls; the lock is held ----------------------------------------------------------------- */
static void start(void *self, const struct mo_run *run) {
    struct mo_device *d = self;
    mo_probe_decision(mo_query_handle(mo_sched_queries(d->sched), run->query), run->tenant, run->begin,
                      run->end, run->n_cores, (int)(run->pressure * 1000));
    d->calls->start(d->self, run);
}

static void resize(void *self, const struct mo_resize *r) {
    struct mo_device *d = self;
    d->calls->resize(d->self, r);
}

static void set_timer(void *self, int64_t when) {
    struct mo_device *d = self;
    bool earlier = when < d->timer_at;
    d->timer_at = when;
    if (earlier) d->doorbell_due = true;
}

static void resolved(void *self, int slot) {
    struct mo_device *d = self;
    mo_query_list_put(mo_sched_queries(d->sched), &d->resolved, slot);
}

static void released(void *self, int tenant, void *user) {
    struct mo_device *d = self;
    if (d->calls->released) d->calls->released(d->self, tenant, user);
    d->tenants[tenant].ops->release(d->tenants[tenant].model, user);
}

static void prepare(void *self, int64_t expected_ns) {
    struct mo_device *d = self;
    d->calls->prepare(d->self, expected_ns);
}

static void say(void *self, int level, const char *line) {
    mo_device_say(self, level, "%s", line);
}

static void power(void *self, const struct mo_power_change *change) {
    struct mo_device *d = self;
    d->clock(d->clock_self, change->speed);
}

static const struct mo_engine_ops core_calls = {
    .start = start,
    .resize = resize,
    .set_timer = set_timer,
    .resolved = resolved,
    .released = released,
    .prepare = prepare,
    .say = say,
    .power = power,
};

/* --- create, destroy ------------------------------------------------------------------------------------ */
static int64_t cost_clock(void *self) {
    return mo_now(((struct mo_device *)self)->env);
}

static int make_scheduler(struct mo_device *d, const struct mo_device_config *c,
                          const struct mo_device_about *about, moire_error *err) {
    d->tenants = mo_alloc(c->env, (size_t)c->max_tenants * sizeof *d->tenants);
    if (c->events) d->events = mo_events_create(c->env, d->n_units + MO_RINGS_EXTRA, c->events);
    d->stuck = mo_alloc(c->env, (size_t)d->n_units * sizeof *d->stuck);
    if (!d->tenants || !d->stuck || (c->events && !d->events))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine of %d units", d->n_units);
    d->ops = core_calls;
    d->clock = c->clock;
    d->clock_self = c->clock_self;
    if (!d->calls->resize) d->ops.resize = NULL;
    if (!d->clock) d->ops.power = NULL;
    struct mo_sched_config sc = {.env = c->env,
                                 .policy = c->policy,
                                 .n_cores = d->n_units,
                                 .max_queries = c->max_queries,
                                 .max_tenants = c->max_tenants,
                                 .block_ns = c->block_ns,
                                 .objective = c->objective,
                                 .max_batch = about->max_batch,
                                 .gpus = about->gpus,
                                 .ops = &d->ops,
                                 .engine = d,
                                 .cost_clock = cost_clock,
                                 .source = c->source,
                                 .power = c->power,
                                 .ring = mo_device_locked_ring(d)};
    return mo_sched_create(&sc, &d->sched, err);
}

static int start_threads(struct mo_device *d, moire_error *err) {
    const struct mo_sys *sys = d->env->sys;
    int rc = d->calls->begin(d->self, err);
    if (rc) return rc;
    rc = sys->thread_start(sys->self, &d->service, mo_device_serve, d);
    if (rc) return mo_fail(err, MOIRE_EIO, "cannot start the service thread: %s", strerror(-rc));
    d->service_started = true;
    return MOIRE_OK;
}

int mo_device_create(const struct mo_device_config *c, int number, struct mo_device **out, moire_error *err) {
    struct mo_device_about about = {0};
    struct mo_device *d = mo_alloc(c->env, sizeof *d);
    if (!d) return mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine");
    *d = (struct mo_device){.env = c->env,
                            .calls = c->calls,
                            .max_tenants = c->max_tenants,
                            .number = number,
                            .timer_at = MO_NEVER,
                            .resolved = MO_QUERY_LIST_EMPTY,
                            .since = mo_now(c->env)};
    int rc = c->calls->open(d, c->options, &d->self, &about, err);
    d->n_units = about.n_units;
    if (!rc) rc = make_scheduler(d, c, &about, err);
    if (!rc) rc = start_threads(d, err);
    if (rc)
        mo_device_destroy(d);
    else
        *out = d;
    return rc;
}

void mo_device_destroy(struct mo_device *d) {
    if (!d) return;
    const struct mo_env *env = d->env;
    if (d->service_started) {
        mo_device_take(d);
        d->stop = true;
        mo_device_drop(d);
        mo_device_ring_doorbell(d);
        env->sys->thread_join(env->sys->self, d->service);
    }
    if (d->self) d->calls->close(d->self);
    mo_device_write_lines(d); /* of threads that were there until now */
    mo_sched_destroy(d->sched);
    mo_events_destroy(d->events);
    mo_free(env, d->tenants);
    mo_free(env, d->stuck);
    mo_free(env, d);
}

/* --- tenants -------------------------------------------------------------------------------------------- */
int mo_device_admit(struct mo_device *d, const struct mo_device_tenant *config, int *tenant,
                    moire_error *err) {
    mo_device_take(d);
    int rc = mo_sched_tenant_open(d->sched, &config->sched, mo_now(d->env), tenant, err);
    if (!rc) d->tenants[*tenant] = (struct mo_device_model){config->ops, config->model, config->owner};
    mo_device_drop(d);
    return rc;
}

int mo_device_open(struct mo_device *d, const struct mo_device_tenant *config, int *tenant,
                   moire_error *err) {
    return d->calls->admit ? d->calls->admit(d->self, config, tenant, err)
                           : mo_device_admit(d, config, tenant, err);
}

void mo_device_close(struct mo_device *d, int tenant, int code) {
    mo_device_take(d);
    mo_sched_tenant_close(d->sched, tenant, code, mo_now(d->env));
    mo_device_drop(d);
    mo_device_quiet(d, tenant);
    if (d->calls->forget) d->calls->forget(d->self, tenant);
    mo_device_take(d);
    mo_sched_tenant_free(d->sched, tenant);
    mo_device_drop(d);
}

/* --- queries -------------------------------------------------------------------------------------------- */
int mo_device_cancel(struct mo_device *d, uint64_t handle) {
    mo_device_take(d);
    int rc = mo_sched_cancel(d->sched, handle, MOIRE_ECANCELLED, mo_now(d->env));
    mo_device_drop(d);
    return rc;
}

int mo_device_cancel_known(struct mo_device *d, uint64_t known) {
    int rc = MOIRE_ESTALE;
    mo_device_take(d);
    struct mo_queries *q = mo_sched_queries(d->sched);
    for (int i = 0; d->taken_over && i < q->cap && rc; i++)
        if (mo_query_is_live(q, i) && q->record[i].known == known)
            rc = mo_sched_cancel(d->sched, mo_query_handle(q, i), MOIRE_ECANCELLED, mo_now(d->env));
    mo_device_drop(d);
    return rc;
}

static bool nothing_is_open(struct mo_device *d, int arg) {
    (void)arg;
    return mo_sched_queries(d->sched)->n_live == 0 && d->n_late == 0;
}

void mo_device_drain(struct mo_device *d) {
    mo_device_wait(d, nothing_is_open, 0);
    mo_device_take(d);
    mo_event_put(mo_device_locked_ring(d), mo_now(d->env), MO_LOG_DRAINED, 0, -1, 0, 0, 0);
    mo_device_drop(d);
}

void mo_device_abort(struct mo_device *d, int code) {
    mo_device_take(d);
    mo_event_put(mo_device_locked_ring(d), mo_now(d->env), MO_LOG_SHUTDOWN, 0, -1, code, 0, 0);
    mo_sched_abort(d->sched, code, mo_now(d->env));
    mo_device_drop(d);
}

/* --- what is known of it -------------------------------------------------------------------------------- */
void mo_device_set_memory(struct mo_device *d, const struct mo_memory *memory) {
    mo_device_take(d);
    mo_sched_set_memory(d->sched, memory);
    mo_device_drop(d);
}

int mo_device_units(const struct mo_device *d) {
    return d->n_units;
}

bool mo_device_serves(struct mo_device *d) {
    mo_device_take(d);
    const struct mo_view *v = mo_sched_view(d->sched);
    bool any = false;
    for (int i = 0; i < v->n_tenants && !any; i++)
        any = v->tenants[i].open;
    mo_device_drop(d);
    return any;
}

struct mo_events *mo_device_events(struct mo_device *d) {
    return d->events;
}

int mo_device_dump(struct mo_device *d, const char *preface, const char *path, moire_error *err) {
    mo_device_take(d);
    int code = mo_events_dump(d->events, d->n_units, preface, path, err);
    mo_device_drop(d);
    return code;
}

struct mo_ring *mo_device_guest_ring(struct mo_device *d) {
    return mo_device_ring(d, d->n_units + MO_RING_EXTERNAL);
}

static int64_t cpu_ns(struct mo_device *d) {
    return (d->calls->cpu_ns ? d->calls->cpu_ns(d->self) : 0) +
           d->env->sys->thread_cpu(d->env->sys->self, d->service);
}

double mo_device_joules(struct mo_device *d) {
    mo_device_take(d);
    const struct mo_power_meter *meter = mo_sched_power_meter(d->sched);
    const double joules = meter ? mo_power_meter_joules(meter, mo_now(d->env)) : 0;
    mo_device_drop(d);
    return joules;
}

void mo_device_stats(struct mo_device *d, struct mo_sched_stats *out) {
    int64_t cpu = cpu_ns(d);
    mo_device_take(d);
    *out = *mo_sched_stats(d->sched);
    out->worker_cpu_ns = cpu - d->cpu_before;
    int64_t now = mo_now(d->env), accepted = mo_sched_accepted(d->sched);
    int64_t open = mo_sched_view(d->sched)->n_in_system;
    out->wall_ns = now - d->since;
    mo_event_put(mo_device_locked_ring(d), now, MO_LOG_SAMPLE, 0, -1, accepted, accepted - open, open);
    mo_device_drop(d);
}

void mo_device_stats_reset(struct mo_device *d) {
    int64_t cpu = cpu_ns(d);
    mo_device_take(d);
    *mo_sched_stats(d->sched) = (struct mo_sched_stats){0};
    d->cpu_before = cpu;
    d->since = mo_now(d->env);
    mo_device_drop(d);
}
