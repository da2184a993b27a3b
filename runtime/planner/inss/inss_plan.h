/* SPDX-License-Identifier: Apache-2.0
 * inss_plan.h - the learned planner, InSS (Han et al.): a trained policy (runtime/learn/policy_file.h)
 * decides.
 *
 * It is no row of mo_planners(), for it plans nothing without a policy, which comes with the view
 * (mo_plan_view.learned).  Machines have GPUs of one kind.  More GPUs than the policy's group are cut into
 * groups of that many, and models are dealt to groups by falling demand, each to the group with least so far;
 * groups then decide for themselves (the paper's section 5.1, "grouping both GPUs and models").
 *
 * A model gets one let, as in the paper.  Its batch there is the one that the let's duty cycle brings at the
 * rate that the let can hold by the model of planner.h; the policy's batch is used in training only. */
#ifndef MO_INSS_PLAN_H
#define MO_INSS_PLAN_H
#include "runtime/learn/policy_file.h"
#include "runtime/planner/inss/inss_scene.h"

extern const struct mo_planner mo_planner_inss;
/* Planners that decide by a policy: "inss", and "inss-ni", the paper's InSS without interference.  Its nets
 * are the same; their lets are filled as if what runs beside did no harm.  NULL: another name. */
const struct mo_planner *mo_inss_planner(const char *name);

/* Room for the nets' layers while they decide. */
struct mo_inss_work {
    float layer[MO_NET_LAYERS][MO_NET_WIDTH];
};

/* What a policy is tied to, into text[MO_POLICY_GPUS]: "v100 of 10 units, lets of 1 2 5 10, 5 at a time".
 * How many GPUs there are is not part of it. */
void mo_inss_gpus(const struct mo_plan_kind *kind, char *text);
/* MOIRE_EINVAL, with the reason: the policy was trained for another type of GPU, or its nets are made for
 * other scenes.  path: its file, for the message; NULL: not known. */
int mo_inss_policy_fits(const struct mo_policy_file *policy, const char *path,
                        const struct mo_plan_kind *kind, moire_error *err);
/* Reads a policy for GPUs of that kind.  Errors as mo_policy_read() and mo_inss_policy_fits(); then *out is
 * all zeros. */
int mo_inss_policy_open(const struct mo_env *env, const char *path, const struct mo_plan_kind *kind,
                        struct mo_policy_file *out, moire_error *err);
/* Fills gpu, units and batch of every party of a scene of at most policy->n_gpus GPUs: Algorithm 1, lines
 * 7-14, without exploring. */
void mo_inss_decide(const struct mo_policy_file *policy, struct mo_inss_scene *scene,
                    struct mo_inss_work *work);
#endif
