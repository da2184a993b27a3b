/* SPDX-License-Identifier: Apache-2.0
 * sacd.c - see sacd.h.
 *
 * A row of the replay buffer is state, mask, next state, next mask, action, reward, last. */
#include "runtime/learn/sacd.h"

#include "runtime/learn/masked.h"

struct mo_sacd_options mo_sacd_options(int n_state, int n_actions) {
    return (struct mo_sacd_options){.learn = mo_learn_options(n_state, 0.01, 1e-4),
                                    .n_actions = n_actions,
                                    .temperature = 1,
                                    .entropy = 0.1};
}

/* Where the parts of a row begin. */
static int mask_at(const struct mo_sacd *a) {
    return a->options.learn.n_state;
}
static int next_at(const struct mo_sacd *a) {
    return a->options.learn.n_state + a->options.n_actions;
}
static int next_mask_at(const struct mo_sacd *a) {
    return 2 * a->options.learn.n_state + a->options.n_actions;
}
static int tail_at(const struct mo_sacd *a) { /* action, reward, last */
    return 2 * (a->options.learn.n_state + a->options.n_actions);
}
static const float *row_of(const struct mo_sacd *a, int i) {
    return a->rows + (size_t)i * (size_t)a->experience.width;
}

static bool valid(const struct mo_sacd_options *o) {
    return mo_learn_options_valid(&o->learn) && o->n_actions >= 1 && o->n_actions <= MO_SACD_ACTIONS &&
           o->temperature > 0 && o->temperature <= 1e6 && o->entropy >= 0 && o->entropy <= 1;
}

static bool make_parts(struct mo_sacd *a) {
    const struct mo_sacd_options *o = &a->options;
    const int size[MO_NET_LAYERS + 1] = {o->learn.n_state, o->learn.hidden, o->learn.hidden, o->n_actions};
    const size_t batch = (size_t)o->learn.batch, width = (size_t)tail_at(a) + 3,
                 actions = (size_t)o->n_actions;
    struct mo_region *r = a->region;
    bool ok = mo_net_make(r, size, &a->actor) && mo_adam_make(r, a->actor.n, &a->actor_adam) &&
              mo_adam_make(r, 1, &a->tau_adam) &&
              mo_pass_make(r, &a->actor, o->learn.batch, &a->actor_pass) &&
              mo_twin_make(r, size, o->learn.batch, &a->twin) &&
              mo_experience_make(r, (int)width, o->learn.room, &a->experience);
    if (!ok) return false;
    a->rows = mo_region_array(r, batch * width, sizeof *a->rows);
    a->goal = mo_region_array(r, batch, sizeof *a->goal);
    a->slope = mo_region_array(r, a->actor.n, sizeof *a->slope);
    a->p = mo_region_array(r, actions, sizeof *a->p);
    a->log_p = mo_region_array(r, actions, sizeof *a->log_p);
    return a->rows && a->goal && a->slope && a->p && a->log_p;
}

int mo_sacd_create(const struct mo_env *env, const struct mo_sgemm *sgemm,
                   const struct mo_sacd_options *options, uint64_t seed, struct mo_sacd **out,
                   moire_error *err) {
    *out = NULL;
    if (!valid(options))
        return mo_fail(err, MOIRE_EINVAL, "soft actor-critic: an option is out of its range");
    struct mo_region *region = mo_region_create(env);
    struct mo_sacd *a = region ? mo_region_alloc(region, sizeof *a) : NULL;
    if (a) *a = (struct mo_sacd){.region = region, .sgemm = *sgemm, .options = *options, .rng = mo_mix(seed)};
    if (!a || !make_parts(a)) {
        mo_region_destroy(region);
        return mo_fail(err, MOIRE_ENOMEM, "soft actor-critic: out of memory");
    }
    a->log_tau = (float)log(options->temperature);
    mo_net_draw(&a->actor, &a->rng);
    mo_twin_draw(&a->twin, &a->rng);
    *out = a;
    return MOIRE_OK;
}

void mo_sacd_destroy(struct mo_sacd *agent) {
    if (agent) mo_region_destroy(agent->region);
}

int mo_sacd_explore(struct mo_sacd *agent, const float *state, const float *mask) {
    const struct mo_sgemm plain = {0};
    const int n = agent->options.n_actions;
    const float *scores =
        mo_net_forward(&plain, &agent->actor, state, agent->options.learn.n_state, 1, &agent->actor_pass);
    mo_masked_softmax(n, scores, mask, agent->p, NULL);
    return mo_masked_draw(n, agent->p, mask, &agent->rng);
}

void mo_sacd_keep(struct mo_sacd *agent, const struct mo_sacd_step *step) {
    const size_t state = (size_t)agent->options.learn.n_state, actions = (size_t)agent->options.n_actions;
    float *row = mo_experience_add(&agent->experience), *tail = row + tail_at(agent);
    memset(row, 0, (size_t)agent->experience.width * sizeof *row);
    memcpy(row, step->state, state * sizeof *row);
    memcpy(row + mask_at(agent), step->mask, actions * sizeof *row);
    if (!step->last) {
        memcpy(row + next_at(agent), step->next, state * sizeof *row);
        memcpy(row + next_mask_at(agent), step->next_mask, actions * sizeof *row);
    }
    tail[0] = (float)step->action;
    tail[1] = (float)step->reward;
    tail[2] = step->last ? 1 : 0;
}

bool mo_sacd_rows_valid(const struct mo_sacd *agent) {
    const struct mo_experience *e = &agent->experience;
    for (int i = 0; i < e->n; i++) {
        const float action = e->rows[(size_t)i * (size_t)e->width + (size_t)tail_at(agent)];
        if (!(action >= 0 && action < (float)agent->options.n_actions)) return false;
    }
    return true;
}

/* The outputs of a net for the batch, from where in its rows the states are. */
static float *over_batch(struct mo_sacd *a, const struct mo_net *net, int at, struct mo_pass *pass) {
    return mo_net_forward(&a->sgemm, net, a->rows + at, a->experience.width, a->options.learn.batch, pass);
}

void mo_sacd_goals(struct mo_sacd *a) {
    const int n = a->options.n_actions;
    const double tau = exp((double)a->log_tau);
    const float *scores = over_batch(a, &a->actor, next_at(a), &a->actor_pass);
    const float *q0 = over_batch(a, &a->twin.target[0], next_at(a), &a->twin.pass[0]);
    const float *q1 = over_batch(a, &a->twin.target[1], next_at(a), &a->twin.pass[1]);
    for (int i = 0; i < a->options.learn.batch; i++, scores += n, q0 += n, q1 += n) {
        const float *row = row_of(a, i), *tail = row + tail_at(a);
        double value = 0;
        mo_masked_softmax(n, scores, row + next_mask_at(a), a->p, a->log_p);
        for (int j = 0; j < n; j++) /* what is not allowed has p 0 */
            value += a->p[j] * (fminf(q0[j], q1[j]) - tau * a->log_p[j]);
        a->goal[i] = (float)(tail[1] + (tail[2] > 0 ? 0 : a->options.learn.gamma * value));
    }
}

static struct mo_twin_batch batch_of(const struct mo_sacd *a) {
    return (struct mo_twin_batch){.sgemm = &a->sgemm,
                                  .rows = a->rows,
                                  .goal = a->goal,
                                  .n = a->options.learn.batch,
                                  .width = a->experience.width,
                                  .output_at = tail_at(a)};
}

double mo_sacd_critic_slope(struct mo_sacd *a, int critic, float *slope) {
    const struct mo_twin_batch batch = batch_of(a);
    return mo_twin_slope(&a->twin, critic, &batch, slope);
}

/* How many actions a row's state allows. */
static int n_allowed(const struct mo_sacd *a, const float *row) {
    int n = 0;
    for (int j = 0; j < a->options.n_actions; j++)
        n += row[mask_at(a) + j] > 0;
    return n;
}

double mo_sacd_actor_slope(struct mo_sacd *a, float *slope, double *by_log_tau, double *entropy) {
    const int n = a->options.n_actions, batch = a->options.learn.batch;
    const double tau = exp((double)a->log_tau);
    const float *scores = over_batch(a, &a->actor, 0, &a->actor_pass);
    const float *q0 = over_batch(a, &a->twin.critic[0], 0, &a->twin.pass[0]);
    const float *q1 = over_batch(a, &a->twin.critic[1], 0, &a->twin.pass[1]);
    float *by_score = mo_pass_slope(&a->actor_pass);
    double loss = 0, short_of = 0;
    *entropy = 0;
    for (int i = 0; i < batch; i++, scores += n, q0 += n, q1 += n, by_score += n) {
        double mean = 0, own = 0;
        mo_masked_softmax(n, scores, row_of(a, i) + mask_at(a), a->p, a->log_p);
        for (int j = 0; j < n; j++) {
            mean += a->p[j] * (tau * a->log_p[j] - fminf(q0[j], q1[j]));
            own -= (double)a->p[j] * a->log_p[j];
        }
        for (int j = 0; j < n; j++)
            by_score[j] = (float)(a->p[j] * (tau * a->log_p[j] - fminf(q0[j], q1[j]) - mean) / batch);
        loss += mean;
        *entropy += own / batch;
        short_of += (own - a->options.entropy * log(fmax(n_allowed(a, row_of(a, i)), 1))) / batch;
    }
    *by_log_tau = tau * short_of;
    mo_net_backward(&a->sgemm, &a->actor, a->rows, a->experience.width, &a->actor_pass, slope, NULL);
    return loss / batch;
}

int mo_sacd_update(struct mo_sacd *a, struct mo_sacd_losses *losses, moire_error *err) {
    const double rate = a->options.learn.rate;
    const struct mo_twin_batch batch = batch_of(a);
    double by_log_tau;
    mo_experience_draw(&a->experience, &a->rng, a->options.learn.batch, a->rows);
    mo_sacd_goals(a);
    mo_twin_step(&a->twin, &batch, rate, a->slope, losses->critic);
    losses->actor = mo_sacd_actor_slope(a, a->slope, &by_log_tau, &losses->entropy);
    mo_adam_step(&a->actor_adam, a->actor.values, a->slope, rate);
    const float tau_slope = (float)by_log_tau;
    mo_adam_step(&a->tau_adam, &a->log_tau, &tau_slope, rate);
    mo_twin_follow(&a->twin, a->options.learn.soft);
    a->updates++;
    if (!isfinite(losses->critic[0] + losses->critic[1] + losses->actor + by_log_tau))
        return mo_fail(err, MOIRE_EFAILED, "training diverged: in update %lld a loss is no number",
                       (long long)a->updates);
    return MOIRE_OK;
}
