/* SPDX-License-Identifier: Apache-2.0
 * elastic.c - elastic partitioning, Algorithm 1 of gpu-let (ATC 2022), without (`gpulet`) and with
 * (`gpulet-int`) its interference model.
 *
 * Tenants by falling rate; while a tenant has a rate left: p_ideal is the smaller of the knee of its
 * rate-over-size curve and the smallest size that serves the rest; the smallest remaining let that is not
 * smaller is taken (a whole GPU is split first); if the tenant can instead take turns with those of a let
 * that is in use, it does, and the split is reverted.  With interference a let is passed over when its
 * tenant would miss the target.  The paper does not say what becomes of the one that is there already: here
 * it gives up the rate that it can no longer serve, and its tenant comes again for that.  Where no let is
 * left the merge is still tried.  A GPU is split in two at most, as in the paper. */
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

static struct fit look(struct mo_board *board, int g, int tenant, int ideal) {
    const struct mo_space *space = board->space;
    const struct mo_board_gpu *gpu = &board->gpus[g];
    const struct mo_plan_kind *kind = &space->view->kinds[gpu->kind];
    struct fit fit = {.gpu = -1, .let_units = gpu->free_units};
    if (gpu->n >= 2 || gpu->free_units < kind->sizes[ideal]) return fit;
    int size = ideal;
    if (gpu->n == 1) { /* what is left over is taken as it is */
        size = mo_kind_size(kind, gpu->free_units);
        if (kind->sizes[size] > gpu->free_units) size--;
    }
    for (; size >= 0 && size < kind->n_sizes; size++) {
        fit.rate = tenant < space->n_critical ? mo_board_alone(board, g, size, tenant)
                                              : mo_board_room(board, g, size, tenant);
        if (fit.rate > 0 || gpu->n == 1) break;
    }
    fit.size = size;
    fit.gpu = fit.rate > 0 ? g : -1;
    return fit;
}

static struct fit best_fit(struct mo_board *board, int tenant) {
    struct fit best = {.gpu = -1, .let_units = MO_PLAN_UNITS + 1};
    int ideal[MO_PLAN_KINDS];
    bool free_seen[MO_PLAN_KINDS] = {false}; /* free GPUs of a kind are alike */
    for (int k = 0; k < board->space->view->n_kinds; k++) {
        int needed = required(board->space, k, tenant, board->left[tenant]);
        ideal[k] = knee(board->space, k, tenant);
        if (needed < ideal[k]) ideal[k] = needed;
    }
    for (int g = 0; g < board->n_gpus; g++) {
        int kind = board->gpus[g].kind;
        if (board->gpus[g].n == 0 && free_seen[kind]) continue;
        if (board->gpus[g].n == 0) free_seen[kind] = true;
        struct fit fit = look(board, g, tenant, ideal[kind]);
        if (fit.gpu >= 0 && fit.let_units < best.let_units) best = fit;
    }
    return best;
}

/* Takes turns on some let that is in use with so much of its rate. */
static bool merge(struct mo_board *board, int tenant, double rate) {
    for (int g = 0; g < board->n_gpus; g++)
        for (int l = 0; l < board->gpus[g].n; l++)
            if (mo_board_share(board, g, l, tenant, rate)) return true;
    return false;
}

static bool take(struct mo_board *board, const struct fit *fit, int tenant, double rate) {
    struct mo_board_gpu old = board->gpus[fit->gpu];
    double left[MO_PLAN_TENANTS];
    memcpy(left, board->left, (size_t)board->space->n * sizeof *left);
    if (mo_board_press(board, fit->gpu, fit->size, tenant, rate)) return true;
    board->gpus[fit->gpu] = old;
    memcpy(board->left, left, (size_t)board->space->n * sizeof *left);
    return false;
}

static bool place(struct mo_board *board, int tenant) {
    struct fit fit = best_fit(board, tenant);
    double rate = board->left[tenant];
    if (fit.gpu >= 0 && fit.rate < rate) rate = fit.rate;
    if (merge(board, tenant, rate)) return true;
    return fit.gpu >= 0 && take(board, &fit, tenant, rate);
}

void mo_elastic(struct mo_board *board) {
    const struct mo_space *space = board->space;
    /* who had to give up a part for a neighbour comes again; lets only become more, so this ends */
    for (bool placed = true; placed;) {
        placed = false;
        for (int t = 0; t < space->n; t++)
            while (board->left[t] > 1e-7 * space->rate[t] && place(board, t))
                placed = true;
    }
}

static int elastic(const struct mo_plan_view *view, bool interference, struct mo_plan_scratch *scratch,
                   struct mo_lets_plan *out, moire_error *err) {
    struct mo_space space;
    struct mo_board board;
    int code = mo_space_open(&space, view, scratch, interference, err);
    if (!code) code = mo_board_open(&board, &space, scratch, err);
    if (code) return code;
    mo_elastic(&board);
    mo_board_write(&board, out);
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
