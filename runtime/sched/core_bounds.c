/* SPDX-License-Identifier: Apache-2.0
 * core_bounds.c - tenants that hold no more than so many cores at once, whatever the policy asks for.
 *
 * Held are the cores inside a tenant's blocks, with those that were asked to leave.  A tenant that holds all
 * that it may is hidden from the policy: it has no free instance and nothing paused, so its cores go to
 * others.  What a policy asks beyond a bound is cut down to it, and since the policy took the rest for given
 * away, it is asked again while cores are idle.  Each time a further tenant is hidden, so this ends.
 *
 * Policies know the bounds (mo_view_widest()) and plan with them; what is here holds also for one that does
 * not.  On GPUs there are none: a plan of lets says there who has how much. */
#include "runtime/sched/core_impl.h"

static int held(const struct mo_sched *s, int tenant) {
    int n = 0;
    for (int i = 0; i < s->view.n_running; i++) {
        const struct mo_view_run *r = &s->runs[s->running[i]];
        if (s->queries.view[r->query].tenant == tenant) n += r->n_cores;
    }
    return n;
}

void mo_sched_hide_full(struct mo_sched *s) {
    for (int i = 0; s->bounded && i < s->view.n_tenants; i++) {
        struct mo_view_tenant *t = &s->tenant_views[i];
        if (!t->cores) continue;
        t->held = held(s, i);
        if (t->held >= t->cores) t->free_instances = t->n_paused = 0;
    }
}

void mo_sched_show_full(struct mo_sched *s) {
    for (int i = 0; s->bounded && i < s->view.n_tenants; i++)
        if (s->tenant_views[i].cores) mo_sched_mirror(s, i);
}

/* A block begins on `left` cores at most, and is no longer than the bound on blocks where that cut it. */
static bool trim_run(struct mo_sched *s, struct mo_decision *d, int left) {
    const struct mo_view_query *q = &s->queries.view[d->query];
    struct mo_cores all = d->cores;
    if (mo_cores_count(&all) <= left) return true;
    s->trimmed = true;
    if (left < 1) return false;
    d->cores = mo_cores_take(&all, left, q->last_core);
    d->wanted = left;
    const int end = mo_view_block(&s->view, d->query, left);
    if (d->cut == MO_CUT_BOUND && end < d->end) d->end = end;
    return true;
}

/* Of the cores that would join a running block, the first `left`. */
static void trim_resize(struct mo_sched *s, struct mo_decision *d, int left) {
    struct mo_cores join = d->cores;
    mo_cores_subtract(&join, &s->runs[s->queries.view[d->query].run].cores);
    if (mo_cores_count(&join) <= left) return;
    mo_cores_subtract(&d->cores, &join);
    d->wanted = 0;
    if (left < 1) return;
    s->trimmed = true;
    const struct mo_cores some = mo_cores_take(&join, left, -1);
    mo_cores_join(&d->cores, &some);
}

bool mo_sched_trim(struct mo_sched *s, struct mo_decision *d) {
    if (!s->bounded || (d->kind != MO_RUN && d->kind != MO_RESIZE)) return true;
    if (d->query < 0 || d->query >= s->queries.cap || !mo_query_is_live(&s->queries, d->query)) return true;
    const int tenant = s->queries.view[d->query].tenant, most = s->tenant_views[tenant].cores;
    if (!most) return true;
    const int left = most - held(s, tenant);
    if (d->kind == MO_RUN) return trim_run(s, d, left);
    if (s->queries.view[d->query].run >= 0) trim_resize(s, d, left);
    return true;
}
