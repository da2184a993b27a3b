/* SPDX-License-Identifier: Apache-2.0
 * foresight.h - how much longer a model's queries take than was predicted, learned from those that ended.
 *
 * A prediction counts the model's own queue and its kernels' times on a quiet machine.  It knows neither the
 * queries of other models nor those that are joined, and not that the machine is slower now than it was.  All
 * that is in one factor: the mean of took / predicted and its deviation, smoothed as TCP smooths round trips
 * (RFC 6298).
 *
 * Invariant.  The factor lies between MS_FORESIGHT_LEAST and MS_FORESIGHT_MOST; without experience it is 1.
 */
#ifndef MS_FORESIGHT_H
#define MS_FORESIGHT_H
#include <stdint.h>

#define MS_FORESIGHT_LEAST 0.25
#define MS_FORESIGHT_MOST  8.0

/* All zero: no experience. */
struct ms_foresight {
    double mean, deviation;
};

/* What nineteen of twenty queries stay below, as a multiple of what is predicted. */
double ms_foresight_factor(const struct ms_foresight *foresight);
/* One query has ended; nothing is learned where nothing was predicted. */
void ms_foresight_learn(struct ms_foresight *foresight, int64_t predicted_ns, int64_t took_ns);
#endif
