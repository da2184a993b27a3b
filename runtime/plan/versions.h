/* SPDX-License-Identifier: Apache-2.0
 * versions.h - the versions of a layer (moire tune) in a plan, and the choice among them by pressure.
 *
 * The first version is the step itself.  Versions of one packing share the packed weights; other packings are
 * taken while they add less than half of what the model's own packed weights take, so that a model with five
 * versions of every layer stays below 1.5 times the memory of one with one.  Compiled models hold them too,
 * at their end: mapped, let go of after the check of the whole, and brought in when they first run. */
#ifndef MO_PLAN_VERSIONS_H
#define MO_PLAN_VERSIONS_H
#include "runtime/plan/plan.h"
#include "variants/store.h"

struct mo_version {
    mo_kernel *run;
    const char *kernel;
    enum mo_packing packing;
    const void *weights;
    const float *bias;
    int64_t units, scratch_bytes, block_bytes, l3_bytes; /* struct mo_variant */
    double ns[MO_STORE_LEVELS];
    int cores; /* of part_ns: struct mo_store_version */
    double part_ns;
};

/* Gives a step that a compiled variant serves its versions, where the store has them. */
void mo_plan_versions(struct mo_plan *plan, const struct mo_plan_options *options, const char *signature,
                      struct mo_step *step);
/* How much slower the tuned layers together are at each level of pressure, each by the version that is best
 * there; 1 at level 0, never falling.  False: no layer is tuned. */
bool mo_plan_slowdown(const struct mo_plan *plan, double out[MO_STORE_LEVELS]);
/* Time of a version at a pressure from 0 to 1 on some cores: the core with most units does all of these, each
 * longer by what a split was measured to cost on version->cores, in proportion below. */
double mo_version_time(const struct mo_version *version, double pressure, int cores);
/* The version of a step for a pressure and a number of cores: another than the first must be 2 % faster than
 * it. */
int mo_version_choose(const struct mo_step *step, double pressure, int cores);
/* Bytes of packed weights that only versions beside the first use. */
int64_t mo_plan_version_bytes(const struct mo_plan *plan);
#endif
