/* SPDX-License-Identifier: Apache-2.0
 * share_profile.h - what one model takes on a share of one type of GPU: latency by batch and share, and what
 * it uses of the GPU meanwhile, so that a planner's question is one look-up.
 *
 * A share is in permille of the GPU's compute (an MPS percentage times 10, or units of a let times 1000 over
 * units of the GPU).  Measurements lie on a grid of batches and shares that may have holes. mo_share_finish()
 *   - fills holes: the ratio of a time to that of the nearest share measured at the same batch is taken from
 *     the batches around it where both were measured, on a line between them (its end value outside), or is
 *     the inverse ratio of the shares where no batch has both;
 *   - interpolates over batch on a line between measured batches; below the smallest, its time;
 *   - interpolates over share on the line through (1/share, time), Amdahl's law between two points; below the
 *     smallest share the product of share and time is that of the smallest, above the largest the time is;
 *   - raises times where measurement noise would let a larger batch or a smaller share be faster, so that
 *     latency never falls with the batch and never rises with the share.
 * Use of L2, memory and SMs is interpolated on lines over batch and share; holes take the use at the nearest
 * share in proportion to throughput, for a query moves the same bytes wherever it runs.
 *
 * Times are those of the GPU alone.  The copies of a query (in_bytes, out_bytes over copy_bytes_ns) come
 * before and after them, and run beside the kernels of other batches: a batch is answered after both, while
 * the rate that a let can hold is bounded by the longer of the two.
 *
 * Immutable after mo_share_finish(); all functions are total: an odd argument gets a defined answer. */
#ifndef MO_SHARE_PROFILE_H
#define MO_SHARE_PROFILE_H
#include <stdbool.h>
#include "runtime/base/env.h"

enum {
    MO_SHARE_WHOLE = 1000, /* permille */
    MO_SHARE_BATCH = 256,  /* largest batch of a profile */
    MO_SHARE_GRID = 64,    /* most batches, and most shares, that were measured */
    MO_SHARE_SEGMENTS = 64,
    MO_SHARE_SEGMENT_NS = 1000000
};

/* Longer than any run, and safe to add up. */
#define MO_SHARE_NEVER (INT64_MAX / 1024)

/* Fractions of what the whole GPU has, 0 to 1. */
struct mo_share_use {
    double sm, l2, dram;
};

/* One point of the grid.  ns 0 = not measured; use: negative = not measured. */
struct mo_share_cell {
    int64_t ns;
    struct mo_share_use use;
};

struct mo_share_profile {
    const struct mo_env *env;
    /* what the loaded model holds on the GPU; bytes that a query brings in and takes out, and what the link
     * moves a ns (0 = the times hold the transfers already, or they are not known) */
    int64_t memory_bytes, in_bytes, out_bytes;
    double copy_bytes_ns;
    int n_batches, n_shares, max_batch;
    int *batch, *share;         /* the grid, both rising */
    struct mo_share_cell *cell; /* [n_batches][n_shares] as recorded */
    /* by mo_share_finish(): */
    int64_t *ns;              /* [max_batch + 1][n_shares]; row 0 is zeros */
    struct mo_share_use *use; /* the same shape */
    unsigned char *segment;   /* [1001]: index of the last measured share <= that share, 0 when none is */
};

/* Batches and shares rise strictly, batches within 1..MO_SHARE_BATCH, shares within 1..1000, at most
 * MO_SHARE_GRID of each.  NULL: out of memory, or they do not. */
struct mo_share_profile *mo_share_create(const struct mo_env *env, int n_batches, const int *batch,
                                         int n_shares, const int *share);
void mo_share_destroy(struct mo_share_profile *profile); /* NULL is fine */
/* Records what was measured at the batch and share of these indices; the last record counts. */
void mo_share_record(struct mo_share_profile *profile, int at_batch, int at_share,
                     const struct mo_share_cell *cell);
/* No batches beyond that one from now on: the model runs in no larger ones. */
void mo_share_limit(struct mo_share_profile *profile, int batch);
/* Fills the tables.  MOIRE_EINVAL: a batch has no time at any share; it is named. */
int mo_share_finish(struct mo_share_profile *profile, moire_error *err);

/* Solo time of a batch on the GPU, ns, without copies.  0 for a batch < 1; MO_SHARE_NEVER for one larger
 * than any measured, and on a share < 1.  A share > 1000 is 1000. */
int64_t mo_share_latency(const struct mo_share_profile *profile, int batch, int share);
/* What the model uses of the GPU while that batch runs on that share.  Batches are clamped. */
struct mo_share_use mo_share_use_at(const struct mo_share_profile *profile, int batch, int share);
/* Time of the copies of a batch alone on the link, ns; 0 when they are not known. */
int64_t mo_share_copy(const struct mo_share_profile *profile, int batch);

/* Largest batch that is answered within the limit on that share, its time on the GPU `slowdown` (>= 1) times
 * the solo time, copies included; 0: not even one query. */
int mo_share_batch(const struct mo_share_profile *profile, int share, double slowdown, int64_t limit_ns);
/* Most queries a second that the share holds in batches answered within the limit, copies running beside
 * kernels; 0 when none fits. */
double mo_share_rate(const struct mo_share_profile *profile, int share, double slowdown, int64_t limit_ns);
/* Index of the knee of that rate over n rising shares: the greatest curvature of the curve scaled to the unit
 * square among its inner points, the smaller share of equals; n - 1 where the curve has none (fewer than
 * three shares, a straight line, nothing fits). */
int mo_share_knee(const struct mo_share_profile *profile, const int *share, int n, int64_t limit_ns);
/* Into how many segments of about equal time a model is cut so that none takes longer than
 * MO_SHARE_SEGMENT_NS on that share, in its largest batch or, where that takes longer than limit_ns, in one
 * that takes limit_ns (0 = no limit): 1 to MO_SHARE_SEGMENTS. */
int mo_share_segments(const struct mo_share_profile *profile, int share, int64_t limit_ns);
/* Share-seconds a query, the currency of planning: seconds of a whole GPU, the least over batches answered
 * within the limit; INFINITY when none is. */
double mo_share_cost(const struct mo_share_profile *profile, int share, int64_t limit_ns);

/* The share of `units` of a GPU of gpu_units, rounded down. */
static inline int mo_share_of_units(int units, int gpu_units) {
    return gpu_units > 0 ? (int)((int64_t)units * MO_SHARE_WHOLE / gpu_units) : 0;
}
#endif
