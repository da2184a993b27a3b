/* SPDX-License-Identifier: Apache-2.0
 * twin.h - what soft actor-critic (sacd.h) and TD3 (td3.h) share: options, and two critics that learn one
 * goal, each with a target that follows it.  A state is worth the lesser of what the two targets say
 * (Fujimoto et al. 2018). */
#ifndef MO_TWIN_H
#define MO_TWIN_H
#include "runtime/learn/dense.h"

struct mo_learn_options {
    int n_state;     /* floats of a state */
    int hidden;      /* width of both hidden layers */
    int batch, room; /* rows of a mini-batch, of the replay buffer */
    double gamma;    /* discount of what comes a step later */
    double soft;     /* kappa: part of the way that targets go in one update */
    double rate;     /* l: Adam's, of all nets */
};
/* Table 2 of the paper has the same sizes and gamma for both agents: 256, 256, 100000, 0.99. */
struct mo_learn_options mo_learn_options(int n_state, double soft, double rate);
/* Whether each is in its range. */
bool mo_learn_options_valid(const struct mo_learn_options *options);

struct mo_twin {
    struct mo_net critic[2], target[2];
    struct mo_adam adam[2];
    struct mo_pass pass[2]; /* scratch */
};
/* False: out of memory. */
bool mo_twin_make(struct mo_region *region, const int *size, int batch, struct mo_twin *out);
/* Values of the critics as mo_net_draw() has them; targets alike. */
void mo_twin_draw(struct mo_twin *twin, uint64_t *rng);

/* What critics learn from: n rows `width` floats apart, each of which begins with a critic's input, and the
 * goal of each. */
struct mo_twin_batch {
    const struct mo_sgemm *sgemm;
    const float *rows, *goal;
    int n, width;
    int output_at; /* where a row says which output was the one; -1: there is one output */
};
/* Slope of mean (Q(s,a) - goal)^2 / 2 by the values of one critic; returns that loss. */
double mo_twin_slope(struct mo_twin *twin, int critic, const struct mo_twin_batch *batch, float *slope);
/* One step of both critics.  slope: scratch of as many floats as a critic has values; loss[2]: before. */
void mo_twin_step(struct mo_twin *twin, const struct mo_twin_batch *batch, double rate, float *slope,
                  double *loss);
void mo_twin_follow(struct mo_twin *twin, double part);
#endif
