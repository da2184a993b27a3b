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
 * What runs when nobody measures pressure, the fastest unless the search kept another, is always a version
 * and comes first.  So is what serves the most cores best, unless another version does nearly as well there:
 * the fastest on one core may have fewer units than these. */
#ifndef MO_FRONT_H
#define MO_FRONT_H
#include "variants/store_format.h"

struct mo_front_rule {
    double share_ns; /* the layer's share of the target; 0 = no bound */
    int cores;       /* that the layer may use */
    int versions;    /* V, at most MO_STORE_VERSIONS */
    int kept;        /* 1 + the index of the point that runs without pressure; 0: the fastest */
};

/* Time of a point on so many cores: as measured on the front's, else by whole units. */
double mo_front_time(const struct mo_store_front *front, const struct mo_store_point *point, int cores);
/* Two versions at most: the kept one, and the one that serves the rule's cores best. False: that is one. */
bool mo_front_widen(struct mo_store_front *front, const struct mo_front_rule *rule);

/* Steps 1 to 3: sorts the points by ns[0] and sets every state.  Every ns[0] is above 0. */
void mo_front_select(struct mo_store_front *front, const struct mo_front_rule *rule);
/* Step 4, over versions whose ns[] are complete. */
void mo_front_prune(struct mo_store_front *front);
/* A version that a neighbour makes faster: no pressure explains that, the machine was not quiet. */
struct mo_front_odd {
    int point, less, more; /* levels of pressure */
    double less_ns, more_ns;
};
/* Whether one of the versions, whose ns[] are complete, takes less time under more pressure by over a tenth
 * and two microseconds; *odd is where that is most. */
bool mo_front_is_odd(const struct mo_store_front *front, struct mo_front_odd *odd);
int mo_front_versions(const struct mo_store_front *front);
#endif
