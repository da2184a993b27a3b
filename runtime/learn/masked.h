/* SPDX-License-Identifier: Apache-2.0
 * masked.h - a distribution over the allowed ones of n things, and a choice among them.
 *
 * A mask has 1 for what is allowed and 0 for what is not.  What is not allowed has probability 0 exactly and
 * is never chosen, whatever the scores are: also when they are huge or no numbers. */
#ifndef MO_MASKED_H
#define MO_MASKED_H
#include "runtime/base/numbers.h"

/* Softmax of the scores of the allowed ones; zeros for all when none is.  log_p (NULL: not wanted) gets the
 * logarithms, 0 where p is 0. */
static inline void mo_masked_softmax(int n, const float *scores, const float *mask, float *p, float *log_p) {
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        if (mask[i] > 0 && scores[i] > top) top = scores[i];
    for (int i = 0; i < n; i++)
        sum += mask[i] > 0 ? exp(scores[i] - top) : 0;
    for (int i = 0; i < n; i++) {
        p[i] = mask[i] > 0 ? (float)(exp(scores[i] - top) / sum) : 0;
        if (log_p) log_p[i] = p[i] > 0 ? (float)(scores[i] - top - log(sum)) : 0;
    }
}

/* One of them with these probabilities; the last allowed one takes what rounding leaves.  -1: none is
 * allowed. */
static inline int mo_masked_draw(int n, const float *p, const float *mask, uint64_t *rng) {
    double left = mo_draw_unit(rng);
    int last = -1;
    for (int i = 0; i < n; i++) {
        if (!(mask[i] > 0)) continue;
        last = i;
        left -= p[i];
        if (left < 0) return i;
    }
    return last;
}

/* The allowed one with the greatest score, the first of equals.  -1: none is allowed. */
static inline int mo_masked_best(int n, const float *scores, const float *mask) {
    int best = -1;
    for (int i = 0; i < n; i++)
        if (mask[i] > 0 && (best < 0 || scores[i] > scores[best])) best = i;
    return best;
}
#endif
