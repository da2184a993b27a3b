/* SPDX-License-Identifier: Apache-2.0
 * test_resize_sim.c - simulated blocks whose cores come and go: when they end, worked by hand; what it costs;
 * how memory is shared anew; and that nothing is lost, and no promise of a history broken, when cores change
 * at random.  Where nothing disturbs them, such blocks end when the core predicts it, which works that out
 * for itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/sim/sim.h"
#include "tests/history/recorded.h"
#include "tests/unit/resize/restless.h"

enum { CORES = 8, LAYERS = 3, MOST = 4096, SEED = 17 };

struct bed {
    struct mo_env env;
    struct mo_profile *profile;
    struct mo_events *events;
    struct mo_sim *sim;
    int answered;
    int64_t end[MOST]; /* of answers, by their order */
};

/* What shall be decided at a time, at the dispatch then. */
struct step {
    int64_t when;
    struct mo_decision d;
};

struct script {
    const struct step *steps;
    int n;
};

struct played {
    int next;
};

static void play(void *self, const struct mo_view *view, const struct mo_event *event,
                 struct mo_decisions *out) {
    const struct script *script = view->options;
    struct played *p = self;
    (void)event;
    while (p->next < script->n && script->steps[p->next].when <= view->now)
        out->list[out->n++] = script->steps[p->next++].d;
    mo_decide_timer(out, p->next < script->n ? script->steps[p->next].when : INT64_MAX - 1);
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct bed *b = ctx;
    (void)tenant;
    assert_true(mo_sim_next(b->sim) >= mo_sim_now(b->sim));
    if (b->answered < MOST) b->end[b->answered] = a->end;
    b->answered++;
}

static struct mo_cores range(int from, int n) {
    struct mo_cores set = {0};
    for (int i = 0; i < n; i++)
        mo_cores_add(&set, from + i);
    return set;
}

static struct mo_decision run_on(int query, int from, int n) {
    return (struct mo_decision){
        .kind = MO_RUN, .query = query, .end = LAYERS, .cores = range(from, n), .when = MO_NEVER};
}
static struct mo_decision resize_to(int query, int from, int n) {
    return (struct mo_decision){.kind = MO_RESIZE, .query = query, .cores = range(from, n)};
}

/* The layers' times on one core; they divide evenly. */
static const int64_t one_core[LAYERS] = {1000, 4000, 1000};

static void make(struct bed *b, const struct mo_policy *policy, const struct mo_sim_machine *machine,
                 const int64_t *ns, const int64_t *bytes) {
    *b = (struct bed){.env = mo_env_default()};
    b->profile = mo_profile_create(&b->env, LAYERS, CORES);
    for (int c = 1; c <= CORES; c *= 2) {
        int64_t part[LAYERS];
        for (int l = 0; l < LAYERS; l++)
            part[l] = ns[l] / c;
        mo_profile_record(b->profile, c, part);
    }
    if (bytes) mo_profile_traffic(b->profile, bytes);
    mo_profile_finish(b->profile);
    b->events = mo_events_create(&b->env, 1, 1 << 18);
    struct mo_sim_config c = {.env = &b->env,
                              .policy = policy,
                              .machine = *machine,
                              .max_queries = 64,
                              .max_tenants = 2,
                              .seed = SEED,
                              .ring = &b->events->ring[0],
                              .answer = answer,
                              .ctx = b};
    c.machine.n_cores = CORES;
    assert_int_equal(mo_sim_create(&c, &b->sim, NULL), MOIRE_OK);
    struct mo_sched_tenant_config tc = {
        .qos_ns = 100000, .queue = 32, .instances = 16, .profile = b->profile};
    int tenant;
    for (int i = 0; i < 2; i++)
        assert_int_equal(mo_sim_open(b->sim, &tc, &tenant, NULL), MOIRE_OK);
}

static void finish(struct bed *b, int64_t queries) {
    const struct mo_view *view = mo_sched_view(mo_sim_sched(b->sim));
    assert_int_equal(mo_sim_drain(b->sim), 0);
    while (view->n_running) /* blocks of cancelled queries */
        mo_sim_advance(b->sim, mo_sim_next(b->sim));
    assert_int_equal(b->answered, queries);
    assert_int_equal(mo_sim_broken(b->sim), 0);
    assert_int_equal(view->n_idle, CORES);
    history_of_events(b->events, CORES, queries);
    mo_sim_destroy(b->sim);
    mo_events_destroy(b->events);
    mo_profile_destroy(b->profile);
}

/* Plays steps on `queries` queries of a model that come at time 0; their ends go to end[]. */
static void play_model(const struct step *steps, int n, int queries, const struct mo_sim_machine *machine,
                       const int64_t *ns, const int64_t *bytes, int64_t *end) {
    const struct script script = {steps, n};
    const struct mo_policy policy = {.name = "script",
                                     .description = "",
                                     .options = &script,
                                     .state_bytes = sizeof(struct played),
                                     .dispatch = play};
    struct bed b;
    make(&b, &policy, machine, ns, bytes);
    mo_sched_hold(mo_sim_sched(b.sim));
    for (int i = 0; i < queries; i++)
        assert_int_equal(mo_sim_submit(b.sim, i % 2, NULL, NULL, NULL), MOIRE_OK);
    mo_sched_unhold(mo_sim_sched(b.sim), 0);
    assert_int_equal(mo_sim_drain(b.sim), 0);
    assert_int_equal(mo_sched_stats(mo_sim_sched(b.sim))->refused, 0);
    for (int i = 0; i < queries; i++)
        end[i] = b.end[i];
    finish(&b, queries);
}

static void play_steps(const struct step *steps, int n, int queries, const struct mo_sim_machine *machine,
                       const int64_t *bytes, int64_t *end) {
    play_model(steps, n, queries, machine, one_core, bytes, end);
}

static void who_joins_works_at_once(void **state) {
    (void)state;
    /* on one core till the middle of layer 1, then on four: 3000 + 500 + 250 */
    const struct step steps[] = {{0, run_on(0, 0, 1)}, {3000, resize_to(0, 0, 4)}};
    int64_t end;
    play_steps(steps, 2, 1, &(struct mo_sim_machine){0}, NULL, &end);
    assert_int_equal(end, 3750);
    /* the same, and the block stands still for 40 ns when they come */
    play_steps(steps, 2, 1, &(struct mo_sim_machine){.resize_ns = 40}, NULL, &end);
    assert_int_equal(end, 3790);
    /* before its first layer, which its start delays: all on four */
    const struct step early[] = {{0, run_on(0, 0, 1)}, {100, resize_to(0, 0, 4)}};
    play_steps(early, 2, 1, &(struct mo_sim_machine){.block_ns = 200, .resize_ns = 40}, NULL, &end);
    assert_int_equal(end, 1700);
    /* twice the profile, as the machine has it: the middle of layer 1 is at 6000 */
    const struct step slow[] = {{0, run_on(0, 0, 1)}, {6000, resize_to(0, 0, 4)}};
    play_steps(slow, 2, 1, &(struct mo_sim_machine){.slowdown = 2}, NULL, &end);
    assert_int_equal(end, 7500);
}

static void who_leaves_goes_at_the_end_of_the_layer(void **state) {
    (void)state;
    struct mo_cores others = range(2, 2);
    mo_cores_add(&others, 0);
    /* on four until 1250, the end of layer 1; another block has the three cores that left from then on */
    const struct step steps[] = {{0, run_on(0, 0, 4)}, {600, resize_to(0, 0, 1)}, {1250, run_on(1, 1, 3)}};
    int64_t end[2];
    play_steps(steps, 3, 2, &(struct mo_sim_machine){0}, NULL, end);
    assert_int_equal(end[0], 2250);
    /* in the last layer they stay to its end */
    const struct step last[] = {{0, run_on(0, 0, 4)}, {1300, resize_to(0, 0, 1)}};
    play_steps(last, 2, 1, &(struct mo_sim_machine){0}, NULL, end);
    assert_int_equal(end[0], 1500);
    /* one leaves in layer 1 and two join in it: of its 2000 on two cores 1000 are left at 1500 and 500 at
     * 2000; these, on the two and the two that joined, take 250, and layer 2 on three 333 */
    const struct step both[] = {{0, run_on(0, 0, 2)},
                                {1500, resize_to(0, 0, 1)},
                                {2000, {.kind = MO_RESIZE, .query = 0, .cores = others}}};
    play_steps(both, 3, 1, &(struct mo_sim_machine){0}, NULL, end);
    assert_int_equal(end[0], 2000 + 250 + 333);
}

/* A block that takes half its time, and the least more that a double tells, has so little left then that its
 * place in the layers is behind the last.  It ends, and there is no layer to go on with. */
static void a_rest_of_nothing_is_the_end(void **state) {
    (void)state;
    const int64_t ns[LAYERS] = {8, 8, 8 << 20}, half = 1 + 1 + (1 << 20); /* on four cores */
    const struct step steps[] = {{0, run_on(0, 0, 2)}, {0, resize_to(0, 0, 4)}, {half, resize_to(0, 0, 1)}};
    int64_t end;
    play_model(steps, 3, 1, &(struct mo_sim_machine){.slowdown = 0.5 + 0x1p-53}, ns, NULL, &end);
    assert_int_equal(end, half);
}

static void memory_is_shared_anew(void **state) {
    (void)state;
    /* Each layer moves as many bytes as it takes ns on one core: 1 byte a ns on one core, 4 on four.  With 3
     * bytes a ns for all, a block that grows to four cores in the middle of layer 1 is slower by 4/3 from
     * then on: 3000 + 750 x 4/3. */
    const int64_t bytes[LAYERS] = {1000, 4000, 1000};
    const struct step steps[] = {{0, run_on(0, 0, 1)}, {3000, resize_to(0, 0, 4)}};
    int64_t end;
    play_steps(steps, 2, 1, &(struct mo_sim_machine){.bytes_ns = 3}, bytes, &end);
    assert_int_equal(end, 4000);
}

/* Two blocks of 3000 ns on two cores each end at one time, and so that rounding leaves the second a rest of
 * next to nothing: their pace changes when a third begins.  The second is asked to let a core go when the
 * first has ended; it is at its end, and nothing behind its last layer is looked at. */
static void a_block_at_its_end_has_no_next_layer(void **state) {
    (void)state;
    const struct mo_sim_machine machine = {.contention = {MO_CONTENTION_FACTOR, 1.6, 0}};
    static const int64_t moments[] = {2392, 2438, 2484, 2898, 2944}; /* at which it does */
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        int64_t begins = moments[i], end[3], again[3];
        struct step steps[] = {{0, run_on(0, 0, 2)},
                               {0, run_on(1, 2, 2)},
                               {begins, run_on(2, 4, 1)},
                               {INT64_MAX - 2, resize_to(1, 2, 1)}};
        play_steps(steps, 3, 3, &machine, NULL, end);
        steps[3].when = end[0];
        play_steps(steps, 4, 3, &machine, NULL, again);
        for (int k = 0; k < 3; k++)
            assert_true(llabs(again[k] - end[k]) <= 1);
    }
}

/* --- at random --- */
/* Goes on until `to`; a block that ends does so when the core said, but for `most_off` ns. */
static void advance(struct bed *b, int64_t to, int64_t most_off) {
    const struct mo_view *view = mo_sched_view(mo_sim_sched(b->sim));
    struct mo_view_run before[CORES];
    for (int64_t next; (next = mo_sim_next(b->sim)) <= to;) {
        memcpy(before, view->runs, sizeof before);
        mo_sim_advance(b->sim, next);
        for (int c = 0; c < CORES; c++) {
            bool ended = before[c].query >= 0 &&
                         (view->runs[c].query != before[c].query || view->runs[c].start != before[c].start);
            if (ended && llabs(next - before[c].predicted_end) > most_off)
                fail_msg("a block that was resized %d times ended at %lld, not at %lld", before[c].resized,
                         (long long)next, (long long)before[c].predicted_end);
        }
    }
    mo_sim_advance(b->sim, to);
}

static void nothing_is_lost_when_cores_change_at_random(void **state) {
    (void)state;
    const struct {
        struct mo_sim_machine machine;
        int64_t most_off; /* of the core's prediction, which rounds down; the simulator rounds up */
    } cases[] = {
        {{0}, 2},
        {{.block_ns = 50, .query_ns = 20, .resize_ns = 30, .noise = 0.3}, INT64_MAX},
        {{.bytes_ns = 3, .cache_bytes = 2000, .corun = 0.1, .noise = 0.3, .resize_ns = 10}, INT64_MAX},
    };
    const int64_t bytes[LAYERS] = {1000, 4000, 1000};
    for (size_t m = 0; m < sizeof cases / sizeof *cases; m++) {
        struct bed b;
        uint64_t rng = SEED + m;
        int accepted = 0;
        make(&b, &restless, &cases[m].machine, one_core, bytes);
        for (int i = 0; i < 2000; i++) {
            uint64_t handle;
            advance(&b, mo_sim_now(b.sim) + (int64_t)(mo_splitmix(&rng) % 2500), cases[m].most_off);
            if (mo_sim_submit(b.sim, i % 2, NULL, &handle, NULL)) continue;
            accepted++;
            if (mo_splitmix(&rng) % 8) continue;
            advance(&b, mo_sim_now(b.sim) + (int64_t)(mo_splitmix(&rng) % 2500), cases[m].most_off);
            mo_sim_cancel(b.sim, handle);
        }
        assert_int_equal(mo_sim_drain(b.sim), 0);
        const struct mo_sched_stats *s = mo_sched_stats(mo_sim_sched(b.sim));
        print_message("seed %d, machine %d: %d queries, %lld blocks, resized %lld times\n", SEED, (int)m,
                      accepted, (long long)s->blocks, (long long)s->resized);
        assert_int_equal(s->refused, 0);
        assert_true(s->resized > s->blocks / 4);
        finish(&b, accepted);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_joins_works_at_once),
        cmocka_unit_test(who_leaves_goes_at_the_end_of_the_layer),
        cmocka_unit_test(a_rest_of_nothing_is_the_end),
        cmocka_unit_test(memory_is_shared_anew),
        cmocka_unit_test(a_block_at_its_end_has_no_next_layer),
        cmocka_unit_test(nothing_is_lost_when_cores_change_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
