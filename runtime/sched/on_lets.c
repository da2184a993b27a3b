/* SPDX-License-Identifier: Apache-2.0
 * on_lets.c - units that a plan cuts into lets: GPUs.  A block takes exactly one let in force that may run
 * its tenant (lets.c).  A batch that is cut into blocks stays together and on its GPU, one a tenant, because
 * what it has computed so far lies there. */
#include "runtime/sched/core_impl.h"

static int create(struct mo_sched *s, const struct mo_gpus *gpus) {
    if (mo_sched_lets_create(s, gpus)) return MOIRE_ENOMEM;
    s->view.gpus = gpus;
    s->view.behind = s->behind;
    s->view.gpu_down = s->lets->down;
    s->view.gpu_lost = s->lets->lost;
    s->view.scratch = s->lets->scratch;
    s->view.scratch_bytes = s->lets->scratch_bytes;
    return MOIRE_OK;
}

static int64_t solo(const struct mo_sched *s, int tenant, int lead, int n, int begin, int end, int batch) {
    return mo_view_let_time(&s->view, tenant, lead, n, begin, end, batch);
}

/* What a batch has computed so far lies on its GPU, so it goes on there, whole, on any let; and
 * none is cut on a GPU that is about to have no let. */
static bool may_run(const struct mo_sched *s, const struct mo_decision *d) {
    const struct mo_view_query *q = &s->queries.view[d->query];
    const struct mo_view_tenant *tenant_view = &s->tenant_views[q->tenant];
    int lead = mo_cores_next(&d->cores, -1), gpu = lead >= 0 ? s->lets->gpus->gpu_of[lead] : -1;
    if (s->queries.record[d->query].instance >= 0)
        return gpu == tenant_view->paused_gpu && mo_sched_batch_of(d) == tenant_view->n_paused &&
               mo_sched_is_let(s, &d->cores);
    if (!mo_sched_let_runs(s, q->tenant, &d->cores)) return false;
    return d->end == tenant_view->profile->n_layers ||
           (tenant_view->paused_gpu < 0 && mo_sched_gpu_stays(s, gpu));
}

/* A whole batch behind the block that ends another: whoever wants to cut decides when the let is idle, and a
 * batch that is between two blocks has nobody but the core's next decision before it. */
static bool may_queue(const struct mo_sched *s, const struct mo_decision *d, int lead) {
    const struct mo_view_run *run = &s->runs[lead];
    if (!s->lets->gpus->ahead_ns || run->query < 0 || s->behind[lead].query >= 0) return false;
    const struct mo_view_query *q = &s->queries.view[d->query], *now = &s->queries.view[run->query];
    return run->end == s->tenant_views[now->tenant].profile->n_layers && d->when == MO_NEVER &&
           s->queries.record[d->query].instance < 0 &&
           d->end == s->tenant_views[q->tenant].profile->n_layers &&
           mo_cores_subset(&d->cores, &run->cores) && mo_cores_subset(&run->cores, &d->cores);
}

static void begins(struct mo_sched *s, const struct mo_decision *d, int lead) {
    const struct mo_view_query *q = &s->queries.view[d->query];
    if (q->next_layer == 0 && d->end == s->tenant_views[q->tenant].profile->n_layers) return;
    s->tenants[q->tenant].cut_runs = true;
    s->tenant_views[q->tenant].paused_gpu = s->lets->gpus->gpu_of[lead];
}

/* No let in force may run the query (its tenant came after the plan), and nothing else is to happen: a new
 * plan is due soon.  Once for a query, for that plan may leave it out too. */
static void plan_soon(struct mo_sched *s, int slot, int64_t now) {
    const int64_t soon = 100000000, order = s->queries.view[slot].order;
    if (!s->policy->plan || s->view.lets_coming || s->replanned_for == order + 1) return;
    s->replanned_for = order + 1;
    if (s->planned_at > now + soon - s->policy->plan_period_ns)
        s->planned_at = now + soon - s->policy->plan_period_ns;
    s->timer_at = now + soon;
    mo_sched_set_alarm(s);
}

/* To its end on a let that may run it, all that was cut together. */
static bool ensure_progress(struct mo_sched *s, struct mo_decision *d, int64_t now) {
    const int tenant = s->queries.view[d->query].tenant;
    const struct mo_view_tenant *t = &s->tenant_views[tenant];
    bool begun = s->queries.record[d->query].instance >= 0;
    if (!mo_sched_let_of(s, tenant, begun ? t->paused_gpu : -1, &d->cores)) {
        plan_soon(s, d->query, now);
        return false;
    }
    d->batch = begun ? t->n_paused : 1;
    d->end = t->profile->n_layers;
    return true;
}

/* Cut on a GPU that is lost: its activations are gone. */
static bool lost(const struct mo_sched *s, int tenant) {
    int gpu = s->tenant_views[tenant].paused_gpu;
    return gpu >= 0 && s->lets->lost[gpu];
}

const struct mo_sched_units mo_sched_on_lets = {
    .create = create,
    .destroy = mo_sched_lets_destroy,
    .solo = solo,
    .may_run = may_run,
    .may_queue = may_queue,
    .begins = begins,
    .ensure_progress = ensure_progress,
    .lost = lost,
    .ask = mo_sched_lets_ask,
    .forget = mo_sched_lets_forget,
};
