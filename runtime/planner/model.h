/* SPDX-License-Identifier: Apache-2.0
 * model.h - what planners compute with: the times of every tenant on every size of let, and the test whether
 * tenants with given rates fit on a let.  Internal to runtime/planner.
 *
 * The test is exact: the batches that a duty cycle D needs grow with D, and so does the time they take, so
 * the least D that holds its own batches is the least fixed point, found from below; it gives every tenant
 * its smallest worst-case latency.
 *
 * Interference depends on who runs, not on the batches of the moment: a tenant suffers as it does at the
 * batch (of those that its target allows on this let) that suffers most, and its neighbours suffer from the
 * most that any of its batches uses.  So a plan holds for any mix of batches, and a larger rate never makes
 * a neighbour slower in the middle of a search.  check.c, which takes the batches of the plan, is never
 * stricter. */
#ifndef MO_PLANNER_MODEL_H
#define MO_PLANNER_MODEL_H
#include "runtime/planner/planner.h"

/* One tenant on one size of let. */
struct mo_plan_cell {
    int max_batch;                 /* largest with twice its time <= target; 0 = cannot run there */
    const int64_t *solo;           /* [1..max_batch] ns */
    double copy;                   /* ns of copies a query */
    double rate;                   /* most queries/s alone on the let, no neighbours */
    struct mo_share_use self, out; /* see above */
};

struct mo_space {
    const struct mo_plan_view *view;
    int n;          /* tenants with a rate, in canonical order: the critical ones by rate, falling */
    int n_critical; /* the first so many are not best-effort */
    int index[MO_PLAN_TENANTS]; /* canonical -> view */
    double rate[MO_PLAN_TENANTS];
    double
        mean[MO_SHARE_BATCH + 1]; /* queries of a duty cycle, on average, for which b is the largest batch */
    bool interference;            /* false: as if there were none */
    int64_t steps;                /* let evaluations so far */
    struct mo_plan_cell *cells;
};

/* A tenant's part of a let; batch and latency are results. */
struct mo_piece {
    int tenant; /* canonical */
    double rate;
    int batch;
    int64_t latency_ns;
};

/* The view with other sizes of lets: the k-th from the last is a k-th of the GPU, what each of k models has
 * that run on it side by side (mps.c).  `kinds` is what the view's kinds become. */
void mo_plan_side_by_side(const struct mo_plan_view *view, struct mo_plan_kind kinds[MO_PLAN_KINDS],
                          struct mo_plan_view *out);

/* NULL when there is no room; `raw` is not zeroed. */
void *mo_scratch_raw(struct mo_plan_scratch *scratch, size_t count, size_t size);
void *mo_scratch_take(struct mo_plan_scratch *scratch, size_t count, size_t size);

/* Tables for the view; MOIRE_ENOMEM. */
int mo_space_open(struct mo_space *space, const struct mo_plan_view *view, struct mo_plan_scratch *scratch,
                  bool interference, moire_error *err);

static inline const struct mo_plan_cell *mo_space_cell(const struct mo_space *space, int kind, int size,
                                                       int tenant) {
    return &space->cells[(kind * space->n + tenant) * MO_PLAN_SIZES + size];
}
static inline int64_t mo_space_target(const struct mo_space *space, int tenant) {
    int64_t ns = space->view->tenants[space->index[tenant]].target_ns;
    return ns ? ns : MO_SHARE_NEVER;
}
static inline int64_t mo_space_memory(const struct mo_space *space, int kind, int tenant) {
    const struct mo_share_profile *p = space->view->tenants[space->index[tenant]].profile[kind];
    return p ? p->memory_bytes : 0;
}
/* Index of the smallest size of at least so many units; n_sizes when there is none. */
int mo_kind_size(const struct mo_plan_kind *kind, int units);

/* How much slower a tenant is on that size beside others. */
double mo_space_slowdown(const struct mo_space *space, int kind, int size, int tenant,
                         const struct mo_share_use *others, int n_others);
/* Time of a batch, slowed down. */
static inline int64_t mo_cell_time(const struct mo_plan_cell *cell, int batch, double slowdown) {
    return (int64_t)((double)cell->solo[batch] * slowdown + cell->copy * batch);
}
/* Most queries/s of a tenant alone on that size with that slowdown. */
double mo_space_rate(const struct mo_space *space, int kind, int size, int tenant, double slowdown);
/* Largest batch that a duty cycle brings. */
int mo_plan_batch(double rate, double burst, int64_t duty_ns);

/* Do the pieces fit on a let of that size beside `others`?  Fills batches, latencies and *duty when they do.
 */
bool mo_let_fits(struct mo_space *space, int kind, int size, struct mo_piece *pieces, int n,
                 const struct mo_share_use *others, int n_others, int64_t *duty_ns);
/* The same with the slowdown of each piece, and as many pieces as there are. */
bool mo_let_fits_slowed(struct mo_space *space, int kind, int size, struct mo_piece *pieces, int n,
                        const double *slowdown, int64_t *duty_ns);
#endif
