/* SPDX-License-Identifier: Apache-2.0
 * together.h - one function on several pinned cores at once, as the runtime's worker teams run layers. */
#ifndef MO_BENCH_TOGETHER_H
#define MO_BENCH_TOGETHER_H
#include "runtime/base/env.h"
#include "runtime/device/barrier.h"
#include "runtime/device/work_claims.h"

/* What every worker is handed. */
struct mo_together {
    int n;
    struct mo_barrier barrier;
    struct mo_claims claims[2];
    struct mo_claims_member *member; /* of every worker */
};
typedef void mo_together_fn(void *ctx, struct mo_together *team, int worker);

/* Runs fn as workers 0 to n-1 and returns when all have; with n = 1 on the calling thread.  Denormals are
 * flushed as in the runtime.  MOIRE_EINVAL: fewer than n cores may be used here. */
int mo_together(const struct mo_env *env, int n, mo_together_fn *fn, void *ctx, moire_error *err);
/* Waits until all have come and begins a block of so many steps for mo_claims_work().  Every worker calls it;
 * block: how many were begun before. */
struct mo_claims *mo_together_begin(struct mo_together *team, int worker, int n_steps, int block);
#endif
