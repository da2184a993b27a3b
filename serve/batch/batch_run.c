/* SPDX-License-Identifier: Apache-2.0
 * batch_run.c - a run of several queries: their inputs are put together, and its outputs taken apart; see
 * batcher.h.
 *
 * Rows that no query fills are zero; rows are kept apart, so nobody sees them.  The inputs that were put
 * together are lent to the runtime, which gives them back when it has read them. */
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/query/infer_query.h"

struct ms_run {
    struct ms_batcher *batcher; /* held */
    moire_runtime *runtime;
    struct ms_model *model; /* held until it is answered, and its binding */
    struct ms_binding *binding;
    struct ms_run *before, *behind;
    struct ms_query *member[MS_BATCH_ROWS]; /* NULL: it has left */
    int64_t row[MS_BATCH_ROWS];             /* its first one */
    int n, left;
    int64_t rows, size;
    int64_t begun_ns, submitted_ns;
    int n_inputs;
    moire_tensor input[MS_PORTS];
    atomic_int parts;   /* who still uses it: the call that submits; the runtime, for inputs and answer */
    bool is_answered;   /* under the batcher's lock, as all that follows */
    moire_query handle; /* 0: not known yet, or answered */
};

/* --- members --- */
moire_query ms_run_leave(struct ms_query *q) {
    struct ms_run *run = q->queued.run;
    for (int i = 0; i < run->n; i++)
        if (run->member[i] == q) run->member[i] = NULL;
    q->queued.stand = MS_NOWHERE;
    q->queued.run = NULL;
    return --run->left ? 0 : run->handle;
}

int64_t ms_run_expires(const struct ms_batcher *b) {
    int64_t first = MS_NEVER;
    for (const struct ms_run *run = b->runs; run; run = run->behind)
        for (int i = 0; i < run->n; i++)
            if (run->member[i] && run->member[i]->expires_ns < first) first = run->member[i]->expires_ns;
    return first;
}

struct ms_query *ms_run_expired(struct ms_batcher *b, int64_t at) {
    for (struct ms_run *run = b->runs; run; run = run->behind)
        for (int i = 0; i < run->n; i++)
            if (run->member[i] && run->member[i]->expires_ns <= at) return run->member[i];
    return NULL;
}

/* --- the end --- */
static void leave(struct ms_run *run) {
    if (atomic_fetch_sub(&run->parts, 1) != 1) return;
    ms_batcher_drop(run->batcher);
    free(run);
}

static void free_inputs(struct ms_run *run) {
    for (int i = 0; i < run->n_inputs; i++)
        free(run->input[i].data);
}

/* The runtime has read them. */
static void inputs_are_back(void *user) {
    struct ms_run *run = user;
    free_inputs(run);
    leave(run);
}

/* The part of each output that is the query's. */
static void answer(struct ms_query *q, const moire_answer *a, int64_t row, int64_t size) {
    moire_tensor part[MS_PORTS];
    for (int i = 0; i < a->n_outputs; i++) {
        const size_t a_row = a->outputs[i].bytes / (size_t)size;
        part[i] = a->outputs[i];
        part[i].shape[0] = a->outputs[i].shape[0] / size * q->rows;
        part[i].bytes = a_row * (size_t)q->rows;
        part[i].data = (char *)a->outputs[i].data + (size_t)row * a_row;
    }
    q->queue_ns = a->start_ns - q->begun_ns;
    q->compute_ns = a->compute_ns;
    q->in_time = a->end_ns <= q->target_ns;
    ms_query_settle(q, part);
}

/* Out of the batcher; the members that are left are the caller's.  Their number. */
static int take_apart(struct ms_run *run, struct ms_query **member, int64_t *row) {
    struct ms_batcher *b = run->batcher;
    int n = 0;
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < run->n; i++) {
        if (!run->member[i]) continue;
        row[n] = run->row[i];
        member[n] = run->member[i];
        member[n++]->queued.stand = MS_NOWHERE;
    }
    *(run->before ? &run->before->behind : &b->runs) = run->behind;
    if (run->behind) run->behind->before = run->before;
    run->is_answered = true;
    run->handle = 0;
    b->under_way--;
    ms_batcher_go(b); /* first, so that cores do not wait for what follows */
    pthread_mutex_unlock(&b->lock);
    return n;
}

/* On a thread of the runtime, or of who submits where that fails. */
static void answered(void *user, const moire_answer *a) {
    struct ms_run *run = user;
    struct ms_model *m = run->model;
    struct ms_query *member[MS_BATCH_ROWS];
    int64_t row[MS_BATCH_ROWS];
    const int n = take_apart(run, member, row);
    pthread_mutex_lock(&m->repository->lock);
    if (!a->code) ms_tally_run(m->tally, run->rows, run->submitted_ns - run->begun_ns, a->compute_ns);
    run->binding->users--;
    pthread_mutex_unlock(&m->repository->lock);
    for (int i = 0; i < n; i++) {
        if (!a->code) {
            answer(member[i], a, row[i], run->size);
            continue;
        }
        ms_fail(&member[i]->error, a->code, "model '%.100s': %s", m->found.name,
                a->message ? a->message : moire_code_text(a->code));
        ms_query_settle(member[i], NULL);
    }
    ms_repository_give(m);
    leave(run);
}

/* --- the beginning --- */
static struct ms_run *make(struct ms_batcher *b, struct ms_binding *binding, int64_t size,
                           struct ms_query *const *member, int n) {
    struct ms_run *run = calloc(1, sizeof *run);
    if (!run) return NULL;
    run->batcher = b;
    run->model = b->model;
    run->runtime = b->model->repository->options.runtime;
    run->binding = binding;
    run->size = size;
    run->n = n;
    run->n_inputs = b->model->n_inputs;
    run->begun_ns = MS_NEVER;
    run->submitted_ns = moire_now(run->runtime);
    atomic_init(&run->parts, 3);
    atomic_fetch_add(&b->holders, 1);
    for (int i = 0; i < n; i++) {
        run->member[i] = member[i];
        run->row[i] = run->rows;
        run->rows += member[i]->rows;
        if (member[i]->begun_ns < run->begun_ns) run->begun_ns = member[i]->begun_ns;
        member[i]->submitted_ns = run->submitted_ns;
    }
    return run;
}

static bool put_together(struct ms_run *run) {
    for (int i = 0; i < run->n_inputs; i++) {
        const moire_tensor *first = &run->member[0]->ordered[i];
        const size_t a_row = first->bytes / (size_t)run->member[0]->rows;
        moire_tensor *t = &run->input[i];
        *t = *first;
        t->shape[0] = run->size;
        t->bytes = a_row * (size_t)run->size;
        t->data = calloc(1, t->bytes + 1);
        if (!t->data) return false;
        for (int k = 0; k < run->n; k++) {
            const moire_tensor *from = &run->member[k]->ordered[i];
            if (from->bytes) memcpy((char *)t->data + (size_t)run->row[k] * a_row, from->data, from->bytes);
        }
    }
    return true;
}

/* As early as the most pressing one needs it that can still be in time; what misses it goes on, so that
 * nobody is cut off by another. */
static void set_options(const struct ms_run *run, moire_query_options *o) {
    const struct ms_settings *s = &run->model->settings;
    int64_t earliest = MS_NEVER, late = MS_NEVER, level = s->levels;
    for (int i = 0; i < run->n; i++) {
        const struct ms_query *q = run->member[i];
        int64_t *which = q->target_ns > run->submitted_ns ? &earliest : &late;
        if (q->target_ns < *which) *which = q->target_ns;
        if (q->level < level) level = q->level;
    }
    const int64_t target = earliest != MS_NEVER ? earliest : late;
    moire_query_options_init(o);
    o->arrival_ns = run->begun_ns;
    o->returned = inputs_are_back;
    o->late_goes_on = 1;
    if (target != MS_NEVER) o->deadline_ns = target;
    o->own_priority = s->levels > 0;
    o->priority = s->priority + (int)(s->level - level);
}

/* Under the lock: it is among the runs with its members, but for those that were cancelled meanwhile, which
 * are put into `gone`; their number. */
static int join(struct ms_run *run, struct ms_query **gone) {
    struct ms_batcher *b = run->batcher;
    int n = 0;
    for (int i = 0; i < run->n; i++) {
        struct ms_query *q = run->member[i];
        if (atomic_load(&q->cancelled)) {
            gone[n++] = q;
            run->member[i] = NULL;
            continue;
        }
        q->queued.stand = MS_JOINED;
        q->queued.run = run;
        run->left++;
        ms_batcher_wake(b, q->expires_ns);
    }
    run->behind = b->runs;
    if (b->runs) b->runs->before = run;
    b->runs = run;
    return n;
}

/* What is answered may be answered before this returns, and its model gone. */
static void submit(struct ms_run *run, const moire_query_options *options) {
    moire_query handle = 0;
    moire_error err = {0};
    const int rc = moire_submit_with(run->binding->tenant, run->input, run->n_inputs, options, answered, run,
                                     &handle, &err);
    if (rc) { /* nobody else has it */
        free_inputs(run);
        const moire_answer none = {.code = rc, .message = err.message};
        atomic_store(&run->parts, 1);
        answered(run, &none);
        return;
    }
    pthread_mutex_lock(&run->batcher->lock);
    const bool runs = !run->is_answered, unwanted = runs && !run->left;
    if (runs) run->handle = handle;
    pthread_mutex_unlock(&run->batcher->lock);
    if (unwanted) moire_cancel(run->runtime, handle);
    leave(run);
}

/* There is no memory for it. */
static void give_up(struct ms_batcher *b, struct ms_binding *binding, struct ms_query *const *member, int n) {
    ms_binding_give(b->model, binding);
    pthread_mutex_lock(&b->lock);
    b->under_way--;
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < n; i++) {
        ms_fail(&member[i]->error, MOIRE_ENOMEM, "no memory to join queries");
        ms_query_settle(member[i], NULL);
    }
}

void ms_run_start(struct ms_batcher *b, struct ms_binding *binding, int64_t size,
                  struct ms_query *const *member, int n) {
    struct ms_query *gone[MS_BATCH_ROWS];
    moire_query_options options;
    struct ms_run *run = make(b, binding, size, member, n);
    if (!run || !put_together(run)) {
        if (run) {
            free_inputs(run);
            ms_batcher_drop(b);
        }
        free(run);
        give_up(b, binding, member, n);
        return;
    }
    ms_repository_hold(run->model);
    set_options(run, &options);
    pthread_mutex_lock(&b->lock);
    const int n_gone = join(run, gone);
    pthread_mutex_unlock(&b->lock);
    submit(run, &options);
    for (int i = 0; i < n_gone; i++) {
        ms_fail(&gone[i]->error, MOIRE_ECANCELLED, "cancelled by the client");
        ms_query_settle(gone[i], NULL);
    }
}
