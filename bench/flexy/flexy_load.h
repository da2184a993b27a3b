/* SPDX-License-Identifier: Apache-2.0
 * flexy_load.h - the workloads of Flexy's section III: jobs of two classes, each of equal tasks.
 *
 * What the paper says, and how it is read where it says two things or none:
 *   tasks       Table I.  Up to 200 ms they are user-facing, the others batch.
 *   ratio       W1, W2, W3 have 80, 20 and 60 % of their execution time in batch jobs, as sections III and IV
 * and the caption of figure 5 say; the totals of Table II say so for W1 only. jobs        100, with the mean
 * durations of Table II: so many of each class that the ratio comes out. gaps        exponential.  At f = 1
 * the jobs need one device, at f = 0.25 all four. durations   Pareto.  The shape is not given; assumed: 1.5,
 * with the longest a hundred times the shortest. An instance's are scaled so that each class has its total.
 *   a job       "independent and identical tasks": one kernel of its class, drawn for the job, as often as
 *               its duration has room for, at least once.
 *   outstanding of a job at once: uniform in 1 to twice the devices; with each answer comes the next task.
 * With `bursts` jobs come by a Markov-modulated process, index of dispersion of counts 16, not in the paper.
 */
#ifndef MO_BENCH_FLEXY_LOAD_H
#define MO_BENCH_FLEXY_LOAD_H
#include "bench/data/process.h"

enum { MO_FLEXY_TASKS = 14, MO_FLEXY_JOBS = 100, MO_FLEXY_SLA_MS = 200 };

struct mo_flexy_task {
    const char *name;
    int ms;
};
extern const struct mo_flexy_task mo_flexy_tasks[MO_FLEXY_TASKS];
static inline bool mo_flexy_is_batch(int task) {
    return mo_flexy_tasks[task].ms > MO_FLEXY_SLA_MS;
}

struct mo_flexy_workload {
    const char *name;
    int batch_pct;          /* of the execution time */
    int user_jobs;          /* of MO_FLEXY_JOBS */
    double user_s, batch_s; /* mean duration of a job */
    struct mo_process gaps;
};
/* W1, W2, W3, and W1 with bursts; NULL: no workload of that name. */
enum { MO_FLEXY_WORKLOADS = 4 };
extern const struct mo_flexy_workload mo_flexy_workloads[MO_FLEXY_WORKLOADS];
const struct mo_flexy_workload *mo_flexy_workload_find(const char *name);

struct mo_flexy_job {
    int64_t arrival; /* ns */
    int task, n_tasks, outstanding;
};
struct mo_flexy_load {
    struct mo_flexy_job job[MO_FLEXY_JOBS]; /* in order of arrival; the first at 0 */
};
/* Instance `seed` of a workload at load factor f on a machine of so many devices. */
void mo_flexy_load_draw(const struct mo_flexy_workload *workload, double f, int devices, uint64_t seed,
                        struct mo_flexy_load *out);
#endif
