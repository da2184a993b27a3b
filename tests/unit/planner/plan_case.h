/* SPDX-License-Identifier: Apache-2.0
 * plan_case.h - views for tests of planners: five models with profiles by a formula, and random machines. */
#ifndef MO_TEST_PLAN_CASE_H
#define MO_TEST_PLAN_CASE_H
#include "runtime/planner/inss/inss_plan.h"

struct plan_case {
    struct mo_env env;
    struct mo_share_profile *profiles[MO_PLAN_TENANTS];
    int n_profiles;
    struct mo_plan_kind kinds[MO_PLAN_KINDS];
    int gpu_kind[MO_PLAN_GPUS];
    struct mo_plan_tenant tenants[MO_PLAN_TENANTS];
    char names[MO_PLAN_TENANTS][16];
    struct mo_plan_view view;
    void *scratch;
    size_t scratch_bytes;
};

/* Profile of `fixed + batch x each / min(share, width x batch^0.5)`, in ns, use rising with the batch. */
struct mo_share_profile *plan_case_profile(struct plan_case *c, double fixed, double each, double width,
                                           double l2, double dram);
/* gpu-let's machine: n GPUs in shares of 20, 40, 50, 60, 80, 100 %, two lets each, and five tenants with the
 * targets of the paper, rates 0. */
void plan_case_paper(struct plan_case *c, int n_gpus);
/* Any machine and any tenants, by seed. */
void plan_case_random(struct plan_case *c, uint64_t seed, bool small);
/* mo_plan_make() with scratch that is not zero. */
int plan_case_make(const struct mo_planner *planner, struct plan_case *c, struct mo_lets_plan *out,
                   moire_error *err);
/* Nets of two small layers with weights as they come, in `region`, for groups of n GPUs of that kind. */
struct mo_policy_file plan_case_policy(struct mo_region *region, const struct mo_plan_kind *kind, int n_gpus,
                                       uint64_t seed);
void plan_case_close(struct plan_case *c);
uint64_t plan_case_next(uint64_t *seed);
#endif
