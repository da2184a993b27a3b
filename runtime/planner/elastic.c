/* SPDX-License-Identifier: Apache-2.0
 * elastic.c - elastic partitioning, Algorithm 1 of gpu-let (ATC 2022), without (`gpulet`) and with
 * (`gpulet-int`) its interference model.
 *
 * Tenants by falling rate, as the paper prints; where these do not all find a place, by rising rate x
 * target, as the authors' program has it, and the order that places more counts. While a tenant has a rate
 * left: p_ideal is the smaller of the knee of its rate-over-size curve and the smallest size that serves
 * the rest; the smallest remaining let that is not smaller is taken (a whole GPU is split first); if the
 * tenant can instead take turns with those of a let that is in use, it does, and the split is reverted.
 * With interference a let is passed over when its tenant would miss the target.  The paper does not say
 * what becomes of the one that is there already: here it gives up the rate that it can no longer serve, and
 * its tenant comes again for that.  Where no let is left the merge is still tried.  A GPU is split in two
 * at most, as in the paper. */
#include <string.h>
#include "runtime/planner/priced_fill.h"
#include "runtime/planner/planners.h"

static int knee(const struct mo_space *space, int kind, int tenant) {
    const struct mo_plan_kind *k = &space->view->kinds[kind];
    const struct mo_share_profile *p = space->view->tenants[space->index[tenant]].profile[kind];
    int share[MO_PLAN_SIZES];
    for (int s = 0; s < k->n_sizes; s++)
        share[s] = mo_share_of_units(k->sizes[s], k->units);
    return p ? mo_share_knee(p, share, k->n_sizes, mo_space_target(space, tenant) / 2) : 0;
}

static int required(const struct mo_space *space, int kind, int tenant, double rate) {
    int s = 0, n = space->view->kinds[kind].n_sizes;
    while (s < n - 1 && mo_space_cell(space, kind, s, tenant)->rate < rate)
        s++;
    return s;
}

/* A remaining let: a free GPU, split at the size that suits best, or what a split left over. */
struct fit {
    int gpu, size, let_units;
    double rate;
};

static struct fit look(struct mo_placement *placement, int g, int tenant, int ideal) {
    const struct mo_space *space = placement->space;
    const struct mo_placement_gpu *gpu = &placement->gpus[g];
    const struct mo_plan_kind *kind = &space->view->kinds[gpu->kind];
    struct fit fit = {.gpu = -1, .let_units = gpu->free_units};
    if (gpu->n >= 2 || gpu->free_units < kind->sizes[ideal]) return fit;
    int size = ideal;
    if (gpu->n == 1) { /* what is left over is taken as it is */
        size = mo_kind_size(kind, gpu->free_units);
        if (kind->sizes[size] > gpu->free_units) size--;
    }
    for (; size >= 0 && size < kind->n_sizes; size++) {
        fit.rate = tenant < space->n_critical ? mo_placement_alone(placement, g, size, tenant)
                                              : mo_placement_room(placement, g, size, tenant);
        if (fit.rate > 0 || gpu->n == 1) break;
    }
    fit.size = size;
    fit.gpu = fit.rate > 0 ? g : -1;
    return fit;
}

static struct fit best_fit(struct mo_placement *placement, int tenant) {
    struct fit best = {.gpu = -1, .let_units = MO_PLAN_UNITS + 1};
    int ideal[MO_PLAN_KINDS];
    bool free_seen[MO_PLAN_KINDS] = {false}; /* free GPUs of a kind are alike */
    for (int k = 0; k < placement->space->view->n_kinds; k++) {
        int needed = required(placement->space, k, tenant, placement->left[tenant]);
        ideal[k] = knee(placement->space, k, tenant);
        if (needed < ideal[k]) ideal[k] = needed;
    }
    for (int g = 0; g < placement->n_gpus; g++) {
        int kind = placement->gpus[g].kind;
        if (placement->gpus[g].n == 0 && free_seen[kind]) continue;
        if (placement->gpus[g].n == 0) free_seen[kind] = true;
        struct fit fit = look(placement, g, tenant, ideal[kind]);
        if (fit.gpu >= 0 && fit.let_units < best.let_units) best = fit;
    }
    return best;
}

/* Takes turns on some let that is in use with so much of its rate. */
static bool merge(struct mo_placement *placement, int tenant, double rate) {
    for (int g = 0; g < placement->n_gpus; g++)
        for (int l = 0; l < placement->gpus[g].n; l++)
            if (mo_placement_share(placement, g, l, tenant, rate)) return true;
    return false;
}

static bool take(struct mo_placement *placement, const struct fit *fit, int tenant, double rate) {
    struct mo_placement_gpu old = placement->gpus[fit->gpu];
    double left[MO_PLAN_TENANTS];
    memcpy(left, placement->left, (size_t)placement->space->n * sizeof *left);
    if (mo_placement_displace(placement, fit->gpu, fit->size, tenant, rate)) return true;
    placement->gpus[fit->gpu] = old;
    memcpy(placement->left, left, (size_t)placement->space->n * sizeof *left);
    return false;
}

static bool place(struct mo_placement *placement, int tenant) {
    struct fit fit = best_fit(placement, tenant);
    double rate = placement->left[tenant];
    if (fit.gpu >= 0 && fit.rate < rate) rate = fit.rate;
    if (merge(placement, tenant, rate)) return true;
    return fit.gpu >= 0 && take(placement, &fit, tenant, rate);
}

/* Tenants by rising rate x target, the critical ones first. */
static void sort_rising(const struct mo_space *space, int *order) {
    double weight[MO_PLAN_TENANTS];
    for (int t = 0; t < space->n; t++) {
        int at = t, from = t < space->n_critical ? 0 : space->n_critical;
        weight[t] = space->rate[t] * (double)mo_space_target(space, t);
        for (; at > from && weight[order[at - 1]] > weight[t]; at--)
            order[at] = order[at - 1];
        order[at] = t;
    }
}

/* Places all in that order; returns the queries/s of critical tenants that found no place. */
static double place_all(struct mo_placement *placement, const int *order) {
    const struct mo_space *space = placement->space;
    double missing = 0;
    /* who had to give up a part for a neighbour comes again; lets only become more, so this ends */
    for (bool placed = true; placed;) {
        placed = false;
        for (int i = 0; i < space->n; i++)
            while (placement->left[order[i]] > 1e-7 * space->rate[order[i]] && place(placement, order[i]))
                placed = true;
    }
    for (int t = 0; t < space->n_critical; t++)
        if (placement->left[t] > 1e-7 * space->rate[t]) missing += placement->left[t];
    return missing;
}

void mo_elastic(struct mo_placement *placement) {
    const struct mo_space *space = placement->space;
    int falling[MO_PLAN_TENANTS] = {0}, rising[MO_PLAN_TENANTS] = {0};
    for (int t = 0; t < space->n; t++)
        falling[t] = t;
    double missing = place_all(placement, falling);
    if (!(missing > 0)) return;
    sort_rising(space, rising);
    mo_placement_clear(placement);
    if (place_all(placement, rising) <= missing) return;
    mo_placement_clear(placement);
    place_all(placement, falling);
}

static int elastic(const struct mo_plan_view *view, bool interference, struct mo_plan_scratch *scratch,
                   struct mo_lets_plan *out, moire_error *err) {
    struct mo_space space;
    struct mo_placement placement;
    int code = mo_space_open(&space, view, scratch, interference, err);
    if (!code) code = mo_placement_open(&placement, &space, scratch, err);
    if (code) return code;
    mo_elastic(&placement);
    mo_placement_write(&placement, out);
    return MOIRE_OK;
}

static int without(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                   moire_error *err) {
    return elastic(view, false, scratch, out, err);
}
static int with(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    return elastic(view, true, scratch, out, err);
}

const struct mo_planner mo_planner_gpulet = {
    .name = "gpulet", .description = "elastic partitioning, interference not looked at", .plan = without};
const struct mo_planner mo_planner_gpulet_int = {
    .name = "gpulet-int", .description = "elastic partitioning with the interference model", .plan = with};
