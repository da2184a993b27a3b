/* SPDX-License-Identifier: Apache-2.0
 * table.c - the policies, one row each. */
#include <string.h>
#include "runtime/policy/policy.h"

extern const struct mo_policy mo_policy_moire, mo_policy_fcfs, mo_policy_fcfs_1;

const struct mo_policy *const *mo_policies(void) {
    static const struct mo_policy *const rows[] = {
        &mo_policy_moire,
        &mo_policy_fcfs,
        &mo_policy_fcfs_1,
        NULL,
    };
    return rows;
}

const struct mo_policy *mo_policy_find(const char *name) {
    for (const struct mo_policy *const *p = mo_policies(); *p; p++)
        if (!strcmp((*p)->name, name)) return *p;
    return NULL;
}
