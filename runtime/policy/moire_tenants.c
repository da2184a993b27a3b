/* SPDX-License-Identifier: Apache-2.0
 * moire_tenants.c - tenants with a bound on their cores, and tenants whose weights differ.
 *
 * What is set aside has its turn by age while all weights are 1.  Where one is not, what has no target goes
 * by the core time that its tenant has had, divided by the tenant's weight (start-time fair queueing): who
 * had least by its weight comes first.  What has a target keeps its place: there prices see to the weights
 * (moire_prices.c), and both together would count them twice.  A tenant that had nothing to do comes back
 * level with the one that is farthest behind, so that nobody saves up. */
#include <math.h>
#include "runtime/policy/moire_parts.h"

static bool is_busy(const struct mo_view_tenant *t) {
    return t->open && (t->n_waiting || t->n_paused || t->n_running);
}

static void level(struct mo_moire_state *s, const struct mo_view *view) {
    double least = INFINITY;
    for (int i = 0; i < view->n_tenants; i++)
        if (s->account[i].busy && is_busy(&view->tenants[i])) least = fmin(least, s->account[i].had);
    for (int i = 0; i < view->n_tenants; i++) {
        struct mo_moire_account *a = &s->account[i];
        const bool busy = is_busy(&view->tenants[i]);
        if (busy && !a->busy && least < INFINITY) a->had = fmax(a->had, least);
        a->busy = busy;
        a->ahead = 0;
    }
}

void mo_moire_look(struct mo_moire_state *s, const struct mo_view *view) {
    s->weighted = s->bounded = false;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open) continue;
        s->weighted = s->weighted || mo_view_weight(t) != 1;
        s->bounded = s->bounded || t->cores;
        s->account[i].most = t->cores;
        s->account[i].room = t->cores - t->held;
    }
    if (s->weighted) level(s, view);
}

void mo_moire_take_turns(struct mo_moire_state *s) {
    int last = -1; /* place of the one before, among those without a target */
    for (int i = 0; i < s->n_aside; i++) {
        const short at = s->aside[i];
        if (!s->list[at].best_effort) continue;
        s->place_before[i] = (short)last;
        last = i;
        int to = i;
        for (int b = s->place_before[to]; b >= 0 && s->list[s->aside[b]].turn > s->list[at].turn;
             b = s->place_before[to]) {
            s->aside[to] = s->aside[b];
            to = b;
        }
        s->aside[to] = at;
    }
}
