/* SPDX-License-Identifier: Apache-2.0
 * tenant_slow.c - what a tenant says of its layers that run by the slow reference: once, when it is loaded.
 * Where GPUs run it, the log is silent: cores are only what takes over. */
#include "runtime/serve/runtime.h"

int mo_tenant_find_slow(moire_tenant *t, moire_error *err) {
    const struct mo_env *env = &t->runtime->env;
    int64_t *ns = mo_alloc(env, (size_t)t->plan->n_steps * sizeof *ns);
    if (!ns) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the profile of '%s'", t->name);
    for (int k = 0; k < t->plan->n_steps; k++)
        ns[k] = mo_profile_time(t->profile, 1, k, k + 1);
    t->slow = mo_slow_find(t->plan, ns);
    mo_free(env, ns);
    return MOIRE_OK;
}

void mo_tenant_log_slow(const moire_tenant *t) {
    char line[MO_SLOW_TEXT];
    mo_slow_text(&t->slow, line, sizeof line);
    if (line[0] && !t->gpu) mo_log(&t->runtime->env, MOIRE_LOG_WARN, "'%s': %s", t->name, line);
}
