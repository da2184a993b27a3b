/* SPDX-License-Identifier: Apache-2.0
 * td3.h - twin delayed deep deterministic policy gradient (Fujimoto et al. 2018) over how one resource is
 * divided among up to n_slots parties, with one more number for each (InSS section 5.2, Algorithm 1, lines
 * 20-25): an actor, two critics, and a target for each of them.
 *
 * The actor's 2 n_slots outputs z become an action by the head
 *
 *   share_j   = softmax of z_j + noise over the slots that the mask allows: nothing is left over
 *   turn_j    = tanh(z_{n+j}) + noise, within -1 .. 1: mo_td3_batch() reads it as a batch size
 *
 * and what the mask does not allow has 0 in both.  Noise is n_1 of section 5.2 when exploring and the clipped
 * n_2 in targets; it comes before the softmax, so that the sum stays 1.
 *
 *   critics   minimise mean (Q_v(s,a) - y)^2 / 2
 *             y = r + gamma min_v Q^_v(s', head(actor^(s') + n_2)); r behind the last step
 *   actor     minimises - mean Q_0(s, head(actor(s))), every `every` updates, and then the targets follow
 *
 * Everything random comes from the agent's own stream: a seed and the same calls give the same bytes. */
#ifndef MO_TD3_H
#define MO_TD3_H
#include "runtime/learn/experience.h"
#include "runtime/learn/twin.h"

enum { MO_TD3_SLOTS = 64 };

struct mo_td3_options {
    struct mo_learn_options learn; /* kappa'' 0.005, l'' 3e-4 */
    int n_slots;                   /* at most MO_TD3_SLOTS */
    double explore, smooth, limit; /* sigma_1 0.1, sigma_2 0.2, c 0.5 */
    int every;                     /* nu, 2 */
};

/* Table 2 of the paper. */
struct mo_td3_options mo_td3_options(int n_state, int n_slots);

/* One step: state and mask before and after it (n_state and n_slots floats), the action (2 n_slots: shares,
 * then turns). */
struct mo_td3_step {
    const float *state, *mask, *action;
    double reward;
    bool last; /* nothing follows: next and next_mask are not used, and may be NULL */
    const float *next, *next_mask;
};

struct mo_td3 {
    struct mo_region *region; /* owns all below */
    struct mo_sgemm sgemm;    /* borrowed: closed by whoever opened it */
    struct mo_td3_options options;
    uint64_t rng;
    int64_t updates;
    struct mo_net actor, actor_target;
    struct mo_adam actor_adam;
    struct mo_twin twin;
    struct mo_experience experience;
    /* scratch of one update; not kept from one to the next */
    struct mo_pass actor_pass;
    float *rows, *inputs, *by_input, *goal, *slope; /* inputs: of a critic, [batch][n_state + 2 n_slots] */
};

/* What the losses were before the step down their slopes. */
struct mo_td3_losses {
    double critic[2], actor;
    bool delayed; /* the actor was left as it is, and its loss is not known */
};

/* env outlives the agent.  MOIRE_EINVAL: an option is out of its range; MOIRE_ENOMEM.  Agents of one seed
 * begin alike. */
int mo_td3_create(const struct mo_env *env, const struct mo_sgemm *sgemm,
                  const struct mo_td3_options *options, uint64_t seed, struct mo_td3 **out, moire_error *err);
void mo_td3_destroy(struct mo_td3 *agent); /* NULL is fine */

/* The head above, without noise: outputs of an actor to an action, 2 n_slots floats each. */
void mo_td3_head(int n_slots, const float *outputs, const float *mask, float *action);
/* A turn as a batch size from 1 to most. */
int mo_td3_batch(float turn, int most);

/* An action of the policy with the noise of exploring.  Takes the agent's scratch. */
void mo_td3_explore(struct mo_td3 *agent, const float *state, const float *mask, float *action);
void mo_td3_keep(struct mo_td3 *agent, const struct mo_td3_step *step);
/* One update from one mini-batch; there must be a step kept.  MOIRE_EFAILED: a loss is no finite number; the
 * agent is not to be used any more. */
int mo_td3_update(struct mo_td3 *agent, struct mo_td3_losses *losses, moire_error *err);

/* Parts of an update, for tests of their slopes; the mini-batch is in agent->rows. */
void mo_td3_goals(struct mo_td3 *agent); /* y into agent->goal */
double mo_td3_critic_slope(struct mo_td3 *agent, int critic, float *slope);
double mo_td3_actor_slope(struct mo_td3 *agent, float *slope);
#endif
