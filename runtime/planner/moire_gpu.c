/* SPDX-License-Identifier: Apache-2.0
 * moire_gpu.c - moire's own planner.
 *
 * Where the machine is small, all plans of gpu-let's space are searched first, within the budget (exact.h):
 * by prices a plan is found, or proved not to be there, in some hundreds of nodes nearly always.  Else, and
 * for what only a tenant with turns on several lets can reach, there are rounds of a greedy (priced_fill.h)
 * whose currency is share-seconds per query: who was left over costs more in the next round, so that it is
 * seen to earlier.  One of the rounds is gpu-let's own algorithm; the best round counts.  Where it does not
 * place everything, the beam search (beam.c) tries with its own budget, and has its plan if that places more
 * queries: prices make the rounds drop the cheap queries first, which is right to find out whether everything
 * fits, and wrong once it does not.  It is anytime: with any budget there is a plan, of all that found a
 * place. */
#include <math.h>
#include <string.h>
#include "runtime/planner/beam.h"
#include "runtime/planner/exact.h"
#include "runtime/planner/priced_fill.h"
#include "runtime/planner/planners.h"

enum {
    ROUNDS = 8,
    ROUNDS_AFTER_SEARCH = 2,
    ROUNDS_WITHOUT_HOPE = 2,
    MANY_TENANTS = 64,
    DEFAULT_BUDGET = 20000
}; /* search nodes: a ninth of it */

/* Queries/s that found no place, of the critical tenants. */
static double missing(const struct mo_placement *placement) {
    double sum = 0;
    for (int t = 0; t < placement->space->n_critical; t++)
        if (placement->left[t] > 1e-7 * placement->space->rate[t]) sum += placement->left[t];
    return sum;
}

/* Ways to fill the placement: by prices, whole GPUs by squishy bin packing, gpu-let's algorithm. */
enum way { BY_PRICES, WHOLE, ELASTIC, WAYS };

/* What is missing then. */
static double fill(struct mo_placement *placement, enum way way, const double *price) {
    mo_placement_clear(placement);
    if (way == BY_PRICES)
        mo_greedy(placement, price, 0, placement->space->n_critical);
    else if (way == WHOLE)
        mo_sbp_pack(placement);
    else
        mo_elastic(placement);
    return missing(placement);
}

/* Rounds until everything is placed, the budget is spent or nothing more helps; the placement holds the best.
 * Two of the first three are sbp's and gpu-let's algorithms, so that nothing they place is missed; with many
 * tenants gpu-let's is the quickest and comes first. */
static bool rounds(struct mo_placement *placement, const double *first, int most, int64_t budget) {
    static const enum way few_order[WAYS] = {BY_PRICES, ELASTIC, WHOLE};
    static const enum way many_order[WAYS] = {ELASTIC, BY_PRICES, WHOLE};
    struct mo_space *space = placement->space;
    const enum way *order = space->n_critical > MANY_TENANTS ? many_order : few_order;
    double price[MO_PLAN_TENANTS], best_price[MO_PLAN_TENANTS], least = INFINITY, lacks = INFINITY;
    const size_t bytes = (size_t)space->n * sizeof *price;
    enum way best_way = BY_PRICES;
    memcpy(price, first, bytes);
    for (int i = 0; i < most && (i < WAYS || space->steps < budget); i++) {
        const enum way way = i < WAYS ? order[i] : BY_PRICES;
        lacks = fill(placement, way, price);
        if (!(lacks > 0)) return true;
        if (lacks < least) {
            least = lacks;
            best_way = way;
            memcpy(best_price, price, bytes);
        }
        for (int t = 0; way == BY_PRICES && t < space->n_critical; t++)
            price[t] *= 1 + 0.5 * fmax(placement->left[t], 0) / space->rate[t];
    }
    if (lacks > least) fill(placement, best_way, best_price);
    return false;
}

/* More tenants than can take turns on all lets? */
static bool too_many(const struct mo_space *space) {
    int lets = 0;
    for (int g = 0; g < space->view->n_gpus; g++)
        lets += space->view->kinds[space->view->gpu_kind[g]].max_lets;
    return space->n_critical > lets * space->view->max_share;
}

/* More share-seconds than there are? */
static bool beyond_bound(const struct mo_space *space, const double *price) {
    double need = 0;
    for (int t = 0; t < space->n_critical; t++)
        need += price[t] > 0 ? price[t] * space->rate[t] : INFINITY;
    return need > space->view->n_gpus * (1 + 1e-9);
}

/* Searches all plans where the machine is small.  *searched: it is.  *infeasible: it is proved that there is
 * none with disjoint lets. */
static int search(struct mo_placement *placement, struct mo_plan_scratch *scratch, int64_t limit,
                  bool *placed, bool *searched, bool *infeasible) {
    struct mo_exact exact;
    int code = mo_exact_open(&exact, placement->space, scratch, NULL);
    if (code) return code == MOIRE_ELIMIT ? MOIRE_OK : code;
    exact.limit = limit;
    *searched = true;
    *placed = mo_exact_search(&exact, placement);
    *infeasible = !*placed && exact.infeasible;
    return MOIRE_OK;
}

/* What the beam search places where that is more; *placed: it is everything. */
static int improve(struct mo_placement *placement, struct mo_plan_scratch *scratch, bool *placed) {
    const struct mo_space *space = placement->space;
    double has = 0;
    bool finished;
    for (int t = 0; t < space->n_critical; t++)
        has += space->rate[t] - placement->left[t];
    const int code = mo_beam_improve(placement, has, 0, scratch, &finished);
    *placed = !(missing(placement) > 0);
    return code;
}

static int plan(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    struct mo_space space;
    struct mo_placement placement;
    double price[MO_PLAN_TENANTS];
    bool placed = false, searched = false;
    int64_t budget = view->budget ? view->budget : DEFAULT_BUDGET;
    int code = mo_space_open(&space, view, scratch, true, err);
    if (!code) code = mo_placement_open(&placement, &space, scratch, err);
    if (code) return code;
    const size_t used = scratch->used;
    mo_greedy_prices(&space, price);
    bool infeasible = too_many(&space) || beyond_bound(&space, price);
    if (!infeasible && search(&placement, scratch, (budget + 8) / 9, &placed, &searched, &infeasible))
        return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    if (!placed)
        placed = rounds(&placement, price,
                        infeasible ? ROUNDS_WITHOUT_HOPE
                        : searched ? ROUNDS_AFTER_SEARCH
                                   : ROUNDS,
                        space.steps + budget);
    scratch->used = used; /* the search through all plans is over */
    if (!placed && improve(&placement, scratch, &placed))
        return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    out->cut_short = !placed && !infeasible;
    mo_greedy(&placement, price, space.n_critical, space.n);
    mo_placement_write(&placement, out);
    return MOIRE_OK;
}

const struct mo_planner mo_planner_moire = {
    .name = "moire-gpu", .description = "moire's: prices in share-seconds, exact where small", .plan = plan};
