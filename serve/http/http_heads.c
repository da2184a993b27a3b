/* SPDX-License-Identifier: Apache-2.0
 * http_heads.c - closes connections whose request does not begin in time; see http_heads.h.
 *
 * A socket is only shut down, under the lock that its owner takes before closing it: so its number is not yet
 * another connection's.  Its owner sees that as its client's leaving. */
#define _GNU_SOURCE
#include "serve/http/http_heads.h"

#include <sys/socket.h>
#include <time.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void ms_heads_came(struct ms_head *head) {
    atomic_store_explicit(&head->since_ns, 0, memory_order_relaxed);
}

void ms_heads_await(struct ms_head *head) {
    atomic_store_explicit(&head->since_ns, now(), memory_order_relaxed);
}

/* The lock is held. */
static void look(struct ms_heads *h) {
    const int64_t oldest = now() - h->most_ns;
    for (struct ms_head *at = h->first; at; at = at->next) {
        const int64_t since = atomic_load_explicit(&at->since_ns, memory_order_relaxed);
        if (!since || since > oldest) continue;
        ms_heads_came(at);               /* once is enough */
        atomic_fetch_add(&h->closed, 1); /* first: who sees it closed sees it counted */
        shutdown(at->fd, SHUT_RDWR);
    }
}

static void *watch(void *arg) {
    struct ms_heads *h = arg;
    pthread_mutex_lock(&h->lock);
    while (!h->ends) {
        ms_cond_wait(&h->changed, &h->lock, h->first ? h->look_ns : INT64_MAX);
        if (!h->ends) look(h);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

int ms_heads_open(struct ms_heads *h, double seconds, moire_error *err) {
    *h = (struct ms_heads){.most_ns = (int64_t)(seconds * 1e9), .look_ns = (int64_t)(seconds * 1e9 / 16)};
    pthread_mutex_init(&h->lock, NULL);
    ms_cond_init(&h->changed);
    h->runs = !ms_thread_start(&h->thread, "moire-heads", watch, h);
    return h->runs ? MOIRE_OK : ms_fail(err, MOIRE_EIO, "no thread to bound the heads of HTTP");
}

void ms_heads_close(struct ms_heads *h) {
    if (!h->runs) return;
    ms_threads_end(&h->thread, 1, &h->lock, &h->changed, &h->ends);
    h->runs = false;
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->changed);
}

void ms_heads_add(struct ms_heads *h, struct ms_head *head, int fd) {
    ms_heads_await(head);
    pthread_mutex_lock(&h->lock);
    head->fd = fd;
    head->previous = NULL;
    head->next = h->first;
    if (h->first)
        h->first->previous = head;
    else
        pthread_cond_signal(&h->changed);
    h->first = head;
    pthread_mutex_unlock(&h->lock);
}

void ms_heads_remove(struct ms_heads *h, struct ms_head *head) {
    pthread_mutex_lock(&h->lock);
    if (head->previous)
        head->previous->next = head->next;
    else
        h->first = head->next;
    if (head->next) head->next->previous = head->previous;
    pthread_mutex_unlock(&h->lock);
}
