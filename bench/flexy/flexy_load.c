/* SPDX-License-Identifier: Apache-2.0
 * flexy_load.c - see flexy_load.h. */
#include "bench/flexy/flexy_load.h"

#include <math.h>
#include <string.h>

static const double pareto_shape = 1.5, pareto_span = 100, burst_cv = 4;

const struct mo_flexy_task mo_flexy_tasks[MO_FLEXY_TASKS] = {
    {"darkgray", 226},    {"histogram", 82},   {"convolution", 130}, {"black-scholes", 158},
    {"monte-carlo", 178}, {"bfs", 97},         {"gaussian", 2674},   {"lava-md", 1158},
    {"euclid", 29},       {"particle", 48},    {"pathfinder", 87},   {"nw", 69},
    {"hot-spot", 14},     {"hot-spot-3d", 512}};

const struct mo_flexy_workload mo_flexy_workloads[MO_FLEXY_WORKLOADS] = {
    {"W1", 80, 80, 1, 16, {MO_PROCESS_POISSON, 0}},
    {"W2", 20, 92, 5, 15, {MO_PROCESS_POISSON, 0}},
    {"W3", 60, 40, 8, 8, {MO_PROCESS_POISSON, 0}},
    {"bursts", 80, 80, 1, 16, {MO_PROCESS_MMPP, burst_cv}},
};

const struct mo_flexy_workload *mo_flexy_workload_find(const char *name) {
    for (int i = 0; i < MO_FLEXY_WORKLOADS; i++)
        if (!strcmp(mo_flexy_workloads[i].name, name)) return &mo_flexy_workloads[i];
    return NULL;
}

/* Streams of an instance's draws: the same jobs come at every load. */
enum { STREAM_CLASS, STREAM_DURATION, STREAM_TASK, STREAM_WINDOW, STREAM_GAP };

/* 1 or more; bounded, so that its mean is what scaling makes it. */
static double pareto(struct mo_rng *rng) {
    const double u = mo_rng_uniform(rng);
    return pow(1 - u * (1 - pow(pareto_span, -pareto_shape)), -1 / pareto_shape);
}

/* Which jobs are batch: as many as there are, in random order. */
static void draw_classes(const struct mo_flexy_workload *w, uint64_t seed, bool batch[MO_FLEXY_JOBS]) {
    struct mo_rng rng;
    mo_rng_seed(&rng, seed, STREAM_CLASS);
    for (int i = 0; i < MO_FLEXY_JOBS; i++)
        batch[i] = i >= w->user_jobs;
    for (int i = MO_FLEXY_JOBS - 1; i > 0; i--) {
        const int k = (int)(mo_rng_uniform(&rng) * (i + 1));
        const bool b = batch[i];
        batch[i] = batch[k];
        batch[k] = b;
    }
}

static void draw_durations(const struct mo_flexy_workload *w, uint64_t seed, const bool *batch,
                           double seconds[MO_FLEXY_JOBS]) {
    struct mo_rng rng;
    double sum[2] = {0};
    const double total[2] = {w->user_s * w->user_jobs, w->batch_s * (MO_FLEXY_JOBS - w->user_jobs)};
    mo_rng_seed(&rng, seed, STREAM_DURATION);
    for (int i = 0; i < MO_FLEXY_JOBS; i++)
        sum[batch[i]] += seconds[i] = pareto(&rng);
    for (int i = 0; i < MO_FLEXY_JOBS; i++)
        seconds[i] *= total[batch[i]] / sum[batch[i]];
}

/* One of the class's kernels. */
static int draw_task(struct mo_rng *rng, bool batch) {
    int of_class[MO_FLEXY_TASKS], n = 0;
    for (int i = 0; i < MO_FLEXY_TASKS; i++)
        if (mo_flexy_is_batch(i) == batch) of_class[n++] = i;
    return of_class[(int)(mo_rng_uniform(rng) * n)];
}

void mo_flexy_load_draw(const struct mo_flexy_workload *w, double f, int devices, uint64_t seed,
                        struct mo_flexy_load *out) {
    bool batch[MO_FLEXY_JOBS];
    double seconds[MO_FLEXY_JOBS], at = 0;
    struct mo_rng task, window;
    struct mo_process_state gaps;
    const double mean_s =
        (w->user_s * w->user_jobs + w->batch_s * (MO_FLEXY_JOBS - w->user_jobs)) / MO_FLEXY_JOBS;
    draw_classes(w, seed, batch);
    draw_durations(w, seed, batch, seconds);
    mo_rng_seed(&task, seed, STREAM_TASK);
    mo_rng_seed(&window, seed, STREAM_WINDOW);
    mo_process_start(&gaps, &w->gaps, seed, STREAM_GAP);
    for (int i = 0; i < MO_FLEXY_JOBS; i++) {
        struct mo_flexy_job *job = &out->job[i];
        job->task = draw_task(&task, batch[i]);
        const double n = round(seconds[i] * 1e3 / mo_flexy_tasks[job->task].ms);
        job->n_tasks = n > 1 ? (int)n : 1;
        job->outstanding = 1 + (int)(mo_rng_uniform(&window) * 2 * devices);
        job->arrival = (int64_t)(at * f * mean_s * 1e9);
        at += mo_process_gap(&gaps);
    }
}
