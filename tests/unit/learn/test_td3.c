/* SPDX-License-Identifier: Apache-2.0
 * test_td3.c - twin delayed gradient: the head, goals and slopes against the formulas of td3.h in doubles,
 * when what is updated, and a quadratic over the simplex whose best shares are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/learn/td3.h"
#include "tests/unit/learn/double_net.h"

enum { STATE = 4, SLOTS = 3, BATCH = 10, SEED = 4 };
static const struct mo_sgemm plain = {0};

/* --- the head ------------------------------------------------------------------------------------------- */
static void shares_sum_to_one_whatever_comes(void **state) {
    (void)state;
    const float odd[] = {1e30F, -1e30F, 0, 88, -88};
    uint64_t rng = SEED;
    for (int round = 0; round < 20000; round++) {
        float z[2 * SLOTS], mask[SLOTS], action[2 * SLOTS];
        double sum = 0;
        int n_allowed = 0;
        for (int j = 0; j < 2 * SLOTS; j++)
            z[j] = mo_draw_below(&rng, 2) ? (float)(10 * mo_draw_normal(&rng)) : odd[mo_draw_below(&rng, 5)];
        for (int j = 0; j < SLOTS; j++)
            n_allowed += (mask[j] = mo_draw_below(&rng, 2)) > 0;
        mo_td3_head(SLOTS, z, mask, action);
        for (int j = 0; j < SLOTS; j++) {
            sum += action[j];
            assert_true(action[j] >= 0 && fabsf(action[SLOTS + j]) <= 1);
            if (!(mask[j] > 0)) assert_true(action[j] == 0 && action[SLOTS + j] == 0);
        }
        assert_true(n_allowed ? fabs(sum - 1) < 1e-6 : sum == 0);
    }
}

static void turns_are_batches(void **state) {
    (void)state;
    assert_int_equal(mo_td3_batch(-1, 32), 1);
    assert_int_equal(mo_td3_batch(1, 32), 32);
    assert_int_equal(mo_td3_batch(0, 31), 16);
    assert_int_equal(mo_td3_batch(-9, 32), 1);
    assert_int_equal(mo_td3_batch(9, 32), 32);
    assert_int_equal(mo_td3_batch(NAN, 32), 1);
    assert_int_equal(mo_td3_batch(0.7F, 1), 1);
    bool seen[33] = {false};
    for (int i = -1024; i <= 1024; i++)
        seen[mo_td3_batch((float)i / 1024, 32)] = true;
    for (int b = 1; b <= 32; b++)
        assert_true(seen[b]);
}

/* --- the formulas --------------------------------------------------------------------------------------- */
struct formulas {
    struct double_net actor, actor_target, critic[2], target[2];
    const struct mo_td3_options *options;
    int which;
    double state[BATCH][STATE], next[BATCH][STATE], action[BATCH][2 * SLOTS], reward[BATCH], goal[BATCH];
    float mask[BATCH][SLOTS], next_mask[BATCH][SLOTS];
    bool last[BATCH];
};

/* A critic's inputs: the state, and the head of what an actor says, with that noise. */
static void act(const struct double_net *actor, const double *state, const float *mask, const double *noise,
                double *to) {
    double z[DOUBLE_WIDTH], sum = 0;
    double_forward(actor, state, z);
    for (int i = 0; i < STATE; i++)
        to[i] = state[i];
    for (int j = 0; j < SLOTS; j++)
        sum += to[STATE + j] = mask[j] > 0 ? exp(z[j] + noise[j]) : 0;
    for (int j = 0; j < SLOTS; j++) {
        to[STATE + j] /= sum;
        to[STATE + SLOTS + j] = mask[j] > 0 ? mo_within(-1, 1, tanh(z[SLOTS + j]) + noise[SLOTS + j]) : 0;
    }
}

static double value(const struct double_net *critic, const double *inputs) {
    double q[DOUBLE_WIDTH];
    double_forward(critic, inputs, q);
    return q[0];
}

/* *rng: the agent's, as it was before; the noise comes row by row. */
static void goals(struct formulas *f, uint64_t *rng) {
    for (int i = 0; i < BATCH; i++) {
        double noise[2 * SLOTS], inputs[STATE + 2 * SLOTS];
        for (int j = 0; j < 2 * SLOTS; j++)
            noise[j] =
                mo_within(-f->options->limit, f->options->limit, f->options->smooth * mo_draw_normal(rng));
        act(&f->actor_target, f->next[i], f->next_mask[i], noise, inputs);
        f->goal[i] = f->reward[i];
        if (!f->last[i])
            f->goal[i] +=
                f->options->learn.gamma * fmin(value(&f->target[0], inputs), value(&f->target[1], inputs));
    }
}

static double critic_loss(void *ctx) {
    const struct formulas *f = ctx;
    double inputs[STATE + 2 * SLOTS], loss = 0;
    for (int i = 0; i < BATCH; i++) {
        memcpy(inputs, f->state[i], sizeof f->state[i]);
        memcpy(inputs + STATE, f->action[i], sizeof f->action[i]);
        loss += pow(value(&f->critic[f->which], inputs) - f->goal[i], 2) / 2 / BATCH;
    }
    return loss;
}

static double actor_loss(void *ctx) {
    const struct formulas *f = ctx;
    const double still[2 * SLOTS] = {0};
    double inputs[STATE + 2 * SLOTS], loss = 0;
    for (int i = 0; i < BATCH; i++) {
        act(&f->actor, f->state[i], f->mask[i], still, inputs);
        loss -= value(&f->critic[0], inputs) / BATCH;
    }
    return loss;
}

static void random_step(struct formulas *f, int i, uint64_t *rng, struct mo_td3 *agent) {
    float state[STATE], next[STATE], action[2 * SLOTS], z[2 * SLOTS];
    for (int j = 0; j < STATE; j++) {
        f->state[i][j] = state[j] = (float)mo_draw_normal(rng);
        f->next[i][j] = next[j] = (float)mo_draw_normal(rng);
    }
    for (int j = 0; j < SLOTS; j++) {
        f->mask[i][j] = mo_draw_below(rng, 3) > 0;
        f->next_mask[i][j] = mo_draw_below(rng, 3) > 0;
    }
    f->mask[i][mo_draw_below(rng, SLOTS)] = f->next_mask[i][mo_draw_below(rng, SLOTS)] = 1;
    for (int j = 0; j < 2 * SLOTS; j++)
        z[j] = (float)mo_draw_normal(rng);
    mo_td3_head(SLOTS, z, f->mask[i], action);
    for (int j = 0; j < 2 * SLOTS; j++)
        f->action[i][j] = action[j];
    f->reward[i] = (float)mo_draw_normal(rng);
    f->last[i] = i % 4 == 3;
    mo_td3_keep(agent, &(struct mo_td3_step){state, f->mask[i], action, f->reward[i], f->last[i],
                                             f->last[i] ? NULL : next, f->last[i] ? NULL : f->next_mask[i]});
    if (f->last[i]) { /* is kept as zeros, and nothing is allowed: noise is drawn all the same */
        memset(f->next[i], 0, sizeof f->next[i]);
        memset(f->next_mask[i], 0, sizeof f->next_mask[i]);
    }
}

static struct mo_td3 *agent_with_steps(struct formulas *f, uint64_t seed) {
    struct mo_td3_options options = mo_td3_options(STATE, SLOTS);
    struct mo_td3 *agent;
    uint64_t rng = seed;
    options.learn.hidden = 8;
    options.learn.batch = options.learn.room = BATCH;
    options.smooth = 0.4;
    assert_int_equal(mo_td3_create(learn_env(), &plain, &options, seed, &agent, NULL), MOIRE_OK);
    mo_net_draw(&agent->actor_target, &agent->rng); /* as after some updates */
    for (int v = 0; v < 2; v++)
        mo_net_draw(&agent->twin.target[v], &agent->rng);
    for (int i = 0; i < BATCH; i++)
        random_step(f, i, &rng, agent);
    memcpy(agent->rows, agent->experience.rows, sizeof(float) * BATCH * (size_t)agent->experience.width);
    f->options = &agent->options;
    f->actor = double_net_of(&agent->actor);
    f->actor_target = double_net_of(&agent->actor_target);
    for (int v = 0; v < 2; v++) {
        f->critic[v] = double_net_of(&agent->twin.critic[v]);
        f->target[v] = double_net_of(&agent->twin.target[v]);
    }
    return agent;
}

static void goals_and_slopes_are_those_of_the_formulas(void **state) {
    static struct formulas f;
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct mo_td3 *agent = agent_with_steps(&f, seed);
        uint64_t rng = agent->rng;
        double exact;
        mo_td3_goals(agent);
        goals(&f, &rng);
        assert_int_equal(rng, agent->rng);
        for (int i = 0; i < BATCH; i++)
            assert_true(fabs(f.goal[i] - agent->goal[i]) < 1e-5);
        for (f.which = 0; f.which < 2; f.which++) {
            exact = critic_loss(&f);
            assert_true(fabs(mo_td3_critic_slope(agent, f.which, agent->slope) - exact) < 1e-4);
            check_slope("a critic", f.critic[f.which].values, agent->twin.critic[0].n, agent->slope,
                        critic_loss, &f);
        }
        exact = actor_loss(&f);
        assert_true(fabs(mo_td3_actor_slope(agent, agent->slope) - exact) < 1e-4);
        check_slope("the actor", f.actor.values, agent->actor.n, agent->slope, actor_loss, &f);
        mo_td3_destroy(agent);
    }
}

static void actor_and_targets_wait_for_their_turn(void **state) {
    static struct formulas f;
    (void)state;
    struct mo_td3 *agent = agent_with_steps(&f, SEED);
    struct mo_td3_losses losses;
    float was[3];
    agent->options.every = 3;
    for (int n = 1; n <= 9; n++) {
        was[0] = agent->actor.values[0];
        was[1] = agent->twin.target[0].values[0];
        was[2] = agent->twin.critic[0].values[0];
        assert_int_equal(mo_td3_update(agent, &losses, NULL), MOIRE_OK);
        assert_int_equal(losses.delayed, n % 3 != 0);
        assert_int_equal(was[0] == agent->actor.values[0], n % 3 != 0);
        assert_int_equal(was[1] == agent->twin.target[0].values[0], n % 3 != 0);
        assert_true(was[2] != agent->twin.critic[0].values[0]);
    }
    agent->twin.critic[0].values[3] = INFINITY;
    moire_error err = {0};
    assert_int_equal(mo_td3_update(agent, &losses, &err), MOIRE_EFAILED);
    assert_non_null(strstr(err.message, "diverged: in update 10 "));
    mo_td3_destroy(agent);
}

/* --- a quadratic over the simplex ----------------------------------------------------------------------- */
enum { CASES = 3 };
static const float best_share[CASES][SLOTS] = {{0.5F, 0.3F, 0.2F}, {0.8F, 0, 0.2F}, {0, 0.35F, 0.65F}};
static const float best_turn[CASES][SLOTS] = {{-0.5F, 0.2F, 0.6F}, {0.4F, 0, -0.8F}, {0, 0, 0.3F}};
static const float allowed[CASES][SLOTS] = {{1, 1, 1}, {1, 0, 1}, {0, 1, 1}};

static double reward_of(int which, const float *action) {
    double reward = 0;
    for (int j = 0; j < SLOTS; j++) {
        reward -= 4 * pow(action[j] - best_share[which][j], 2);
        reward -= pow(action[SLOTS + j] - best_turn[which][j], 2);
    }
    return reward;
}

static struct mo_td3 *learn_the_quadratic(uint64_t seed, int updates) {
    struct mo_td3_options options = mo_td3_options(CASES, SLOTS);
    struct mo_td3_losses losses;
    struct mo_td3 *agent;
    moire_error err;
    uint64_t rng = seed;
    int now = 0;
    options.learn.hidden = 32;
    options.learn.batch = 32;
    options.learn.room = 4000;
    options.learn.gamma = 0.5; /* cases come by chance, so the best action is that of the moment */
    options.learn.rate = 2e-3;
    assert_int_equal(mo_td3_create(learn_env(), &plain, &options, seed, &agent, &err), MOIRE_OK);
    for (int n = 0; n < updates; n++) {
        const int then = mo_draw_below(&rng, CASES);
        float state[CASES] = {0}, next[CASES] = {0}, action[2 * SLOTS];
        state[now] = next[then] = 1;
        mo_td3_explore(agent, state, allowed[now], action);
        mo_td3_keep(agent, &(struct mo_td3_step){state, allowed[now], action, reward_of(now, action),
                                                 n % 50 == 49, next, allowed[then]});
        now = then;
        if (mo_td3_update(agent, &losses, &err)) fail_msg("seed %d: %s", (int)seed, err.message);
    }
    return agent;
}

static void the_best_shares_are_learned(void **state) {
    (void)state;
    struct mo_td3 *agent = learn_the_quadratic(SEED, 4000);
    for (int c = 0; c < CASES; c++) {
        float seen[CASES] = {0}, action[2 * SLOTS];
        seen[c] = 1;
        mo_td3_head(SLOTS, mo_net_forward(&plain, &agent->actor, seen, CASES, 1, &agent->actor_pass),
                    allowed[c], action);
        for (int j = 0; j < SLOTS; j++)
            if (fabsf(action[j] - best_share[c][j]) > 0.05F ||
                fabsf(action[SLOTS + j] - best_turn[c][j]) > 0.1F)
                fail_msg("seed %d, case %d, slot %d: share %g of %g, turn %g of %g", SEED, c, j,
                         (double)action[j], (double)best_share[c][j], (double)action[SLOTS + j],
                         (double)best_turn[c][j]);
    }
    mo_td3_destroy(agent);
}

static void a_seed_gives_the_same_bytes(void **state) {
    (void)state;
    struct mo_td3 *a = learn_the_quadratic(5, 60), *b = learn_the_quadratic(5, 60),
                  *c = learn_the_quadratic(6, 60);
    assert_memory_equal(a->actor.values, b->actor.values, a->actor.n * sizeof(float));
    assert_memory_equal(a->twin.target[1].values, b->twin.target[1].values,
                        a->twin.target[1].n * sizeof(float));
    assert_true(memcmp(a->actor.values, c->actor.values, a->actor.n * sizeof(float)) != 0);
    mo_td3_destroy(a);
    mo_td3_destroy(b);
    mo_td3_destroy(c);
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    struct mo_td3 *agent;
    for (int i = 0; i < 8; i++) {
        struct mo_td3_options o = mo_td3_options(STATE, SLOTS);
        if (i == 0) o.learn.n_state = MO_NET_WIDTH;
        if (i == 1) o.n_slots = MO_TD3_SLOTS + 1;
        if (i == 2) o.learn.hidden = 0;
        if (i == 3) o.learn.batch = 0;
        if (i == 4) o.learn.room = 0;
        if (i == 5) o.every = 0;
        if (i == 6) o.smooth = NAN;
        if (i == 7) o.learn.soft = 0;
        assert_int_equal(mo_td3_create(learn_env(), &plain, &o, 0, &agent, NULL), MOIRE_EINVAL);
        assert_null(agent);
    }
    mo_td3_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_sum_to_one_whatever_comes),
        cmocka_unit_test(turns_are_batches),
        cmocka_unit_test(goals_and_slopes_are_those_of_the_formulas),
        cmocka_unit_test(actor_and_targets_wait_for_their_turn),
        cmocka_unit_test(the_best_shares_are_learned),
        cmocka_unit_test(a_seed_gives_the_same_bytes),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
