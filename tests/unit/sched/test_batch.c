/* SPDX-License-Identifier: Apache-2.0
 * test_batch.c - blocks that take several queries: what the core accepts, what becomes of each member, and
 * that nothing is lost whatever is cancelled, closed or aborted meanwhile.  The engine here is a table that
 * remembers the blocks; the test ends them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/history/recorded.h"
#include "runtime/sched/sched.h"

enum { CORES = 4, LAYERS = 3, MAX_QUERIES = 256, MOST = 4, INSTANCES = 8, QUEUE = 32, TENANTS = 3 };

struct fake {
    struct mo_env env;
    struct mo_sched *sched;
    struct mo_profile *profile;
    struct mo_events *events;
    struct mo_run run[CORES];
    bool running[CORES];
    struct mo_query_list resolved;
    int64_t now;
    int accepted, answered[MAX_QUERIES + 1], issued, released, starts;
    bool late; /* blocks come after their latest start */
};

/* What the next dispatch shall decide; a test's policy, so it may look at the test. */
static struct mo_decision script[4];
static int n_script;

static void scripted(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)state, (void)view, (void)event;
    for (int i = 0; i < n_script; i++)
        out->list[out->n++] = script[i];
    n_script = 0;
    mo_decide_timer(out, INT64_MAX - 1); /* or the core would start a block itself */
}
static const struct mo_policy by_script = {
    .name = "script", .description = "", .state_bytes = 8, .dispatch = scripted};

/* Every idle core takes as many queries of one tenant as may run together, a layer at a time. */
static void eager(void *state, const struct mo_view *view, const struct mo_event *event,
                  struct mo_decisions *out) {
    (void)state, (void)event;
    struct mo_cores idle = view->idle;
    int left = view->n_idle;
    for (int i = 0; i < view->n_tenants && left; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        const int *list = t->n_paused ? t->paused : t->waiting;
        int n = t->n_paused                        ? t->n_paused
                : t->n_waiting < t->free_instances ? t->n_waiting
                                                   : t->free_instances,
            same = 1;
        if (!n) continue;
        while (same < n && same < view->max_batch &&
               view->queries[list[same]].next_layer == view->queries[list[0]].next_layer)
            same++;
        out->list[out->n++] = (struct mo_decision){.kind = MO_RUN,
                                                   .query = list[0],
                                                   .batch = same,
                                                   .end = view->queries[list[0]].next_layer + 1,
                                                   .cores = mo_cores_take(&idle, 1, -1),
                                                   .when = MO_NEVER};
        left--;
    }
}
static const struct mo_policy by_greed = {
    .name = "eager", .description = "", .state_bytes = 8, .dispatch = eager};

/* One event a core of a block's let. */
static void record(struct fake *f, int kind, const struct mo_run *run) {
    uint64_t handle = mo_query_handle(mo_sched_queries(f->sched), run->query);
    for (int c = run->lead; c >= 0; c = mo_cores_next(&run->cores, c))
        mo_event_put(&f->events->ring[0], f->now, kind, handle, run->tenant, run->begin, run->end, c);
}

static void start(void *self, const struct mo_run *run) {
    struct fake *f = self;
    assert_false(f->running[run->lead]);
    f->running[run->lead] = true;
    f->run[run->lead] = *run;
    f->starts++;
    record(f, f->late ? MO_LOG_BLOCK_DROP : MO_LOG_BLOCK_START, run);
}
static void set_timer(void *self, int64_t when) {
    (void)self, (void)when;
}
static void resolved(void *self, int slot) {
    struct fake *f = self;
    mo_query_list_put(mo_sched_queries(f->sched), &f->resolved, slot);
}
static void released(void *self, int tenant, void *user) {
    (void)tenant, (void)user;
    ((struct fake *)self)->released++;
}

static void deliver(struct fake *f) {
    struct mo_answer a;
    for (int slot; (slot = mo_query_list_take(mo_sched_queries(f->sched), &f->resolved, &a)) >= 0;) {
        int tenant = mo_sched_queries(f->sched)->view[slot].tenant;
        mo_event_put(&f->events->ring[0], f->now, MO_LOG_CALLBACK_IN, a.query, tenant, a.code, 0, 0);
        mo_event_put(&f->events->ring[0], f->now, MO_LOG_CALLBACK_OUT, a.query, tenant, a.code, 0, 0);
        f->answered[(uintptr_t)a.user]++;
        mo_sched_answered(f->sched, slot, f->now);
    }
}

static void end_block(struct fake *f, int lead, int code) {
    f->now++;
    f->running[lead] = false;
    if (!f->late) record(f, MO_LOG_BLOCK_END, &f->run[lead]);
    mo_sched_block_done(f->sched, lead, !f->late, code, f->now - 1, f->now, NULL, f->now);
    deliver(f);
}

static void end_all(struct fake *f) {
    for (bool any = true; any;) {
        any = false;
        for (int c = 0; c < CORES; c++)
            if (f->running[c]) {
                end_block(f, c, MOIRE_OK);
                any = true;
            }
    }
}

static uint64_t submit(struct fake *f, int tenant) {
    int slot;
    f->now++;
    mo_event_put(&f->events->ring[0], f->now, MO_LOG_SUBMIT, 0, tenant, f->now, 0, 0);
    uintptr_t user = (uintptr_t)f->issued + 1;
    int code = mo_sched_arrival(f->sched, tenant, f->now, (void *)user, f->now, &slot, NULL);
    uint64_t handle = code ? 0 : mo_query_handle(mo_sched_queries(f->sched), slot);
    f->accepted += !code;
    f->issued += !code;
    deliver(f);
    return handle;
}

static void open_tenant(struct fake *f, bool shed) {
    int tenant;
    struct mo_sched_tenant_config c = {
        .qos_ns = 1000, .shed_late = shed, .queue = QUEUE, .instances = INSTANCES, .profile = f->profile};
    assert_int_equal(mo_sched_tenant_open(f->sched, &c, f->now, &tenant, NULL), MOIRE_OK);
}

static struct fake *make(const struct mo_policy *policy, int max_batch) {
    static const struct mo_engine_ops ops = {
        .start = start, .set_timer = set_timer, .resolved = resolved, .released = released};
    struct fake *f = calloc(1, sizeof *f);
    f->env = mo_env_default();
    f->resolved = MO_QUERY_LIST_EMPTY;
    f->now = 1;
    f->profile = mo_profile_create(&f->env, LAYERS, CORES);
    mo_profile_record(f->profile, 1, (const int64_t[]){100, 100, 100});
    mo_profile_finish(f->profile);
    f->events = mo_events_create(&f->env, 1, 1 << 17);
    struct mo_sched_config c = {.env = &f->env,
                                .policy = policy,
                                .n_cores = CORES,
                                .max_queries = MAX_QUERIES,
                                .max_tenants = TENANTS,
                                .max_batch = max_batch,
                                .ops = &ops,
                                .engine = f,
                                .ring = &f->events->ring[0]};
    assert_int_equal(mo_sched_create(&c, &f->sched, NULL), MOIRE_OK);
    n_script = 0;
    open_tenant(f, true);
    return f;
}

static void finish(struct fake *f) {
    for (int i = 1; i <= f->issued && i <= MAX_QUERIES; i++)
        assert_int_equal(f->answered[i], 1);
    assert_int_equal(f->released, f->accepted);
    history_of_events(f->events, CORES, f->accepted);
    mo_sched_destroy(f->sched);
    mo_events_destroy(f->events);
    mo_profile_destroy(f->profile);
    free(f);
}

static struct mo_decision run_of(const struct fake *f, int nth, int batch, int end) {
    const struct mo_view *v = mo_sched_view(f->sched);
    return (struct mo_decision){.kind = MO_RUN,
                                .query = v->tenants[0].waiting[nth],
                                .batch = batch,
                                .end = end,
                                .cores = mo_cores_first(2),
                                .when = MO_NEVER};
}

/* Dispatches once with the decisions of the script. */
static int64_t refusals(struct fake *f) {
    int64_t before = mo_sched_stats(f->sched)->refused;
    mo_sched_hold(f->sched);
    int n = n_script;
    n_script = 0;
    submit(f, 0); /* noted while held: unhold dispatches */
    n_script = n;
    mo_sched_unhold(f->sched, f->now);
    return mo_sched_stats(f->sched)->refused - before;
}

static void a_batch_runs_and_ends_as_one(void **state) {
    (void)state;
    struct fake *f = make(&by_script, MOST);
    for (int i = 0; i < 5; i++)
        submit(f, 0);
    script[0] = run_of(f, 1, 3, 1);
    n_script = 1;
    assert_int_equal(refusals(f), 0);
    assert_int_equal(f->run[0].batch, 3);
    const struct mo_view *v = mo_sched_view(f->sched);
    assert_int_equal(v->runs[0].batch, 3);
    assert_int_equal(v->tenants[0].n_waiting, 3);
    assert_int_equal(v->tenants[0].free_instances, INSTANCES - 3);
    assert_true(v->runs[0].predicted_end >= f->now + 300 / 2); /* three queries, two cores */
    end_block(f, 0, MOIRE_OK);
    assert_int_equal(v->tenants[0].n_paused, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(v->queries[v->tenants[0].paused[i]].next_layer, 1);
    script[0] = run_of(f, 0, 3, LAYERS);
    script[0].query = v->tenants[0].paused[0];
    n_script = 1;
    assert_int_equal(refusals(f), 0);
    end_block(f, 0, MOIRE_OK);
    assert_int_equal(mo_sched_stats(f->sched)->ok, 3);
    assert_int_equal(mo_sched_stats(f->sched)->members, 6);
    assert_int_equal(mo_sched_stats(f->sched)->blocks, 2);
    mo_sched_abort(f->sched, MOIRE_ESHUTDOWN, f->now);
    deliver(f);
    finish(f);
}

static void decisions_that_break_a_rule_of_batches_are_refused(void **state) {
    (void)state;
    struct fake *f = make(&by_script, MOST);
    for (int i = 0; i < 6; i++)
        submit(f, 0);
    const struct mo_view *v = mo_sched_view(f->sched);
    struct mo_decision bad[] = {run_of(f, 0, MOST + 1, 1), run_of(f, 5, 4, 1), run_of(f, 0, 2, LAYERS + 1)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        script[0] = bad[i];
        n_script = 1;
        assert_int_equal(refusals(f), 1);
    }
    assert_int_equal(f->starts, 0);
    /* instances: 8, so two batches of four and no third */
    for (int i = 0; i < 3; i++) {
        script[0] = run_of(f, 0, i < 2 ? 4 : 1, i + 1);
        script[0].cores = (struct mo_cores){0};
        mo_cores_add(&script[0].cores, i);
        n_script = 1;
        assert_int_equal(refusals(f), i == 2);
    }
    /* four stand at layer 1 and four at layer 2: of the third to the sixth no batch can be made */
    end_block(f, 0, MOIRE_OK);
    end_block(f, 1, MOIRE_OK);
    assert_int_equal(v->tenants[0].n_paused, 8);
    for (int i = 2; i >= 0; i -= 2) {
        script[0] = run_of(f, 0, 4, LAYERS);
        script[0].query = v->tenants[0].paused[i];
        n_script = 1;
        assert_int_equal(refusals(f), i == 2);
    }
    mo_sched_abort(f->sched, MOIRE_ESHUTDOWN, f->now);
    deliver(f);
    end_all(f);
    finish(f);
}

static void an_engine_of_fixed_shapes_takes_no_batch(void **state) {
    (void)state;
    struct fake *f = make(&by_script, 0);
    for (int i = 0; i < 3; i++)
        submit(f, 0);
    assert_int_equal(mo_sched_view(f->sched)->max_batch, 1);
    script[0] = run_of(f, 0, 2, 1);
    n_script = 1;
    assert_int_equal(refusals(f), 1);
    script[0] = run_of(f, 0, 1, 1);
    n_script = 1;
    assert_int_equal(refusals(f), 0);
    mo_sched_abort(f->sched, MOIRE_ESHUTDOWN, f->now);
    deliver(f);
    end_all(f);
    finish(f);
}

static void members_fail_and_come_late_together(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct fake *f = make(&by_script, MOST);
        f->late = late;
        for (int i = 0; i < 3; i++)
            submit(f, 0);
        script[0] = run_of(f, 0, 3, LAYERS);
        n_script = 1;
        assert_int_equal(refusals(f), 0);
        end_block(f, 0, late ? MOIRE_OK : MOIRE_EFAILED);
        assert_int_equal(mo_sched_view(f->sched)->tenants[0].n_paused, late ? 3 : 0); /* no layer further */
        assert_int_equal(mo_sched_stats(f->sched)->failed, late ? 0 : 3);
        mo_sched_abort(f->sched, MOIRE_ESHUTDOWN, f->now);
        deliver(f);
        finish(f);
    }
}

static uint64_t draw(uint64_t *s) {
    uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
}

/* Arrivals, ends, cancels of waiting, paused and running members, and at the end a close or an abort. */
static void nothing_is_lost(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct fake *f = make(&by_greed, MOST);
        for (int i = 1; i < TENANTS; i++)
            open_tenant(f, false);
        uint64_t rng = seed, handle[MAX_QUERIES];
        int n = 0;
        while (f->issued < MAX_QUERIES - 1) {
            uint64_t what = draw(&rng) % 8;
            int at = (int)(draw(&rng) % CORES);
            if (what < 4 && (handle[n] = submit(f, (int)(draw(&rng) % TENANTS)))) n++;
            if (what >= 4 && what < 7 && f->running[at])
                end_block(f, at, draw(&rng) % 16 ? MOIRE_OK : MOIRE_EFAILED);
            if (what == 7 && n) {
                mo_sched_cancel(f->sched, handle[draw(&rng) % (uint64_t)n], MOIRE_ECANCELLED, f->now);
                deliver(f);
            }
        }
        if (seed % 2)
            mo_sched_tenant_close(f->sched, (int)(seed % TENANTS), MOIRE_EUNLOADED, f->now);
        else
            mo_sched_abort(f->sched, MOIRE_ESHUTDOWN, f->now);
        deliver(f);
        end_all(f);
        const struct mo_sched_stats *s = mo_sched_stats(f->sched);
        print_message("seed %d: %lld blocks of %lld queries\n", (int)seed, (long long)s->blocks,
                      (long long)s->members);
        assert_int_equal(s->refused, 0);
        assert_true(s->members > s->blocks);
        finish(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_runs_and_ends_as_one),
        cmocka_unit_test(decisions_that_break_a_rule_of_batches_are_refused),
        cmocka_unit_test(an_engine_of_fixed_shapes_takes_no_batch),
        cmocka_unit_test(members_fail_and_come_late_together),
        cmocka_unit_test(nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
