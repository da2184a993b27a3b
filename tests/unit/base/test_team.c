/* SPDX-License-Identifier: Apache-2.0
 * test_team.c - worker teams, barriers, the lock: nothing is lost or done twice, sleepers wake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "runtime/device/barrier.h"
#include "runtime/base/lock.h"
#include "runtime/device/team.h"
#include "tests/unit/base/fault_sys.h"

enum { WORKERS = 3, ROUNDS = 300 };

static struct mo_team *make_team(const struct mo_env *env, int n, int64_t spin) {
    struct mo_team_config c = {.env = env, .n = n, .spin_ns = spin};
    struct mo_team *team = NULL;
    assert_int_equal(mo_team_create(&c, &team, NULL), MOIRE_OK);
    return team;
}

static void wait_for(const struct mo_env *env, _Atomic int *counter, int value) {
    while (atomic_load(counter) < value)
        env->sys->sleep_until(env->sys->self, mo_now(env) + 20000);
}

struct counts {
    _Atomic int done;
    _Atomic int by_core[WORKERS];
};

static void tick(void *ctx, int core, int worker, int n_workers) {
    struct counts *t = ctx;
    (void)worker, (void)n_workers;
    atomic_fetch_add(&t->by_core[core], 1);
    atomic_fetch_add(&t->done, 1);
}

/* With no spin every job finds its worker asleep; with a long one, awake. */
static void every_job_runs_once(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    for (int64_t spin = 0; spin <= 200000; spin += 200000) {
        struct mo_team *team = make_team(&env, WORKERS, spin);
        struct counts t = {0};
        for (int i = 0; i < ROUNDS; i++) {
            for (int c = 0; c < WORKERS; c++)
                mo_team_post(team, c, &(struct mo_job){tick, &t, c, WORKERS});
            wait_for(&env, &t.done, (i + 1) * WORKERS);
        }
        for (int c = 0; c < WORKERS; c++)
            assert_int_equal(atomic_load(&t.by_core[c]), ROUNDS);
        assert_true(mo_team_cpu_ns(team) >= 0);
        mo_team_destroy(team);
    }
}

/* Posting from a job to other workers, as the scheduler does. */
struct relay {
    struct mo_team *team;
    _Atomic int left, done;
};

static void pass_on(void *ctx, int core, int worker, int n_workers) {
    struct relay *r = ctx;
    (void)worker, (void)n_workers;
    if (atomic_fetch_sub(&r->left, 1) > 1)
        mo_team_post(r->team, (core + 1) % WORKERS, &(struct mo_job){pass_on, r, 0, 1});
    else
        atomic_store(&r->done, 1);
}

static void jobs_post_jobs(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct relay r = {.team = make_team(&env, WORKERS, 1000), .left = 2000};
    mo_team_post(r.team, 0, &(struct mo_job){pass_on, &r, 0, 1});
    wait_for(&env, &r.done, 1);
    mo_team_destroy(r.team);
}

/* Between two barriers every member sees what all others wrote before the first. */
struct steps {
    struct mo_barrier barrier;
    struct mo_barrier_flag flags[WORKERS];
    int cell[WORKERS];
    _Atomic int wrong, done;
    int n, rounds;
};

static void step(void *ctx, int core, int worker, int n_workers) {
    struct steps *s = ctx;
    (void)core;
    for (int i = 1; i <= s->rounds; i++) {
        s->cell[worker] = i;
        mo_barrier_wait(&s->barrier, worker);
        for (int k = 0; k < n_workers; k++)
            if (s->cell[k] != i) atomic_fetch_add(&s->wrong, 1);
        mo_barrier_wait(&s->barrier, worker);
    }
    atomic_fetch_add(&s->done, 1);
}

static void barriers_keep_members_together(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_team *team = make_team(&env, WORKERS, 1000);
    for (int spin = 0; spin <= 1000; spin += 1000) {
        static struct steps s;
        memset(&s, 0, sizeof s);
        mo_barrier_init(&s.barrier, &env, s.flags, spin);
        for (int n = 1; n <= WORKERS; n++) { /* the same barrier, other sizes */
            mo_barrier_begin(&s.barrier, n);
            s.rounds = ROUNDS;
            atomic_store(&s.done, 0);
            for (int c = 0; c < n; c++)
                mo_team_post(team, c, &(struct mo_job){step, &s, c, n});
            wait_for(&env, &s.done, n);
            assert_int_equal(atomic_load(&s.wrong), 0);
        }
    }
    mo_team_destroy(team);
}

struct locked {
    const struct mo_sys *sys;
    struct mo_lock lock;
    int64_t counter;
    _Atomic int done;
};

static void add_under_lock(void *ctx, int core, int worker, int n_workers) {
    struct locked *l = ctx;
    (void)core, (void)worker, (void)n_workers;
    for (int i = 0; i < 3000; i++) {
        mo_lock_take(l->sys, &l->lock);
        l->counter++;
        mo_lock_drop(l->sys, &l->lock);
    }
    atomic_fetch_add(&l->done, 1);
}

static void the_lock_excludes(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_team *team = make_team(&env, WORKERS, 1000);
    struct locked l = {.sys = env.sys};
    for (int c = 0; c < WORKERS; c++)
        mo_team_post(team, c, &(struct mo_job){add_under_lock, &l, c, WORKERS});
    wait_for(&env, &l.done, WORKERS);
    assert_int_equal(l.counter, 3000 * WORKERS);
    mo_team_destroy(team);
}

/* A guest's job that posts the next one to the core that it is on, and is then slow to return. */
struct visit {
    struct mo_team *team;
    _Atomic int inside, done, wrong;
    pthread_t guest;
};

static void follow(void *ctx, int core, int worker, int n_workers) {
    struct visit *v = ctx;
    (void)core, (void)worker, (void)n_workers;
    if (atomic_load(&v->inside) || pthread_equal(pthread_self(), v->guest)) atomic_fetch_add(&v->wrong, 1);
    atomic_fetch_add(&v->done, 1);
}

static void visit(void *ctx, int core, int worker, int n_workers) {
    struct visit *v = ctx;
    (void)worker, (void)n_workers;
    if (!pthread_equal(pthread_self(), v->guest)) atomic_fetch_add(&v->wrong, 1);
    atomic_store(&v->inside, 1);
    mo_team_post(v->team, core, &(struct mo_job){follow, v, 0, 1});
    for (int i = 0; i < 200; i++)
        mo_cpu_relax();
    atomic_store(&v->inside, 0);
}

/* Jobs of guests, of the worker, and of the worker behind a guest that is not out yet: each once, by whom it
 * is for, and never two at a time. */
static void guests_take_the_place_of_workers(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    for (int64_t spin = 0; spin <= 200000; spin += 200000) {
        struct mo_team *team = make_team(&env, WORKERS, spin);
        struct visit v = {.team = team, .guest = pthread_self()};
        struct counts t = {0};
        int posted = 0, visits = 0;
        for (int i = 0; i < ROUNDS; i++) {
            if (mo_team_put_guest(team, 1, -1, &(struct mo_job){visit, &v, 0, 1})) {
                mo_team_be_guest(team, 1);
                wait_for(&env, &v.done, ++visits);
            }
            for (int k = i % 3; k > 0; k--) {
                mo_team_post(team, 1, &(struct mo_job){tick, &t, 1, WORKERS});
                wait_for(&env, &t.done, ++posted);
            }
        }
        assert_int_equal(atomic_load(&v.wrong), 0);
        assert_true(visits > ROUNDS / 2);
        assert_int_equal(atomic_load(&t.by_core[1]), posted);
        mo_team_destroy(team);
    }
}

static void hold(void *ctx, int core, int worker, int n_workers) {
    _Atomic int *go = ctx;
    (void)core, (void)worker, (void)n_workers;
    while (!atomic_load(go))
        mo_cpu_relax();
}

/* None where the worker is at work, where the caller's cpu is another worker's, nor of a host's thread. */
static void guests_are_refused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    const int cpu[WORKERS] = {0, 1, 2};
    struct mo_team_config c = {.env = &env, .n = WORKERS, .lent = true};
    struct mo_team *team = make_team(&env, WORKERS, 0), *lent;
    struct counts t = {0};
    _Atomic int go = 0;
    const struct mo_job job = {tick, &t, 0, 1};
    assert_int_equal(mo_team_create(&c, &lent, NULL), MOIRE_OK);
    assert_false(mo_team_put_guest(lent, 0, 0, &job));
    mo_team_destroy(lent);
    mo_team_post(team, 0, &(struct mo_job){hold, &go, 0, 1});
    assert_false(mo_team_put_guest(team, 0, 0, &job));
    atomic_store(&go, 1);
    while (!mo_team_put_guest(team, 0, 0, &job)) /* until it has returned */
        mo_cpu_relax();
    mo_team_be_guest(team, 0);
    assert_int_equal(atomic_load(&t.by_core[0]), 1);
    mo_team_destroy(team);
    c = (struct mo_team_config){.env = &env, .n = 2, .cpu = cpu};
    assert_int_equal(mo_team_create(&c, &team, NULL), MOIRE_OK);
    assert_false(mo_team_put_guest(team, 0, 1, &job)); /* cpu 1 is another's */
    assert_true(mo_team_put_guest(team, 1, 1, &job) && mo_team_put_guest(team, 0, 9, &job));
    mo_team_be_guest(team, 1);
    mo_team_be_guest(team, 0);
    assert_int_equal(atomic_load(&t.done), 3);
    mo_team_destroy(team);
}

static void idle_teams_stop(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    for (int i = 0; i < 20; i++)
        mo_team_destroy(make_team(&env, WORKERS, i % 2 ? 100000 : 0));
}

/* --- workers that are not on their cores --- */
/* Pinning fails at the k-th call; and from some moment on threads are elsewhere, as when somebody shrinks the
 * process's affinity. */
struct elsewhere {
    struct mo_sys table; /* first: its self points to this struct */
    _Atomic int pins, fails_at, moved, lines;
};

static int pin(void *self, int cpu) {
    struct elsewhere *e = self;
    (void)cpu;
    return atomic_fetch_add(&e->pins, 1) + 1 == e->fails_at ? -EPERM : 0;
}

static int cpu_of(void *self) {
    return ((struct elsewhere *)self)->moved ? 1 : 0;
}

static void note(void *user, int level, const char *line) {
    struct elsewhere *e = user;
    assert_int_equal(level, MOIRE_LOG_WARN);
    assert_non_null(strstr(line, "is not on cpu 0"));
    atomic_fetch_add(&e->lines, 1);
}

static void run_some(const struct mo_env *env, struct mo_team *team) {
    struct counts t = {0};
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < WORKERS; i++)
            mo_team_post(team, i, &(struct mo_job){tick, &t, i, WORKERS});
        wait_for(env, &t.done, round * WORKERS);
    }
}

static void workers_go_on_where_they_are_put(void **state) {
    (void)state;
    int cpu[WORKERS] = {0};
    for (int k = 0; k <= WORKERS; k++) {
        struct elsewhere e = {.table = *mo_sys_posix(), .fails_at = k};
        struct mo_env env = mo_env_default();
        e.table.self = &e;
        e.table.pin = pin;
        e.table.cpu = cpu_of;
        env.sys = &e.table;
        env.log = note;
        env.log_user = &e;
        struct mo_team_config c = {.env = &env, .n = WORKERS, .cpu = cpu};
        struct mo_team *team = NULL;
        assert_int_equal(mo_team_create(&c, &team, NULL), MOIRE_OK);
        run_some(&env, team);
        assert_int_equal(e.pins, WORKERS);
        assert_int_equal(e.lines, k > 0); /* one, whatever the number of workers */
        atomic_store(&e.moved, 1);
        run_some(&env, team);
        mo_team_destroy(team);
        assert_int_equal(e.lines, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_runs_once),
        cmocka_unit_test(jobs_post_jobs),
        cmocka_unit_test(barriers_keep_members_together),
        cmocka_unit_test(the_lock_excludes),
        cmocka_unit_test(guests_take_the_place_of_workers),
        cmocka_unit_test(guests_are_refused),
        cmocka_unit_test(idle_teams_stop),
        cmocka_unit_test(workers_go_on_where_they_are_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
