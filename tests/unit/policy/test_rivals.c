/* SPDX-License-Identifier: Apache-2.0
 * test_rivals.c - the published schedulers that VELTAIR is compared with, by hand: Planaria and PREMA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/sched/policy.h"
#include "runtime/sched/sched.h"

enum { CORES = 8 };

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

struct engine {
    struct mo_run run[16];
    struct mo_resize resize;
    int starts, resizes, n_resolved, resolved[16];
};

static void start(void *self, const struct mo_run *run) {
    struct engine *e = self;
    e->run[e->starts++] = *run;
}
static void resize(void *self, const struct mo_resize *r) {
    struct engine *e = self;
    e->resize = *r;
    e->resizes++;
}
static void set_timer(void *self, int64_t when) {
    (void)self, (void)when;
}
static void resolved(void *self, int slot) {
    struct engine *e = self;
    e->resolved[e->n_resolved++] = slot;
}
static void released(void *self, int tenant, void *user) {
    (void)self, (void)tenant, (void)user;
}

struct fixture {
    struct engine engine;
    struct mo_sched *s;
    struct mo_profile *profile[2];
    int n;
};

static void set_up(struct fixture *f, const char *policy) {
    static const struct mo_engine_ops ops = {
        .start = start, .set_timer = set_timer, .resolved = resolved, .released = released, .resize = resize};
    *f = (struct fixture){0};
    struct mo_sched_config c = {.env = the_env(),
                                .policy = mo_policy_find(policy),
                                .n_cores = CORES,
                                .max_queries = 16,
                                .max_tenants = 2,
                                .block_ns = 1000,
                                .ops = &ops,
                                .engine = &f->engine};
    assert_int_equal(mo_sched_create(&c, &f->s, NULL), MOIRE_OK);
}

/* A model of so many layers of `ns` each, on one core or, where it does not scale, on any count. */
static void add_tenant(struct fixture *f, int layers, int64_t ns, bool scales, int64_t qos_ns) {
    int64_t times[4];
    int tenant;
    struct mo_profile *p = f->profile[f->n++] = mo_profile_create(the_env(), layers, CORES);
    for (int n = 1; n <= CORES; n++) {
        for (int i = 0; i < layers; i++)
            times[i] = scales ? ns / n : ns;
        mo_profile_record(p, n, times);
    }
    mo_profile_finish(p);
    struct mo_sched_tenant_config tc = {.qos_ns = qos_ns, .queue = 8, .instances = 8, .profile = p};
    assert_int_equal(mo_sched_tenant_open(f->s, &tc, 0, &tenant, NULL), MOIRE_OK);
    assert_int_equal(tenant, f->n - 1);
}

static void tear_down(struct fixture *f) {
    assert_int_equal(mo_sched_stats(f->s)->refused, 0);
    mo_sched_destroy(f->s);
    for (int i = 0; i < f->n; i++)
        mo_profile_destroy(f->profile[i]);
}

static void submit(struct fixture *f, int tenant, int64_t now) {
    int slot;
    assert_int_equal(mo_sched_arrival(f->s, tenant, now, NULL, now, &slot, NULL), MOIRE_OK);
}

static void finish(struct fixture *f, int lead, int64_t now) {
    int64_t begun = mo_sched_view(f->s)->runs[lead].start;
    mo_sched_block_done(f->s, lead, true, MOIRE_OK, begun, now, NULL, now);
    while (f->engine.n_resolved)
        mo_sched_answered(f->s, f->engine.resolved[--f->engine.n_resolved], now);
}

/* 1600 ns of one core within 1000, of which 900 count: two cores, 800 ns.  One alone gets the spare cores
 * too; a second one as much as the first, for both have as little time left. */
static void planaria_deals_spare_cores(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "planaria");
    add_tenant(&f, 4, 400, true, 1000);
    submit(&f, 0, 1);
    assert_int_equal(f.engine.run[0].n_cores, 8);
    submit(&f, 0, 2);
    assert_int_equal(f.engine.starts, 1);
    assert_int_equal(f.engine.resizes, 1);
    assert_int_equal(f.engine.resize.n_cores, 4);
    mo_sched_cores_back(f.s, f.engine.run[0].lead, &f.engine.resize.leave, 50);
    assert_int_equal(f.engine.starts, 2);
    assert_int_equal(f.engine.run[1].n_cores, 4);
    tear_down(&f);
}

/* Within 335 ns, of which 90 % count, each needs six cores of eight.  Scores are equal: the first has its
 * six, the second what is left. */
static void planaria_deals_by_score_when_short(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "planaria");
    add_tenant(&f, 4, 400, true, 335);
    submit(&f, 0, 1);
    submit(&f, 0, 2);
    assert_int_equal(f.engine.resize.n_cores, 6);
    mo_sched_cores_back(f.s, f.engine.run[0].lead, &f.engine.resize.leave, 3);
    assert_int_equal(f.engine.starts, 2);
    assert_int_equal(f.engine.run[1].n_cores, 2);
    tear_down(&f);
}

/* A long query of 3000 ns runs its first layer; another waits, and a short one of 100 ns comes.  The short
 * one goes next once its tokens reach the level of the long ones, and not before.
 *
 *   at     tokens of the long that ran    that waits       short              level   next
 *   1001   1                              1 + 1000/3000    1 + 1/100          1       the short one
 *   8001   1 + 6000/3000 = 3              1 + 8000/3000    1 + 1/100          3       a long one
 *   100001 1 + 98000/3000 = 33            34               1 + 901/100 = 10   9       the short one */
static void prema_goes_by_tokens(void **state) {
    (void)state;
    static const struct {
        int64_t comes, ends;
        bool shorter;
    } rows[] = {{1000, 1001, true}, {8000, 8001, false}, {99100, 100001, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        set_up(&f, "prema");
        add_tenant(&f, 3, 1000, false, 0);
        add_tenant(&f, 1, 100, false, 0);
        submit(&f, 0, 1);
        submit(&f, 0, 1);
        assert_int_equal(f.engine.starts, 1);
        if (rows[i].ends > 1001) finish(&f, f.engine.run[0].lead, 1001); /* two layers, the second stalls */
        submit(&f, 1, rows[i].comes);
        finish(&f, f.engine.run[f.engine.starts - 1].lead, rows[i].ends);
        assert_int_equal(f.engine.run[f.engine.starts - 1].tenant, rows[i].shorter);
        tear_down(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planaria_deals_spare_cores),
        cmocka_unit_test(planaria_deals_by_score_when_short),
        cmocka_unit_test(prema_goes_by_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
