/* SPDX-License-Identifier: Apache-2.0
 * thread.h - threads of the server, by names that perf, top and gdb show (docs/serving-perf.md lists them),
 * and how they sleep.  A thread that keeps something until it is told to end has a lock, a condition and a
 * flag, which its owner's structure holds. */
#ifndef MS_THREAD_H
#define MS_THREAD_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* As pthread_create(); the name has 15 letters at most.  Returns: 0, or the number of an error. */
int ms_thread_start(pthread_t *out, const char *name, void *(*work)(void *), void *user);
/* A condition whose times are the monotonic clock's, as ms_cond_wait() takes it to be. */
void ms_cond_init(pthread_cond_t *cond);
/* Waits for `ns` at most; 0 and less: not at all, INT64_MAX: until it is woken.  The lock is held. */
void ms_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns);
/* Sets *ends under the lock, wakes all of n threads, and waits for their ends. */
void ms_threads_end(const pthread_t *thread, int n, pthread_mutex_t *lock, pthread_cond_t *cond, bool *ends);
#endif
