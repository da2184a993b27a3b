/* SPDX-License-Identifier: Apache-2.0
 * papi.c - the source that counts L3 misses and accesses, instructions and cycles of the watched cores.
 *
 * libpapi is loaded when it is asked for, never linked: a machine without it loses nothing but this row. What
 * is declared here is the part of its stable interface (papi.h of 6.0 to 7.2) that is called.  An event set
 * is attached to each core, whoever runs there; the kernel grants that to root, CAP_PERFMON, or everybody
 * when perf_event_paranoid is 0 or less.  PAPI keeps its state in the process, so a second user is refused.
 */
#include <stdio.h>
#include <string.h>
#include "runtime/proxy/papi.h"

enum { PAPI_OK = 0, PAPI_NULL = -1, PAPI_CPU_ATTACH = 27 };
enum counter { MISSES, ACCESSES, INSTRUCTIONS, CYCLES, COUNTERS = MO_PAPI_COUNTERS };

/* What PAPI_set_opt() takes is a union; the room is that of its largest member, and more. */
union option {
    struct {
        int set;
        unsigned cpu;
    } attach;
    char room[1024];
};

struct calls {
    int (*library_init)(int version);
    int (*is_initialized)(void);
    int (*create_eventset)(int *set);
    int (*get_component_index)(const char *name);
    int (*assign_eventset_component)(int set, int component);
    int (*set_opt)(int option, union option *value);
    int (*add_named_event)(int set, const char *name);
    int (*start)(int set);
    int (*read)(int set, long long *values);
    int (*stop)(int set, long long *values);
    int (*cleanup_eventset)(int set);
    int (*destroy_eventset)(int *set);
    char *(*strerror)(int code);
    void (*shutdown)(void);
};

struct papi {
    const struct mo_env *env;
    void *object;
    struct calls call;
    int n, *cpu, *set; /* sets that count */
    const struct mo_papi_names *names;
    int64_t then;
    double last[COUNTERS]; /* sums over the cores at `then` */
    bool initialised;
};

/* An interface changes with its minor number; the library refuses another than its own. */
static const struct {
    const char *file;
    int version;
} libraries[] = {
    {"libpapi.so.7.2", 7 << 24 | 2 << 16},
    {"libpapi.so.7.1", 7 << 24 | 1 << 16},
    {"libpapi.so.7.0", 7 << 24},
    {"libpapi.so.6.0", 6 << 24},
};

/* What counts, by two sets of names: PAPI's own, and where its table has no L3 for a processor, the kernel's.
 */
static const struct mo_papi_names usual[] = {
    {NULL, {"PAPI_L3_TCM", "PAPI_L3_TCA", "PAPI_TOT_INS", "PAPI_TOT_CYC"}},
    {NULL, {"perf::LLC-LOAD-MISSES", "perf::LLC-LOADS", "perf::INSTRUCTIONS", "perf::CYCLES"}},
};

/* --- the library ---------------------------------------------------------------------------------------- */
static int load_calls(struct papi *p, moire_error *err) {
    const struct {
        const char *symbol;
        void *to; /* a function pointer; POSIX lets an object pointer be copied into it */
    } rows[] = {
        {"PAPI_library_init", &p->call.library_init},
        {"PAPI_is_initialized", &p->call.is_initialized},
        {"PAPI_create_eventset", &p->call.create_eventset},
        {"PAPI_get_component_index", &p->call.get_component_index},
        {"PAPI_assign_eventset_component", &p->call.assign_eventset_component},
        {"PAPI_set_opt", &p->call.set_opt},
        {"PAPI_add_named_event", &p->call.add_named_event},
        {"PAPI_start", &p->call.start},
        {"PAPI_read", &p->call.read},
        {"PAPI_stop", &p->call.stop},
        {"PAPI_cleanup_eventset", &p->call.cleanup_eventset},
        {"PAPI_destroy_eventset", &p->call.destroy_eventset},
        {"PAPI_strerror", &p->call.strerror},
        {"PAPI_shutdown", &p->call.shutdown},
    };
    const struct mo_sys *sys = p->env->sys;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *at = sys->dl_sym(sys->self, p->object, rows[i].symbol);
        if (!at) return mo_fail(err, MOIRE_EUNSUPPORTED, "libpapi has no %s", rows[i].symbol);
        memcpy(rows[i].to, &at, sizeof at);
    }
    return MOIRE_OK;
}

static int load(struct papi *p, moire_error *err) {
    const struct mo_sys *sys = p->env->sys;
    char reason[200];
    size_t i = 0, n = sizeof libraries / sizeof *libraries;
    while (i < n && !(p->object = sys->dl_open(sys->self, libraries[i].file, reason, sizeof reason)))
        i++;
    if (i == n) return mo_fail(err, MOIRE_EUNSUPPORTED, "no libpapi 6.0 to 7.2 (Debian: libpapi7.0)");
    int code = load_calls(p, err);
    if (code) return code;
    if (p->call.is_initialized())
        return mo_fail(err, MOIRE_EUNSUPPORTED, "something in this process uses libpapi already");
    sys->dl_keep(sys->self, libraries[i].file); /* it loses 200 KB whenever it is started and unmapped */
    int rc = p->call.library_init(libraries[i].version);
    p->initialised = rc == libraries[i].version;
    if (p->initialised) return MOIRE_OK;
    return mo_fail(err, MOIRE_EUNSUPPORTED, "%s does not start: %s", libraries[i].file, p->call.strerror(rc));
}

/* --- counting ------------------------------------------------------------------------------------------- */
static void stop_core(struct papi *p) {
    long long v[COUNTERS];
    int *set = &p->set[--p->n];
    p->call.stop(*set, v);
    p->call.cleanup_eventset(*set);
    p->call.destroy_eventset(set);
}

/* A set of events that count on one core; it is one more of p->set when this succeeds. */
static int start_core(struct papi *p, int cpu, const struct mo_papi_names *names, moire_error *err) {
    int *set = &p->set[p->n];
    const char *step = "an event set";
    *set = PAPI_NULL;
    int rc = p->call.create_eventset(set);
    bool made = rc == PAPI_OK;
    p->cpu[p->n] = cpu;
    p->n += made;
    if (made) {
        int component = names->component ? p->call.get_component_index(names->component) : 0;
        step = names->component ? names->component : "the first component";
        rc = component < 0 ? component : p->call.assign_eventset_component(*set, component);
    }
    if (rc == PAPI_OK && !names->component) {
        union option option = {.attach = {*set, (unsigned)cpu}};
        step = "attaching (it wants counters, and root, CAP_PERFMON or perf_event_paranoid 0)";
        rc = p->call.set_opt(PAPI_CPU_ATTACH, &option);
    }
    for (int c = 0; rc == PAPI_OK && c < COUNTERS; c++)
        if ((rc = p->call.add_named_event(*set, names->event[c])) != PAPI_OK) step = names->event[c];
    if (rc == PAPI_OK) {
        step = "start";
        rc = p->call.start(*set);
    }
    if (rc == PAPI_OK) return MOIRE_OK;
    if (made) stop_core(p);
    return mo_fail(err, MOIRE_EUNSUPPORTED, "core %d: %s: %s", cpu, step, p->call.strerror(rc));
}

/* With the first names that the first core knows; the error is that of the first names. */
static int start_all(struct papi *p, const struct mo_source_config *c, const struct mo_papi_names *names,
                     int n, moire_error *err) {
    moire_error ignored;
    int code = start_core(p, c->cpu[0], &names[0], err), which = 0;
    while (code && ++which < n)
        code = start_core(p, c->cpu[0], &names[which], &ignored);
    p->names = &names[which < n ? which : 0];
    for (int i = 1; !code && i < c->n_cpus; i++)
        code = start_core(p, c->cpu[i], p->names, err);
    return code;
}

static int read_all(const struct papi *p, double sum[COUNTERS], moire_error *err) {
    long long v[COUNTERS];
    memset(sum, 0, COUNTERS * sizeof *sum);
    for (int i = 0; i < p->n; i++) {
        int rc = p->call.read(p->set[i], v);
        if (rc != PAPI_OK)
            return mo_fail(err, MOIRE_EIO, "core %d cannot be read: %s", p->cpu[i], p->call.strerror(rc));
        for (int c = 0; c < COUNTERS; c++)
            sum[c] += (double)v[c];
    }
    return MOIRE_OK;
}

static void papi_close(void *self) {
    struct papi *p = self;
    const struct mo_sys *sys = p->env->sys;
    while (p->set && p->n)
        stop_core(p);
    if (p->initialised) p->call.shutdown();
    if (p->object) sys->dl_close(sys->self, p->object);
    mo_free(p->env, p->cpu);
    mo_free(p->env, p->set);
    mo_free(p->env, p);
}

int mo_papi_open(const struct mo_source_config *c, const struct mo_papi_names *names, int n, void **out,
                 moire_error *err) {
    struct papi *p = mo_alloc(c->env, sizeof *p);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    p->env = c->env;
    p->cpu = mo_alloc(c->env, (size_t)c->n_cpus * sizeof *p->cpu);
    p->set = mo_alloc(c->env, (size_t)c->n_cpus * sizeof *p->set);
    if (!p->cpu || !p->set) {
        papi_close(p);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    int code = load(p, err);
    if (!code) code = start_all(p, c, names, n, err);
    if (!code && read_all(p, p->last, err)) code = MOIRE_EUNSUPPORTED;
    p->then = mo_now(c->env);
    if (code)
        papi_close(p);
    else
        *out = p;
    return code;
}

static int papi_open(const struct mo_source_config *c, void **out, moire_error *err) {
    return mo_papi_open(c, usual, (int)(sizeof usual / sizeof *usual), out, err);
}

static int papi_sample(void *self, double *value, moire_error *err) {
    struct papi *p = self;
    double sum[COUNTERS], grew[COUNTERS];
    int code = read_all(p, sum, err);
    if (code) return code;
    int64_t now = mo_now(p->env), spent = now - p->then;
    for (int c = 0; c < COUNTERS; c++)
        if ((grew[c] = sum[c] - p->last[c]) < 0)
            return mo_fail(err, MOIRE_EIO, "%s went back", p->names->event[c]);
    double rate = grew[ACCESSES] > 0 ? grew[MISSES] / grew[ACCESSES] : 0;
    value[0] = rate < 1 ? rate : 1;
    value[1] = grew[ACCESSES] * 1e3 / (double)(spent > 0 ? spent : 1);
    value[2] = grew[CYCLES] > 0 ? grew[INSTRUCTIONS] / grew[CYCLES] : 0;
    memcpy(p->last, sum, sizeof sum);
    p->then = now;
    return MOIRE_OK;
}

const struct mo_source mo_source_papi = {
    .name = "papi",
    .about = "L3 misses and accesses, instructions and cycles of the cores in use",
    .n = 3,
    .observable = {"l3_miss_rate", "l3_accesses", "ipc"},
    .unit = {"share", "1/us", "1/cycle"},
    .open = papi_open,
    .sample = papi_sample,
    .close = papi_close,
};
