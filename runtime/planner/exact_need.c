/* SPDX-License-Identifier: Apache-2.0
 * exact_need.c - what the rates that are left need at least: lets, and units of GPUs; see exact.h.
 *
 * A let with a GPU to itself might as well have all its units, so it counts as the whole GPU; any other has a
 * neighbour, and is slowed down at least as by the one that slows it least.  With every let at that best:
 *   - a tenant outside blocks needs whole lets, of so many units at least (cover[]);
 *   - a block needs one let; what its members' turns leave over they need lets of their own for, counted in
 *     parts of lets at the fewest units a query (unit_price[]).
 * Units are counted on machines with one kind of GPU only. */
#include <math.h>
#include <string.h>
#include "runtime/planner/exact.h"

enum { MANY_LETS = 1 << 20 };

/* Least slowdown of a tenant on a let of that size beside anybody; infinite: no room for a neighbour. */
static double least_slowdown(const struct mo_exact *e, int size, int tenant) {
    const struct mo_plan_kind *k = &e->space->view->kinds[0];
    double least = INFINITY;
    for (int s = 0; k->max_lets > 1 && s < k->n_sizes && k->sizes[s] <= k->units - k->sizes[size]; s++)
        for (int t = 0; t < e->n_tenants; t++) {
            const struct mo_plan_cell *other = mo_space_cell(e->space, 0, s, t);
            if (!other->max_batch) continue;
            double slow = mo_space_slowdown(e->space, 0, size, tenant, &other->out, 1);
            if (slow < least) least = slow;
        }
    return least;
}

/* most[u] = queries/s that lets of u units in all serve at most. */
static void fill_cover(struct mo_exact *e, int tenant, const double *rate) {
    const struct mo_plan_kind *k = &e->space->view->kinds[0];
    double *most = e->cover[tenant];
    most[0] = 0;
    for (int u = 1; u <= e->units; u++) {
        most[u] = most[u - 1];
        for (int s = 0; s < k->n_sizes && k->sizes[s] <= u; s++)
            if (most[u - k->sizes[s]] + rate[s] > most[u]) most[u] = most[u - k->sizes[s]] + rate[s];
    }
}

void mo_need_open(struct mo_exact *e) {
    const struct mo_plan_view *view = e->space->view;
    const struct mo_plan_kind *k = &view->kinds[0];
    for (int t = 0; t < e->n_tenants; t++)
        for (int i = 0; i < view->n_kinds; i++)
            for (int s = 0; s < view->kinds[i].n_sizes; s++)
                e->most_own[t] = fmax(e->most_own[t], mo_space_cell(e->space, i, s, t)->rate);
    e->units = view->n_kinds == 1 ? view->n_gpus * k->units : 0;
    for (int t = 0; e->units && t < e->n_tenants; t++) {
        double rate[MO_PLAN_SIZES];
        e->unit_price[t] = INFINITY;
        for (int s = 0; s < k->n_sizes; s++) {
            double slow = s == k->n_sizes - 1 ? 1 : least_slowdown(e, s, t);
            e->least_slow[t][s] = slow;
            rate[s] = slow < INFINITY ? mo_type_rate(e, 0, s, t, slow) : 0;
            if (rate[s] > 0) e->unit_price[t] = fmin(e->unit_price[t], k->sizes[s] / rate[s]);
        }
        fill_cover(e, t, rate);
    }
}

/* Least turns on a whole GPU of any kind. */
static void least_turns(const struct mo_exact *e, unsigned block, double *turn) {
    static const double alone[MO_EXACT_TENANTS] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int t = 0; block >> t; t++)
        if (block >> t & 1) turn[t] = INFINITY;
    for (int k = 0; k < e->space->view->n_kinds; k++) {
        double one[MO_EXACT_TENANTS];
        if (!mo_type_turns(e, k, e->space->view->kinds[k].n_sizes - 1, block, alone, one)) continue;
        for (int t = 0; block >> t; t++)
            if (block >> t & 1 && one[t] < turn[t]) turn[t] = one[t];
    }
}

/* Can the block take turns with all that its members ask for? */
static bool fits_whole(struct mo_exact *e, int size, unsigned block, const double *slow) {
    struct mo_piece pieces[MO_EXACT_TENANTS];
    double slowdown[MO_EXACT_TENANTS] = {0};
    int64_t duty;
    int n = 0;
    for (int t = 0; block >> t; t++) {
        if (!(block >> t & 1)) continue;
        slowdown[n] = slow[t];
        pieces[n++] = (struct mo_piece){.tenant = t, .rate = e->space->rate[t]};
    }
    return mo_let_fits_slowed(e->space, 0, size, pieces, n, slowdown, &duty);
}

void mo_need_partition(struct mo_exact *e) {
    const struct mo_plan_kind *k = &e->space->view->kinds[0];
    for (int b = 0; b < e->n_blocks; b++) {
        const unsigned block = e->block[b];
        least_turns(e, block, e->turn);
        e->block_whole[b] = INFINITY;
        for (int s = 0; e->units && s < k->n_sizes; s++) {
            double slow[MO_EXACT_TENANTS] = {0}, *turn = e->block_turn[b][s];
            bool works = true;
            for (int t = 0; t < e->n_tenants; t++) {
                slow[t] = e->least_slow[t][s];
                works = works && !(block >> t & 1 && slow[t] == INFINITY);
            }
            e->block_works[b][s] = works && mo_type_turns(e, 0, s, block, slow, turn);
            if (e->block_works[b][s] && !(e->block_whole[b] < INFINITY) && fits_whole(e, s, block, slow))
                e->block_whole[b] = k->sizes[s];
        }
    }
}

double mo_need_turns(const struct mo_exact *e, unsigned block, const double *turn) {
    double sum = 0;
    for (int t = 0; block >> t; t++)
        if (block >> t & 1 && e->left[t] > 0) sum += e->left[t] * turn[t];
    return sum;
}

/* Units of lets of their own for what the turns leave over. */
static double units_beside(const struct mo_exact *e, unsigned block, const double *turn) {
    double over = mo_need_turns(e, block, turn) - 1, least = INFINITY;
    if (over <= 0) return 0;
    for (int t = 0; block >> t; t++)
        if (block >> t & 1 && e->left[t] > 0) least = fmin(least, e->unit_price[t] / turn[t]);
    return fmax(over * least, e->space->view->kinds[0].sizes[0]);
}

/* Units of a block without a let and of its members' own ones. */
static double block_units(const struct mo_exact *e, int b) {
    const struct mo_plan_kind *k = &e->space->view->kinds[0];
    double least = INFINITY;
    for (int s = 0; s < k->n_sizes && k->sizes[s] < least; s++)
        if (e->block_works[b][s])
            least = fmin(least, k->sizes[s] + units_beside(e, e->block[b], e->block_turn[b][s]));
    return least;
}

static int own_units(const struct mo_exact *e, int t) {
    const double need = e->left[t] * (1 - 1e-6);
    int low = 0, high = e->units + 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (middle > e->units || e->cover[t][middle] >= need)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Before any GPU is chosen it is known exactly what a block needs that has its one let only.  With so many
 * lets to spare so many blocks at most have more. */
static double all_block_units(const struct mo_exact *e, int spare) {
    double saved[MO_EXACT_BLOCKS], sum = 0;
    for (int b = 0; b < e->n_blocks; b++) {
        double least = block_units(e, b);
        int at = b;
        if (!(e->block_whole[b] < INFINITY)) { /* its further let is counted */
            sum += least;
            saved[b] = 0;
        } else {
            sum += e->block_whole[b];
            saved[b] = fmax(e->block_whole[b] - least, 0);
        }
        for (; at > 0 && saved[at - 1] < saved[at]; at--) {
            double swap = saved[at];
            saved[at] = saved[at - 1];
            saved[at - 1] = swap;
        }
    }
    for (int b = 0; b < e->n_blocks && b < spare; b++)
        sum -= saved[b];
    return sum;
}

double mo_need_room(const struct mo_exact *e, unsigned want, unsigned placed) {
    const int depth = e->n_chosen;
    int lets = 0;
    for (int t = 0; want >> t; t++)
        if (want >> t & 1) lets += (int)fmin(ceil(e->left[t] / e->most_own[t] - 1e-6), MANY_LETS);
    for (int b = 0; b < e->n_blocks; b++) {
        bool whole = depth || !e->units || e->block_whole[b] < INFINITY;
        lets += !(placed & e->block[b]) + (!whole || mo_need_turns(e, e->block[b], e->turn) > 1);
    }
    if (lets > e->lets_behind[depth]) return -1;
    if (!e->units) return 0;
    double units = (e->space->view->n_gpus - depth) * e->space->view->kinds[0].units + 1e-6;
    for (int t = 0; units >= 0 && want >> t; t++)
        if (want >> t & 1) units -= own_units(e, t);
    if (!depth) units -= all_block_units(e, e->lets_behind[0] - lets);
    for (int b = 0; depth && units >= 0 && b < e->n_blocks; b++)
        units -= placed & e->block[b] ? units_beside(e, e->block[b], e->turn) : block_units(e, b);
    return units;
}
