/* SPDX-License-Identifier: Apache-2.0
 * side_threads.c - a list of tasks and the threads that take them; see side_threads.h. */
#include "serve/net/side_threads.h"

#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"

static void *work(void *arg) {
    struct ms_pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->first && !p->ends)
            pthread_cond_wait(&p->changed, &p->lock);
        const struct ms_task *task = p->first;
        if (!task) break;
        p->first = task->next;
        if (!p->first) p->last = NULL;
        pthread_mutex_unlock(&p->lock);
        task->run(task->user); /* the task may be gone when this returns */
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int ms_pool_open(struct ms_pool *p, moire_error *err) {
    *p = (struct ms_pool){.n = 0};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    while (p->n < MS_POOL_THREADS && !ms_thread_start(&p->thread[p->n], "moire-side", work, p))
        p->n++;
    return p->n ? MOIRE_OK : ms_fail(err, MOIRE_EIO, "no thread for large requests");
}

void ms_pool_put(struct ms_pool *p, struct ms_task *task) {
    task->next = NULL;
    pthread_mutex_lock(&p->lock);
    if (p->last)
        p->last->next = task;
    else
        p->first = task;
    p->last = task;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

void ms_pool_close(struct ms_pool *p) {
    if (!p->n) return;
    ms_threads_end(p->thread, p->n, &p->lock, &p->changed, &p->ends);
    p->n = 0;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
}
