/* SPDX-License-Identifier: Apache-2.0
 * cluster_rates.h - what one machine holds of one model: the highest rate of arrivals at which the asked
 * share of its queries is in time while the machine serves nothing else.  Simulated, by bisection, on a
 * cluster of that one machine; so it knows the policy, the contention and the bursts of the arrivals.
 *
 * At most 95 % of what the cores do by the profile, which is also what a model without a target holds. */
#ifndef MO_CLUSTER_RATES_H
#define MO_CLUSTER_RATES_H
#include "bench/cluster/cluster_sim.h"

/* Fills holds[model * nodes->n_kinds + kind], 0 where the model is late even alone.  `like`: what runs have
 * in common; its routing, rates and placement are not read, and `look` is told nothing of shares. */
int mo_cluster_rates(const struct mo_cluster_run *like, double target, double *holds, moire_error *err);
#endif
