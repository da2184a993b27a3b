/* SPDX-License-Identifier: Apache-2.0
 * profile.h - measured solo time of every layer of a model by number of cores, as prefix sums, so that the
 * time of any block on any let is one subtraction.
 *
 * Core counts that were not measured are interpolated on the line through (1/c, time) of the measured
 * neighbours, which is Amdahl's law between two points.  Below the smallest measured count the core time is
 * that of the smallest, which is the most favourable guess; above the largest the time is that of the
 * largest.  Immutable after mo_profile_finish(). */
#ifndef MO_PROFILE_H
#define MO_PROFILE_H
#include <stdbool.h>
#include "runtime/base/env.h"
#include "runtime/profile/ladder.h"

/* Levels of pressure 0, 1/5, ... 1 that versions are chosen for. */
enum { MO_PROFILE_LEVELS = 6, MO_PROFILE_VERSIONS = 8 };

/* What layers do in the versions that are chosen for one level of pressure. */
struct mo_profile_does {
    int64_t solo, under;   /* ns alone, and under that pressure */
    int64_t alone, shared; /* bytes read again past the shared cache: alone, and with all cores busy */
};

struct mo_profile {
    const struct mo_env *env;
    int n_layers, max_cores;
    int64_t *sum;   /* [max_cores + 1][n_layers + 1]: row c holds the prefix sums at c cores */
    int64_t *rest;  /* [n_layers + 1][max_cores + 1]: from that layer to the end, core counts side by side */
    int64_t *bytes; /* [n_layers + 1]: prefix sums of least memory traffic; zeros = not known */
    int64_t *cold;  /* [n_layers + 1]: prefix sums of the core time that a layer takes besides when no cache
                       holds its operands; zeros = not known */
    int64_t *ops;   /* [n_layers + 1]: prefix sums of arithmetic operations; zeros = not known */
    bool *measured; /* [max_cores + 1] */
    int *fastest;   /* [n_layers]: core count with the least time from that layer to the end */
    struct mo_ladder ladder,
        crowded;                   /* core counts layer by layer, by price of time; with `level` the second */
    struct mo_profile_does *level; /* [MO_PROFILE_LEVELS][max_cores + 1][n_layers + 1]: prefix sums by
                                      profile_versions.h, or NULL: one version a layer */
    int *
        choices; /* [n_layers + 1]: layers before that one which run in one version or another; NULL = none */
    int needed[MO_PROFILE_VERSIONS + 1]; /* layers of which so many versions are chosen anywhere */
};

/* NULL: out of memory.  max_cores >= 1, n_layers >= 1. */
struct mo_profile *mo_profile_create(const struct mo_env *env, int n_layers, int max_cores);
void mo_profile_destroy(struct mo_profile *profile);
/* Records layer times (ns, n_layers of them) at c cores; the minimum is kept when it is called again. */
void mo_profile_record(struct mo_profile *profile, int cores, const int64_t *layer_ns);
/* Least memory traffic of every layer, bytes. */
void mo_profile_traffic(struct mo_profile *profile, const int64_t *layer_bytes);
/* Records how much longer every layer takes on one core when caches are cold, in ns; negative values count
 * as 0. */
void mo_profile_cold(struct mo_profile *profile, const int64_t *layer_ns);
/* Arithmetic operations of every layer; a multiply-add is two. */
void mo_profile_operations(struct mo_profile *profile, const int64_t *layer_ops);
/* Which layers run in one version or another.  MOIRE_OK or MOIRE_ENOMEM. */
int mo_profile_choices(struct mo_profile *profile, const bool *layer_has_some);
/* Fills the rows that were not measured: enough for mo_profile_time(). */
void mo_profile_interpolate(struct mo_profile *profile);
/* Does that and works out what follows from all rows, the ladder of plans too. */
void mo_profile_finish(struct mo_profile *profile);

static inline const int64_t *mo_profile_row(const struct mo_profile *p, int cores) {
    int c = cores < 1 ? 1 : cores > p->max_cores ? p->max_cores : cores;
    return p->sum + (int64_t)c * (p->n_layers + 1);
}
/* Predicted solo time of layers [begin, end) on `cores` cores. */
static inline int64_t mo_profile_time(const struct mo_profile *p, int cores, int begin, int end) {
    const int64_t *row = mo_profile_row(p, cores);
    return row[end] - row[begin];
}
/* Predicted solo times of layers [begin, end of the model), by core count: entries 1 to max_cores. */
static inline const int64_t *mo_profile_rest(const struct mo_profile *p, int begin) {
    return p->rest + (int64_t)begin * (p->max_cores + 1);
}
static inline int64_t mo_profile_bytes(const struct mo_profile *p, int begin, int end) {
    return p->bytes[end] - p->bytes[begin];
}
static inline int64_t mo_profile_ops(const struct mo_profile *p, int begin, int end) {
    return p->ops[end] - p->ops[begin];
}
/* Whether a layer of [begin, end) runs in one version or another. */
static inline bool mo_profile_has_choice(const struct mo_profile *p, int begin, int end) {
    return p->choices && p->choices[end] > p->choices[begin];
}
/* Time of layers [begin, end) on `cores` besides when caches are cold. */
static inline double mo_profile_extra(const struct mo_profile *p, int cores, int begin, int end) {
    return (double)(p->cold[end] - p->cold[begin]) / (cores > 1 ? cores : 1);
}
/* Prefix sums of a level at so many cores. */
static inline struct mo_profile_does *mo_profile_level(const struct mo_profile *p, int level, int cores) {
    int c = cores < 1 ? 1 : cores > p->max_cores ? p->max_cores : cores;
    return p->level + ((int64_t)level * (p->max_cores + 1) + c) * (p->n_layers + 1);
}
/* The level that is nearest to a pressure from 0 to 1. */
static inline int mo_profile_level_of(double pressure) {
    return (int)((pressure < 0 ? 0 : pressure > 1 ? 1 : pressure) * (MO_PROFILE_LEVELS - 1) + 0.5);
}
/* What layers [begin, end) do on `cores` cores under a pressure from 0 to 1; the profile has levels. */
static inline struct mo_profile_does mo_profile_at(const struct mo_profile *p, double pressure, int cores,
                                                   int begin, int end) {
    const struct mo_profile_does *sum = mo_profile_level(p, mo_profile_level_of(pressure), cores);
    return (struct mo_profile_does){sum[end].solo - sum[begin].solo, sum[end].under - sum[begin].under,
                                    sum[end].alone - sum[begin].alone, sum[end].shared - sum[begin].shared};
}
/* Core count with the least predicted time for layers [begin, n_layers), at most `limit`. */
int mo_profile_fastest(const struct mo_profile *p, int begin, int limit);
/* End of the longest run of layers from `begin` with predicted time <= bound; at least begin + 1.  Where that
 * is brief, because the next layer takes longer than the bound by itself, with that layer: a block of its own
 * for what is before it would cost as much as it takes. */
int mo_profile_block(const struct mo_profile *p, int cores, int begin, int64_t bound_ns);
#endif
