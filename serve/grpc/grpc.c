/* SPDX-License-Identifier: Apache-2.0
 * grpc.c - the gRPC door's thread; see grpc.h. */
#define _GNU_SOURCE
#include "serve/grpc/grpc.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"

enum { EVENTS = 64, SWEEP_MS = 1000, DRAIN_MS = 5 };

int64_t ms_grpc_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void ms_grpc_wake(const struct ms_grpc *door) {
    const uint64_t one = 1;
    if (write(door->wake, &one, sizeof one) < 0) return; /* it is awake already */
}

/* --- items that others have ended --- */
void ms_item_ended(void *ended) {
    struct ms_item *item = ended;
    struct ms_grpc *door = item->call->connection->door;
    atomic_fetch_add(&door->leaving, 1);
    struct ms_item *behind = atomic_load(&door->ended);
    do
        item->next_ended = behind;
    while (!atomic_compare_exchange_weak(&door->ended, &behind, item));
    if (!behind)
        ms_grpc_wake(door); /* the item may be gone by now; the door is not closed before `leaving` is 0 */
    atomic_fetch_sub(&door->leaving, 1);
}

/* In the order in which they ended. */
static void take_ended(struct ms_grpc *door) {
    struct ms_item *item = NULL;
    for (struct ms_item *last = atomic_exchange(&door->ended, NULL), *before; last; last = before) {
        before = last->next_ended;
        last->next_ended = item;
        item = last;
    }
    while (item) {
        struct ms_item *next = item->next_ended;
        ms_call_item_ended(item);
        item = next;
    }
}

/* --- the loop --- */
static void sweep(struct ms_grpc *door) {
    const int64_t now = ms_grpc_now();
    if (now - door->swept_ns < (int64_t)SWEEP_MS * 1000000) return;
    door->swept_ns = now;
    ms_grpc_watch(door);
    for (struct ms_connection *c = door->first, *next; c; c = next) {
        next = c->next;
        ms_connection_sweep(c, now);
    }
}

static void start_draining(struct ms_grpc *door) {
    ms_grpc_unlisten(door);
    for (struct ms_connection *c = door->first, *next; c; c = next) {
        next = c->next;
        ms_connection_say_goodbye(c);
    }
}

static void handle(struct ms_grpc *door, const struct epoll_event *e) {
    uint64_t count;
    const void *what = e->data.ptr;
    if (!what) {
        if (read(door->wake, &count, sizeof count) < 0) return;
    } else if (what == &door->listener[0] || what == &door->listener[1]) {
        if (door->n_listeners) ms_grpc_accept(door, what);
    } else {
        struct ms_connection *c = e->data.ptr;
        if (e->events & EPOLLOUT)
            ms_connection_write(c);
        else
            ms_connection_read(c);
    }
}

/* Until nothing is left of what came before draining; nothing waits for clients once `ends` is set. */
static bool is_over(struct ms_grpc *door) {
    if (atomic_load(&door->ends))
        for (struct ms_connection *c = door->first, *next; c; c = next) {
            next = c->next;
            ms_connection_close(c);
            ms_connection_release(c);
        }
    return atomic_load(&door->draining) && !door->n_listeners && !door->first;
}

void ms_grpc_round(struct ms_grpc *door, int ms) {
    struct epoll_event events[EVENTS];
    const int n = epoll_wait(door->epoll, events, EVENTS, ms);
    for (int i = 0; i < n; i++)
        handle(door, &events[i]);
    take_ended(door);
    ms_grpc_take_arrived(door);
    sweep(door);
}

static void *loop(void *user) {
    struct ms_grpc *door = user;
    moire_foreground();
    while (!is_over(door)) {
        const bool draining = atomic_load(&door->draining);
        if (draining && door->n_listeners) start_draining(door);
        ms_grpc_round(door, draining ? DRAIN_MS : SWEEP_MS);
    }
    return NULL;
}

/* --- open and close --- */
int ms_grpc_open(struct ms_grpc *door, moire_error *err) {
    const int rc = ms_h2_open(&door->h2, err);
    door->epoll = door->wake = -1;
    if (rc) return rc;
    ms_zlib_open(&door->zlib, NULL);
    pthread_mutex_init(&door->lock, NULL);
    door->callbacks = ms_connection_callbacks(&door->h2);
    if (!door->callbacks || door->h2.option_new(&door->option))
        return ms_fail(err, MOIRE_ENOMEM, "no memory for the gRPC server");
    door->h2.option_set_no_auto_window_update(door->option, 1);
    return MOIRE_OK;
}

int ms_grpc_listen(struct ms_grpc *door, int socket, bool by_tls, moire_error *err) {
    const int flags = fcntl(socket, F_GETFL);
    if (flags < 0 || fcntl(socket, F_SETFL, flags | O_NONBLOCK))
        return ms_fail(err, MOIRE_EIO, "the gRPC server does not start: %s", strerror(errno));
    door->listener[door->n_listeners++] = (struct ms_grpc_listener){.fd = socket, .by_tls = by_tls};
    return MOIRE_OK;
}

int ms_grpc_prepare(struct ms_grpc *door, moire_error *err) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    door->epoll = epoll_create1(EPOLL_CLOEXEC);
    door->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (door->epoll < 0 || door->wake < 0 || epoll_ctl(door->epoll, EPOLL_CTL_ADD, door->wake, &e) ||
        ms_grpc_watch(door))
        return ms_fail(err, MOIRE_EIO, "the gRPC server does not start: %s", strerror(errno));
    return MOIRE_OK;
}

int ms_grpc_start(struct ms_grpc *door, moire_error *err) {
    const struct ms_handshake_options h = {
        .tls = door->tls, .protocol = "h2", .done = ms_grpc_arrived, .user = door};
    int rc = ms_grpc_prepare(door, err);
    if (!rc && door->tls) rc = ms_handshakes_start(&h, &door->handshakes, err);
    if (rc) return rc;
    rc = ms_thread_start(&door->thread, "moire-grpc", loop, door);
    if (rc) return ms_fail(err, MOIRE_EIO, "the gRPC server does not start: %s", strerror(rc));
    door->runs = true;
    return MOIRE_OK;
}

void ms_grpc_quiesce(struct ms_grpc *door) {
    atomic_store(&door->draining, true);
    if (door->runs) ms_grpc_wake(door);
}

void ms_grpc_close(struct ms_grpc *door, int seconds) {
    if (!door->h2.library) return;
    if (door->runs) {
        struct timespec end;
        ms_grpc_quiesce(door);
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += seconds;
        if (pthread_timedjoin_np(door->thread, NULL, &end)) {
            atomic_store(&door->ends, true);
            ms_grpc_wake(door);
            pthread_join(door->thread, NULL);
        }
    }
    while (atomic_load(&door->leaving))
        sched_yield();
    ms_handshakes_stop(door->handshakes);
    ms_grpc_take_arrived(door); /* closes them */
    ms_grpc_unlisten(door);
    if (door->epoll >= 0) close(door->epoll);
    if (door->wake >= 0) close(door->wake);
    pthread_mutex_destroy(&door->lock);
    if (door->option) door->h2.option_del(door->option);
    if (door->callbacks) door->h2.session_callbacks_del(door->callbacks);
    ms_zlib_close(&door->zlib);
    ms_h2_close(&door->h2);
    *door = (struct ms_grpc){.epoll = -1};
}
