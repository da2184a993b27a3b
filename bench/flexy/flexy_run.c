/* SPDX-License-Identifier: Apache-2.0
 * flexy_run.c - see flexy_run.h.
 *
 * The simulator's answers must not call back, so a job whose task has ended is noted, and has its next one
 * submitted when the simulator has returned, at the same time. */
#include "bench/flexy/flexy_run.h"

#include <math.h>
#include <string.h>

enum { START_NS = 1, MS = 1000000 }; /* 0 means "never" to the core */

struct run {
    const struct mo_flexy_system *system;
    const struct mo_flexy_run_options *options;
    struct mo_flexy_ran *out;
    struct mo_flexy_load load;
    struct mo_profile *profile[MO_FLEXY_TASKS];
    struct mo_sim *sim;
    int submitted[MO_FLEXY_JOBS];
    int ended[MO_FLEXY_JOBS * 64], n_ended; /* jobs with a task that ended, and its next is due */
    double slowdown;                        /* summed over batch tasks */
};

static int units_of(const struct run *r) {
    return r->system->units > 1 ? r->system->units : 1;
}

/* --- what is served ------------------------------------------------------------------------------------- */
static int make_profile(struct run *r, const struct mo_env *env, int task, moire_error *err) {
    int64_t layer[1024];
    const double ms = mo_flexy_tasks[task].ms;
    const bool cut = r->system->cut_ms > 0 && mo_flexy_is_batch(task);
    const int n = cut ? (int)ceil(ms / r->system->cut_ms) : 1;
    struct mo_profile *p = n <= 1024 ? mo_profile_create(env, n, units_of(r)) : NULL;
    r->profile[task] = p;
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    for (int units = 1; units <= units_of(r); units++) {
        for (int i = 0; i < n; i++)
            layer[i] = (int64_t)(ms * MS / n * units_of(r) / units);
        mo_profile_record(p, units, layer);
    }
    mo_profile_finish(p);
    return MOIRE_OK;
}

static int open_jobs(struct run *r, moire_error *err) {
    int code = MOIRE_OK, index;
    for (int i = 0; !code && i < MO_FLEXY_JOBS; i++) {
        const struct mo_flexy_job *job = &r->load.job[i];
        const bool batch = mo_flexy_is_batch(job->task);
        const struct mo_sched_tenant_config c = {.qos_ns = batch ? 0 : (int64_t)(r->options->sla_ms * MS),
                                                 .best_effort = batch,
                                                 .queue = job->outstanding,
                                                 .instances = job->outstanding,
                                                 .profile = r->profile[job->task]};
        code = mo_sim_open(r->sim, &c, &index, err);
    }
    return code;
}

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct run *r = ctx;
    const struct mo_flexy_job *job = &r->load.job[tenant];
    const double took_ms = (double)(a->end - a->arrival) / MS;
    if (mo_flexy_is_batch(job->task)) {
        r->out->batch++;
        r->slowdown += took_ms / mo_flexy_tasks[job->task].ms;
    } else {
        r->out->user++;
        r->out->in_time += took_ms <= r->options->sla_ms;
    }
    if (r->submitted[tenant] < job->n_tasks) {
        r->submitted[tenant]++;
        r->ended[r->n_ended++] = tenant;
    }
}

/* --- the course of a run -------------------------------------------------------------------------------- */
static int submit(struct run *r, int job, moire_error *err) {
    return mo_sim_submit(r->sim, job, NULL, NULL, err);
}

/* Time that units have been busy until now. */
static double busy_ns(const struct run *r) {
    const struct mo_view *v = mo_sched_view(mo_sim_sched(r->sim));
    double sum = (double)mo_sched_stats(mo_sim_sched(r->sim))->kernel_core_ns;
    for (int i = 0; i < v->n_running; i++) {
        const struct mo_view_run *run = &v->runs[v->running[i]];
        sum += (double)(mo_sim_now(r->sim) - run->start) * run->n_cores;
    }
    return sum;
}

static int begin_job(struct run *r, int i, moire_error *err) {
    const struct mo_flexy_job *job = &r->load.job[i];
    int code = MOIRE_OK;
    r->submitted[i] = job->outstanding < job->n_tasks ? job->outstanding : job->n_tasks;
    for (int k = 0, n = r->submitted[i]; !code && k < n; k++)
        code = submit(r, i, err);
    return code;
}

static int drive(struct run *r, moire_error *err) {
    int code = MOIRE_OK;
    const int64_t last = r->load.job[MO_FLEXY_JOBS - 1].arrival;
    for (int next_job = 0; !code;) {
        const int64_t job_at = next_job < MO_FLEXY_JOBS ? r->load.job[next_job].arrival + START_NS : MO_NEVER;
        const int64_t event_at = mo_sim_next(r->sim), at = event_at <= job_at ? event_at : job_at;
        if (at == MO_NEVER) break;
        mo_sim_advance(r->sim, at);
        for (int i = 0; !code && i < r->n_ended; i++) /* a submission may end nothing at once */
            code = submit(r, r->ended[i], err);
        r->n_ended = 0;
        if (code || event_at <= job_at) continue;
        code = begin_job(r, next_job, err);
        if (next_job++ < MO_FLEXY_JOBS - 1 || last <= 0) continue;
        const double units = r->options->devices * (double)units_of(r);
        r->out->utilisation = busy_ns(r) / (double)last / units;
    }
    return code;
}

static int check(const struct run *r, moire_error *err) {
    const struct mo_sched_stats *s = mo_sched_stats(mo_sim_sched(r->sim));
    int64_t tasks = 0;
    for (int i = 0; i < MO_FLEXY_JOBS; i++)
        tasks += r->load.job[i].n_tasks;
    if (mo_sim_broken(r->sim) || s->refused)
        return mo_fail(err, MOIRE_EFAILED, "policy '%s': decisions that no machine could carry out",
                       r->system->name);
    if (s->ok != tasks)
        return mo_fail(err, MOIRE_EFAILED, "policy '%s': %lld of %lld tasks were answered", r->system->name,
                       (long long)s->ok, (long long)tasks);
    return MOIRE_OK;
}

static int play(struct run *r, const struct mo_env *env, moire_error *err) {
    const double reset_ms = r->system->reset_ms > 0 ? r->system->reset_ms : r->options->reset_ms;
    const struct mo_sim_config config = {
        .env = env,
        .policy = &r->system->policy,
        .machine = {.n_cores = r->options->devices * units_of(r), .reset_ns = (int64_t)(reset_ms * MS)},
        .max_queries = MO_FLEXY_JOBS * 2 * r->options->devices,
        .max_tenants = MO_FLEXY_JOBS,
        .block_ns = (int64_t)(r->system->cut_ms * MS),
        .seed = r->options->seed,
        .answer = answer,
        .ctx = r};
    int code = mo_sim_create(&config, &r->sim, err);
    if (code) return code;
    code = open_jobs(r, err);
    if (!code) code = drive(r, err);
    if (!code) code = check(r, err);
    const struct mo_sched_stats *s = mo_sched_stats(mo_sim_sched(r->sim));
    r->out->resets = s->resets;
    r->out->decisions = s->blocks;
    r->out->lost_ms = (double)s->reset_lost_ns / MS;
    r->out->batch_slowdown = r->out->batch ? r->slowdown / (double)r->out->batch : 0;
    mo_sim_destroy(r->sim);
    return code;
}

int mo_flexy_run(const struct mo_env *env, const struct mo_flexy_system *system,
                 const struct mo_flexy_run_options *o, struct mo_flexy_ran *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    if (o->devices < 1 || o->devices > 32 || o->devices * system->units > MO_MAX_CORES)
        return mo_fail(err, MOIRE_EINVAL, "%d devices: there may be 1 to 32", o->devices);
    struct run *r = mo_alloc(env, sizeof *r);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a run");
    r->system = system;
    r->options = o;
    r->out = out;
    mo_flexy_load_draw(o->workload, o->f, o->devices, o->seed, &r->load);
    int code = MOIRE_OK;
    for (int i = 0; !code && i < MO_FLEXY_TASKS; i++)
        code = make_profile(r, env, i, err);
    if (!code) code = play(r, env, err);
    for (int i = 0; i < MO_FLEXY_TASKS; i++)
        if (r->profile[i]) mo_profile_destroy(r->profile[i]);
    mo_free(env, r);
    return code;
}
