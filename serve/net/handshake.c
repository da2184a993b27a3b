/* SPDX-License-Identifier: Apache-2.0
 * handshake.c - the thread of TLS handshakes; see handshake.h. */
#define _GNU_SOURCE
#include "serve/net/handshake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"

enum { EVENTS = 64, SWEEP_MS = 1000 };

/* A client that has not said who it is.  The list is in the order of arrival. */
struct pending {
    int socket;
    struct ms_channel *channel;
    struct pending *next, *previous;
    bool writes; /* it waits to write */
    time_t end;
};

struct ms_handshakes {
    struct ms_handshake_options options;
    int epoll, wake;
    pthread_t thread;
    atomic_bool ends;
    pthread_mutex_t lock; /* of `came` */
    int came[MS_HANDSHAKES];
    int n_came;
    struct pending *first, *last;
    int n;
};

static time_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec;
}

/* --- the list --- */
static void end(struct pending *p) {
    ms_channel_free(p->channel);
    close(p->socket); /* leaves epoll by itself */
    free(p);
}

static void take_out(struct ms_handshakes *h, struct pending *p) {
    if (p->previous)
        p->previous->next = p->next;
    else
        h->first = p->next;
    if (p->next)
        p->next->previous = p->previous;
    else
        h->last = p->previous;
    h->n--;
}

static void drop(struct ms_handshakes *h, struct pending *p) {
    take_out(h, p);
    end(p);
}

static void drop_oldest(struct ms_handshakes *h) {
    struct pending *p = h->first;
    if (!p) return;
    h->first = p->next;
    if (h->first)
        h->first->previous = NULL;
    else
        h->last = NULL;
    h->n--;
    end(p);
}

static void begin(struct ms_handshakes *h, int socket) {
    struct pending *p = calloc(1, sizeof *p);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
    if (h->n >= MS_HANDSHAKES) drop_oldest(h);
    if (p) p->channel = ms_channel_new(h->options.tls, socket, h->options.protocol);
    if (!p || !p->channel || epoll_ctl(h->epoll, EPOLL_CTL_ADD, socket, &e)) {
        if (p) ms_channel_free(p->channel);
        free(p);
        close(socket);
        return;
    }
    p->socket = socket;
    p->previous = h->last;
    p->end = now() + MS_HANDSHAKE_SECONDS;
    if (h->last)
        h->last->next = p;
    else
        h->first = p;
    h->last = p;
    h->n++;
}

static void step(struct ms_handshakes *h, struct pending *p) {
    const enum ms_handshake state = ms_channel_handshake(p->channel);
    if (state == MS_HANDSHAKE_FAILED) {
        drop(h, p);
    } else if (state == MS_HANDSHAKE_DONE) {
        epoll_ctl(h->epoll, EPOLL_CTL_DEL, p->socket, NULL);
        take_out(h, p);
        h->options.done(h->options.user, p->socket, p->channel);
        free(p);
    } else if ((state == MS_HANDSHAKE_WRITES) != p->writes) {
        p->writes = !p->writes;
        struct epoll_event e = {.events = p->writes ? EPOLLOUT : EPOLLIN, .data.ptr = p};
        epoll_ctl(h->epoll, EPOLL_CTL_MOD, p->socket, &e);
    }
}

/* --- the thread --- */
static void take_came(struct ms_handshakes *h) {
    int socket[MS_HANDSHAKES];
    uint64_t count;
    if (read(h->wake, &count, sizeof count) < 0) return;
    pthread_mutex_lock(&h->lock);
    const int n = h->n_came;
    for (int i = 0; i < n; i++)
        socket[i] = h->came[i];
    h->n_came = 0;
    pthread_mutex_unlock(&h->lock);
    for (int i = 0; i < n; i++)
        begin(h, socket[i]);
}

static void *loop(void *user) {
    struct ms_handshakes *h = user;
    struct epoll_event events[EVENTS];
    while (!atomic_load(&h->ends)) {
        const int n = epoll_wait(h->epoll, events, EVENTS, SWEEP_MS);
        bool any_came = false;
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                step(h, events[i].data.ptr);
            else
                any_came = true;
        if (any_came) take_came(h); /* last: it may drop whom an event was for */
        const time_t t = now();
        while (h->first && h->first->end < t)
            drop_oldest(h);
    }
    return NULL;
}

void ms_handshakes_add(struct ms_handshakes *h, int socket) {
    const uint64_t one = 1;
    pthread_mutex_lock(&h->lock);
    const bool room = h->n_came < MS_HANDSHAKES;
    if (room) h->came[h->n_came++] = socket;
    pthread_mutex_unlock(&h->lock);
    if (!room || write(h->wake, &one, sizeof one) < 0) {
        if (!room) close(socket);
    }
}

/* --- start and stop --- */
int ms_handshakes_start(const struct ms_handshake_options *options, struct ms_handshakes **out,
                        moire_error *err) {
    struct ms_handshakes *h = *out = calloc(1, sizeof *h);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    if (!h) return ms_fail(err, MOIRE_ENOMEM, "no memory for TLS");
    h->options = *options;
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&h->lock, NULL);
    if (h->epoll >= 0 && h->wake >= 0 && !epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->wake, &e) &&
        !ms_thread_start(&h->thread, "moire-tls", loop, h))
        return MOIRE_OK;
    *out = NULL;
    if (h->epoll >= 0) close(h->epoll);
    if (h->wake >= 0) close(h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
    return ms_fail(err, MOIRE_EIO, "the thread of TLS handshakes does not start");
}

void ms_handshakes_stop(struct ms_handshakes *h) {
    const uint64_t one = 1;
    if (!h) return;
    atomic_store(&h->ends, true);
    if (write(h->wake, &one, sizeof one) < 0) atomic_store(&h->ends, true); /* it is awake already */
    pthread_join(h->thread, NULL);
    for (struct pending *p = h->first, *next; p; p = next) {
        next = p->next;
        end(p);
    }
    for (int i = 0; i < h->n_came; i++)
        close(h->came[i]);
    close(h->epoll);
    close(h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
