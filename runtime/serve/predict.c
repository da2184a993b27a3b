/* SPDX-License-Identifier: Apache-2.0
 * predict.c - how long a tenant's query is predicted to take (moire_tenant_predict). */
#include "moire_predict.h"
#include "runtime/serve/runtime.h"

/* On the number of cores on which the profile is fastest. */
static int64_t least_time(const struct mo_profile *p, int n_cores) {
    int64_t least = mo_profile_time(p, 1, 0, p->n_layers);
    for (int cores = 2; cores <= n_cores; cores++) {
        const int64_t time = mo_profile_time(p, cores, 0, p->n_layers);
        if (time < least) least = time;
    }
    return least;
}

int moire_tenant_predict(moire_tenant *t, int cores, int64_t *ns, moire_error *err) {
    if (!t || !ns) return mo_fail(err, MOIRE_EINVAL, "moire_tenant_predict: an argument is NULL");
    *ns = 0;
    const moire_runtime *rt = t->runtime;
    const int n = mo_device_units(rt->cores), rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    if (cores < 0 || cores > n)
        return mo_fail(err, MOIRE_EINVAL, "moire_tenant_predict: %d cores, the runtime has %d", cores, n);
    const struct mo_profile *p = t->profile;
    if (!p) return MOIRE_OK;
    const int bound = t->serving.cores, most = bound && bound < n ? bound : n;
    struct mo_device_now now;
    mo_engine_now(rt->engine, t->place[t->n_places - 1].tenant, &now); /* cores are the last place */
    const int64_t time = cores ? mo_profile_time(p, cores, 0, p->n_layers) : least_time(p, most);
    *ns = (int64_t)((double)time * (now.residual > 0 ? now.residual : 1));
    return MOIRE_OK;
}
