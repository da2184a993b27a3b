/* SPDX-License-Identifier: Apache-2.0
 * batcher.h - the queue of a model with dynamic_batching: queries wait here while the cores are busy, and are
 * joined to runs of several rows where that pays.
 *
 * While no size pays, or none is prepared, everything goes on at once, as without a batcher.  Sizes are
 * powers of two and the preferred ones, prepared one after the other by the loader once queries have met busy
 * cores, each only if the one before has saved time; the model must be shown to keep rows apart for that
 * size.
 *
 * Invariants.  A query is in one place: it waits, runs alone, or is a member of a run; who takes it out of
 * there, under the lock, ends it, once, without the lock.  A member that is cancelled or whose time is over
 * leaves its run, which goes on for the others.  Locks are taken in the order batcher, repository.
 *
 * Threads: any.  One of its own looks after deadlines and delays. */
#ifndef MS_BATCHER_H
#define MS_BATCHER_H
#include <stdatomic.h>
#include "serve/batch/batch_choose.h"
#include "serve/repository/repository.h"

struct ms_query;
struct ms_run;

enum ms_stand { MS_NOWHERE, MS_WAITS, MS_ALONE, MS_JOINED };
/* A query's place in the batcher. */
struct ms_queued {
    enum ms_stand stand;
    struct ms_query *before, *behind; /* that waits */
    struct ms_run *run;
    struct ms_batch_class *cls;
    struct ms_query *next; /* answered after it, where order is kept */
    bool has_ended;
};

/* Queries that may be joined: of the same shapes, but for the rows. */
struct ms_batch_class {
    moire_shape *shape; /* of the inputs, first dimensions 0; NULL: unused */
    int waiting;
    uint64_t used;
    struct ms_size alone; /* a query by itself; 0 rows: not known */
    struct ms_size size[MS_BATCH_SIZES];
    bool ready[MS_BATCH_SIZES];
    int n, next;  /* sizes there may be; the next one to prepare */
    int misses;   /* of those prepared, that did not save time */
    bool is_made; /* one of them is being prepared */
    bool pays;    /* at the last look */
    int64_t looked_ns;
};
enum { MS_BATCH_CLASSES = 8 };

struct ms_batcher {
    struct ms_model *model; /* while there are queries */
    atomic_int holders;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool ends;
    struct ms_query *first, *last; /* that wait: by level, then target, then arrival */
    int n_waiting, under_way;
    uint64_t starts;
    bool goes, comes_again; /* a thread starts what waits; it is to look once more */
    int64_t wake_ns;        /* of the thread */
    struct ms_run *runs;    /* of several queries */
    struct ms_batch_class cls[MS_BATCH_CLASSES];
    uint64_t uses;
    struct ms_query *order_first, *order_last;
    bool delivers;
};

/* Whether the model's ports have a batch: a note says why there is none. */
bool ms_batcher_can(const struct ms_model *model, const char **why);
/* Returns: MOIRE_OK; MOIRE_ENOMEM; MOIRE_EIO: no thread. */
int ms_batcher_open(struct ms_model *model, moire_error *err);
/* Ends its thread.  No query waits or runs any more. */
void ms_batcher_close(struct ms_batcher *batcher);
void ms_batcher_drop(struct ms_batcher *batcher); /* a query's hold; NULL is fine */

/* Takes a query over that was checked and admitted. */
void ms_batcher_put(struct ms_batcher *batcher, struct ms_query *query);
/* A query that ran alone has ended. */
void ms_batcher_left(struct ms_batcher *batcher, struct ms_query *query);
/* Calls `done` of the query, and of those behind it that waited for it. */
void ms_batcher_deliver(struct ms_batcher *batcher, struct ms_query *query);
/* Queries that wait in it; NULL: 0. */
int ms_batcher_waiting(struct ms_batcher *batcher);
void ms_batcher_cancel(struct ms_batcher *batcher, struct ms_query *query);

/* --- its parts */
/* batcher.c: starts what there is to start; under the lock, which it lets go meanwhile. */
void ms_batcher_go(struct ms_batcher *batcher);
/* Under the lock: its thread looks around by then. */
void ms_batcher_wake(struct ms_batcher *batcher, int64_t when);
/* batch_run.c.  A run of queries that are nowhere, in `size` rows by `binding`, which is used for it; without
 * the lock. */
void ms_run_start(struct ms_batcher *batcher, struct ms_binding *binding, int64_t size,
                  struct ms_query *const *member, int n);
/* Under the lock: the query leaves its run.  Not 0: nobody wants that any more; to be cancelled without the
 * lock. */
moire_query ms_run_leave(struct ms_query *query);
/* The earliest time at which a member's is over; MS_NEVER. */
int64_t ms_run_expires(const struct ms_batcher *batcher);
/* A member whose time is over; NULL: none. */
struct ms_query *ms_run_expired(struct ms_batcher *batcher, int64_t now_ns);
/* batch_sizes.c, under the lock.  NULL: the query cannot be joined. */
struct ms_batch_class *ms_batch_class_of(struct ms_batcher *batcher, const struct ms_query *query);
/* Predictions are of late, and of the first query's rows. */
void ms_batch_look(struct ms_batcher *batcher, struct ms_batch_class *cls, const struct ms_query *first);
/* Has the next size prepared, if there is one that is worth it. */
void ms_batch_grow(struct ms_batcher *batcher, struct ms_batch_class *cls);
/* The tenant of that many rows, used once more; NULL: there is none, or it had to make room. */
struct ms_binding *ms_batch_binding(struct ms_batcher *batcher, const struct ms_batch_class *cls,
                                    int64_t rows);
/* What a query of these shapes is predicted to take; 0: not known.  Any thread, without a lock. */
void ms_batch_predict(struct ms_model *model, const moire_shape *shapes, int64_t *one_ns, int64_t *least_ns);
#endif
