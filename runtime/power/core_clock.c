/* SPDX-License-Identifier: Apache-2.0
 * core_clock.c - see core_clock.h. */
#include "runtime/power/core_clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const double speeds[] = {0.6, 0.8, 1};
enum { SPEEDS = sizeof speeds / sizeof *speeds };

struct mo_core_clock {
    const struct mo_env *env;
    char root[128];
    int n, cpu[MO_CPUFREQ_CORES];
    int64_t least_khz, most_khz;
    struct mo_cpufreq_ceilings ceilings; /* the thread's; n 0 = as they were */
    struct mo_thread thread;
    _Atomic uint32_t asked; /* futex word of the thread: rises with each wish, and to stop */
    _Atomic int64_t khz;    /* wanted; 0 = as it was */
    _Atomic bool stop;
};

/* Returns false when clocks cannot be set any more. */
static bool set(struct mo_core_clock *c, int64_t khz) {
    moire_error err;
    mo_cpufreq_restore(&c->ceilings);
    if (!khz || !mo_cpufreq_limit(c->env, c->root, c->cpu, c->n, khz, &c->ceilings, &err)) return true;
    mo_log(c->env, MOIRE_LOG_WARN, "clocks of cores stay as they are from now on: %s", err.message);
    return false;
}

static void *set_on(void *arg) {
    struct mo_core_clock *c = arg;
    const struct mo_sys *sys = c->env->sys;
    int64_t in_force = 0;
    bool works = true;
    sys->name_thread(sys->self, "moire-clock");
    while (!atomic_load(&c->stop)) {
        const uint32_t seen = atomic_load(&c->asked);
        const int64_t khz = atomic_load(&c->khz);
        if (works && khz != in_force) works = set(c, in_force = khz);
        if (!atomic_load(&c->stop)) sys->futex_wait(sys->self, &c->asked, seen, INT64_MAX);
    }
    mo_cpufreq_restore(&c->ceilings);
    return NULL;
}

static void rouse(struct mo_core_clock *c) {
    atomic_fetch_add(&c->asked, 1);
    c->env->sys->futex_wake(c->env->sys->self, &c->asked, 1);
}

static int look(struct mo_core_clock *c, moire_error *err) {
    struct mo_cpufreq is;
    const int code = mo_cpufreq_look(c->env, c->root, c->cpu[0], &is, err);
    if (code) return code;
    if (!is.settable)
        return mo_fail(err, MOIRE_EUNSUPPORTED,
                       "%s/sys/devices/system/cpu/cpu%d/cpufreq/scaling_max_freq may not be written; run as "
                       "root, on a host that lets its clock be set",
                       c->root, c->cpu[0]);
    c->least_khz = is.least_khz;
    c->most_khz = is.most_khz;
    return MOIRE_OK;
}

int mo_core_clock_open(const struct mo_env *env, const char *root, const int *cpu, int n,
                       struct mo_core_clock **out, moire_error *err) {
    struct mo_core_clock *c = *out = NULL;
    if (n < 1 || n > MO_CPUFREQ_CORES)
        return mo_fail(err, MOIRE_ELIMIT, "clock of %d cores: 1 to %d can be set together", n,
                       MO_CPUFREQ_CORES);
    c = mo_alloc(env, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the clock of cores");
    c->env = env;
    snprintf(c->root, sizeof c->root, "%s", root);
    c->n = n;
    memcpy(c->cpu, cpu, (size_t)n * sizeof *cpu);
    int code = look(c, err), rc = code ? 0 : env->sys->thread_start(env->sys->self, &c->thread, set_on, c);
    if (rc) code = mo_fail(err, MOIRE_EIO, "cannot start the thread that sets clocks: %s", strerror(-rc));
    if (code)
        mo_free(env, c);
    else
        *out = c;
    return code;
}

void mo_core_clock_close(struct mo_core_clock *c) {
    if (!c) return;
    atomic_store(&c->stop, true);
    rouse(c);
    c->env->sys->thread_join(c->env->sys->self, c->thread);
    mo_free(c->env, c);
}

void mo_core_clock_describe(const struct mo_core_clock *c, struct mo_power_kind *kind) {
    kind->n_clocks = 0;
    for (int i = 0; i < SPEEDS; i++)
        if (speeds[i] * (double)c->most_khz >= (double)c->least_khz)
            kind->clock[kind->n_clocks++] =
                (struct mo_power_clock){speeds[i], speeds[i] * speeds[i] * speeds[i]};
}

void mo_core_clock_want(void *self, double speed) {
    struct mo_core_clock *c = self;
    const int64_t khz = speed < 1 ? (int64_t)(speed * (double)c->most_khz) : 0;
    if (atomic_exchange(&c->khz, khz) != khz) rouse(c);
}
