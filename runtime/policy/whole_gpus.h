/* SPDX-License-Identifier: Apache-2.0
 * whole_gpus.h - what policies share that choose among whole GPUs: who is on which, the lets for that, and
 * which GPUs are parked. */
#ifndef MO_WHOLE_GPUS_H
#define MO_WHOLE_GPUS_H
#include "runtime/sched/policy.h"

/* tenants[g][0 .. n[g]) are on GPU g; one without tenants has no let.  A GPU has at most MO_LET_TENANTS, one
 * that is lost none. */
struct mo_whole_gpus {
    int n[MO_PLAN_GPUS];
    short tenants[MO_PLAN_GPUS][MO_LET_TENANTS];
};
/* Puts a tenant on a GPU; false: it does not run there, or the let is full. */
bool mo_whole_gpus_add(struct mo_whole_gpus *on, const struct mo_view *view, int gpu, int tenant);
/* The plan of these lets: one a GPU, on which its tenants take turns; or (`split`) equal ones, one a tenant,
 * where the GPU can be cut so.  Entries say the largest batch whose time is half of the target, at least 1,
 * and no rate: nobody searched. */
void mo_whole_gpus_plan(const struct mo_whole_gpus *on, const struct mo_view *view, bool split,
                        struct mo_lets_plan *out);
bool mo_whole_gpus_same(const struct mo_whole_gpus *a, const struct mo_whole_gpus *b, int n_gpus);

/* Units of a GPU. */
struct mo_cores mo_whole_gpu(const struct mo_gpus *gpus, int gpu);
/* Most queries/s that a GPU holds of a tenant within its target, with some room for bursts; 0: none. */
double mo_whole_gpu_rate(const struct mo_view *view, int gpu, int tenant);
/* Parks exactly these GPUs, where power is known and that is a change. */
void mo_whole_gpus_park(const struct mo_view *view, const bool *parked, struct mo_decisions *out);
#endif
