/* SPDX-License-Identifier: Apache-2.0
 * late_blocks.c - blocks of which a core stands still: queries that are hopeless for it, cores that wait. */
#include "runtime/policy/allocation.h"

void mo_shed_from_late(const struct mo_view *view, struct mo_decisions *out) {
    for (int i = 0; view->n_late && i < view->n_running; i++) {
        const struct mo_view_run *run = &view->runs[view->running[i]];
        const struct mo_view_query *q = &view->queries[run->query];
        const struct mo_view_tenant *t = &view->tenants[q->tenant];
        if (!run->late_since || q->decided || !t->shed_late || q->deadline == MO_NEVER) continue;
        int layers = t->profile->n_layers;
        int wide = run->end < layers ? mo_profile_fastest(t->profile, run->end, mo_view_widest(view, t)) : 1;
        /* the stall may end this moment: predicted_end is a guess, and guesses would cost answers in time */
        if (view->now + mo_view_time(t, wide, run->end, layers) > q->deadline)
            mo_decide_shed(out, run->query);
    }
}

static bool anyone_waits(const struct mo_view *view) {
    for (int i = 0; i < view->n_tenants; i++)
        if (view->tenants[i].n_waiting || view->tenants[i].n_paused) return true;
    return false;
}

void mo_let_go_late(const struct mo_view *view, struct mo_decisions *out) {
    if (!view->n_late || !view->resizes || !anyone_waits(view)) return;
    for (int i = 0; i < view->n_running; i++) {
        const struct mo_view_run *run = &view->runs[view->running[i]];
        if (!run->late_since || run->n_cores - run->n_leaving < 2) continue;
        struct mo_cores lead = {0};
        mo_cores_add(&lead, view->running[i]);
        mo_decide_resize(out, run->query, lead, run->wanted);
    }
}
