/* SPDX-License-Identifier: Apache-2.0
 * beam_score.c - what a state of the search is worth; see beam.h and beam.c.
 *
 * The simulation takes one let at a time: beside its neighbours its batches take what the model says,
 * whatever the neighbours run, so lets do not depend on each other.  Queries of every tenant come as a
 * Poisson stream, always the same: gaps are drawn once, and a tenant begins at its own place in them.  When
 * the let is idle, the tenant whose oldest query is due first has its turn; its batch is all that waits and
 * is still in time with the oldest.  What cannot be in time even alone is shed.  This is how the server fills
 * a let (runtime/policy/gpulet.c) without its care for the other tenants' next batches.
 *
 * So few queries can only tell what goes wrong often, so being late is counted by degrees: a query that took
 * the part x of its target is at risk by x^4, one that was shed by 1. */
#include <math.h>
#include "runtime/planner/beam.h"

enum {
    QUERIES = 96,      /* of all tenants of a let */
    STEPS_OF_A_LET = 8 /* let evaluations that the simulation of a let takes the time of */
};

void mo_beam_draw(struct mo_beam *beam) {
    uint64_t s = 20221; /* any */
    for (int i = 0; i < MO_BEAM_CROSSINGS; i++) {
        s = s * UINT64_C(6364136223846793005) + 1442695040888963407;
        beam->gap[i] = -log(((double)(s >> 11) + 0.5) / 9007199254740992.0);
    }
}

/* --- one let -------------------------------------------------------------------------------------------- */
struct stream {
    const struct mo_plan_cell *cell;
    int64_t target;
    double slowdown;
    int n, head; /* queries; the first that was neither answered nor shed */
    double risk; /* of those before */
    int64_t at[QUERIES];
};

static void open_stream(const struct mo_beam *beam, struct stream *s, const struct mo_piece *piece,
                        double until_ns) {
    double now = 0;
    int i = piece->tenant * 37;
    s->target = mo_space_target(beam->space, piece->tenant);
    s->n = s->head = 0;
    s->risk = 0;
    while (s->n < QUERIES) {
        now += beam->gap[i++ % MO_BEAM_CROSSINGS] * 1e9 / piece->rate;
        if (now > until_ns) break;
        s->at[s->n++] = (int64_t)now;
    }
}

/* Sheds what is hopeless; the tenant whose oldest waiting query is due first, -1: none waits. */
static int most_urgent(struct stream *s, int n, int64_t now) {
    int best = -1;
    int64_t due = MO_SHARE_NEVER;
    for (int i = 0; i < n; i++) {
        const int64_t one = mo_cell_time(s[i].cell, 1, s[i].slowdown);
        while (s[i].head < s[i].n && s[i].at[s[i].head] + s[i].target < now + one) {
            s[i].head++;
            s[i].risk += 1;
        }
        if (s[i].head == s[i].n || s[i].at[s[i].head] > now) continue;
        const int64_t this_due = s[i].at[s[i].head] + s[i].target;
        if (best >= 0 && this_due >= due) continue;
        best = i;
        due = this_due;
    }
    return best;
}

static int64_t next_arrival(const struct stream *s, int n) {
    int64_t next = MO_SHARE_NEVER;
    for (int i = 0; i < n; i++)
        if (s[i].head < s[i].n && s[i].at[s[i].head] < next) next = s[i].at[s[i].head];
    return next;
}

/* How near a query that is in time is to being late, 0 to 1. */
static double nearness(int64_t latency, int64_t target) {
    const double part = (double)latency / (double)target, square = part * part;
    return square * square;
}

/* Runs a batch of what waits; returns when it ends. */
static int64_t run_batch(struct stream *s, int64_t now) {
    const int64_t due = s->at[s->head] + s->target;
    int batch = 1;
    while (batch < s->cell->max_batch && s->head + batch < s->n && s->at[s->head + batch] <= now &&
           now + mo_cell_time(s->cell, batch + 1, s->slowdown) <= due)
        batch++;
    now += mo_cell_time(s->cell, batch, s->slowdown);
    for (const int end = s->head + batch; s->head < end; s->head++)
        s->risk += nearness(now - s->at[s->head], s->target);
    return now;
}

/* Queries/s of the let's critical tenants at risk. */
static double let_risk(struct mo_beam *beam, const struct mo_placement_gpu *gpu, int l) {
    const struct mo_placement_let *let = &gpu->lets[l];
    struct stream streams[MO_LET_TENANTS];
    struct mo_share_use others[MO_PLAN_UNITS];
    const int n_others = mo_placement_beside(gpu, l, others);
    double rate = 0, risk = 0;
    for (int i = 0; i < let->n; i++)
        rate += let->pieces[i].rate;
    for (int i = 0; i < let->n; i++) {
        const int t = let->pieces[i].tenant;
        streams[i].cell = mo_space_cell(beam->space, gpu->kind, let->size, t);
        streams[i].slowdown = mo_space_slowdown(beam->space, gpu->kind, let->size, t, others, n_others);
        open_stream(beam, &streams[i], &let->pieces[i], QUERIES * 1e9 / rate);
    }
    for (int64_t now = 0; now < MO_SHARE_NEVER;) {
        const int i = most_urgent(streams, let->n, now);
        now = i < 0 ? next_arrival(streams, let->n) : run_batch(&streams[i], now);
    }
    for (int i = 0; i < let->n; i++)
        if (streams[i].n > 0 && let->pieces[i].tenant < beam->space->n_critical)
            risk += let->pieces[i].rate * streams[i].risk / streams[i].n;
    beam->space->steps += STEPS_OF_A_LET;
    return risk;
}

void mo_beam_simulate(struct mo_beam *beam, struct mo_beam_gpu *record) {
    if (record->simulated) return;
    record->simulated = true;
    record->risk = 0;
    for (int l = 0; l < record->at.n; l++)
        record->risk += record->risk_of[l] = let_risk(beam, &record->at, l);
}

/* --- a state -------------------------------------------------------------------------------------------- */
double mo_beam_room(const struct mo_beam *beam, const struct mo_placement_gpu *gpu) {
    const double by_turns = 0.5; /* idle time is worth less than units: not everybody's target has the turn */
    const struct mo_plan_view *view = beam->space->view;
    const struct mo_plan_kind *kind = &view->kinds[gpu->kind];
    double room = gpu->n < kind->max_lets && gpu->free_units >= kind->sizes[0] ? gpu->free_units : 0;
    for (int l = 0; l < gpu->n; l++) {
        const struct mo_placement_let *let = &gpu->lets[l];
        double idle = 1;
        for (int i = 0; i < let->n; i++)
            idle -= let->pieces[i].rate /
                    mo_space_cell(beam->space, gpu->kind, let->size, let->pieces[i].tenant)->rate;
        if (let->n < view->max_share && idle > 0) room += by_turns * idle * kind->sizes[let->size];
    }
    return room / kind->units;
}

/* What those who are still to come are expected to get of the room: less than their share of it, for rooms
 * are not as large as lets, and less and less the fuller it gets. */
double mo_beam_value(const struct mo_beam *beam, double placed, double room, double risk) {
    const double steep = 1.5, of_room = 1e-3;
    double rest = beam->rest_need > 0 ? beam->rest_rate * (1 - exp(-steep * room / beam->rest_need)) : 0;
    return placed + rest + of_room * placed * room / beam->space->view->n_gpus - beam->of_risk * risk;
}
