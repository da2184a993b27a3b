/* SPDX-License-Identifier: Apache-2.0
 * gslice.c - guided self-tuning: GSLICE (SoCC 2020) as gpu-let's authors compare with it, given the
 * profiles instead of searching while it serves.
 *
 * Each tenant, by falling rate, gets the smallest let that serves its whole rate alone, or a whole GPU and
 * another one for the rest; GPUs are filled best fit.  Tenants never take turns on a let, and interference is
 * not looked at. */
#include "runtime/planner/placement.h"
#include "runtime/planner/planners.h"

/* The smallest size that serves the rate by itself, else the one that serves most. */
static int size_for(struct mo_space *space, int kind, int tenant, double rate) {
    const struct mo_plan_kind *k = &space->view->kinds[kind];
    int best = 0;
    for (int s = 0; s < k->n_sizes; s++) {
        double serves = mo_space_cell(space, kind, s, tenant)->rate;
        if (serves >= rate) return s;
        if (serves > mo_space_cell(space, kind, best, tenant)->rate) best = s;
    }
    return best;
}

static bool place(struct mo_placement *placement, int tenant) {
    int gpu = -1, size = 0, spare = MO_PLAN_UNITS + 1;
    double rate = 0;
    for (int g = 0; g < placement->n_gpus; g++) {
        const struct mo_placement_gpu *at = &placement->gpus[g];
        int s = size_for(placement->space, at->kind, tenant, placement->left[tenant]);
        int left = at->free_units - placement->space->view->kinds[at->kind].sizes[s];
        double room = left < 0 ? 0 : mo_placement_room(placement, g, s, tenant);
        if (!(room > 0) || left >= spare) continue;
        gpu = g;
        size = s;
        spare = left;
        rate = room;
    }
    if (gpu < 0) return false;
    if (rate > placement->left[tenant]) rate = placement->left[tenant];
    return mo_placement_add(placement, gpu, size, tenant, rate);
}

static int plan(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    struct mo_space space;
    struct mo_placement placement;
    int code = mo_space_open(&space, view, scratch, false, err);
    if (!code) code = mo_placement_open(&placement, &space, scratch, err);
    if (code) return code;
    for (int t = 0; t < space.n; t++)
        while (placement.left[t] > 1e-9 * space.rate[t] && place(&placement, t)) {
        }
    mo_placement_write(&placement, out);
    return MOIRE_OK;
}

const struct mo_planner mo_planner_gslice = {
    .name = "gslice", .description = "guided self-tuning: one let a tenant, as in GSLICE", .plan = plan};
