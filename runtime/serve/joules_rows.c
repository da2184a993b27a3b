/* SPDX-License-Identifier: Apache-2.0
 * joules_rows.c - moire_energy(): joules of a runtime's devices, measured where there are counters; of cores
 * modelled where there are none, by the meter of their scheduler.
 *
 * Counters are opened by the first call: a runtime that nobody asks reads no file for it. */
#include <stdio.h>
#include "runtime/gpu/gpu_energy.h"
#include "runtime/serve/gpu.h"

/* For a policy that chooses clocks, where this machine lets it. */
static void open_clock(moire_runtime *rt, struct mo_device_config *device) {
    struct mo_serve_energy *e = &rt->energy;
    const struct mo_topology *t = rt->topology;
    moire_error err;
    if (!rt->policy->clocks) return;
    if (mo_core_clock_open(&rt->env, "", t->cpu, t->n_cores, &e->clock, &err)) {
        mo_log(&rt->env, MOIRE_LOG_WARN, "clocks of cores stay as they are: %s", err.message);
        return;
    }
    mo_core_clock_describe(e->clock, &e->kind);
    device->clock = mo_core_clock_want;
    device->clock_self = e->clock;
}

void mo_serve_power_of_cores(moire_runtime *rt, struct mo_device_config *device) {
    const int n = rt->topology->n_cores;
    rt->energy.kind = mo_power_of_cores(n);
    rt->energy.machine =
        (struct mo_power_machine){.n_devices = 1, .n_units = n, .first = {0, n}, .kind = {&rt->energy.kind}};
    device->power = &rt->energy.machine;
    open_clock(rt, device);
}

/* One line: measured, or modelled and why; and what is known of the GPUs. */
static void describe(const moire_runtime *rt, char *out, size_t n) {
    const struct mo_serve_energy *e = &rt->energy;
    const char *line = mo_joules_line(&e->joules, MO_JOULES_CORES);
    int used;
    if (mo_joules_measured(&e->joules, MO_JOULES_CORES))
        used = snprintf(out, n, "cores: %s", line);
    else
        used = snprintf(out, n, "cores: modelled (%s: %s); %s", mo_power_basis_name(e->kind.basis),
                        e->kind.source, line);
    if (rt->device && used >= 0 && (size_t)used < n)
        snprintf(out + used, n - (size_t)used, "; GPUs: %s", mo_joules_line(&e->joules, MO_JOULES_BOARDS));
}

/* Under the lock. */
static int open_counters(moire_runtime *rt, moire_error *err) {
    struct mo_serve_energy *e = &rt->energy;
    char line[MO_RUNTIME_ENERGY_LINE];
    if (e->opened) return MOIRE_OK;
    if (rt->device) e->boards = mo_gpu_energy_boards(&rt->device->device);
    const struct mo_energy_config config = {
        .env = &rt->env, .root = "", .boards = rt->device ? &e->boards : NULL};
    const int code = mo_joules_open(&config, &e->joules, err);
    if (code) return code;
    e->before = mo_device_joules(rt->cores);
    e->opened = true;
    describe(rt, line, sizeof line);
    mo_log(&rt->env, MOIRE_LOG_INFO, "energy: %s", line);
    return MOIRE_OK;
}

/* Under the lock; all rows, at most MO_JOULES_ROWS + 1. */
static int read_rows(moire_runtime *rt, moire_energy_row *rows) {
    struct mo_serve_energy *e = &rt->energy;
    int n = 0;
    if (!mo_joules_measured(&e->joules, MO_JOULES_CORES))
        rows[n++] = (moire_energy_row){.device = "cpu",
                                       .domain = "cores",
                                       .source = "model",
                                       .joules = mo_device_joules(rt->cores) - e->before};
    return n + mo_joules_read(&e->joules, rows + n);
}

int moire_energy(moire_runtime *rt, moire_energy_row *out, int room, int *n, moire_error *err) {
    moire_energy_row rows[MO_JOULES_ROWS + 1];
    if (!rt || !n || room < 0 || (room && !out))
        return mo_fail(err, MOIRE_EINVAL, "moire_energy: a runtime, n and room for the rows must be given");
    int code = mo_runtime_here(rt, err);
    if (code) return code;
    mo_lock_take(rt->env.sys, &rt->energy.lock);
    code = open_counters(rt, err);
    if (!code) *n = read_rows(rt, rows);
    mo_lock_drop(rt->env.sys, &rt->energy.lock);
    for (int i = 0; !code && i < *n && i < room; i++)
        out[i] = rows[i];
    return code;
}

int mo_runtime_energy_line(moire_runtime *rt, char *out, size_t n, moire_error *err) {
    mo_lock_take(rt->env.sys, &rt->energy.lock);
    const int code = open_counters(rt, err);
    if (!code) describe(rt, out, n);
    mo_lock_drop(rt->env.sys, &rt->energy.lock);
    return code;
}
