/* SPDX-License-Identifier: Apache-2.0
 * beam_extend.c - the ways to give a tenant a let; see beam.h and beam.c.
 *
 * GPUs that are the same record are one; of many others those are tried that the tenant's smallest let fills
 * best, and the emptiest.  On each of them: a new let of the smallest size that holds what is left of the
 * tenant's rate and of the next; where none does, the largest and the one with the highest rate a unit, the
 * rest comes with the next pass; and a turn on each let with time to spare.  Where a let then does not fit
 * its tenants, the new one or a neighbour, it takes more units (iGniter's way); where there are none,
 * neighbours give up what they no longer hold, and are seen to again at the end. */
#include <math.h>
#include <string.h>
#include "runtime/planner/beam.h"

static void copy_gpu(struct mo_placement_gpu *to, const struct mo_placement_gpu *from) {
    memcpy(to, from, offsetof(struct mo_placement_gpu, lets) + (size_t)from->n * sizeof *from->lets);
}

int mo_beam_take(struct mo_beam *beam, const struct mo_placement_gpu *gpu) {
    const int at = beam->free < 0 ? beam->n_used++ : beam->free;
    struct mo_beam_gpu *record = &beam->pool[at];
    if (at == beam->free) beam->free = record->next;
    record->users = 1;
    record->seen = 0;
    record->simulated = false;
    copy_gpu(&record->at, gpu);
    record->room = mo_beam_room(beam, gpu);
    record->risk = 0;
    return at;
}

void mo_beam_drop(struct mo_beam *beam, int record) {
    if (--beam->pool[record].users) return;
    beam->pool[record].next = beam->free;
    beam->free = record;
}

/* --- children ------------------------------------------------------------------------------------------- */
static bool same(const struct mo_beam_child *a, const struct mo_beam_child *b) {
    const double tiny = 1e-12;
    return fabs(a->value - b->value) <= tiny * fabs(a->value) && fabs(a->room - b->room) <= tiny &&
           fabs(a->placed - b->placed) <= tiny * fabs(a->placed);
}

/* Keeps a child among the best; false: it is not one of them. */
static bool keep(struct mo_beam *beam, const struct mo_beam_child *child) {
    const int most = 2 * beam->width;
    for (int i = 0; i < beam->n_children; i++)
        if (same(&beam->child[i], child)) return false;
    int at = beam->n_children;
    if (at == most) {
        if (beam->child[--at].value >= child->value) return false;
        if (beam->child[at].slot >= 0) mo_beam_drop(beam, beam->child[at].record);
    } else {
        beam->n_children++;
    }
    for (; at > 0 && beam->child[at - 1].value < child->value; at--)
        beam->child[at] = beam->child[at - 1];
    beam->child[at] = *child;
    if (child->slot >= 0) beam->child[at].record = mo_beam_take(beam, &beam->work);
    return true;
}

static double critical_rate(const struct mo_beam *beam, const struct mo_placement_gpu *gpu) {
    double rate = 0;
    for (int l = 0; l < gpu->n; l++)
        for (int i = 0; i < gpu->lets[l].n; i++)
            if (gpu->lets[l].pieces[i].tenant < beam->space->n_critical) rate += gpu->lets[l].pieces[i].rate;
    return rate;
}

/* The work area in place of a slot's record. */
static void offer(struct mo_beam *beam, int state, int slot) {
    const struct mo_beam_state *s = &beam->states[state];
    const struct mo_beam_gpu *old = &beam->pool[s->gpu[slot]];
    struct mo_beam_child child = {.state = state, .slot = slot};
    child.placed = s->placed + critical_rate(beam, &beam->work) - critical_rate(beam, &old->at);
    child.room = s->room + mo_beam_room(beam, &beam->work) - old->room;
    child.risk = s->risk - old->risk; /* the new contents are simulated if they stay */
    child.value = mo_beam_value(beam, child.placed, child.room, s->risk);
    keep(beam, &child);
}

void mo_beam_stay(struct mo_beam *beam, int state) {
    const struct mo_beam_state *s = &beam->states[state];
    struct mo_beam_child child = {
        .state = state, .slot = -1, .placed = s->placed, .room = s->room, .risk = s->risk};
    child.value = mo_beam_value(beam, s->placed, s->room, s->risk);
    keep(beam, &child);
}

/* --- lets ----------------------------------------------------------------------------------------------- */
bool mo_beam_widen(const struct mo_space *space, struct mo_placement_gpu *gpu, int l) {
    const struct mo_plan_kind *kind = &space->view->kinds[gpu->kind];
    struct mo_placement_let *let = &gpu->lets[l];
    if (let->size + 1 == kind->n_sizes) return false;
    const int more = kind->sizes[let->size + 1] - kind->sizes[let->size];
    if (more > gpu->free_units) return false;
    gpu->free_units -= more;
    let->size++;
    return true;
}

bool mo_beam_settle(struct mo_placement *one, int g) {
    for (;;) {
        const int l = mo_placement_misfit(one, g);
        if (l == MO_PLACEMENT_FITS) return true;
        if (l == MO_PLACEMENT_FULL || !mo_beam_widen(one->space, &one->gpus[g], l)) return false;
    }
}

static struct mo_placement one_gpu(struct mo_beam *beam, double *left) {
    return (struct mo_placement){.space = beam->space, .n_gpus = 1, .gpus = &beam->work, .left = left};
}

static void try_new(struct mo_beam *beam, int state, int slot, int tenant, int size) {
    const struct mo_beam_state *s = &beam->states[state];
    const struct mo_placement_gpu *old = &beam->pool[s->gpu[slot]].at;
    double left[MO_PLAN_TENANTS];
    struct mo_placement one = one_gpu(beam, left);
    copy_gpu(&beam->work, old);
    const double most = mo_placement_alone(&one, 0, size, tenant);
    const double rate = fmin(most, s->left[tenant]);
    if (!(rate > 0)) return;
    struct mo_placement_let *let = &beam->work.lets[beam->work.n++];
    *let = (struct mo_placement_let){.size = size, .n = 1};
    let->pieces[0] = (struct mo_piece){.tenant = tenant, .rate = rate};
    beam->work.free_units -= beam->space->view->kinds[old->kind].sizes[size];
    if (mo_beam_settle(&one, 0)) {
        offer(beam, state, slot);
        return;
    }
    copy_gpu(&beam->work, old);
    memset(left, 0, sizeof left); /* of no interest: a state's are counted from its records */
    if (mo_placement_displace(&one, 0, size, tenant, rate)) offer(beam, state, slot);
}

/* Could a let of that size have the time for it? */
static bool has_time(const struct mo_beam *beam, const struct mo_placement_gpu *gpu, int l, int tenant,
                     double rate) {
    const struct mo_placement_let *let = &gpu->lets[l];
    const double most = mo_space_cell(beam->space, gpu->kind, let->size, tenant)->rate;
    double busy = most > 0 ? rate / most : 2;
    for (int i = 0; i < let->n; i++) {
        if (let->pieces[i].tenant == tenant) return false;
        busy += let->pieces[i].rate /
                mo_space_cell(beam->space, gpu->kind, let->size, let->pieces[i].tenant)->rate;
    }
    return busy < 1;
}

static void try_turns(struct mo_beam *beam, int state, int slot, int tenant) {
    const struct mo_beam_state *s = &beam->states[state];
    const struct mo_placement_gpu *old = &beam->pool[s->gpu[slot]].at;
    struct mo_placement one = one_gpu(beam, NULL);
    for (int l = 0; l < old->n; l++) {
        if (old->lets[l].n >= beam->space->view->max_share ||
            !has_time(beam, old, l, tenant, s->left[tenant]))
            continue;
        copy_gpu(&beam->work, old);
        struct mo_placement_let *let = &beam->work.lets[l];
        let->pieces[let->n++] = (struct mo_piece){.tenant = tenant, .rate = s->left[tenant]};
        if (mo_beam_settle(&one, 0)) offer(beam, state, slot);
    }
}

/* New lets of the sizes that are worth a try. */
static void try_sizes(struct mo_beam *beam, int state, int slot, int tenant) {
    const struct mo_placement_gpu *gpu = &beam->pool[beam->states[state].gpu[slot]].at;
    const struct mo_plan_kind *kind = &beam->space->view->kinds[gpu->kind];
    const struct mo_placement one = {
        .space = beam->space, .n_gpus = 1, .gpus = (struct mo_placement_gpu *)gpu};
    const double left = beam->states[state].left[tenant];
    int largest = -1, densest = -1;
    double best = 0;
    if (gpu->n >= kind->max_lets) return;
    for (int s = 0; s < kind->n_sizes && kind->sizes[s] <= gpu->free_units; s++) {
        if (mo_space_cell(beam->space, gpu->kind, s, tenant)->max_batch < 1) continue;
        const double most = mo_placement_alone(&one, 0, s, tenant);
        if (most >= left) {
            try_new(beam, state, slot, tenant, s);
            if (s + 1 < kind->n_sizes && kind->sizes[s + 1] <= gpu->free_units)
                try_new(beam, state, slot, tenant, s + 1);
            return;
        }
        if (most > 0) largest = s;
        if (most > best * kind->sizes[s]) {
            best = most / kind->sizes[s];
            densest = s;
        }
    }
    if (largest >= 0) try_new(beam, state, slot, tenant, largest);
    if (densest >= 0 && densest != largest) try_new(beam, state, slot, tenant, densest);
}

/* --- GPUs ----------------------------------------------------------------------------------------------- */
/* How good a GPU is to try: those that the smallest let for the rate fills best first, then those that are
 * too full for it, the emptiest first. */
static int rank(const struct mo_beam *beam, const struct mo_placement_gpu *gpu, int tenant, double left) {
    const struct mo_plan_kind *kind = &beam->space->view->kinds[gpu->kind];
    int s = 0;
    while (s < kind->n_sizes - 1 && mo_space_cell(beam->space, gpu->kind, s, tenant)->rate < left)
        s++;
    const int spare = gpu->free_units - kind->sizes[s];
    return spare >= 0 && gpu->n < kind->max_lets ? spare : 2 * MO_PLAN_UNITS - gpu->free_units;
}

/* Slots of distinct records, the best `look` of them; returns how many. */
static int choose_slots(struct mo_beam *beam, const struct mo_beam_state *s, int tenant,
                        int slots[MO_PLAN_GPUS]) {
    int ranks[MO_PLAN_GPUS], n = 0;
    beam->mark++;
    for (int g = 0; g < beam->space->view->n_gpus; g++) {
        struct mo_beam_gpu *record = &beam->pool[s->gpu[g]];
        if (record->seen == beam->mark) continue;
        record->seen = beam->mark;
        const int r = rank(beam, &record->at, tenant, s->left[tenant]);
        if (n >= beam->look && (n == 0 || ranks[n - 1] <= r)) continue;
        int at = n < beam->look ? n++ : n - 1;
        for (; at > 0 && ranks[at - 1] > r; at--) {
            ranks[at] = ranks[at - 1];
            slots[at] = slots[at - 1];
        }
        ranks[at] = r;
        slots[at] = g;
    }
    return n;
}

void mo_beam_extend(struct mo_beam *beam, int state, int tenant) {
    int slots[MO_PLAN_GPUS];
    const int n = choose_slots(beam, &beam->states[state], tenant, slots);
    for (int i = 0; i < n; i++) {
        try_sizes(beam, state, slots[i], tenant);
        try_turns(beam, state, slots[i], tenant);
    }
}
