/* SPDX-License-Identifier: Apache-2.0
 * inss_scene.h - what the two stages of InSS's scheduler (Han et al., section 5) see of a group of GPUs and
 * the models to be served on it, and what their answers mean.  Training and planning both go through it, so
 * that a policy decides on what it was trained on.
 *
 * The paper trains an actor for each model.  Here one actor places every model and sees what kind of model it
 * is: demand, tightness of its target, how it scales with share and batch, what it uses.  So a policy may
 * serve a model twice, and any mix of those it was trained with.  Models are placed by falling demand.
 *
 * All values of a state are of the order of 1.  Pure functions without memory of their own. */
#ifndef MO_INSS_SCENE_H
#define MO_INSS_SCENE_H
#include "runtime/planner/planner.h"

enum {
    MO_INSS_GROUP = 4,                             /* most GPUs of a group (the paper's) */
    MO_INSS_SLOTS = 8,                             /* most models on one GPU */
    MO_INSS_CROWD = MO_INSS_GROUP * MO_INSS_SLOTS, /* models of a group */
    MO_INSS_BATCH = 32,                            /* largest batch */
    MO_INSS_TRAITS = 9,
    MO_INSS_PLACE_STATE = MO_INSS_TRAITS + 1 + 5 * MO_INSS_GROUP, /* most floats of a state of either stage */
    MO_INSS_DIVIDE_STATE = MO_INSS_SLOTS * (1 + MO_INSS_TRAITS) + 2
};

/* A model to be served. */
struct mo_inss_party {
    const struct mo_share_profile *profile; /* borrowed */
    double rate, queued; /* queries/s that come; those that wait, as queries/s over one step */
    int64_t target_ns;
    double cost; /* GPU-seconds a query, at best */
    struct mo_share_use use;
    float trait[MO_INSS_TRAITS];
    int at;         /* the caller's number */
    int gpu, units; /* decided: gpu -1: not placed; units of it */
    int share;      /* permille, what the policy said before it became units */
    int batch;      /* 1..MO_INSS_BATCH */
};

struct mo_inss_scene {
    const struct mo_plan_kind *kind;
    int n_gpus, n_there, n_slots, n; /* the nets know n_gpus; there are n_there of them */
    struct mo_inss_party party[MO_INSS_CROWD];
};

/* Slots of a GPU of that kind: as many lets as it may have and its smallest ones fit. */
int mo_inss_slots(const struct mo_plan_kind *kind);
/* Floats of a state of each stage. */
int mo_inss_place_state_size(int n_gpus);
int mo_inss_divide_state_size(int n_slots);

/* Fills cost, use and traits; `queued` and rate are set.  Not placed. */
void mo_inss_party_look(struct mo_inss_party *party, const struct mo_plan_kind *kind);
/* By falling demand; equals keep their order of `at`. */
void mo_inss_sort(struct mo_inss_party *party, int n);

/* What the first stage sees when party i comes (those before have been decided), and which GPUs have a slot
 * and memory for it.  False: none has. */
bool mo_inss_place_state(const struct mo_inss_scene *scene, int i, float *state, float *mask);
/* What the second stage sees of a GPU; member[slot] is the party.  Returns how many there are. */
int mo_inss_divide_state(const struct mo_inss_scene *scene, int gpu, float *state, float *mask, int *member);
/* Units and batches of those from the action (td3.h): each has the smallest let, its share is of the rest,
 * and units are sizes that the kind allows, as near to the shares as they can be together. */
void mo_inss_divide(struct mo_inss_scene *scene, const int *member, int n, const float *action);
#endif
