/* SPDX-License-Identifier: Apache-2.0
 * sacd.h - discrete soft actor-critic with masks (Christodoulou 2019; InSS section 5.1, Algorithm 1, lines
 * 17-19): an actor whose softmax gives the probabilities of n_actions, two critics that give their values,
 * two targets that follow these, and a temperature that is learned.
 *
 *   critics   minimise mean (Q_v(s,a) - y)^2 / 2
 *             y = r + gamma sum_a pi(a|s') (min_v Q^_v(s',a) - tau log pi(a|s')); r behind the last step
 *   actor     minimises mean sum_a pi(a|s) (tau log pi(a|s) - min_v Q_v(s,a))
 *   tau       minimises mean tau (H(pi(.|s)) - H^(s)), in log tau
 *
 * Means are over a mini-batch, sums over the actions that the state's mask allows.  H^(s) is options.entropy
 * times log(actions allowed).  The paper's Table 2 has H^ = -log(1 + iota) and does not say what iota is;
 * that is negative and no entropy of choices is, so its temperature could only fall to 0.
 *
 * Everything random comes from the agent's own stream: a seed and the same calls give the same bytes. */
#ifndef MO_SACD_H
#define MO_SACD_H
#include "runtime/learn/experience.h"
#include "runtime/learn/twin.h"

enum { MO_SACD_ACTIONS = 64 };

struct mo_sacd_options {
    struct mo_learn_options learn; /* kappa' 0.01; l' 1e-4, of the temperature, too */
    int n_actions;                 /* at most MO_SACD_ACTIONS */
    double temperature;            /* tau at the beginning, 1 */
    double entropy;                /* of an even choice's that the temperature aims at, 0 to 1 */
};

/* Table 2 of the paper, and an entropy of 0.1. */
struct mo_sacd_options mo_sacd_options(int n_state, int n_actions);

/* One step: state and mask before and after it; n_state and n_actions floats each. */
struct mo_sacd_step {
    const float *state, *mask;
    int action;
    double reward;
    bool last; /* nothing follows: next and next_mask are not used, and may be NULL */
    const float *next, *next_mask;
};

struct mo_sacd {
    struct mo_region *region; /* owns all below */
    struct mo_sgemm sgemm;    /* borrowed: closed by whoever opened it */
    struct mo_sacd_options options;
    uint64_t rng;
    int64_t updates;
    struct mo_net actor;
    struct mo_adam actor_adam, tau_adam;
    struct mo_twin twin;
    float log_tau;
    struct mo_experience experience;
    /* scratch of one update; not kept from one to the next */
    struct mo_pass actor_pass;
    float *rows, *goal, *slope, *p, *log_p;
};

/* What the losses were before the step down their slopes. */
struct mo_sacd_losses {
    double critic[2], actor, entropy; /* entropy: mean of the batch */
};

/* env outlives the agent.  MOIRE_EINVAL: an option is out of its range; MOIRE_ENOMEM.  Agents of one seed
 * begin alike. */
int mo_sacd_create(const struct mo_env *env, const struct mo_sgemm *sgemm,
                   const struct mo_sacd_options *options, uint64_t seed, struct mo_sacd **out,
                   moire_error *err);
void mo_sacd_destroy(struct mo_sacd *agent); /* NULL is fine */

/* An action drawn from the policy, to explore; -1: the mask allows none.  Takes the agent's scratch. */
int mo_sacd_explore(struct mo_sacd *agent, const float *state, const float *mask);
void mo_sacd_keep(struct mo_sacd *agent, const struct mo_sacd_step *step);
/* One update of all nets from one mini-batch; there must be a step kept.  MOIRE_EFAILED: a loss is no finite
 * number; the agent is not to be used any more. */
int mo_sacd_update(struct mo_sacd *agent, struct mo_sacd_losses *losses, moire_error *err);

/* Whether every row of the replay buffer has an action that there is: for what was read from a file. */
bool mo_sacd_rows_valid(const struct mo_sacd *agent);

/* Parts of an update, for tests of their slopes; the mini-batch is in agent->rows.  A slope has the form of
 * the net's values. */
void mo_sacd_goals(struct mo_sacd *agent); /* y into agent->goal */
double mo_sacd_critic_slope(struct mo_sacd *agent, int critic, float *slope);
/* *by_log_tau: slope of the temperature's loss; *entropy: mean */
double mo_sacd_actor_slope(struct mo_sacd *agent, float *slope, double *by_log_tau, double *entropy);
#endif
