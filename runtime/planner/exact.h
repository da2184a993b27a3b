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
 *   - a type that serves every tenant no better than another one is left out, where more than a tenant asks
 *     for is no better than what it asks for;
 *   - prices: for any w >= 0, a let on which tenants i take turns at rates r_i has sum r_i / cap_i <= 1 with
 *     cap_i what the let serves of i alone (its batches take turns, and twice its batch meets the target), so
 *     it is worth at most max w_i cap_i.  What is still needed, priced, must not exceed what the GPUs that
 *     are left can be worth.  w are the dual prices of the linear program over types, the sharpest there are;
 *   - turns: those who take turns in a block all run in every cycle, so a member's batch must leave time for
 *     one query of each other one before the tightest target; of that batch it has at most so many
 *     queries/s, and the parts of the time that the members need so at least must not exceed one;
 *   - the lets that tenants and blocks still need at their best, and those lets' units, must not be more than
 *     are left (exact_need.c);
 *   - a block that cannot take turns even with one query each is no block.
 * Partitions with most units to spare by that count are searched first: where there is a plan, it is found in
 * one of the first nearly always. */
#ifndef MO_PLANNER_EXACT_H
#define MO_PLANNER_EXACT_H
#include "runtime/planner/placement.h"

enum {
    MO_EXACT_TENANTS = 8, /* a set of them is a byte */
    MO_EXACT_GPUS = 16,
    MO_EXACT_BLOCKS = MO_EXACT_TENANTS / 2,
    MO_TYPE_LETS = 4,
    MO_EXACT_TYPES = 16384, /* of all kinds and groups */
    MO_EXACT_GROUPS = 2048,
    MO_EXACT_PARTITIONS = 4140, /* of MO_EXACT_TENANTS */
    MO_GROUP_NODES = 100,       /* making a group takes as long as so many nodes of the search */
    MO_RATE_MEMO = 1024
};

/* Who has which let of a GPU: sets of tenants. */
struct mo_gpu_type {
    unsigned char n, size[MO_TYPE_LETS], label[MO_TYPE_LETS];
    unsigned char own, in_blocks;         /* tenants with a let of their own; those of the blocks on it */
    unsigned char part[MO_EXACT_TENANTS]; /* size of the let that a member of a block has turns on */
    double gain[MO_EXACT_TENANTS];        /* queries/s of the lets that one tenant has to itself */
    double slow[MO_EXACT_TENANTS];        /* slowdown of a member of a block, on its block's let */
    double turn[MO_EXACT_TENANTS];        /* least part of that let's time that it needs for one query/s */
    double block_worth, worth;            /* at the prices, at most: of the lets of blocks; of all */
};

/* The types of a kind that have just these blocks, none dominated.  Partitions have most of them in common,
 * so they are made when first asked for and kept. */
struct mo_type_group {
    unsigned char kind, n_blocks, block[MO_EXACT_BLOCKS];
    int begin, n; /* in the pool, and by falling worth in sorted[] */
};

/* What the search looks at first, side by side. */
struct mo_type_order {
    double worth;
    unsigned short at; /* in the pool */
    unsigned char own, in_blocks;
};

/* Queries/s of a tenant on a let at that slowdown: the same few are asked for all the time. */
struct mo_rate_memo {
    const struct mo_plan_cell *cell;
    double slowdown, rate;
};

struct mo_partition {
    unsigned char n_blocks, block[MO_EXACT_BLOCKS];
    bool done;   /* searched to the end */
    double room; /* mo_need_room() */
};

struct mo_exact {
    struct mo_space *space;
    int n_tenants; /* the critical ones */
    struct mo_gpu_type *pool;
    struct mo_type_order *sorted; /* as the pool, each group by falling worth */
    int n_pool, n_groups;
    bool capped; /* see mo_types_cap() */
    struct mo_type_group *groups;
    double price[MO_EXACT_TENANTS], gpu_worth[MO_PLAN_KINDS];
    unsigned char may_share[1 << MO_EXACT_TENANTS]; /* 0 = not asked yet, 1 = no, 2 = yes */
    struct mo_rate_memo memo[MO_RATE_MEMO];
    const double *lean[MO_PLAN_KINDS][MO_EXACT_TENANTS][MO_PLAN_SIZES]; /* types.c, take_turns() */
    int gpu[MO_EXACT_GPUS]; /* order of the search: GPUs by kind */
    /* what is needed at least: exact_need.c */
    int units;                                                         /* of all GPUs; 0: not counted */
    double most_own[MO_EXACT_TENANTS];                                 /* queries/s of the best let */
    double cover[MO_EXACT_TENANTS][MO_EXACT_GPUS * MO_PLAN_UNITS + 1]; /* queries/s of so many units */
    double unit_price[MO_EXACT_TENANTS];                               /* least units for a query/s */
    double least_slow[MO_EXACT_TENANTS][MO_PLAN_SIZES];
    double block_turn[MO_EXACT_BLOCKS][MO_PLAN_SIZES][MO_EXACT_TENANTS];
    bool block_works[MO_EXACT_BLOCKS][MO_PLAN_SIZES];
    double block_whole[MO_EXACT_BLOCKS]; /* units on which it can have all it asks for; or infinite */
    /* the partition: its blocks, and the types that it allows by falling worth */
    struct mo_partition *partitions;
    int n_partitions, n_blocks;
    unsigned char block[MO_EXACT_BLOCKS], in_blocks;
    int n_order[MO_PLAN_KINDS];
    struct mo_type_order *order[MO_PLAN_KINDS];
    const struct mo_type_group *of[MO_PLAN_KINDS][1 << MO_EXACT_BLOCKS]; /* by the set of its blocks */
    /* the search */
    double left[MO_EXACT_TENANTS];
    double turn[MO_EXACT_TENANTS];       /* of members of blocks: on the let they have, else at least */
    int chosen[MO_EXACT_GPUS], n_chosen; /* indices into the pool */
    int lets_behind[MO_EXACT_GPUS + 1];  /* lets that the GPUs from that depth on have at most */
    int64_t nodes, limit;                /* in all; limit 0 = none */
    int64_t slice, stop;                 /* of one partition in this round; where that ends */
    bool stopped, unfinished;            /* this partition's search was; some partition's of this round */
    bool overflow;                       /* more types than fit */
    bool cut_short, infeasible;          /* infeasible: no plan of disjoint lets with duty cycles can do it */
};

/* The first of a set that is not empty. */
static inline int mo_first_of(unsigned set) {
    return __builtin_ctz(set);
}

/* Scratch that mo_exact_open() takes at most. */
size_t mo_exact_scratch_bytes(int n_kinds);
/* Does the machine fit the search?  Too many tenants, GPUs, lets or types: MOIRE_ELIMIT. */
int mo_exact_open(struct mo_exact *exact, struct mo_space *space, struct mo_plan_scratch *scratch,
                  moire_error *err);
/* GPUs that the linear program needs at least; more than there are: no plan. */
double mo_exact_bound(struct mo_exact *exact);
/* Finds a plan for all critical tenants and puts it on the cleared placement; false: there is none, or the
 * limit was reached (cut_short). */
bool mo_exact_search(struct mo_exact *exact, struct mo_placement *placement);

/* The group of a kind; NULL: more types than fit. */
const struct mo_type_group *mo_type_group(struct mo_exact *exact, int kind, const unsigned char *block,
                                          int n_blocks);
/* Worth and order of a group after the prices changed. */
void mo_type_group_price(struct mo_exact *exact, const struct mo_type_group *group);
/* From now on a type gives nobody more than the rate asked for: what is needless makes no type better, and
 * there are fewer that none dominates.  The bound wants them as they are: a block's tenants may share. */
void mo_types_cap(struct mo_exact *exact);
/* Fills order[] for the partition; false: more types than fit. */
bool mo_types_order(struct mo_exact *exact);
/* What runs beside let `at` of a type; returns how many. */
int mo_type_others(const struct mo_exact *exact, int kind, const struct mo_gpu_type *type, int at,
                   struct mo_share_use *others);
/* Queries/s of a tenant alone on that let of a type. */
double mo_type_alone(const struct mo_exact *exact, int kind, const struct mo_gpu_type *type, int at,
                     int tenant);
/* mo_space_rate(), remembered. */
double mo_type_rate(struct mo_exact *exact, int kind, int size, int tenant, double slowdown);
/* The least part of a let's time that the members of a block on it need for a query/s, with those slowdowns;
 * false: there is no time for one query each. */
bool mo_type_turns(const struct mo_exact *exact, int kind, int size, unsigned block, const double *slow,
                   double *turn);

/* What is needed at least (exact_need.c): tables for the machine; for a partition, with turn[] of its members
 * on the best let there is; and the units that the GPUs that are not chosen yet have beyond what is needed
 * (0 where units are not counted), negative: they have not, or too few lets. */
void mo_need_open(struct mo_exact *exact);
void mo_need_partition(struct mo_exact *exact);
double mo_need_room(const struct mo_exact *exact, unsigned want, unsigned placed);
/* Part of its let's time that a block needs at least, with those turns. */
double mo_need_turns(const struct mo_exact *exact, unsigned block, const double *turn);

/* Prices w >= 0 with sum w x gain <= 1 for every type without blocks and the largest sum w x rate; returns
 * that sum.  Stopped early, or with several kinds, the prices are valid all the same: they are scaled. */
double mo_prices(const struct mo_exact *exact, double *price);
#endif
