/* SPDX-License-Identifier: Apache-2.0
 * http_watch.h - sees that clients leave while their requests are worked on, and cancels the queries.
 *
 * libmicrohttpd does not look at suspended connections.  A thread does, ten times a second while there are
 * any; it sleeps when there have been none for a while. */
#ifndef MS_HTTP_WATCH_H
#define MS_HTTP_WATCH_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "moire.h"

struct ms_query;

/* Part of an exchange: it is watched from the first call below to the second, and so is its query there. */
struct ms_watched {
    struct ms_watched *next, *previous;
    uint64_t serial; /* no other has it, or had it; 0: not watched */
    int fd;
    struct ms_query *query;
};

struct ms_watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct ms_watched *first;
    size_t n;
    uint64_t serial;
    bool runs, sleeps, ends;
};

int ms_watch_open(struct ms_watch *watch, moire_error *err);
void ms_watch_close(struct ms_watch *watch); /* Fine if never opened. */
/* From any thread. */
void ms_watch_add(struct ms_watch *watch, struct ms_watched *w, int fd, struct ms_query *query);
void ms_watch_remove(struct ms_watch *watch, struct ms_watched *w);
#endif
