/* SPDX-License-Identifier: Apache-2.0
 * gpulet.c - filling the lets of a plan; see gpulet.h.
 *
 * Every let takes from the queues of its own tenants, the one with least slack first.  A batch is as large as
 * leaves its oldest query in time; on a let with other tenants no larger than leaves their next batches in
 * time, but never smaller than planned for.  A query that no let of its tenant can serve in time any more is
 * hopeless: shed where the tenant allows that, else served when nothing that can be in time waits.
 *
 * Times are the profile's times the larger of what the planner expects of the neighbours and what has been
 * observed lately. */
#include <math.h>
#include "runtime/policy/gpulet.h"

static const double MARGIN = 0.05; /* of a batch's time: how much earlier than the last moment it begins */

/* One dispatch. */
struct serve {
    struct mo_gpulet_state *s;
    const struct mo_view *view;
    struct mo_decisions *out;
    const struct mo_gpulet_options *options;
    struct mo_cores idle;
    int64_t timer;
    int taken[MO_PLAN_TENANTS];   /* waiting queries that decisions of this dispatch have dealt with */
    int started[MO_PLAN_TENANTS]; /* instances that they take */
};

/* A tenant on a let: what it could run there now. */
struct offer {
    int tenant, first, n; /* waiting[first .. first + n); n 0 = nothing */
    int64_t slack;        /* until it must begin to be in time */
    bool late;            /* hopeless ones */
};

static int64_t rounded(double ns) {
    return ns < (double)MO_SHARE_NEVER ? (int64_t)ns : MO_SHARE_NEVER;
}

static int share_of(const struct serve *v, const struct mo_planned_let *let) {
    return mo_share_of_units(let->units, mo_gpus_kind(v->view->gpus, let->gpu)->units);
}

/* Expected slowdown of a tenant on a let; `entry` NULL: it is a guest there. */
static double slowdown(const struct serve *v, const struct mo_planned_let *let, int tenant,
                       const struct mo_let_entry *entry) {
    const struct mo_share_profile *p = mo_view_share(v->view, tenant, let->gpu);
    double seen = v->view->tenants[tenant].residual, planned = 1;
    if (entry) {
        int64_t solo = mo_share_latency(p, entry->batch, share_of(v, let)) + mo_share_copy(p, entry->batch);
        planned = solo > 0 ? (double)entry->latency_ns / (double)solo : 1;
    }
    return fmax(1, fmax(seen, planned));
}

static int64_t batch_ns(const struct serve *v, const struct mo_planned_let *let, int tenant, int n,
                        double slow) {
    const struct mo_share_profile *p = mo_view_share(v->view, tenant, let->gpu);
    if (n > p->max_batch) return MO_SHARE_NEVER;
    return rounded((double)mo_share_latency(p, n, share_of(v, let)) * slow) + mo_share_copy(p, n);
}

/* Largest batch of at most `most` that takes no longer than `limit`. */
static int largest(const struct serve *v, const struct mo_planned_let *let, int tenant, int most, double slow,
                   int64_t limit) {
    const struct mo_share_profile *p = mo_view_share(v->view, tenant, let->gpu);
    int n = most < p->max_batch ? most : p->max_batch;
    int fit = limit > 0 ? mo_share_batch(p, share_of(v, let), slow, limit) : 0;
    if (n > fit) n = fit;
    while (n > 0 && batch_ns(v, let, tenant, n, slow) > limit) /* the copies */
        n--;
    return n;
}

/* When the let must be free again for its tenants but `self`: each one's next batch shall be in time. */
static int64_t free_by(const struct serve *v, const struct mo_planned_let *let, int self) {
    int64_t by = MO_NEVER;
    for (int e = 0; e < let->n_entries; e++) {
        const struct mo_let_entry *entry = &let->entries[e];
        const struct mo_view_tenant *t = &v->view->tenants[entry->tenant];
        if (entry->tenant == self || !t->qos_ns) continue;
        int at = v->taken[entry->tenant];
        int64_t due =
            at < t->n_waiting ? v->view->queries[t->waiting[at]].deadline : v->view->now + t->qos_ns;
        int64_t begin = due - rounded((double)entry->latency_ns * (1 + MARGIN));
        if (begin < by) by = begin;
    }
    return by;
}

/* Deals with the queries at the head that can be in time nowhere; where the first begins that can here. */
static int skip_hopeless(struct serve *v, int tenant, int64_t here_ns) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    int at = v->taken[tenant];
    while (at < t->n_waiting) {
        int64_t left = v->view->queries[t->waiting[at]].deadline - v->view->now;
        if (left >= here_ns) break;
        bool hopeless = left < v->s->best_ns[tenant];
        if (hopeless && t->shed_late && at == v->taken[tenant]) {
            mo_decide_shed(v->out, t->waiting[at]);
            v->taken[tenant]++;
        }
        at++;
    }
    return at;
}

/* Where more wait than the planned batch takes, those at the head that leave no time for it are passed over:
 * small batches for their sake would make the others late too (early drop, Nexus). */
static int skip_hurried(const struct serve *v, int tenant, int at, int batch, int64_t batch_takes) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    while (t->n_waiting - at > batch &&
           v->view->queries[t->waiting[at]].deadline - v->view->now < batch_takes)
        at++;
    return at;
}

static int instances(const struct serve *v, int tenant) {
    return v->view->tenants[tenant].free_instances - v->started[tenant];
}

/* What a tenant can run on an idle let now; `room`: when the let must be free again, `least`: a batch that
 * the plan grants whatever the room. */
static struct offer offer_of(struct serve *v, const struct mo_planned_let *let, int tenant,
                             const struct mo_let_entry *entry, int64_t room) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    double slow = slowdown(v, let, tenant, entry);
    int64_t now = v->view->now, one = batch_ns(v, let, tenant, 1, slow);
    struct offer o = {.tenant = tenant, .first = skip_hopeless(v, tenant, one)};
    if (entry)
        o.first =
            skip_hurried(v, tenant, o.first, entry->batch, batch_ns(v, let, tenant, entry->batch, slow));
    int most = t->n_waiting - o.first;
    if (most <= 0) { /* none can be in time here: those that are late anyway, after all others */
        o.first = v->taken[tenant];
        most = t->n_waiting - o.first;
        o.late = true;
        if (most > 0 && v->view->queries[t->waiting[o.first]].deadline - now >= v->s->best_ns[tenant])
            most = 0;
    }
    if (most > instances(v, tenant)) most = instances(v, tenant);
    if (most <= 0) return o;
    int64_t due = v->view->queries[t->waiting[o.first]].deadline;
    int granted = entry ? (entry->batch < most ? entry->batch : most) : 0;
    o.n = largest(v, let, tenant, most, slow, room == MO_NEVER ? MO_SHARE_NEVER : room - now);
    if (o.n < granted) o.n = granted;
    if (o.n && due != MO_NEVER && !o.late) {
        int timely = largest(v, let, tenant, o.n, slow, due - now);
        o.n = timely > 0 ? timely : 1;
    }
    o.slack = due == MO_NEVER || o.late ? MO_SHARE_NEVER : due - now - batch_ns(v, let, tenant, o.n, slow);
    return o;
}

/* Whether a batch waits for one query more: then until when.  The other tenants of the let may be in the way
 * at that moment, so their longest batch comes off. */
static bool defer(struct serve *v, const struct mo_planned_let *let, const struct mo_let_entry *entry,
                  const struct offer *o) {
    const struct mo_view_tenant *t = &v->view->tenants[o->tenant];
    int64_t due = v->view->queries[t->waiting[o->first]].deadline, others = 0;
    if (!v->options->deferred || o->late || due == MO_NEVER) return false;
    if (o->first + o->n < t->n_waiting || o->n >= instances(v, o->tenant))
        return false; /* one more is there */
    double slow = slowdown(v, let, o->tenant, entry);
    int64_t more = batch_ns(v, let, o->tenant, o->n + 1, slow);
    for (int e = 0; e < let->n_entries; e++)
        if (let->entries[e].tenant != o->tenant && let->entries[e].latency_ns > others)
            others = let->entries[e].latency_ns;
    int64_t when = due - rounded((double)more * (1 + MARGIN)) - others;
    if (more >= MO_SHARE_NEVER || when <= v->view->now) return false;
    if (when < v->timer) v->timer = when;
    return true;
}

static void run(struct serve *v, const struct mo_planned_let *let, const struct offer *o) {
    const struct mo_view_tenant *t = &v->view->tenants[o->tenant];
    struct mo_cores cores = mo_gpus_let(v->view->gpus, let);
    mo_decide_batch(v->out, t->waiting[o->first], o->n, t->profile->n_layers, cores);
    mo_cores_subtract(&v->idle, &cores);
    v->taken[o->tenant] = o->first + o->n;
    v->started[o->tenant] += o->n;
}

static bool is_idle(const struct serve *v, const struct mo_planned_let *let) {
    struct mo_cores cores = mo_gpus_let(v->view->gpus, let);
    return !v->view->gpu_down[let->gpu] && mo_cores_subset(&cores, &v->idle);
}

/* What a best-effort tenant may run on its let: by Orion's rule nothing that harms, and nothing is granted.
 */
static struct offer careful_offer(struct serve *v, const struct mo_planned_let *let, int tenant) {
    int64_t room = free_by(v, let, tenant), budget = mo_gpulet_budget(v->view, let->gpu);
    if (budget != MO_NEVER && v->view->now + budget < room) room = v->view->now + budget;
    struct offer o = offer_of(v, let, tenant, NULL, room);
    if (o.n && !mo_gpulet_harmless(v->view, let, tenant, o.n)) o.n = 0;
    return o;
}

/* The let's own tenant with least slack that does not wait for more. */
static void serve_own(struct serve *v, const struct mo_planned_let *let) {
    struct offer best = {.n = 0};
    for (int e = 0; e < let->n_entries; e++) {
        const struct mo_let_entry *entry = &let->entries[e];
        if (entry->tenant >= v->view->n_tenants || !v->view->tenants[entry->tenant].open) continue;
        bool careful = v->options->careful && v->view->tenants[entry->tenant].best_effort;
        struct offer o = careful ? careful_offer(v, let, entry->tenant)
                                 : offer_of(v, let, entry->tenant, entry, free_by(v, let, entry->tenant));
        if (!o.n || defer(v, let, entry, &o)) continue;
        if (!best.n || o.slack < best.slack) best = o;
    }
    if (best.n) run(v, let, &best);
}

/* Does an idle let of the tenant's own stand ready? */
static bool has_idle_let(const struct serve *v, int tenant) {
    const struct mo_lets_plan *plan = v->view->lets;
    for (int i = 0; i < plan->n_lets; i++)
        for (int e = 0; e < plan->lets[i].n_entries; e++)
            if (plan->lets[i].entries[e].tenant == tenant && is_idle(v, &plan->lets[i])) return true;
    return false;
}

/* An idle let goes for one batch to a tenant of the same GPU whose own lets are all busy, if it is back
 * before a tenant of its own could miss it. */
static void lend(struct serve *v, const struct mo_planned_let *let) {
    const struct mo_lets_plan *plan = v->view->lets;
    struct offer best = {.n = 0};
    int64_t room = free_by(v, let, -1);
    if (room != MO_NEVER) room = v->view->now + (room - v->view->now) / 2; /* its own may come in numbers */
    for (int i = 0; i < plan->n_lets; i++)
        for (int e = 0; plan->lets[i].gpu == let->gpu && e < plan->lets[i].n_entries; e++) {
            int tenant = plan->lets[i].entries[e].tenant;
            if (v->taken[tenant] >= v->view->tenants[tenant].n_waiting || has_idle_let(v, tenant)) continue;
            struct offer o = offer_of(v, let, tenant, NULL, room);
            if (o.n && v->options->careful && v->view->tenants[tenant].best_effort &&
                !mo_gpulet_harmless(v->view, let, tenant, o.n))
                continue;
            if (o.n && !o.late && (!best.n || o.slack < best.slack)) best = o;
        }
    if (best.n) run(v, let, &best);
}

/* The fastest that one query of each tenant can be served on its lets. */
static void note_best(struct serve *v) {
    const struct mo_lets_plan *plan = v->view->lets;
    for (int i = 0; i < MO_PLAN_TENANTS; i++)
        v->s->best_ns[i] = MO_SHARE_NEVER;
    for (int i = 0; i < plan->n_lets; i++)
        for (int e = 0; e < plan->lets[i].n_entries; e++) {
            int tenant = plan->lets[i].entries[e].tenant;
            int64_t one = batch_ns(v, &plan->lets[i], tenant, 1, 1);
            if (one < v->s->best_ns[tenant]) v->s->best_ns[tenant] = one;
        }
}

/* Tenants that wait are looked at again when their first query is due, whatever their lets do: those without
 * a let have nobody else to shed for them. */
static void watch(struct serve *v) {
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

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct serve v = {.s = state, .view = view, .out = out, .options = view->options};
    v.idle = view->idle;
    v.timer = MO_NEVER;
    if (event->kind == MO_EVENT_ARRIVAL && event->tenant < MO_PLAN_TENANTS) v.s->arrivals[event->tenant]++;
    if (!v.s->begun) mo_gpulet_plan(state, view);
    if (v.s->ask) mo_decide_lets(out, &v.s->fresh);
    v.s->ask = false;
    if (event->kind == MO_EVENT_LETS) note_best(&v);
    for (int i = 0; view->lets && i < view->lets->n_lets; i++)
        if (is_idle(&v, &view->lets->lets[i])) serve_own(&v, &view->lets->lets[i]);
    for (int i = 0; view->lets && v.options->lend && i < view->lets->n_lets; i++)
        if (is_idle(&v, &view->lets->lets[i]) &&
            mo_gpus_kind(view->gpus, view->lets->lets[i].gpu)->shared_weights)
            lend(&v, &view->lets->lets[i]);
    watch(&v);
    if (v.timer != MO_NEVER && v.timer > view->now) mo_decide_timer(out, v.timer);
}

/* --- rows ----------------------------------------------------------------------------------------------- */
/* planner, deferred, lend, stretch, burst, careful */
static const struct mo_gpulet_options options[] = {
    {"sbp", false, false, false, 0, false},        {"sbp-half", false, false, false, 0, false},
    {"selftune", false, false, false, 0, false},   {"gpulet", false, false, false, 0, false},
    {"gpulet-int", false, false, false, 0, false}, {"ideal", false, false, false, 0, false},
    {"moire-gpu", false, true, true, 0, false},    {"moire-gpu", false, false, true, 0, false},
    {"moire-gpu", true, true, true, 0, false},     {"moire-gpu", true, false, true, 0, false},
    {"moire-gpu", false, true, false, 0, false},   {"moire-gpu", false, true, false, 2, false},
    {"gpulet-int", false, false, true, 0, false},  {"moire-gpu", false, true, true, 0, true},
};
enum {
    SBP,
    SBP_HALF,
    SELFTUNE,
    GPULET,
    GPULET_INT,
    IDEAL,
    MOIRE,
    OWN,
    DEFERRED,
    DEFERRED_OWN,
    TIGHT,
    ROOMY,
    STRETCHED,
    CAREFUL
};

#define SERVER(label, text, which, seconds)                                                                  \
    {                                                                                                        \
        .name = (label), .description = (text), .gpus = true, .options = &options[which],                    \
        .state_bytes = sizeof(struct mo_gpulet_state), .init = mo_gpulet_init, .plan = mo_gpulet_plan,       \
        .plan_period_ns = (seconds)*INT64_C(1000000000), .dispatch = dispatch                                \
    }

static const struct mo_policy servers[] = {
    SERVER("moire-gpu", "lets by the planner moire-gpu, eager batches, idle lets lent, every 20 s", MOIRE,
           20),
    SERVER("moire-gpu-5s", "the same, planned every 5 s", MOIRE, 5),
    SERVER("moire-gpu-1s", "the same, planned every second", MOIRE, 1),
    SERVER("moire-gpu-own", "moire-gpu, no let is lent", OWN, 20),
    SERVER("moire-gpu-deferred", "moire-gpu, batches begin at the last moment", DEFERRED, 20),
    SERVER("moire-gpu-deferred-own", "moire-gpu, deferred, no let is lent", DEFERRED_OWN, 20),
    SERVER("moire-gpu-tight", "moire-gpu, planned for the rates as they are", TIGHT, 20),
    SERVER("moire-gpu-roomy", "moire-gpu, not stretched, batches two deviations larger than the mean", ROOMY,
           20),
    SERVER("gpulet-int", "lets by gpu-let's algorithm with interference", GPULET_INT, 20),
    SERVER("gpulet-int-stretched", "gpulet-int, rates stretched as far as the GPUs serve", STRETCHED, 20),
    SERVER("gpulet", "lets by gpu-let's algorithm", GPULET, 20),
    SERVER("selftune", "lets by guided self-tuning", SELFTUNE, 20),
    SERVER("sbp", "squishy bin packing, whole GPUs", SBP, 20),
    SERVER("sbp-half", "squishy bin packing, half GPUs", SBP_HALF, 20),
    SERVER("moire-gpu-careful", "moire-gpu, best-effort batches by Orion's rule", CAREFUL, 20),
    SERVER("ideal", "lets by exhaustive search", IDEAL, 20),
};

const struct mo_policy *const *mo_policy_servers(void) {
    enum { N = sizeof servers / sizeof *servers };
    static const struct mo_policy *const rows[N + 1] = {
        &servers[0],  &servers[1],  &servers[2],  &servers[3], &servers[4],  &servers[5],
        &servers[6],  &servers[7],  &servers[8],  &servers[9], &servers[10], &servers[11],
        &servers[12], &servers[13], &servers[14], &servers[15]};
    return rows;
}
