/* SPDX-License-Identifier: Apache-2.0
 * early_stopping.c - see early_stopping.h. */
#include "bench/data/early_stopping.h"

#include <math.h>

/* The logarithm of the probability of at most `late` of met + late queries, each late with 1 - share.  The
 * terms are added relative to the largest one so far, for the first may be as small as no double is. */
static double log_chance(int64_t met, int64_t late, double share) {
    const double n = (double)(met + late), odds = log1p(-share) - log(share);
    double term = n * log(share), most = term, sum = 1;
    for (int64_t k = 1; k <= late; k++) {
        term += log((n - (double)k + 1) / (double)k) + odds;
        if (term > most) {
            sum *= exp(most - term);
            most = term;
        }
        sum += exp(term - most);
    }
    return most + log(sum);
}

int64_t mo_early_least(int64_t late, double share, double confidence) {
    const double bound = log1p(-confidence);
    int64_t below = 0, enough = 1;
    while (log_chance(enough, late, share) > bound) {
        below = enough;
        enough *= 2;
    }
    while (enough - below > 1) {
        const int64_t middle = below + (enough - below) / 2;
        if (log_chance(middle, late, share) <= bound)
            enough = middle;
        else
            below = middle;
    }
    return enough;
}

int64_t mo_early_missing(int64_t met, int64_t late, double share, double confidence) {
    if (log_chance(met, late, share) <= log1p(-confidence)) return 0;
    return mo_early_least(late, share, confidence) - met;
}
