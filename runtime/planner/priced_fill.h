/* SPDX-License-Identifier: Apache-2.0
 * priced_fill.h - fills GPUs by prices: what a let is worth is the priced rate that it serves.  Internal to
 * runtime/planner.
 *
 * The price of a tenant's query is its least share-seconds (schedulers' currency: a GPU is worth one) to
 * begin with.  GPU by GPU, the next let is the one whose worth and the most that the units beside it can
 * then be worth (a knapsack over sizes, without interference) is greatest; what its tenant leaves of its time
 * is given to others that take turns. */
#ifndef MO_PLANNER_GREEDY_H
#define MO_PLANNER_GREEDY_H
#include "runtime/planner/placement.h"

/* Least share-seconds of each tenant over kinds and sizes; 0 for one that can run nowhere. */
void mo_greedy_prices(const struct mo_space *space, double *price);
/* Places what is left of tenants [begin, end). */
void mo_greedy(struct mo_placement *placement, const double *price, int begin, int end);
/* Algorithm 1 of gpu-let on a cleared placement, all tenants (elastic.c). */
void mo_elastic(struct mo_placement *placement);
/* The same by sbp's (sbp.c): whole GPUs. */
void mo_sbp_pack(struct mo_placement *placement);
#endif
