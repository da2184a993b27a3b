/* SPDX-License-Identifier: Apache-2.0
 * gpus.h - the GPUs of a machine as the scheduler sees them: each is a run of units, a let is some
 * consecutive units of one.
 *
 * The units of all GPUs are numbered as cores are: GPU g holds units [first[g], first[g] + its kind's units)
 * of one struct mo_cores.  A CPU whose cores are lets of a plan is one more kind: its units are cores, its
 * profiles know batch 1, and preparing a let on it costs nothing.  Immutable after mo_gpus_finish(). */
#ifndef MO_GPUS_H
#define MO_GPUS_H
#include "runtime/base/cores.h"
#include "runtime/planner/planner.h"

struct mo_gpus {
    int n_kinds, n_gpus;
    struct mo_plan_kind kinds[MO_PLAN_KINDS];
    int64_t
        prepare_ns[MO_PLAN_KINDS]; /* from asking for lets until they can serve, others serving meanwhile */
    int kind[MO_PLAN_GPUS];        /* by GPU: index into kinds */
    /* So long before the block of a let should end the next one may be queued behind it, which hides what the
     * host takes between two blocks; 0 = never: blocks begin on idle lets only. */
    int64_t ahead_ns;
    const struct mo_policy_file *learned; /* for policies that learned (mo_policy.learned); borrowed, lives as
                                             long as these GPUs.  NULL = none */
    /* by mo_gpus_finish(): */
    int n_units;
    int first[MO_PLAN_GPUS];
    short gpu_of[MO_MAX_CORES]; /* by unit; -1 = there is no such unit */
};

/* Numbers the units.  MOIRE_EINVAL names the kind or the GPU that is wrong; MOIRE_ELIMIT: too many units. */
int mo_gpus_finish(struct mo_gpus *gpus, moire_error *err);

static inline const struct mo_plan_kind *mo_gpus_kind(const struct mo_gpus *g, int gpu) {
    return &g->kinds[g->kind[gpu]];
}
/* The units of a let of a plan. */
static inline struct mo_cores mo_gpus_let(const struct mo_gpus *g, const struct mo_planned_let *let) {
    struct mo_cores c = {0};
    for (int i = 0; i < let->units; i++)
        mo_cores_add(&c, g->first[let->gpu] + let->first + i);
    return c;
}
#endif
