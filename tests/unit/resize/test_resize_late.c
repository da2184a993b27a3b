/* SPDX-License-Identifier: Apache-2.0
 * test_resize_late.c - the core under an engine whose cores are late by lot: for a block's begin, to join it,
 * to leave it, for its end.  What happens next is drawn from a seed; every core is idle, in one block or on
 * its way back, every query is answered once, and the history is sound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "runtime/base/numbers.h"
#include "runtime/sched/sched.h"
#include "tests/history/recorded.h"
#include "tests/unit/resize/restless.h"

enum { CORES = 6, LAYERS = 4, QUERIES = 64, STEPS = 20000, SEEDS = 4 };

/* A core that was sent to a block. */
struct sent {
    uint64_t query; /* 0 = to none */
    int lead, tenant, begin, end;
    bool joins, inside; /* joins: it was not there at the block's begin; inside: it has told that it is in */
    bool over;          /* the block has ended without it */
};

struct bed {
    struct mo_env env;
    struct mo_sched *sched;
    struct mo_profile *profile;
    struct mo_events *events;
    struct sent core[CORES];
    struct mo_run run[CORES]; /* by lead; its cores are those of now */
    struct mo_cores leaving[CORES];
    struct mo_query_list resolved;
    uint64_t rng;
    int64_t now;
    int accepted, answered, released;
};

static uint64_t draw(struct bed *b, uint64_t n) {
    return mo_splitmix(&b->rng) % n;
}

static void put(struct bed *b, int kind, const struct sent *s, int64_t x, int64_t y, int64_t z) {
    mo_event_put(&b->events->ring[0], b->now, kind, s->query, s->tenant, x, y, z);
}

/* --- the core's calls --- */
static void send(struct bed *b, const struct mo_run *run, const struct mo_cores *cores, bool joins) {
    const uint64_t query = mo_query_handle(mo_sched_queries(b->sched), run->query);
    for (int c = mo_cores_next(cores, -1); c >= 0; c = mo_cores_next(cores, c)) {
        assert_int_equal(b->core[c].query, 0);
        b->core[c] = (struct sent){query, run->lead, run->tenant, run->begin, run->end, joins, false, false};
    }
}

static void start(void *self, const struct mo_run *run) {
    struct bed *b = self;
    b->run[run->lead] = *run;
    b->leaving[run->lead] = (struct mo_cores){0};
    send(b, run, &run->cores, false);
}

static void resize(void *self, const struct mo_resize *r) {
    struct bed *b = self;
    struct mo_run *run = &b->run[r->lead];
    assert_true(run->batch && mo_cores_subset(&r->leave, &run->cores));
    send(b, run, &r->join, true);
    mo_cores_join(&run->cores, &r->join);
    mo_cores_join(&b->leaving[r->lead], &r->leave);
}

static void set_timer(void *self, int64_t when) {
    (void)self, (void)when;
}

static void resolved(void *self, int slot) {
    struct bed *b = self;
    mo_query_list_put(mo_sched_queries(b->sched), &b->resolved, slot);
}

static void released(void *self, int tenant, void *user) {
    (void)tenant, (void)user;
    ((struct bed *)self)->released++;
}

static void deliver(struct bed *b) {
    struct mo_answer a;
    for (int slot; (slot = mo_query_list_take(mo_sched_queries(b->sched), &b->resolved, &a)) >= 0;) {
        int tenant = mo_sched_queries(b->sched)->view[slot].tenant;
        mo_event_put(&b->events->ring[0], b->now, MO_LOG_CALLBACK_IN, a.query, tenant, a.code, 0, 0);
        mo_event_put(&b->events->ring[0], b->now, MO_LOG_CALLBACK_OUT, a.query, tenant, a.code, 0, 0);
        b->answered++;
        mo_sched_answered(b->sched, slot, b->now);
    }
}

/* --- what cores do --- */
static void enter(struct bed *b, int c) {
    struct sent *s = &b->core[c];
    s->inside = true;
    if (s->joins)
        put(b, MO_LOG_GROW, s, c, 1, s->begin);
    else
        put(b, MO_LOG_BLOCK_START, s, s->begin, s->end, c);
}

/* It is out, of a block that runs or of one that ended without it. */
static void leave(struct bed *b, int c) {
    struct sent *s = &b->core[c];
    struct mo_cores one = {0};
    int lead = s->over ? -1 : s->lead;
    if (!s->inside && !s->over) enter(b, c);
    if (s->inside) put(b, MO_LOG_LEAVE, s, c, 0, s->begin);
    mo_cores_add(&one, c);
    if (lead >= 0) {
        mo_cores_subtract(&b->run[lead].cores, &one);
        mo_cores_subtract(&b->leaving[lead], &one);
    }
    s->query = 0;
    mo_sched_cores_back(b->sched, lead, &one, b->now);
    deliver(b);
}

/* Core c runs its block's last layer; of the others, some are not out yet. */
static void end(struct bed *b, int c) {
    const int lead = b->core[c].lead;
    struct mo_run *run = &b->run[lead];
    struct mo_cores late = {0};
    for (int o = mo_cores_next(&run->cores, -1); o >= 0; o = mo_cores_next(&run->cores, o)) {
        struct sent *s = &b->core[o];
        if (o != c && (!s->inside || draw(b, 3) == 0)) {
            s->over = true;
            mo_cores_add(&late, o);
            continue;
        }
        put(b, MO_LOG_BLOCK_END, s, s->begin, s->end, o);
        s->query = 0;
    }
    run->batch = 0;
    int code = draw(b, 50) ? MOIRE_OK : MOIRE_EFAILED;
    mo_sched_block_done(b->sched, lead, true, code, b->now - 100, b->now,
                        mo_cores_count(&late) ? &late : NULL, b->now);
}

static void step(struct bed *b, bool submits) {
    int c = (int)draw(b, CORES), slot;
    const struct sent *s = &b->core[c];
    b->now += 50;
    if (s->query && s->over)
        (draw(b, 2) && !s->inside) ? enter(b, c) : leave(b, c);
    else if (s->query && !s->inside)
        enter(b, c);
    else if (s->query && mo_cores_has(&b->leaving[s->lead], c))
        leave(b, c);
    else if (s->query && !draw(b, 3))
        end(b, c);
    else if (submits && !draw(b, 3)) {
        int tenant = (int)draw(b, 2);
        mo_event_put(&b->events->ring[0], b->now, MO_LOG_SUBMIT, 0, tenant, b->now, 0, 0);
        if (mo_sched_arrival(b->sched, tenant, b->now, NULL, b->now, &slot, NULL) == MOIRE_OK) {
            b->accepted++;
            uint64_t handle = mo_query_handle(mo_sched_queries(b->sched), slot);
            if (!draw(b, 10)) mo_sched_cancel(b->sched, handle, MOIRE_ECANCELLED, b->now);
        }
    } else {
        mo_sched_timer(b->sched, b->now);
    }
    deliver(b);
}

static void check_cores(const struct bed *b) {
    const struct mo_view *view = mo_sched_view(b->sched);
    int idle = 0;
    for (int c = 0; c < CORES; c++) {
        idle += !b->core[c].query;
        assert_int_equal(mo_cores_has(&view->idle, c), !b->core[c].query);
    }
    assert_int_equal(view->n_idle, idle);
}

static void run_seed(uint64_t seed) {
    static const struct mo_engine_ops ops = {
        .start = start, .resize = resize, .set_timer = set_timer, .resolved = resolved, .released = released};
    struct bed *b = calloc(1, sizeof *b);
    b->env = mo_env_default();
    b->resolved = MO_QUERY_LIST_EMPTY;
    b->rng = seed;
    b->profile = mo_profile_create(&b->env, LAYERS, CORES);
    mo_profile_record(b->profile, 1, (const int64_t[]){300, 900, 200, 400});
    mo_profile_finish(b->profile);
    b->events = mo_events_create(&b->env, 1, 1 << 18);
    const struct mo_sched_config c = {.env = &b->env,
                                      .policy = &restless,
                                      .n_cores = CORES,
                                      .max_queries = QUERIES,
                                      .max_tenants = 2,
                                      .block_ns = 200,
                                      .ops = &ops,
                                      .engine = b,
                                      .ring = &b->events->ring[0]};
    assert_int_equal(mo_sched_create(&c, &b->sched, NULL), MOIRE_OK);
    const struct mo_sched_tenant_config tc = {
        .qos_ns = 100000, .queue = 8, .instances = 4, .profile = b->profile};
    int tenant;
    for (int i = 0; i < 2; i++)
        assert_int_equal(mo_sched_tenant_open(b->sched, &tc, 0, &tenant, NULL), MOIRE_OK);
    for (int i = 0; i < STEPS; i++, check_cores(b))
        step(b, true);
    while (b->released < b->accepted || mo_sched_view(b->sched)->n_idle < CORES)
        step(b, false);
    check_cores(b);
    const struct mo_sched_stats *s = mo_sched_stats(b->sched);
    print_message("seed %d: %d queries, %lld blocks, resized %lld times\n", (int)seed, b->accepted,
                  (long long)s->blocks, (long long)s->resized);
    assert_true(s->resized > b->accepted / 4);
    assert_int_equal(s->refused, 0);
    assert_int_equal(b->answered, b->accepted);
    history_of_events(b->events, CORES, b->accepted);
    mo_sched_destroy(b->sched);
    mo_events_destroy(b->events);
    mo_profile_destroy(b->profile);
    free(b);
}

static void cores_may_be_late_for_everything(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_may_be_late_for_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
