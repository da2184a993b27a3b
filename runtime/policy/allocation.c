/* SPDX-License-Identifier: Apache-2.0
 * allocation.c - allocating cores; see allocation.h. */
#include "runtime/policy/allocation.h"

#include <string.h>
#include "runtime/policy/veltair_blocks.h"

static const double INFEASIBLE = 1e18; /* beyond any time of a run */

void mo_allocation_open(struct mo_allocation *h, const struct mo_view *view, struct mo_decisions *out) {
    h->view = view;
    h->out = out;
    h->pool = view->idle;
    h->idle = view->n_idle;
    h->runs = 0;
    h->n_tenants = view->n_tenants < MO_ALLOCATION_TENANTS ? view->n_tenants : MO_ALLOCATION_TENANTS;
    size_t bytes = (size_t)h->n_tenants * sizeof h->paused[0];
    memset(h->paused, 0, bytes);
    memset(h->waiting, 0, bytes);
    memset(h->begun, 0, bytes);
}

static int head_of(const struct mo_allocation *h, int tenant) {
    const struct mo_view_tenant *t = &h->view->tenants[tenant];
    if (h->paused[tenant] < t->n_paused) return t->paused[h->paused[tenant]];
    if (h->waiting[tenant] < t->n_waiting && h->begun[tenant] < t->free_instances)
        return t->waiting[h->waiting[tenant]];
    return -1;
}

int mo_allocation_best(const struct mo_allocation *h, mo_score *score) {
    int best = -1;
    double least = 0;
    for (int i = 0; i < h->n_tenants; i++) {
        int head = head_of(h, i);
        if (head < 0) continue;
        double s = score(h->view, head);
        bool tie = best >= 0 && s == least;
        if (best >= 0 && s > least) continue;
        if (tie && h->view->queries[head].order > h->view->queries[best].order) continue;
        best = head;
        least = s;
    }
    return best;
}

void mo_allocation_skip(struct mo_allocation *h, int query) {
    int tenant = h->view->queries[query].tenant;
    if (h->paused[tenant] < h->view->tenants[tenant].n_paused)
        h->paused[tenant]++;
    else
        h->waiting[tenant]++;
}

void mo_allocation_run(struct mo_allocation *h, int query, int end, int n, int wanted) {
    const struct mo_view_query *q = &h->view->queries[query];
    if (h->paused[q->tenant] >= h->view->tenants[q->tenant].n_paused) h->begun[q->tenant]++;
    mo_allocation_skip(h, query);
    mo_decide_want(h->out, query, end, mo_cores_take(&h->pool, n, q->last_core), wanted);
    h->idle -= n;
    h->runs++;
}

bool mo_allocation_shed(struct mo_allocation *h, int query) {
    if (!h->view->tenants[h->view->queries[query].tenant].shed_late) return false;
    mo_allocation_skip(h, query);
    mo_decide_shed(h->out, query);
    return true;
}

int mo_need(const struct mo_view *view, const struct mo_view_tenant *t, int begin, int end, double budget) {
    return mo_blocks_core(t->profile, -1, mo_view_widest(view, t), begin, end, budget / t->residual);
}

double mo_budget(const struct mo_view *view, int query, int end) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    int layers = t->profile->n_layers;
    double part = (double)mo_profile_time(t->profile, 1, q->next_layer, end);
    double rest = (double)mo_profile_time(t->profile, 1, q->next_layer, layers);
    double whole = (double)mo_profile_time(t->profile, 1, 0, layers);
    double slack = (double)(q->deadline - view->now);
    if (q->deadline == MO_NEVER) return part;
    return slack > 0 ? slack * part / rest : (double)t->qos_ns * part / whole;
}

bool mo_infeasible(const struct mo_view *view, int query) {
    const struct mo_view_query *q = &view->queries[query];
    if (q->deadline == MO_NEVER) return false;
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    int fastest = mo_profile_fastest(t->profile, q->next_layer, mo_view_widest(view, t));
    return mo_view_left(view, query, fastest) > q->deadline - view->now;
}

double mo_by_arrival(const struct mo_view *view, int query) {
    return (double)view->queries[query].order;
}

double mo_by_deadline(const struct mo_view *view, int query) {
    const struct mo_view_query *q = &view->queries[query];
    return (double)q->deadline + (mo_infeasible(view, query) ? INFEASIBLE : 0);
}
