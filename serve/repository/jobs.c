/* SPDX-License-Identifier: Apache-2.0
 * jobs.c - the threads that load and unload models and prepare shapes, and what waits for them; see
 * repository.h.
 *
 * They never wait for queries: some of these wait for them.  A shape comes to the binder first; what that
 * cannot make at once it hands to the loader.  Loads can wait for everybody; a shape that a query waits for
 * cannot. */
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/query/infer_query.h"
#include "serve/repository/repository_impl.h"

/* From BIND on: of queries. */
enum job_kind { JOB_LOAD, JOB_UNLOAD, JOB_UNLOAD_ALL, JOB_REFRESH, JOB_BIND, JOB_CALL };
struct ms_job {
    struct ms_job *next;
    enum job_kind kind;
    char name[MS_NAME];
    struct ms_query *query;
    void (*call)(void *user);
    ms_job_done done;
    void *user;
};

static void bind(struct ms_job *job) {
    struct ms_query *query = job->query;
    struct ms_binding *binding = NULL;
    query->error = (moire_error){0};
    ms_binding_make(query->model, query->shapes, false, &binding, &query->error);
    ms_query_bound(query, binding);
}

/* Loads that nobody waits for any more are left out; a query's shape is not. */
static void do_job(struct ms_repository *r, struct ms_job *job) {
    moire_error err = {0};
    int rc = MOIRE_OK;
    if (job->kind < JOB_BIND && ms_loader_stops(r)) {
        if (job->done) job->done(job->user, MOIRE_ESHUTDOWN, "the server is shutting down");
        return;
    }
    switch (job->kind) {
    case JOB_LOAD:
        rc = ms_loader_load(r, job->name, 0, &err);
        break;
    case JOB_UNLOAD:
    case JOB_UNLOAD_ALL:
        rc = ms_loader_unload(r, job->name, job->kind == JOB_UNLOAD_ALL, &err);
        break;
    case JOB_REFRESH:
        ms_loader_refresh(r);
        break;
    case JOB_BIND:
        bind(job);
        ms_bindings_trim(r);
        break;
    case JOB_CALL:
        job->call(job->user);
        break;
    }
    if (job->kind < JOB_BIND) {
        ms_ensembles_settle(r);
        pthread_mutex_lock(&r->lock);
        r->busy--; /* before anybody is told, who may ask whether the server is ready */
        pthread_mutex_unlock(&r->lock);
    }
    if (job->done) job->done(job->user, rc, rc ? err.message : "");
}

/* The loader's, which waits: a thread that is in the background stays there, and this one is not to be. */
static void do_load(struct ms_repository *r, struct ms_job *job) {
    pthread_mutex_lock(&r->lock);
    r->handed = job;
    pthread_cond_broadcast(&r->changed);
    while (r->handed)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

void *ms_background(void *user) {
    struct ms_repository *r = user;
    moire_background();
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->handed && !r->loader_ended)
            pthread_cond_wait(&r->changed, &r->lock);
        struct ms_job *job = r->handed;
        if (!job) break;
        pthread_mutex_unlock(&r->lock);
        do_job(r, job);
        pthread_mutex_lock(&r->lock);
        r->handed = NULL;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static bool can_sweep(const struct ms_repository *r) {
    const struct ms_model *m = r->retired;
    while (m && m->users)
        m = m->retired;
    return m != NULL;
}

/* The lock is held. */
static struct ms_job *next_job(struct ms_jobs *jobs) {
    struct ms_job *job = jobs->first;
    if (!job) return NULL;
    jobs->first = job->next;
    if (!jobs->first) jobs->last = NULL;
    return job;
}

/* The lock is held. */
static void put_job(struct ms_repository *r, struct ms_jobs *jobs, struct ms_job *job) {
    job->next = NULL;
    if (jobs->last)
        jobs->last->next = job;
    else
        jobs->first = job;
    jobs->last = job;
    pthread_cond_broadcast(&r->changed);
}

void *ms_loader(void *user) {
    struct ms_repository *r = user;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->loads.first && !(r->ends && r->binder_ended) && !can_sweep(r))
            pthread_cond_wait(&r->changed, &r->lock);
        struct ms_job *job = next_job(&r->loads);
        if (!job && r->ends && r->binder_ended) break; /* every job is done before the end */
        pthread_mutex_unlock(&r->lock);
        const bool loads = job && job->kind < JOB_BIND;
        if (!job)
            ms_repository_sweep(r);
        else if (loads)
            do_load(r, job);
        else
            do_job(r, job);
        free(job);
        pthread_mutex_lock(&r->lock);
    }
    r->loader_ended = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* True: the query has its binding, or its fault.  False: that takes a load. */
static bool bind_at_once(struct ms_query *query) {
    struct ms_binding *binding = NULL;
    const int rc = ms_binding_make(query->model, query->shapes, true, &binding, &query->error);
    if (rc == MOIRE_ESTORE) return false;
    ms_query_bound(query, binding);
    return true;
}

void *ms_binder(void *user) {
    struct ms_repository *r = user;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->binds.first && !r->ends)
            pthread_cond_wait(&r->changed, &r->lock);
        struct ms_job *job = next_job(&r->binds);
        if (!job) break;
        pthread_mutex_unlock(&r->lock);
        const bool done = bind_at_once(job->query);
        if (done) {
            free(job);
            ms_bindings_trim(r);
        }
        pthread_mutex_lock(&r->lock);
        if (!done) put_job(r, &r->loads, job);
    }
    r->binder_ended = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static int add_job(struct ms_repository *r, struct ms_job wanted) {
    struct ms_job *job = malloc(sizeof *job);
    if (!job) return MOIRE_ENOMEM;
    *job = wanted;
    pthread_mutex_lock(&r->lock);
    r->busy += job->kind < JOB_BIND;
    put_job(r, job->kind == JOB_BIND ? &r->binds : &r->loads, job);
    pthread_mutex_unlock(&r->lock);
    return MOIRE_OK;
}

void ms_repository_refresh(struct ms_repository *r) {
    add_job(r, (struct ms_job){.kind = JOB_REFRESH});
}

static int add_named(struct ms_repository *r, enum job_kind kind, const char *name, ms_job_done done,
                     void *user, moire_error *err) {
    struct ms_job job = {.kind = kind, .done = done, .user = user};
    if (!r->options.is_explicit)
        return ms_fail(err, MOIRE_EINVAL,
                       "models are loaded and unloaded by clients with --model-control-mode explicit only");
    if (strlen(name) >= sizeof job.name)
        return ms_fail(err, MOIRE_ESTALE, "there is no model '%.100s...'", name);
    memcpy(job.name, name, strlen(name) + 1);
    return add_job(r, job) ? ms_fail(err, MOIRE_ENOMEM, "no memory for the load") : MOIRE_OK;
}
int ms_repository_load(struct ms_repository *r, const char *name, ms_job_done done, void *user,
                       moire_error *err) {
    return add_named(r, JOB_LOAD, name, done, user, err);
}
int ms_repository_unload(struct ms_repository *r, const char *name, ms_job_done done, void *user,
                         moire_error *err) {
    return add_named(r, JOB_UNLOAD, name, done, user, err);
}
int ms_repository_unload_all(struct ms_repository *r, const char *name, ms_job_done done, void *user,
                             moire_error *err) {
    return add_named(r, JOB_UNLOAD_ALL, name, done, user, err);
}
int ms_repository_bind(struct ms_repository *r, struct ms_query *query) {
    const int rc = add_job(r, (struct ms_job){.kind = JOB_BIND, .query = query});
    return rc ? ms_fail(&query->error, rc, "no memory to prepare a shape") : MOIRE_OK;
}
int ms_repository_call(struct ms_repository *r, void (*call)(void *), void *user) {
    return add_job(r, (struct ms_job){.kind = JOB_CALL, .call = call, .user = user});
}
