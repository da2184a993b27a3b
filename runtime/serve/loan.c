/* SPDX-License-Identifier: Apache-2.0
 * loan.c - inputs that a query's caller lends (moire_query_options.returned).
 *
 * The worker that begins a query reads them.  A query can be answered before (it expires, is cancelled, shed,
 * unloaded) while a worker is about to begin it: whoever comes first takes the loan out of its first state.
 * Where that is the reader, it gives the inputs back when it has read them; where it is the answer, they are
 * given back unread.  So that happens exactly once. */
#include "runtime/serve/runtime.h"

enum { LENT, READ_NOW, GIVEN_BACK };

static bool change(struct mo_request_head *r, int to) {
    int lent = LENT;
    return atomic_compare_exchange_strong(&r->loan.state, &lent, to);
}

bool mo_loan_read(struct mo_request_head *r) {
    return !r->loan.returned || change(r, READ_NOW);
}

void mo_loan_end(struct mo_request_head *r) {
    if (!r->loan.returned) return;
    atomic_store(&r->loan.state, GIVEN_BACK);
    r->loan.returned(r->caller.user);
}

void mo_loan_forgo(struct mo_request_head *r) {
    if (r->loan.returned && change(r, GIVEN_BACK)) r->loan.returned(r->caller.user);
}
