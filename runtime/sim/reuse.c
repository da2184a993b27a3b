/* SPDX-License-Identifier: Apache-2.0
 * reuse.c - bytes between two runs of a layer; see reuse.h. */
#include "runtime/sim/reuse.h"

#include <math.h>

int mo_sim_reuse_init(struct mo_sim_reuse *r, const struct mo_env *env, double cache, int n_tenants) {
    *r = (struct mo_sim_reuse){.env = env, .cache = cache, .n_tenants = n_tenants};
    r->tenant = mo_alloc(env, (size_t)n_tenants * sizeof *r->tenant);
    return r->tenant ? MOIRE_OK : MOIRE_ENOMEM;
}

void mo_sim_reuse_free(struct mo_sim_reuse *r) {
    for (int i = 0; r->tenant && i < r->n_tenants; i++)
        mo_free(r->env, r->tenant[i].seen);
    mo_free(r->env, r->tenant);
}

int mo_sim_reuse_open(struct mo_sim_reuse *r, int tenant, const struct mo_profile *p) {
    struct mo_sim_reuse_tenant *t = &r->tenant[tenant];
    if (!(r->cache > 0) || p->cold[p->n_layers] <= 0) return MOIRE_OK;
    double *seen = mo_alloc(r->env, (size_t)p->n_layers * sizeof *seen);
    if (!seen) return MOIRE_ENOMEM;
    mo_free(r->env, t->seen);
    for (int i = 0; i < p->n_layers; i++)
        seen[i] = -1;
    *t = (struct mo_sim_reuse_tenant){.profile = p, .seen = seen};
    return MOIRE_OK;
}

double mo_sim_reuse_extra(const struct mo_sim_reuse *r, int tenant, int cores, int begin, int end) {
    const struct mo_sim_reuse_tenant *t = &r->tenant[tenant];
    double others = r->touched - t->own, extra = 0;
    for (int i = begin, to; t->seen && i < end; i = to) { /* runs of layers that ran together */
        for (to = i + 1; to < end && t->seen[to] == t->seen[i];)
            to++;
        double gone = t->seen[i] < 0 ? 1 : 1 - exp((t->seen[i] - others) / r->cache);
        extra += gone * mo_profile_extra(t->profile, cores, i, to);
    }
    return extra;
}

void mo_sim_reuse_ran(struct mo_sim_reuse *r, int tenant, int begin, int end) {
    struct mo_sim_reuse_tenant *t = &r->tenant[tenant];
    if (!t->seen) return;
    double bytes = (double)mo_profile_bytes(t->profile, begin, end), others = r->touched - t->own;
    for (int i = begin; i < end; i++)
        t->seen[i] = others;
    t->own += bytes;
    r->touched += bytes;
}
