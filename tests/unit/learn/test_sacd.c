/* SPDX-License-Identifier: Apache-2.0
 * test_sacd.c - discrete soft actor-critic: goals and slopes against the formulas of sacd.h in doubles, what
 * is masked, and a small world whose best ways are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/learn/masked.h"
#include "runtime/learn/sacd.h"
#include "tests/unit/learn/double_net.h"

enum { STATE = 5, ACTIONS = 4, BATCH = 12, SEED = 3 };
static const struct mo_sgemm plain = {0};

/* --- the formulas --------------------------------------------------------------------------------------- */
struct formulas {
    struct double_net actor, critic[2], target[2];
    double log_tau, entropy, gamma;
    int which; /* critic */
    double state[BATCH][STATE], next[BATCH][STATE], reward[BATCH], goal[BATCH];
    float mask[BATCH][ACTIONS], next_mask[BATCH][ACTIONS];
    int action[BATCH];
    bool last[BATCH];
};

static void policy(const struct formulas *f, const double *state, const float *mask, double *p) {
    double z[DOUBLE_WIDTH], sum = 0;
    double_forward(&f->actor, state, z);
    for (int j = 0; j < ACTIONS; j++)
        sum += p[j] = mask[j] > 0 ? exp(z[j]) : 0;
    for (int j = 0; j < ACTIONS; j++)
        p[j] /= sum;
}

static double goal(const struct formulas *f, int i) {
    double p[ACTIONS], q[2][DOUBLE_WIDTH], value = 0;
    if (f->last[i]) return f->reward[i];
    policy(f, f->next[i], f->next_mask[i], p);
    double_forward(&f->target[0], f->next[i], q[0]);
    double_forward(&f->target[1], f->next[i], q[1]);
    for (int j = 0; j < ACTIONS; j++)
        if (f->next_mask[i][j] > 0) value += p[j] * (fmin(q[0][j], q[1][j]) - exp(f->log_tau) * log(p[j]));
    return f->reward[i] + f->gamma * value;
}

static double critic_loss(void *ctx) {
    const struct formulas *f = ctx;
    double q[DOUBLE_WIDTH], loss = 0;
    for (int i = 0; i < BATCH; i++) {
        double_forward(&f->critic[f->which], f->state[i], q);
        loss += pow(q[f->action[i]] - f->goal[i], 2) / 2 / BATCH;
    }
    return loss;
}

static double actor_loss(void *ctx) {
    const struct formulas *f = ctx;
    double p[ACTIONS], q[2][DOUBLE_WIDTH], loss = 0;
    for (int i = 0; i < BATCH; i++) {
        policy(f, f->state[i], f->mask[i], p);
        double_forward(&f->critic[0], f->state[i], q[0]);
        double_forward(&f->critic[1], f->state[i], q[1]);
        for (int j = 0; j < ACTIONS; j++)
            if (f->mask[i][j] > 0)
                loss += p[j] * (exp(f->log_tau) * log(p[j]) - fmin(q[0][j], q[1][j])) / BATCH;
    }
    return loss;
}

static double temperature_loss(void *ctx) {
    const struct formulas *f = ctx;
    double p[ACTIONS], loss = 0;
    for (int i = 0; i < BATCH; i++) {
        double own = 0, allowed = 0;
        policy(f, f->state[i], f->mask[i], p);
        for (int j = 0; j < ACTIONS; j++) {
            own -= p[j] > 0 ? p[j] * log(p[j]) : 0;
            allowed += f->mask[i][j];
        }
        loss += exp(f->log_tau) * (own - f->entropy * log(allowed)) / BATCH;
    }
    return loss;
}

/* An agent with a batch of random steps, and the same for the formulas. */
static struct mo_sacd *agent_with_steps(struct formulas *f, uint64_t seed) {
    struct mo_sacd_options options = mo_sacd_options(STATE, ACTIONS);
    struct mo_sacd *agent;
    uint64_t rng = seed;
    options.learn.hidden = 9;
    options.learn.batch = options.learn.room = BATCH;
    options.entropy = 0.4;
    options.temperature = 0.7;
    assert_int_equal(mo_sacd_create(learn_env(), &plain, &options, seed, &agent, NULL), MOIRE_OK);
    for (int v = 0; v < 2; v++) /* as after some updates */
        mo_net_draw(&agent->twin.target[v], &agent->rng);
    for (int i = 0; i < BATCH; i++) {
        float state[STATE], next[STATE];
        for (int j = 0; j < STATE; j++) {
            f->state[i][j] = state[j] = (float)mo_draw_normal(&rng);
            f->next[i][j] = next[j] = (float)mo_draw_normal(&rng);
        }
        for (int j = 0; j < ACTIONS; j++) {
            f->mask[i][j] = mo_draw_below(&rng, 3) > 0;
            f->next_mask[i][j] = mo_draw_below(&rng, 3) > 0;
        }
        f->action[i] = mo_draw_below(&rng, ACTIONS);
        f->mask[i][f->action[i]] = f->next_mask[i][mo_draw_below(&rng, ACTIONS)] = 1;
        f->reward[i] = (float)mo_draw_normal(&rng);
        f->last[i] = i % 5 == 4;
        mo_sacd_keep(agent,
                     &(struct mo_sacd_step){state, f->mask[i], f->action[i], f->reward[i], f->last[i],
                                            f->last[i] ? NULL : next, f->last[i] ? NULL : f->next_mask[i]});
    }
    memcpy(agent->rows, agent->experience.rows, sizeof(float) * BATCH * (size_t)agent->experience.width);
    f->actor = double_net_of(&agent->actor);
    for (int v = 0; v < 2; v++) {
        f->critic[v] = double_net_of(&agent->twin.critic[v]);
        f->target[v] = double_net_of(&agent->twin.target[v]);
    }
    f->log_tau = agent->log_tau;
    f->entropy = options.entropy;
    f->gamma = options.learn.gamma;
    return agent;
}

static void goals_and_slopes_are_those_of_the_formulas(void **state) {
    static struct formulas f;
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct mo_sacd *agent = agent_with_steps(&f, seed);
        double by_log_tau, entropy, exact;
        float tau_slope;
        mo_sacd_goals(agent);
        for (int i = 0; i < BATCH; i++) {
            f.goal[i] = goal(&f, i);
            assert_true(fabs(f.goal[i] - agent->goal[i]) < 1e-5);
        }
        for (f.which = 0; f.which < 2; f.which++) {
            exact = critic_loss(&f);
            assert_true(fabs(mo_sacd_critic_slope(agent, f.which, agent->slope) - exact) < 1e-4);
            check_slope("a critic", f.critic[f.which].values, agent->actor.n, agent->slope, critic_loss, &f);
        }
        exact = actor_loss(&f);
        assert_true(fabs(mo_sacd_actor_slope(agent, agent->slope, &by_log_tau, &entropy) - exact) < 1e-4);
        check_slope("the actor", f.actor.values, agent->actor.n, agent->slope, actor_loss, &f);
        tau_slope = (float)by_log_tau;
        check_slope("the temperature", &f.log_tau, 1, &tau_slope, temperature_loss, &f);
        mo_sacd_destroy(agent);
    }
}

/* --- masks ---------------------------------------------------------------------------------------------- */
static void what_is_masked_is_never_chosen(void **state) {
    (void)state;
    enum { N = 8, DECISIONS = 1000000 };
    struct mo_sacd_options options = mo_sacd_options(2, N);
    struct mo_sacd *agent;
    float mask[N], seen[2];
    uint64_t rng = SEED;
    long of_few = 0;
    options.learn.hidden = 4;
    options.learn.batch = options.learn.room = 1;
    assert_int_equal(mo_sacd_create(learn_env(), &plain, &options, SEED, &agent, NULL), MOIRE_OK);
    for (size_t i = 0; i < agent->actor.n; i++)
        agent->actor.values[i] *= 20; /* as sure of itself as a trained one */
    for (int n = 0; n < DECISIONS; n++) {
        const uint64_t word = mo_splitmix(&rng);
        const int allowed = (int)(word & (word >> N) & 0xff); /* few */
        for (int j = 0; j < N; j++)
            mask[j] = allowed >> j & 1;
        seen[0] = (float)(word >> 40 & 0xff) / 64 - 2;
        seen[1] = (float)(word >> 48 & 0xff) / 64 - 2;
        const int action = mo_sacd_explore(agent, seen, mask);
        if (allowed ? action < 0 || !(allowed >> action & 1) : action != -1)
            fail_msg("seed %d, decision %d: action %d, allowed %x", SEED, n, action, (unsigned)allowed);
        of_few += allowed && !(allowed & (allowed - 1));
    }
    assert_true(of_few > DECISIONS / 10);
    mo_sacd_destroy(agent);
}

/* --- a world -------------------------------------------------------------------------------------------- */
/* Fields of 4 x 4; S is where the way ends, X cannot be entered.  A step costs 0.1; the end brings 1. */
enum { SIDE = 4, FIELDS = SIDE * SIDE };
static const char world[] = "...."
                            ".XX."
                            "..XS"
                            "....";
static const int move[4] = {-SIDE, SIDE, -1, 1};

static void look(int field, float *state, float *mask) {
    for (int i = 0; i < FIELDS; i++)
        state[i] = i == field;
    for (int a = 0; a < 4; a++) {
        const int to = field + move[a];
        const bool inside = to >= 0 && to < FIELDS && (a < 2 || to / SIDE == field / SIDE);
        mask[a] = inside && world[to] != 'X';
    }
}

/* Steps from every field to the end, by relaxation. */
static void shortest_ways(int *steps) {
    float state[FIELDS], mask[4];
    for (int i = 0; i < FIELDS; i++)
        steps[i] = world[i] == 'S' ? 0 : 99;
    for (int round = 0; round < FIELDS; round++)
        for (int i = 0; i < FIELDS; i++) {
            look(i, state, mask);
            for (int a = 0; a < 4; a++)
                if (mask[a] > 0 && steps[i + move[a]] + 1 < steps[i]) steps[i] = steps[i + move[a]] + 1;
        }
}

static struct mo_sacd *learn_the_world(const struct mo_sgemm *sgemm, uint64_t seed, int updates) {
    struct mo_sacd_options options = mo_sacd_options(FIELDS, 4);
    struct mo_sacd_losses losses;
    struct mo_sacd *agent;
    moire_error err;
    int field = 0, steps = 0;
    uint64_t rng = seed;
    options.learn.hidden = 32;
    options.learn.batch = 32;
    options.learn.room = 2000;
    options.learn.gamma = 0.95;
    options.learn.rate = 3e-3;
    options.temperature = 0.2;
    assert_int_equal(mo_sacd_create(learn_env(), sgemm, &options, seed, &agent, &err), MOIRE_OK);
    for (int n = 0; n < updates; n++) {
        float state[FIELDS], mask[4], next[FIELDS], next_mask[4];
        look(field, state, mask);
        const int action = mo_sacd_explore(agent, state, mask);
        field += move[action];
        assert_true(world[field] != 'X');
        const bool last = world[field] == 'S';
        look(field, next, next_mask);
        mo_sacd_keep(agent,
                     &(struct mo_sacd_step){state, mask, action, last ? 0.9 : -0.1, last, next, next_mask});
        if (last || ++steps == 30)
            for (steps = 0; world[field = mo_draw_below(&rng, FIELDS)] != '.';) {
            }
        if (mo_sacd_update(agent, &losses, &err)) fail_msg("seed %d: %s", (int)seed, err.message);
    }
    return agent;
}

static void the_shortest_ways_are_learned(void **state) {
    (void)state;
    int best[FIELDS];
    struct mo_pass *pass;
    struct mo_sacd *agent = learn_the_world(&plain, SEED, 2500);
    pass = &agent->actor_pass;
    shortest_ways(best);
    assert_int_equal(best[2 * SIDE + 1], 4); /* round the wall */
    for (int from = 0; from < FIELDS; from++) {
        int field = from, steps = 0;
        for (; world[from] == '.' && world[field] == '.' && steps < 20; steps++) {
            float seen[FIELDS], mask[4];
            look(field, seen, mask);
            field +=
                move[mo_masked_best(4, mo_net_forward(&plain, &agent->actor, seen, FIELDS, 1, pass), mask)];
        }
        if (world[from] == '.' && steps != best[from])
            fail_msg("seed %d: %d steps from field %d, %d would do", SEED, steps, from, best[from]);
    }
    assert_true(expf(agent->log_tau) < 0.19F); /* the temperature has been learned too */
    mo_sacd_destroy(agent);
}

static void a_seed_gives_the_same_bytes(void **state) {
    (void)state;
    struct mo_sacd *a = learn_the_world(&plain, 5, 60), *b = learn_the_world(&plain, 5, 60),
                   *c = learn_the_world(&plain, 6, 60);
    assert_memory_equal(a->actor.values, b->actor.values, a->actor.n * sizeof(float));
    assert_memory_equal(a->twin.target[1].values, b->twin.target[1].values, a->actor.n * sizeof(float));
    assert_memory_equal(a->experience.rows, b->experience.rows,
                        sizeof(float) * 60 * (size_t)a->experience.width);
    assert_true(memcmp(a->actor.values, c->actor.values, a->actor.n * sizeof(float)) != 0);
    mo_sacd_destroy(a);
    mo_sacd_destroy(b);
    mo_sacd_destroy(c);
    struct mo_sgemm blas;
    if (mo_sgemm_open(learn_env(), &blas, NULL)) skip();
    a = learn_the_world(&blas, 5, 60);
    b = learn_the_world(&blas, 5, 60);
    assert_memory_equal(a->actor.values, b->actor.values, a->actor.n * sizeof(float));
    mo_sacd_destroy(a);
    mo_sacd_destroy(b);
    mo_sgemm_close(&blas);
}

/* --- what goes wrong ------------------------------------------------------------------------------------ */
static void what_diverges_is_said(void **state) {
    (void)state;
    static struct formulas f;
    struct mo_sacd *agent = agent_with_steps(&f, SEED);
    struct mo_sacd_losses losses;
    moire_error err = {0};
    agent->twin.critic[1].values[0] = NAN;
    assert_int_equal(mo_sacd_update(agent, &losses, &err), MOIRE_EFAILED);
    assert_non_null(strstr(err.message, "diverged: in update 1 "));
    mo_sacd_destroy(agent);
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    struct mo_sacd *agent;
    for (int i = 0; i < 9; i++) {
        struct mo_sacd_options o = mo_sacd_options(STATE, ACTIONS);
        *(i == 0   ? &o.learn.n_state
          : i == 1 ? &o.n_actions
          : i == 2 ? &o.learn.hidden
          : i == 3 ? &o.learn.batch
                   : &o.learn.room) = i < 5 ? 0 : 10;
        if (i == 5) o.learn.gamma = 1;
        if (i == 6) o.learn.rate = NAN;
        if (i == 7) o.temperature = 0;
        if (i == 8) o.n_actions = MO_SACD_ACTIONS + 1;
        assert_int_equal(mo_sacd_create(learn_env(), &plain, &o, 0, &agent, NULL), MOIRE_EINVAL);
        assert_null(agent);
    }
    mo_sacd_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goals_and_slopes_are_those_of_the_formulas),
        cmocka_unit_test(what_is_masked_is_never_chosen),
        cmocka_unit_test(the_shortest_ways_are_learned),
        cmocka_unit_test(a_seed_gives_the_same_bytes),
        cmocka_unit_test(what_diverges_is_said),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
