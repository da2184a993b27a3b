/* SPDX-License-Identifier: Apache-2.0
 * policy_bed.h - a scheduler on 8 cores whose blocks the test ends and resizes by hand, to see what a policy
 * decides. */
#ifndef MO_TEST_POLICY_BED_H
#define MO_TEST_POLICY_BED_H
#include "runtime/sched/policy.h"
#include "runtime/sched/sched.h"

enum { BED_CORES = 8, BED_RUNS = 16, BED_TENANTS = 2 };

struct policy_bed {
    struct mo_sched *s;
    struct mo_run run[BED_RUNS]; /* the blocks that began, in order */
    struct mo_resize resize;     /* the last one */
    int starts, resizes, n_resolved, resolved[BED_RUNS], n;
    struct mo_profile *profile[BED_TENANTS];
};

const struct mo_env *policy_bed_env(void);
/* A tenant of a view without a scheduler behind it: the query *waiting waits, and an instance is free. */
struct mo_view_tenant policy_bed_waits(const struct mo_profile *profile, int64_t qos_ns, const int *waiting);
/* resizes: blocks can gain and lose cores. */
void policy_bed_open(struct policy_bed *bed, const char *policy, bool resizes);
/* No decision was refused. */
void policy_bed_close(struct policy_bed *bed);
/* The profile is the bed's from here on. */
void policy_bed_tenant(struct policy_bed *bed, struct mo_profile *profile, int64_t qos_ns);
/* A query of a tenant that comes `now` and was due at `arrival`. */
void policy_bed_submit(struct policy_bed *bed, int tenant, int64_t arrival, int64_t now);
/* The block of a core ends, and answers are delivered. */
void policy_bed_finish(struct policy_bed *bed, int lead, int64_t now);
#endif
