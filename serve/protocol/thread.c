/* SPDX-License-Identifier: Apache-2.0
 * thread.c - threads with names, and their sleep; see thread.h. */
#define _GNU_SOURCE
#include "serve/protocol/thread.h"

#include <time.h>

static const int64_t SECOND = 1000000000;

int ms_thread_start(pthread_t *out, const char *name, void *(*work)(void *), void *user) {
    pthread_t thread;
    const int rc = pthread_create(&thread, NULL, work, user);
    if (rc) return rc;
    (void)pthread_setname_np(thread, name);
    *out = thread;
    return 0;
}

void ms_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void ms_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns) {
    struct timespec until;
    if (ns <= 0) return;
    if (ns == INT64_MAX) {
        pthread_cond_wait(cond, lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t past = until.tv_nsec + ns % SECOND;
    until.tv_sec += ns / SECOND + past / SECOND;
    until.tv_nsec = past % SECOND;
    pthread_cond_timedwait(cond, lock, &until);
}

void ms_threads_end(const pthread_t *thread, int n, pthread_mutex_t *lock, pthread_cond_t *cond, bool *ends) {
    pthread_mutex_lock(lock);
    *ends = true;
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(lock);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}
