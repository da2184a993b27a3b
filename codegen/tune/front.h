/* SPDX-License-Identifier: Apache-2.0
 * front.h - which implementations of a layer become its versions: Algorithm 1 of VELTAIR (Liu et al., ASPLOS
 * 2022), on measured points.
 *
 *   1  those that miss the layer's share of the target on the cores at hand are late
 *   2  of the rest the Pareto front in parallelism (more is better), blocking (larger is better) and traffic
 *      beyond the private cache (less is better); the paper has the first two; on machines with large
 *      private caches the third predicts sensitivity better
 *   3  V of them spread evenly along the front sorted by blocking
 *   4  once these are measured under pressure: those that others cover within 90 % at every level go
 *
 * The fastest without pressure is always a version: it is what runs when nobody measures pressure. */
#ifndef MO_FRONT_H
#define MO_FRONT_H
#include "variants/store_format.h"

struct mo_front_rule {
    double share_ns; /* the layer's share of the target; 0 = no bound */
    int cores;       /* that the layer may use; its time on them is by whole units */
    int versions;    /* V, at most MO_STORE_VERSIONS */
};

/* Steps 1 to 3: sorts the points by ns[0] and sets every state.  Every ns[0] is above 0. */
void mo_front_select(struct mo_store_front *front, const struct mo_front_rule *rule);
/* Step 4, over versions whose ns[] are complete. */
void mo_front_prune(struct mo_store_front *front);
int mo_front_versions(const struct mo_store_front *front);
/* The least pressure from 0 to 1 from which `b` is faster than `a` up to the next level; -1: nowhere. */
double mo_front_crossover(const double a[MO_STORE_LEVELS], const double b[MO_STORE_LEVELS]);
#endif
