/* SPDX-License-Identifier: Apache-2.0
 * policy_table.c - the policies, one row each. */
#include <stdio.h>
#include <string.h>
#include "runtime/sched/policy.h"

extern const struct mo_policy mo_policy_moire, mo_policy_fcfs, mo_policy_fcfs_1, mo_policy_lanes,
    mo_policy_lanes_reject, mo_policy_equal, mo_policy_edf_reject, mo_policy_llf, mo_policy_srpt,
    mo_policy_prema, mo_policy_planaria, mo_policy_model_wise, mo_policy_layerwise, mo_policy_fixed6,
    mo_policy_fixed11, mo_policy_veltair_as, mo_policy_veltair_ac, mo_policy_veltair, mo_policy_veltair_time;

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
        &mo_policy_planaria,
        &mo_policy_model_wise,
        &mo_policy_layerwise,
        &mo_policy_fixed6,
        &mo_policy_fixed11,
        &mo_policy_veltair_as,
        &mo_policy_veltair_ac,
        &mo_policy_veltair,
        &mo_policy_veltair_time,
        NULL,
    };
    /* clang-format on */
    return rows;
}

typedef const struct mo_policy *const *(*table_fn)(void);
static const table_fn tables[] = {mo_policies,          mo_policy_ablations, mo_policy_servers,
                                  mo_policy_wattwisers, mo_policy_classes,   mo_policy_packed};
enum { TABLES = sizeof tables / sizeof *tables };

const struct mo_policy *mo_policy_find(const char *name) {
    for (int i = 0; i < TABLES; i++)
        for (const struct mo_policy *const *p = tables[i](); *p; p++)
            if (!strcmp((*p)->name, name)) return *p;
    return NULL;
}

const char *mo_policy_names(bool gpus, bool research, char *out, size_t n) {
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < TABLES; i++)
        for (const struct mo_policy *const *p = tables[i](); *p && at < n; p++)
            if ((*p)->gpus == gpus && (*p)->research == research)
                at += (size_t)snprintf(out + at, n - at, "%s%s", at ? ", " : "", (*p)->name);
    return out;
}

int mo_policy_choose(const char *name, bool gpus, bool research, const struct mo_policy **out,
                     moire_error *err) {
    const struct mo_policy *p = mo_policy_find(name);
    char known[400];
    *out = p;
    if (!p || p->gpus != gpus)
        return mo_fail(err, MOIRE_EINVAL, "no policy '%s' for %s; there are: %s", name,
                       gpus ? "GPUs" : "cores", mo_policy_names(gpus, false, known, sizeof known));
    if (p->research && !research)
        return mo_fail(err, MOIRE_EINVAL,
                       "policy '%s' is for research, not for service; to serve with there are: %s", name,
                       mo_policy_names(gpus, false, known, sizeof known));
    return MOIRE_OK;
}
