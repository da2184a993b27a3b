/* SPDX-License-Identifier: Apache-2.0
 * pressure.c - where a runtime's pressure comes from.
 *
 * Counters mean nothing without a proxy.  With one, its source is opened and the scheduler reads what the
 * sampler makes of it.  Without, counters are sampled only to be recorded, so that a proxy can be fitted. */
#include <string.h>
#include "runtime/serve/runtime.h"

static struct mo_source_config watched(const moire_runtime *rt) {
    return (struct mo_source_config){
        .env = &rt->env, .cpu = rt->topology->cpu, .n_cpus = rt->topology->n_cores};
}

static int sample(moire_runtime *rt, const struct mo_source *source, void *opened,
                  const struct mo_proxy *proxy, moire_error *err) {
    return mo_sampler_create(&rt->env, source, opened, proxy, &rt->sampler, err);
}

/* A source that was asked for by name; what keeps it away costs a line, not the runtime. */
static int open_named(moire_runtime *rt, const struct mo_source *source, const struct mo_proxy *proxy,
                      moire_error *err) {
    struct mo_source_config c = watched(rt);
    moire_error why;
    void *opened;
    if (!source->open(&c, &opened, &why)) return sample(rt, source, opened, proxy, err);
    mo_log(&rt->env, MOIRE_LOG_WARN, "pressure: no %s: %s; observed slowdown serves", source->name,
           why.message);
    return MOIRE_OK;
}

static int open_proxied(moire_runtime *rt, const char *path, const struct mo_source *wanted,
                        struct mo_pressure_source *out, moire_error *err) {
    struct mo_proxy proxy;
    int code = mo_proxy_read(&rt->env, path, &proxy, err);
    if (code) return code;
    if (wanted && wanted != proxy.source)
        return mo_fail(err, MOIRE_EINVAL, "the proxy '%s' is for %s, not for %s", path, proxy.source->name,
                       wanted->name);
    code = open_named(rt, proxy.source, &proxy, err);
    if (code || !rt->sampler) return code;
    *out = (struct mo_pressure_source){proxy.source->name, mo_sampler_read, rt->sampler};
    mo_log(&rt->env, MOIRE_LOG_INFO, "pressure: %s, by %s", proxy.source->name, path);
    return MOIRE_OK;
}

/* Counters to be recorded: the best there are, or the wanted ones. */
static int open_recorded(moire_runtime *rt, const struct mo_source *wanted, moire_error *err) {
    if (wanted) return wanted->open ? open_named(rt, wanted, NULL, err) : MOIRE_OK;
    struct mo_source_config c = watched(rt);
    void *opened;
    const struct mo_source *source = mo_source_first(&c, &opened);
    return source->open ? sample(rt, source, opened, NULL, err) : MOIRE_OK;
}

int mo_pressure_open(moire_runtime *rt, const moire_config *config, bool recorded,
                     struct mo_pressure_source *out, moire_error *err) {
    const bool named = config->pressure && strcmp(config->pressure, "auto") != 0;
    const struct mo_source *wanted = named ? mo_source_find(config->pressure) : NULL;
    *out = (struct mo_pressure_source){0};
    if (named && !wanted) return mo_source_unknown(config->pressure, err);
    if (config->proxy) return open_proxied(rt, config->proxy, wanted, out, err);
    if (recorded) return open_recorded(rt, wanted, err);
    if (wanted && wanted->open)
        mo_log(&rt->env, MOIRE_LOG_WARN,
               "pressure: %s counts, but no proxy says what that means (moire proxy fit); observed slowdown "
               "serves",
               wanted->name);
    return MOIRE_OK;
}
