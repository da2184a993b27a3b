/* SPDX-License-Identifier: Apache-2.0
 * tenant_layers.c - what policies are told of a tenant's layers besides their times. */
#include "runtime/serve/runtime.h"

int mo_tenant_describe_layers(moire_tenant *t, moire_error *err) {
    const struct mo_env *env = &t->runtime->env;
    int n = t->plan->n_steps;
    int64_t *bytes = mo_alloc(env, (size_t)n * sizeof *bytes);
    int64_t *ops = mo_alloc(env, (size_t)n * sizeof *ops);
    bool *some = mo_alloc(env, (size_t)n * sizeof *some);
    int rc = bytes && ops && some ? MOIRE_OK : MOIRE_ENOMEM;
    for (int i = 0; !rc && i < n; i++) {
        bytes[i] = t->plan->steps[i].bytes;
        ops[i] = t->plan->steps[i].flops;
        some[i] = t->plan->steps[i].n_versions > 1;
    }
    if (!rc) mo_profile_traffic(t->profile, bytes);
    if (!rc) mo_profile_operations(t->profile, ops);
    if (!rc) rc = mo_profile_choices(t->profile, some);
    mo_free(env, bytes);
    mo_free(env, ops);
    mo_free(env, some);
    return rc ? mo_fail(err, rc, "out of memory for the profile of '%s'", t->name) : MOIRE_OK;
}
