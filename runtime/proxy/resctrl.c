/* SPDX-License-Identifier: Apache-2.0
 * resctrl.c - the source that reads the kernel's monitoring files (RDT, AMD QoS): a folder
 * mon_data/mon_L3_<id> for every shared cache, in it how much of the cache is occupied and how many bytes
 * went to memory so far, by all tasks of the default group.
 *
 * Only the caches of the watched cores count.  Files are opened for every sample: whatever unmounts or takes
 * them away is seen at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/file.h"
#include "runtime/proxy/source.h"

enum { MAX_CACHES = 64, PATH = 256 };
static const char root[] = "/sys/fs/resctrl/mon_data";

struct resctrl {
    const struct mo_env *env;
    int n, cache[MAX_CACHES]; /* ids */
    int64_t then;
    double moved; /* bytes, at `then` */
};

/* One number of one cache.  0, or -errno: -EINVAL when the file holds no number ("Unavailable"). */
static int read_number(const struct resctrl *r, int cache, const char *what, double *out) {
    char path[PATH], text[64], *end;
    snprintf(path, sizeof path, "%s/mon_L3_%02d/%s", root, cache, what);
    ssize_t n = mo_file_peek(r->env, path, text, sizeof text);
    if (n < 0) return (int)n;
    *out = (double)strtoull(text, &end, 10);
    return end == text || (*end && *end != '\n') || *text == '-' ? -EINVAL : 0;
}

/* Sums over the caches. */
static int read_all(const struct resctrl *r, double *occupied, double *moved, moire_error *err) {
    static const char *const files[] = {"llc_occupancy", "mbm_total_bytes"};
    double sum[2] = {0, 0}, v;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < 2; k++) {
            int rc = read_number(r, r->cache[i], files[k], &v);
            if (rc)
                return mo_fail(err, MOIRE_EIO, "%s/mon_L3_%02d/%s: %s", root, r->cache[i], files[k],
                               rc == -EINVAL ? "no number in it" : strerror(-rc));
            sum[k] += v;
        }
    *occupied = sum[0];
    *moved = sum[1];
    return MOIRE_OK;
}

/* The kernel's id of the L3 cache above a cpu; 0 where it does not say. */
static int cache_of(const struct mo_env *env, int cpu) {
    char path[PATH], text[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index3/id", cpu);
    if (mo_file_peek(env, path, text, sizeof text) < 1) return 0;
    long id = strtol(text, NULL, 10);
    return id > 0 && id < 10000 ? (int)id : 0;
}

static void add_cache(struct resctrl *r, int id) {
    for (int i = 0; i < r->n; i++)
        if (r->cache[i] == id) return;
    if (r->n < MAX_CACHES) r->cache[r->n++] = id;
}

static int resctrl_open(const struct mo_source_config *c, void **out, moire_error *err) {
    struct resctrl *r = mo_alloc(c->env, sizeof *r);
    double occupied;
    moire_error why;
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    r->env = c->env;
    for (int i = 0; i < c->n_cpus; i++)
        add_cache(r, cache_of(c->env, c->cpu[i]));
    r->then = mo_now(c->env);
    if (!read_all(r, &occupied, &r->moved, &why)) {
        *out = r;
        return MOIRE_OK;
    }
    mo_free(c->env, r);
    return mo_fail(err, MOIRE_EUNSUPPORTED,
                   "%.200s; it wants a processor that monitors its L3 cache, and resctrl mounted",
                   why.message);
}

static int resctrl_sample(void *self, double *value, moire_error *err) {
    struct resctrl *r = self;
    double occupied, moved;
    int code = read_all(r, &occupied, &moved, err);
    if (code) return code;
    if (moved < r->moved) return mo_fail(err, MOIRE_EIO, "%s: mbm_total_bytes went back", root);
    int64_t now = mo_now(r->env), spent = now - r->then;
    value[0] = occupied / (1 << 20);
    value[1] = (moved - r->moved) / (double)(spent > 0 ? spent : 1);
    r->then = now;
    r->moved = moved;
    return MOIRE_OK;
}

static void resctrl_close(void *self) {
    struct resctrl *r = self;
    mo_free(r->env, r);
}

const struct mo_source mo_source_resctrl = {
    .name = "resctrl",
    .about = "occupancy of the shared cache and memory traffic, from the kernel",
    .n = 2,
    .observable = {"llc_occupancy", "memory_traffic"},
    .unit = {"MiB", "GB/s"},
    .open = resctrl_open,
    .sample = resctrl_sample,
    .close = resctrl_close,
};
