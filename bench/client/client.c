/* SPDX-License-Identifier: Apache-2.0
 * client.c - the thread that owns a client's connections, and the queue to it; see client.h.
 *
 * Sockets are edge-triggered: each event is served until the kernel has no more.  A connection that the
 * server closes while a query that it has seen nothing of is on it (a kept-alive one that was just given up)
 * has that query asked once more on a new one, as every client does. */
#define _GNU_SOURCE
#include "bench/client/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/error.h"

enum { EVENTS = 64, READ_BYTES = 256 << 10, WHY = 400 };

struct mo_client_link {
    struct mo_client *client;
    int fd; /* -1: closed */
    void *wire;
    const char *at; /* not yet sent */
    size_t left;
};

struct mo_client {
    const struct mo_client_protocol *protocol;
    void *shared;
    struct sockaddr_in server;
    int epoll, wake;
    pthread_t thread;
    bool runs;
    atomic_bool ends;
    struct mo_client_link *links[MO_CLIENT_IN_FLIGHT];
    int n_links;
    char *buffer;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t idle;
    struct mo_exchange *first, *last;
    int under_way;
    char why[WHY];
};

const struct mo_client_protocol *mo_client_protocol(const char *name) {
    static const struct mo_client_protocol *const all[] = {&mo_client_http, &mo_client_grpc};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->name, name)) return all[i];
    return NULL;
}

/* --- answers ------------------------------------------------------------------------------------------ */
static void end(struct mo_client *c, struct mo_exchange *x, int code, const char *why) {
    if (code) {
        pthread_mutex_lock(&c->lock);
        if (!*c->why) snprintf(c->why, sizeof c->why, "%s", why);
        pthread_mutex_unlock(&c->lock);
    }
    x->done(x, code);
    pthread_mutex_lock(&c->lock);
    if (!--c->under_way) pthread_cond_broadcast(&c->idle);
    pthread_mutex_unlock(&c->lock);
}

void mo_client_ended(struct mo_client_link *link, struct mo_exchange *x, int code, const char *format, ...) {
    char why[WHY];
    va_list values;
    va_start(values, format);
    vsnprintf(why, sizeof why, format, values);
    va_end(values);
    end(link->client, x, code, why);
}

void mo_client_judge(struct mo_client_link *link, struct mo_exchange *x, size_t n) {
    size_t want = 0;
    if (!n) {
        mo_client_ended(link, x, MOIRE_EFORMAT, "%s: an answer without the tensors that were asked for",
                        x->model->name);
    } else if (atomic_compare_exchange_strong(&x->model->answer_bytes, &want, n) || want == n) {
        mo_client_ended(link, x, MOIRE_OK, "%s", "");
    } else {
        mo_client_ended(link, x, MOIRE_EFORMAT, "%s: %zu bytes of tensors, where an answer has %zu",
                        x->model->name, n, want);
    }
}

/* --- connections -------------------------------------------------------------------------------------- */
static void start_exchange(struct mo_client *c, struct mo_exchange *x);

/* Its place may be taken again before this returns. */
static void close_link(struct mo_client_link *link, const char *why) {
    struct mo_client *c = link->client;
    struct mo_exchange *x;
    void *wire = link->wire;
    bool untouched;
    if (link->fd < 0) return;
    close(link->fd);
    link->fd = -1;
    while ((x = c->protocol->orphan(wire, &untouched))) {
        if (untouched && !x->again && !atomic_load(&c->ends)) {
            x->again = true;
            start_exchange(c, x);
        } else {
            end(c, x, atomic_load(&c->ends) ? MOIRE_ECANCELLED : MOIRE_EIO, why);
        }
    }
    c->protocol->close(wire);
}

/* Sends until the kernel takes no more. */
static void flush(struct mo_client_link *link) {
    const struct mo_client_protocol *protocol = link->client->protocol;
    while (link->fd >= 0) {
        if (!link->left && !(link->left = protocol->next(link->wire, &link->at))) return;
        const ssize_t n = send(link->fd, link->at, link->left, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) return;
        if (n < 0) {
            /* an answer may have come before the server closed: reading finds the end */
            shutdown(link->fd, SHUT_WR);
            link->left = 0;
            return;
        }
        link->at += n;
        link->left -= (size_t)n;
    }
}

static void receive(struct mo_client_link *link) {
    struct mo_client *c = link->client;
    while (link->fd >= 0) {
        const ssize_t n = recv(link->fd, c->buffer, READ_BYTES, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0)
            close_link(link, "the server closed the connection before it had answered");
        else if (c->protocol->take(link->wire, c->buffer, (size_t)n))
            close_link(link, "the server does not keep to the protocol");
    }
}

static struct mo_client_link *free_place(struct mo_client *c) {
    for (int i = 0; i < c->n_links; i++)
        if (c->links[i]->fd < 0) return c->links[i];
    if (c->n_links == MO_CLIENT_IN_FLIGHT) return NULL;
    struct mo_client_link *link = calloc(1, sizeof *link);
    if (!link) return NULL;
    link->client = c;
    link->fd = -1;
    return c->links[c->n_links++] = link;
}

/* NULL: errno. */
static struct mo_client_link *open_link(struct mo_client *c) {
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct mo_client_link *link = fd < 0 ? NULL : free_place(c);
    struct epoll_event want = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = link};
    if (link && !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) &&
        (!connect(fd, (struct sockaddr *)&c->server, sizeof c->server) || errno == EINPROGRESS) &&
        !epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &want) && (link->wire = c->protocol->open(link, c->shared))) {
        link->fd = fd;
        link->left = 0;
        return link;
    }
    const int why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return NULL;
}

/* The first with room, so that the warmest is used. */
static struct mo_client_link *choose_link(struct mo_client *c, bool fresh) {
    for (int i = 0; !fresh && i < c->n_links; i++)
        if (c->links[i]->fd >= 0 && c->protocol->has_room(c->links[i]->wire)) return c->links[i];
    return open_link(c);
}

static void start_exchange(struct mo_client *c, struct mo_exchange *x) {
    struct mo_client_link *link = choose_link(c, x->again);
    char why[WHY];
    if (!link) {
        snprintf(why, sizeof why, "no connection to the server: %s", strerror(errno));
        end(c, x, MOIRE_EIO, why);
    } else if (c->protocol->begin(link->wire, x)) {
        end(c, x, MOIRE_EIO, "the server takes nothing more on this connection");
        close_link(link, "the server takes nothing more on this connection");
    } else {
        flush(link);
    }
}

/* --- the thread --------------------------------------------------------------------------------------- */
static void start_asked(struct mo_client *c) {
    uint64_t ignored;
    (void)!read(c->wake, &ignored, sizeof ignored);
    pthread_mutex_lock(&c->lock);
    struct mo_exchange *x = c->first;
    c->first = c->last = NULL;
    pthread_mutex_unlock(&c->lock);
    for (struct mo_exchange *next; x; x = next) {
        next = x->next;
        if (atomic_load(&c->ends))
            end(c, x, MOIRE_ECANCELLED, "the client ends");
        else
            start_exchange(c, x);
    }
}

/* Runs ahead of the system under test where the machine allows, as the generator does (drive.c): a client on
 * another machine would not queue for the server's cores. */
static void *run(void *opaque) {
    struct mo_client *c = opaque;
    struct epoll_event event[EVENTS];
    const struct sched_param param = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    while (!atomic_load(&c->ends)) {
        const int n = epoll_wait(c->epoll, event, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            struct mo_client_link *link = event[i].data.ptr;
            if (!link) {
                start_asked(c);
                continue;
            }
            if (event[i].events & EPOLLOUT) flush(link);
            if (event[i].events & ~(uint32_t)EPOLLOUT) receive(link);
            flush(link); /* what reading made: windows, acknowledgements */
        }
    }
    start_asked(c);
    for (int i = 0; i < c->n_links; i++)
        close_link(c->links[i], "the client ends");
    return NULL;
}

static void wake(const struct mo_client *c) {
    const uint64_t one = 1;
    (void)!write(c->wake, &one, sizeof one);
}

int mo_client_create(const struct mo_client_protocol *protocol, int port, struct mo_client **out,
                     moire_error *err) {
    struct mo_client *c = *out = calloc(1, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "no memory for a client");
    c->protocol = protocol;
    c->server = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->idle, &clock);
    pthread_condattr_destroy(&clock);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->buffer = malloc(READ_BYTES);
    struct epoll_event want = {.events = EPOLLIN, .data.ptr = NULL};
    int code = protocol->start ? protocol->start(&c->shared, err) : MOIRE_OK;
    if (!code &&
        (!c->buffer || c->epoll < 0 || c->wake < 0 || epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->wake, &want) ||
         pthread_create(&c->thread, NULL, run, c)))
        code = mo_fail(err, MOIRE_EIO, "no client: %s", strerror(errno));
    c->runs = !code;
    if (!code) return MOIRE_OK;
    mo_client_destroy(c);
    *out = NULL;
    return code;
}

void mo_client_destroy(struct mo_client *c) {
    if (!c) return;
    atomic_store(&c->ends, true);
    if (c->runs) {
        wake(c);
        pthread_join(c->thread, NULL);
    }
    for (int i = 0; i < c->n_links; i++)
        free(c->links[i]);
    if (c->protocol->end && c->shared) c->protocol->end(c->shared);
    if (c->epoll >= 0) close(c->epoll);
    if (c->wake >= 0) close(c->wake);
    pthread_cond_destroy(&c->idle);
    pthread_mutex_destroy(&c->lock);
    free(c->buffer);
    free(c);
}

/* --- asking ------------------------------------------------------------------------------------------- */
int mo_client_ask(struct mo_client *c, struct mo_exchange *x) {
    x->next = NULL;
    x->again = false;
    pthread_mutex_lock(&c->lock);
    const bool full = c->under_way >= MO_CLIENT_IN_FLIGHT, was_empty = !c->first;
    if (!full) {
        c->under_way++;
        if (c->last)
            c->last->next = x;
        else
            c->first = x;
        c->last = x;
    }
    pthread_mutex_unlock(&c->lock);
    if (full) return MOIRE_EBUSY;
    if (was_empty) wake(c);
    return MOIRE_OK;
}

int mo_client_wait(struct mo_client *c, int ms) {
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms % 1000 * 1000000L;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&c->lock);
    while (c->under_way && !rc)
        rc = pthread_cond_timedwait(&c->idle, &c->lock, &until);
    const bool idle = !c->under_way;
    pthread_mutex_unlock(&c->lock);
    return idle ? MOIRE_OK : MOIRE_EEXPIRED;
}

void mo_client_why(struct mo_client *c, char *out, size_t n) {
    pthread_mutex_lock(&c->lock);
    snprintf(out, n, "%s", c->why);
    *c->why = 0;
    pthread_mutex_unlock(&c->lock);
}
