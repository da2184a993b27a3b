/* SPDX-License-Identifier: Apache-2.0
 * gpulet_orion.c - when a best-effort batch may begin beside latency-critical ones: Orion's rule (EuroSys
 * 2024) for batches.
 *
 * It begins when no critical batch runs on the other lets of the GPU, or when each of them wants something
 * else: one is bound by compute and the other by memory, or one of them by neither.  Its SMs are its let's,
 * so Orion's bound on them holds by itself.  And it takes no longer than a part of the tightest target on
 * the GPU, as what begins beside it meanwhile cannot send it away. */
#include "runtime/policy/gpulet.h"

enum bound { BY_NEITHER, BY_COMPUTE, BY_MEMORY };

static const double BUSY = 0.6;  /* of SMs or of memory's bandwidth: Orion's threshold */
static const double PART = 0.25; /* of a target */

static enum bound bound_of(const struct mo_view *view, int tenant, int gpu, int units, int batch) {
    const struct mo_share_profile *p = mo_view_share(view, tenant, gpu);
    if (!p) return BY_NEITHER;
    int share = mo_share_of_units(units, mo_gpus_kind(view->gpus, gpu)->units);
    struct mo_share_use use = mo_share_use_at(p,
                                              batch < 1              ? 1
                                              : batch > p->max_batch ? p->max_batch
                                                                     : batch,
                                              share);
    if (use.sm <= BUSY && use.dram <= BUSY) return BY_NEITHER;
    return use.sm > use.dram ? BY_COMPUTE : BY_MEMORY;
}

bool mo_gpulet_orion_allows(const struct mo_view *view, const struct mo_planned_let *let, int tenant,
                            int batch) {
    const struct mo_gpus *g = view->gpus;
    const enum bound mine = bound_of(view, tenant, let->gpu, let->units, batch);
    const int first = g->first[let->gpu], end = first + mo_gpus_kind(g, let->gpu)->units;
    for (int lead = first; lead < end; lead++) {
        const struct mo_view_run *run = &view->runs[lead];
        if (run->query < 0) continue;
        int other = view->queries[run->query].tenant;
        if (view->tenants[other].best_effort) continue;
        enum bound theirs = bound_of(view, other, let->gpu, run->n_cores, run->batch);
        if (mine != BY_NEITHER && mine == theirs) return false;
    }
    return true;
}

int64_t mo_gpulet_budget(const struct mo_view *view, int gpu) {
    int64_t tightest = MO_NEVER;
    for (int i = 0; i < view->lets->n_lets; i++)
        for (int e = 0; view->lets->lets[i].gpu == gpu && e < view->lets->lets[i].n_entries; e++) {
            int tenant = view->lets->lets[i].entries[e].tenant;
            if (tenant >= view->n_tenants) continue;
            const struct mo_view_tenant *t = &view->tenants[tenant];
            if (!t->best_effort && t->qos_ns && t->qos_ns < tightest) tightest = t->qos_ns;
        }
    return tightest == MO_NEVER ? MO_NEVER : (int64_t)((double)tightest * PART);
}
