/* SPDX-License-Identifier: Apache-2.0
 * topology.h - which cores the runtime may use: hwloc's cores within the calling thread's affinity and the
 * process's cpuset, fewer when a control group's quota grants fewer.  One processing unit a core; SMT
 * siblings are left to the OS. */
#ifndef MO_TOPOLOGY_H
#define MO_TOPOLOGY_H
#include "runtime/base/env.h"

struct mo_topology {
    const struct mo_env *env;
    int n_cores;  /* usable, in order of nearness: same package and cache first */
    int *cpu;     /* OS number of each */
    int *package; /* package index of each */
    int n_packages;
    int64_t l2_bytes, l3_bytes; /* of the first core; 0 = unknown */
    int64_t quota_milli;        /* cgroup quota in thousandths of a core, 0 = none */
};

/* synthetic: an hwloc synthetic description such as "pack:2 core:8 pu:1" for tests, NULL = this machine.
 * threads: at most so many cores, 0 = all.  root: where /proc and /sys are looked up ("" normally). */
int mo_topology_create(const struct mo_env *env, const char *synthetic, int threads, const char *root,
                       struct mo_topology **out, moire_error *err);
void mo_topology_destroy(struct mo_topology *topology); /* NULL is fine */
#endif
