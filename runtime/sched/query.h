/* SPDX-License-Identifier: Apache-2.0
 * query.h - the life of a query: slots, handles with generations, and the one place where outcomes race.
 *
 *   free -> live (accepted) -> resolved(outcome) -> free
 *
 * A handle is (generation << 32 | slot + 1); a slot's generation changes whenever it is accepted anew, so an
 * old handle never names a new query.  One compare-and-swap on the state word (mo_query_resolve) decides the
 * outcome: completion, cancel, shedding, unload and shutdown meet there and nowhere else.
 * A slot is released when its query is resolved, its callback has returned and no block of it runs. */
#ifndef MO_QUERY_H
#define MO_QUERY_H
#include <stdatomic.h>
#include "runtime/sched/policy.h"

struct mo_query {
    _Atomic uint64_t state; /* generation << 8 | 0 free, 1 live, 2 - code: resolved with code */
    void *user;             /* the engine's */
    uint64_t known;         /* the engine's: what its owner calls it instead of by its handle; 0 = does not */
    int instance;           /* index into the tenant's pool, -1 = none yet */
    int next;               /* link of the free list or of the resolved list */
    int next_in_batch;      /* next query of the batch it runs in, -1 = last */
    bool answered;          /* callback has returned */
    bool expires;           /* it is in mo_sched.expiring */
    int64_t end;            /* when it was resolved */
    int64_t ran;            /* ns that its blocks took so far */
};

/* The answer of a query, copied out of the core: what an engine delivers. */
struct mo_answer {
    uint64_t query, known; /* known: as in struct mo_query */
    void *user;            /* given at submit */
    int code, instance;    /* instance -1: never started */
    int64_t arrival, start, end, deadline, ran;
};

struct mo_queries {
    const struct mo_env *env;
    int cap, n_live, free_head;
    struct mo_view_query *view; /* what policies see */
    struct mo_query *record;
};

int mo_queries_init(struct mo_queries *table, const struct mo_env *env, int cap); /* 0 or MOIRE_ENOMEM */
void mo_queries_free(struct mo_queries *table);
/* A live slot, or -1 when all are taken. */
int mo_query_open(struct mo_queries *table);
void mo_query_release(struct mo_queries *table, int slot);
uint64_t mo_query_handle(const struct mo_queries *table, int slot);
/* Slot of a handle whose query has not been released, -1 otherwise. */
int mo_query_slot(const struct mo_queries *table, uint64_t handle);
/* True when this call decided the outcome (a moire_code <= 0). */
bool mo_query_resolve(struct mo_queries *table, int slot, int code);
bool mo_query_is_live(const struct mo_queries *table, int slot);
/* Outcome of a resolved query. */
int mo_query_outcome(const struct mo_queries *table, int slot);

/* Resolved queries whose answers an engine has yet to deliver, oldest first; linked through the slots. */
struct mo_query_list {
    int first, last;
};
#define MO_QUERY_LIST_EMPTY ((struct mo_query_list){-1, -1})
void mo_query_list_put(struct mo_queries *table, struct mo_query_list *list, int slot);
/* Takes the oldest out and describes it; its slot, -1 when there is none. */
int mo_query_list_take(struct mo_queries *table, struct mo_query_list *list, struct mo_answer *out);
#endif
