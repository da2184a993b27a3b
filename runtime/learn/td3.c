/* SPDX-License-Identifier: Apache-2.0
 * td3.c - see td3.h.
 *
 * A row of the replay buffer is state, action, mask, next state, next mask, reward, last: state and action
 * lie side by side, as a critic reads them. */
#include "runtime/learn/td3.h"

#include "runtime/learn/masked.h"

struct mo_td3_options mo_td3_options(int n_state, int n_slots) {
    return (struct mo_td3_options){.learn = mo_learn_options(n_state, 0.005, 3e-4),
                                   .n_slots = n_slots,
                                   .explore = 0.1,
                                   .smooth = 0.2,
                                   .limit = 0.5,
                                   .every = 2};
}

/* Where the parts of a row begin, and how many floats a critic reads. */
static int critic_width(const struct mo_td3 *a) {
    return a->options.learn.n_state + 2 * a->options.n_slots;
}
static int mask_at(const struct mo_td3 *a) {
    return critic_width(a);
}
static int next_at(const struct mo_td3 *a) {
    return critic_width(a) + a->options.n_slots;
}
static int next_mask_at(const struct mo_td3 *a) {
    return next_at(a) + a->options.learn.n_state;
}
static int tail_at(const struct mo_td3 *a) { /* reward, last */
    return next_mask_at(a) + a->options.n_slots;
}
static const float *row_of(const struct mo_td3 *a, int i) {
    return a->rows + (size_t)i * (size_t)a->experience.width;
}

static bool valid(const struct mo_td3_options *o) {
    return mo_learn_options_valid(&o->learn) && o->learn.n_state <= MO_NET_WIDTH - 2 * MO_TD3_SLOTS &&
           o->n_slots >= 1 && o->n_slots <= MO_TD3_SLOTS && o->explore >= 0 && o->explore <= 100 &&
           o->smooth >= 0 && o->smooth <= 100 && o->limit >= 0 && o->limit <= 100 && o->every >= 1;
}

static bool make_parts(struct mo_td3 *a) {
    const struct mo_td3_options *o = &a->options;
    const int act[MO_NET_LAYERS + 1] = {o->learn.n_state, o->learn.hidden, o->learn.hidden, 2 * o->n_slots};
    const int judge[MO_NET_LAYERS + 1] = {critic_width(a), o->learn.hidden, o->learn.hidden, 1};
    const size_t batch = (size_t)o->learn.batch, width = (size_t)tail_at(a) + 2,
                 inputs = (size_t)critic_width(a);
    struct mo_region *r = a->region;
    bool ok = mo_net_make(r, act, &a->actor) && mo_net_make(r, act, &a->actor_target) &&
              mo_adam_make(r, a->actor.n, &a->actor_adam) &&
              mo_pass_make(r, &a->actor, o->learn.batch, &a->actor_pass) &&
              mo_twin_make(r, judge, o->learn.batch, &a->twin) &&
              mo_experience_make(r, (int)width, o->learn.room, &a->experience);
    if (!ok) return false;
    a->rows = mo_region_array(r, batch * width, sizeof *a->rows);
    a->inputs = mo_region_array(r, batch * inputs, sizeof *a->inputs);
    a->by_input = mo_region_array(r, batch * inputs, sizeof *a->by_input);
    a->goal = mo_region_array(r, batch, sizeof *a->goal);
    a->slope = mo_region_array(r, a->actor.n > a->twin.critic[0].n ? a->actor.n : a->twin.critic[0].n,
                               sizeof *a->slope);
    return a->rows && a->inputs && a->by_input && a->goal && a->slope;
}

int mo_td3_create(const struct mo_env *env, const struct mo_sgemm *sgemm,
                  const struct mo_td3_options *options, uint64_t seed, struct mo_td3 **out,
                  moire_error *err) {
    *out = NULL;
    if (!valid(options))
        return mo_fail(err, MOIRE_EINVAL, "twin delayed gradient: an option is out of its range");
    struct mo_region *region = mo_region_create(env);
    struct mo_td3 *a = region ? mo_region_alloc(region, sizeof *a) : NULL;
    if (a) *a = (struct mo_td3){.region = region, .sgemm = *sgemm, .options = *options, .rng = mo_mix(~seed)};
    if (!a || !make_parts(a)) {
        mo_region_destroy(region);
        return mo_fail(err, MOIRE_ENOMEM, "twin delayed gradient: out of memory");
    }
    mo_net_draw(&a->actor, &a->rng);
    mo_net_copy(&a->actor_target, &a->actor);
    mo_twin_draw(&a->twin, &a->rng);
    *out = a;
    return MOIRE_OK;
}

void mo_td3_destroy(struct mo_td3 *agent) {
    if (agent) mo_region_destroy(agent->region);
}

/* The head, with noise of that deviation, each within +-limit, from *rng (not touched when there is none). */
static void head(int n, const float *outputs, const float *mask, double deviation, double limit,
                 uint64_t *rng, float *action) {
    float noise[2 * MO_TD3_SLOTS] = {0}, scores[MO_TD3_SLOTS];
    for (int j = 0; deviation > 0 && j < 2 * n; j++)
        noise[j] = (float)mo_within(-limit, limit, deviation * mo_draw_normal(rng));
    for (int j = 0; j < n; j++)
        scores[j] = outputs[j] + noise[j];
    mo_masked_softmax(n, scores, mask, action, NULL);
    for (int j = n; j < 2 * n; j++) {
        double turn = mo_within(-1, 1, tanh((double)outputs[j]) + noise[j]);
        action[j] = mask[j - n] > 0 ? (float)turn : 0;
    }
}

void mo_td3_head(int n_slots, const float *outputs, const float *mask, float *action) {
    head(n_slots, outputs, mask, 0, 0, NULL, action);
}

int mo_td3_batch(float turn, int most) {
    return 1 + (int)floor((mo_within(-1, 1, turn) + 1) / 2 * (most - 1) + 0.5);
}

void mo_td3_explore(struct mo_td3 *agent, const float *state, const float *mask, float *action) {
    const struct mo_sgemm plain = {0};
    const float *outputs =
        mo_net_forward(&plain, &agent->actor, state, agent->options.learn.n_state, 1, &agent->actor_pass);
    head(agent->options.n_slots, outputs, mask, agent->options.explore, INFINITY, &agent->rng, action);
}

void mo_td3_keep(struct mo_td3 *agent, const struct mo_td3_step *step) {
    const size_t state = (size_t)agent->options.learn.n_state, slots = (size_t)agent->options.n_slots;
    float *row = mo_experience_add(&agent->experience), *tail = row + tail_at(agent);
    memset(row, 0, (size_t)agent->experience.width * sizeof *row);
    memcpy(row, step->state, state * sizeof *row);
    memcpy(row + state, step->action, 2 * slots * sizeof *row);
    memcpy(row + mask_at(agent), step->mask, slots * sizeof *row);
    if (!step->last) {
        memcpy(row + next_at(agent), step->next, state * sizeof *row);
        memcpy(row + next_mask_at(agent), step->next_mask, slots * sizeof *row);
    }
    tail[0] = (float)step->reward;
    tail[1] = step->last ? 1 : 0;
}

/* Fills the critics' inputs with the batch's states, from where in its rows they are, and what an actor does
 * in them; `smooth`: with the noise of targets. */
static void act(struct mo_td3 *a, const struct mo_net *actor, int state_at, int masks_at, bool smooth) {
    const int n_state = a->options.learn.n_state, n = a->options.n_slots, width = critic_width(a);
    const float *outputs = mo_net_forward(&a->sgemm, actor, a->rows + state_at, a->experience.width,
                                          a->options.learn.batch, &a->actor_pass);
    for (int i = 0; i < a->options.learn.batch; i++) {
        float *to = a->inputs + (size_t)i * (size_t)width;
        memcpy(to, row_of(a, i) + state_at, (size_t)n_state * sizeof *to);
        head(n, outputs + (size_t)i * 2 * (size_t)n, row_of(a, i) + masks_at, smooth ? a->options.smooth : 0,
             a->options.limit, &a->rng, to + n_state);
    }
}

void mo_td3_goals(struct mo_td3 *a) {
    const int batch = a->options.learn.batch, width = critic_width(a);
    act(a, &a->actor_target, next_at(a), next_mask_at(a), true);
    const float *q0 =
        mo_net_forward(&a->sgemm, &a->twin.target[0], a->inputs, width, batch, &a->twin.pass[0]);
    const float *q1 =
        mo_net_forward(&a->sgemm, &a->twin.target[1], a->inputs, width, batch, &a->twin.pass[1]);
    for (int i = 0; i < batch; i++) {
        const float *tail = row_of(a, i) + tail_at(a);
        a->goal[i] = (float)(tail[0] + (tail[1] > 0 ? 0 : a->options.learn.gamma * fminf(q0[i], q1[i])));
    }
}

static struct mo_twin_batch batch_of(const struct mo_td3 *a) {
    return (struct mo_twin_batch){.sgemm = &a->sgemm,
                                  .rows = a->rows,
                                  .goal = a->goal,
                                  .n = a->options.learn.batch,
                                  .width = a->experience.width,
                                  .output_at = -1};
}

double mo_td3_critic_slope(struct mo_td3 *a, int critic, float *slope) {
    const struct mo_twin_batch batch = batch_of(a);
    return mo_twin_slope(&a->twin, critic, &batch, slope);
}

/* The slope by the actor's outputs from that by the action: through the softmax, and through tanh. */
static void through_head(int n, const float *action, const float *mask, const float *by_action, float *to) {
    double mean = 0;
    for (int j = 0; j < n; j++)
        mean += (double)action[j] * by_action[j];
    for (int j = 0; j < n; j++) {
        const double turn = action[n + j];
        to[j] = (float)(action[j] * (by_action[j] - mean));
        to[n + j] = mask[j] > 0 ? (float)(by_action[n + j] * (1 - turn * turn)) : 0;
    }
}

double mo_td3_actor_slope(struct mo_td3 *a, float *slope) {
    const int batch = a->options.learn.batch, n = a->options.n_slots, n_state = a->options.learn.n_state;
    const int width = critic_width(a);
    act(a, &a->actor, 0, mask_at(a), false);
    const float *q = mo_net_forward(&a->sgemm, &a->twin.critic[0], a->inputs, width, batch, &a->twin.pass[0]);
    float *by_q = mo_pass_slope(&a->twin.pass[0]), *by_output = mo_pass_slope(&a->actor_pass);
    double loss = 0;
    for (int i = 0; i < batch; i++) {
        loss -= q[i];
        by_q[i] = -1.0F / (float)batch;
    }
    mo_net_backward(&a->sgemm, &a->twin.critic[0], a->inputs, width, &a->twin.pass[0], NULL, a->by_input);
    for (int i = 0; i < batch; i++) {
        const size_t at = (size_t)i * (size_t)width + (size_t)n_state;
        through_head(n, a->inputs + at, row_of(a, i) + mask_at(a), a->by_input + at,
                     by_output + (size_t)i * 2 * (size_t)n);
    }
    mo_net_backward(&a->sgemm, &a->actor, a->rows, a->experience.width, &a->actor_pass, slope, NULL);
    return loss / batch;
}

/* The actor, and then all targets (Algorithm 1, lines 22-24). */
static double update_actor(struct mo_td3 *a) {
    const double loss = mo_td3_actor_slope(a, a->slope);
    mo_adam_step(&a->actor_adam, a->actor.values, a->slope, a->options.learn.rate);
    mo_net_follow(&a->actor_target, &a->actor, a->options.learn.soft);
    mo_twin_follow(&a->twin, a->options.learn.soft);
    return loss;
}

int mo_td3_update(struct mo_td3 *a, struct mo_td3_losses *losses, moire_error *err) {
    const struct mo_twin_batch batch = batch_of(a);
    mo_experience_draw(&a->experience, &a->rng, a->options.learn.batch, a->rows);
    mo_td3_goals(a);
    mo_twin_step(&a->twin, &batch, a->options.learn.rate, a->slope, losses->critic);
    a->updates++;
    losses->delayed = a->updates % a->options.every != 0;
    losses->actor = losses->delayed ? 0 : update_actor(a);
    if (!isfinite(losses->critic[0] + losses->critic[1] + losses->actor))
        return mo_fail(err, MOIRE_EFAILED, "training diverged: in update %lld a loss is no number",
                       (long long)a->updates);
    return MOIRE_OK;
}
