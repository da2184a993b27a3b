/* SPDX-License-Identifier: Apache-2.0
 * topology.c - the machine through hwloc. */
#include "runtime/device/topology.h"

#include <hwloc.h>
#include <unistd.h>
#include "runtime/device/cgroup.h"
#include "runtime/base/cores.h"

static int load(hwloc_topology_t *out, const char *synthetic, moire_error *err) {
    if (hwloc_topology_init(out)) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the topology");
    if (synthetic && hwloc_topology_set_synthetic(*out, synthetic)) {
        hwloc_topology_destroy(*out);
        return mo_fail(err, MOIRE_EINVAL, "'%s' is not a synthetic topology", synthetic);
    }
    /* In a chroot without /sys hwloc counts the processors; its reader of /sys would only complain on stderr.
     */
    if (access("/sys/devices/system/cpu", F_OK) != 0)
        hwloc_topology_set_components(*out, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux");
    if (hwloc_topology_load(*out)) {
        hwloc_topology_destroy(*out);
        return mo_fail(err, MOIRE_EIO, "cannot read the topology of the machine");
    }
    return MOIRE_OK;
}

/* What the calling thread may run on: a host may narrow that for one runtime, and has other threads. */
static hwloc_bitmap_t allowed(hwloc_topology_t hw, bool synthetic) {
    hwloc_bitmap_t set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(hw));
    if (!set || synthetic) return set;
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    if (bound && !hwloc_get_cpubind(hw, bound, HWLOC_CPUBIND_THREAD) && !hwloc_bitmap_iszero(bound))
        hwloc_bitmap_and(set, set, bound);
    hwloc_bitmap_free(bound);
    return set;
}

static int package_of(hwloc_topology_t hw, hwloc_obj_t core) {
    hwloc_obj_t pack = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_PACKAGE, core);
    return pack ? (int)pack->logical_index : 0;
}

/* Objects to give a worker each: cores, or processing units where hwloc knows no cores. */
static hwloc_obj_type_t unit_type(hwloc_topology_t hw) {
    return hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

static void collect(struct mo_topology *t, hwloc_topology_t hw, hwloc_bitmap_t may, int cap) {
    hwloc_obj_type_t type = unit_type(hw);
    int n = hwloc_get_nbobjs_by_type(hw, type), last = -1;
    for (int i = 0; i < n && t->n_cores < cap; i++) {
        hwloc_obj_t unit = hwloc_get_obj_by_type(hw, type, (unsigned)i);
        int cpu = -1;
        for (int c = hwloc_bitmap_first(unit->cpuset); c >= 0 && cpu < 0;
             c = hwloc_bitmap_next(unit->cpuset, c))
            if (hwloc_bitmap_isset(may, (unsigned)c)) cpu = c;
        if (cpu < 0) continue;
        int pack = package_of(hw, unit);
        if (pack != last) t->n_packages++;
        last = pack;
        t->cpu[t->n_cores] = cpu;
        t->package[t->n_cores++] = pack;
    }
}

static int64_t cache_bytes(hwloc_topology_t hw, int cpu, hwloc_obj_type_t type) {
    hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(hw, (unsigned)cpu);
    hwloc_obj_t cache = pu ? hwloc_get_ancestor_obj_by_type(hw, type, pu) : NULL;
    return cache && cache->attr ? (int64_t)cache->attr->cache.size : 0;
}

/* A quota of 1.5 cores keeps two workers: the scheduler sees late blocks rather than an idle half core. */
static int quota_cores(struct mo_topology *t, const char *root) {
    bool bad = false;
    t->quota_milli = mo_cgroup_quota(t->env, root, &bad);
    if (bad) mo_log(t->env, MOIRE_LOG_WARN, "the cgroup's CPU quota makes no sense: taken as unlimited");
    int64_t cores = (t->quota_milli + 999) / 1000;
    return t->quota_milli && cores < MO_MAX_CORES ? (int)cores : MO_MAX_CORES;
}

int mo_topology_create(const struct mo_env *env, const char *synthetic, int threads, const char *root,
                       struct mo_topology **out, moire_error *err) {
    hwloc_topology_t hw;
    int rc = load(&hw, synthetic, err);
    if (rc) return rc;
    int cap = env->limits.cores < MO_MAX_CORES ? (int)env->limits.cores : MO_MAX_CORES;
    struct mo_topology *t = mo_alloc(env, sizeof *t);
    hwloc_bitmap_t may = allowed(hw, synthetic != NULL);
    if (t) {
        t->env = env;
        t->cpu = mo_alloc(env, (size_t)cap * sizeof *t->cpu);
        t->package = mo_alloc(env, (size_t)cap * sizeof *t->package);
    }
    if (!t || !may || !t->cpu || !t->package) {
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory for the topology");
    } else {
        int quota = quota_cores(t, root);
        if (quota < cap) cap = quota;
        if (threads > 0 && threads < cap) cap = threads;
        collect(t, hw, may, cap);
        if (t->n_cores) {
            t->l2_bytes = cache_bytes(hw, t->cpu[0], HWLOC_OBJ_L2CACHE);
            t->l3_bytes = cache_bytes(hw, t->cpu[0], HWLOC_OBJ_L3CACHE);
        } else {
            rc = mo_fail(err, MOIRE_EIO,
                         "no core is usable: the process's affinity and the machine share none");
        }
    }
    hwloc_bitmap_free(may);
    hwloc_topology_destroy(hw);
    if (rc)
        mo_topology_destroy(t);
    else
        *out = t;
    return rc;
}

void mo_topology_destroy(struct mo_topology *t) {
    if (!t) return;
    mo_free(t->env, t->cpu);
    mo_free(t->env, t->package);
    mo_free(t->env, t);
}
