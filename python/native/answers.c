/* SPDX-License-Identifier: Apache-2.0
 * answers.c - a queue of answers, filled by callbacks in C (answers.h says why). */
#define _GNU_SOURCE
#include "python/native/answers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Of a small query: bytes in, elements of an output, bytes of the widest element. */
enum { MOST_BYTES = 64 << 10, MOST_ELEMENTS = 16 << 10, MOST_WIDTH = 16 };

struct moire_answers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    moire_answered *first, **end; /* the list, and where the next one goes */
    bool closed;
};

/* A query under way.  Its answer is whole when as many calls came as `open` says: the callback's, and that of
 * lent inputs. */
struct pending {
    moire_answered answered; /* first, so that freeing it frees all */
    moire_answers *queue;
    atomic_int open;
};

static void start_queue(moire_answers *q) {
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->more, NULL);
    q->first = NULL;
    q->end = &q->first;
    q->closed = false;
}

static void end_queue(moire_answers *q) {
    pthread_cond_destroy(&q->more);
    pthread_mutex_destroy(&q->lock);
}

moire_answers *moire_answers_create(void) {
    moire_answers *q = malloc(sizeof *q);
    if (q) start_queue(q);
    return q;
}

void moire_answers_destroy(moire_answers *q) {
    if (!q) return;
    moire_answers_close(q);
    for (moire_answered *a = moire_answers_wait(q), *next; a; a = next) {
        next = a->next;
        moire_answered_free(a);
    }
    end_queue(q);
    free(q);
}

void moire_answers_close(moire_answers *q) {
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->more);
    pthread_mutex_unlock(&q->lock);
}

moire_answered *moire_answers_wait(moire_answers *q) {
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->closed)
        pthread_cond_wait(&q->more, &q->lock);
    moire_answered *all = q->first;
    q->first = NULL;
    q->end = &q->first;
    pthread_mutex_unlock(&q->lock);
    return all;
}

/* With the signal inside of the lock, whoever waits may free the queue as soon as it has the answer. */
static void put(moire_answers *q, moire_answered *a) {
    pthread_mutex_lock(&q->lock);
    *q->end = a;
    q->end = &a->next;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
}

static void part_came(struct pending *p) {
    if (atomic_fetch_sub(&p->open, 1) == 1) put(p->queue, &p->answered);
}

static void inputs_returned(void *user) {
    part_came(user);
}

/* Copies of outputs, each in memory of its own, which an array of the host can own. */
static bool copy_outputs(moire_answered *to, const moire_tensor *outputs, int n) {
    to->outputs = calloc(n ? (size_t)n : 1, sizeof *to->outputs);
    if (!to->outputs) return false;
    for (int i = 0; i < n; i++) {
        to->outputs[i] = outputs[i];
        to->outputs[i].data = malloc(outputs[i].bytes ? outputs[i].bytes : 1);
        if (!to->outputs[i].data) return false;
        to->n_outputs = i + 1;
        if (outputs[i].bytes) memcpy(to->outputs[i].data, outputs[i].data, outputs[i].bytes);
    }
    return true;
}

static void answer_came(void *user, const moire_answer *answer) {
    struct pending *p = user;
    moire_answered *a = &p->answered;
    a->code = answer->code;
    a->arrival_ns = answer->arrival_ns;
    a->start_ns = answer->start_ns;
    a->end_ns = answer->end_ns;
    a->deadline_ns = answer->deadline_ns;
    a->compute_ns = answer->compute_ns;
    if (answer->code != MOIRE_OK)
        a->text = answer->message ? strdup(answer->message) : NULL;
    else if (!copy_outputs(a, answer->outputs, answer->n_outputs))
        a->code = MOIRE_ENOMEM;
    part_came(p);
}

int moire_answers_submit(moire_answers *queue, moire_tenant *tenant, const moire_tensor *inputs, int n_inputs,
                         const moire_query_options *options, int lend, uint64_t token, moire_query *handle,
                         moire_error *err) {
    moire_query_options with;
    moire_query_options_init(&with);
    if (options) with = *options;
    if (lend) with.returned = inputs_returned;
    struct pending *p = calloc(1, sizeof *p);
    if (!p) {
        if (err) *err = (moire_error){MOIRE_ENOMEM, "out of memory for a query"};
        return MOIRE_ENOMEM;
    }
    p->answered.token = token;
    p->queue = queue;
    atomic_init(&p->open, lend ? 2 : 1);
    const int rc = moire_submit_with(tenant, inputs, n_inputs, &with, answer_came, p, handle, err);
    if (rc) free(p);
    return rc;
}

/* Of outputs of a known shape; -1: one is not, or they have more than MOST_ELEMENTS. */
static int64_t elements_of(const moire_tenant *tenant, int output) {
    moire_port port;
    int64_t count = 1;
    if (moire_output(tenant, output, &port) || port.rank < 0) return -1;
    for (int d = 0; d < port.rank; d++) {
        if (port.shape[d] < 0 || port.shape[d] > MOST_ELEMENTS) return -1;
        count *= port.shape[d];
        if (count > MOST_ELEMENTS) return -1;
    }
    return count;
}

static bool is_small(const moire_tenant *tenant, const moire_tensor *inputs, int n_inputs) {
    size_t bytes = 0;
    for (int i = 0; i < n_inputs; i++)
        bytes += inputs[i].bytes;
    for (int i = 0; i < moire_n_outputs(tenant); i++)
        if (elements_of(tenant, i) < 0) return false;
    return bytes <= MOST_BYTES;
}

/* By moire_run(), which computes a brief model on this thread. */
static moire_answered *run_small(moire_tenant *tenant, const moire_tensor *inputs, int n_inputs,
                                 moire_error *err) {
    const int n = moire_n_outputs(tenant);
    moire_answered *a = calloc(1, sizeof *a);
    bool room = a && (a->outputs = calloc((size_t)n + 1, sizeof *a->outputs));
    for (int i = 0; room && i < n; i++) {
        a->outputs[i].bytes = (size_t)elements_of(tenant, i) * MOST_WIDTH;
        a->outputs[i].data = malloc(a->outputs[i].bytes + 1);
        room = a->outputs[i].data != NULL;
        a->n_outputs = i + 1;
    }
    if (!room && err) *err = (moire_error){MOIRE_ENOMEM, "out of memory for the outputs of a query"};
    if (room && !moire_run(tenant, inputs, n_inputs, a->outputs, n, err)) return a;
    moire_answered_free(a);
    return NULL;
}

moire_answered *moire_answers_run(moire_tenant *tenant, const moire_tensor *inputs, int n_inputs,
                                  moire_error *err) {
    if (is_small(tenant, inputs, n_inputs)) return run_small(tenant, inputs, n_inputs, err);
    moire_answers one;
    start_queue(&one);
    moire_answered *a = NULL;
    if (!moire_answers_submit(&one, tenant, inputs, n_inputs, NULL, 1, 1, NULL, err))
        a = moire_answers_wait(&one);
    end_queue(&one);
    return a;
}

void moire_answers_release(void *data) {
    free(data);
}

void moire_answered_free(moire_answered *a) {
    if (!a) return;
    for (int i = 0; i < a->n_outputs; i++)
        free(a->outputs[i].data);
    free(a->outputs);
    free(a->text);
    free(a);
}

void moire_answers_log(void *queue, int level, const char *line) {
    moire_answered *a = calloc(1, sizeof *a);
    if (!a) return;
    a->code = level;
    a->text = strdup(line);
    if (a->text)
        put(queue, a);
    else
        free(a);
}
