/* SPDX-License-Identifier: Apache-2.0
 * pipeline_gate.c - how many queries of an ensemble are on their way at once, and those whose time is over;
 * see pipeline.h.
 *
 * One thread of the repository sleeps until the next deadline: the runtime knows deadlines of steps only. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "serve/pipeline/pipeline.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"

struct ms_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t keeper;
    moire_runtime *runtime;
    struct ms_pipeline *timed;  /* those that expire, in no order: there are few */
    struct ms_pipeline *doomed; /* those that are to end, each held */
    int64_t wakes_ns;           /* when the keeper looks again */
    bool ends;
};

static int64_t rank(const struct ms_pipeline *p) {
    return p->deadline_ns ? p->deadline_ns : INT64_MAX;
}

/* --- under the lock --- */
static void put_in_line(struct ms_pipeline *p) {
    struct ms_pipeline **at = &p->ensemble->waiting;
    while (*at && rank(*at) <= rank(p))
        at = &(*at)->next;
    p->next = *at;
    *at = p;
    p->waits = true;
}

static void take_from_line(struct ms_pipeline *p) {
    struct ms_pipeline **at = &p->ensemble->waiting;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    p->waits = false;
}

static void forget_time(struct ms_gate *g, const struct ms_pipeline *p) {
    struct ms_pipeline **at = &g->timed;
    while (*at && *at != p)
        at = &(*at)->timed;
    if (*at) *at = p->timed;
}

static void doom(struct ms_gate *g, struct ms_pipeline *p, int code) {
    forget_time(g, p);
    if (p->doomed) return;
    if (p->waits)
        take_from_line(p); /* who waits is active */
    else if (!ms_pipeline_hold(p))
        return;
    p->doomed = true;
    p->doom_code = code;
    p->next = g->doomed;
    g->doomed = p;
    pthread_cond_signal(&g->changed);
}

/* --- the keeper --- */
/* Ends what is over.  Returns: when the next one is; INT64_MAX: never. */
static int64_t look(struct ms_gate *g) {
    int64_t next = INT64_MAX;
    const int64_t now = moire_now(g->runtime);
    for (struct ms_pipeline *p = g->timed, *after; p; p = after) {
        after = p->timed;
        if (p->deadline_ns <= now)
            doom(g, p, MOIRE_EEXPIRED);
        else if (p->deadline_ns < next)
            next = p->deadline_ns;
    }
    return next;
}

static void end(struct ms_pipeline *p) {
    ms_pipeline_fail(p, p->doom_code,
                     p->doom_code == MOIRE_EEXPIRED ? "the deadline of the ensemble has passed"
                                                    : "cancelled by the client");
    ms_pipeline_advance(p);
}

static void *keep(void *user) {
    struct ms_gate *g = user;
    pthread_mutex_lock(&g->lock);
    while (!g->ends) {
        const int64_t next = g->wakes_ns = look(g);
        struct ms_pipeline *p = g->doomed;
        if (p) {
            g->doomed = p->next;
            pthread_mutex_unlock(&g->lock);
            end(p);
            pthread_mutex_lock(&g->lock);
        } else {
            ms_cond_wait(&g->changed, &g->lock, next < INT64_MAX ? next - moire_now(g->runtime) : next);
        }
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

int ms_gate_open(struct ms_repository *r, moire_error *err) {
    if (r->gate) return MOIRE_OK;
    struct ms_gate *g = calloc(1, sizeof *g);
    if (!g) return ms_fail(err, MOIRE_ENOMEM, "no memory for ensembles");
    g->runtime = r->options.runtime;
    pthread_mutex_init(&g->lock, NULL);
    ms_cond_init(&g->changed);
    const int rc = ms_thread_start(&g->keeper, "moire-pipeline", keep, g);
    if (!rc) {
        r->gate = g;
        return MOIRE_OK;
    }
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
    return ms_fail(err, MOIRE_EIO, "no thread for the deadlines of ensembles: %s", strerror(rc));
}

void ms_gate_close(struct ms_gate *g) {
    if (!g) return;
    ms_threads_end(&g->keeper, 1, &g->lock, &g->changed, &g->ends);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* --- queries --- */
bool ms_gate_enter(struct ms_pipeline *p) {
    struct ms_gate *g = p->gate;
    struct ms_ensemble *e = p->ensemble;
    pthread_mutex_lock(&g->lock);
    const bool over = p->doomed || ms_pipeline_has_failed(p);
    p->entered = !over && e->in_flight < e->most;
    const bool enters = over || p->entered;
    if (p->entered)
        e->in_flight++;
    else if (!over)
        put_in_line(p);
    if (!over && p->expires) {
        p->timed = g->timed;
        g->timed = p;
        if (p->deadline_ns < g->wakes_ns) pthread_cond_signal(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
    return enters;
}

struct ms_pipeline *ms_gate_leave(struct ms_pipeline *p) {
    struct ms_gate *g = p->gate;
    struct ms_ensemble *e = p->ensemble;
    struct ms_pipeline *next = NULL;
    pthread_mutex_lock(&g->lock);
    forget_time(g, p);
    if (p->entered) {
        next = e->waiting;
        if (next) {
            take_from_line(next);
            next->entered = true;
        } else {
            e->in_flight--;
        }
    }
    pthread_mutex_unlock(&g->lock);
    return next;
}

void ms_gate_doom(struct ms_pipeline *p, int code) {
    struct ms_gate *g = p->gate;
    pthread_mutex_lock(&g->lock);
    doom(g, p, code);
    pthread_mutex_unlock(&g->lock);
}
