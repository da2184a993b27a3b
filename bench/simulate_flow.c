/* SPDX-License-Identifier: Apache-2.0
 * simulate_flow.c - see simulate_flow.h.  The simulator's answers must not call it back, so a job whose stage
 * was answered is put on a list, and the driver goes on with the list when the simulator has returned. */
#include "bench/simulate_flow.h"

/* A query of an application. */
struct job {
    int source, index, answered; /* queries of its stages that are answered */
    int64_t arrival, start;      /* start: first work on any; 0 = not yet */
    bool over, listed;
    short left[MO_DAG_STAGES]; /* queries of the stage without an answer */
    bool begun[MO_DAG_STAGES];
    struct job *next;
};

struct mo_bench_flow {
    const struct mo_env *env;
    const struct mo_bench_gpu_side *side;
    const struct mo_bench_scenario *scenario;
    void (*done)(void *ctx, int index, int code, int64_t start_ns, int64_t end_ns);
    void *ctx;
    struct job *job, *ready;
    int n, used;
};

struct mo_bench_flow *mo_bench_flow_create(
    const struct mo_env *env, const struct mo_bench_gpu_side *side, const struct mo_bench_scenario *scenario,
    int n, void (*done)(void *ctx, int index, int code, int64_t start_ns, int64_t end_ns), void *ctx) {
    struct mo_bench_flow *f = mo_alloc(env, sizeof *f);
    if (!f) return NULL;
    *f = (struct mo_bench_flow){
        .env = env, .side = side, .scenario = scenario, .done = done, .ctx = ctx, .n = n};
    f->job = mo_alloc(env, ((size_t)n + 1) * sizeof *f->job);
    if (f->job) return f;
    mo_free(env, f);
    return NULL;
}

void mo_bench_flow_destroy(struct mo_bench_flow *f) {
    if (!f) return;
    mo_free(f->env, f->job);
    mo_free(f->env, f);
}

static const struct mo_dag *dag_of(const struct mo_bench_flow *f, const struct job *j) {
    return &f->scenario->tenants[j->source].app->dag;
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
    f->done(f->ctx, j->index, code, j->start, now);
}

static bool may_begin(const struct mo_dag *dag, const struct job *j, int stage) {
    const struct mo_dag_stage *s = &dag->stage[stage];
    if (j->begun[stage]) return false;
    for (int k = 0; k < s->n_after; k++)
        if (!j->begun[s->after[k]] || j->left[s->after[k]]) return false;
    return true;
}

static void begin_stage(struct mo_bench_flow *f, struct mo_sim *sim, struct job *j, int stage) {
    const struct mo_dag *dag = dag_of(f, j);
    int64_t now = mo_sim_now(sim), due = j->arrival + (int64_t)(f->scenario->tenants[j->source].qos.ms * 1e6);
    int64_t left = due > now ? due - now : 0;
    int64_t deadline = now + mo_dag_part(dag, f->side->split[j->source], dag->level[stage], left);
    j->begun[stage] = true;
    for (int i = 0; i < dag->stage[stage].count && !j->over; i++) {
        int code = mo_sim_submit_by(sim, f->side->first[j->source] + stage, deadline, j, NULL, NULL);
        if (code) end(f, j, code, now);
    }
}

void mo_bench_flow_go_on(struct mo_bench_flow *f, struct mo_sim *sim) {
    for (struct job *j; (j = f->ready) != NULL;) {
        const struct mo_dag *dag = dag_of(f, j);
        f->ready = j->next;
        j->listed = false;
        for (int i = 0; i < dag->n && !j->over; i++)
            if (may_begin(dag, j, i)) begin_stage(f, sim, j, i);
    }
}

void mo_bench_flow_begin(struct mo_bench_flow *f, struct mo_sim *sim, int source, int index) {
    if (f->used == f->n) return;
    struct job *j = &f->job[f->used++];
    *j = (struct job){.source = source, .index = index, .arrival = mo_sim_now(sim)};
    for (int i = 0; i < dag_of(f, j)->n; i++)
        j->left[i] = (short)dag_of(f, j)->stage[i].count;
    list(f, j);
    mo_bench_flow_go_on(f, sim);
}

void mo_bench_flow_answer(struct mo_bench_flow *f, int tenant, const struct mo_answer *a) {
    struct job *j = a->user;
    int stage = f->side->tenant[tenant].stage, all = 0;
    if (a->start && (!j->start || a->start < j->start)) j->start = a->start;
    if (a->code != MOIRE_OK) end(f, j, a->code, a->end);
    j->left[stage]--;
    for (int i = 0; i < dag_of(f, j)->n; i++)
        all += j->left[i];
    if (!all)
        end(f, j, MOIRE_OK, a->end);
    else if (!j->left[stage])
        list(f, j);
}
