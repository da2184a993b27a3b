/* SPDX-License-Identifier: Apache-2.0
 * test_parking.c - watts by hand, units that are parked and wake up, and clocks, in the core and the
 * simulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "runtime/sim/sim.h"

enum { CORES = 2, MS = 1000000, WAKE_MS = 3, QUERIES = 8 };
static const int64_t s = 1000000000;

static const struct mo_power_kind kind = {.off_w = 10,
                                          .idle_w = 30,
                                          .active_w = 130,
                                          .shared = 0.5,
                                          .wake_j = 0.25,
                                          .wake_ns = WAKE_MS * MS,
                                          .n_clocks = 2,
                                          .clock = {{0.5, 0.25}, {1, 1}}};
static const struct mo_power_machine machine = {
    .n_devices = 1, .n_units = CORES, .first = {0, CORES}, .kind = {&kind}};

static void assert_near(double a, double b) {
    if (fabs(a - b) > 1e-9 * fmax(1, fabs(b))) fail_msg("%.12g is not %.12g", a, b);
}

static void watts_are_those_worked_by_hand(void **state) {
    (void)state;
    assert_near(mo_power_watts(&kind, 0, 0, 1), 10);
    assert_near(mo_power_watts(&kind, 1, 0, 1), 30);
    assert_near(mo_power_watts(&kind, 0.5, 0, 1), 10 + 20 * 0.75);
    assert_near(mo_power_watts(&kind, 1, 0.5, 1), 30 + 50);
    assert_near(mo_power_watts(&kind, 1, 1, 0), 30 + 25);
    assert_int_equal(mo_power_device_of(&machine, 1), 0);
    assert_int_equal(mo_power_device_of(&machine, CORES), 1);
}

static void a_meter_adds_up(void **state) {
    struct mo_power_meter m;
    (void)state;
    mo_power_meter_begin(&m, &machine, INT64_MAX);
    mo_power_meter_advance(&m, 5 * s); /* begins here */
    assert_near(mo_power_meter_joules(&m, 7 * s), 2 * 30);
    mo_power_meter_advance(&m, 6 * s);
    m.watts[0] = 100;
    assert_near(mo_power_meter_joules(&m, 8 * s), 30 + 200);
    assert_near(mo_power_meter_joules(&m, 4 * s), 30);
}

/* --- in the core ---------------------------------------------------------------------------------------- */
/* What the policy is to decide at the next event, once. */
struct script {
    bool parks, clocks;
    struct mo_cores parked;
    int device, clock;
};
static struct script script;

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct mo_cores idle = view->idle;
    (void)state, (void)event;
    if (script.parks) mo_decide_park(out, script.parked);
    if (script.clocks) mo_decide_clock(out, script.device, script.clock);
    if (!script.parks) {
        const struct mo_view_tenant *t = &view->tenants[0];
        for (int k = 0; k < t->n_waiting && k < t->free_instances && !mo_cores_none(&idle); k++)
            mo_decide_run(out, t->waiting[k], 1, mo_cores_take(&idle, 1, -1));
    }
    script.parks = script.clocks = false;
    mo_decide_timer(out, view->now + s);
}

static const struct mo_policy policy = {.name = "scripted", .state_bytes = 64, .dispatch = dispatch};

struct bed {
    struct mo_env env;
    struct mo_profile *profile;
    struct mo_sim *sim;
    int64_t end[QUERIES];
    int n;
};

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct bed *b = ctx;
    (void)tenant;
    assert_int_equal(a->code, MOIRE_OK);
    b->end[b->n++] = a->end;
}

/* One tenant whose queries take 4 ms on a core. */
static void open_bed(struct bed *b, bool powered) {
    int tenant;
    *b = (struct bed){.env = mo_env_default()};
    script = (struct script){0};
    b->profile = mo_profile_create(&b->env, 1, CORES);
    mo_profile_record(b->profile, 1, (int64_t[]){4 * MS});
    mo_profile_record(b->profile, 2, (int64_t[]){4 * MS});
    mo_profile_finish(b->profile);
    const struct mo_sim_config c = {.env = &b->env,
                                    .policy = &policy,
                                    .machine = {.n_cores = CORES, .power = powered ? &machine : NULL},
                                    .max_queries = QUERIES,
                                    .max_tenants = 1,
                                    .answer = answer,
                                    .ctx = b};
    assert_int_equal(mo_sim_create(&c, &b->sim, NULL), MOIRE_OK);
    const struct mo_sched_tenant_config t = {.queue = 4, .instances = 4, .profile = b->profile};
    assert_int_equal(mo_sim_open(b->sim, &t, &tenant, NULL), MOIRE_OK);
    mo_sim_advance(b->sim, 1);
}

static void close_bed(struct bed *b) {
    assert_int_equal(mo_sim_broken(b->sim), 0);
    mo_sim_destroy(b->sim);
    mo_profile_destroy(b->profile);
}

static void submit(struct bed *b) {
    assert_int_equal(mo_sim_submit(b->sim, 0, NULL, NULL, NULL), MOIRE_OK);
}

static const struct mo_view *view_of(const struct bed *b) {
    return mo_sched_view(mo_sim_sched(b->sim));
}

static void busy_cores_draw_what_they_are_said_to(void **state) {
    struct bed b;
    (void)state;
    open_bed(&b, true);
    submit(&b); /* 4 ms on one of two cores: 30 + 100 / 2 W */
    const double before = mo_sim_joules(b.sim);
    mo_sim_advance(b.sim, 1 + 10 * MS);
    assert_int_equal(b.n, 1);
    assert_near(mo_sim_joules(b.sim) - before, 0.004 * 80 + 0.006 * 30);
    close_bed(&b);
}

static void parked_cores_run_nothing_and_wake_up_late(void **state) {
    struct bed b;
    (void)state;
    open_bed(&b, true);
    script = (struct script){.parks = true, .parked = mo_cores_first(CORES)};
    submit(&b);
    assert_int_equal(view_of(&b)->n_idle, 0);
    assert_int_equal(mo_cores_count(&view_of(&b)->parked), CORES);
    const double before = mo_sim_joules(b.sim);
    mo_sim_advance(b.sim, 1 + 100 * MS);
    assert_int_equal(b.n, 0); /* the policy's timer keeps the core from waking them up by itself */
    assert_near(mo_sim_joules(b.sim) - before, 0.1 * 10);
    script = (struct script){.parks = true}; /* none is to be parked */
    const int64_t woken = mo_sim_now(b.sim);
    submit(&b);
    submit(&b); /* this event's decisions run what waits */
    assert_int_equal(view_of(&b)->n_running, 2);
    mo_sim_drain(b.sim);
    assert_int_equal(b.n, 3);
    assert_int_equal(b.end[0] - woken, (WAKE_MS + 4) * MS);
    close_bed(&b);
}

static void a_lower_clock_is_slower_and_draws_less(void **state) {
    struct bed b;
    (void)state;
    open_bed(&b, true);
    script = (struct script){.clocks = true, .device = 0, .clock = 0};
    const int64_t begin = mo_sim_now(b.sim);
    const double before = mo_sim_joules(b.sim);
    submit(&b);
    assert_int_equal(view_of(&b)->clock[0], 0);
    mo_sim_drain(b.sim);
    assert_int_equal(b.end[0] - begin, 8 * MS);
    assert_near(mo_sim_joules(b.sim) - before, 0.008 * (30 + 100 * 0.25 / 2));
    close_bed(&b);
}

static void what_breaks_a_rule_is_refused(void **state) {
    struct bed b;
    (void)state;
    open_bed(&b, true);
    submit(&b); /* core 0 is busy */
    script = (struct script){.parks = true, .parked = mo_cores_first(CORES), .clocks = true, .clock = 2};
    const int64_t before = mo_sched_stats(mo_sim_sched(b.sim))->refused;
    submit(&b);
    assert_int_equal(mo_sched_stats(mo_sim_sched(b.sim))->refused - before, 2);
    assert_true(mo_cores_none(&view_of(&b)->parked));
    mo_sim_drain(b.sim);
    close_bed(&b);
    open_bed(&b, false); /* nothing is known of power */
    script = (struct script){.parks = true, .clocks = true, .clock = 0};
    submit(&b);
    assert_int_equal(mo_sched_stats(mo_sim_sched(b.sim))->refused, 2);
    assert_near(mo_sim_joules(b.sim), 0);
    submit(&b);
    mo_sim_drain(b.sim);
    close_bed(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watts_are_those_worked_by_hand),
        cmocka_unit_test(a_meter_adds_up),
        cmocka_unit_test(busy_cores_draw_what_they_are_said_to),
        cmocka_unit_test(parked_cores_run_nothing_and_wake_up_late),
        cmocka_unit_test(a_lower_clock_is_slower_and_draws_less),
        cmocka_unit_test(what_breaks_a_rule_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
