/* SPDX-License-Identifier: Apache-2.0
 * plans.c - the work of `moire bench plans`: pieces, workers, and what they find; see plans.h. */
#include "bench/plans/plans.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "bench/plans/plans_impl.h"
#include "bench/data/process.h"
#include "runtime/planner/rate_bound.h"
#include "runtime/planner/check.h"

enum { MOST_JOBS = 64, STEPS = 100 };

const int mo_plans_gpus[MO_PLANS_SIZES] = {1, 4, 16, 64}, mo_plans_models[MO_PLANS_SIZES] = {5, 20, 50, 100};
static const double scaling_load = 0.6, most_violations = 0.01;

/* What one worker has to itself. */
struct worker {
    struct mo_plans_work *work;
    struct mo_thread thread;
    struct mo_plan_view view;
    struct mo_plan_tenant tenants[MO_PLAN_TENANTS];
    int gpu_kind[MO_PLAN_GPUS];
    char names[MO_PLAN_TENANTS][16];
    struct mo_lets_plan *plan;
    void *scratch;
    size_t scratch_bytes;
    moire_error err;
};

/* One plan of the worker's view.  MOIRE_ELIMIT, that the planner does not do such machines, is an answer. */
static int make(struct worker *w, const struct mo_planner *planner, struct mo_plans_try *out) {
    const struct mo_sys *sys = w->work->env->sys;
    *out = (struct mo_plans_try){0};
    int64_t before = sys->thread_time(sys->self);
    int code = mo_plan_make(planner, &w->view, w->scratch, w->scratch_bytes, w->plan, &w->err);
    out->ms = (double)(sys->thread_time(sys->self) - before) * 1e-6;
    out->refused = code == MOIRE_ELIMIT;
    if (code) return out->refused ? MOIRE_OK : code;
    out->complete = w->plan->complete;
    out->violations = mo_plan_violations(&w->view, w->plan, w->scratch, w->scratch_bytes);
    return MOIRE_OK;
}

/* The worker's view becomes that of a scenario on a machine at a load. */
static void take_view(struct worker *w, const struct mo_bench_plan_view *from, double load) {
    w->view = from->view;
    memcpy(w->tenants, from->view.tenants, (size_t)from->view.n_tenants * sizeof *w->tenants);
    w->view.tenants = w->tenants;
    for (int i = 0; i < from->view.n_tenants; i++)
        w->tenants[i].rate = from->rate[i] * load;
}

static int do_grid(struct worker *w, const struct mo_plans_piece *p) {
    const struct mo_plans_work *work = w->work;
    double rate[MO_LOADS_MODELS];
    take_view(w, &work->views[p->machine * work->o->n_scenarios], 1);
    mo_loads_rates(p->index * work->o->every, rate);
    for (int i = 0; i < MO_LOADS_MODELS; i++)
        w->tenants[i].rate = rate[i] * work->o->load;
    return make(w, work->o->planner[p->planner], mo_plans_grid(work, p->machine, p->planner, p->index));
}

/* The load in steps of a hundredth of the bound's: the highest that has a plan that holds, and the highest
 * for which one is claimed.  A step that fails is not the end: greedy planners fail at some and have a plan
 * at higher ones. */
static int do_rate(struct worker *w, const struct mo_plans_piece *p) {
    const struct mo_plans_work *work = w->work;
    const struct mo_bench_plan_view *from = &work->views[p->machine * work->o->n_scenarios + p->index];
    struct mo_plans_rate *out = mo_plans_rate_of(work, p->machine, p->planner, p->index);
    struct mo_planner_bound bound;
    take_view(w, from, 1);
    mo_planner_bound(&w->view, &bound);
    out->bound = bound.gpus > 0 ? w->view.n_gpus / bound.gpus : 0;
    for (int i = 0; i < from->scenario.n_tenants; i++)
        out->queries += from->scenario.tenants[i].rate;
    for (int k = 1; k <= STEPS; k++) {
        struct mo_plans_try t;
        double load = out->bound * k / STEPS;
        take_view(w, from, load);
        int code = make(w, work->o->planner[p->planner], &t);
        if (code) return code;
        if (t.complete) out->claimed = load;
        if (t.complete && t.violations < most_violations) out->load = load;
    }
    return MOIRE_OK;
}

/* Models and rates drawn from the seed, so many that the bound asks for a given part of the GPUs. */
static void draw_view(struct worker *w, const struct mo_plans_piece *p, int draw) {
    const struct mo_plans_work *work = w->work;
    const struct mo_bench_plan_view *from = &work->views[0];
    struct mo_planner_bound bound;
    struct mo_rng rng;
    mo_rng_seed(&rng, work->o->seed, (uint64_t)p->index * MO_PLANS_DRAWS + (uint64_t)draw);
    w->view = from->view;
    w->view.n_gpus = mo_plans_gpus[p->index / MO_PLANS_SIZES];
    w->view.n_tenants = mo_plans_models[p->index % MO_PLANS_SIZES];
    w->view.tenants = w->tenants;
    w->view.gpu_kind = w->gpu_kind;
    memset(w->gpu_kind, 0, sizeof w->gpu_kind);
    for (int i = 0; i < w->view.n_tenants; i++) {
        w->tenants[i] = from->view.tenants[mo_rng_next(&rng) % (uint64_t)from->view.n_tenants];
        snprintf(w->names[i], sizeof w->names[i], "m%03d", i);
        w->tenants[i].name = w->names[i];
        w->tenants[i].rate = mo_rng_exponential(&rng) + 0.01;
        w->tenants[i].target_ns = (int64_t)((double)w->tenants[i].target_ns * (1 + mo_rng_uniform(&rng)));
    }
    mo_planner_bound(&w->view, &bound);
    for (int i = 0; i < w->view.n_tenants; i++)
        w->tenants[i].rate *= scaling_load * w->view.n_gpus / bound.gpus;
}

static int do_scaling(struct worker *w, const struct mo_plans_piece *p) {
    for (int d = 0; d < MO_PLANS_DRAWS; d++) {
        draw_view(w, p, d);
        int code =
            make(w, w->work->o->planner[p->planner], &mo_plans_scaling(w->work, p->planner, p->index)[d]);
        if (code) return code;
    }
    return MOIRE_OK;
}

static int (*const parts[])(struct worker *, const struct mo_plans_piece *) = {do_grid, do_rate, do_scaling};

/* Takes piece after piece.  The calling thread's worker tells how far all are. */
static void *serve(void *arg) {
    struct worker *w = arg;
    struct mo_plans_work *work = w->work;
    for (;;) {
        int at = atomic_fetch_add(&work->next, 1);
        if (at >= work->n_pieces || atomic_load(&work->failed)) return NULL;
        int code = parts[work->pieces[at].part](w, &work->pieces[at]);
        if (code) {
            atomic_store(&work->failed, code);
            return NULL;
        }
        int done = atomic_fetch_add(&work->done, 1) + 1;
        if (w == work->first && work->o->progress) work->o->progress(work->o->ctx, done, work->n_pieces);
    }
}

static int open_worker(struct mo_plans_work *work, struct worker *w, moire_error *err) {
    w->work = work;
    w->scratch_bytes = mo_plan_scratch_bytes(MO_PLAN_TENANTS, MO_PLAN_KINDS, MO_PLAN_GPUS);
    w->scratch = mo_alloc(work->env, w->scratch_bytes);
    w->plan = mo_alloc(work->env, sizeof *w->plan);
    return w->scratch && w->plan ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for a worker");
}

int mo_plans_run(struct mo_plans_work *work, moire_error *err) {
    const struct mo_sys *sys = work->env->sys;
    int jobs = work->o->jobs < 1 ? 1 : work->o->jobs > MOST_JOBS ? MOST_JOBS : work->o->jobs;
    struct worker *workers = mo_alloc(work->env, (size_t)jobs * sizeof *workers);
    int opened = 0, started = 1, code = workers ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (; !code && opened < jobs; opened++)
        code = open_worker(work, &workers[opened], err);
    work->first = workers;
    /* fewer threads than asked for only take longer */
    while (!code && started < jobs &&
           !sys->thread_start(sys->self, &workers[started].thread, serve, &workers[started]))
        started++;
    if (!code) serve(&workers[0]);
    for (int i = 1; i < started; i++)
        sys->thread_join(sys->self, workers[i].thread);
    for (int i = 0; i < opened; i++) {
        if (!code && workers[i].err.code && atomic_load(&work->failed) == (int)workers[i].err.code) {
            *err = workers[i].err;
            code = (int)workers[i].err.code;
        }
        mo_free(work->env, workers[i].scratch);
        mo_free(work->env, workers[i].plan);
    }
    mo_free(work->env, workers);
    return code;
}
