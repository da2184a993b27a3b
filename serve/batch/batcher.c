/* SPDX-License-Identifier: Apache-2.0
 * batcher.c - the queue of a model, and when what waits is started; see batcher.h. */
#define _GNU_SOURCE
#include "serve/batch/batcher.h"

#include <limits.h>
#include <stdlib.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"
#include "serve/query/infer_query.h"

/* One start in so many is of queries that cannot be in time any more: they are not kept for ever. */
enum { TURNS = 16 };

static int64_t now(const struct ms_batcher *b) {
    return moire_now(b->model->repository->options.runtime);
}

/* --- who waits --- */
/* By level, then by target; a query whose target has passed and that goes on all the same is behind others.
 */
static bool goes_before(const struct ms_query *a, const struct ms_query *b) {
    if (a->level != b->level) return a->level < b->level;
    return a->target_ns < b->target_ns;
}

static void enqueue(struct ms_batcher *b, struct ms_query *q) {
    struct ms_query *behind = NULL, *before = b->last;
    while (before && goes_before(q, before)) {
        behind = before;
        before = before->queued.before;
    }
    q->queued.stand = MS_WAITS;
    q->queued.before = before;
    q->queued.behind = behind;
    *(before ? &before->queued.behind : &b->first) = q;
    *(behind ? &behind->queued.before : &b->last) = q;
    b->n_waiting++;
    q->queued.cls->waiting++;
}

static void unqueue(struct ms_batcher *b, struct ms_query *q) {
    *(q->queued.before ? &q->queued.before->queued.behind : &b->first) = q->queued.behind;
    *(q->queued.behind ? &q->queued.behind->queued.before : &b->last) = q->queued.before;
    q->queued.stand = MS_NOWHERE;
    q->queued.cls->waiting--;
    b->n_waiting--;
}

void ms_batcher_wake(struct ms_batcher *b, int64_t when) {
    if (when >= b->wake_ns) return;
    b->wake_ns = when;
    pthread_cond_signal(&b->wake);
}

/* --- what is started --- */
/* The queries of a class that come first. */
static int gather(const struct ms_batcher *b, const struct ms_batch_class *cls, struct ms_query **list) {
    int n = 0;
    for (struct ms_query *q = b->first; q && n < MS_BATCH_LOOK; q = q->queued.behind)
        if (q->queued.cls == cls) list[n++] = q;
    return n;
}

static void describe(struct ms_query *const *list, int n, struct ms_waiting *out) {
    for (int i = 0; i < n; i++)
        out[i] = (struct ms_waiting){list[i]->begun_ns, list[i]->target_ns, list[i]->rows};
}

/* What to start of a class; its sizes by index into cls->size. */
static void choose(struct ms_batcher *b, struct ms_batch_class *cls, struct ms_query *const *list, int n,
                   struct ms_choice *out) {
    struct ms_waiting waiting[MS_BATCH_LOOK];
    struct ms_size size[MS_BATCH_SIZES];
    int which[MS_BATCH_SIZES], n_sizes = 0;
    ms_batch_look(b, cls, list[0]);
    describe(list, n, waiting);
    for (int i = 0; i < cls->n; i++)
        if (cls->ready[i]) {
            which[n_sizes] = i;
            size[n_sizes++] = cls->size[i];
        }
    const bool pays = ms_batch_pays(&cls->alone, size, n_sizes);
    const struct ms_scene scene = {.now_ns = now(b),
                                   .waiting = waiting,
                                   .n = n,
                                   .alone = cls->alone,
                                   .size = size,
                                   .n_sizes = n_sizes,
                                   .under_way = b->under_way,
                                   .window = pays ? ms_model_cores(b->model) : INT_MAX,
                                   .delay_ns = pays ? b->model->settings.batching.delay_ns : 0,
                                   .turn_of_lost = b->starts % TURNS == 0};
    cls->pays = pays;
    ms_batch_choose(&scene, out);
    if (out->size >= 0) out->size = which[out->size];
}

/* Takes what was chosen out of the queue and starts it, without the lock. */
static void start(struct ms_batcher *b, struct ms_batch_class *cls, struct ms_query *const *list,
                  const struct ms_choice *c) {
    struct ms_query *member[MS_BATCH_ROWS] = {list[c->picked[0]]};
    struct ms_binding *binding = NULL;
    const int64_t rows = c->size < 0 ? 0 : cls->size[c->size].rows;
    if (c->size >= 0 && !(binding = ms_batch_binding(b, cls, rows))) {
        cls->ready[c->size] = false; /* it is prepared again when it is wanted */
        if (cls->next > c->size) cls->next = c->size;
        return;
    }
    for (int i = 0; i < c->n; i++) {
        member[i] = list[c->picked[i]];
        unqueue(b, member[i]);
        if (!binding) member[i]->queued.stand = MS_ALONE;
    }
    b->under_way++;
    b->starts++;
    pthread_mutex_unlock(&b->lock);
    if (binding)
        ms_run_start(b, binding, rows, member, c->n);
    else
        ms_query_run(member[0]);
    pthread_mutex_lock(&b->lock);
}

/* The first class of those that wait which has something to start. */
static bool start_one(struct ms_batcher *b) {
    struct ms_query *list[MS_BATCH_LOOK];
    struct ms_batch_class *seen[MS_BATCH_CLASSES];
    int n_seen = 0;
    for (struct ms_query *q = b->first; q && n_seen < MS_BATCH_CLASSES; q = q->queued.behind) {
        int k = 0;
        while (k < n_seen && seen[k] != q->queued.cls)
            k++;
        if (k < n_seen) continue;
        struct ms_batch_class *cls = seen[n_seen++] = q->queued.cls;
        if (cls->pays && b->under_way >= ms_model_cores(b->model)) continue;
        struct ms_choice c;
        choose(b, cls, list, gather(b, cls, list), &c);
        ms_batcher_wake(b, c.again_ns);
        if (!c.n) continue;
        start(b, cls, list, &c);
        return true;
    }
    return false;
}

/* What starts may end at once and come back here: one thread at a time goes round, so that nobody goes
 * deeper. */
void ms_batcher_go(struct ms_batcher *b) {
    b->comes_again = true;
    if (b->goes) return;
    b->goes = true;
    while (b->comes_again) {
        b->comes_again = false;
        while (b->first && start_one(b))
            continue;
    }
    b->goes = false;
}

/* --- queries come and go --- */
void ms_batcher_put(struct ms_batcher *b, struct ms_query *q) {
    atomic_fetch_add(&b->holders, 2); /* the query's, and this call's: it may be closed before the end */
    atomic_store(&q->batcher, b);
    pthread_mutex_lock(&b->lock);
    if (b->model->settings.batching.keeps_order) {
        *(b->order_first ? &b->order_last->queued.next : &b->order_first) = q;
        b->order_last = q;
    }
    q->queued.cls = ms_batch_class_of(b, q);
    if (!q->queued.cls || atomic_load(&q->cancelled)) {
        q->queued.stand = MS_ALONE;
        b->under_way++;
        pthread_mutex_unlock(&b->lock);
        ms_query_run(q);
        ms_batcher_drop(b);
        return;
    }
    enqueue(b, q);
    ms_batcher_wake(b, q->expires_ns);
    if (b->under_way >= ms_model_cores(b->model) || b->model->settings.batching.delay_ns)
        ms_batch_grow(b, q->queued.cls);
    ms_batcher_go(b);
    pthread_mutex_unlock(&b->lock);
    ms_batcher_drop(b);
}

void ms_batcher_left(struct ms_batcher *b, struct ms_query *q) {
    pthread_mutex_lock(&b->lock);
    if (q->queued.stand == MS_ALONE) b->under_way--;
    q->queued.stand = MS_NOWHERE;
    ms_batcher_go(b);
    pthread_mutex_unlock(&b->lock);
}

/* Ends a query that waits or is a member of a run.  Under the lock, which it lets go meanwhile. */
static void end_early(struct ms_batcher *b, struct ms_query *q, int code, const char *why) {
    moire_query unwanted = 0;
    if (q->queued.stand == MS_WAITS)
        unqueue(b, q);
    else
        unwanted = ms_run_leave(q);
    pthread_mutex_unlock(&b->lock);
    if (unwanted) moire_cancel(q->runtime, unwanted);
    ms_fail(&q->error, code, "model '%.100s': %s", q->model->found.name, why);
    ms_query_settle(q, NULL);
    pthread_mutex_lock(&b->lock);
}

void ms_batcher_cancel(struct ms_batcher *b, struct ms_query *q) {
    atomic_fetch_add(&b->holders, 1); /* whoever is told may close the query */
    pthread_mutex_lock(&b->lock);
    if (q->queued.stand == MS_WAITS || q->queued.stand == MS_JOINED)
        end_early(b, q, MOIRE_ECANCELLED, "cancelled by the client");
    pthread_mutex_unlock(&b->lock);
    ms_batcher_drop(b);
}

int ms_batcher_waiting(struct ms_batcher *b) {
    if (!b) return 0;
    pthread_mutex_lock(&b->lock);
    const int n = b->n_waiting;
    pthread_mutex_unlock(&b->lock);
    return n;
}

void ms_batcher_deliver(struct ms_batcher *b, struct ms_query *q) {
    atomic_fetch_add(&b->holders, 1); /* whoever is told may close the query */
    pthread_mutex_lock(&b->lock);
    q->queued.has_ended = true;
    while (!b->delivers && b->order_first && b->order_first->queued.has_ended) {
        struct ms_query *first = b->order_first;
        b->order_first = first->queued.next;
        b->delivers = true; /* one after the other, by one thread */
        pthread_mutex_unlock(&b->lock);
        first->done(first->user);
        pthread_mutex_lock(&b->lock);
        b->delivers = false;
    }
    pthread_mutex_unlock(&b->lock);
    ms_batcher_drop(b);
}

/* --- deadlines and delays --- */
static struct ms_query *expired(struct ms_batcher *b, int64_t at) {
    for (struct ms_query *q = b->first; q; q = q->queued.behind)
        if (q->expires_ns <= at) return q;
    return ms_run_expired(b, at);
}

static void find_next(struct ms_batcher *b) {
    b->wake_ns = ms_run_expires(b);
    for (const struct ms_query *q = b->first; q; q = q->queued.behind)
        if (q->expires_ns < b->wake_ns) b->wake_ns = q->expires_ns;
}

static void look_around(struct ms_batcher *b) {
    struct ms_query *q;
    while ((q = expired(b, now(b))))
        end_early(b, q, MOIRE_EEXPIRED, moire_code_text(MOIRE_EEXPIRED));
    find_next(b);
    ms_batcher_go(b);
}

static void *keep_time(void *user) {
    struct ms_batcher *b = user;
    pthread_mutex_lock(&b->lock);
    while (!b->ends) {
        if (b->wake_ns != MS_NEVER && b->wake_ns <= now(b)) look_around(b);
        if (!b->ends)
            ms_cond_wait(&b->wake, &b->lock, b->wake_ns == MS_NEVER ? MS_NEVER : b->wake_ns - now(b));
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* --- the whole --- */
bool ms_batcher_can(const struct ms_model *m, const char **why) {
    *why = m->settings.max_batch < 2 ? "max_batch_size is less than 2" : NULL;
    for (int i = 0; i < m->n_inputs + m->n_outputs && !*why; i++) {
        const bool is_input = i < m->n_inputs;
        const moire_port *p = is_input ? &m->input[i] : &m->output[i - m->n_inputs];
        if ((is_input || p->rank >= 0) && (p->rank < 1 || p->shape[0] >= 0))
            *why = "the first dimension of an input or output is not open";
    }
    return !*why;
}

int ms_batcher_open(struct ms_model *m, moire_error *err) {
    struct ms_batcher *b = calloc(1, sizeof *b);
    if (!b) return ms_fail(err, MOIRE_ENOMEM, "no memory for the queue of '%.100s'", m->found.name);
    b->model = m;
    b->wake_ns = MS_NEVER;
    atomic_init(&b->holders, 1);
    pthread_mutex_init(&b->lock, NULL);
    ms_cond_init(&b->wake);
    if (ms_thread_start(&b->thread, "moire-batch", keep_time, b)) {
        ms_batcher_drop(b);
        return ms_fail(err, MOIRE_EIO, "no thread for the queue of '%.100s'", m->found.name);
    }
    m->batcher = b;
    return MOIRE_OK;
}

void ms_batcher_close(struct ms_batcher *b) {
    if (!b) return;
    ms_threads_end(&b->thread, 1, &b->lock, &b->wake, &b->ends);
    ms_batcher_drop(b);
}

void ms_batcher_drop(struct ms_batcher *b) {
    if (!b || atomic_fetch_sub(&b->holders, 1) != 1) return;
    for (int i = 0; i < MS_BATCH_CLASSES; i++)
        free(b->cls[i].shape);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->wake);
    free(b);
}
