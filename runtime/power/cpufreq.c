/* SPDX-License-Identifier: Apache-2.0
 * cpufreq.c - see cpufreq.h. */
#define _GNU_SOURCE
#include "runtime/power/cpufreq.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/file.h"
#include "runtime/power/rapl.h"

enum { PATH = 300 };

static void path_of(const char *root, int cpu, const char *file, char *out, size_t n) {
    snprintf(out, n, "%s/sys/devices/system/cpu/cpu%d/cpufreq/%s", root, cpu, file);
}

/* kHz of a file; 0 and the error when it has none. */
static int64_t khz_of(const struct mo_env *env, const char *root, int cpu, const char *file,
                      moire_error *err) {
    char path[PATH];
    uint64_t khz = 0;
    path_of(root, cpu, file, path, sizeof path);
    const int rc = mo_power_number(env, path, &khz);
    if (!rc && khz > 0 && khz < INT64_MAX) return (int64_t)khz;
    mo_fail(err, MOIRE_EUNSUPPORTED, "%s: %s", path, rc && rc != -EINVAL ? strerror(-rc) : "no clock in it");
    return 0;
}

static void word_of(const struct mo_env *env, const char *root, int cpu, const char *file, char *out,
                    size_t n) {
    char path[PATH], text[64];
    path_of(root, cpu, file, path, sizeof path);
    const bool told = mo_file_peek(env, path, text, sizeof text) > 0;
    text[told ? strcspn(text, "\n") : 0] = 0;
    snprintf(out, n, "%.31s", text);
}

int mo_cpufreq_look(const struct mo_env *env, const char *root, int cpu, struct mo_cpufreq *out,
                    moire_error *err) {
    char path[PATH];
    *out = (struct mo_cpufreq){.least_khz = khz_of(env, root, cpu, "cpuinfo_min_freq", err)};
    if (out->least_khz) out->most_khz = khz_of(env, root, cpu, "cpuinfo_max_freq", err);
    if (out->most_khz) out->ceiling_khz = khz_of(env, root, cpu, "scaling_max_freq", err);
    if (!out->ceiling_khz) return MOIRE_EUNSUPPORTED;
    word_of(env, root, cpu, "scaling_governor", out->governor, sizeof out->governor);
    word_of(env, root, cpu, "scaling_driver", out->driver, sizeof out->driver);
    path_of(root, cpu, "scaling_max_freq", path, sizeof path);
    out->settable = env->sys->may_write(env->sys->self, path, false) == 0;
    return MOIRE_OK;
}

/* 0 or -errno. */
static int set(const struct mo_env *env, const char *path, int64_t khz) {
    const struct mo_sys *sys = env->sys;
    char text[32];
    const int n = snprintf(text, sizeof text, "%" PRId64 "\n", khz);
    const int fd = sys->open(sys->self, path, O_WRONLY | O_CLOEXEC | O_TRUNC, 0);
    if (fd < 0) return fd;
    const ssize_t got = sys->write(sys->self, fd, text, (size_t)n);
    sys->close(sys->self, fd);
    return got < 0 ? (int)got : got == n ? 0 : -EIO;
}

static int limit_one(struct mo_cpufreq_ceilings *c, int cpu, int64_t khz, moire_error *err) {
    struct mo_cpufreq is;
    char path[PATH];
    const int code = mo_cpufreq_look(c->env, c->root, cpu, &is, err);
    if (code) return code;
    if (khz < is.least_khz || khz > is.most_khz)
        return mo_fail(err, MOIRE_EINVAL, "cpu %d has no clock of %" PRId64 " kHz: %" PRId64 " to %" PRId64,
                       cpu, khz, is.least_khz, is.most_khz);
    path_of(c->root, cpu, "scaling_max_freq", path, sizeof path);
    const int rc = set(c->env, path, khz);
    if (rc)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: %s; run as root, on a host that lets its clock be set",
                       path, strerror(-rc));
    c->cpu[c->n] = cpu;
    c->before[c->n++] = is.ceiling_khz;
    return MOIRE_OK;
}

int mo_cpufreq_limit(const struct mo_env *env, const char *root, const int *cpu, int n, int64_t khz,
                     struct mo_cpufreq_ceilings *out, moire_error *err) {
    int code = MOIRE_OK;
    out->env = env;
    out->n = 0;
    snprintf(out->root, sizeof out->root, "%s", root);
    if (n > MO_CPUFREQ_CORES)
        return mo_fail(err, MOIRE_ELIMIT, "clock of %d cores: at most %d can be set together", n,
                       MO_CPUFREQ_CORES);
    for (int i = 0; i < n && !code; i++)
        code = limit_one(out, cpu[i], khz, err);
    if (code) mo_cpufreq_restore(out);
    return code;
}

void mo_cpufreq_restore(struct mo_cpufreq_ceilings *c) {
    char path[PATH];
    while (c->n > 0) {
        c->n--;
        path_of(c->root, c->cpu[c->n], "scaling_max_freq", path, sizeof path);
        const int rc = set(c->env, path, c->before[c->n]);
        if (rc)
            mo_log(c->env, MOIRE_LOG_WARN,
                   "%s: %s; it stays at a ceiling that moire set, not at %" PRId64 " kHz", path,
                   strerror(-rc), c->before[c->n]);
    }
}
