/* SPDX-License-Identifier: Apache-2.0
 * late_blocks.c - queries that a stalled core has made hopeless. */
#include "runtime/policy/allocation.h"

void mo_shed_from_late(const struct mo_view *view, struct mo_decisions *out) {
    for (int i = 0; view->n_late && i < view->n_running; i++) {
        const struct mo_view_run *run = &view->runs[view->running[i]];
        const struct mo_view_query *q = &view->queries[run->query];
        const struct mo_view_tenant *t = &view->tenants[q->tenant];
        if (!run->late_since || q->decided || !t->shed_late || q->deadline == MO_NEVER) continue;
        int layers = t->profile->n_layers;
        int wide = run->end < layers ? mo_profile_fastest(t->profile, run->end, view->n_cores) : 1;
        /* the stall may end this moment: predicted_end is a guess, and guesses would cost answers in time */
        if (view->now + mo_view_time(t, wide, run->end, layers) > q->deadline)
            mo_decide_shed(out, run->query);
    }
}
