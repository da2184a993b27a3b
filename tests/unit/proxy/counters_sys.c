/* SPDX-License-Identifier: Apache-2.0
 * counters_sys.c - a machine with counters; see counters_sys.h. */
#define _GNU_SOURCE
#include "tests/unit/proxy/counters_sys.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- files below /sys ----------------------------------------------------------------------------------- */
static int cs_open(void *self, const char *path, int flags, int mode) {
    struct counters_sys *c = self;
    char moved[400];
    if (strncmp(path, "/sys/", 5) != 0) return c->fault.table.open(&c->fault, path, flags, mode);
    snprintf(moved, sizeof moved, "%s%s", c->folder, path);
    return c->fault.table.open(&c->fault, moved, flags, mode);
}

static void put(const struct counters_sys *c, const char *path, const char *text) {
    char whole[400];
    snprintf(whole, sizeof whole, "%s%s", c->folder, path);
    for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(whole, 0755);
        *slash = '/';
    }
    if (!text) {
        unlink(whole);
        return;
    }
    char part[420]; /* readers never see half a number */
    snprintf(part, sizeof part, "%s.part", whole);
    FILE *f = fopen(part, "w");
    if (!f) abort();
    fprintf(f, "%s\n", text);
    fclose(f);
    if (rename(part, whole)) abort();
}

void counters_resctrl(struct counters_sys *c, int cache, const char *occupancy, const char *bytes) {
    char path[200];
    snprintf(path, sizeof path, "/sys/fs/resctrl/mon_data/mon_L3_%02d/llc_occupancy", cache);
    put(c, path, occupancy);
    snprintf(path, sizeof path, "/sys/fs/resctrl/mon_data/mon_L3_%02d/mbm_total_bytes", cache);
    put(c, path, bytes);
}

void counters_cache_of(struct counters_sys *c, int cpu, int cache) {
    char path[200], text[16];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index3/id", cpu);
    snprintf(text, sizeof text, "%d", cache);
    put(c, path, text);
}

/* --- a libpapi ------------------------------------------------------------------------------------------ */
/* Its calls have no self: the machine that was initialised last answers. */
static struct {
    struct counters_sys *machine;
    int initialised, sets, row;
} papi;

static int fake_library_init(int version) {
    papi.initialised = 1;
    papi.row = 0;
    return version;
}
static int fake_is_initialized(void) {
    return papi.initialised;
}
static int fake_create_eventset(int *set) {
    *set = papi.sets++;
    return 0;
}
static int fake_component(const char *name) {
    (void)name;
    return -16; /* PAPI_ENOCMP: it has the first only */
}
static int fake_assign(int set, int component) {
    (void)set, (void)component;
    return 0;
}
static int fake_set_opt(int option, void *value) {
    (void)value;
    return option == 27 ? papi.machine->papi_attach : -1;
}
static int fake_add(int set, const char *name) {
    (void)set;
    return papi.machine->papi_lacks && !strcmp(name, papi.machine->papi_lacks) ? -7 : 0;
}
static int fake_start(int set) {
    (void)set;
    return 0;
}
static int fake_read(int set, long long *values) {
    (void)set;
    if (papi.row >= papi.machine->papi_rows) return -4;
    memcpy(values, papi.machine->papi[papi.row++], COUNTERS_EVENTS * sizeof *values);
    return 0;
}
static int fake_stop(int set, long long *values) {
    (void)set, (void)values;
    return 0;
}
static int fake_cleanup(int set) {
    (void)set;
    return 0;
}
static int fake_destroy(int *set) {
    papi.sets--;
    *set = -1;
    return 0;
}
static char *fake_strerror(int code) {
    static char text[32];
    snprintf(text, sizeof text, "PAPI error %d", code);
    return text;
}
static void fake_shutdown(void) {
    papi.initialised = 0;
}

int counters_papi_sets(void) {
    return papi.sets;
}

static void *cs_dl_open(void *self, const char *path, char *reason, size_t n) {
    struct counters_sys *c = self;
    if (strncmp(path, "libpapi", 7) != 0) return c->fault.table.dl_open(&c->fault, path, reason, n);
    snprintf(reason, n, "%s: not found", path);
    if (!c->papi || strcmp(path, "libpapi.so.7.0") != 0) return NULL;
    papi.machine = c;
    c->fault.opened++;
    return &papi;
}

static void *cs_dl_sym(void *self, void *object, const char *symbol) {
    struct counters_sys *c = self;
    const struct {
        const char *name;
        void (*call)(void);
    } rows[] = {
        {"PAPI_library_init", (void (*)(void))fake_library_init},
        {"PAPI_is_initialized", (void (*)(void))fake_is_initialized},
        {"PAPI_create_eventset", (void (*)(void))fake_create_eventset},
        {"PAPI_get_component_index", (void (*)(void))fake_component},
        {"PAPI_assign_eventset_component", (void (*)(void))fake_assign},
        {"PAPI_set_opt", (void (*)(void))fake_set_opt},
        {"PAPI_add_named_event", (void (*)(void))fake_add},
        {"PAPI_start", (void (*)(void))fake_start},
        {"PAPI_read", (void (*)(void))fake_read},
        {"PAPI_stop", (void (*)(void))fake_stop},
        {"PAPI_cleanup_eventset", (void (*)(void))fake_cleanup},
        {"PAPI_destroy_eventset", (void (*)(void))fake_destroy},
        {"PAPI_strerror", (void (*)(void))fake_strerror},
        {"PAPI_shutdown", (void (*)(void))fake_shutdown},
    };
    if (object != &papi) return c->fault.table.dl_sym(&c->fault, object, symbol);
    void *out = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(symbol, rows[i].name)) memcpy(&out, &rows[i].call, sizeof out);
    return out;
}

static void cs_dl_close(void *self, void *object) {
    struct counters_sys *c = self;
    if (object == &papi)
        c->fault.closed++;
    else
        c->fault.table.dl_close(&c->fault, object);
}

/* --- the rest goes to the fault table ------------------------------------------------------------------- */
static int64_t cs_now(void *self) {
    struct counters_sys *c = self;
    return c->now ? (int64_t)c->now : c->fault.real->now(c->fault.real->self);
}
static void *cs_alloc(void *self, size_t align, size_t bytes) {
    struct counters_sys *c = self;
    return c->fault.table.alloc(&c->fault, align, bytes);
}
static void cs_free(void *self, void *p) {
    struct counters_sys *c = self;
    c->fault.table.free(&c->fault, p);
}
static int cs_close(void *self, int fd) {
    struct counters_sys *c = self;
    return c->fault.table.close(&c->fault, fd);
}

void counters_sys_init(struct counters_sys *c) {
    *c = (struct counters_sys){.folder = "/tmp/moire-counters-XXXXXX"};
    fault_sys_init(&c->fault);
    if (!mkdtemp(c->folder)) abort();
    c->table = *c->fault.real; /* what is not replaced ignores self */
    c->table.self = c;
    c->table.now = cs_now;
    c->table.alloc = cs_alloc;
    c->table.free = cs_free;
    c->table.open = cs_open;
    c->table.close = cs_close;
    c->table.dl_open = cs_dl_open;
    c->table.dl_sym = cs_dl_sym;
    c->table.dl_close = cs_dl_close;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

void counters_sys_close(struct counters_sys *c) {
    nftw(c->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
