/* SPDX-License-Identifier: Apache-2.0
 * search.c - collects layers and works off their turns (turns.c): a chunk of candidates is compiled on all
 * cores, then measured with the machine to itself. */
#include "codegen/search/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/search/search_impl.h"

int mo_search_create(const struct mo_env *env, const struct mo_search_options *options,
                     struct mo_search **out, moire_error *err) {
    *out = NULL;
    struct mo_search *s = mo_alloc(env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "out of memory starting a search");
    s->env = env;
    s->options = *options;
    s->began = options->budget_began ? options->budget_began : mo_now(env);
    *out = s;
    return MOIRE_OK;
}

static void destroy_job(struct mo_search *s, struct search_job *job) {
    for (int i = 0; job->candidate && i < job->n; i++)
        mo_candidate_release(s, &job->candidate[i], true);
    mo_free(s->env, job->candidate);
    mo_free(s->env, job->front);
    mo_layer_destroy(&job->layer);
    mo_free(s->env, job);
}

void mo_search_destroy(struct mo_search *s) {
    if (!s) return;
    for (int i = 0; i < s->n; i++)
        destroy_job(s, s->jobs[i]);
    mo_free(s->env, s->jobs);
    mo_writer_close(s->writer);
    mo_store_close(s->store);
    mo_free(s->env, s);
}

static struct search_job *find_job(const struct mo_search *s, const char *signature) {
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->jobs[i]->result.signature, signature)) return s->jobs[i];
    return NULL;
}

static bool grow(struct mo_search *s) {
    if (s->n < s->cap) return true;
    int cap = s->cap ? 2 * s->cap : 64;
    struct search_job **jobs = mo_alloc(s->env, (size_t)cap * sizeof *jobs);
    if (!jobs) return false;
    if (s->n) memcpy(jobs, s->jobs, (size_t)s->n * sizeof *jobs);
    mo_free(s->env, s->jobs);
    s->jobs = jobs;
    s->cap = cap;
    return true;
}

static bool any_family(const struct mo_search *s, const struct mo_problem *problem) {
    for (int i = 0; s->options.families[i]; i++)
        if (s->options.families[i]->takes(problem)) return true;
    return false;
}

/* Names of a model may be anything; this one is plain text. */
static void note_name(const struct mo_node *node, char *out, size_t n) {
    snprintf(out, n, "%s", *node->name ? node->name : node->op_type);
    for (; *out; out++)
        if (*out <= 32 || *out > 126) *out = '?';
}

static int add_layer(struct mo_search *s, const struct mo_graph *graph, const struct mo_node *node,
                     moire_error *err) {
    struct mo_problem problem = {0};
    if (!mo_layer_signature(graph, node, problem.signature, sizeof problem.signature)) return MOIRE_OK;
    struct search_job *known = find_job(s, problem.signature);
    if (known) {
        known->result.uses++;
        return MOIRE_OK;
    }
    if (!s->options.problem(graph, node, s->options.isa, &problem) || !any_family(s, &problem))
        return MOIRE_OK;
    if (mo_problem_on_unit(graph, node, &problem, s->options.units)) {
        s->on_unit++;
        return MOIRE_OK;
    }
    problem.cores = s->options.cores;
    struct search_job *job = grow(s) ? mo_alloc(s->env, sizeof *job) : NULL;
    if (!job) return mo_fail(err, MOIRE_ENOMEM, "out of memory collecting layers");
    int rc = mo_layer_create(graph, node, &problem, &job->layer, err);
    if (rc) {
        mo_free(s->env, job);
        return rc;
    }
    job->result.signature = job->layer.problem.signature;
    job->result.uses = 1;
    note_name(node, job->result.name, sizeof job->result.name);
    job->result.flops = job->layer.flops;
    s->jobs[s->n++] = job;
    return MOIRE_OK;
}

int mo_search_add(struct mo_search *s, const struct mo_graph *graph, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; i < graph->n_nodes && !rc; i++)
        rc = add_layer(s, graph, graph->nodes[i], err);
    return rc;
}

int mo_search_on_unit(const struct mo_search *s) {
    return s->on_unit;
}

int mo_search_count(const struct mo_search *s) {
    return s->n;
}

const struct mo_layer_result *mo_search_result(const struct mo_search *s, int index) {
    return &s->jobs[index]->result;
}

void mo_search_withdraw(struct mo_search *s, const char *signature, const char *why) {
    struct search_job *job = find_job(s, signature);
    if (!job) return;
    struct mo_layer_result *r = &job->result;
    r->state = MO_LAYER_FAILED;
    r->min_ns = r->part_ns = 0;
    r->units = r->versions = 0;
    r->family[0] = r->knobs[0] = 0;
    snprintf(r->trouble, sizeof r->trouble, "%s", why);
}

/* --- the run --- */

static void reuse(struct mo_search *s, struct search_job *job) {
    struct mo_store_index *x = &job->index;
    if (!mo_store_peek(s->store, job->result.signature, job->layer.problem.isa, x) ||
        x->cores < s->options.cores || (mo_search_versions(s) && !mo_job_has_front(s, job))) {
        job->kept = *x;
        *x = (struct mo_store_index){0};
        return;
    }
    job->kept = *x;
    mo_job_keep_stored(job);
    snprintf(job->result.trouble, sizeof job->result.trouble, "%.199s", x->withdrawn);
    job->earlier_index = *x;
    job->stored =
        x->best[0] && mo_store_find(s->store, job->result.signature, job->layer.problem.isa, &job->earlier);
}

void mo_search_reserve(struct mo_search *s, double loading_s, double runs) {
    s->reserve_loading_s = loading_s;
    s->reserve_runs = runs;
}

bool mo_search_ended(const struct mo_search *s) {
    return s->ended;
}

static double seconds_since(const struct mo_search *s, int64_t then) {
    return (double)(mo_now(s->env) - then) * 1e-9;
}

struct progress {
    int done, total;
};

/* Seconds to the end of all: by what was done, and not beyond the budget. */
static double seconds_left(const struct mo_search *s) {
    double work, budget = s->ends ? (double)(s->ends - mo_now(s->env)) * 1e-9 : INFINITY;
    int candidates = mo_candidates_left(s, &work);
    double left = mo_effort_left(&s->effort, candidates, work);
    if (left < 0 && isinf(budget)) return -1;
    if (left < 0 || left > budget) left = budget;
    return (left > 0 ? left : 0) + s->after_s;
}

static double work_of(const struct search_job *job, int turn) {
    double work = 0;
    for (int i = job->next - turn; i < job->next; i++)
        work += mo_effort_work(job->candidate[i].point.cost_ns);
    return work;
}

/* Candidates for which there is time, when the seconds of one are known; a few to learn them. */
static int chunk_size(const struct mo_search *s) {
    double each = mo_effort_each(&s->effort);
    int jobs = s->options.jobs > 0 ? s->options.jobs : 1, least = s->ends ? jobs : 2 * jobs;
    if (each <= 0) return least;
    double fit = s->ends ? (double)(s->ends - mo_now(s->env)) * 1e-9 / each : MO_CHUNK_MOST;
    return fit >= MO_CHUNK_MOST ? 0 : fit > least ? (int)fit : least;
}

/* Measures the layers of a compiled chunk; its compilation, which took compiling_s, is shared among them. */
static int tune_chunk(struct mo_search *s, const struct mo_chunk *chunk, double compiling_s,
                      struct progress *p, moire_error *err) {
    for (int i = 0; i < chunk->jobs; i++) {
        struct search_job *job = chunk->job[i];
        if (mo_search_over(s)) return MOIRE_OK;
        int64_t start = mo_now(s->env);
        int rc = mo_job_tune(s, job, err);
        if (rc) return rc;
        double spent = seconds_since(s, start);
        job->spent_s += compiling_s * chunk->turn[i] / chunk->n + spent;
        mo_effort_timed(&s->effort, spent, work_of(job, chunk->turn[i]));
        struct mo_search_progress now = {++p->done, p->total, seconds_left(s), &job->result};
        if (s->options.progress) s->options.progress(s->options.ctx, &now);
    }
    return MOIRE_OK;
}

static int run_turns(struct mo_search *s, int pending, moire_error *err) {
    struct mo_chunk chunk;
    int first = mo_first_turn(s, pending), rc = MOIRE_OK;
    struct progress progress = {.total = mo_turns_left(s, first)};
    while (!rc && !s->ended) {
        if (mo_search_interrupted(s)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
        s->chunk_most = chunk_size(s);
        if (!mo_next_chunk(s, first, &chunk)) break;
        int64_t start = mo_now(s->env);
        rc = mo_compile_batch(s, chunk.candidate, chunk.of, chunk.n, err);
        double compiling_s = seconds_since(s, start);
        mo_effort_compiled(&s->effort, compiling_s, chunk.n);
        if (!rc) rc = tune_chunk(s, &chunk, compiling_s, &progress, err);
        s->ended = mo_search_over(s);
    }
    return rc;
}

/* When the budget ends, less what the caller needs of it afterwards. */
static void set_end(struct mo_search *s) {
    double run_ns = 0, budget = s->options.budget_s;
    for (int i = 0; i < s->n; i++)
        if (s->jobs[i]->n) run_ns += s->jobs[i]->candidate[0].point.cost_ns * s->jobs[i]->result.uses;
    s->after_s = s->reserve_loading_s + s->reserve_runs * run_ns * 1e-9;
    if (budget <= 0) return;
    if (s->after_s > budget / 2) s->after_s = budget / 2;
    s->ends = s->began + (int64_t)((budget - s->after_s) * 1e9);
}

/* With versions every candidate of a layer belongs to its one turn: a tight budget means fewer of them, at
 * about half a second each. */
static void fit_budget(const struct mo_search *s, int pending) {
    if (!mo_search_versions(s) || !s->ends || !pending) return;
    double most = (double)(s->ends - mo_now(s->env)) * 1e-9 / pending * 2;
    for (int i = 0; i < s->n; i++)
        if (s->jobs[i]->n > most) s->jobs[i]->n = most < 3 ? 3 : (int)most;
}

static int prepare(struct mo_search *s, int *pending, moire_error *err) {
    moire_error why;
    if (mo_store_open(s->env, s->options.store, &s->store, &why) == MOIRE_ENOMEM)
        return mo_fail(err, MOIRE_ENOMEM, "%s", why.message);
    *pending = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->store) reuse(s, s->jobs[i]);
        int rc = mo_job_points(s, s->jobs[i], err);
        if (rc) return rc;
        if (!s->jobs[i]->n && s->jobs[i]->result.state == MO_LAYER_PENDING)
            s->jobs[i]->result.state = MO_LAYER_GENERIC; /* there is nothing to wait for */
        if (s->jobs[i]->result.state == MO_LAYER_REUSED)
            s->jobs[i]->next =
                s->jobs[i]->result.tried < s->jobs[i]->n ? s->jobs[i]->result.tried : s->jobs[i]->n;
        *pending += mo_job_wants_more(s, s->jobs[i]);
    }
    if (s->n) qsort(s->jobs, (size_t)s->n, sizeof *s->jobs, mo_jobs_by_share);
    set_end(s);
    fit_budget(s, *pending);
    return MOIRE_OK;
}

/* Tells what the search is going to do, before it takes its time. */
static void announce(const struct mo_search *s, int pending) {
    int other = 0;
    for (int i = 0; i < s->n; i++)
        other += s->jobs[i]->result.other_number;
    if (s->options.began) s->options.began(s->options.ctx, pending, other);
}

int mo_search_run(struct mo_search *s, moire_error *err) {
    int pending = 0;
    int rc = prepare(s, &pending, err);
    if (rc || !pending) return rc;
    announce(s, pending);
    rc = mo_writer_open(s->env, s->options.store, &s->writer, err);
    if (!rc) rc = mo_cc_find(s->env, s->options.cc, mo_writer_work(s->writer), &s->cc, err);
    return rc ? rc : run_turns(s, pending, err);
}
