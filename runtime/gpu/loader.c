/* SPDX-License-Identifier: Apache-2.0
 * loader.c - see loader.h. */
#include "runtime/gpu/loader.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/child/child.h"
#include "runtime/gpu/plugin.h"

enum { MAX_LETS = 8 };

/* --- the plugin ----------------------------------------------------------------------------------------- */
int mo_gpu_device_use(const struct mo_env *env, const struct mo_gpu_ops *ops,
                      const struct mo_gpu_config *config, struct mo_gpu_device *out, moire_error *err) {
    struct mo_gpu_config c = config ? *config : (struct mo_gpu_config){0};
    c.env = env;
    out->env = env;
    int code = mo_gpu_plugin_check(ops, out->file[0] ? out->file : "the plugin", err);
    if (!code) code = ops->open(&c, &out->system, err);
    if (code) return code;
    out->ops = ops;
    return MOIRE_OK;
}

/* "cuda" and "cuda:FILE"; the file is what dlopen() is asked for. */
static int name_file(const char *device, char *file, size_t n, moire_error *err) {
    const char *colon = strchr(device, ':');
    int length = (int)(colon ? colon - device : (long)strlen(device));
    for (int i = 0; i < length; i++)
        if (!islower((unsigned char)device[i])) length = 0;
    if (!length || length > 32 || (colon && !colon[1]))
        return mo_fail(err, MOIRE_EINVAL, "'%.64s' is no device: \"cuda\" or \"cuda:FILE\" of a plugin",
                       device);
    if (colon)
        snprintf(file, n, "%s", colon + 1);
    else
        snprintf(file, n, "libmoire-%.*s.so", length, device);
    return MOIRE_OK;
}

/* The child loads the file; the table is our end of it. */
static int open_child(const struct mo_gpu_config *config, struct mo_gpu_device *out, moire_error *err) {
    struct mo_gpu_config c = *config;
    c.plugin = out->file;
    return mo_gpu_device_use(out->env, mo_gpu_child_ops(), &c, out, err);
}

int mo_gpu_device_open(const struct mo_env *env, const char *device, const struct mo_gpu_config *config,
                       struct mo_gpu_device *out, moire_error *err) {
    const struct mo_gpu_ops *ops;
    bool child;
    *out = (struct mo_gpu_device){.env = env};
    int code = name_file(device, out->file, sizeof out->file, err);
    if (!code) code = mo_gpu_child_wanted(config ? config->process : NULL, &child, err);
    if (code) return code;
    if (config && child) return open_child(config, out, err);
    code = mo_gpu_plugin_load(env, out->file, &out->object, &ops, err);
    if (code) return code;
    code = mo_gpu_device_use(env, ops, config, out, err);
    if (code) {
        env->sys->dl_close(env->sys->self, out->object);
        out->object = NULL;
    }
    return code;
}

void mo_gpu_device_close(struct mo_gpu_device *d) {
    if (d->ops) d->ops->close(d->system);
    if (d->object) d->env->sys->dl_close(d->env->sys->self, d->object);
    *d = (struct mo_gpu_device){0};
}

/* --- as a machine --------------------------------------------------------------------------------------- */
/* The driver's least and alignment in units. */
static void sizes(const struct mo_gpu_info *info, struct mo_plan_kind *kind) {
    int unit = info->unit_sms > 0 ? info->unit_sms : 1;
    int least = (info->least_sms + unit - 1) / unit, align = (info->align_sms + unit - 1) / unit;
    mo_plan_sizes(kind, least > 1 ? least : 1, align > 1 ? align : 1);
}

static int add(struct mo_gpu_device *d, int gpu, int max_lets, struct mo_gpus *out, moire_error *err) {
    struct mo_gpu_info info;
    int code = d->ops->describe(d->system, gpu, &info, err), k = 0;
    if (code) return code;
    while (k < out->n_kinds && strcmp(d->kind[k], info.name) != 0)
        k++;
    if (k == MO_PLAN_KINDS) return mo_fail(err, MOIRE_ELIMIT, "more than %d kinds of GPU", MO_PLAN_KINDS);
    struct mo_plan_kind *kind = &out->kinds[k];
    if (k == out->n_kinds) {
        int units = info.units < MO_PLAN_UNITS ? info.units : MO_PLAN_UNITS;
        snprintf(d->kind[k], sizeof d->kind[k], "%s", info.name);
        *kind = (struct mo_plan_kind){.name = d->kind[k],
                                      .units = units,
                                      .max_lets = max_lets < units ? max_lets : units,
                                      .memory_bytes = info.memory_free,
                                      .shared_weights = true};
        sizes(&info, kind);
        out->n_kinds++;
    }
    if (info.memory_free < kind->memory_bytes) kind->memory_bytes = info.memory_free;
    out->kind[gpu] = k;
    return MOIRE_OK;
}

int mo_gpu_device_gpus(struct mo_gpu_device *d, int max_lets, struct mo_gpus *out, moire_error *err) {
    int n = d->ops->count(d->system), code = MOIRE_OK;
    *out = (struct mo_gpus){.n_gpus = n < MO_PLAN_GPUS ? n : MO_PLAN_GPUS, .ahead_ns = MO_GPU_AHEAD_NS};
    for (int i = 0; i < out->n_gpus && !code; i++)
        code = add(d, i, max_lets > 0 ? max_lets : MAX_LETS, out, err);
    return code ? code : mo_gpus_finish(out, err);
}
