/* SPDX-License-Identifier: Apache-2.0
 * expiry.c - timers: the policy's own, and queries that end at their deadline.
 *
 * A tenant's target is a wish: a late query still runs, unless its tenant sheds.  A deadline that a query
 * brings with it is the time after which nobody waits for the answer: the core answers it MOIRE_EEXPIRED
 * then, be it waiting, paused or running, as if its user had cancelled it.  Such queries stand in one list by
 * deadline.  The engine keeps one timer, for the earliest of that list's first deadline, the time the policy
 * asked for, and the next look at the blocks that run (late.c). */
#include <string.h>
#include "runtime/sched/core_impl.h"

void mo_sched_set_alarm(struct mo_sched *s) {
    int64_t when = s->timer_at < s->watch_at ? s->timer_at : s->watch_at;
    if (s->expiring.n && s->queries.view[s->expiring.slot[0]].deadline < when)
        when = s->queries.view[s->expiring.slot[0]].deadline;
    s->ops->set_timer(s->engine, when);
}

/* Where a slot stands among those that expire, or would.  Turns change (mo_slot_take_turn()), so they are no
 * key. */
static int place_of(const struct mo_sched *s, int slot) {
    const struct mo_view_query *view = s->queries.view;
    int lo = 0, hi = s->expiring.n;
    while (lo < hi) {
        int mid = (lo + hi) / 2, at = s->expiring.slot[mid];
        bool before =
            view[at].deadline != view[slot].deadline ? view[at].deadline < view[slot].deadline : at < slot;
        if (before)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool mo_sched_expire_at(struct mo_sched *s, int slot, int64_t now) {
    if (s->queries.view[slot].deadline <= now) {
        mo_sched_resolve(s, slot, MOIRE_EEXPIRED, now);
        return false;
    }
    int at = place_of(s, slot);
    int *to = &s->expiring.slot[at];
    memmove(to + 1, to, (size_t)(s->expiring.n++ - at) * sizeof *to);
    *to = slot;
    s->queries.record[slot].expires = true;
    if (at == 0) mo_sched_set_alarm(s);
    return true;
}

void mo_sched_expires_no_more(struct mo_sched *s, int slot) {
    int at = place_of(s, slot);
    mo_slot_cut(&s->expiring, at, 1);
    s->queries.record[slot].expires = false;
    if (at == 0) mo_sched_set_alarm(s);
}

static bool expire(struct mo_sched *s, int64_t now) {
    bool any = false;
    while (s->expiring.n && s->queries.view[s->expiring.slot[0]].deadline <= now) {
        mo_sched_resolve(s, s->expiring.slot[0], MOIRE_EEXPIRED, now); /* takes it out of the list */
        any = true;
    }
    return any;
}

void mo_sched_timer(struct mo_sched *s, int64_t now) {
    bool any = expire(s, now), due = s->timer_at <= now, late = s->watch_at <= now && mo_sched_watch(s, now);
    if (due) s->timer_at = MO_NEVER;
    if (s->expiring.n || any || s->watch_at != MO_NEVER)
        mo_sched_set_alarm(s); /* the engine has forgotten it: its time has come */
    if (due)
        mo_sched_dispatch(s, MO_EVENT_TIMER, -1, -1, now);
    else if (any)
        mo_sched_dispatch(s, MO_EVENT_FREED, -1, -1, now);
    else if (late)
        mo_sched_dispatch(s, MO_EVENT_LATE, -1, -1, now);
}
