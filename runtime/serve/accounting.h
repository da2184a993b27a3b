/* SPDX-License-Identifier: Apache-2.0
 * accounting.h - what became of a tenant's queries, counted where they enter and leave the public calls: so
 * one that a GPU failed and cores took over counts once, whichever engine answers it.
 *
 * One lock a tenant, held for some additions or one copy.  A query counts as open before an engine has it and
 * until its answer is about to be delivered; so every snapshot adds up (moire_counts), and whoever was called
 * back finds his query counted. */
#ifndef MO_SERVE_ACCOUNTING_H
#define MO_SERVE_ACCOUNTING_H
#include "moire.h"
#include "runtime/base/lock.h"

/* Who is to be told of a query. */
struct mo_caller {
    moire_callback callback; /* NULL = nobody */
    void *user;
    uint64_t tag;
};

/* What was counted. */
struct mo_account {
    moire_counts counts;
    moire_times times;
};

struct mo_accounting {
    struct mo_lock lock;
    bool draining;         /* takes no more queries */
    _Atomic uint32_t idle; /* grows when the last open query ends while it drains */
    struct mo_account account;
};

/* A valid query comes; false: the tenant drains, and it counts as rejected. */
bool mo_account_begin(const struct mo_sys *sys, struct mo_accounting *accounting);
/* It was not accepted after all. */
void mo_account_reject(const struct mo_sys *sys, struct mo_accounting *accounting);
/* It has its outcome: counts it, then tells its caller. */
void mo_account_answer(const struct mo_sys *sys, struct mo_accounting *accounting,
                       const struct mo_caller *caller, moire_answer *answer);
/* No query begins from now on. */
void mo_account_close(const struct mo_sys *sys, struct mo_accounting *accounting);
/* Returns when none is open; closed before. */
void mo_account_wait(const struct mo_sys *sys, struct mo_accounting *accounting);
bool mo_account_is_closed(const struct mo_sys *sys, struct mo_accounting *accounting);
/* Adds what it has counted so far to *sum. */
void mo_account_add(const struct mo_sys *sys, struct mo_accounting *accounting, struct mo_account *sum);
#endif
