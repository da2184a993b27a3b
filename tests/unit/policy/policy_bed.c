/* SPDX-License-Identifier: Apache-2.0
 * policy_bed.c - see policy_bed.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/policy/policy_bed.h"

const struct mo_env *policy_bed_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

struct mo_view_tenant policy_bed_waits(const struct mo_profile *profile, int64_t qos_ns, const int *waiting) {
    return (struct mo_view_tenant){.open = true,
                                   .qos_ns = qos_ns,
                                   .profile = profile,
                                   .residual = 1,
                                   .attained = 1,
                                   .free_instances = 1,
                                   .n_waiting = 1,
                                   .waiting = waiting,
                                   .paused_gpu = -1};
}

static void start(void *self, const struct mo_run *run) {
    struct policy_bed *b = self;
    assert_true(b->starts < BED_RUNS);
    b->run[b->starts++] = *run;
}
static void resize(void *self, const struct mo_resize *r) {
    struct policy_bed *b = self;
    b->resize = *r;
    b->resizes++;
}
static void set_timer(void *self, int64_t when) {
    (void)self, (void)when;
}
static void resolved(void *self, int slot) {
    struct policy_bed *b = self;
    b->resolved[b->n_resolved++] = slot;
}
static void released(void *self, int tenant, void *user) {
    (void)self, (void)tenant, (void)user;
}

static const struct mo_engine_ops rigid = {
    .start = start, .set_timer = set_timer, .resolved = resolved, .released = released};
static const struct mo_engine_ops resizing = {
    .start = start, .set_timer = set_timer, .resolved = resolved, .released = released, .resize = resize};

void policy_bed_open(struct policy_bed *b, const char *policy, bool resizes) {
    *b = (struct policy_bed){0};
    struct mo_sched_config c = {.env = policy_bed_env(),
                                .policy = mo_policy_find(policy),
                                .n_cores = BED_CORES,
                                .max_queries = BED_RUNS,
                                .max_tenants = BED_TENANTS,
                                .block_ns = 1000,
                                .ops = resizes ? &resizing : &rigid,
                                .engine = b};
    assert_non_null(c.policy);
    assert_int_equal(mo_sched_create(&c, &b->s, NULL), MOIRE_OK);
}

void policy_bed_close(struct policy_bed *b) {
    assert_int_equal(mo_sched_stats(b->s)->refused, 0);
    mo_sched_destroy(b->s);
    for (int i = 0; i < b->n; i++)
        mo_profile_destroy(b->profile[i]);
}

void policy_bed_tenant(struct policy_bed *b, struct mo_profile *profile, int64_t qos_ns) {
    int tenant;
    struct mo_sched_tenant_config tc = {.qos_ns = qos_ns, .queue = 8, .instances = 8, .profile = profile};
    b->profile[b->n] = profile;
    assert_int_equal(mo_sched_tenant_open(b->s, &tc, 0, &tenant, NULL), MOIRE_OK);
    assert_int_equal(tenant, b->n++);
}

void policy_bed_submit(struct policy_bed *b, int tenant, int64_t arrival, int64_t now) {
    int slot;
    assert_int_equal(mo_sched_arrival(b->s, tenant, arrival, NULL, now, &slot, NULL), MOIRE_OK);
}

void policy_bed_finish(struct policy_bed *b, int lead, int64_t now) {
    int64_t begun = mo_sched_view(b->s)->runs[lead].start;
    mo_sched_block_done(b->s, lead, true, MOIRE_OK, begun, now, NULL, now);
    while (b->n_resolved)
        mo_sched_answered(b->s, b->resolved[--b->n_resolved], now);
}
