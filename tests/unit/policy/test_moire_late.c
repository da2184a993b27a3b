/* SPDX-License-Identifier: Apache-2.0
 * test_moire_late.c - `moire` with more than fits: each part left out leaves a policy that still answers
 * everything, and late queries neither hide the others nor take more than their part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/policy/moire_parts.h"
#include "tests/unit/sched/sim_engine.h"

enum { CORES = 24, LAYERS = 7 };

/* Layers with a serial part, so that cores help less and less. */
static struct mo_profile *profile(const struct mo_env *env, unsigned seed) {
    struct mo_profile *p = mo_profile_create(env, LAYERS, CORES);
    assert_non_null(p);
    for (int c = 1; c <= CORES; c++) {
        int64_t ns[LAYERS];
        for (int l = 0; l < LAYERS; l++)
            ns[l] = 2000 + (int64_t)((seed * 7919 + (unsigned)l * 104729) % 90 + 10) * 10000 / c;
        mo_profile_record(p, c, ns);
    }
    mo_profile_finish(p);
    return p;
}

/* With less than it takes, every row answers all queries and breaks no rule of the core. */
static void every_row_serves(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policy_ablations(); *p; p++) {
        struct sim_config c = {
            .policy = *p, .n_cores = 4, .duration_ns = 2000000000, .seed = 4, .drain = true};
        struct sim_result r;
        sim_mix(&c, 1.1, 4, 1);
        assert_int_equal(sim_run(&c, &r), 0);
        assert_int_equal(r.violations, 0);
        assert_int_equal(r.unanswered, 0);
        assert_int_equal(r.stats.refused, 0);
        assert_int_equal(r.stats.forced_runs, 0);
    }
}

/* Core time of the answers of the tenant that had least, as a part of an even share of the machine's. */
static double least_served(const struct mo_policy *policy) {
    struct sim_config c = {.policy = policy,
                           .n_cores = 2,
                           .duration_ns = 20000000000,
                           .warmup_ns = 1000000000,
                           .seed = 2,
                           .noise = 0.1};
    struct sim_result r;
    double least = 1;
    sim_mix(&c, 1.6, 4, 1);
    for (int i = 0; i < c.n_tenants; i++)
        c.tenant[i].queue = 64;
    c.tenant[1].best_effort = true;
    c.tenant[4].qos_ns = 0;
    sim_run(&c, &r);
    assert_int_equal(r.violations, 0);
    for (int i = 0; i < c.n_tenants; i++) {
        double even = (double)c.duration_ns * c.n_cores / c.n_tenants;
        double part = (double)r.tenant[i].ok * (double)c.tenant[i].solo_ns / even;
        if (part < least) least = part;
    }
    return least;
}

/* Overload for good: every tenant still gets answers, infeasible or best-effort ones too.  `moire` promises
 * a fifth of an even share; some of it goes into starts and into what is open at the end. */
static void nobody_starves(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policies(); *p; p++)
        assert_true(least_served(*p) > 0);
    double least = least_served(mo_policy_find("moire"));
    print_message("moire: the least is %.3f of an even share\n", least);
    assert_true(least > 0.7 * 0.2);
}

/* A machine in which the first tenant has many late queries under way and the second one that is due. */
enum { LATE = MO_MOIRE_OTHERS + 50, FRESH = LATE };
struct crowd {
    struct mo_view view;
    struct mo_view_tenant tenant[2];
    struct mo_view_query query[LATE + 1];
    struct mo_view_run run[CORES];
    int paused[LATE], waiting[1];
};

static void crowd(struct crowd *c, const struct mo_profile *p, int64_t now) {
    int64_t fast = mo_profile_time(p, CORES, 0, LAYERS);
    *c = (struct crowd){.waiting = {FRESH}};
    for (int i = 0; i < CORES; i++)
        c->run[i].query = -1;
    for (int i = 0; i < LATE; i++) {
        c->paused[i] = i;
        c->query[i] = (struct mo_view_query){
            .next_layer = 1, .arrival = i, .deadline = fast + i, .order = i, .started = 1, .run = -1};
    }
    c->query[FRESH] = (struct mo_view_query){
        .tenant = 1, .arrival = now, .deadline = now + 2 * fast, .order = FRESH, .last_core = -1, .run = -1};
    for (int i = 0; i < 2; i++)
        c->tenant[i] = (struct mo_view_tenant){.open = true,
                                               .qos_ns = i ? 2 * fast : fast,
                                               .profile = p,
                                               .residual = 1,
                                               .attained = 1,
                                               .free_instances = 4,
                                               .n_waiting = i,
                                               .n_paused = i ? 0 : LATE,
                                               .waiting = c->waiting,
                                               .paused = c->paused};
    c->view = (struct mo_view){.now = now,
                               .block_ns = fast,
                               .n_cores = CORES,
                               .n_idle = CORES,
                               .idle = mo_cores_first(CORES),
                               .n_tenants = 2,
                               .min_qos_ns = fast,
                               .tenants = c->tenant,
                               .queries = c->query,
                               .runs = c->run,
                               .options = mo_policy_find("moire")->options};
}

/* One dispatch; core time given to the late ones and to the one that is due. */
static void dispatch(struct mo_moire_state *s, const struct crowd *c, double *late, double *due) {
    static struct mo_decision list[2 * CORES];
    struct mo_decisions out = {.cap = 2 * CORES, .list = list};
    const struct mo_event event = {MO_EVENT_TIMER, -1, -1};
    mo_policy_find("moire")->dispatch(s, &c->view, &event, &out);
    *late = *due = 0;
    for (int i = 0; i < out.n; i++) {
        const struct mo_decision *d = &list[i];
        int n = mo_cores_count(&d->cores), begin = c->query[d->query].next_layer;
        *(d->query == FRESH ? due : late) +=
            (double)mo_profile_time(c->tenant[0].profile, n, begin, d->end) * n;
    }
}

/* However many late queries there are, the one that can still make it is seen and served. */
static void late_queries_do_not_crowd_out(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env, 7);
    static struct mo_moire_state s;
    static struct crowd c;
    double late, due;
    crowd(&c, p, 100000000);
    memset(&s, 0, sizeof s);
    dispatch(&s, &c, &late, &due);
    assert_true(due > 0);
    mo_profile_destroy(p);
}

/* Queries that wait far too long get their turn, and no more than a fortieth of the core time for it, however
 * long a layer takes on the core it gets. */
static void the_starved_get_a_small_part(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env, 7);
    static struct mo_moire_state s;
    static struct crowd c;
    double late = 0, due = 0, most = 0;
    crowd(&c, p, 20000000000);
    memset(&s, 0, sizeof s);
    s.seen_at = c.view.now;
    for (int i = 0; i < 4000; i++) {
        double l, d;
        c.query[FRESH].deadline = c.view.now + mo_profile_time(p, CORES, 0, LAYERS) * 3 / 2; /* all cores */
        dispatch(&s, &c, &l, &d);
        late += l;
        due += d;
        if (l > most) most = l;
    }
    assert_true(late > most && most > 0 && due > late);
    assert_true(late <= due / 40 + 2 * most);
    mo_profile_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_serves),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(late_queries_do_not_crowd_out),
        cmocka_unit_test(the_starved_get_a_small_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
