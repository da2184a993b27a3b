/* SPDX-License-Identifier: Apache-2.0
 * perf_energy.c - the meter `perf`; see perf_energy.h. */
#include "runtime/power/perf_energy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/file.h"
#include "runtime/power/rapl.h"

enum { PATH = 400, MAX_CPU = 1 << 20 };

/* Of a package, and of its memory, which is beside it. */
static const char *const events[] = {"energy-pkg", "energy-ram"};

struct event {
    int fd;
    double scale; /* joules a count */
    char domain[64];
    double joules;
    bool gone;
};

struct perf {
    const struct mo_env *env;
    char root[128];
    int n;
    struct event event[MO_ENERGY_ROWS];
};

/* Text of a file of the unit; false, with the reason, when it cannot be read. */
static bool text_of(const struct perf *p, const char *file, char *out, size_t n, moire_error *err) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/event_source/devices/power/%s", p->root, file);
    const ssize_t got = mo_file_peek(p->env, path, out, n);
    if (got < 0) mo_fail(err, MOIRE_EUNSUPPORTED, "%s: %s", path, strerror((int)-got));
    return got >= 0;
}

static int malformed(const char *file, moire_error *err) {
    return mo_fail(err, MOIRE_EUNSUPPORTED, "/sys/bus/event_source/devices/power/%s is not understood", file);
}

/* Number of the event, and joules a count. */
static int read_event(const struct perf *p, const char *name, uint64_t *event, double *scale,
                      moire_error *err) {
    char file[64], text[128], *end;
    snprintf(file, sizeof file, "events/%s", name);
    if (!text_of(p, file, text, sizeof text, err)) return MOIRE_EUNSUPPORTED;
    if (strncmp(text, "event=", 6) != 0) return malformed(file, err);
    *event = strtoull(text + 6, &end, 0);
    if (end == text + 6 || (*end && *end != '\n')) return malformed(file, err);
    snprintf(file, sizeof file, "events/%s.scale", name);
    if (!text_of(p, file, text, sizeof text, err)) return MOIRE_EUNSUPPORTED;
    *scale = strtod(text, &end);
    return end == text || !(*scale > 0 && *scale < 1) ? malformed(file, err) : MOIRE_OK;
}

static int package_of(const struct perf *p, int cpu) {
    char path[PATH];
    uint64_t id;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/physical_package_id", p->root, cpu);
    return !mo_power_number(p->env, path, &id) && id < MAX_CPU ? (int)id : cpu;
}

/* Events of one cpu's package; the second kind may be missing. */
static int open_on(struct perf *p, uint32_t type, int cpu, moire_error *err) {
    const struct mo_sys *sys = p->env->sys;
    for (size_t i = 0; i < sizeof events / sizeof *events && p->n < MO_ENERGY_ROWS; i++) {
        struct event *e = &p->event[p->n];
        uint64_t number = 0;
        moire_error why;
        int code = read_event(p, events[i], &number, &e->scale, i ? &why : err);
        if (code && !i) return code;
        if (code) continue;
        e->fd = sys->count_on_cpu(sys->self, type, number, cpu);
        if (e->fd >= 0) {
            snprintf(e->domain, sizeof e->domain, "package-%d%s", package_of(p, cpu), i ? "/dram" : "");
            p->n++;
        } else if (!i) {
            return mo_fail(err, MOIRE_EUNSUPPORTED,
                           "event power/%s/ on cpu %d: %s; it takes root, CAP_PERFMON, or "
                           "kernel.perf_event_paranoid 0",
                           events[i], cpu, strerror(-e->fd));
        }
    }
    return MOIRE_OK;
}

/* Of every cpu that a list such as "0,18" or "0-1" names. */
static int open_all(struct perf *p, moire_error *err) {
    char text[512], *at = text;
    uint64_t type;
    char path[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/event_source/devices/power/type", p->root);
    const int rc = mo_power_number(p->env, path, &type);
    if (rc == -EINVAL || (!rc && type > UINT32_MAX)) return malformed("type", err);
    if (rc) return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: %s", path, strerror(-rc));
    if (!text_of(p, "cpumask", text, sizeof text, err)) return MOIRE_EUNSUPPORTED;
    while (*at && *at != '\n') {
        char *end;
        const long first = strtol(at, &end, 10);
        long last = first;
        if (end == at) return malformed("cpumask", err);
        if (*end == '-') last = strtol(at = end + 1, &end, 10);
        if (end == at || first < 0 || last < first || last >= MAX_CPU) return malformed("cpumask", err);
        for (long cpu = first; cpu <= last && p->n < MO_ENERGY_ROWS; cpu++)
            if (open_on(p, (uint32_t)type, (int)cpu, err)) return MOIRE_EUNSUPPORTED;
        if (*end != ',' && *end && *end != '\n') return malformed("cpumask", err);
        at = end + (*end == ',');
    }
    return p->n ? MOIRE_OK : malformed("cpumask", err);
}

static void perf_close(void *self) {
    struct perf *p = self;
    while (p->n)
        p->env->sys->close(p->env->sys->self, p->event[--p->n].fd);
    mo_free(p->env, p);
}

static int perf_open(const struct mo_energy_config *c, void **out, moire_error *err) {
    struct perf *p = mo_alloc(c->env, sizeof *p);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    p->env = c->env;
    snprintf(p->root, sizeof p->root, "%s", c->root);
    const int code = open_all(p, err);
    if (code)
        perf_close(p);
    else
        *out = p;
    return code;
}

static int perf_read(void *self, moire_energy_row *rows) {
    struct perf *p = self;
    const struct mo_sys *sys = p->env->sys;
    for (int i = 0; i < p->n; i++) {
        struct event *e = &p->event[i];
        uint64_t counted;
        const ssize_t got = sys->read(sys->self, e->fd, &counted, sizeof counted);
        const bool gone = got != (ssize_t)sizeof counted;
        if (!gone)
            e->joules = (double)counted * e->scale;
        else if (!e->gone)
            mo_log(p->env, MOIRE_LOG_WARN, "energy: perf: %s cannot be read any more: %s", e->domain,
                   got < 0 ? strerror((int)-got) : "no count");
        e->gone = gone;
        rows[i] = (moire_energy_row){
            .device = "cpu", .source = "perf", .measured = 1, .gone = gone, .joules = e->joules};
        snprintf(rows[i].domain, sizeof rows[i].domain, "%s", e->domain);
    }
    return p->n;
}

const struct mo_energy_meter mo_energy_perf = {
    .name = "perf",
    .about = "the packages' counters as performance events power/energy-pkg/",
    .open = perf_open,
    .read = perf_read,
    .close = perf_close,
};
