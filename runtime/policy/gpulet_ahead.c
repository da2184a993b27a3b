/* SPDX-License-Identifier: Apache-2.0
 * gpulet_ahead.c - a batch that is queued behind the one that a let runs, so that what the host takes between
 * two of them passes while the GPU computes.
 *
 * It is decided so long before the other should end as the machine says (mo_gpus.ahead_ns), and as if the let
 * were idle then.  What is queued stays, so none is where a decision at the end of the block could be better
 * by more than the host's time: where a tenant of higher priority shares the let, where batches are cut or
 * one that is cut would go on, where batches wait for their last moment or for a neighbour's, and when
 * another plan is on its way. */
#include "runtime/policy/gpulet_serve.h"

static bool wants(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    for (int e = 0; e < let->n_entries; e++) {
        int tenant = let->entries[e].tenant;
        if (tenant < v->view->n_tenants && v->taken[tenant] < v->view->tenants[tenant].n_waiting) return true;
    }
    return false;
}

static bool of_one_priority(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    int first = v->view->tenants[let->entries[0].tenant].priority;
    for (int e = 1; e < let->n_entries; e++)
        if (v->view->tenants[let->entries[e].tenant].priority != first) return false;
    return true;
}

/* The block that exactly this let runs, if it ends its batch and nothing is queued behind it. */
static const struct mo_view_run *last_block(const struct mo_view *view, const struct mo_planned_let *let) {
    const int lead = view->gpus->first[let->gpu] + let->first;
    const struct mo_view_run *run = &view->runs[lead];
    if (run->query < 0 || run->n_cores != let->units || view->behind[lead].query >= 0) return NULL;
    const struct mo_view_tenant *t = &view->tenants[view->queries[run->query].tenant];
    return run->end == t->profile->n_layers ? run : NULL;
}

void mo_gpulet_look_ahead(struct mo_gpulet_serve *v, const struct mo_planned_let *let, int64_t ns) {
    const int64_t ahead = v->view->gpus->ahead_ns, when = v->view->now + ns - ahead;
    if (!ahead || !wants(v, let)) return;
    if (when < v->timer) v->timer = when > v->view->now ? when : v->view->now + 1;
}

bool mo_gpulet_ahead(struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    const struct mo_view *view = v->view;
    const int64_t ahead = view->gpus->ahead_ns;
    if (!ahead || v->changing || v->options->deferred || v->options->careful) return false;
    const struct mo_view_run *run = last_block(view, let);
    if (!run || view->gpu_down[let->gpu] || !wants(v, let) || !of_one_priority(v, let)) return false;
    if (mo_gpulet_paused(v, let) >= 0) return false;
    if (run->predicted_end - ahead > view->now) {
        if (run->predicted_end - ahead < v->timer) v->timer = run->predicted_end - ahead;
        return false;
    }
    v->at = run->predicted_end > view->now ? run->predicted_end : view->now;
    return true;
}
