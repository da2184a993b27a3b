/* SPDX-License-Identifier: Apache-2.0
 * foresight.c - see foresight.h. */
#include "serve/query/foresight.h"

#include <math.h>

/* Weight of one query. */
static const double GAIN = 1.0 / 16;
/* Mean deviations above the mean: 1.6 standard deviations, where times are distributed normally. */
static const double DEVIATIONS = 2;

double ms_foresight_factor(const struct ms_foresight *f) {
    if (f->mean <= 0) return 1;
    return fmin(fmax(f->mean + DEVIATIONS * f->deviation, MS_FORESIGHT_LEAST), MS_FORESIGHT_MOST);
}

void ms_foresight_learn(struct ms_foresight *f, int64_t predicted_ns, int64_t took_ns) {
    if (predicted_ns <= 0 || took_ns <= 0) return;
    const double ratio = fmin((double)took_ns / (double)predicted_ns, MS_FORESIGHT_MOST);
    if (f->mean <= 0) {
        f->mean = ratio;
        f->deviation = ratio / 4;
        return;
    }
    f->deviation += GAIN * (fabs(ratio - f->mean) - f->deviation);
    f->mean += GAIN * (ratio - f->mean);
}
