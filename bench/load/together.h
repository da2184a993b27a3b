/* SPDX-License-Identifier: Apache-2.0
 * together.h - one function on several pinned cores at once, as the runtime's worker teams run layers. */
#ifndef MO_BENCH_TOGETHER_H
#define MO_BENCH_TOGETHER_H
#include "runtime/base/env.h"
#include "runtime/device/barrier.h"

/* What every worker is handed; barrier is mo_barrier_wait()'s, for mo_instance_run() too. */
struct mo_together {
    int n;
    struct mo_barrier barrier;
};
typedef void mo_together_fn(void *ctx, struct mo_together *team, int worker);

/* Runs fn as workers 0 to n-1 and returns when all have; with n = 1 on the calling thread.  Denormals are
 * flushed as in the runtime.  MOIRE_EINVAL: fewer than n cores may be used here. */
int mo_together(const struct mo_env *env, int n, mo_together_fn *fn, void *ctx, moire_error *err);
#endif
