/* SPDX-License-Identifier: Apache-2.0
 * inss_world.h - the world in which InSS's scheduler learns (Han et al., sections 3.3 and 4): a group of
 * GPUs, models that come at rates which change, and InSS's latency model (inss_latency.h) for what a decision
 * is worth.
 *
 * An episode has its own models (drawn with replacement), their targets and rates.  At each step rates move,
 * a decision is applied for mo_inss_step_s seconds, and what is not served waits for the next step.  The
 * reward of a model is equation 2,
 *
 *   r = h / (root mean square of h over batches and shares) - omega v
 *
 * with h queries/s served and v the part of them that is late, where the paper has for h what its GPU could
 * serve: here a model is worth no more than what comes.  A model that is not placed has v = 1.
 *
 * Or its tenants are given (struct mo_inss_world_tenant), as the paper trains on the ten models that it then
 * serves: an episode draws only how much of their rates comes, between a half and all of it, and rates step
 * as those of bench/inss/inss_demand.h do.
 *
 * Shares are not rounded to lets: MPS divides an A100 in steps of 2 %, and what is rounded to steps of a
 * tenth hardly ever changes with the noise of exploring, so nothing is learned from that.
 *
 * Time alone and use come from 16 points of a profile.  The coefficients of slowdown are fitted to three runs
 * a model beside another; for these the machine's own model of interference answers (that of machine files,
 * which was fitted to measured pairs). */
#ifndef MO_INSS_WORLD_H
#define MO_INSS_WORLD_H
#include "runtime/planner/inss/inss_latency.h"
#include "runtime/planner/inss/inss_scene.h"

enum { MO_INSS_WORLD_MODELS = 16 };
extern const double mo_inss_omega, mo_inss_step_s;

struct mo_inss_world_model {
    const char *name;
    const struct mo_share_profile *profile;
    int64_t target_ns; /* the target that episodes vary */
    double rms;        /* of queries/s over batches and shares */
};

/* One that every episode has. */
struct mo_inss_world_tenant {
    int model; /* index */
    int64_t target_ns;
    double rate; /* queries/s, at most but for the steps */
};

/* What a step came to. */
struct mo_inss_outcome {
    double reward[MO_INSS_CROWD]; /* by party */
    double came, served, late;    /* queries/s; late: of those that came, unserved ones too */
};

struct mo_inss_world {
    const struct mo_plan_kind *kind;
    int n_models;
    struct mo_inss_world_model model[MO_INSS_WORLD_MODELS];
    struct mo_inss_model latency[MO_INSS_WORLD_MODELS];
    const struct mo_inss_world_tenant *tenants; /* borrowed; NULL: drawn anew for each episode */
    int n_tenants;                              /* up to the slots of the group */
    uint64_t rng;
    /* the episode */
    struct mo_inss_scene scene;
    int of[MO_INSS_CROWD]; /* model of a party, by its `at` */
    double first_rate[MO_INSS_CROWD];
    int step;
};

/* kind, names and profiles are borrowed.  MOIRE_EINVAL: a model cannot be learned from its profile, which is
 * named; 1 to MO_INSS_WORLD_MODELS of them. */
int mo_inss_world_open(struct mo_inss_world *world, const struct mo_plan_kind *kind, int n_gpus,
                       const char *const *names, const struct mo_share_profile *const *profiles, int n,
                       uint64_t seed, moire_error *err);
/* A new episode, with its first step; the scene is not decided. */
void mo_inss_world_begin(struct mo_inss_world *world);
/* The next step. */
void mo_inss_world_move(struct mo_inss_world *world);
/* What the scene as it is decided comes to; queues are as they are left behind. */
void mo_inss_world_apply(struct mo_inss_world *world, struct mo_inss_outcome *out);
#endif
