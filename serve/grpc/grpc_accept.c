/* SPDX-License-Identifier: Apache-2.0
 * grpc_accept.c - how clients come to the gRPC door: at once, or by the thread of handshakes; see grpc.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "serve/grpc/grpc.h"

/* --- listeners --- */
/* No descriptor is left: clients wait, and the sweep looks again, rather than this loop at once. */
static void pause_listeners(struct ms_grpc *door) {
    for (int i = 0; i < door->n_listeners; i++)
        epoll_ctl(door->epoll, EPOLL_CTL_DEL, door->listener[i].fd, NULL);
}

void ms_grpc_accept(struct ms_grpc *door, const struct ms_grpc_listener *l) {
    for (;;) {
        const int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) pause_listeners(door);
            return;
        }
        if (l->by_tls)
            ms_handshakes_add(door->handshakes, fd);
        else
            ms_connection_new(door, fd, NULL);
    }
}

int ms_grpc_watch(struct ms_grpc *door) {
    for (int i = 0; i < door->n_listeners; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &door->listener[i]};
        if (epoll_ctl(door->epoll, EPOLL_CTL_ADD, door->listener[i].fd, &e) && errno != EEXIST) return -1;
    }
    return 0;
}

void ms_grpc_unlisten(struct ms_grpc *door) {
    for (int i = 0; i < door->n_listeners; i++)
        close(door->listener[i].fd);
    door->n_listeners = 0;
}

/* --- who comes by TLS --- */
void ms_grpc_arrived(void *user, int socket, struct ms_channel *channel) {
    struct ms_grpc *door = user;
    struct ms_arrival *a = malloc(sizeof *a);
    if (!a) {
        ms_channel_free(channel);
        close(socket);
        return;
    }
    pthread_mutex_lock(&door->lock);
    *a = (struct ms_arrival){.fd = socket, .channel = channel, .next = door->arrived};
    door->arrived = a;
    pthread_mutex_unlock(&door->lock);
    ms_grpc_wake(door);
}

void ms_grpc_take_arrived(struct ms_grpc *door) {
    pthread_mutex_lock(&door->lock);
    struct ms_arrival *a = door->arrived;
    door->arrived = NULL;
    pthread_mutex_unlock(&door->lock);
    while (a) {
        struct ms_arrival *next = a->next;
        ms_connection_new(door, a->fd, a->channel);
        free(a);
        a = next;
    }
}
