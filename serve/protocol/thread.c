/* SPDX-License-Identifier: Apache-2.0
 * thread.c - starting a thread with a name; see thread.h. */
#define _GNU_SOURCE
#include "serve/protocol/thread.h"

int ms_thread_start(pthread_t *out, const char *name, void *(*work)(void *), void *user) {
    pthread_t thread;
    const int rc = pthread_create(&thread, NULL, work, user);
    if (rc) return rc;
    (void)pthread_setname_np(thread, name);
    *out = thread;
    return 0;
}
