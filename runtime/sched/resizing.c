/* SPDX-License-Identifier: Apache-2.0
 * resizing.c - blocks that gain and lose cores while they run.
 *
 * A block keeps where it was, as predicted, when its cores last changed: a layer and the part of it that was
 * done.  What is left of that layer runs on all that are inside, what follows on those that stay; from this
 * its end and, at any time before, the layer it is in follow.  Nobody looks into the block for it.
 *
 * Rules of a RESIZE: it names a query whose block runs, be it decided meanwhile, on an engine that can do it
 * and not on GPUs; its cores hold the block's lead and are idle or in the block, but none of those that leave
 * it already.  One that changes no core only says how many would be liked.
 *
 * A core is idle, in one block, or `coming`: still inside a block that has ended, whose queries go on without
 * it.  An engine tells of each of these when it is back, and a dispatch follows. */
#include "runtime/profile/place.h"
#include "runtime/sched/core_impl.h"

/* --- where a block is ----------------------------------------------------------------------------------- */
static int batch_of(const struct mo_view_run *run) {
    return run->batch > 1 ? run->batch : 1;
}

/* Profiled time from `at` to the block's end: the layer it is in on `here` cores, the others on `then`. */
static double left_from(const struct mo_profile *p, const struct mo_view_run *run, double at, int here,
                        int then) {
    const struct mo_layer_sums first = mo_layer_sums(p, here), later = mo_layer_sums(p, then);
    int layer = (int)at;
    if (layer >= run->end) return 0;
    return mo_place_left(&first, at, layer + 1) + mo_place_left(&later, layer + 1, run->end);
}

void mo_sched_run_from(const struct mo_profile *p, struct mo_view_run *run, double at, int64_t now) {
    const struct mo_layer_sums here = mo_layer_sums(p, run->n_cores);
    run->at = at;
    run->since = now;
    run->layer_left = at < run->end ? mo_place_left(&here, at, (int)at + 1) : 0;
    run->left = left_from(p, run, at, run->n_cores, run->n_cores - run->n_leaving);
}

/* Where the block is after `done` ns of what was left. */
static double go_from(const struct mo_profile *p, const struct mo_view_run *run, double done) {
    const int layer = (int)run->at;
    if (done < run->layer_left) {
        const struct mo_layer_sums here = mo_layer_sums(p, run->n_cores);
        return mo_place_after(&here, run->at, layer + 1, done);
    }
    const struct mo_layer_sums later = mo_layer_sums(p, run->n_cores - run->n_leaving);
    return mo_place_after(&later, layer + 1, run->end, done - run->layer_left);
}

static double place(const struct mo_profile *p, const struct mo_view_run *run, int64_t now) {
    if (now >= run->predicted_end) return run->end;
    if (now <= run->since) return run->at;
    return go_from(p, run,
                   run->left * (double)(now - run->since) / (double)(run->predicted_end - run->since));
}

static const struct mo_view_tenant *tenant_of(const struct mo_view *view, const struct mo_view_run *run) {
    return &view->tenants[view->queries[run->query].tenant];
}

double mo_view_place(const struct mo_view *view, const struct mo_view_run *run) {
    return place(tenant_of(view, run)->profile, run, view->now);
}

int mo_view_layer(const struct mo_view *view, const struct mo_view_run *run) {
    int layer = (int)place(tenant_of(view, run)->profile, run, view->now);
    return layer < run->end ? layer : run->end - 1;
}

int64_t mo_view_rest(const struct mo_view *view, const struct mo_view_run *run, int n) {
    const struct mo_view_tenant *t = tenant_of(view, run);
    double left = left_from(t->profile, run, place(t->profile, run, view->now), n, n);
    return (int64_t)(left * batch_of(run) * t->residual);
}

/* --- cores come and go ---------------------------------------------------------------------------------- */
static const struct mo_cores nobody;

/* From now on the block has other cores. */
static void change(struct mo_sched *s, struct mo_view_run *run, const struct mo_cores *join,
                   const struct mo_cores *leave, const struct mo_cores *out, int64_t now) {
    const struct mo_view_tenant *t = tenant_of(&s->view, run);
    const double at = place(t->profile, run, now);
    mo_cores_join(&run->cores, join);
    mo_cores_join(&run->leaving, leave);
    mo_cores_subtract(&run->cores, out);
    mo_cores_subtract(&run->leaving, out);
    run->n_cores = mo_cores_count(&run->cores);
    run->n_leaving = mo_cores_count(&run->leaving);
    mo_sched_run_from(t->profile, run, at, now);
    run->predicted_end = now + (int64_t)(run->left * batch_of(run) * t->residual);
    run->pace = s->view.pace;
    if (run->late_since) mo_sched_late_on(s, run, now);
}

static struct mo_view_run *block_of(struct mo_sched *s, const struct mo_decision *d) {
    if (!s->ops->resize || s->view.gpus || d->query < 0 || d->query >= s->queries.cap) return NULL;
    bool there = mo_query_slot(&s->queries, mo_query_handle(&s->queries, d->query)) >= 0;
    int lead = there ? s->queries.view[d->query].run : -1;
    return lead >= 0 && mo_cores_has(&d->cores, lead) ? &s->runs[lead] : NULL;
}

bool mo_sched_resize(struct mo_sched *s, const struct mo_decision *d, int64_t now) {
    struct mo_view_run *run = block_of(s, d);
    if (!run) return false;
    struct mo_cores join = d->cores, leave = run->cores;
    mo_cores_subtract(&join, &run->cores);
    mo_cores_subtract(&leave, &d->cores);
    mo_cores_subtract(&leave, &run->leaving);
    if (!mo_cores_subset(&join, &s->view.idle) || mo_cores_meet(&d->cores, &run->leaving)) return false;
    int n = mo_cores_count(&d->cores), joining = mo_cores_count(&join), leaving = mo_cores_count(&leave);
    run->wanted = d->wanted > n ? d->wanted : n;
    if (!joining && !leaving) return true;
    mo_cores_subtract(&s->view.idle, &join);
    s->view.n_idle -= joining;
    change(s, run, &join, &leave, &nobody, now);
    run->resized++;
    s->stats.resized++;
    const struct mo_view_query *q = &s->queries.view[run->query];
    for (int slot = run->query; slot >= 0; slot = s->queries.record[slot].next_in_batch)
        s->queries.view[slot].last_cores = n;
    mo_sched_log(s, now, MO_LOG_RESIZE, run->query, q->tenant, joining, leaving, run->predicted_end - now);
    s->ops->resize(s->engine, &(struct mo_resize){run->query, q->tenant, q->run, n, join, leave});
    return true;
}

void mo_sched_cores_back(struct mo_sched *s, int lead, const struct mo_cores *cores, int64_t now) {
    if (lead >= 0)
        change(s, &s->runs[lead], &nobody, &nobody, cores, now);
    else
        mo_cores_subtract(&s->coming, cores);
    mo_cores_join(&s->view.idle, cores);
    s->view.n_idle += mo_cores_count(cores);
    mo_sched_dispatch(s, MO_EVENT_FREED, -1, -1, now);
}
