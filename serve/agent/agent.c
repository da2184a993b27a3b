/* SPDX-License-Identifier: Apache-2.0
 * agent.c - answers agent checks; see agent.h. */
#define _GNU_SOURCE
#include "serve/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "serve/agent/room.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- clients -------------------------------------------------------------------------------------------- */
/* The last one takes its place. */
static void drop(struct ms_agent *a, int i) {
    close(a->client[i].fd);
    a->client[i] = a->client[--a->n];
}

static void answer(struct ms_agent *a, int i) {
    char text[MS_ROOM_TEXT];
    struct ms_agent_client *c = &a->client[i];
    c->line[strcspn(c->line, "\r\n")] = '\0';
    ms_room_say(a->repository, c->line, text);
    (void)send(c->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT); /* one that has left needs none */
    drop(a, i);
}

static void receive(struct ms_agent *a, int i) {
    struct ms_agent_client *c = &a->client[i];
    const size_t room = sizeof c->line - 1 - c->n;
    const ssize_t got = recv(c->fd, c->line + c->n, room, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) {
        drop(a, i);
        return;
    }
    c->n += (size_t)got;
    c->line[c->n] = '\0';
    if (c->n + 1 == sizeof c->line && !strpbrk(c->line, "\r\n"))
        drop(a, i); /* no name is so long */
    else if (!got || strpbrk(c->line, "\r\n"))
        answer(a, i);
}

static void let_in(struct ms_agent *a) {
    const int fd = accept4(a->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        a->client[a->n++] = (struct ms_agent_client){.fd = fd, .until_ms = now_ms() + MS_AGENT_WAIT_MS};
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        usleep(10000); /* else the thread would spin until something is free again */
}

/* --- the thread ----------------------------------------------------------------------------------------- */
/* ms until the first client has had its time; -1: there is none. */
static int patience(const struct ms_agent *a) {
    int64_t least = INT64_MAX;
    const int64_t now = now_ms();
    for (int i = 0; i < a->n; i++)
        least = a->client[i].until_ms < least ? a->client[i].until_ms : least;
    return !a->n ? -1 : least > now ? (int)(least - now) : 0;
}

static void *work(void *arg) {
    struct ms_agent *a = arg;
    struct pollfd p[MS_AGENT_CLIENTS + 2];
    for (;;) {
        const int n = a->n;
        p[0] = (struct pollfd){.fd = a->wake[0], .events = POLLIN};
        p[1] = (struct pollfd){.fd = n < MS_AGENT_CLIENTS ? a->socket : -1, .events = POLLIN};
        for (int i = 0; i < n; i++)
            p[i + 2] = (struct pollfd){.fd = a->client[i].fd, .events = POLLIN};
        if (poll(p, (nfds_t)n + 2, patience(a)) < 0 && errno != EINTR) usleep(10000);
        if (p[0].revents) return NULL;
        const int64_t now = now_ms();
        for (int i = n - 1; i >= 0;
             i--) /* from the end: who is dropped changes only what has been looked at */
            if (p[i + 2].revents)
                receive(a, i);
            else if (a->client[i].until_ms <= now)
                answer(a, i);
        if (p[1].revents) let_in(a);
    }
}

int ms_agent_open(struct ms_agent *a, struct ms_repository *repository, int socket, moire_error *err) {
    *a = (struct ms_agent){.repository = repository, .socket = socket};
    const int flags = fcntl(socket, F_GETFL);
    if (flags >= 0 && !fcntl(socket, F_SETFL, flags | O_NONBLOCK) && !pipe2(a->wake, O_CLOEXEC)) {
        a->runs = !ms_thread_start(&a->thread, "moire-agent", work, a);
        if (a->runs) return MOIRE_OK;
        close(a->wake[0]);
        close(a->wake[1]);
    }
    close(socket);
    return ms_fail(err, MOIRE_EIO, "the door for agent checks does not open");
}

void ms_agent_close(struct ms_agent *a) {
    if (!a->runs) return;
    close(a->wake[1]);
    pthread_join(a->thread, NULL);
    while (a->n)
        drop(a, a->n - 1);
    close(a->wake[0]);
    close(a->socket);
    a->runs = false;
}
