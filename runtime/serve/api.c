/* SPDX-License-Identifier: Apache-2.0
 * api.c - the public interface: runtimes, their limits and clock.  Queries are in submit.c. */
#include <stdio.h>
#include <string.h>
#include "moire_research.h"
#include "runtime/base/caches.h"
#include "runtime/serve/gpu.h"
#include "variants/store.h"

void moire_config_init(moire_config *config) {
    *config = (moire_config){.size = sizeof *config};
}

static int read_config(const moire_config *given, moire_config *out, moire_error *err) {
    moire_config_init(out);
    if (!given) return MOIRE_OK;
    if (given->size < sizeof(size_t) || given->size > 4096)
        return mo_fail(err, MOIRE_EINVAL, "config: size is %zu; use moire_config_init()", given->size);
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (out->threads < 0 || out->block_ns < 0 || out->max_queries < 0)
        return mo_fail(err, MOIRE_EINVAL, "config: threads, block_ns and max_queries must not be negative");
    if (out->n_limits < 0 || (out->n_limits && !out->limits))
        return mo_fail(err, MOIRE_EINVAL, "config: n_limits is %d, and limits %s", out->n_limits,
                       out->limits ? "are given" : "are not given");
    return MOIRE_OK;
}

/* A store that cannot be used costs speed, never service: one warning, and the built-in kernels serve.  One
 * that is not there is said too: nobody runs built-in kernels without a line that says where others were
 * looked for. */
static void open_store(moire_runtime *rt, const moire_config *c) {
    char path[MO_CACHES_PATH];
    const char *at = c->store ? c->store : path;
    char elsewhere[256];
    moire_error why;
    if (c->generic_only) return;
    int rc = c->store ? MOIRE_OK : mo_caches_folder(rt->env.sys, "store", path, sizeof path, &why);
    if (!rc) rc = mo_store_open(&rt->env, at, &rt->store, &why);
    if (rc) {
        rt->store = NULL;
        mo_log(&rt->env, MOIRE_LOG_WARN, "variant store not used: %s", why.message);
    } else if (mo_store_elsewhere(&rt->env, at, elsewhere, sizeof elsewhere)) {
        mo_log(&rt->env, MOIRE_LOG_WARN, "variant store '%s': %s; built-in kernels serve until then", at,
               elsewhere);
    } else {
        mo_log(&rt->env, MOIRE_LOG_INFO, "variant store '%s'%s", at,
               mo_store_is_there(rt->store)
                   ? ""
                   : " has nothing for this processor: built-in kernels serve; `moire compile` fills it");
    }
}

static int set_limits(moire_runtime *rt, const moire_config *c, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; i < c->n_limits && !rc; i++)
        rc = mo_limits_set(&rt->env.limits, c->limits[i].name, c->limits[i].value, err);
    return rc;
}

/* Its devices: GPUs, if the config names any, then the cores. */
static int start_engine(moire_runtime *rt, const moire_config *c, int64_t events, moire_error *err) {
    const struct mo_limits *limits = &rt->env.limits;
    const struct mo_engine_cores_options cores = {
        .topology = rt->topology, .no_pin = c->no_pin != 0, .lent = c->lend_workers != 0};
    struct mo_engine_config ec = {.env = &rt->env};
    struct mo_device_config device = {.env = &rt->env,
                                      .max_queries = c->max_queries ? c->max_queries : (int)limits->queries,
                                      .max_tenants = (int)limits->tenants,
                                      .events = events};
    if (!mo_objective_named(c->objective, &device.objective))
        return mo_fail(err, MOIRE_EINVAL, "no objective '%s'; there are: every, all, weighted", c->objective);
    int rc = mo_serve_device_open(rt, c, &device, &ec, err);
    if (!rc) rc = mo_pressure_open(rt, c, events > 0, &device.source, err);
    if (rc) return rc;
    device.calls = &mo_engine_cores;
    device.options = &cores;
    device.policy = rt->policy;
    device.block_ns = c->block_ns;
    mo_serve_power_of_cores(rt, &device);
    ec.device[ec.n_devices++] = device;
    rc = mo_engine_create(&ec, &rt->engine, err);
    if (!rc) rt->cores = mo_engine_device(rt->engine, ec.n_devices - 1);
    return rc;
}

static int start(moire_runtime *rt, const moire_config *c, int64_t events, moire_error *err) {
    int rc = mo_policy_choose(c->policy ? c->policy : "moire", false, rt->research, &rt->policy, err);
    if (rc) return rc;
    const struct mo_limits *limits = &rt->env.limits;
    if (c->record < 0 || c->record > 1 << 26)
        return mo_fail(err, MOIRE_EINVAL, "record: %lld events; must be 0 to %d", (long long)c->record,
                       1 << 26);
    rc = set_limits(rt, c, err);
    if (!rc && c->max_queries > limits->queries)
        rc = mo_fail(err, MOIRE_ELIMIT, "limit 'queries' is %lld, the config asks for %d",
                     (long long)limits->queries, c->max_queries);
    if (!rc) rc = mo_topology_create(&rt->env, NULL, c->threads, "", &rt->topology, err);
    if (rc) return rc;
    rt->pools.arenas = mo_arenas_create(&rt->env);
    rt->pools.kept = mo_arenas_create(&rt->env);
    if (!rt->pools.arenas || !rt->pools.kept)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for a runtime");
    rt->isa = mo_isa_detect();
    open_store(rt, c);
    rc = start_engine(rt, c, events > c->record ? events : c->record, err);
    if (!rc && rt->sampler) rc = mo_sampler_start(rt->sampler, mo_device_guest_ring(rt->cores), err);
    return rc;
}

int mo_runtime_here(const moire_runtime *rt, moire_error *err) {
    if (!rt->here || atomic_load_explicit(rt->here, memory_order_relaxed)) return MOIRE_OK;
    return mo_fail(err, MOIRE_EFORKED,
                   "the runtime was made before fork(): its threads are in the parent; create another here");
}

static void release(moire_runtime *rt) {
    const struct mo_sys *sys = rt->env.sys;
    if (rt->here) sys->unmap(sys->self, (const void *)(uintptr_t)rt->here, MO_MARK_BYTES);
    mo_sampler_stop(rt->sampler); /* it writes into a ring of the engine's, which reads its value */
    mo_engine_destroy(rt->engine);
    mo_core_clock_close(rt->energy.clock);
    mo_joules_close(&rt->energy.joules);
    mo_serve_device_close(rt);
    mo_sampler_destroy(rt->sampler);
    mo_store_close(rt->store);
    mo_arenas_destroy(rt->pools.arenas);
    mo_arenas_destroy(rt->pools.kept);
    mo_topology_destroy(rt->topology);
    struct mo_env env = rt->env;
    mo_free(&env, rt);
}

static int create(const moire_config *config, const struct mo_env *env, int64_t events, bool research,
                  moire_runtime **out, moire_error *err) {
    if (!out) return mo_fail(err, MOIRE_EINVAL, "moire_runtime_create: out must be given");
    *out = NULL;
    moire_config c;
    int rc = read_config(config, &c, err);
    if (rc) return rc;
    struct mo_env base = env ? *env : mo_env_default();
    if (c.log) {
        base.log = c.log;
        base.log_user = c.log_user;
    }
    moire_runtime *rt = mo_alloc(&base, sizeof *rt);
    if (!rt) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a runtime");
    rt->env = base;
    rt->research = research;
    rt->created = mo_now(&rt->env);
    if (base.sys->mark_process(base.sys->self, &rt->here)) rt->here = NULL; /* Linux before 4.14 */
    rc = start(rt, &c, events, err);
    if (rc)
        release(rt);
    else
        *out = rt;
    return rc;
}

int mo_runtime_create(const moire_config *config, const struct mo_env *env, int64_t events,
                      moire_runtime **out, moire_error *err) {
    return create(config, env, events, true, out, err);
}

int moire_runtime_create(const moire_config *config, moire_runtime **out, moire_error *err) {
    return create(config, NULL, 0, false, out, err);
}

int moire_research_create(const moire_config *config, moire_runtime **out, moire_error *err) {
    return create(config, NULL, 0, true, out, err);
}

void moire_runtime_destroy(moire_runtime *rt, int drain) {
    if (!rt || mo_runtime_here(rt, NULL)) return;
    atomic_store(&rt->closing, true);
    if (drain)
        mo_engine_drain(rt->engine);
    else
        mo_engine_abort(rt->engine, MOIRE_ESHUTDOWN);
    while (rt->tenants)
        mo_tenant_close(rt->tenants, MOIRE_ESHUTDOWN);
    release(rt);
}

int moire_work(moire_runtime *rt, int core) {
    int rc = rt ? mo_runtime_here(rt, NULL) : MOIRE_EINVAL;
    return rc ? rc : mo_engine_cores_work(rt->cores, core);
}

int64_t moire_now(const moire_runtime *rt) {
    return rt ? mo_now(&rt->env) : 0;
}

int moire_drain(moire_runtime *rt) {
    int rc = rt ? mo_runtime_here(rt, NULL) : MOIRE_EINVAL;
    if (!rc) mo_engine_drain(rt->engine);
    return rc;
}

int moire_cancel(moire_runtime *rt, moire_query query) {
    int rc = rt ? mo_runtime_here(rt, NULL) : MOIRE_EINVAL;
    return rc ? rc : mo_engine_cancel(rt->engine, query);
}

int moire_limits(const moire_runtime *rt, moire_limit_row *out, int room, int *n, moire_error *err) {
    if (!n || room < 0 || (room && !out))
        return mo_fail(err, MOIRE_EINVAL, "moire_limits: n and room for the rows must be given");
    const struct mo_limits limits = rt ? rt->env.limits : mo_limits_default();
    moire_limit_row all[MO_LIMIT_ROWS];
    mo_limits_table(&limits, all, n);
    for (int i = 0; i < *n && i < room; i++)
        out[i] = all[i];
    return MOIRE_OK;
}

int moire_background(void) {
    const struct mo_sys *sys = mo_sys_posix();
    return sys->background(sys->self) ? MOIRE_EIO : MOIRE_OK;
}

int moire_foreground(void) {
    const struct mo_sys *sys = mo_sys_posix();
    return sys->foreground(sys->self) ? MOIRE_EIO : MOIRE_OK;
}
