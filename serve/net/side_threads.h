/* SPDX-License-Identifier: Apache-2.0
 * side_threads.h - a few threads for work that would hold up a door's one thread: large bodies are read and
 * written as JSON, expanded and compressed there, first come first served. */
#ifndef MS_SIDE_THREADS_H
#define MS_SIDE_THREADS_H
#include <pthread.h>
#include <stdbool.h>
#include "moire.h"

enum { MS_POOL_THREADS = 2 };

/* Part of what it works on, whose it is until run() begins. */
struct ms_task {
    struct ms_task *next;
    void (*run)(void *user);
    void *user;
};

struct ms_pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ms_task *first, *last;
    pthread_t thread[MS_POOL_THREADS];
    int n; /* threads; 0: it was never opened */
    bool ends;
};

int ms_pool_open(struct ms_pool *pool, moire_error *err);
/* From any thread; the pool is open. */
void ms_pool_put(struct ms_pool *pool, struct ms_task *task);
/* Runs what was put, and ends.  Fine if never opened. */
void ms_pool_close(struct ms_pool *pool);
#endif
