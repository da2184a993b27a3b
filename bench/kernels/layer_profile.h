/* SPDX-License-Identifier: Apache-2.0
 * layer_profile.h - the profile of a model by layer: what each took, how fast that is, and how far it is from
 * what the machine can do; as a table, JSON and a Chrome trace. */
#ifndef MO_BENCH_PROFILE_H
#define MO_BENCH_PROFILE_H
#include "bench/kernels/ceiling.h"
#include "bench/kernels/timing.h"

/* One layer, judged.  Rates come from the shortest time. */
struct mo_profile_row {
    char text[80], shape[96];   /* "Conv 3x3 +relu", "[1,64,56,56]" */
    double min_ms, median_ms;   /* wall time, barrier included */
    double share;               /* of the sum over layers */
    double gf, executed_gf, gb; /* GF/s nominal and executed, GB/s that have to move at least */
    double fma_share,
        bound_share;   /* of the multiply-add ceiling; of the least time that the roofline allows */
    const char *limit; /* which ceiling that is: "fma", "L1", "L2", "L3", "memory" */
    int threads;       /* that got a share */
};
void mo_profile_judge(const struct mo_plan *plan, int layer, const struct mo_timing *timing,
                      const struct mo_ceiling *ceiling, struct mo_profile_row *out);

/* The least time of a plan on this machine, ms, the sum of its layers': each as soon as its arithmetic at the
 * ceiling, or its bytes at the bandwidth of the level that holds them, allow.  Of weights that do not all fit
 * into the last cache, what that cannot keep from run to run comes from memory. */
struct mo_floor {
    double written_ms;  /* with the products that the model writes: without Winograd and Strassen */
    double executed_ms; /* with those that the plan's kernels do */
};
struct mo_floor mo_profile_floor(const struct mo_plan *plan, const struct mo_ceiling *ceiling);

/* A list with one object a layer; NULL when out of memory. */
json_t *mo_profile_json(const struct mo_plan *plan, const struct mo_timing *timing,
                        const struct mo_ceiling *ceiling);
/* The table for the terminal, of such a list and mo_ceiling_json(); layers that move nothing (views) are left
 * out. */
void mo_profile_print(const json_t *layers, const json_t *ceiling);
/* The fastest repetition as Chrome trace JSON (opens in Perfetto): one row a worker, its share of every
 * layer; the gap behind a share is waiting for the others. */
int mo_profile_write_trace(const struct mo_env *env, const struct mo_plan *plan,
                           const struct mo_timing *timing, const struct mo_ceiling *ceiling, const char *path,
                           moire_error *err);
#endif
