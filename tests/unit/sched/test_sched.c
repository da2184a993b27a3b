/* SPDX-License-Identifier: Apache-2.0
 * test_sched.c - the scheduler core and every policy in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/sched/sim_engine.h"

static const int64_t SECOND = 1000000000;

static struct sim_config mix(const struct mo_policy *policy, double load, uint64_t seed) {
    struct sim_config c = {.policy = policy,
                           .n_cores = 2,
                           .duration_ns = 20 * SECOND,
                           .warmup_ns = SECOND,
                           .seed = seed,
                           .noise = 0.1,
                           .drain = true};
    sim_mix(&c, load, 4, 1);
    return c;
}

/* What must hold for whatever ran. */
static void check(const struct sim_result *r) {
    const struct mo_sched_stats *s = &r->stats;
    assert_int_equal(r->violations, 0);
    assert_int_equal(r->unanswered, 0);
    assert_int_equal(s->accepted,
                     s->ok + s->expired + s->shed + s->cancelled + s->failed + s->unloaded + s->shutdown);
    assert_int_equal(s->failed, 0);
}

static void every_policy_answers_each_query_once(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policies(); *p; p++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct sim_config c = mix(*p, 0.5 + 0.35 * (double)seed, seed);
            c.cancel_rate = 0.1;
            for (int i = 0; i < c.n_tenants; i++) {
                c.tenant[i].shed_late = i % 2;
                c.tenant[i].queue = 8 << i;
                c.tenant[i].instances = 1 + i % 4;
            }
            struct sim_result r;
            assert_int_equal(sim_run(&c, &r), MOIRE_OK);
            check(&r);
            assert_int_equal(r.stats.refused, 0);
            assert_true(r.stats.cancelled > 0);
        }
    }
}

static void runs_are_reproducible(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policies(); *p; p++) {
        struct sim_config c = mix(*p, 0.8, 7);
        struct sim_result a, b;
        sim_run(&c, &a);
        sim_run(&c, &b);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void many_cores_are_never_overcommitted(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policies(); *p; p++) {
        struct sim_config c = mix(*p, 0.8, 3);
        c.n_cores = 24;
        sim_mix(&c, 0.8, 4, 1);
        c.duration_ns = 4 * SECOND;
        struct sim_result r;
        sim_run(&c, &r);
        check(&r);
        assert_int_equal(r.stats.refused, 0);
    }
}

/* The reason for the project: at this load whole models on all cores, in order of arrival, are late by the
 * dozen. */
static void deadlines_beat_fifo(void **state) {
    (void)state;
    struct sim_result fifo, ours;
    struct sim_config c = mix(mo_policy_find("fcfs"), 0.8, 1);
    c.duration_ns = 60 * SECOND;
    sim_run(&c, &fifo);
    c.policy = mo_policy_find("moire");
    sim_run(&c, &ours);
    assert_true(ours.overall > 0.94);
    assert_true(fifo.overall < ours.overall - 0.2);
}

/* Speed-up is not linear: who takes no more cores than deadlines ask for carries more on many cores.  No
 * rival of whatever kind carries more. */
static void fewest_cores_carry_most(void **state) {
    (void)state;
    struct sim_result ours, theirs;
    struct sim_config c = mix(mo_policy_find("moire"), 0.9, 2);
    c.n_cores = 24;
    sim_mix(&c, 0.9, 4, 1);
    c.duration_ns = 6 * SECOND;
    sim_run(&c, &ours);
    check(&ours);
    assert_true(ours.worst > 0.99);
    for (const struct mo_policy *const *p = mo_policies(); *p; p++) {
        c.policy = *p;
        sim_run(&c, &theirs);
        check(&theirs);
        assert_true(theirs.overall <= ours.overall);
    }
}

static void light_load_meets_every_deadline(void **state) {
    (void)state;
    struct sim_config c = mix(mo_policy_find("moire"), 0.3, 5);
    struct sim_result r;
    sim_run(&c, &r);
    assert_true(r.overall > 0.995);
    assert_true(r.worst > 0.97);
}

static void shedding_is_late_and_only_where_allowed(void **state) {
    (void)state;
    struct sim_config c = mix(mo_policy_find("moire"), 1.3, 2);
    for (int i = 0; i < c.n_tenants; i++)
        c.tenant[i].shed_late = i == 0;
    struct sim_result r;
    sim_run(&c, &r);
    check(&r);
    assert_true(r.stats.shed + r.stats.expired > 0);
    for (int i = 1; i < c.n_tenants; i++)
        assert_int_equal(r.tenant[i].ok + r.tenant[i].rejected, r.tenant[i].n);
}

/* --- an adversary: decisions that break every rule --- */
struct dice {
    uint64_t s;
};

static uint32_t roll(struct dice *d, uint32_t n) {
    d->s = d->s * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(d->s >> 33) % n;
}

static void nonsense(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)event;
    struct dice *d = state;
    for (int i = roll(d, 6); i > 0; i--) {
        struct mo_cores cores = {0};
        for (int k = roll(d, 3); k > 0; k--)
            mo_cores_add(&cores, (int)roll(d, 70));
        int query = (int)roll(d, 5000) - 500;
        switch (roll(d, 6)) {
        case 0:
            mo_decide_shed(out, query);
            break;
        case 1:
            mo_decide_timer(out, view->now - 5 + (int64_t)roll(d, 100000));
            break;
        case 2:
            mo_decide_run(out, (int)roll(d, 8), (int)roll(d, 300) - 20, view->idle);
            break;
        case 3:
            mo_decide_run(out, (int)roll(d, 8), (int)roll(d, 80), cores);
            break;
        case 4:
            mo_decide_run(out, query, 1, cores);
            break;
        default:
            out->n = out->cap + (int)roll(d, 3);
            break; /* claims more than there is room for */
        }
    }
    if (out->n > out->cap) memset(out->list, 0xff, (size_t)out->cap * sizeof *out->list);
}

static void bad_decisions_are_refused_and_counted(void **state) {
    (void)state;
    const struct mo_policy adversary = {
        .name = "adversary", .state_bytes = sizeof(struct dice), .dispatch = nonsense};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct sim_config c = mix(&adversary, 0.4, seed);
        c.cancel_rate = 0.2;
        c.tenant[0].shed_late = true;
        struct sim_result r;
        sim_run(&c, &r);
        check(&r);
        assert_true(r.stats.refused > 1000);
    }
}

/* A policy that never decides anything: the core itself keeps answering. */
static void sulk(void *state, const struct mo_view *view, const struct mo_event *event,
                 struct mo_decisions *out) {
    (void)state, (void)view, (void)event, (void)out;
}

static void a_silent_policy_does_not_stop_the_core(void **state) {
    (void)state;
    const struct mo_policy silent = {.name = "silent", .state_bytes = 64, .dispatch = sulk};
    struct sim_config c = mix(&silent, 0.3, 1);
    struct sim_result r;
    sim_run(&c, &r);
    check(&r);
    assert_true(r.stats.forced_runs > 0);
}

/* --- the core by hand: cancel, unload, generations --- */
struct manual {
    struct mo_run last;
    int starts, resolved[64], n_resolved, released;
};

static void manual_start(void *self, const struct mo_run *run) {
    struct manual *h = self;
    h->last = *run;
    h->starts++;
}
static void manual_timer(void *self, int64_t when) {
    (void)self, (void)when;
}
static void manual_resolved(void *self, int slot) {
    struct manual *h = self;
    h->resolved[h->n_resolved++ % 64] = slot;
}
static void manual_released(void *self, int tenant, void *user) {
    (void)tenant, (void)user;
    ((struct manual *)self)->released++;
}

struct fixture {
    struct mo_env env;
    struct manual manual;
    struct mo_sched *s;
    struct mo_profile *profile;
    int tenant;
};

static void set_up(struct fixture *f, const char *policy, int queue, int instances) {
    static const struct mo_engine_ops ops = {.start = manual_start,
                                             .set_timer = manual_timer,
                                             .resolved = manual_resolved,
                                             .released = manual_released};
    *f = (struct fixture){.env = mo_env_default()};
    struct mo_sched_config c = {.env = &f->env,
                                .policy = mo_policy_find(policy),
                                .n_cores = 2,
                                .max_queries = 8,
                                .max_tenants = 2,
                                .block_ns = 1000,
                                .ops = &ops,
                                .engine = &f->manual};
    assert_int_equal(mo_sched_create(&c, &f->s, NULL), MOIRE_OK);
    f->profile = mo_profile_create(&f->env, 3, 2);
    int64_t ns[3] = {1000, 1000, 1000};
    mo_profile_record(f->profile, 1, ns);
    mo_profile_finish(f->profile);
    struct mo_sched_tenant_config tc = {
        .qos_ns = 100000, .queue = queue, .instances = instances, .profile = f->profile};
    assert_int_equal(mo_sched_tenant_open(f->s, &tc, 0, &f->tenant, NULL), MOIRE_OK);
}

static void tear_down(struct fixture *f) {
    mo_sched_destroy(f->s);
    mo_profile_destroy(f->profile);
}

static uint64_t submit(struct fixture *f, int64_t now) {
    int slot;
    assert_int_equal(mo_sched_arrival(f->s, f->tenant, now, NULL, now, &slot, NULL), MOIRE_OK);
    return mo_query_handle(mo_sched_queries(f->s), slot);
}

static void cancel_while_running_keeps_slot_and_instance(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "fcfs-1", 4, 1);
    uint64_t q = submit(&f, 10);
    assert_int_equal(f.manual.starts, 1);
    assert_int_equal(mo_sched_cancel(f.s, q, MOIRE_ECANCELLED, 20), MOIRE_OK);
    assert_int_equal(mo_sched_cancel(f.s, q, MOIRE_ECANCELLED, 21), MOIRE_ESTALE);
    assert_int_equal(f.manual.n_resolved, 1);
    mo_sched_answered(f.s, f.manual.resolved[0], 30);
    assert_int_equal(f.manual.released, 0);
    uint64_t next = submit(&f, 35); /* must wait for the instance */
    assert_int_equal(f.manual.starts, 1);
    mo_sched_block_done(f.s, f.manual.last.lead, true, MOIRE_OK, 10, 40, NULL, 40);
    assert_int_equal(f.manual.released, 1);
    assert_int_equal(f.manual.starts, 2);
    assert_true(next != q);
    assert_int_equal(mo_query_slot(mo_sched_queries(f.s), q), -1);
    tear_down(&f);
}

static void limits_reject_by_name(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "fcfs", 2, 1);
    moire_error err;
    int slot, rc = MOIRE_OK, accepted = 0;
    for (int i = 0; i < 6; i++) {
        rc = mo_sched_arrival(f.s, f.tenant, i + 1, NULL, i + 1, &slot, &err);
        accepted += rc == MOIRE_OK;
    }
    assert_int_equal(accepted, 3); /* one runs, two wait */
    assert_int_equal(rc, MOIRE_EBUSY);
    assert_non_null(strstr(err.message, "'queue'"));
    tear_down(&f);
}

static void closing_resolves_everything(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "fcfs", 8, 2);
    for (int i = 0; i < 5; i++)
        submit(&f, i + 1);
    mo_sched_tenant_close(f.s, f.tenant, MOIRE_EUNLOADED, 100);
    assert_int_equal(f.manual.n_resolved, 5);
    int slot;
    assert_int_equal(mo_sched_arrival(f.s, f.tenant, 101, NULL, 101, &slot, NULL), MOIRE_EUNLOADED);
    for (int i = 0; i < 5; i++)
        mo_sched_answered(f.s, f.manual.resolved[i], 110);
    assert_int_equal(mo_sched_tenant_pending(f.s, f.tenant), 1); /* a block still runs */
    mo_sched_block_done(f.s, f.manual.last.lead, true, MOIRE_OK, 1, 120, NULL, 120);
    assert_int_equal(mo_sched_tenant_pending(f.s, f.tenant), 0);
    mo_sched_tenant_free(f.s, f.tenant);
    tear_down(&f);
}

static void a_failed_block_fails_its_query(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "fcfs", 4, 1);
    submit(&f, 1);
    mo_sched_block_done(f.s, f.manual.last.lead, true, MOIRE_EFAILED, 1, 5, NULL, 5);
    assert_int_equal(f.manual.n_resolved, 1);
    assert_int_equal(mo_query_outcome(mo_sched_queries(f.s), f.manual.resolved[0]), MOIRE_EFAILED);
    tear_down(&f);
}

static void a_late_block_goes_back_to_its_query(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "moire", 4, 1);
    submit(&f, 1);
    int begin = f.manual.last.begin;
    mo_sched_block_done(f.s, f.manual.last.lead, false, MOIRE_OK, 1, 5, NULL, 5);
    assert_int_equal(f.manual.starts, 2);
    assert_int_equal(f.manual.last.begin, begin);
    assert_int_equal(mo_sched_stats(f.s)->late_drops, 1);
    tear_down(&f);
}

static void hold_keeps_cores_free(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "moire", 4, 2);
    mo_sched_hold(f.s);
    submit(&f, 1);
    assert_int_equal(f.manual.starts, 0);
    mo_sched_unhold(f.s, 2);
    assert_int_equal(f.manual.starts, 1);
    tear_down(&f);
}

static void old_handles_name_nobody(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_queries t;
    assert_int_equal(mo_queries_init(&t, &env, 1), MOIRE_OK);
    int slot = mo_query_open(&t);
    uint64_t old = mo_query_handle(&t, slot);
    assert_int_equal(mo_query_slot(&t, old), slot);
    assert_int_equal(mo_query_open(&t), -1);
    assert_true(mo_query_resolve(&t, slot, MOIRE_EFAILED));
    assert_false(mo_query_resolve(&t, slot, MOIRE_OK));
    assert_int_equal(mo_query_outcome(&t, slot), MOIRE_EFAILED);
    mo_query_release(&t, slot);
    assert_int_equal(mo_query_slot(&t, old), -1);
    assert_int_equal(mo_query_open(&t), slot);
    assert_int_equal(mo_query_slot(&t, old), -1);
    assert_int_equal(mo_query_slot(&t, 0), -1);
    assert_int_equal(mo_query_slot(&t, UINT64_MAX), -1);
    mo_queries_free(&t);
}

/* --- histograms --- */
static void histogram_quantiles_are_close(void **state) {
    (void)state;
    static moire_histogram h;
    for (int i = 1; i <= 10000; i++)
        mo_histogram_add(&h, i * 10);
    assert_in_range(moire_histogram_quantile(&h, 0.5), 50000, 57000);
    assert_in_range(moire_histogram_quantile(&h, 0.99), 99000, 100000);
    assert_int_equal(h.max_ns, 100000);
    mo_histogram_add(&h, INT64_MAX);
    mo_histogram_add(&h, -1);
    assert_int_equal(h.count, 10002);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_answers_each_query_once),
        cmocka_unit_test(runs_are_reproducible),
        cmocka_unit_test(many_cores_are_never_overcommitted),
        cmocka_unit_test(deadlines_beat_fifo),
        cmocka_unit_test(fewest_cores_carry_most),
        cmocka_unit_test(light_load_meets_every_deadline),
        cmocka_unit_test(shedding_is_late_and_only_where_allowed),
        cmocka_unit_test(bad_decisions_are_refused_and_counted),
        cmocka_unit_test(a_silent_policy_does_not_stop_the_core),
        cmocka_unit_test(cancel_while_running_keeps_slot_and_instance),
        cmocka_unit_test(limits_reject_by_name),
        cmocka_unit_test(closing_resolves_everything),
        cmocka_unit_test(a_failed_block_fails_its_query),
        cmocka_unit_test(a_late_block_goes_back_to_its_query),
        cmocka_unit_test(hold_keeps_cores_free),
        cmocka_unit_test(old_handles_name_nobody),
        cmocka_unit_test(histogram_quantiles_are_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
