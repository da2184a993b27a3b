/* SPDX-License-Identifier: Apache-2.0
 * classes_bed.c - see classes_bed.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/history/recorded.h"
#include "tests/unit/policy/classes_bed.h"

enum { RING = 1 << 16, MS = 1000000 };
static const struct mo_env *own_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

/* Virtual time begins at a millisecond: to the core 0 is "never". */
static int64_t ns_of(int ms) {
    return (int64_t)(ms + 1) * MS;
}
static int64_t ms_of(int64_t ns) {
    return ns / MS - 1;
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct classes_bed *b = ctx;
    assert_int_equal(a->code, MOIRE_OK);
    assert_true(b->n_ends < CLASSES_ENDS);
    b->ends[b->n_ends].tenant = tenant;
    b->ends[b->n_ends].arrival = ms_of(a->arrival);
    b->ends[b->n_ends].start = ms_of(a->start);
    b->ends[b->n_ends++].end = ms_of(a->end);
}

void classes_bed_open(struct classes_bed *b, const struct mo_policy *policy, int n, int reset_ms) {
    *b = (struct classes_bed){.events = mo_events_create(own_env(), 1, RING)};
    assert_non_null(b->events);
    const struct mo_sim_config c = {.env = own_env(),
                                    .policy = policy,
                                    .machine = {.n_cores = n, .reset_ns = (int64_t)reset_ms * MS},
                                    .max_queries = CLASSES_ENDS,
                                    .max_tenants = CLASSES_TENANTS,
                                    .block_ns = 10 * MS,
                                    .ring = &b->events->ring[0],
                                    .answer = answer,
                                    .ctx = b};
    assert_int_equal(mo_sim_create(&c, &b->sim, NULL), MOIRE_OK);
}

void classes_bed_tenant(struct classes_bed *b, int ms, int layers, int sla_ms) {
    int64_t layer[256];
    int tenant;
    assert_true(layers <= 256 && b->n < CLASSES_TENANTS);
    for (int i = 0; i < layers; i++)
        layer[i] = (int64_t)ms * MS / layers;
    struct mo_profile *p = b->profile[b->n] = mo_profile_create(own_env(), layers, 1);
    assert_non_null(p);
    mo_profile_record(p, 1, layer);
    mo_profile_finish(p);
    const struct mo_sched_tenant_config c = {.qos_ns = (int64_t)sla_ms * MS,
                                             .best_effort = !sla_ms,
                                             .queue = CLASSES_ENDS,
                                             .instances = 64,
                                             .profile = p};
    assert_int_equal(mo_sim_open(b->sim, &c, &tenant, NULL), MOIRE_OK);
    assert_int_equal(tenant, b->n++);
}

void classes_bed_submit(struct classes_bed *b, int tenant, int n, int at_ms) {
    mo_sim_advance(b->sim, ns_of(at_ms));
    for (int i = 0; i < n; i++)
        assert_int_equal(mo_sim_submit(b->sim, tenant, NULL, NULL, NULL), MOIRE_OK);
}

void classes_bed_close(struct classes_bed *b) {
    assert_int_equal(mo_sim_drain(b->sim), 0);
    assert_int_equal(mo_sim_broken(b->sim), 0);
    const struct mo_sched_stats *s = mo_sched_stats(mo_sim_sched(b->sim));
    assert_int_equal(s->refused, 0);
    assert_int_equal(s->forced_runs, 0);
    assert_int_equal(s->ok, s->accepted);
    history_of_events(b->events, mo_sched_view(mo_sim_sched(b->sim))->n_cores, s->accepted);
    mo_sim_destroy(b->sim);
    mo_events_destroy(b->events);
    for (int i = 0; i < b->n; i++)
        mo_profile_destroy(b->profile[i]);
}
