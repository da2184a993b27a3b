/* SPDX-License-Identifier: Apache-2.0
 * replicas.h - which models go on which machines, and how many replicas of each: arithmetic on what a machine
 * holds of a model, with no clock and no chance in it.
 *
 * A machine that holds h queries/s of a model when it serves nothing else is full by r / h with r of them;
 * the parts of all its models add up, to `fill` at most.  (They add up in the mean; that a mix holds its
 * targets is for the simulation to say.)  A model's memory counts once on every machine that has it.
 *
 * Packing: the models with the largest demand come first (best fit, decreasing), each in even pieces of a
 * quarter of a machine at most, for machines with several models are used better: one fills what another
 * leaves.  A piece goes to the machine that does not have the model yet and where least room is left after
 * it; if it fits nowhere whole, the roomiest takes what it can; if no other machine can take the model, those
 * that have it take more.  So a hot model gets as many replicas as it needs.  Where memory is short, or the
 * pieces make machines fuller, they are a half of a machine or a whole one.  Where two machines can take a
 * model, none gets more than half of its demand: the loss of one leaves another.
 *
 * Levelling: the answer is the packing at the least fill at which everything has a place, so that all
 * machines have as much in reserve as the cluster allows.  How few of them would do is said beside it. */
#ifndef MO_CLUSTER_REPLICAS_H
#define MO_CLUSTER_REPLICAS_H
#include "runtime/base/env.h"

struct mo_place_model {
    const char *name;
    double qps, memory_mb;
    const double *holds; /* by kind of machine; 0 = it cannot answer within the target there */
};

struct mo_place_node {
    int kind;
    double memory_mb;
};

struct mo_place_problem {
    const struct mo_env *env;
    const struct mo_place_model *models;
    int n_models;
    const struct mo_place_node *nodes;
    int n_nodes;
    double limit; /* of the fill; 0 = 1 */
};

struct mo_replica {
    int node;
    double qps;
};

struct mo_place_list {
    struct mo_replica *replica; /* in rising order of machines */
    int n;
};

struct mo_place_answer {
    struct mo_region *region;   /* owns everything below */
    struct mo_place_list *list; /* by model */
    double *full;               /* by machine: the part of it that is used */
    double fill;                /* least limit at which all has a place */
    int fewest;                 /* so many machines, the largest first, would do at the problem's limit */
};

/* On success *out must be freed.  MOIRE_EFAILED: not all has a place; the message names each model that lacks
 * one, how many of its queries, and whether machines, memory or cores are missing.  MOIRE_ENOMEM. */
int mo_place(const struct mo_place_problem *problem, struct mo_place_answer *out, moire_error *err);
void mo_place_free(struct mo_place_answer *answer);
#endif
