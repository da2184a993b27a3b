/* SPDX-License-Identifier: Apache-2.0
 * whole_gpus.c - see whole_gpus.h. */
#include "runtime/policy/whole_gpus.h"

#include <string.h>

/* Of what the largest batches hold one after the other: arrivals are not even (about what WattWiser's Table I
 * leaves of its GPU). */
static const double ROOM = 0.9;

bool mo_whole_gpus_add(struct mo_whole_gpus *on, const struct mo_view *view, int gpu, int tenant) {
    if (on->n[gpu] == MO_LET_TENANTS || view->gpu_lost[gpu] || !mo_view_share(view, tenant, gpu))
        return false;
    on->tenants[gpu][on->n[gpu]++] = (short)tenant;
    return true;
}

/* A query waits for the batch before its own, so a batch may take half of the target. */
static struct mo_let_entry entry_of(const struct mo_view *view, int gpu, int units, int tenant) {
    const struct mo_share_profile *p = mo_view_share(view, tenant, gpu);
    const int share = mo_share_of_units(units, mo_gpus_kind(view->gpus, gpu)->units);
    const int64_t qos = view->tenants[tenant].qos_ns;
    int batch = mo_share_batch(p, share, 1, qos ? qos / 2 : MO_SHARE_NEVER);
    if (batch < 1) batch = 1;
    return (struct mo_let_entry){.tenant = tenant,
                                 .batch = batch,
                                 .latency_ns = mo_share_latency(p, batch, share) + mo_share_copy(p, batch)};
}

/* Into how many equal lets a GPU is cut for so many tenants: one each, or all on one. */
static int cuts(const struct mo_plan_kind *kind, int tenants) {
    if (tenants > kind->max_lets || kind->units % tenants) return 1;
    for (int i = 0; i < kind->n_sizes; i++)
        if (kind->sizes[i] == kind->units / tenants) return tenants;
    return 1;
}

void mo_whole_gpus_plan(const struct mo_whole_gpus *on, const struct mo_view *view, bool split,
                        struct mo_lets_plan *out) {
    memset(out, 0, sizeof *out);
    out->n_tenants = view->n_tenants;
    out->complete = true;
    for (int g = 0; g < view->gpus->n_gpus; g++) {
        const struct mo_plan_kind *kind = mo_gpus_kind(view->gpus, g);
        const int n = on->n[g] && split ? cuts(kind, on->n[g]) : 1, units = kind->units / n;
        for (int i = 0; on->n[g] && i < n; i++) {
            struct mo_planned_let *let = &out->lets[out->n_lets++];
            *let = (struct mo_planned_let){.gpu = g, .first = i * units, .units = units};
            for (int e = 0; e < on->n[g]; e++)
                if (n == 1 || e == i)
                    let->entries[let->n_entries++] = entry_of(view, g, units, on->tenants[g][e]);
        }
    }
}

bool mo_whole_gpus_same(const struct mo_whole_gpus *a, const struct mo_whole_gpus *b, int n_gpus) {
    for (int g = 0; g < n_gpus; g++) {
        if (a->n[g] != b->n[g]) return false;
        for (int e = 0; e < a->n[g]; e++)
            if (a->tenants[g][e] != b->tenants[g][e]) return false;
    }
    return true;
}

struct mo_cores mo_whole_gpu(const struct mo_gpus *gpus, int gpu) {
    const struct mo_planned_let all = {.gpu = gpu, .units = mo_gpus_kind(gpus, gpu)->units};
    return mo_gpus_let(gpus, &all);
}

double mo_whole_gpu_rate(const struct mo_view *view, int gpu, int tenant) {
    const struct mo_share_profile *p = mo_view_share(view, tenant, gpu);
    const int64_t qos = view->tenants[tenant].qos_ns;
    /* a query waits for the batch before its own */
    return p ? ROOM * mo_share_rate(p, MO_SHARE_WHOLE, 1, qos ? qos / 2 : MO_SHARE_NEVER) : 0;
}

void mo_whole_gpus_park(const struct mo_view *view, const bool *parked, struct mo_decisions *out) {
    struct mo_cores units = {0};
    if (!view->power) return;
    for (int g = 0; g < view->gpus->n_gpus; g++) {
        const struct mo_cores all = mo_whole_gpu(view->gpus, g);
        if (parked[g]) mo_cores_join(&units, &all);
    }
    if (mo_cores_subset(&units, &view->parked) && mo_cores_subset(&view->parked, &units)) return;
    mo_decide_park(out, units);
}
