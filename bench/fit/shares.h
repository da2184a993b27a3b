/* SPDX-License-Identifier: Apache-2.0
 * shares.h - how well the interpolation of share_profile.h predicts what was measured and left out.
 *
 *   batch   every inner batch left out, one at a time, at all its shares
 *   powers  only batches 1, 2, 4, ... kept: what a short measurement would know
 *   share   every inner share left out, one at a time, at all its batches
 *   hole    single cells left out of shares that were measured at less than half of the batches
 *
 * Errors are |predicted / measured - 1| of the time on the GPU. */
#ifndef MO_BENCH_SHARES_H
#define MO_BENCH_SHARES_H
#include <jansson.h>
#include "runtime/profile/share_table.h"

enum { MO_SHARES_BATCH, MO_SHARES_POWERS, MO_SHARES_SHARE, MO_SHARES_HOLE, MO_SHARES_WAYS };

struct mo_shares_error {
    int n; /* points predicted; 0: nothing can be left out that way */
    double mean, p90, worst;
};

/* out[way]; MOIRE_ENOMEM. */
int mo_shares_check(const struct mo_share_profile *profile, struct mo_shares_error out[MO_SHARES_WAYS],
                    moire_error *err);
/* "batch", "powers", ... */
const char *mo_shares_way(int way);
/* {"model", "machine", "derived", "batches", "shares", "batch": {"n", "mean", "p90", "worst"}, ...}; NULL:
 * out of memory. */
json_t *mo_shares_json(const struct mo_share_table *table,
                       const struct mo_shares_error error[MO_SHARES_WAYS]);
/* {"experiment", "results": [those]} as a table. */
void mo_shares_print(const json_t *document);
#endif
