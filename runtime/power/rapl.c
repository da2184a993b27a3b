/* SPDX-License-Identifier: Apache-2.0
 * rapl.c - the meter `rapl`; see rapl.h.
 *
 * Files are opened for every look: a package that is taken away is seen at once.  A zone that cannot be read
 * when the meter is opened is left out; when none can, the reason of the first one is the error. */
#include "runtime/power/rapl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/file.h"

enum { PATH = 400, MOST_W = 1000 /* that a zone draws, for how long a counter takes to begin anew */ };

struct zone {
    int package, sub; /* of its folder; sub -1: the package itself */
    char domain[64];
    bool part;
    uint64_t last, range, microjoules;
    bool gone, went_back;
};

struct rapl {
    const struct mo_env *env;
    char root[128];
    int n;
    struct zone zone[MO_ENERGY_ROWS];
    int64_t then;
    bool late; /* it was said that looks are too far apart */
};

uint64_t mo_rapl_step(uint64_t before, uint64_t now, uint64_t range, bool *known) {
    *known = now >= before || (before <= range && now <= range);
    if (!*known) return 0;
    return now >= before ? now - before : range - before + now;
}

int mo_power_number(const struct mo_env *env, const char *path, uint64_t *out) {
    char text[32], *end;
    const ssize_t n = mo_file_peek(env, path, text, sizeof text);
    if (n < 0) return (int)n;
    if (text[0] < '0' || text[0] > '9') return -EINVAL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno || (*end && *end != '\n') ? -EINVAL : 0;
}

/* --- zones ---------------------------------------------------------------------------------------------- */
static void file_of(const struct rapl *r, const struct zone *z, const char *file, char *out, size_t n) {
    char sub[16] = "";
    if (z->sub >= 0) snprintf(sub, sizeof sub, ":%d", z->sub);
    snprintf(out, n, "%s/sys/class/powercap/intel-rapl:%d%s/%s", r->root, z->package, sub, file);
}

/* A number of at most four digits at *s, and past it; false when there is none. */
static bool digits(const char **s, int *out) {
    const char *from = *s;
    for (*out = 0; **s >= '0' && **s <= '9' && *s - from < 4; (*s)++)
        *out = *out * 10 + (**s - '0');
    return *s > from;
}

/* A folder's name; others (constraints, intel-rapl-mmio, which repeats the packages) are passed over. */
static int add_zone(void *ctx, const char *name) {
    static const char prefix[] = "intel-rapl:";
    struct rapl *r = ctx;
    struct zone z = {.sub = -1};
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || r->n == MO_ENERGY_ROWS) return 0;
    name += sizeof prefix - 1;
    if (!digits(&name, &z.package)) return 0;
    if (*name == ':') {
        name++;
        if (!digits(&name, &z.sub)) return 0;
    }
    if (!*name) r->zone[r->n++] = z;
    return 0;
}

static int by_folder(const void *a, const void *b) {
    const struct zone *x = a, *y = b;
    return x->package != y->package ? x->package - y->package : x->sub - y->sub;
}

/* The name that the kernel gives a zone, or else its folder's. */
static void read_name(const struct rapl *r, const struct zone *z, char *out, size_t n) {
    char path[PATH], text[40];
    file_of(r, z, "name", path, sizeof path);
    const bool told = mo_file_peek(r->env, path, text, sizeof text) > 0;
    text[told ? strcspn(text, "\n") : 0] = 0;
    if (*text)
        snprintf(out, n, "%.27s", text);
    else
        snprintf(out, n, z->sub < 0 ? "zone-%d" : "sub-%d", z->sub < 0 ? z->package : z->sub);
}

/* What a zone counts: psys has the packages in it, and these their cores; dram is beside its package. */
static void describe(const struct rapl *r, struct zone *z) {
    char name[32], above[28];
    const struct zone package = {.package = z->package, .sub = -1};
    read_name(r, z, name, sizeof name);
    if (z->sub < 0) {
        snprintf(z->domain, sizeof z->domain, "%s", name);
        z->part = strncmp(name, "package", 7) != 0;
        return;
    }
    read_name(r, &package, above, sizeof above);
    snprintf(z->domain, sizeof z->domain, "%s/%s", above, name);
    z->part = strcmp(name, "dram") != 0;
}

/* Makes the zone ready to count; false: `why` says what keeps it from that. */
static bool begin(const struct rapl *r, struct zone *z, moire_error *why) {
    char path[PATH];
    file_of(r, z, "energy_uj", path, sizeof path);
    int rc = mo_power_number(r->env, path, &z->last);
    if (rc == -EACCES || rc == -EPERM)
        mo_fail(why, MOIRE_EUNSUPPORTED, "%s: %s; run as root, or let this user read it", path,
                strerror(-rc));
    else if (rc)
        mo_fail(why, MOIRE_EUNSUPPORTED, "%s: %s", path, rc == -EINVAL ? "no number in it" : strerror(-rc));
    if (rc) return false;
    describe(r, z);
    file_of(r, z, "max_energy_range_uj", path, sizeof path);
    if (mo_power_number(r->env, path, &z->range)) z->range = 0;
    return true;
}

static int open_zones(struct rapl *r, moire_error *err) {
    char folder[PATH];
    moire_error why, first = {0};
    int n = 0;
    snprintf(folder, sizeof folder, "%s/sys/class/powercap", r->root);
    const int rc = r->env->sys->list(r->env->sys->self, folder, add_zone, r);
    if (rc < 0) return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: %s", folder, strerror(-rc));
    if (!r->n)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s has no intel-rapl:0 (virtual machines have none)",
                       folder);
    qsort(r->zone, (size_t)r->n, sizeof *r->zone, by_folder);
    for (int i = 0; i < r->n; i++) {
        struct zone z = r->zone[i];
        if (begin(r, &z, &why))
            r->zone[n++] = z;
        else if (!first.code)
            first = why;
    }
    if (!n) return mo_fail(err, first.code, "%s", first.message);
    if (n < r->n)
        mo_log(r->env, MOIRE_LOG_INFO, "energy: %d of %d zones are left out: %s", r->n - n, r->n,
               first.message);
    r->n = n;
    return MOIRE_OK;
}

static int rapl_open(const struct mo_energy_config *c, void **out, moire_error *err) {
    struct rapl *r = mo_alloc(c->env, sizeof *r);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    r->env = c->env;
    r->then = mo_now(c->env);
    snprintf(r->root, sizeof r->root, "%s", c->root);
    const int code = open_zones(r, err);
    if (code)
        mo_free(c->env, r);
    else
        *out = r;
    return code;
}

/* --- looks ---------------------------------------------------------------------------------------------- */
static void count(const struct rapl *r, struct zone *z) {
    char path[PATH];
    uint64_t now;
    bool known;
    file_of(r, z, "energy_uj", path, sizeof path);
    const int rc = mo_power_number(r->env, path, &now);
    if (rc && !z->gone)
        mo_log(r->env, MOIRE_LOG_WARN, "energy: %s: %s; %s counts no more", path,
               rc == -EINVAL ? "no number in it" : strerror(-rc), z->domain);
    z->gone = rc != 0;
    if (rc) return;
    z->microjoules += mo_rapl_step(z->last, now, z->range, &known);
    z->last = now;
    if (known || z->went_back) return;
    z->went_back = true;
    mo_log(r->env, MOIRE_LOG_WARN,
           "energy: %s went back, which max_energy_range_uj (%" PRIu64
           ") does not explain: %s lacks such steps",
           path, z->range, z->domain);
}

/* A counter that may have begun anew twice since the last look would miss a whole range. */
static void tell_late(struct rapl *r, const struct zone *z, int64_t spent) {
    const double range_s = (double)z->range * 1e-6 / MOST_W;
    if (r->late || !z->range || (double)spent * 1e-9 < range_s) return;
    r->late = true;
    mo_log(r->env, MOIRE_LOG_WARN,
           "energy: %.0f s since the last look; %s begins anew every %.0f J and may lack some of these",
           (double)spent * 1e-9, z->domain, (double)z->range * 1e-6);
}

static int rapl_read(void *self, moire_energy_row *rows) {
    struct rapl *r = self;
    const int64_t now = mo_now(r->env);
    for (int i = 0; i < r->n; i++) {
        struct zone *z = &r->zone[i];
        tell_late(r, z, now - r->then);
        count(r, z);
        rows[i] = (moire_energy_row){.device = "cpu",
                                     .source = "rapl",
                                     .measured = 1,
                                     .part = z->part,
                                     .gone = z->gone,
                                     .joules = (double)z->microjoules * 1e-6};
        snprintf(rows[i].domain, sizeof rows[i].domain, "%s", z->domain);
    }
    r->then = now;
    return r->n;
}

static void rapl_close(void *self) {
    struct rapl *r = self;
    mo_free(r->env, r);
}

const struct mo_energy_meter mo_energy_rapl = {
    .name = "rapl",
    .about = "the packages' counters in /sys/class/powercap",
    .open = rapl_open,
    .read = rapl_read,
    .close = rapl_close,
};
