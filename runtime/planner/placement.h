/* SPDX-License-Identifier: Apache-2.0
 * placement.h - a plan in the making: lets on GPUs, pieces on lets, each change tried and kept only if the
 * whole GPU still fits.  Internal to runtime/planner.
 *
 * Invariant: after every function, each GPU's lets fit its units, memory and number of lets, and each let
 * fits its pieces beside the others (with the interference that the space has, or without). */
#ifndef MO_PLANNER_PLACEMENT_H
#define MO_PLANNER_PLACEMENT_H
#include "runtime/planner/model.h"

struct mo_placement_let {
    int size, n; /* index into the kind's sizes; pieces */
    int64_t duty_ns;
    struct mo_share_use use; /* the most that any of its tenants uses */
    struct mo_piece pieces[MO_LET_TENANTS];
};

struct mo_placement_gpu {
    int kind, n, free_units;
    struct mo_placement_let lets[MO_PLAN_UNITS];
};

struct mo_placement {
    struct mo_space *space;
    int n_gpus;
    struct mo_placement_gpu *gpus;
    double *left; /* [space->n] rates not placed yet */
};

int mo_placement_open(struct mo_placement *placement, struct mo_space *space, struct mo_plan_scratch *scratch,
                      moire_error *err);
/* Takes everything off. */
void mo_placement_clear(struct mo_placement *placement);

/* Evaluates one GPU: batches, duty cycles, memory. */
bool mo_placement_fits(struct mo_placement *placement, int gpu);
/* The same, and which let does not fit its pieces, or one of: everything fits; not the lets but the GPU has
 * too little room for them. */
enum { MO_PLACEMENT_FITS = -1, MO_PLACEMENT_FULL = -2 };
int mo_placement_misfit(struct mo_placement *placement, int gpu);
/* What runs beside a let of a GPU that was evaluated; let -1: beside one more.  Returns how many. */
int mo_placement_beside(const struct mo_placement_gpu *gpu, int let, struct mo_share_use *others);
/* Most queries/s of a tenant alone on a new let of that size there, beside the neighbours as they are; 0: no
 * room for the let. */
double mo_placement_alone(const struct mo_placement *placement, int gpu, int size, int tenant);
/* The same, or 0 when a neighbour would no longer fit. */
double mo_placement_room(struct mo_placement *placement, int gpu, int size, int tenant);
/* A new let for a tenant at that rate; false: does not fit, nothing changed. */
bool mo_placement_add(struct mo_placement *placement, int gpu, int size, int tenant, double rate);
/* The same, but the neighbours give up what they can no longer serve beside it; false: one of them could
 * serve nothing any more, and the GPU and the rates left are undefined (the caller has a copy). */
bool mo_placement_displace(struct mo_placement *placement, int gpu, int size, int tenant, double rate);
/* One more tenant on a let that is there. */
bool mo_placement_share(struct mo_placement *placement, int gpu, int let, int tenant, double rate);
/* The most of `rate` that a tenant can have on a let that is there, found by halving; 0 = nothing worth it.
 */
double mo_placement_share_part(struct mo_placement *placement, int gpu, int let, int tenant, double rate);

/* The placement as a plan. */
void mo_placement_write(const struct mo_placement *placement, struct mo_lets_plan *out);
#endif
