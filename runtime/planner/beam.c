/* SPDX-License-Identifier: Apache-2.0
 * beam.c - search with a simulator in the loop, as AlpaServe places models (Li et al., OSDI 2023,
 * Algorithm 1: beam search over placements, each judged by a simulation of the queries that come).
 *
 * A state is a placement of some tenants.  Tenants come one after the other; every state is extended by the
 * distinct ways to give the tenant a let (beam_extend.c), and the best few states stay.  A tenant that no let
 * holds whole comes again until nothing is gained, and at the end everybody who lacks something.
 *
 * What is best: extensions are ordered by the queries/s that they place by the model and what the rest can
 * expect of the room that is left; those in front are simulated (beam_score.c), and queries at risk count
 * against them, little or half.  Then the lets at most risk take what units are left, as long as that helps
 * in simulation.  Of the results of several rounds that with most queries/s placed by the model is taken, and
 * of equals that with the fewest at risk.  So the plan holds by the model like everybody's, and the simulator
 * says which of those that hold is better for queries that come unevenly.
 *
 * AlpaServe's groups of GPUs, and models that are cut over several, are not part of it.  What AlpaServe does
 * not have: sizes of lets, the expectation of the rest, several orders of the tenants.
 *
 * Rounds have widths 1, 2, 4, 8 (those after the first look at more GPUs, too), each with two orders, by
 * falling demand (rate times price, for packing) and by rising price (a query's least share-seconds, for when
 * not all find a place), and two weights of risk.  A round that the budget does not let finish is not looked
 * at, but for the first, so a larger budget has the results of a smaller one and more: never a worse plan.
 * view.budget 0 is STEPS_OF_A_TENANT for each tenant: about the time that a learned policy of two layers of
 * 256 takes to decide (docs/inss.md). */
#include <math.h>
#include <string.h>
#include "runtime/planner/beam.h"
#include "runtime/planner/planners.h"
#include "runtime/planner/priced_fill.h"

enum { STEPS_OF_A_TENANT = 80, LOOK = 4, WIDE_LOOK = 8, SWEEPS = 2 };

static const double nothing = 1e-9; /* of a rate */

/* Records that states, extensions, the empty GPUs and grow() can refer to at a time. */
static size_t records_for(int n_gpus) {
    return (size_t)n_gpus * MO_BEAM_WIDTH + MO_BEAM_CHILDREN + MO_PLAN_KINDS + 1;
}

size_t mo_beam_scratch_bytes(int n_gpus) {
    const size_t aligned = 64;
    return records_for(n_gpus) * sizeof(struct mo_beam_gpu) +
           2 * MO_BEAM_WIDTH * sizeof(struct mo_beam_state) + sizeof(struct mo_beam) + 4 * aligned;
}

static int open_beam(struct mo_beam **out, struct mo_space *space, struct mo_plan_scratch *scratch) {
    struct mo_beam *beam = *out = mo_scratch_raw(scratch, 1, sizeof *beam);
    if (!beam) return MOIRE_ENOMEM;
    const size_t n = records_for(space->view->n_gpus);
    beam->space = space;
    beam->pool = mo_scratch_raw(scratch, n, sizeof *beam->pool);
    beam->states = mo_scratch_raw(scratch, MO_BEAM_WIDTH, sizeof *beam->states);
    beam->next = mo_scratch_raw(scratch, MO_BEAM_WIDTH, sizeof *beam->next);
    if (!beam->pool || !beam->states || !beam->next) return MOIRE_ENOMEM;
    beam->mark = 0;
    mo_greedy_prices(space, beam->price);
    mo_beam_draw(beam);
    return MOIRE_OK;
}

/* --- states --------------------------------------------------------------------------------------------- */
static size_t rates_bytes(const struct mo_beam *beam) {
    return (size_t)beam->space->n * sizeof(double);
}

/* One state in which all GPUs are empty. */
static void begin(struct mo_beam *beam) {
    const struct mo_plan_view *view = beam->space->view;
    struct mo_beam_state *s = &beam->states[0];
    int of_kind[MO_PLAN_KINDS];
    beam->free = -1;
    beam->n_used = 0;
    for (int k = 0; k < view->n_kinds; k++) {
        beam->work.kind = k;
        beam->work.n = 0;
        beam->work.free_units = view->kinds[k].units;
        of_kind[k] = mo_beam_take(beam, &beam->work); /* and it is never given back */
    }
    s->placed = s->room = s->risk = s->value = 0;
    for (int g = 0; g < view->n_gpus; g++) {
        s->gpu[g] = of_kind[view->gpu_kind[g]];
        beam->pool[s->gpu[g]].users++;
        s->room += beam->pool[s->gpu[g]].room;
    }
    memcpy(s->left, beam->space->rate, rates_bytes(beam));
    beam->n_states = 1;
}

static void count_left(struct mo_beam_state *s, const struct mo_placement_gpu *gpu, double sign) {
    for (int l = 0; l < gpu->n; l++)
        for (int i = 0; i < gpu->lets[l].n; i++)
            s->left[gpu->lets[l].pieces[i].tenant] += sign * gpu->lets[l].pieces[i].rate;
}

/* Replaces a slot's record; the new one is already held for it. */
static void replace(struct mo_beam *beam, struct mo_beam_state *s, int slot, int record) {
    count_left(s, &beam->pool[s->gpu[slot]].at, 1);
    count_left(s, &beam->pool[record].at, -1);
    mo_beam_drop(beam, s->gpu[slot]);
    s->gpu[slot] = record;
}

static void become(struct mo_beam *beam, struct mo_beam_state *s, const struct mo_beam_child *child) {
    const struct mo_beam_state *from = &beam->states[child->state];
    const int n = beam->space->view->n_gpus;
    memcpy(s->gpu, from->gpu, (size_t)n * sizeof *s->gpu);
    memcpy(s->left, from->left, rates_bytes(beam));
    for (int g = 0; g < n; g++)
        beam->pool[s->gpu[g]].users++;
    s->placed = child->placed;
    s->room = child->room;
    s->risk = child->risk;
    s->value = child->value;
    if (child->slot >= 0) replace(beam, s, child->slot, child->record);
}

/* Simulates the children and makes the best of them the states.  True: the best is a new one. */
static bool choose(struct mo_beam *beam) {
    struct mo_beam_child *child = beam->child;
    for (int i = 0; i < beam->n_children; i++) {
        struct mo_beam_child c = child[i];
        int at = i;
        if (c.slot >= 0) {
            mo_beam_simulate(beam, &beam->pool[c.record]);
            c.risk += beam->pool[c.record].risk;
            c.value = mo_beam_value(beam, c.placed, c.room, c.risk);
        }
        for (; at > 0 && child[at - 1].value < c.value; at--)
            child[at] = child[at - 1];
        child[at] = c;
    }
    const int n = beam->n_children < beam->width ? beam->n_children : beam->width;
    const bool moved = child[0].slot >= 0;
    for (int i = 0; i < n; i++)
        become(beam, &beam->next[i], &child[i]);
    for (int i = n; i < beam->n_children; i++)
        if (child[i].slot >= 0) mo_beam_drop(beam, child[i].record);
    for (int i = 0; i < beam->n_states; i++)
        for (int g = 0; g < beam->space->view->n_gpus; g++)
            mo_beam_drop(beam, beam->states[i].gpu[g]);
    struct mo_beam_state *old = beam->states;
    beam->states = beam->next;
    beam->next = old;
    beam->n_states = n;
    return moved;
}

/* Places a tenant, let by let, until nothing is gained. */
static void place(struct mo_beam *beam, int tenant) {
    const int most = beam->space->view->n_gpus * MO_PLAN_UNITS;
    for (int pass = 0; pass < most; pass++) {
        bool wanted = false;
        if (beam->space->steps > beam->limit) return;
        beam->n_children = 0;
        for (int i = 0; i < beam->n_states; i++) {
            mo_beam_stay(beam, i);
            if (!(beam->states[i].left[tenant] > nothing * beam->space->rate[tenant])) continue;
            wanted = true;
            mo_beam_extend(beam, i, tenant);
        }
        if (!wanted || !choose(beam)) return;
    }
}

/* --- rounds --------------------------------------------------------------------------------------------- */
/* Critical tenants by falling key; of equals the first in canonical order. */
static void sort_by(const struct mo_space *space, const double *key, int *order) {
    for (int t = 0; t < space->n_critical; t++) {
        int at = t;
        for (; at > 0 && key[order[at - 1]] < key[t]; at--)
            order[at] = order[at - 1];
        order[at] = t;
    }
}

/* False: the budget ended, the states are of no use. */
static bool run_round(struct mo_beam *beam, const int *order) {
    const struct mo_space *space = beam->space;
    begin(beam);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        beam->rest_rate = beam->rest_need = 0;
        for (int t = 0; sweep == 0 && t < space->n_critical; t++) {
            beam->rest_rate += space->rate[t];
            beam->rest_need += space->rate[t] * beam->price[t];
        }
        for (int i = 0; i < space->n_critical; i++) {
            const int t = order[i];
            beam->rest_rate = fmax(0, beam->rest_rate - space->rate[t]);
            beam->rest_need = fmax(0, beam->rest_need - space->rate[t] * beam->price[t]);
            if (beam->price[t] > 0) place(beam, t);
            if (space->steps > beam->limit) return false;
        }
    }
    return true;
}

/* The let with most at risk that was not tried yet; -1: none has anything. */
static int riskiest(const struct mo_beam_gpu *record, const bool *tried) {
    int worst = -1;
    for (int l = 0; l < record->at.n; l++)
        if (!tried[l] && record->risk_of[l] > (worst < 0 ? 0 : record->risk_of[worst])) worst = l;
    return worst;
}

/* Gives the units that are left to the lets at most risk while that helps. */
static void grow(struct mo_beam *beam, struct mo_beam_state *s, int slot) {
    bool tried[MO_PLAN_UNITS] = {false};
    double left[MO_PLAN_TENANTS];
    struct mo_placement one = {.space = beam->space, .n_gpus = 1, .gpus = &beam->work, .left = left};
    for (;;) {
        struct mo_beam_gpu *old = &beam->pool[s->gpu[slot]];
        mo_beam_simulate(beam, old);
        const int l = riskiest(old, tried);
        if (l < 0) return;
        tried[l] = true;
        beam->work = old->at;
        if (!mo_beam_widen(beam->space, &beam->work, l) || !mo_beam_settle(&one, 0)) continue;
        const int record = mo_beam_take(beam, &beam->work);
        mo_beam_simulate(beam, &beam->pool[record]);
        if (beam->pool[record].risk >= old->risk) {
            mo_beam_drop(beam, record);
            continue;
        }
        s->risk += beam->pool[record].risk - old->risk;
        replace(beam, s, slot, record);
        tried[l] = false;
    }
}

/* More placed, or as much and less at risk. */
static bool better(double placed, double risk, double than_placed, double than_risk) {
    const double same = 1e-9 * (placed + than_placed);
    return placed > than_placed + same || (placed > than_placed - same && risk < than_risk);
}

struct best {
    double placed, risk;
    struct mo_placement *placement;
};

/* Takes the round's best state where it is better than what there is. */
static void take_best(struct mo_beam *beam, struct best *best) {
    const struct mo_space *space = beam->space;
    struct mo_beam_state *s = &beam->states[0];
    for (int i = 1; i < beam->n_states; i++)
        if (better(beam->states[i].placed, beam->states[i].risk, s->placed, s->risk)) s = &beam->states[i];
    for (int g = 0; space->n == space->n_critical && g < space->view->n_gpus; g++)
        grow(beam, s, g);
    if (!better(s->placed, s->risk, best->placed, best->risk)) return;
    best->placed = s->placed;
    best->risk = s->risk;
    for (int g = 0; g < space->view->n_gpus; g++)
        best->placement->gpus[g] = beam->pool[s->gpu[g]].at;
    memcpy(best->placement->left, s->left, rates_bytes(beam));
}

/* All rounds that the budget allows; true: all there are. */
static bool search(struct mo_beam *beam, struct best *best, int64_t limit) {
    static const double weights[] = {0.02, 0.5};
    int order[2][MO_PLAN_TENANTS] = {{0}};
    double demand[MO_PLAN_TENANTS], cheapness[MO_PLAN_TENANTS];
    for (int t = 0; t < beam->space->n_critical; t++) {
        demand[t] = beam->price[t] * beam->space->rate[t];
        cheapness[t] = -beam->price[t];
    }
    sort_by(beam->space, demand, order[0]);
    sort_by(beam->space, cheapness, order[1]);
    beam->limit = INT64_MAX;
    for (beam->width = 1; beam->width <= MO_BEAM_WIDTH; beam->width *= 2)
        for (int o = 0; o < 4; o++) {
            beam->of_risk = weights[o % 2];
            beam->look = beam->width > 1 ? WIDE_LOOK : LOOK;
            if (!run_round(beam, order[o / 2])) return false;
            take_best(beam, best);
            beam->limit = limit;
        }
    return true;
}

int mo_beam_improve(struct mo_placement *placement, double placed, int64_t budget,
                    struct mo_plan_scratch *scratch, bool *finished) {
    struct mo_beam *beam;
    struct mo_space *space = placement->space;
    struct best best = {.placed = placed, .placement = placement};
    const size_t used = scratch->used;
    const int code = open_beam(&beam, space, scratch);
    if (!budget) budget = (int64_t)STEPS_OF_A_TENANT * space->n;
    if (!code) *finished = search(beam, &best, space->steps + budget);
    scratch->used = used;
    return code;
}

static int plan(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    struct mo_space space;
    struct mo_placement placement;
    double price[MO_PLAN_TENANTS];
    bool finished = false;
    int code = mo_space_open(&space, view, scratch, true, err);
    if (!code) code = mo_placement_open(&placement, &space, scratch, err);
    if (code) return code;
    if (mo_beam_improve(&placement, -1, view->budget, scratch, &finished))
        return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    out->cut_short = !finished;
    mo_greedy_prices(&space, price);
    mo_greedy(&placement, price, space.n_critical, space.n);
    mo_placement_write(&placement, out);
    return MOIRE_OK;
}

const struct mo_planner mo_planner_beam = {
    .name = "beam", .description = "search with a simulator in the loop, as AlpaServe's", .plan = plan};
