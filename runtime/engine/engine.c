/* SPDX-License-Identifier: Apache-2.0
 * engine.c - the list of devices; see engine.h.
 *
 * Queries are taken over by later devices only, from within an answer, that is while they are still open
 * where they were: so one walk over the list, each device waited for in turn, drains them all. */
#include "runtime/engine/engine.h"

#include "runtime/engine/device_impl.h"

/* A tenant is its device and its number there; a handle has its device above the slot (mo_device_tag()). */
enum { TENANT_BITS = 20 };
static const uint64_t HANDLE_MASK = MO_HANDLE_DEVICES - 1;
_Static_assert((int)MO_ENGINE_DEVICES <= (int)MO_HANDLE_DEVICES, "a handle names every device");

struct mo_engine {
    const struct mo_env *env;
    int n;
    struct mo_device *device[MO_ENGINE_DEVICES];
    /* queries that a device took over since statistics were reset: each has one failure too many */
    _Atomic int64_t taken_over;
};

int mo_engine_create(const struct mo_engine_config *c, struct mo_engine **out, moire_error *err) {
    int rc = MOIRE_OK;
    if (c->n_devices < 1 || c->n_devices > MO_ENGINE_DEVICES)
        return mo_fail(err, MOIRE_EINVAL, "an engine has 1 to %d devices", MO_ENGINE_DEVICES);
    struct mo_engine *e = mo_alloc(c->env, sizeof *e);
    if (!e) return mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine");
    e->env = c->env;
    for (; e->n < c->n_devices && !rc; e->n += !rc)
        rc = mo_device_create(&c->device[e->n], e->n, &e->device[e->n], err);
    if (rc)
        mo_engine_destroy(e);
    else
        *out = e;
    return rc;
}

void mo_engine_destroy(struct mo_engine *e) {
    if (!e) return;
    for (int i = 0; i < e->n; i++)
        mo_device_destroy(e->device[i]);
    mo_free(e->env, e);
}

int mo_engine_devices(const struct mo_engine *e) {
    return e->n;
}

struct mo_device *mo_engine_device(const struct mo_engine *e, int device) {
    return e->device[device];
}

/* --- tenants -------------------------------------------------------------------------------------------- */
static struct mo_device *device_of(const struct mo_engine *e, int tenant) {
    return e->device[tenant >> TENANT_BITS];
}

int mo_engine_device_of(int tenant) {
    return tenant >> TENANT_BITS;
}

int mo_engine_index(int tenant) {
    return tenant & ((1 << TENANT_BITS) - 1);
}

int mo_engine_open(struct mo_engine *e, int device, const struct mo_device_tenant *config, int *tenant,
                   moire_error *err) {
    int index, rc = mo_device_open(e->device[device], config, &index, err);
    if (!rc) *tenant = device << TENANT_BITS | index;
    return rc;
}

void mo_engine_close(struct mo_engine *e, int tenant, int code) {
    mo_device_close(device_of(e, tenant), mo_engine_index(tenant), code);
}

/* --- queries -------------------------------------------------------------------------------------------- */
void mo_engine_submit_all(struct mo_engine *e, int tenant, struct mo_device_query *queries, int n,
                          moire_error *err) {
    struct mo_device *d = device_of(e, tenant);
    mo_device_submit(d, mo_engine_index(tenant), queries, n, err);
    for (int i = 0; i < n; i++)
        queries[i].handle = mo_device_tag(d, queries[i].handle);
}

int mo_engine_submit(struct mo_engine *e, int tenant, int64_t arrival, void *user, uint64_t *handle,
                     moire_error *err) {
    struct mo_device_query q = {.arrival = {.arrival = arrival, .user = user}};
    mo_engine_submit_all(e, tenant, &q, 1, err);
    if (!q.code && handle) *handle = q.handle;
    return q.code;
}

int mo_engine_take_over(struct mo_engine *e, int tenant, const struct mo_arrival *arrival, uint64_t known,
                        moire_error *err) {
    struct mo_device_query q = {.arrival = *arrival, .known = known};
    mo_device_submit(device_of(e, tenant), mo_engine_index(tenant), &q, 1, err);
    if (!q.code) atomic_fetch_add_explicit(&e->taken_over, 1, memory_order_relaxed);
    return q.code;
}

void mo_engine_be_guest(struct mo_engine *e, int tenant, int core) {
    mo_device_be_guest(device_of(e, tenant), core);
}

void mo_engine_quiet(struct mo_engine *e, int tenant) {
    mo_device_quiet(device_of(e, tenant), mo_engine_index(tenant));
}

void mo_engine_now(struct mo_engine *e, int tenant, struct mo_device_now *out) {
    mo_device_now(device_of(e, tenant), mo_engine_index(tenant), out);
}

int mo_engine_cancel(struct mo_engine *e, uint64_t handle) {
    const int first = (int)(handle >> MO_HANDLE_SHIFT & HANDLE_MASK);
    int rc = MOIRE_ESTALE;
    if (first < e->n) rc = mo_device_cancel(e->device[first], handle & ~(HANDLE_MASK << MO_HANDLE_SHIFT));
    for (int i = first + 1; i < e->n && rc == MOIRE_ESTALE; i++)
        rc = mo_device_cancel_known(e->device[i], handle);
    return rc;
}

void mo_engine_drain(struct mo_engine *e) {
    for (int i = 0; i < e->n; i++)
        mo_device_drain(e->device[i]);
}

void mo_engine_abort(struct mo_engine *e, int code) {
    for (int i = 0; i < e->n; i++)
        mo_device_abort(e->device[i], code);
}

/* --- statistics ----------------------------------------------------------------------------------------- */
void mo_engine_stats(struct mo_engine *e, struct mo_sched_stats *out) {
    const int64_t twice = atomic_load_explicit(&e->taken_over, memory_order_relaxed);
    *out = (struct mo_sched_stats){0};
    for (int i = 0; i < e->n; i++) {
        struct mo_sched_stats part;
        mo_device_stats(e->device[i], &part);
        mo_sched_stats_add(out, &part);
    }
    out->accepted -= twice;
    out->failed -= twice;
}

void mo_engine_stats_reset(struct mo_engine *e) {
    for (int i = 0; i < e->n; i++)
        mo_device_stats_reset(e->device[i]);
    atomic_store_explicit(&e->taken_over, 0, memory_order_relaxed);
}
