/* SPDX-License-Identifier: Apache-2.0
 * reuse.h - what other tenants have put out of the shared cache since a layer last ran.
 *
 * A profile is measured warm, one model over and over: what the model itself puts out is in it.  What others
 * touched since costs the layer's cold time besides, by the share of its lines that are gone: 1 - exp(-b / C)
 * after b bytes of others through a cache of C bytes, as if each line that comes in took the place of one
 * chosen at random.  Shared caches with hashed sets and approximate LRU lie between that and a sharp edge at
 * C; no number is fitted.  Bytes are the least traffic of the layers, in profiles. */
#ifndef MO_SIM_REUSE_H
#define MO_SIM_REUSE_H
#include "runtime/profile/profile.h"

struct mo_sim_reuse_tenant {
    const struct mo_profile *profile;
    double own;   /* bytes that it touched */
    double *seen; /* by layer: what others had touched when it last ran; -1 = never */
};

struct mo_sim_reuse {
    const struct mo_env *env;
    double cache, touched; /* touched: by all */
    int n_tenants;
    struct mo_sim_reuse_tenant *tenant;
};

/* MOIRE_ENOMEM or MOIRE_OK; free it either way. */
int mo_sim_reuse_init(struct mo_sim_reuse *reuse, const struct mo_env *env, double cache, int n_tenants);
void mo_sim_reuse_free(struct mo_sim_reuse *reuse);
/* A tenant with a profile that knows cold times; others cost nothing and put nothing out. */
int mo_sim_reuse_open(struct mo_sim_reuse *reuse, int tenant, const struct mo_profile *profile);

/* ns that layers [begin, end) take besides on so many cores now. */
double mo_sim_reuse_extra(const struct mo_sim_reuse *reuse, int tenant, int cores, int begin, int end);
/* They have run. */
void mo_sim_reuse_ran(struct mo_sim_reuse *reuse, int tenant, int begin, int end);
#endif
