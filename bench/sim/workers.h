/* SPDX-License-Identifier: Apache-2.0
 * workers.h - pieces of a simulation done by several processes, whose results come in the order of the
 * pieces: how many there are shows in nothing but the time. */
#ifndef MO_BENCH_WORKERS_H
#define MO_BENCH_WORKERS_H
#include <jansson.h>
#include "bench/load/session.h"

struct mo_bench_workers {
    struct mo_bench_session *session;
    int n_jobs, n_pieces; /* n_jobs: processes; more than there are pieces are not started */
    /* Does piece `index` in a process of its own: *row gets its result, which may come with an error;
     * *decisions what is to be added to the count. */
    int (*piece)(void *self, int index, json_t **row, int64_t *decisions, moire_error *err);
    void *self;
};

/* Appends the rows to `results`; an error is the first piece's that has one.  MOIRE_EINTERRUPTED: the user
 * interrupts; what is done by then is in `results`, and processes that do not end soon are ended. */
int mo_bench_workers_run(const struct mo_bench_workers *workers, json_t *results, int64_t *decisions,
                         moire_error *err);
#endif
