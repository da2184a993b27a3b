/* SPDX-License-Identifier: Apache-2.0
 * team.c - mailboxes and worker threads. */
#include "runtime/device/team.h"

#include <stdio.h>
#include <string.h>
#include "runtime/device/fpu.h"
#include "runtime/base/lock.h"

struct worker {
    _Atomic uint32_t posted; /* jobs posted; the futex word */
    _Atomic uint32_t asleep;
    _Atomic uint32_t taken; /* jobs that the worker or a guest has begun */
    _Atomic uint32_t back;  /* twice the jobs that have returned; odd: somebody waits for that (futex word) */
    _Atomic int64_t guests_ns;
    struct mo_job job; /* written before posted grows, read after */
    struct mo_team *team;
    struct mo_thread thread;
    int core;
    _Atomic int cpu; /* -1: wherever the system puts it */
    bool started;
    _Atomic uint32_t lent; /* a host's thread: 0 not come, 1 at work, 2 gone (the futex word) */
    char pad[20];
};

struct mo_team {
    const struct mo_env *env;
    int n;
    int64_t spin_ns;
    bool background;
    _Atomic bool told; /* the log has a line of a worker that is not where it should be */
    struct worker *worker;
};

/* The mailbox word: jobs posted in the low bits, and a bit that says no more will come. */
#define STOP UINT32_C(0x80000000)

static bool has_job(uint32_t posted, uint32_t seen) {
    return ((posted ^ seen) & ~STOP) != 0;
}

/* Waits for the mailbox to pass `seen`; false when the team stops and nothing is there. */
static bool await_job(struct worker *w, uint32_t seen, int64_t spin_ns) {
    const struct mo_sys *sys = w->team->env->sys;
    int64_t until = sys->now(sys->self) + spin_ns;
    do {
        for (int i = 0; i < 64; i++) {
            uint32_t posted = atomic_load_explicit(&w->posted, memory_order_acquire);
            if (has_job(posted, seen)) return true;
            if (posted & STOP) return false;
            mo_cpu_relax();
        }
    } while (sys->now(sys->self) < until);
    for (;;) {
        atomic_store(&w->asleep, 1);
        uint32_t posted = atomic_load(&w->posted);
        if (!has_job(posted, seen) && !(posted & STOP)) sys->futex_wait(sys->self, &w->posted, posted, 0);
        atomic_store(&w->asleep, 0);
        posted = atomic_load(&w->posted);
        if (has_job(posted, seen)) return true;
        if (posted & STOP) return false;
    }
}

/* --- where workers are --- */
/* A worker is not on its core: it may not be pinned, or the process's affinity has changed.  It goes on where
 * the system puts it, perhaps beside another, and what it takes then is what schedulers see. */
static void lose_core(struct worker *w, const char *why) {
    struct mo_team *team = w->team;
    const int cpu = w->cpu;
    w->cpu = -1;
    if (!team->background && !atomic_exchange(&team->told, true))
        mo_log(
            team->env, MOIRE_LOG_WARN,
            "core %d: its worker is not on cpu %d (%s); workers go on where the system puts them, and share "
            "what is left",
            w->core, cpu, why);
}

static void check_core(struct worker *w) {
    const struct mo_sys *sys = w->team->env->sys;
    const int cpu = w->cpu < 0 ? -1 : sys->cpu(sys->self);
    if (cpu >= 0 && cpu != w->cpu) lose_core(w, "the process's affinity has changed");
}

/* So many jobs have returned, of a count that may have wrapped around. */
static bool are_back(uint32_t back, uint32_t jobs) {
    return ((back >> 1 ^ jobs) & ~STOP) == 0;
}

static void await_back(struct worker *w, uint32_t jobs) {
    const struct mo_sys *sys = w->team->env->sys;
    if (are_back(atomic_load(&w->back), jobs)) return;
    for (;;) {
        const uint32_t odd = atomic_fetch_or(&w->back, 1) | 1;
        if (are_back(odd, jobs)) break;
        sys->futex_wait(sys->self, &w->back, odd, 0);
    }
    atomic_fetch_and(&w->back, ~UINT32_C(1)); /* else every later job would end with a call to wake nobody */
}

/* The team may be gone when this returns, if somebody waited for it. */
static void come_back(struct worker *w, const struct mo_sys *sys) {
    if (atomic_fetch_add(&w->back, 2) & 1) sys->futex_wake(sys->self, &w->back, 1);
}

static void run_jobs(struct worker *w) {
    int64_t spin_ns = w->team->spin_ns;
    for (uint32_t seen = 0; await_job(w, seen, spin_ns); seen++) {
        uint32_t taken = seen;
        if (!atomic_compare_exchange_strong(&w->taken, &taken, seen + 1)) {
            spin_ns = 0; /* guests do what comes: no need to be awake for it */
            seen = taken - 1;
            continue;
        }
        spin_ns = w->team->spin_ns;
        await_back(w, seen); /* a guest may still be on its way out of the job before */
        check_core(w);
        struct mo_job job = w->job;
        job.run(job.ctx, w->core, job.worker, job.n_workers);
        come_back(w, w->team->env->sys);
    }
}

static void *work(void *arg) {
    struct worker *w = arg;
    const struct mo_sys *sys = w->team->env->sys;
    char name[32];
    snprintf(name, sizeof name, "moire-%s-%d", w->team->background ? "load" : "core", w->core);
    sys->name_thread(sys->self, name);
    const int rc = w->cpu >= 0 ? sys->pin(sys->self, w->cpu) : 0;
    if (rc) lose_core(w, strerror(-rc));
    if (w->team->background) (void)sys->background(sys->self);
    mo_fpu_flush();
    run_jobs(w);
    return NULL;
}

int mo_team_work(struct mo_team *team, int core) {
    if (core < 0 || core >= team->n || team->worker[core].started) return MOIRE_EINVAL;
    struct worker *w = &team->worker[core];
    const struct mo_sys *sys = team->env->sys;
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&w->lent, &none, 1)) return MOIRE_EINVAL;
    unsigned before = mo_fpu_flush();
    run_jobs(w);
    mo_fpu_restore(before);
    atomic_store(&w->lent, 2); /* the team may be gone from here on: only an address is used below */
    sys->futex_wake(sys->self, &w->lent, 1);
    return MOIRE_OK;
}

bool mo_team_put(struct mo_team *team, int core, const struct mo_job *job) {
    struct worker *w = &team->worker[core];
    w->job = *job;
    atomic_fetch_add(&w->posted, 1);
    return atomic_load(&w->asleep);
}

void mo_team_wake(struct mo_team *team, int core) {
    team->env->sys->futex_wake(team->env->sys->self, &team->worker[core].posted, 1);
}

void mo_team_post(struct mo_team *team, int core, const struct mo_job *job) {
    if (mo_team_put(team, core, job)) mo_team_wake(team, core);
}

/* A guest on a core of another worker would take it from that one. */
static bool may_be_guest(const struct mo_team *team, const struct worker *w, int cpu) {
    if (!w->started) return false; /* a host's thread is not ours to replace */
    for (int i = 0; i < team->n; i++)
        if (&team->worker[i] != w && team->worker[i].cpu >= 0 && team->worker[i].cpu == cpu) return false;
    return true;
}

bool mo_team_put_guest(struct mo_team *team, int core, int cpu, const struct mo_job *job) {
    struct worker *w = &team->worker[core];
    const uint32_t posted = atomic_load(&w->posted);
    if (!may_be_guest(team, w, cpu) || !are_back(atomic_load(&w->back), posted)) return false;
    w->job = *job;
    atomic_fetch_add(&w->taken, 1); /* before it is posted: a worker that polls must not begin it */
    atomic_fetch_add(&w->posted, 1);
    return true;
}

void mo_team_be_guest(struct mo_team *team, int core) {
    struct worker *w = &team->worker[core];
    const struct mo_sys *sys = team->env->sys;
    const struct mo_job job = w->job;
    const int64_t begin = sys->now(sys->self);
    unsigned before = mo_fpu_flush();
    job.run(job.ctx, core, job.worker, job.n_workers);
    mo_fpu_restore(before);
    atomic_fetch_add_explicit(&w->guests_ns, sys->now(sys->self) - begin, memory_order_relaxed);
    come_back(w, sys);
}

int mo_team_create(const struct mo_team_config *c, struct mo_team **out, moire_error *err) {
    const struct mo_sys *sys = c->env->sys;
    struct mo_team *team = mo_alloc(c->env, sizeof *team);
    if (!team) return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d workers", c->n);
    team->env = c->env;
    team->spin_ns = c->spin_ns;
    team->background = c->background;
    team->worker = mo_alloc(c->env, (size_t)c->n * sizeof *team->worker);
    if (!team->worker) {
        mo_free(c->env, team);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d workers", c->n);
    }
    int rc = 0;
    for (; !rc && team->n < c->n; team->n++) {
        struct worker *w = &team->worker[team->n];
        w->team = team;
        w->core = team->n;
        w->cpu = c->cpu && !c->lent ? c->cpu[team->n] : -1; /* a host says itself where its threads are */
        if (c->lent) continue;
        rc = sys->thread_start(sys->self, &w->thread, work, w);
        w->started = !rc;
        if (rc) break;
    }
    if (rc) {
        int n = team->n;
        mo_team_destroy(team);
        return mo_fail(err, MOIRE_EIO, "cannot start worker thread %d of %d: %s; use fewer threads", n + 1,
                       c->n, strerror(-rc));
    }
    *out = team;
    return MOIRE_OK;
}

/* Waits for a host's thread to leave its loop; one that never came is told that it is too late. */
static void await_guest(const struct mo_team *team, struct worker *w) {
    const struct mo_sys *sys = team->env->sys;
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&w->lent, &none, 2)) return;
    while (atomic_load(&w->lent) == 1)
        sys->futex_wait(sys->self, &w->lent, 1, 0);
}

void mo_team_destroy(struct mo_team *team) {
    if (!team) return;
    const struct mo_sys *sys = team->env->sys;
    for (int i = 0; i < team->n; i++) {
        atomic_fetch_or(&team->worker[i].posted, STOP);
        sys->futex_wake(sys->self, &team->worker[i].posted, 1);
    }
    for (int i = 0; i < team->n; i++)
        if (team->worker[i].started) {
            sys->thread_join(sys->self, team->worker[i].thread);
            await_back(&team->worker[i], atomic_load(&team->worker[i].posted)); /* a guest */
        } else
            await_guest(team, &team->worker[i]);
    mo_free(team->env, team->worker);
    mo_free(team->env, team);
}

int64_t mo_team_core_cpu_ns(const struct mo_team *team, int core) {
    const struct mo_sys *sys = team->env->sys;
    return sys->thread_cpu(sys->self, team->worker[core].thread) +
           atomic_load_explicit(&team->worker[core].guests_ns, memory_order_relaxed);
}

int64_t mo_team_cpu_ns(const struct mo_team *team) {
    int64_t sum = 0;
    for (int i = 0; i < team->n; i++)
        if (team->worker[i].started) sum += mo_team_core_cpu_ns(team, i);
    return sum;
}
