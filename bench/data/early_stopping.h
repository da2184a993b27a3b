/* SPDX-License-Identifier: Apache-2.0
 * early_stopping.h - when a run has seen enough queries to say that a share of them is in time: the rule of
 * MLPerf's LoadGen.
 *
 * Of n queries `late` were not in time.  If a query were in time with just the probability `share`, so few
 * late ones would be as likely as the binomial distribution says; the run passes where that is at most 1 -
 * confidence. */
#ifndef MO_EARLY_STOPPING_H
#define MO_EARLY_STOPPING_H
#include <stdint.h>

/* Queries that must be in time beside `late` that are not, 0 < share, confidence < 1. */
int64_t mo_early_least(int64_t late, double share, double confidence);
/* How many more would have to be in time, 0: the run passes. */
int64_t mo_early_missing(int64_t met, int64_t late, double share, double confidence);
#endif
