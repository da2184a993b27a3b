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
 *   - tenants and blocks that still need a let of their own must not be more than the lets that are left;
 *   - a block that cannot take turns even with one query each is no block. */
#ifndef MO_PLANNER_EXACT_H
#define MO_PLANNER_EXACT_H
#include "runtime/planner/board.h"

enum {
    MO_EXACT_TENANTS = 8, /* a set of them is a byte */
    MO_EXACT_GPUS = 16,
    MO_EXACT_BLOCKS = MO_EXACT_TENANTS / 2,
    MO_TYPE_LETS = 4,
    MO_EXACT_TYPES = 16384, /* of all kinds and groups */
    MO_EXACT_GROUPS = 2048
};

/* Who has which let of a GPU: sets of tenants. */
struct mo_gpu_type {
    unsigned char n, size[MO_TYPE_LETS], label[MO_TYPE_LETS];
    unsigned char own, in_blocks;  /* tenants with a let of their own; those of the blocks on it */
    double gain[MO_EXACT_TENANTS]; /* queries/s of the lets that one tenant has to itself */
    double block_worth, worth;     /* at the prices, at most: of the lets of blocks; of all */
};

/* The types of a kind that have just these blocks, none dominated, by falling worth.  Partitions have most
 * of them in common, so they are made when first asked for and kept. */
struct mo_type_group {
    unsigned char kind, n_blocks, block[MO_EXACT_BLOCKS];
    int begin, n; /* in the pool */
};

/* What the search looks at first, side by side. */
struct mo_type_order {
    double worth;
    unsigned short at; /* in the pool */
    unsigned char own, in_blocks;
};

struct mo_exact {
    struct mo_space *space;
    int n_tenants; /* the critical ones */
    struct mo_gpu_type *pool;
    int n_pool, n_groups;
    struct mo_type_group *groups;
    double price[MO_EXACT_TENANTS], gpu_worth[MO_PLAN_KINDS];
    unsigned char may_share[1 << MO_EXACT_TENANTS]; /* 0 = not asked yet, 1 = no, 2 = yes */
    int gpu[MO_EXACT_GPUS];                         /* order of the search: GPUs by kind */
    /* the partition: its blocks, and the types that it allows by falling worth */
    int n_blocks;
    unsigned char block[MO_EXACT_BLOCKS], in_blocks;
    int n_order[MO_PLAN_KINDS];
    struct mo_type_order *order[MO_PLAN_KINDS];
    /* the search */
    double left[MO_EXACT_TENANTS];
    int chosen[MO_EXACT_GPUS], n_chosen; /* indices into the pool */
    int lets_behind[MO_EXACT_GPUS + 1];  /* lets that the GPUs from that depth on have at most */
    int64_t nodes, limit;                /* in all; limit 0 = none */
    int64_t slice, stop;                 /* of one partition in this round; where that ends */
    bool stopped, unfinished;            /* this partition's search was; some partition's of this round */
    bool overflow;                       /* more types than fit */
    bool cut_short, hopeless;            /* hopeless: no plan of disjoint lets with duty cycles can do it */
};

/* Does the machine fit the search?  Too many tenants, GPUs, lets or types: MOIRE_ELIMIT. */
int mo_exact_open(struct mo_exact *exact, struct mo_space *space, struct mo_plan_scratch *scratch,
                  moire_error *err);
/* GPUs that the linear program needs at least; more than there are: no plan. */
double mo_exact_bound(struct mo_exact *exact);
/* Finds a plan for all critical tenants and puts it on the cleared board; false: there is none, or the limit
 * was reached (cut_short). */
bool mo_exact_search(struct mo_exact *exact, struct mo_board *board);

/* The group of a kind; NULL: more types than fit. */
const struct mo_type_group *mo_type_group(struct mo_exact *exact, int kind, const unsigned char *block,
                                          int n_blocks);
/* Worth and order of a group after the prices changed. */
void mo_type_group_price(struct mo_exact *exact, const struct mo_type_group *group);
/* Fills order[] for the partition; false: more types than fit. */
bool mo_types_order(struct mo_exact *exact);
/* What runs beside let `at` of a type; returns how many. */
int mo_type_others(const struct mo_exact *exact, int kind, const struct mo_gpu_type *type, int at,
                   struct mo_share_use *others);
/* Queries/s of a tenant alone on that let of a type. */
double mo_type_alone(const struct mo_exact *exact, int kind, const struct mo_gpu_type *type, int at,
                     int tenant);
/* Prices w >= 0 with sum w x gain <= 1 for every type without blocks and the largest sum w x rate; returns
 * that sum.  Stopped early, or with several kinds, the prices are valid all the same: they are scaled. */
double mo_prices(const struct mo_exact *exact, double *price);
#endif
