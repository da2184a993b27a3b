/* SPDX-License-Identifier: Apache-2.0
 * thread.h - threads of the server, by names that perf, top and gdb show; docs/serving-perf.md lists them. */
#ifndef MS_THREAD_H
#define MS_THREAD_H
#include <pthread.h>

/* As pthread_create(); the name has 15 letters at most.  Returns: 0, or the number of an error. */
int ms_thread_start(pthread_t *out, const char *name, void *(*work)(void *), void *user);
#endif
