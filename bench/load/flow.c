/* SPDX-License-Identifier: Apache-2.0
 * flow.c - see flow.h.  An answer puts its query on a list; whoever may submit goes on with the list.  The
 * lock is let go for each submission, and what may have changed meanwhile (the query is over, the flow has
 * stopped) is looked at before the next one. */
#include "bench/load/flow.h"

#include "runtime/base/lock.h"

struct mo_bench_flow_part {
    struct job *job;
    short left; /* queries of the stage without an answer */
    bool begun;
};

/* A query of an application. */
struct job {
    int source, index;
    int64_t arrival, start; /* start: first work on any; 0 = not yet */
    bool over, listed;
    struct mo_bench_flow_part part[MO_DAG_STAGES];
    struct job *next;
};

struct mo_bench_flow {
    struct mo_bench_flow_config config;
    struct mo_lock lock;
    struct job *job, *ready;
    int used;
    bool stopped;
    _Atomic uint32_t submitting; /* calls of submit under way; changed with the lock held */
};

struct mo_bench_flow *mo_bench_flow_create(const struct mo_bench_flow_config *config) {
    struct mo_bench_flow *f = mo_alloc(config->env, sizeof *f);
    if (!f) return NULL;
    *f = (struct mo_bench_flow){.config = *config};
    f->job = mo_alloc(config->env, ((size_t)config->n + 1) * sizeof *f->job);
    if (f->job) return f;
    mo_free(config->env, f);
    return NULL;
}

void mo_bench_flow_destroy(struct mo_bench_flow *f) {
    if (!f) return;
    const struct mo_env *env = f->config.env;
    mo_free(env, f->job);
    mo_free(env, f);
}

static void take(struct mo_bench_flow *f) {
    mo_lock_take(f->config.env->sys, &f->lock);
}

static void drop(struct mo_bench_flow *f) {
    mo_lock_drop(f->config.env->sys, &f->lock);
}

static const struct mo_bench_flow_app *app_of(const struct mo_bench_flow *f, const struct job *j) {
    return &f->config.apps[j->source];
}

static void list(struct mo_bench_flow *f, struct job *j) {
    if (j->listed) return;
    j->listed = true;
    j->next = f->ready;
    f->ready = j;
}

static void end(struct mo_bench_flow *f, struct job *j, int code, int64_t now) {
    if (j->over) return;
    j->over = true;
    f->config.done(f->config.ctx, j->index, code, j->start, now);
}

static bool may_begin(const struct mo_dag *dag, const struct job *j, int stage) {
    const struct mo_dag_stage *s = &dag->stage[stage];
    if (j->part[stage].begun) return false;
    for (int k = 0; k < s->n_after; k++)
        if (!j->part[s->after[k]].begun || j->part[s->after[k]].left) return false;
    return true;
}

/* Called with the lock held, and returns with it. */
static int submit(struct mo_bench_flow *f, int tenant, int64_t deadline, struct mo_bench_flow_part *part) {
    const struct mo_sys *sys = f->config.env->sys;
    atomic_fetch_add(&f->submitting, 1);
    drop(f);
    int code = f->config.submit(f->config.ctx, tenant, deadline, part);
    take(f);
    atomic_fetch_sub(&f->submitting, 1);
    if (f->stopped) sys->futex_wake(sys->self, &f->submitting, 1);
    return code;
}

static void begin_stage(struct mo_bench_flow *f, struct job *j, int stage) {
    const struct mo_bench_flow_app *app = app_of(f, j);
    int64_t now = f->config.now(f->config.ctx), due = j->arrival + app->target_ns;
    int64_t left = due > now ? due - now : 0;
    int64_t deadline = now + mo_dag_part(app->dag, app->split, app->dag->level[stage], left);
    j->part[stage].begun = true;
    for (int i = 0; i < app->dag->stage[stage].count && !j->over; i++) {
        int code = f->stopped ? MOIRE_ECANCELLED : submit(f, app->first + stage, deadline, &j->part[stage]);
        if (code) end(f, j, code, now);
    }
}

void mo_bench_flow_go_on(struct mo_bench_flow *f) {
    take(f);
    for (struct job *j; (j = f->ready) != NULL;) {
        const struct mo_dag *dag = app_of(f, j)->dag;
        f->ready = j->next;
        j->listed = false;
        for (int i = 0; i < dag->n && !j->over; i++)
            if (may_begin(dag, j, i)) begin_stage(f, j, i);
    }
    drop(f);
}

void mo_bench_flow_begin(struct mo_bench_flow *f, int source, int index, int64_t arrival) {
    const struct mo_dag *dag = f->config.apps[source].dag;
    take(f);
    struct job *j = f->used < f->config.n ? &f->job[f->used++] : NULL;
    if (j) {
        *j = (struct job){.source = source, .index = index, .arrival = arrival};
        for (int i = 0; i < dag->n; i++)
            j->part[i] = (struct mo_bench_flow_part){.job = j, .left = (short)dag->stage[i].count};
        list(f, j);
    }
    drop(f);
    mo_bench_flow_go_on(f);
}

void mo_bench_flow_answer(struct mo_bench_flow *f, struct mo_bench_flow_part *part, int code,
                          int64_t start_ns, int64_t end_ns) {
    struct job *j = part->job;
    int all = 0;
    take(f);
    if (start_ns && (!j->start || start_ns < j->start)) j->start = start_ns;
    if (code != MOIRE_OK) end(f, j, code, end_ns);
    part->left--;
    for (int i = 0; i < app_of(f, j)->dag->n; i++)
        all += j->part[i].left;
    if (!all)
        end(f, j, MOIRE_OK, end_ns);
    else if (!part->left)
        list(f, j);
    drop(f);
}

void mo_bench_flow_stop(struct mo_bench_flow *f) {
    const struct mo_sys *sys = f->config.env->sys;
    take(f);
    f->stopped = true;
    drop(f);
    for (uint32_t n; (n = atomic_load(&f->submitting)) > 0;)
        sys->futex_wait(sys->self, &f->submitting, n, 0);
}
