/* SPDX-License-Identifier: Apache-2.0
 * stalling.h - a shared machine made of this one: cores that stand still now and then, for a live run.
 *
 * No call of the system stops one thread of another program: SIGSTOP stops all of it, and a worker that is
 * made to sleep knows of it.  What a host does is give the core to somebody else, and so does this: on every
 * core a thread of real-time priority (SCHED_FIFO) burns the time in which the core is to stand still, or the
 * part of it by which it is to be slow, and whatever else runs there waits.  When that is, is drawn as for
 * the simulator (bench/data/stalls.h), so that one seed is the same bad day here and there.
 *
 * It takes the right to real-time priority (CAP_SYS_NICE). */
#ifndef MO_BENCH_STALLING_H
#define MO_BENCH_STALLING_H
#include "bench/data/stalls.h"

struct mo_bench_stalling_config {
    const struct mo_env *env;
    const struct mo_bench_stalls *stalls;
    int n_cores; /* as a runtime would choose them */
    int64_t length_ns;
    uint64_t seed;
    int (*go_first)(void); /* gives the calling thread its priority: 0 or an errno; NULL = SCHED_FIFO */
};

struct mo_bench_stalling;
/* From now on.  *out is NULL where there are no stalls.  MOIRE_EUNSUPPORTED: no right to it; MOIRE_ENOMEM,
 * MOIRE_EIO: no threads. */
int mo_bench_stalling_start(const struct mo_bench_stalling_config *config, struct mo_bench_stalling **out,
                            moire_error *err);
/* Ends it; returns the core time that it burnt, ns.  NULL is fine. */
int64_t mo_bench_stalling_stop(struct mo_bench_stalling *stalling);
#endif
