/* SPDX-License-Identifier: Apache-2.0
 * team.h - worker threads, one a core, each with a mailbox for one job.
 *
 * A let is any set of workers: whoever starts a job on a let posts it to every member.  A worker with an
 * empty mailbox spins for a bounded time and then sleeps on a futex.  Posting to a worker whose last job has
 * not returned is the caller's mistake; the scheduler core's idle set excludes it.  Workers flush denormals.
 *
 * A thread that is about to wait for what a job does may do the job itself, as a guest of its core: nobody
 * has to wake up then.  To everyone else it is that core's worker until it has returned; the worker waits. */
#ifndef MO_TEAM_H
#define MO_TEAM_H
#include <stdbool.h>
#include "runtime/base/env.h"

/* run(ctx, core, worker, n_workers) on the worker thread of `core`. */
struct mo_job {
    void (*run)(void *ctx, int core, int worker, int n_workers);
    void *ctx;
    int worker, n_workers;
};

struct mo_team_config {
    const struct mo_env *env;
    int n;
    const int *cpu;  /* OS cpu of each worker; NULL = unpinned */
    int64_t spin_ns; /* how long an idle worker spins before it sleeps */
    bool lent;       /* start no threads: the host's threads come by mo_team_work() */
    bool background; /* what they do can wait for every other thread */
};

struct mo_team;
int mo_team_create(const struct mo_team_config *config, struct mo_team **out, moire_error *err);
/* Waits for running jobs and joins the threads.  NULL is fine. */
void mo_team_destroy(struct mo_team *team);
/* Makes the calling thread the worker of `core` until the team is destroyed; MOIRE_EINVAL when that core has
 * a worker.  For hosts with a thread pool of their own, an OpenMP team for instance. */
int mo_team_work(struct mo_team *team, int core);
void mo_team_post(struct mo_team *team, int core, const struct mo_job *job);
/* The same in two steps, for callers that hold a lock: true = the worker sleeps, call mo_team_wake() later.
 */
bool mo_team_put(struct mo_team *team, int core, const struct mo_job *job);
void mo_team_wake(struct mo_team *team, int core);
/* The same for a job that the calling thread, which is on OS cpu `cpu`, does itself by mo_team_be_guest() as
 * soon as it holds no lock.  False, and nothing is posted: the core's worker is not idle, or it would be on
 * another core of the team's. */
bool mo_team_put_guest(struct mo_team *team, int core, int cpu, const struct mo_job *job);
void mo_team_be_guest(struct mo_team *team, int core);
/* CPU time used by all workers so far, and their guests; by those of one core, which is not lent. */
int64_t mo_team_cpu_ns(const struct mo_team *team);
int64_t mo_team_core_cpu_ns(const struct mo_team *team, int core);
#endif
