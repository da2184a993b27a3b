/* SPDX-License-Identifier: Apache-2.0
 * exact.h - the search through all plans of gpu-let's space.  Internal to runtime/planner.
 *
 * The space.  A tenant has any number of lets of its own and, for what remains of its rate, a place on at
 * most one let where several take turns.  These are the plans that Algorithm 1 of gpu-let makes, squishy bin
 * packing too; and if nobody takes turns twice, nothing is lost by filling a tenant's own lets first.  So a
 * plan is: a partition of the tenants into blocks, of which those with two or more share a let each, and for
 * every GPU a *type*: its sizes of lets and who has which, a tenant or a block.
 *
 * What keeps it finite and short, all proved to lose no feasible plan:
 *   - GPUs of a kind are alike: their types come in rising order;
 *   - a type that serves every tenant no better than another one is left out;
 *   - prices: for any w >= 0, a let on which tenants i take turns at rates r_i has sum r_i / cap_i <= 1 with
 *     cap_i what the let serves of i alone (its batches take turns, and twice its batch meets the target), so
 *     it is worth at most max w_i cap_i.  What is still needed, priced, must not exceed what the GPUs that
 *     are left can be worth.  w are the dual prices of the linear program over types, the sharpest there are;
 *   - a block that cannot take turns even with one query each is no block. */
#ifndef MO_PLANNER_EXACT_H
#define MO_PLANNER_EXACT_H
#include "runtime/planner/board.h"

enum {
    MO_EXACT_TENANTS = 8,
    MO_EXACT_GPUS = 16,
    MO_TYPE_LETS = 4,
    MO_EXACT_TYPES = 4096,                 /* of one kind, for one partition */
    MO_EXACT_LABELS = 2 * MO_EXACT_TENANTS /* tenants, then blocks */
};

/* Who has which let of a GPU. */
struct mo_gpu_type {
    int n;
    unsigned char size[MO_TYPE_LETS], label[MO_TYPE_LETS];
    unsigned blocks;               /* mask of the blocks on it */
    double gain[MO_EXACT_TENANTS]; /* queries/s of the lets that one tenant has to itself */
    double block_worth, worth;     /* at prices w, at most: of the lets of blocks; of all */
};

struct mo_exact {
    struct mo_space *space;
    int n_tenants; /* the critical ones */
    int n_blocks;
    unsigned member[MO_EXACT_LABELS]; /* label -> mask of tenants; blocks start at n_tenants */
    int n_types[MO_PLAN_KINDS];
    struct mo_gpu_type *types[MO_PLAN_KINDS];
    double price[MO_EXACT_TENANTS], gpu_worth[MO_PLAN_KINDS];
    int gpu[MO_EXACT_GPUS]; /* order of the search: GPUs by kind */
    /* the search */
    double left[MO_EXACT_TENANTS];
    int chosen[MO_EXACT_GPUS], n_chosen;
    int64_t nodes, limit;     /* 0 = none */
    bool cut_short, hopeless; /* hopeless: no plan of disjoint lets with duty cycles can do it */
};

/* Does the machine fit the search?  Too many tenants, GPUs, lets or types: MOIRE_ELIMIT. */
int mo_exact_open(struct mo_exact *exact, struct mo_space *space, struct mo_plan_scratch *scratch,
                  moire_error *err);
/* GPUs that the linear program needs at least; more than there are: no plan. */
double mo_exact_bound(struct mo_exact *exact);
/* Finds a plan for all critical tenants and puts it on the cleared board; false: there is none, or the limit
 * was reached (cut_short). */
bool mo_exact_search(struct mo_exact *exact, struct mo_board *board);

/* All types of a kind under the partition in `member`, without dominated ones; false: more than fit. */
bool mo_types_list(struct mo_exact *exact, int kind);
/* What runs beside let `at` of a type; returns how many. */
int mo_type_others(const struct mo_exact *exact, int kind, const struct mo_gpu_type *type, int at,
                   struct mo_share_use *others);
/* Prices w >= 0 with sum w x gain <= 1 for every type and the largest sum w x rate; returns that sum.
 * Stopped early, or with several kinds, the prices are valid all the same: scale by the worth of a GPU. */
double mo_prices(const struct mo_exact *exact, double *price);
#endif
