/* SPDX-License-Identifier: Apache-2.0
 * test_pace.c - the core on machines that slow down and stand still: its pace and late blocks, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "runtime/policy/allocation.h"
#include "runtime/sched/machine_pace.h"
#include "runtime/sched/sched.h"

enum { MS = 1000000, BLOCK = 1 * MS, TENANTS = 2, CORES = 2, MOST_LAYERS = 4 };

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

struct bed {
    struct mo_env env;
    struct mo_policy policy;
    struct mo_sched *s;
    struct mo_profile *profile;
    struct mo_run run[CORES]; /* by lead */
    int64_t timer;
    int n_layers;    /* of 1 ms each, on two cores, too */
    int block_cores; /* that a block begins with; 0 = 1 */
    struct mo_resize resize;
    int n_resized;
    int events[MO_EVENT_LATE + 1], outcome[8], n_resolved;
    int slot[8];
};

static void on_start(void *self, const struct mo_run *run) {
    ((struct bed *)self)->run[run->lead] = *run;
}
static void on_resize(void *self, const struct mo_resize *resize) {
    struct bed *b = self;
    b->resize = *resize;
    b->n_resized++;
}
static void on_timer(void *self, int64_t when) {
    ((struct bed *)self)->timer = when;
}
static void on_resolved(void *self, int slot) {
    struct bed *b = self;
    b->slot[b->n_resolved] = slot;
    b->outcome[b->n_resolved++] = mo_query_outcome(mo_sched_queries(b->s), slot);
}
static void on_released(void *self, int tenant, void *user) {
    (void)self, (void)tenant, (void)user;
}

/* Whole models on one core each, first come, first served; queries of late blocks are shed when their block
 * is predicted to end behind their deadline. */
static void serve(void *state, const struct mo_view *view, const struct mo_event *event,
                  struct mo_decisions *out) {
    (void)state;
    struct bed *counted = (struct bed *)view->options;
    struct mo_cores idle = view->idle;
    mo_let_go_late(view, out);
    counted->events[event->kind]++;
    for (int i = 0; i < view->n_running; i++) {
        const struct mo_view_run *r = &view->runs[view->running[i]];
        const struct mo_view_query *q = &view->queries[r->query];
        if (!q->decided && r->predicted_end > q->deadline) mo_decide_shed(out, r->query);
    }
    for (int t = 0; t < view->n_tenants; t++)
        for (int k = 0; k < view->tenants[t].n_waiting && !mo_cores_none(&idle); k++)
            mo_decide_run(out, view->tenants[t].waiting[k], view->tenants[t].profile->n_layers,
                          mo_cores_take(&idle, counted->block_cores > 1 ? counted->block_cores : 1, -1));
}

/* A machine with the tenants under b->policy. */
static void open_bed(struct bed *b, bool shed_late) {
    static const struct mo_engine_ops ops = {.start = on_start,
                                             .resize = on_resize,
                                             .set_timer = on_timer,
                                             .resolved = on_resolved,
                                             .released = on_released};
    b->env = mo_env_default();
    b->timer = MO_NEVER;
    struct mo_sched_config c = {.env = &b->env,
                                .policy = &b->policy,
                                .n_cores = CORES,
                                .max_queries = 8,
                                .max_tenants = TENANTS,
                                .ops = &ops,
                                .engine = b};
    assert_int_equal(mo_sched_create(&c, &b->s, NULL), MOIRE_OK);
    b->profile = mo_profile_create(&b->env, b->n_layers, CORES);
    mo_profile_record(b->profile, 1, (int64_t[MOST_LAYERS]){BLOCK, BLOCK, BLOCK, BLOCK});
    mo_profile_finish(b->profile);
    for (int i = 0; i < TENANTS; i++) {
        struct mo_sched_tenant_config t = {
            .qos_ns = 6 * MS, .shed_late = shed_late, .queue = 8, .instances = 8, .profile = b->profile};
        int index;
        assert_int_equal(mo_sched_tenant_open(b->s, &t, 0, &index, NULL), MOIRE_OK);
    }
}

/* steady: the core follows no pace and watches no block. */
static void set_up(struct bed *b, bool steady, bool shed_late) {
    *b = (struct bed){.n_layers = 1,
                      .policy = {.name = "serves",
                                 .options = b,
                                 .no_pace = steady,
                                 .no_watch = steady,
                                 .state_bytes = 64,
                                 .dispatch = serve}};
    open_bed(b, shed_late);
}

static void tear_down(struct bed *b) {
    mo_sched_destroy(b->s);
    mo_profile_destroy(b->profile);
}

static int submit(struct bed *b, int tenant, int64_t now) {
    int slot;
    assert_int_equal(mo_sched_arrival(b->s, tenant, now, NULL, now, &slot, NULL), MOIRE_OK);
    return slot;
}

/* n queries of a tenant, one after the other, each taking ratio x its profile; returns the time then. */
static int64_t serve_some(struct bed *b, int tenant, int n, double ratio, int64_t now) {
    for (int i = 0; i < n; i++) {
        int64_t end = now + (int64_t)(ratio * BLOCK);
        submit(b, tenant, now);
        mo_sched_block_done(b->s, 0, true, MOIRE_OK, now, end, NULL, end);
        mo_sched_answered(b->s, b->slot[--b->n_resolved], end);
        now = end;
    }
    return now;
}

static void the_pace_is_everybodys(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, false, false);
    const struct mo_view *view = mo_sched_view(b.s);
    int64_t now = serve_some(&b, 0, 100, 1, 1);
    assert_true(view->pace == 1 && near(view->tenants[1].residual, 1));
    now = serve_some(&b, 0, MO_PACE_SAMPLES, 2, now);
    /* its own residual has taken a part of the change before the pace had followed it */
    assert_in_range((int)(view->tenants[0].residual * 100), 195, 205);
    assert_true(view->pace > 1.5);
    assert_true(near(view->tenants[1].residual, view->pace));
    now = serve_some(&b, 0, MO_PACE_SAMPLES, 1, now);
    assert_in_range((int)(view->tenants[0].residual * 100), 95, 110);
    assert_true(near(view->tenants[1].residual, view->pace));
    assert_true(mo_sched_stats(b.s)->pace_max > 1.5);
    submit(&b, 1, now + 1000 * MS); /* nothing is known of now */
    assert_true(view->pace == 1);
    tear_down(&b);
}

/* Layers that take longer than their profile for good are the tenant's own, as far as the band goes. */
static void a_tenant_keeps_its_own_residual(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, false, false);
    const struct mo_view *view = mo_sched_view(b.s);
    serve_some(&b, 0, 200, 1.08, 1);
    assert_true(view->pace == 1);
    assert_in_range((int)(view->tenants[0].residual * 1000), 1079, 1081);
    assert_true(view->tenants[1].residual == 1);
    tear_down(&b);
}

/* Three blocks in four take 0.9 of their profile, one takes twice as long: the pace leaves that one out, the
 * residual does not, and however long that lasts neither moves away for it.  In the mean a block takes 1.18.
 */
static void residual_and_pace_do_not_part(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, false, false);
    const struct mo_view *view = mo_sched_view(b.s);
    int64_t now = 1;
    for (int i = 0; i < 4000; i++) {
        now = serve_some(&b, i % 2, 3, 0.9, now);
        now = serve_some(&b, i % 2, 1, 2, now);
        assert_true(view->pace > 0.7 && view->pace < 1.3);
        assert_true(view->tenants[0].residual > 0.8 && view->tenants[0].residual < 1.7);
    }
    tear_down(&b);
}

/* A slow machine that slows one tenant by a tenth and the other by two fifths, for good. */
static void beside_a_pace_tenants_learn_how_they_differ(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, false, false);
    const struct mo_view *view = mo_sched_view(b.s);
    int64_t now = 1;
    for (int i = 0; i < 400; i++) {
        now = serve_some(&b, 0, 1, 1.1, now);
        now = serve_some(&b, 1, 1, 1.4, now);
    }
    assert_true(view->pace > 1.1 && view->pace < 1.4);
    assert_in_range((int)(view->tenants[0].residual * 100), 107, 113);
    assert_in_range((int)(view->tenants[1].residual * 100), 137, 143);
    tear_down(&b);
}

static void without_pace_only_the_residual_moves(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, true, false);
    const struct mo_view *view = mo_sched_view(b.s);
    serve_some(&b, 0, MO_PACE_SAMPLES, 2, 1);
    assert_true(view->pace == 1 && view->tenants[1].residual == 1);
    assert_true(view->tenants[0].residual > 1.3 && view->tenants[0].residual < 2);
    tear_down(&b);
}

/* The block should end at 1 ms; it is late from 3 ms on, is found so at 6 ms, when it has lasted 5 ms beyond,
 * and is then taken to last as long again. */
static void a_stalled_block_is_late_and_its_end_moves(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, false, false);
    const struct mo_view *view = mo_sched_view(b.s);
    submit(&b, 0, 0);
    const struct mo_view_run *run = &view->runs[0];
    assert_int_equal(run->predicted_end, 1 * MS);
    assert_int_equal(b.timer, 3 * MS);
    mo_sched_timer(b.s, 3 * MS);
    assert_int_equal(run->late_since, 0);
    assert_int_equal(b.timer, 6 * MS);
    mo_sched_timer(b.s, 6 * MS);
    assert_int_equal(run->late_since, 1 * MS);
    assert_int_equal(run->predicted_end, 11 * MS);
    assert_int_equal(view->n_late, 1);
    assert_int_equal(b.events[MO_EVENT_LATE], 1);
    mo_sched_timer(b.s, 9 * MS); /* as guessed so far; policies may look again */
    assert_int_equal(run->predicted_end, 11 * MS);
    assert_int_equal(b.events[MO_EVENT_LATE], 2);
    mo_sched_timer(b.s, 12 * MS); /* it goes on: as long again as it has */
    assert_int_equal(run->predicted_end, 23 * MS);
    assert_int_equal(mo_sched_stats(b.s)->stalls, 1);
    mo_sched_block_done(b.s, 0, true, MOIRE_OK, 0, 20 * MS, NULL, 20 * MS);
    assert_int_equal(mo_sched_stats(b.s)->stall_ns, 19 * MS);
    assert_int_equal(view->n_late, 0);
    mo_sched_timer(b.s, b.timer);
    assert_true(b.timer == MO_NEVER); /* nothing runs, nothing is watched */
    tear_down(&b);
}

/* Which core of the team stands still nobody knows: where another query waits, all but the lead are asked to
 * leave, and one that does is there for it.  The guess about the block stays. */
static void a_late_team_lets_its_cores_go(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, false, false);
    b.block_cores = 2;
    const struct mo_view *view = mo_sched_view(b.s);
    const struct mo_view_run *run = &view->runs[0];
    submit(&b, 0, 0);
    assert_int_equal(run->n_cores, 2);
    mo_sched_timer(b.s, 6 * MS);
    assert_int_equal(view->n_late, 2);
    assert_int_equal(b.n_resized, 0); /* nobody waits */
    b.block_cores = 1;
    submit(&b, 1, 7 * MS);
    assert_int_equal(b.n_resized, 1);
    assert_int_equal(b.resize.n_cores, 1);
    assert_true(mo_cores_has(&b.resize.leave, 1) && !mo_cores_has(&b.resize.leave, 0));
    assert_int_equal(run->late_since, 1 * MS);
    assert_int_equal(run->predicted_end, 13 * MS);
    assert_int_equal(view->n_late, 2); /* both are inside still */
    mo_sched_cores_back(b.s, 0, &b.resize.leave, 8 * MS);
    assert_int_equal(view->n_late, 1);
    assert_int_equal(run->predicted_end, 15 * MS);
    assert_int_equal(b.run[1].n_cores, 1);
    assert_int_equal(view->n_idle, 0);
    for (int64_t now = 9 * MS; now < 20 * MS; now += 3 * MS) /* nor is it asked again */
        mo_sched_timer(b.s, now);
    assert_int_equal(b.n_resized, 1);
    mo_sched_block_done(b.s, 0, true, MOIRE_OK, 0, 20 * MS, NULL, 20 * MS);
    tear_down(&b);
}

static void decisions_look_too(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, false, false);
    submit(&b, 0, 0);
    submit(&b, 1, 7 * MS); /* before any timer */
    assert_int_equal(mo_sched_view(b.s)->n_late, 1);
    tear_down(&b);
}

/* On time for its deadline of 6 ms when it began, hopeless when it is found late: the answer comes then and
 * the core comes back when it does.  Where a tenant does not shed, the decision is refused. */
static void a_hopeless_query_of_a_late_block_is_shed(void **state) {
    (void)state;
    for (int allowed = 0; allowed < 2; allowed++) {
        struct bed b;
        set_up(&b, false, allowed);
        int slot = submit(&b, 0, 0);
        mo_sched_timer(b.s, 3 * MS);
        mo_sched_timer(b.s, 5 * MS);
        assert_int_equal(b.n_resolved, 0); /* not looked at yet */
        mo_sched_timer(b.s, 6 * MS - 1);
        mo_sched_timer(b.s, 6 * MS);
        assert_int_equal(b.n_resolved, allowed);
        assert_int_equal(mo_sched_stats(b.s)->refused, !allowed);
        assert_int_equal(mo_sched_stats(b.s)->stall_sheds, allowed);
        if (allowed) {
            assert_int_equal(b.outcome[0], MOIRE_EEXPIRED);
            mo_sched_answered(b.s, slot, 6 * MS);
        }
        assert_int_equal(mo_sched_view(b.s)->n_idle, CORES - 1);
        assert_int_equal(mo_sched_tenant_pending(b.s, 0), 1); /* its block still runs */
        mo_sched_block_done(b.s, 0, true, MOIRE_OK, 0, 20 * MS, NULL, 20 * MS);
        assert_int_equal(mo_sched_view(b.s)->n_idle, CORES);
        assert_int_equal(b.n_resolved, 1);
        tear_down(&b);
    }
}

/* A running query that is on time is nobody's to shed. */
static void only_late_blocks_may_be_shed_from(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, false, true);
    int slot;
    assert_int_equal(mo_sched_arrival_by(b.s, 0, 1, 2, NULL, 1, &slot, NULL), MOIRE_OK);
    submit(&b, 1, 3); /* the policy asks for it here */
    assert_int_equal(b.n_resolved, 0);
    assert_int_equal(mo_sched_stats(b.s)->refused, 1);
    tear_down(&b);
}

/* Four layers of 1 ms, the first one stalled.  Should it end this moment, the others take 3 ms, so of a
 * deadline at 20 ms the query may hope until 17 ms; it is told at the next look, 2 ms ahead of its deadline.
 */
static void policies_that_shed_do_so_from_late_blocks(void **state) {
    (void)state;
    static const char *const names[] = {"moire", "edf-reject", "llf"};
    for (int i = 0; i < 6; i++) {
        const bool allowed = i % 2;
        struct bed b = {.policy = *mo_policy_find(names[i / 2]), .n_layers = 4};
        open_bed(&b, allowed);
        int slot;
        assert_int_equal(mo_sched_arrival_by(b.s, 0, 0, 20 * MS, NULL, 0, &slot, NULL), MOIRE_OK);
        assert_int_equal(b.run[0].end, 1);
        for (int64_t now = 6 * MS; now <= 15 * MS; now += 3 * MS)
            mo_sched_timer(b.s, now);
        assert_true(mo_sched_view(b.s)->n_late > 0);
        assert_int_equal(b.n_resolved, 0);
        mo_sched_timer(b.s, 18 * MS);
        assert_int_equal(b.n_resolved, allowed);
        if (allowed) assert_int_equal(b.outcome[0], MOIRE_ESHED);
        mo_sched_timer(b.s, 21 * MS);
        assert_int_equal(mo_sched_stats(b.s)->refused, 0); /* nor is it asked for again */
        tear_down(&b);
    }
}

static void without_watch_no_timer_runs(void **state) {
    (void)state;
    struct bed b;
    set_up(&b, true, true);
    submit(&b, 0, 0);
    assert_true(b.timer == MO_NEVER);
    submit(&b, 1, 50 * MS);
    assert_int_equal(mo_sched_view(b.s)->n_late, 0);
    tear_down(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pace_is_everybodys),
        cmocka_unit_test(a_tenant_keeps_its_own_residual),
        cmocka_unit_test(residual_and_pace_do_not_part),
        cmocka_unit_test(beside_a_pace_tenants_learn_how_they_differ),
        cmocka_unit_test(without_pace_only_the_residual_moves),
        cmocka_unit_test(a_stalled_block_is_late_and_its_end_moves),
        cmocka_unit_test(a_late_team_lets_its_cores_go),
        cmocka_unit_test(decisions_look_too),
        cmocka_unit_test(a_hopeless_query_of_a_late_block_is_shed),
        cmocka_unit_test(only_late_blocks_may_be_shed_from),
        cmocka_unit_test(policies_that_shed_do_so_from_late_blocks),
        cmocka_unit_test(without_watch_no_timer_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
