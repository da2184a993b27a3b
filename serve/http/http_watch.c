/* SPDX-License-Identifier: Apache-2.0
 * http_watch.c - polls a copy of the list, so that nobody waits for the poll; see http_watch.h.
 *
 * When the poll returns an exchange may be over, its memory another's and its socket's number another
 * client's.  So the list is asked again, by serial number, under the lock, which whoever ends an exchange has
 * to take first: what is in it then is still worked on.  The lock is recursive, as cancelling a query may end
 * it on the spot. */
#define _GNU_SOURCE
#include "serve/http/http_watch.h"

#include <poll.h>
#include <stdlib.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"
#include "serve/query/infer_query.h"

enum { LOOK_NS = 100000000, LOOKS_IN_VAIN = 20 };

/* What is polled, and whose it is. */
struct looked {
    struct pollfd *fd;
    uint64_t *serial;
    size_t n, room;
};

/* The lock is held.  Where there is no memory, clients are not watched this time. */
static void copy(const struct ms_watch *w, struct looked *l) {
    l->n = 0;
    if (w->n > l->room) {
        free(l->fd);
        free(l->serial);
        l->fd = calloc(w->n * 2, sizeof *l->fd);
        l->serial = calloc(w->n * 2, sizeof *l->serial);
        l->room = l->fd && l->serial ? w->n * 2 : 0;
    }
    for (const struct ms_watched *at = w->first; at && l->n < l->room; at = at->next, l->n++) {
        l->fd[l->n] = (struct pollfd){.fd = at->fd, .events = POLLRDHUP};
        l->serial[l->n] = at->serial;
    }
}

static void client_left(struct ms_watch *w, uint64_t serial) {
    pthread_mutex_lock(&w->lock);
    struct ms_watched *at = w->first;
    while (at && at->serial != serial)
        at = at->next;
    if (at) ms_query_cancel(at->query);
    pthread_mutex_unlock(&w->lock);
}

static void look(struct ms_watch *w, const struct looked *l) {
    if (!l->n || poll(l->fd, (nfds_t)l->n, 0) <= 0) return;
    for (size_t i = 0; i < l->n; i++)
        if (l->fd[i].revents) client_left(w, l->serial[i]);
}

static void *watch(void *arg) {
    struct ms_watch *w = arg;
    struct looked l = {0};
    int in_vain = 0;
    pthread_mutex_lock(&w->lock);
    while (!w->ends) {
        w->sleeps = !w->n && in_vain >= LOOKS_IN_VAIN;
        ms_cond_wait(&w->changed, &w->lock, w->sleeps ? INT64_MAX : LOOK_NS);
        w->sleeps = false;
        in_vain = w->n ? 0 : in_vain + 1;
        copy(w, &l);
        pthread_mutex_unlock(&w->lock);
        look(w, &l);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    free(l.fd);
    free(l.serial);
    return NULL;
}

int ms_watch_open(struct ms_watch *w, moire_error *err) {
    pthread_mutexattr_t recursive;
    *w = (struct ms_watch){.n = 0};
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&w->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    ms_cond_init(&w->changed);
    w->runs = !ms_thread_start(&w->thread, "moire-watch", watch, w);
    return w->runs ? MOIRE_OK : ms_fail(err, MOIRE_EIO, "no thread to watch clients of HTTP");
}

void ms_watch_close(struct ms_watch *w) {
    if (!w->runs) return;
    ms_threads_end(&w->thread, 1, &w->lock, &w->changed, &w->ends);
    w->runs = false;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
}

void ms_watch_add(struct ms_watch *w, struct ms_watched *at, int fd, struct ms_query *query) {
    pthread_mutex_lock(&w->lock);
    *at = (struct ms_watched){.next = w->first, .serial = ++w->serial, .fd = fd, .query = query};
    if (w->first) w->first->previous = at;
    w->first = at;
    w->n++;
    if (w->sleeps) pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void ms_watch_remove(struct ms_watch *w, struct ms_watched *at) {
    pthread_mutex_lock(&w->lock);
    if (at->serial) {
        if (at->previous)
            at->previous->next = at->next;
        else
            w->first = at->next;
        if (at->next) at->next->previous = at->previous;
        at->serial = 0;
        w->n--;
    }
    pthread_mutex_unlock(&w->lock);
}
