/* SPDX-License-Identifier: Apache-2.0
 * policy_file.h - a trained scheduler as data: the two actors of InSS, and what they were trained for.
 * Critics, targets and moments are needed by training only and stay in its checkpoint. */
#ifndef MO_POLICY_FILE_H
#define MO_POLICY_FILE_H
#include "runtime/learn/dense.h"
#include "runtime/learn/learn_io.h"

enum { MO_POLICY_MODELS = 64, MO_POLICY_NAME = 64, MO_POLICY_GPUS = 192 };

struct mo_policy_file {
    struct mo_region *region;  /* owns the nets; NULL: somebody else does */
    char gpus[MO_POLICY_GPUS]; /* the type of GPU and how it is cut: mo_inss_gpus() of inss_plan.h */
    int n_models;
    char model[MO_POLICY_MODELS][MO_POLICY_NAME];
    int n_gpus,
        n_slots; /* of a group: GPUs among which a model is placed, models that these can hold at once */
    uint64_t seed;
    int64_t updates;             /* that the nets have seen */
    struct mo_net place, divide; /* pi_phi': n_gpus outputs; pi_phi'': 2 n_slots outputs */
};

int mo_policy_write(const struct mo_env *env, const char *path, const struct mo_policy_file *policy,
                    moire_error *err);
/* Errors as mo_learn_read(); what is read has nets whose outputs fit n_gpus and n_slots. */
int mo_policy_read(const struct mo_env *env, const char *path, struct mo_policy_file *out, moire_error *err);
void mo_policy_close(struct mo_policy_file *policy); /* all zeros is fine */

/* Index of a model that it was trained for; -1: it was not. */
int mo_policy_model(const struct mo_policy_file *policy, const char *model);
#endif
