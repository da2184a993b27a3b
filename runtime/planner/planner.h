/* SPDX-License-Identifier: Apache-2.0
 * planner.h - which lets the GPUs of a machine are cut into for the next period, and what runs on each.
 *
 * A let is a set of consecutive units of one GPU.  On it one or more tenants take turns: in every duty cycle
 * of length D each of them runs one batch, of all its queries that came since its last turn.  By the model
 * (model.h) a query waits at most D for the turn and then takes the time of the batch, so a let serves its
 * tenants when
 *
 *   the batches of one cycle take at most D, and D + the time of a tenant's batch <= the tenant's target,
 *
 * with times as they are beside what runs on the other lets of the GPU (interference.h).
 *
 * A planner is a pure function of the view: no clock, no allocation, no state.  It gets scratch memory from
 * the caller, so that a server plans without allocating; its work is bounded by view.budget, a count of let
 * evaluations, so that the same view gives the same plan on every machine.  Tenants have unique names, and
 * planners sort by what they are and not by where they stand: the order of tenants does not matter.
 *
 * Adding a planner = one file here with a struct mo_planner at its end, and one row in planner.c. */
#ifndef MO_PLANNER_H
#define MO_PLANNER_H
#include "runtime/planner/interference.h"
#include "runtime/profile/share_profile.h"

enum {
    MO_PLAN_TENANTS = 256,
    MO_PLAN_GPUS = 64,
    MO_PLAN_KINDS = 8,  /* types of GPU in one machine */
    MO_PLAN_SIZES = 16, /* sizes that a let can have on a type of GPU */
    MO_PLAN_UNITS = 16, /* units of a GPU */
    MO_PLAN_LETS = MO_PLAN_GPUS * MO_PLAN_UNITS,
    MO_LET_TENANTS = 8 /* tenants that take turns on one let */
};

/* A type of GPU. */
struct mo_plan_kind {
    const char *name;
    int units;                /* 1..MO_PLAN_UNITS: 10 of 10 % each, or 16 groups of 8 SMs */
    int n_sizes;              /* sizes that a let may have, in units, rising; see mo_plan_sizes() */
    int sizes[MO_PLAN_SIZES]; /* e.g. 2, 4, 5, 6, 8, 10 of 10 */
    int max_lets;             /* lets on one GPU at a time */
    int64_t memory_bytes;     /* of one GPU */
    bool shared_weights;      /* lets of one GPU share a model's memory (contexts of one process do, MPS
                                 processes do not) */
    struct mo_interference interference;
};

/* The most that a tenant may ask for: a query a ns, and 26 days. */
#define MO_PLAN_RATE      1e9
#define MO_PLAN_TARGET_NS (MO_SHARE_NEVER / 4)

struct mo_plan_tenant {
    const char *name;  /* unique in the view */
    double rate;       /* queries/s to be served, at most MO_PLAN_RATE; 0 = none now */
    int64_t target_ns; /* of a query's latency, at most MO_PLAN_TARGET_NS; 0 = none: only with best_effort */
    bool best_effort;  /* gets what the others leave; the plan is complete without it */
    /* by kind; NULL = does not run there.  Borrowed.  profile->memory_bytes is what it holds there. */
    const struct mo_share_profile *profile[MO_PLAN_KINDS];
};

struct mo_lets_plan;
struct mo_policy_file;

struct mo_plan_view {
    int n_tenants, n_kinds, n_gpus;
    const struct mo_plan_tenant *tenants;
    const struct mo_plan_kind *kinds;
    const int *gpu_kind; /* [n_gpus] index into kinds; GPU g holds units [0, kinds[gpu_kind[g]].units) */
    int max_share;       /* tenants on one let, 1..MO_LET_TENANTS */
    /* A batch is made to hold rate x D + burst x sqrt(rate x D) queries: the mean of a duty cycle and so many
     * standard deviations of Poisson arrivals.  0 = evenly spaced arrivals, as in the papers. */
    double burst;
    /* The plan that is being served (NULL = none), its tenants by index into this view's.  It is returned as
     * it is when it is valid and complete and every rate lies in [(1 - keep) x, 1 x] of what it was made for.
     * Else GPUs of the new plan are numbered so that few lets change. */
    const struct mo_lets_plan *in_force;
    double keep;                          /* 0..1 */
    const struct mo_policy_file *learned; /* for mo_planner_inss (inss_plan.h); borrowed */
    int64_t budget; /* let evaluations of a bounded search; 0 = the planner's own bound.  `ideal` has none. */
};

struct mo_let_entry {
    int tenant;
    int batch;          /* largest batch of a turn */
    double rate;        /* queries/s of this tenant that this let serves */
    int64_t latency_ns; /* of that batch, beside the neighbours as the planner saw them, copies included */
};

struct mo_planned_let {
    int gpu, first, units;
    int64_t duty_ns; /* D */
    int n_entries;
    struct mo_let_entry entries[MO_LET_TENANTS];
};

/* Why a tenant is not placed whole. */
enum mo_plan_reason {
    MO_PLAN_PLACED,     /* it is */
    MO_PLAN_NO_PROFILE, /* no kind of GPU here has a profile of it */
    MO_PLAN_TARGET,     /* not even one query at a time on a whole GPU meets the target */
    MO_PLAN_MEMORY,     /* larger than the memory of any GPU */
    MO_PLAN_CAPACITY    /* the GPUs are taken */
};

struct mo_planned_tenant {
    double rate; /* asked for */
    double
        placed; /* queries/s that the lets serve: with the others' as they are, the nearest feasible rate */
    enum mo_plan_reason reason;
    int64_t least_ns; /* MO_PLAN_TARGET: the smallest target that can be met */
};

struct mo_lets_plan {
    int n_lets, n_tenants;
    bool complete;  /* every tenant but best-effort ones is placed whole */
    bool kept;      /* it is the plan in force */
    bool cut_short; /* the budget ended the search: a larger one may find more */
    /* Nothing is cut: lets are places, each tenant of a GPU has all of it to itself while no other runs, and
     * an equal part beside others (mps.c).  Simulated machines only. */
    bool side_by_side;
    int64_t steps;                            /* let evaluations spent */
    struct mo_planned_let lets[MO_PLAN_LETS]; /* by GPU, then by first unit */
    struct mo_planned_tenant tenants[MO_PLAN_TENANTS];
};

/* Memory that a planner takes from: `used` only grows, and is put back by whoever took. */
struct mo_plan_scratch {
    unsigned char *base;
    size_t bytes, used;
};

struct mo_planner {
    const char *name, *description;
    /* Fills *out, which is zeroed but for n_tenants and rates, from a view that was checked.  MOIRE_ENOMEM:
     * the scratch is too small; MOIRE_ELIMIT: the planner does not do machines like this.  An infeasible
     * load is no error. */
    int (*plan)(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err);
};

/* All planners, NULL-terminated; those that others published, with their tolerances, so that a tenant that is
 * placed whole may get less (released.h); and one of either by name (NULL: none such). */
const struct mo_planner *const *mo_planners(void);
const struct mo_planner *const *mo_planners_published(void);
const struct mo_planner *mo_planner_find(const char *name);

/* Scratch that every planner finds enough for views of so many tenants and GPUs and no more. */
size_t mo_plan_scratch_bytes(int n_tenants, int n_kinds, int n_gpus);

/* Is the view one that can be planned for?  MOIRE_EINVAL names the tenant or the GPU, and what is wrong. */
int mo_plan_check_view(const struct mo_plan_view *view, moire_error *err);

/* The whole way: checks the view, keeps the plan in force if it may be kept, else plans, numbers the GPUs so
 * that few lets change, sorts the lets, and says why each tenant that is not placed whole is not.  `out` may
 * not be view->in_force.  Errors: those of mo_plan_check_view() and of plan(). */
int mo_plan_make(const struct mo_planner *planner, const struct mo_plan_view *view, void *scratch,
                 size_t scratch_bytes, struct mo_lets_plan *out, moire_error *err);

/* Fills sizes with min, min + align, ... up to units, and units itself. */
void mo_plan_sizes(struct mo_plan_kind *kind, int min, int align);

/* One line for a user: why the tenant is not placed whole and what would be; "" for one that is. */
void mo_plan_why(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int tenant, char *text,
                 size_t n);
#endif
