/* SPDX-License-Identifier: Apache-2.0
 * policy_table.c - the policies, one row each. */
#include <string.h>
#include "runtime/sched/policy.h"

extern const struct mo_policy mo_policy_moire, mo_policy_fcfs, mo_policy_fcfs_1, mo_policy_lanes,
    mo_policy_lanes_reject, mo_policy_equal, mo_policy_edf_reject, mo_policy_llf, mo_policy_srpt,
    mo_policy_prema, mo_policy_layerwise, mo_policy_fixed6, mo_policy_fixed11, mo_policy_veltair_as,
    mo_policy_veltair_ac, mo_policy_veltair;

const struct mo_policy *const *mo_policies(void) {
    /* clang-format off */ /* a line a row */
    static const struct mo_policy *const rows[] = {
        &mo_policy_moire,
        &mo_policy_fcfs,
        &mo_policy_fcfs_1,
        &mo_policy_lanes,
        &mo_policy_lanes_reject,
        &mo_policy_equal,
        &mo_policy_edf_reject,
        &mo_policy_llf,
        &mo_policy_srpt,
        &mo_policy_prema,
        &mo_policy_layerwise,
        &mo_policy_fixed6,
        &mo_policy_fixed11,
        &mo_policy_veltair_as,
        &mo_policy_veltair_ac,
        &mo_policy_veltair,
        NULL,
    };
    /* clang-format on */
    return rows;
}

const struct mo_policy *mo_policy_find(const char *name) {
    const struct mo_policy *const *const tables[] = {mo_policies(), mo_policy_ablations(),
                                                     mo_policy_servers()};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct mo_policy *const *p = tables[i]; *p; p++)
            if (!strcmp((*p)->name, name)) return *p;
    return NULL;
}
