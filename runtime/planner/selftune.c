/* SPDX-License-Identifier: Apache-2.0
 * selftune.c - guided self-tuning: GSLICE (SoCC 2020) as gpu-let's authors compare with it, given the
 * profiles instead of searching while it serves.
 *
 * Each tenant, by falling rate, gets the smallest let that serves its whole rate alone, or a whole GPU and
 * another one for the rest; GPUs are filled best fit.  Tenants never take turns on a let, and interference is
 * not looked at. */
#include "runtime/planner/board.h"
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

static bool place(struct mo_board *board, int tenant) {
    int gpu = -1, size = 0, spare = MO_PLAN_UNITS + 1;
    double rate = 0;
    for (int g = 0; g < board->n_gpus; g++) {
        const struct mo_board_gpu *at = &board->gpus[g];
        int s = size_for(board->space, at->kind, tenant, board->left[tenant]);
        int left = at->free_units - board->space->view->kinds[at->kind].sizes[s];
        double room = left < 0 ? 0 : mo_board_room(board, g, s, tenant);
        if (!(room > 0) || left >= spare) continue;
        gpu = g;
        size = s;
        spare = left;
        rate = room;
    }
    if (gpu < 0) return false;
    if (rate > board->left[tenant]) rate = board->left[tenant];
    return mo_board_add(board, gpu, size, tenant, rate);
}

static int plan(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    struct mo_space space;
    struct mo_board board;
    int code = mo_space_open(&space, view, scratch, false, err);
    if (!code) code = mo_board_open(&board, &space, scratch, err);
    if (code) return code;
    for (int t = 0; t < space.n; t++)
        while (board.left[t] > 1e-9 * space.rate[t] && place(&board, t)) {
        }
    mo_board_write(&board, out);
    return MOIRE_OK;
}

const struct mo_planner mo_planner_selftune = {
    .name = "selftune", .description = "guided self-tuning: one let a tenant, as in GSLICE", .plan = plan};
