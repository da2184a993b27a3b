/* SPDX-License-Identifier: Apache-2.0
 * admission.h - whether a model takes one more query: its quotas, the queues of its levels, and whether the
 * query can be in time.
 *
 * What is counted are queries that were taken and have not ended.  Those that run are not told apart from
 * those that wait: a bound on waiting ones leaves room for one more on each core. */
#ifndef MS_ADMISSION_H
#define MS_ADMISSION_H
#include "serve/query/foresight.h"
#include "serve/repository/model_settings.h"

/* What a model holds. */
struct ms_held {
    int64_t queries, bytes, level[MS_LEVELS + 1];
    struct ms_foresight foresight; /* where admission is predicted */
};

struct ms_query;
/* Fills level, deadlines and rows of a query that fits its model, and takes it.
 * Returns: MOIRE_OK, and ms_admission_leave() at its end; MOIRE_EBUSY: a quota or a queue is full;
 * MOIRE_ESHED: it cannot be in time. */
int ms_admission_take(struct ms_query *query);
/* Under the repository's lock; ended_ns: now. */
void ms_admission_leave(struct ms_query *query, int64_t ended_ns);
#endif
