/* SPDX-License-Identifier: Apache-2.0
 * inss_train.h - `moire train inss`: Algorithm 1 of InSS (Han et al.) in the world of inss_world.h, with soft
 * actor-critic for placement and TD3 for shares and batches (runtime/learn/).
 *
 * Beside the policy OUTPUT come OUTPUT.checkpoint, all that is needed to go on, and the learning curves
 * OUTPUT.csv and OUTPUT.svg, a value an episode.  A seed gives the same bytes on one kind of processor,
 * interrupted or not. */
#ifndef MO_INSS_TRAIN_H
#define MO_INSS_TRAIN_H
#include "bench/learn/inss_world.h"

enum { MO_INSS_EPISODES = 100000 };

/* Means of an episode. */
struct mo_inss_point {
    double reward;      /* of a step, over its models, in rewards of equation 2 */
    double served_pct;  /* of the queries that came */
    double late_pct;    /* of them, too late or not served */
    double temperature; /* tau at its end */
};

struct mo_inss_train_options {
    const char *machine; /* its name */
    const struct mo_plan_kind *kind;
    int n_gpus, n_models;
    const char *const *names;
    const struct mo_share_profile *const *profiles;
    const struct mo_inss_world_tenant *tenants; /* the ones of every episode; NULL: drawn */
    int n_tenants;                              /* 1 to what the group has slots for */
    uint64_t seed;
    int episodes, steps;     /* Table 2: 1600 of 100 */
    int hidden, batch, room; /* 256, 256, 100000 */
    int every;               /* episodes from checkpoint to checkpoint */
    bool plain;              /* products by plain loops: for tests on machines without OpenBLAS */
    bool resume;             /* go on from OUTPUT.checkpoint */
    const char *output;
    bool (*stop)(void *ctx); /* asked after each episode; NULL: never */
    void (*progress)(void *ctx, int episode, const struct mo_inss_point *point); /* NULL: none */
    void *ctx;
};
/* Table 2 of the paper; machine, models and output are to be filled in. */
struct mo_inss_train_options mo_inss_train_options(void);

struct mo_inss_trained {
    int episodes;        /* so far */
    int64_t updates;     /* of either agent */
    double update_ms[2]; /* a step: soft actor-critic's update, TD3's */
    struct mo_inss_point last;
};

/* Trains until all episodes are done or `stop` says so, and writes what is said above.  MOIRE_EUNSUPPORTED:
 * there is no OpenBLAS; MOIRE_EFAILED: training diverged, with the checkpoint that is left; those of reading
 * and writing. */
int mo_inss_train(const struct mo_env *env, const struct mo_inss_train_options *options,
                  struct mo_inss_trained *out, moire_error *err);
#endif
