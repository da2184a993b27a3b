/* SPDX-License-Identifier: Apache-2.0
 * http_heads.h - bounds the time in which a client has to send the head of a request.
 *
 * libmicrohttpd closes a connection on which nothing moves.  One whose client sends a byte of its headers now
 * and then moves for ever, and keeps one of the few connections that there are.  Here each connection has
 * MS_HEAD_SECONDS from its beginning, and from the end of each answer, until the whole head of a request has
 * come; a thread that sleeps while there is no connection closes the others. */
#ifndef MS_HTTP_HEADS_H
#define MS_HTTP_HEADS_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "moire.h"

enum { MS_HEAD_SECONDS = 60 };

/* A connection, in the memory of its owner. */
struct ms_head {
    struct ms_head *next, *previous;
    int fd;
    _Atomic int64_t since_ns; /* the head is awaited; 0: a request is being received, worked on or answered */
};

struct ms_heads {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ms_head *first;
    pthread_t thread;
    int64_t most_ns, look_ns; /* that a head may take; between two looks */
    bool runs, ends;
    _Atomic int64_t closed; /* connections */
};

/* seconds: that a head may take.  MOIRE_EIO: no thread. */
int ms_heads_open(struct ms_heads *heads, double seconds, moire_error *err);
/* Every connection is removed.  Fine if never opened. */
void ms_heads_close(struct ms_heads *heads);
/* A connection comes; it is to be removed before its socket is closed. */
void ms_heads_add(struct ms_heads *heads, struct ms_head *head, int fd);
void ms_heads_remove(struct ms_heads *heads, struct ms_head *head);
/* The head has come; the request is over, and another may come. */
void ms_heads_came(struct ms_head *head);
void ms_heads_await(struct ms_head *head);
#endif
