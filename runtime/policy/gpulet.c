/* SPDX-License-Identifier: Apache-2.0
 * gpulet.c - filling the lets of a plan; see gpulet.h.
 *
 * Every let takes from the queues of its own tenants, the one with least slack first.  A batch is as large as
 * leaves its oldest query in time; on a let with other tenants no larger than leaves their next batches in
 * time, but never smaller than planned for.  A query that no let of its tenant can serve in time any more is
 * infeasible: shed where the tenant allows that, else served when nothing that can be in time waits.
 *
 * Times are the profile's times the larger of what the planner expects of the neighbours and what has been
 * observed lately. */
#include <math.h>
#include "runtime/policy/gpulet_serve.h"

int64_t mo_gpulet_rounded(double ns) {
    return ns < (double)MO_SHARE_NEVER ? (int64_t)ns : MO_SHARE_NEVER;
}

static int share_of(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    return mo_view_let_share(v->view, let->gpu, let->units);
}

const struct mo_let_entry *mo_gpulet_entry(const struct mo_planned_let *let, int tenant) {
    for (int e = 0; e < let->n_entries; e++)
        if (let->entries[e].tenant == tenant) return &let->entries[e];
    return NULL;
}

double mo_gpulet_slowdown(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant,
                          const struct mo_let_entry *entry) {
    const struct mo_share_profile *p = mo_view_share(v->view, tenant, let->gpu);
    double seen = v->view->tenants[tenant].residual, planned = 1;
    if (entry) {
        int64_t solo = mo_share_latency(p, entry->batch, share_of(v, let)) + mo_share_copy(p, entry->batch);
        planned = solo > 0 ? (double)entry->latency_ns / (double)solo : 1;
    }
    return fmax(1, fmax(seen, planned));
}

int64_t mo_gpulet_batch_ns(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant,
                           int n, double slow) {
    const struct mo_share_profile *p = mo_view_share(v->view, tenant, let->gpu);
    if (n > p->max_batch) return MO_SHARE_NEVER;
    return mo_gpulet_rounded((double)mo_share_latency(p, n, share_of(v, let)) * slow) + mo_share_copy(p, n);
}

/* Largest batch of at most `most` that takes no longer than `limit`. */
static int largest(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant, int most,
                   double slow, int64_t limit) {
    const struct mo_share_profile *p = mo_view_share(v->view, tenant, let->gpu);
    int n = most < p->max_batch ? most : p->max_batch;
    int fit = limit > 0 ? mo_share_batch(p, share_of(v, let), slow, limit) : 0;
    if (n > fit) n = fit;
    while (n > 0 && mo_gpulet_batch_ns(v, let, tenant, n, slow) > limit) /* the copies */
        n--;
    return n;
}

int64_t mo_gpulet_free_by(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int self) {
    int64_t by = MO_NEVER;
    for (int e = 0; e < let->n_entries; e++) {
        const struct mo_let_entry *entry = &let->entries[e];
        const struct mo_view_tenant *t = &v->view->tenants[entry->tenant];
        if (entry->tenant == self || !t->qos_ns) continue;
        int at = v->taken[entry->tenant];
        int64_t due = at < t->n_waiting ? v->view->queries[t->waiting[at]].deadline : v->at + t->qos_ns;
        int64_t begin = due - mo_gpulet_rounded((double)entry->latency_ns * (1 + MO_GPULET_MARGIN));
        if (begin < by) by = begin;
    }
    return by;
}

/* Deals with the queries at the head that can be in time nowhere; where the first begins that can here. */
static int skip_infeasible(struct mo_gpulet_serve *v, int tenant, int64_t here_ns) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    int at = v->taken[tenant];
    while (at < t->n_waiting) {
        int64_t due = v->view->queries[t->waiting[at]].deadline;
        if (due - v->at >= here_ns) break;
        bool infeasible = due - v->view->now < v->s->best_ns[tenant];
        if (infeasible && t->shed_late && at == v->taken[tenant]) {
            mo_decide_shed(v->out, t->waiting[at]);
            v->taken[tenant]++;
        }
        at++;
    }
    return at;
}

/* Where more wait than the planned batch takes, those at the head that leave no time for it are passed over:
 * small batches for their sake would make the others late too (early drop, Nexus). */
static int skip_early_drops(const struct mo_gpulet_serve *v, int tenant, int at, int batch,
                            int64_t batch_takes) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    while (t->n_waiting - at > batch && v->view->queries[t->waiting[at]].deadline - v->at < batch_takes)
        at++;
    return at;
}

static int instances(const struct mo_gpulet_serve *v, int tenant) {
    return v->view->tenants[tenant].free_instances - v->started[tenant];
}

/* What a tenant can run on an idle let now; `room`: when the let must be free again, `least`: a batch that
 * the plan grants whatever the room. */
struct mo_gpulet_offer mo_gpulet_offer_of(struct mo_gpulet_serve *v, const struct mo_planned_let *let,
                                          int tenant, const struct mo_let_entry *entry, int64_t room) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    double slow = mo_gpulet_slowdown(v, let, tenant, entry);
    int64_t now = v->at, one = mo_gpulet_batch_ns(v, let, tenant, 1, slow);
    struct mo_gpulet_offer o = {.tenant = tenant, .first = skip_infeasible(v, tenant, one)};
    if (entry)
        o.first = skip_early_drops(v, tenant, o.first, entry->batch,
                                   mo_gpulet_batch_ns(v, let, tenant, entry->batch, slow));
    int most = t->n_waiting - o.first;
    if (most <= 0) { /* none can be in time here: those that are late anyway, after all others */
        o.first = v->taken[tenant];
        most = t->n_waiting - o.first;
        o.late = true;
        if (most > 0 &&
            v->view->queries[t->waiting[o.first]].deadline - v->view->now >= v->s->best_ns[tenant])
            most = 0;
    }
    if (most > instances(v, tenant)) most = instances(v, tenant);
    if (most <= 0) return o;
    int64_t due = v->view->queries[t->waiting[o.first]].deadline;
    int granted = entry ? (entry->batch < most ? entry->batch : most) : 0;
    o.n = largest(v, let, tenant, most, slow, room == MO_NEVER ? MO_SHARE_NEVER : room - now);
    if (o.n < granted) o.n = granted;
    if (t->best_effort && mo_gpulet_may_cut(v, let, tenant)) /* the others enter between its blocks */
        o.n = largest(v, let, tenant, most, slow, MO_SHARE_NEVER);
    if (o.n && due != MO_NEVER && !o.late) {
        int timely = largest(v, let, tenant, o.n, slow, due - now);
        o.n = timely > 0 ? timely : 1;
    }
    o.ns = mo_gpulet_batch_ns(v, let, tenant, o.n, slow);
    o.slack = due == MO_NEVER || o.late ? MO_SHARE_NEVER : due - now - o.ns;
    return o;
}

/* Whether a batch waits for one query more: then until when.  The other tenants of the let may be in the way
 * at that moment, so their longest batch comes off. */
static bool defer(struct mo_gpulet_serve *v, const struct mo_planned_let *let,
                  const struct mo_let_entry *entry, const struct mo_gpulet_offer *o) {
    const struct mo_view_tenant *t = &v->view->tenants[o->tenant];
    int64_t due = v->view->queries[t->waiting[o->first]].deadline, others = 0;
    if (!v->options->deferred || o->late || due == MO_NEVER) return false;
    if (o->first + o->n < t->n_waiting || o->n >= instances(v, o->tenant))
        return false; /* one more is there */
    double slow = mo_gpulet_slowdown(v, let, o->tenant, entry);
    int64_t more = mo_gpulet_batch_ns(v, let, o->tenant, o->n + 1, slow);
    for (int e = 0; e < let->n_entries; e++)
        if (let->entries[e].tenant != o->tenant && let->entries[e].latency_ns > others)
            others = let->entries[e].latency_ns;
    int64_t when = due - mo_gpulet_rounded((double)more * (1 + MO_GPULET_MARGIN)) - others;
    if (more >= MO_SHARE_NEVER || when <= v->view->now) return false;
    if (when < v->timer) v->timer = when;
    return true;
}

/* A block of `batch` queries of a tenant from `slot` on, from layer `begin` on. */
static void run_block(struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant, int slot,
                      int begin, int batch) {
    struct mo_cores cores = mo_gpus_let(v->view->gpus, let);
    int end = mo_gpulet_end(v, let, tenant, begin, batch);
    mo_decide_batch(v->out, slot, batch, end, cores);
    mo_cores_subtract(&v->idle, &cores);
    if (begin == 0 && end == v->view->tenants[tenant].profile->n_layers) return;
    v->cut[tenant] = true;
    v->s->overtaken[tenant] = 0;
}

void mo_gpulet_run(struct mo_gpulet_serve *v, const struct mo_planned_let *let,
                   const struct mo_gpulet_offer *o) {
    run_block(v, let, o->tenant, v->view->tenants[o->tenant].waiting[o->first], 0, o->n);
    v->taken[o->tenant] = o->first + o->n;
    v->started[o->tenant] += o->n;
    mo_gpulet_look_ahead(v, let, o->ns);
}

/* The cut batch of a tenant runs its next block. */
static void go_on(struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    run_block(v, let, tenant, t->paused[0], v->view->queries[t->paused[0]].next_layer, t->n_paused);
}

bool mo_gpulet_is_idle(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    struct mo_cores cores = mo_gpus_let(v->view->gpus, let);
    return !v->view->gpu_down[let->gpu] && mo_cores_subset(&cores, &v->idle);
}

/* What a best-effort tenant may run on its let: by Orion's rule nothing that harms, and nothing is granted.
 */
static struct mo_gpulet_offer careful_offer(struct mo_gpulet_serve *v, const struct mo_planned_let *let,
                                            int tenant) {
    int64_t room = mo_gpulet_free_by(v, let, tenant), budget = mo_gpulet_budget(v->view, let->gpu);
    if (budget != MO_NEVER && v->view->now + budget < room) room = v->view->now + budget;
    struct mo_gpulet_offer o = mo_gpulet_offer_of(v, let, tenant, NULL, room);
    if (o.n && !mo_gpulet_orion_allows(v->view, let, tenant, o.n)) o.n = 0;
    return o;
}

/* Of the first query that an offer would run. */
static int priority_of(const struct mo_view *view, const struct mo_gpulet_offer *o) {
    return view->queries[view->tenants[o->tenant].waiting[o->first]].priority;
}

/* The offer with less slack goes first.  Where batches are cut for tenants of higher priority, and both
 * offers are in time, the one of higher priority does. */
static bool goes_first(const struct mo_gpulet_serve *v, const struct mo_gpulet_offer *o,
                       const struct mo_gpulet_offer *than) {
    if (!than->n) return true;
    int mine = priority_of(v->view, o), other = priority_of(v->view, than);
    if (v->options->cut && !o->late && !than->late && mine != other) return mine > other;
    return o->slack < than->slack;
}

/* The let's own tenant that goes first, of those that do not wait for more. */
static struct mo_gpulet_offer best_of_own(struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    struct mo_gpulet_offer best = {.n = 0};
    for (int e = 0; e < let->n_entries; e++) {
        const struct mo_let_entry *entry = &let->entries[e];
        if (entry->tenant >= v->view->n_tenants || !v->view->tenants[entry->tenant].open) continue;
        if (mo_gpulet_is_home(v, let, entry->tenant)) continue; /* its cut batch goes first */
        bool careful = v->options->careful && v->view->tenants[entry->tenant].best_effort;
        struct mo_gpulet_offer o = careful ? careful_offer(v, let, entry->tenant)
                                           : mo_gpulet_offer_of(v, let, entry->tenant, entry,
                                                                mo_gpulet_free_by(v, let, entry->tenant));
        if (!o.n || mo_gpulet_is_barred(v, let, o.tenant, o.n) || defer(v, let, entry, &o)) continue;
        if (goes_first(v, &o, &best)) best = o;
    }
    return best;
}

/* That tenant's batch, or a cut batch goes on. */
static void serve_own(struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    struct mo_gpulet_offer best = best_of_own(v, let);
    int paused = mo_gpulet_paused(v, let);
    if (paused >= 0 && !mo_gpulet_overtakes(v, let, paused, &best)) {
        go_on(v, let, paused);
        return;
    }
    if (!best.n) return;
    mo_gpulet_overtake(v, let);
    mo_gpulet_run(v, let, &best);
}

/* The same behind the batch that the let runs: a whole one that can be in time. */
static void queue_own(struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    if (!mo_gpulet_ahead(v, let)) return;
    struct mo_gpulet_offer best = best_of_own(v, let);
    const int layers = best.n ? v->view->tenants[best.tenant].profile->n_layers : 0;
    if (best.n && !best.late && mo_gpulet_end(v, let, best.tenant, 0, best.n) == layers)
        mo_gpulet_run(v, let, &best);
    v->at = v->view->now;
}

/* The fastest that one query of each tenant can be served on its lets. */
static void note_best(struct mo_gpulet_serve *v) {
    const struct mo_lets_plan *plan = v->view->lets;
    for (int i = 0; i < MO_PLAN_TENANTS; i++)
        v->s->best_ns[i] = MO_SHARE_NEVER;
    for (int i = 0; i < plan->n_lets; i++)
        for (int e = 0; e < plan->lets[i].n_entries; e++) {
            int tenant = plan->lets[i].entries[e].tenant;
            int64_t one = mo_gpulet_batch_ns(v, &plan->lets[i], tenant, 1, 1);
            if (one < v->s->best_ns[tenant]) v->s->best_ns[tenant] = one;
        }
}

static void fill_lets(struct mo_gpulet_serve *v) {
    const struct mo_lets_plan *plan = v->view->lets;
    for (int i = 0; i < plan->n_lets; i++)
        if (mo_gpulet_is_idle(v, &plan->lets[i]) && !mo_gpulet_host(v, &plan->lets[i]))
            serve_own(v, &plan->lets[i]);
    for (int i = 0; i < plan->n_lets; i++)
        if (mo_gpulet_is_idle(v, &plan->lets[i])) mo_gpulet_lend(v, &plan->lets[i]);
    for (int i = 0; i < plan->n_lets; i++)
        queue_own(v, &plan->lets[i]);
}

/* Has every tenant that waits looked at again when its first query is due, whatever its lets do then: a
 * tenant without a let has no let's end at which its late queries would be shed. */
static void watch(struct mo_gpulet_serve *v) {
    for (int i = 0; i < v->view->n_tenants && i < MO_PLAN_TENANTS; i++) {
        const struct mo_view_tenant *t = &v->view->tenants[i];
        while (t->shed_late && v->taken[i] < t->n_waiting &&
               v->view->queries[t->waiting[v->taken[i]]].deadline <= v->view->now)
            mo_decide_shed(v->out, t->waiting[v->taken[i]++]);
        if (!t->shed_late || v->taken[i] >= t->n_waiting) continue;
        int64_t due = v->view->queries[t->waiting[v->taken[i]]].deadline;
        if (due < v->timer) v->timer = due;
    }
}

/* What the event says of the tenants and GPUs there are; plans when the plan in force is not for them. */
static void note_event(struct mo_gpulet_state *s, const struct mo_view *view, const struct mo_event *event) {
    const int tenant = event->tenant;
    if (event->kind == MO_EVENT_ARRIVAL && tenant < MO_PLAN_TENANTS) s->arrivals[tenant]++;
    if (event->kind == MO_EVENT_FREED && tenant >= 0 && tenant < MO_PLAN_TENANTS &&
        !view->tenants[tenant].open)
        mo_gpulet_forget(s, tenant);
    s->stale |= event->kind == MO_EVENT_GPUS || mo_gpulet_has_new_tenant(s, view);
    if (!s->begun || (s->stale && !view->lets_coming)) mo_gpulet_plan(s, view);
}

/* A list of decisions that is full may lack some; the last place is kept for the wish to be asked again. */
static void end_list(const struct mo_gpulet_serve *v) {
    bool full = v->out->n == v->out->cap;
    v->out->cap++;
    if (full)
        mo_decide_timer(v->out, v->view->now + 1);
    else if (v->timer != MO_NEVER && v->timer > v->view->now)
        mo_decide_timer(v->out, v->timer);
}

void mo_gpulet_dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                        struct mo_decisions *out) {
    struct mo_gpulet_serve v = {.s = state, .view = view, .out = out, .options = view->options};
    v.idle = view->idle;
    v.at = view->now;
    v.timer = MO_NEVER;
    out->cap--;
    note_event(v.s, view, event);
    v.changing = v.s->ask || view->lets_coming;
    if (v.s->ask && !mo_gpulet_strands(view, &v.s->fresh)) {
        mo_decide_lets(out, &v.s->fresh);
        v.s->ask = false;
    }
    if (event->kind == MO_EVENT_LETS) note_best(&v);
    if (view->lets) fill_lets(&v);
    watch(&v);
    end_list(&v);
}
