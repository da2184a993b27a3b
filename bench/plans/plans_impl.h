/* SPDX-License-Identifier: Apache-2.0
 * plans_impl.h - what the files of plans.h share: pieces of work and their results. */
#ifndef MO_BENCH_PLANS_IMPL_H
#define MO_BENCH_PLANS_IMPL_H
#include <stdatomic.h>
#include <stdio.h>
#include "bench/data/loads.h"
#include "bench/plans/plans.h"

enum { MO_PLANS_SIZES = 4, MO_PLANS_DRAWS = 5, MO_PLANS_SCALINGS = MO_PLANS_SIZES * MO_PLANS_SIZES };
extern const int mo_plans_gpus[MO_PLANS_SIZES], mo_plans_models[MO_PLANS_SIZES];

enum mo_plans_part { MO_PLANS_GRID, MO_PLANS_RATE, MO_PLANS_SCALING };

/* One turn of a worker.  index: load of the grid, scenario, or number of GPUs and models. */
struct mo_plans_piece {
    enum mo_plans_part part;
    int machine, planner, index;
};

/* One plan. */
struct mo_plans_try {
    bool complete, refused; /* refused: the planner does not do such machines */
    double violations, ms;
};

/* The highest load of a scenario that holds, that the planner says it serves, and that of the planning bound;
 * queries/s at load 1. */
struct mo_plans_rate {
    double load, claimed, bound, queries;
};

struct worker;
struct mo_plans_work {
    const struct mo_env *env;
    const struct mo_plans_options *o;
    struct mo_bench_plan_view *views; /* [machine][scenario] */
    int n_loads, n_pieces;
    struct mo_plans_piece *pieces;
    struct mo_plans_try *grid, *scaling;
    struct mo_plans_rate *rate;
    struct worker *first;
    _Atomic int next, done, failed;
};

static inline struct mo_plans_try *mo_plans_grid(const struct mo_plans_work *w, int machine, int planner,
                                                 int index) {
    return &w->grid[(machine * w->o->n_planners + planner) * w->n_loads + index];
}
static inline struct mo_plans_rate *mo_plans_rate_of(const struct mo_plans_work *w, int machine, int planner,
                                                     int scenario) {
    return &w->rate[(machine * w->o->n_planners + planner) * w->o->n_scenarios + scenario];
}
/* MO_PLANS_DRAWS of them. */
static inline struct mo_plans_try *mo_plans_scaling(const struct mo_plans_work *w, int planner, int index) {
    return &w->scaling[(planner * MO_PLANS_SCALINGS + index) * MO_PLANS_DRAWS];
}

/* Does all pieces. */
int mo_plans_run(struct mo_plans_work *work, moire_error *err);
#endif
