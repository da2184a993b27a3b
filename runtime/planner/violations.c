/* SPDX-License-Identifier: Apache-2.0
 * violations.c - which lets of a plan miss targets beside their neighbours; see check.h. */
#include <math.h>
#include "runtime/planner/check.h"
#include "runtime/planner/model.h"

/* Index of a view's tenant in the space; -1: it has no rate any more. */
static int canonical(const struct mo_space *space, int tenant) {
    for (int t = 0; t < space->n; t++)
        if (space->index[t] == tenant) return t;
    return -1;
}

/* The size of a let in the space: what it was cut to, or the part of each of those on its GPU. */
static int size_of(const struct mo_space *space, const struct mo_lets_plan *plan,
                   const struct mo_planned_let *let) {
    const struct mo_plan_kind *kind = &space->view->kinds[space->view->gpu_kind[let->gpu]];
    int k = 0;
    for (int l = 0; l < plan->n_lets; l++)
        k += plan->lets[l].gpu == let->gpu;
    return plan->side_by_side ? kind->n_sizes - k : mo_kind_size(kind, let->units);
}

static struct mo_share_use use_of(const struct mo_space *space, const struct mo_lets_plan *plan,
                                  const struct mo_planned_let *let) {
    struct mo_share_use use = {0};
    int kind = space->view->gpu_kind[let->gpu];
    int size = size_of(space, plan, let);
    for (int e = 0; e < let->n_entries; e++) {
        int t = canonical(space, let->entries[e].tenant);
        if (t < 0) continue;
        const struct mo_share_use *u = &mo_space_cell(space, kind, size, t)->out;
        use.sm = fmax(use.sm, u->sm);
        use.l2 = fmax(use.l2, u->l2);
        use.dram = fmax(use.dram, u->dram);
    }
    return use;
}

static bool holds(struct mo_space *space, const struct mo_lets_plan *plan, int at) {
    const struct mo_planned_let *let = &plan->lets[at];
    struct mo_share_use others[MO_PLAN_UNITS];
    struct mo_piece pieces[MO_LET_TENANTS];
    int kind = space->view->gpu_kind[let->gpu], n = 0, n_others = 0;
    int64_t duty;
    for (int e = 0; e < let->n_entries; e++) {
        int t = canonical(space, let->entries[e].tenant);
        if (t >= 0) pieces[n++] = (struct mo_piece){.tenant = t, .rate = let->entries[e].rate};
    }
    for (int l = 0; l < plan->n_lets && n_others < MO_PLAN_UNITS; l++)
        if (l != at && plan->lets[l].gpu == let->gpu)
            others[n_others++] = use_of(space, plan, &plan->lets[l]);
    return mo_let_fits(space, kind, size_of(space, plan, let), pieces, n, others, n_others, &duty);
}

double mo_plan_violations(const struct mo_plan_view *view, const struct mo_lets_plan *plan, void *scratch,
                          size_t scratch_bytes) {
    struct mo_plan_scratch memory = {.base = scratch, .bytes = scratch_bytes};
    struct mo_plan_kind kinds[MO_PLAN_KINDS];
    struct mo_plan_view shared;
    struct mo_space space;
    double all = 0, late = 0;
    mo_plan_side_by_side(view, kinds, &shared);
    if (mo_space_open(&space, plan->side_by_side ? &shared : view, &memory, true, NULL)) return -1;
    for (int l = 0; l < plan->n_lets; l++) {
        double rate = 0;
        for (int e = 0; e < plan->lets[l].n_entries; e++)
            if (!view->tenants[plan->lets[l].entries[e].tenant].best_effort)
                rate += plan->lets[l].entries[e].rate;
        all += rate;
        if (rate > 0 && !holds(&space, plan, l)) late += rate;
    }
    return all > 0 ? late / all : 0;
}
