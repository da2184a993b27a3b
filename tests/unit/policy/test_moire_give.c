/* SPDX-License-Identifier: Apache-2.0
 * test_moire_give.c - how `moire` deals cores and hands them over: on random queries every share is that of
 * the cheapest plan that keeps pace with the common fraction; and by hand who starts, grows and shrinks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/policy/moire_parts.h"

enum { CORES = 8, QUERIES = 3, MS = 1000000 };
static const int64_t NOW = 1000000000;

/* A model of four layers, an eighth of each serial: 32 ms on a core, 7.5 ms on all eight. */
static struct mo_profile *profile(const struct mo_env *env) {
    struct mo_profile *p = mo_profile_create(env, 4, CORES);
    assert_non_null(p);
    for (int c = 1; c <= CORES; c++) {
        int64_t t = MS + 7 * MS / c;
        mo_profile_record(p, c, (int64_t[]){t, t, t, t});
    }
    mo_profile_finish(p);
    return p;
}

/* --- the deal --- */
static int sum_of(const struct mo_moire_state *s) {
    int sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->list[i].keep ? s->list[i].share : 0;
    return sum;
}

static void deal(struct mo_moire_state *s, const struct mo_moire_parts *parts) {
    const struct mo_view view = {.n_cores = CORES};
    s->parts = parts;
    mo_moire_deal(s, &view);
}

/* No more cores than there are where the latest plans leave room, and these alone where they do not. */
static void shares_fill_the_machine(void **state) {
    (void)state;
    static const struct mo_moire_parts whole = {0}, thrifty = {.no_share = true};
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env);
    static struct mo_moire_state s;
    int eased = 0;
    srand(11);
    for (int round = 0; round < 500; round++) {
        int least[5] = {0};
        memset(&s, 0, sizeof s);
        s.n = 1 + rand() % 5;
        for (int i = 0; i < s.n; i++) {
            s.list[i] = (struct mo_moire_candidate){.keep = rand() % 4 != 0,
                                                    .plan = mo_ladder_from(p, false, rand() % 4),
                                                    .part = (rand() % 10) / 10.0,
                                                    .residual = 1,
                                                    .top = mo_ladder_top(p, false, CORES),
                                                    .slack = (double)(8 * MS + rand() % (60 * MS))};
            mo_moire_climb(&s.list[i], s.list[i].slack);
        }
        deal(&s, &thrifty);
        int sum = sum_of(&s);
        for (int i = 0; i < s.n; i++)
            least[i] = s.list[i].share;
        deal(&s, &whole);
        for (int i = 0; i < s.n; i++) {
            const struct mo_moire_candidate *c = &s.list[i];
            if (!c->keep) assert_int_equal(c->share, 0);
            if (c->keep) assert_int_equal(c->share, c->plan[c->rung].cores);
            assert_true(c->takes == mo_moire_time(c, c->rung));
            assert_true(c->slower == (c->rung ? mo_moire_time(c, c->rung - 1) : INFINITY));
            assert_true(s.list[i].share >= least[i]);
        }
        if (sum <= CORES) assert_true(sum_of(&s) <= CORES);
        if (sum > CORES) assert_int_equal(sum_of(&s), sum);
        eased += sum_of(&s) > sum;
    }
    assert_true(eased > 100);
    mo_profile_destroy(p);
}

static void the_cheapest_plan_that_is_fast_enough(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env);
    struct mo_moire_candidate c = {.plan = mo_ladder_from(p, false, 1),
                                   .part = 0.5,
                                   .residual = 1.25,
                                   .top = mo_ladder_top(p, false, CORES)};
    for (int64_t budget = MS; budget < 50 * MS; budget += MS / 2) {
        mo_moire_climb(&c, (double)budget);
        assert_true(c.takes == mo_moire_time(&c, c.rung));
        assert_true(c.slower == (c.rung ? mo_moire_time(&c, c.rung - 1) : INFINITY));
        if (c.rung < c.top) assert_true(c.takes <= (double)budget);
        assert_true(c.slower > (double)budget);
    }
    /* two and a half layers are left: 20 ms on a core, 25 with the residual */
    mo_moire_climb(&c, 25.1 * MS);
    assert_int_equal(c.plan[c.rung].cores, 1);
    mo_moire_climb(&c, 24.9 * MS);
    assert_true(c.plan[c.rung].cores > 1);
    mo_profile_destroy(p);
}

/* --- one dispatch --- */
struct bed {
    struct mo_env env;
    struct mo_profile *profile;
    struct mo_view_tenant tenant;
    struct mo_view_query query[QUERIES];
    struct mo_view_run run[CORES];
    short running[CORES];
    int waiting[QUERIES];
    struct mo_view view;
    struct mo_moire_state state;
    struct mo_decision list[16];
    struct mo_decisions out;
};

static void set_up(struct bed *b) {
    memset(b, 0, sizeof *b);
    b->env = mo_env_default();
    b->profile = profile(&b->env);
    for (int i = 0; i < CORES; i++)
        b->run[i].query = -1;
    b->tenant = (struct mo_view_tenant){.open = true,
                                        .qos_ns = 40 * MS,
                                        .profile = b->profile,
                                        .residual = 1,
                                        .attained = 1,
                                        .free_instances = QUERIES,
                                        .waiting = b->waiting,
                                        .paused_gpu = -1};
    b->view = (struct mo_view){.now = NOW,
                               .block_ns = 2 * MS,
                               .n_cores = CORES,
                               .n_idle = CORES,
                               .resizes = true,
                               .pace = 1,
                               .idle = mo_cores_first(CORES),
                               .n_tenants = 1,
                               .min_qos_ns = 40 * MS,
                               .tenants = &b->tenant,
                               .queries = b->query,
                               .runs = b->run,
                               .running = b->running,
                               .options = mo_policy_find("moire")->options};
    b->state.seen_at = b->state.turned_at = NOW;
}

/* The query waits, due in so many ns. */
static void waits(struct bed *b, int query, int64_t due) {
    b->query[query] = (struct mo_view_query){
        .arrival = NOW - MS, .deadline = NOW + due, .order = query, .last_core = -1, .run = -1};
    b->waiting[b->tenant.n_waiting++] = query;
}

/* The query has just begun its first layer on cores from `lead` on. */
static void runs(struct bed *b, int query, int64_t due, int lead, int n) {
    waits(b, query, due);
    b->tenant.n_waiting--;
    b->query[query].started = NOW;
    b->query[query].run = b->query[query].last_core = lead;
    struct mo_view_run *run = &b->run[lead];
    *run = (struct mo_view_run){.query = query,
                                .batch = 1,
                                .end = 1,
                                .n_cores = n,
                                .start = NOW,
                                .since = NOW,
                                .predicted_end = NOW + mo_profile_time(b->profile, n, 0, 1)};
    for (int core = lead; core < lead + n; core++) {
        mo_cores_add(&run->cores, core);
        mo_cores_remove(&b->view.idle, core);
    }
    b->view.n_idle -= n;
    b->running[b->view.n_running++] = (short)lead;
    b->tenant.n_running++;
}

static void dispatch(struct bed *b) {
    const struct mo_event event = {MO_EVENT_TIMER, -1, -1};
    b->out = (struct mo_decisions){.cap = 16, .list = b->list};
    mo_policy_find("moire")->dispatch(&b->state, &b->view, &event, &b->out);
}

/* Cores that a query is to have by the decision of this kind; -1 = there is none. */
static int decided(const struct bed *b, enum mo_decision_kind kind, int query) {
    for (int i = 0; i < b->out.n; i++)
        if (b->list[i].kind == kind && b->list[i].query == query) return mo_cores_count(&b->list[i].cores);
    return -1;
}

static void tear_down(struct bed *b) {
    mo_profile_destroy(b->profile);
}

/* Alone it takes the machine, and once it runs on two cores it is joined by the others. */
static void idle_cores_start_and_join(void **state) {
    (void)state;
    static struct bed b;
    set_up(&b);
    waits(&b, 0, 40 * MS);
    dispatch(&b);
    int alone = decided(&b, MO_RUN, 0);
    assert_true(alone >= 5);
    tear_down(&b);
    set_up(&b);
    runs(&b, 0, 40 * MS, 0, 2);
    dispatch(&b);
    assert_int_equal(decided(&b, MO_RESIZE, 0), alone);
    assert_true(mo_cores_has(&b.list[0].cores, 0) && mo_cores_has(&b.list[0].cores, 1));
    tear_down(&b);
}

/* The other one has all cores and half an hour: it gives up what the urgent one needs, and keeps its lead. */
static void urgent_neighbours_get_cores_back(void **state) {
    (void)state;
    static struct bed b;
    set_up(&b);
    runs(&b, 0, 1800000 * (int64_t)MS, 0, CORES);
    waits(&b, 1, 14 * MS);
    dispatch(&b);
    assert_int_equal(decided(&b, MO_RUN, 1), -1); /* nothing is idle yet */
    int left = decided(&b, MO_RESIZE, 0);
    assert_true(left >= 1 && left <= CORES / 2);
    assert_true(mo_cores_has(&b.list[0].cores, 0));
    tear_down(&b);
}

/* The same where blocks keep their cores. */
static void nothing_is_asked_of_blocks_that_keep_their_cores(void **state) {
    (void)state;
    static struct bed b;
    set_up(&b);
    b.view.resizes = false;
    runs(&b, 0, 1800000 * (int64_t)MS, 0, CORES);
    waits(&b, 1, 14 * MS);
    dispatch(&b);
    assert_int_equal(b.out.n, 0);
    tear_down(&b);
}

/* With one core idle the urgent query begins on it and would like more. */
static void a_query_begins_on_what_there_is(void **state) {
    (void)state;
    static struct bed b;
    set_up(&b);
    runs(&b, 0, 1800000 * (int64_t)MS, 0, CORES - 1);
    waits(&b, 1, 14 * MS);
    dispatch(&b);
    assert_int_equal(decided(&b, MO_RUN, 1), 1);
    assert_true(b.list[0].query == 1 && b.list[0].wanted > 1);
    assert_true(decided(&b, MO_RESIZE, 0) < CORES - 1);
    tear_down(&b);
}

/* What is late has to make room before what is kept, whose deadline is even later. */
static void late_queries_make_room_first(void **state) {
    (void)state;
    static struct bed b;
    set_up(&b);
    runs(&b, 0, -MS, 0, 4);
    runs(&b, 1, 1800000 * (int64_t)MS, 4, 4);
    waits(&b, 2, 15 * MS);
    dispatch(&b);
    assert_int_equal(decided(&b, MO_RESIZE, 0), 1);
    tear_down(&b);
}

/* One that is late has begun: the next that is late waits although cores are idle, and one that can be in
 * time begins; not so where the tenant had less than its floor. */
static void late_queries_begin_one_at_a_time(void **state) {
    (void)state;
    static struct bed b;
    for (int owed = 0; owed < 2; owed++) {
        set_up(&b);
        b.state.account[0].owed = owed * 100.0 * MS;
        runs(&b, 0, -2 * MS, 0, 4);
        waits(&b, 1, -MS);
        waits(&b, 2, 40 * MS);
        dispatch(&b);
        assert_int_equal(decided(&b, MO_RUN, 1) > 0, owed);
        assert_true(decided(&b, MO_RUN, 2) > 0);
        tear_down(&b);
    }
}

/* Without a target: what has begun ends first, and where nothing is paused the next one begins. */
static void queries_without_a_target_end_what_has_begun(void **state) {
    (void)state;
    static struct bed b;
    const int paused = 1;
    for (int n_paused = 0; n_paused < 2; n_paused++) {
        set_up(&b);
        b.tenant.qos_ns = 0;
        runs(&b, 0, 40 * MS, 0, 4);
        if (n_paused)
            b.query[1] = (struct mo_view_query){.order = 1, .started = NOW, .last_core = -1, .run = -1};
        b.tenant.paused = &paused;
        b.tenant.n_paused = n_paused;
        waits(&b, 2, 40 * MS);
        for (int i = 0; i < QUERIES; i++)
            b.query[i].deadline = MO_NEVER;
        dispatch(&b);
        assert_int_equal(decided(&b, MO_RUN, 1) > 0, n_paused);
        assert_int_equal(decided(&b, MO_RUN, 2) > 0, !n_paused);
        tear_down(&b);
    }
}

/* A query without a target runs on two cores: the idle ones join it, but for what one that waits takes, and
 * but where blocks keep their cores. */
static void what_is_set_aside_grows_into_what_is_left(void **state) {
    (void)state;
    static struct bed b;
    static const struct { bool resizes, waits; } rows[] = {{true, false}, {false, false}, {true, true}};
    for (int i = 0; i < 3; i++) {
        set_up(&b);
        b.tenant.qos_ns = 0;
        b.view.resizes = rows[i].resizes;
        runs(&b, 0, 40 * MS, 0, 2);
        if (rows[i].waits) waits(&b, 1, 40 * MS);
        b.query[0].deadline = b.query[1].deadline = MO_NEVER;
        dispatch(&b);
        const int grown = decided(&b, MO_RESIZE, 0), begun = decided(&b, MO_RUN, 1);
        assert_int_equal(grown > 2, rows[i].resizes && !rows[i].waits);
        assert_int_equal(begun > 0, rows[i].waits);
        if (grown > 0) assert_true(mo_cores_has(&b.list[0].cores, 0) && mo_cores_has(&b.list[0].cores, 1));
        tear_down(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_fill_the_machine),
        cmocka_unit_test(the_cheapest_plan_that_is_fast_enough),
        cmocka_unit_test(idle_cores_start_and_join),
        cmocka_unit_test(urgent_neighbours_get_cores_back),
        cmocka_unit_test(nothing_is_asked_of_blocks_that_keep_their_cores),
        cmocka_unit_test(a_query_begins_on_what_there_is),
        cmocka_unit_test(late_queries_make_room_first),
        cmocka_unit_test(late_queries_begin_one_at_a_time),
        cmocka_unit_test(queries_without_a_target_end_what_has_begun),
        cmocka_unit_test(what_is_set_aside_grows_into_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
