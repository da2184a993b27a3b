/* SPDX-License-Identifier: Apache-2.0
 * cgroup.h - the CPU quota of control groups, v1 and v2, as a number of cores.
 * The text comes from the kernel but is never assumed well-formed: whatever does not parse means "unlimited"
 * and sets *bad, so that the caller can warn. */
#ifndef MO_CGROUP_H
#define MO_CGROUP_H
#include <stdbool.h>
#include "runtime/base/env.h"

/* Cores (1000 = one core) granted by "quota period" texts; 0 = unlimited. */
int64_t mo_cgroup_v2_quota(const char *cpu_max, bool *bad);
int64_t mo_cgroup_v1_quota(const char *quota_us, const char *period_us, bool *bad);
/* Path of the calling process in /proc/self/cgroup text: v2 line ("0::"), or the v1 line that lists
 * `controller` (NULL = v2).  Copies at most n - 1 bytes; false when there is none. */
bool mo_cgroup_path(const char *proc_text, const char *controller, char *out, size_t n);
/* Smallest quota on the way from the process's group to the root, in thousandths of a core; 0 = unlimited.
 * root is normally "" (the real file system); tests give a folder. */
int64_t mo_cgroup_quota(const struct mo_env *env, const char *root, bool *bad);
#endif
