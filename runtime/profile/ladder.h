/* SPDX-License-Identifier: Apache-2.0
 * ladder.h - how many cores each layer of a model should have, for every price of time.
 *
 * On more cores a model is faster and takes more core time.  At a price of p cores for a unit of time, the
 * best plan from a layer to the end has the least sum over its layers of (cores + p) x time, where another
 * count than in the layer before costs all its cores MO_LADDER_SWITCH_NS.  That is Lagrange's relaxation of
 * the least core time that meets a deadline: the plan of the first rung that is fast enough is the cheapest
 * way to be in time, but for the gap between two rungs.  The first rung has price 0, the last one asks for
 * the least time; prices in between double every second rung.  One pass a rung from the last layer to the
 * first finds the plans of all layers (dynamic programming over the count).
 *
 * There are two ladders.  A layer counts with its time alone; or where the shared cache holds less than half
 * of the models (`crowded`), it counts four fifths of that and one fifth of the time that its cores' part of
 * the memory leaves it when all ask for more than there is: neighbours cannot make it longer.  So a layer
 * that reads much has cores enough to be in time beside others.  A normalization of BERT takes 161 us on one
 * core of cores64 alone, and 830 when memory is full; on 16 cores 28 and 52.  A profile that knows no times
 * under pressure (profile_versions.h) has the first ladder alone.
 *
 * The cost of a switch is that of waiting for cores and warming their caches, not that of the call.  Where it
 * is too small, plans follow every narrow layer and cores change hands all the time: under `moire` the light
 * mix on 64 cores has 87 % in time with 3 us, 92 to 93 % with 20 to 150 us (load 0.82). */
#ifndef MO_LADDER_H
#define MO_LADDER_H
#include <stdbool.h>
#include <stdint.h>

enum { MO_LADDER_RUNGS = 32, MO_LADDER_SWITCH_NS = 20000 };

struct mo_profile;
struct mo_ladder_path;

/* A plan from a layer on, to the end of the model. */
struct mo_ladder_step {
    float time, work; /* ns, and core time in ns */
    int cores;        /* of the first layer */
};

struct mo_ladder {
    struct mo_ladder_step
        *step; /* [n_layers + 2][MO_LADDER_RUNGS]; behind the last layer no time on one core */
    int most[MO_LADDER_RUNGS];   /* cores of the widest layer */
    struct mo_ladder_path *path; /* [max_cores + 1]: scratch */
};

/* Memory for a profile's ladder: false, there is none.  close() follows in any case. */
bool mo_ladder_open(struct mo_profile *profile);
void mo_ladder_close(struct mo_profile *profile);
/* The rows of the profile are known. */
void mo_ladder_fill(struct mo_profile *profile);
/* Its times under pressure are known; false: no memory for the second ladder. */
bool mo_ladder_crowd(struct mo_profile *profile);
/* The plans from a layer on, by rung. */
const struct mo_ladder_step *mo_ladder_from(const struct mo_profile *profile, bool crowded, int layer);
/* Last rung without a layer on more than `cores` cores. */
int mo_ladder_top(const struct mo_profile *profile, bool crowded, int cores);
#endif
