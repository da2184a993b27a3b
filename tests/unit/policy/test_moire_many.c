/* SPDX-License-Identifier: Apache-2.0
 * test_moire_many.c - `moire` with more queries at hand than it looks at, and with more cores: every tenant
 * is among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/policy/moire_parts.h"
#include "tests/unit/policy/policy_bed.h"

enum { TENANTS = 24, EACH = 12, MS = 1000000 };
static const int64_t NOW = 1000000000;

struct crowd {
    struct mo_view_tenant tenant[TENANTS];
    struct mo_view_query query[TENANTS * EACH];
    int waiting[TENANTS][EACH];
    struct mo_view_run run[1];
    struct mo_view view;
    struct mo_moire_state state;
};

/* One core; every tenant has twelve queries of 1 ms that are due in a second and later. */
static void set_up(struct crowd *c, const struct mo_profile *p) {
    memset(c, 0, sizeof *c);
    for (int i = 0; i < TENANTS; i++) {
        c->tenant[i] = policy_bed_waits(p, 1000 * MS, c->waiting[i]);
        c->tenant[i].n_waiting = EACH;
        for (int k = 0; k < EACH; k++) {
            int slot = c->waiting[i][k] = i * EACH + k;
            c->query[slot] = (struct mo_view_query){.tenant = i,
                                                    .arrival = NOW,
                                                    .deadline = NOW + (1000 + k) * MS,
                                                    .order = slot,
                                                    .last_core = -1,
                                                    .run = -1};
        }
    }
    c->run[0].query = -1;
    c->view = (struct mo_view){.now = NOW,
                               .block_ns = 10 * MS,
                               .n_cores = 1,
                               .n_idle = 1,
                               .idle = mo_cores_first(1),
                               .n_tenants = TENANTS,
                               .min_qos_ns = 1000 * MS,
                               .tenants = c->tenant,
                               .queries = c->query,
                               .runs = c->run,
                               .options = mo_policy_find("moire")->options};
    c->state.seen_at = c->state.turned_at = NOW;
}

/* The query that is due first is the last tenant's. */
static void every_tenant_is_looked_at(void **state) {
    (void)state;
    static struct crowd c;
    struct mo_decision list[8];
    struct mo_decisions out = {.cap = 8, .list = list};
    const struct mo_event event = {MO_EVENT_TIMER, -1, -1};
    struct mo_profile *p = mo_profile_create(policy_bed_env(), 1, 1);
    int seen[TENANTS] = {0};
    mo_profile_record(p, 1, (int64_t[]){MS});
    mo_profile_finish(p);
    set_up(&c, p);
    c.query[c.waiting[TENANTS - 1][0]].deadline = NOW + 500 * MS;
    mo_policy_find("moire")->dispatch(&c.state, &c.view, &event, &out);
    for (int i = 0; i < c.state.n; i++)
        seen[c.state.list[i].tenant]++;
    for (int i = 0; i < TENANTS; i++)
        if (seen[i] < MO_MOIRE_OTHERS / TENANTS) fail_msg("%d queries of tenant %d", seen[i], i);
    assert_int_equal(out.n, 1);
    assert_int_equal(list[0].query, c.waiting[TENANTS - 1][0]);
    mo_profile_destroy(p);
}

/* Most of 300 cores run a block each; a query that waits gets one of those that are idle. */
static void large_machines_start_what_waits(void **state) {
    (void)state;
    enum { WIDE = 300, BUSY = 290 };
    static struct mo_view_query query[BUSY + 1];
    static struct mo_view_run run[WIDE];
    static struct mo_moire_state s;
    static short running[BUSY];
    struct mo_decision list[8];
    struct mo_decisions out = {.cap = 8, .list = list};
    const struct mo_event event = {MO_EVENT_ARRIVAL, BUSY, 0};
    const int waits = BUSY;
    struct mo_profile *p = mo_profile_create(policy_bed_env(), 1, 1);
    mo_profile_record(p, 1, (int64_t[]){MS});
    mo_profile_finish(p);
    struct mo_view_tenant tenant = policy_bed_waits(p, 1000 * MS, &waits);
    struct mo_view view = {.now = NOW,
                           .block_ns = 10 * MS,
                           .n_cores = WIDE,
                           .n_idle = WIDE - BUSY,
                           .idle = mo_cores_first(WIDE),
                           .n_tenants = 1,
                           .min_qos_ns = 1000 * MS,
                           .tenants = &tenant,
                           .queries = query,
                           .runs = run,
                           .n_running = BUSY,
                           .running = running,
                           .options = mo_policy_find("moire")->options};
    tenant.n_running = BUSY;
    for (int i = 0; i < WIDE; i++)
        run[i].query = -1;
    for (int i = 0; i <= BUSY; i++) {
        query[i] = (struct mo_view_query){.arrival = NOW,
                                          .deadline = NOW + 1000 * MS,
                                          .started = i < BUSY ? NOW : 0,
                                          .order = i,
                                          .last_core = -1,
                                          .run = i < BUSY ? i : -1};
        if (i == BUSY) break;
        run[i] = (struct mo_view_run){.query = i,
                                      .end = 1,
                                      .n_cores = 1,
                                      .start = NOW,
                                      .since = NOW,
                                      .predicted_end = NOW + MS,
                                      .layer_left = MS,
                                      .left = MS,
                                      .pace = 1};
        mo_cores_add(&run[i].cores, i);
        mo_cores_remove(&view.idle, i);
        running[i] = (short)i;
    }
    s.seen_at = s.turned_at = NOW;
    mo_policy_find("moire")->dispatch(&s, &view, &event, &out);
    assert_int_equal(out.n, 1);
    assert_int_equal(list[0].query, waits);
    mo_profile_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tenant_is_looked_at),
        cmocka_unit_test(large_machines_start_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
