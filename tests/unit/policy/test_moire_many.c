/* SPDX-License-Identifier: Apache-2.0
 * test_moire_many.c - `moire` with more queries at hand than it looks at: every tenant is among them. */
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
        if (seen[i] < MO_MOIRE_CANDIDATES / TENANTS) fail_msg("%d queries of tenant %d", seen[i], i);
    assert_int_equal(out.n, 1);
    assert_int_equal(list[0].query, c.waiting[TENANTS - 1][0]);
    mo_profile_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tenant_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
