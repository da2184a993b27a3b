/* SPDX-License-Identifier: Apache-2.0
 * function_threads.c - runs queries of functions; see functions.h.
 *
 * The lock is taken with no other, and held for moves in the line only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/pipeline/functions.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"
#include "serve/query/infer_query.h"
#include "serve/repository/repository_impl.h"

enum { CORES_A_THREAD = 4, THREADS = 16 };
struct ms_function_threads {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[THREADS];
    int n;
    struct ms_query *first; /* by target */
    bool ends;
};

const struct ms_function *ms_function_find(const struct ms_functions *o, const char *name) {
    for (int i = 0; o && i < o->n; i++)
        if (!strcmp(o->at[i].name, name)) return &o->at[i];
    return NULL;
}

void ms_function_names(const struct ms_functions *o, char *text, size_t room) {
    size_t n = (size_t)snprintf(text, room, "%s", o && o->n ? "" : "none");
    for (int i = 0; o && i < o->n && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%s", i ? ", " : "", o->at[i].name);
}

/* --- the line; under the lock --- */
static void put_in_line(struct ms_function_threads *t, struct ms_query *q, int64_t rank) {
    struct ms_query **at = &t->first;
    q->fn_rank = rank;
    while (*at && (*at)->fn_rank <= rank)
        at = &(*at)->fn_next;
    q->fn_next = *at;
    *at = q;
}

void ms_function_threads_put(struct ms_function_threads *t, struct ms_query *q) {
    pthread_mutex_lock(&t->lock);
    put_in_line(t, q, atomic_load(&q->cancelled) ? INT64_MIN : q->target_ns);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void ms_function_threads_cancel(struct ms_function_threads *t, const struct ms_query *wanted) {
    pthread_mutex_lock(&t->lock);
    struct ms_query **at = &t->first;
    while (*at && *at != wanted)
        at = &(*at)->fn_next;
    struct ms_query *q = *at;
    if (q) {
        *at = q->fn_next;
        put_in_line(t, q, INT64_MIN);
    }
    pthread_mutex_unlock(&t->lock);
}

/* --- running --- */
static int64_t now(const struct ms_query *q) {
    return moire_now(q->runtime);
}

static int check_time(struct ms_query *q, int64_t at) {
    if (atomic_load(&q->cancelled)) return ms_fail(&q->error, MOIRE_ECANCELLED, "cancelled by the client");
    if (q->expires_ns != MS_NEVER && at > q->expires_ns)
        return ms_fail(&q->error, MOIRE_EEXPIRED, "model '%.100s': its time was over before it began",
                       q->model->found.name);
    return MOIRE_OK;
}

/* A query that is settled may be gone. */
static void run(struct ms_query *q) {
    const struct ms_model *m = q->model;
    const struct ms_function *fn = m->fn;
    moire_tensor out[MS_PORTS];
    moire_error why = {0};
    void *memory = NULL;
    const int64_t began = now(q);
    int rc = check_time(q, began);
    q->queue_ns = began - q->begun_ns;
    if (!rc) {
        memset(out, 0, sizeof out);
        rc = fn->run(fn, m->fn_state, q->ordered, out, &memory, &why);
        if (rc) ms_fail(&q->error, rc, "model '%.100s': %.300s", m->found.name, why.message);
    }
    const int64_t ended = now(q);
    q->compute_ns = ended - began;
    q->in_time = q->target_ns == MS_NEVER || ended <= q->target_ns;
    ms_query_settle(q, rc ? NULL : out);
    if (memory) fn->release(memory);
}

static void *work(void *user) {
    struct ms_function_threads *t = user;
    pthread_mutex_lock(&t->lock);
    while (t->first || !t->ends) {
        struct ms_query *q = t->first;
        if (q) {
            t->first = q->fn_next;
            pthread_mutex_unlock(&t->lock);
            run(q);
            pthread_mutex_lock(&t->lock);
        } else {
            pthread_cond_wait(&t->changed, &t->lock);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int ms_function_threads_open(struct ms_repository *r, moire_error *err) {
    if (r->function_threads) return MOIRE_OK;
    struct ms_function_threads *t = calloc(1, sizeof *t);
    if (!t) return ms_fail(err, MOIRE_ENOMEM, "no memory for functions");
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    int rc = 0, wanted = (r->cores + CORES_A_THREAD - 1) / CORES_A_THREAD;
    if (wanted > THREADS) wanted = THREADS;
    while (t->n < wanted && !(rc = ms_thread_start(&t->thread[t->n], "moire-function", work, t)))
        t->n++;
    if (t->n) { /* fewer are enough */
        r->function_threads = t;
        return MOIRE_OK;
    }
    ms_function_threads_close(t);
    return ms_fail(err, MOIRE_EIO, "no thread for functions: %s", strerror(rc));
}

void ms_function_threads_close(struct ms_function_threads *t) {
    if (!t) return;
    ms_threads_end(t->thread, t->n, &t->lock, &t->changed, &t->ends);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
