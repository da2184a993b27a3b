/* SPDX-License-Identifier: Apache-2.0
 * demand.h - what blocks ask of memory while they run.
 *
 * Of what a model reads once a query, the share goes to memory that the shared cache does not hold with all
 * active models in it, each keeping its part.  Of what its versions read again (profile_versions.h), what its
 * part of the cache does not hold, and that part shrinks as other cores get busy.  The simulator slows blocks
 * down by it, policies predict with it who will interfere with whom. */
#ifndef MO_DEMAND_H
#define MO_DEMAND_H
#include "runtime/profile/profile.h"

/* What all cores share, as far as it is known. */
struct mo_memory {
    double bytes_ns;    /* ceiling of memory; 0 = not known */
    double cache_bytes; /* shared cache; 0 = all traffic goes to memory */
};

/* Of a block, in bytes a ns of its time alone. */
struct mo_demand {
    double once;          /* read once a query, */
    double alone, shared; /* and read again, nobody else running and everybody */
};

/* Layers [begin, end) in the versions for a pressure; *solo: ns that they take alone. */
static inline struct mo_demand mo_demand_of(const struct mo_profile *p, double pressure, int cores, int begin,
                                            int end, double *solo) {
    struct mo_profile_does does =
        p->level ? mo_profile_at(p, pressure, cores, begin, end)
                 : (struct mo_profile_does){.solo = mo_profile_time(p, cores, begin, end)};
    *solo = (double)does.solo;
    if (does.solo <= 0) return (struct mo_demand){0};
    return (struct mo_demand){(double)mo_profile_bytes(p, begin, end) / *solo, (double)does.alone / *solo,
                              (double)does.shared / *solo};
}

/* Share of what is read once that the cache does not catch; resident: bytes that the active models touch. */
static inline double mo_demand_missed(double cache_bytes, double resident) {
    return cache_bytes <= 0 ? 1 : resident > cache_bytes ? 1 - cache_bytes / resident : 0;
}

/* Of `cores`, `taken` run blocks, that one on `own` among them: the share of the other cores that do. */
static inline double mo_demand_beside(int taken, int own, int cores) {
    return taken > own && cores > own ? (double)(taken - own) / (cores - own) : 0;
}

/* busy: share of the other cores that run blocks. */
static inline double mo_demand_now(const struct mo_demand *d, double missed, double busy) {
    return d->once * missed + d->alone + busy * (d->shared - d->alone);
}
#endif
