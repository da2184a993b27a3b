/* SPDX-License-Identifier: Apache-2.0
 * accounting.c - counts and times of a tenant's queries; see accounting.h. */
#include "runtime/serve/accounting.h"

#include "runtime/sched/stats.h"

bool mo_account_begin(const struct mo_sys *sys, struct mo_accounting *a) {
    mo_lock_take(sys, &a->lock);
    bool takes = !a->draining;
    a->account.counts.submitted++;
    ++*(takes ? &a->account.counts.open : &a->account.counts.rejected);
    mo_lock_drop(sys, &a->lock);
    return takes;
}

/* The lock is held, and is let go. */
static void leave(const struct mo_sys *sys, struct mo_accounting *a) {
    bool last = --a->account.counts.open == 0 && a->draining;
    if (last) atomic_fetch_add(&a->idle, 1);
    mo_lock_drop(sys, &a->lock);
    if (last) sys->futex_wake(sys->self, &a->idle, INT32_MAX);
}

void mo_account_reject(const struct mo_sys *sys, struct mo_accounting *a) {
    mo_lock_take(sys, &a->lock);
    a->account.counts.rejected++;
    leave(sys, a);
}

static int64_t *counter(moire_counts *c, int code) {
    switch (code) {
    case MOIRE_OK:
        return &c->ok;
    case MOIRE_EEXPIRED:
        return &c->expired;
    case MOIRE_ESHED:
        return &c->shed;
    case MOIRE_ECANCELLED:
        return &c->cancelled;
    case MOIRE_EUNLOADED:
        return &c->unloaded;
    case MOIRE_ESHUTDOWN:
        return &c->shutdown;
    default:
        return &c->failed;
    }
}

void mo_account_answer(const struct mo_sys *sys, struct mo_accounting *a, const struct mo_caller *caller,
                       moire_answer *answer) {
    const struct mo_caller to = *caller;
    answer->tag = to.tag;
    mo_lock_take(sys, &a->lock);
    ++*counter(&a->account.counts, answer->code);
    if (answer->code == MOIRE_OK) {
        a->account.counts.in_time += !answer->deadline_ns || answer->end_ns <= answer->deadline_ns;
        mo_histogram_add(&a->account.times.queue, answer->start_ns - answer->arrival_ns);
        mo_histogram_add(&a->account.times.compute, answer->compute_ns);
        mo_histogram_add(&a->account.times.total, answer->end_ns - answer->arrival_ns);
    }
    leave(sys, a);
    if (to.callback) to.callback(to.user, answer);
}

void mo_account_close(const struct mo_sys *sys, struct mo_accounting *a) {
    mo_lock_take(sys, &a->lock);
    a->draining = true;
    mo_lock_drop(sys, &a->lock);
}

bool mo_account_is_closed(const struct mo_sys *sys, struct mo_accounting *a) {
    mo_lock_take(sys, &a->lock);
    bool is = a->draining;
    mo_lock_drop(sys, &a->lock);
    return is;
}

void mo_account_wait(const struct mo_sys *sys, struct mo_accounting *a) {
    for (;;) {
        uint32_t seen = atomic_load(&a->idle);
        mo_lock_take(sys, &a->lock);
        bool none = a->account.counts.open == 0;
        mo_lock_drop(sys, &a->lock);
        if (none) return;
        sys->futex_wait(sys->self, &a->idle, seen, 0);
    }
}

void mo_account_add(const struct mo_sys *sys, struct mo_accounting *a, struct mo_account *sum) {
    mo_lock_take(sys, &a->lock);
    const moire_counts *c = &a->account.counts;
    moire_counts *to = &sum->counts;
    to->submitted += c->submitted;
    to->rejected += c->rejected;
    to->open += c->open;
    to->ok += c->ok;
    to->in_time += c->in_time;
    to->expired += c->expired;
    to->shed += c->shed;
    to->cancelled += c->cancelled;
    to->failed += c->failed;
    to->unloaded += c->unloaded;
    to->shutdown += c->shutdown;
    mo_histogram_merge(&sum->times.queue, &a->account.times.queue);
    mo_histogram_merge(&sum->times.compute, &a->account.times.compute);
    mo_histogram_merge(&sum->times.total, &a->account.times.total);
    mo_lock_drop(sys, &a->lock);
}
