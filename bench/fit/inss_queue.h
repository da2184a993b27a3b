/* SPDX-License-Identifier: Apache-2.0
 * inss_queue.h - the task buffer of InSS in virtual time: queries come by a Poisson process, the oldest wait
 * until a whole batch of them is there and the GPU is free, and leave together when it has run.  The oracle
 * of what runtime/planner/inss/inss_latency.h says of waiting; it shares no formula with it. */
#ifndef MO_BENCH_INSS_QUEUE_H
#define MO_BENCH_INSS_QUEUE_H
#include "runtime/base/env.h"

struct mo_inss_queue {
    int batch;
    double rate, batch_ms; /* queries a second; how long a batch runs */
    int queries;           /* whose latency counts, after a tenth as many that fill the buffer */
    uint64_t seed;
};

struct mo_inss_query {
    double waiting, left_ms; /* as equation 3 takes them: queries in the buffer, this one among them; what the
                                batch before still runs */
    double latency_ms;
};

/* out[queries], by arrival.  MOIRE_EINVAL: no stream that a queue can follow (a batch below 1, a rate or a
 * time not above 0, batches slower than what comes); MOIRE_ENOMEM. */
int mo_inss_queue_run(const struct mo_env *env, const struct mo_inss_queue *queue, struct mo_inss_query *out,
                      moire_error *err);
#endif
