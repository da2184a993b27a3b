/* SPDX-License-Identifier: Apache-2.0
 * gpulet_lend.c - lets that serve a tenant of another let of their GPU for one batch.
 *
 * An idle let is lent to a tenant whose own lets are all busy, if it is back before a tenant of its own could
 * miss it.  Where batches are cut, a let is lent between two blocks, too: to a tenant of higher priority than
 * all of the let's own.  What keeps such a one waiting is its own latest batch, and no cut makes that
 * shorter. The tenants of the let must still be in time behind it.  Lets share weights, or none is lent. */
#include <limits.h>
#include "runtime/policy/gpulet_serve.h"

static bool may_lend(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    return v->options->lend && mo_gpus_kind(v->view->gpus, let->gpu)->shared_weights;
}

/* Does an idle let of the tenant's own stand ready? */
static bool has_idle_let(const struct mo_gpulet_serve *v, int tenant) {
    const struct mo_lets_plan *plan = v->view->lets;
    for (int i = 0; i < plan->n_lets; i++)
        if (mo_gpulet_entry(&plan->lets[i], tenant) && mo_gpulet_is_idle(v, &plan->lets[i])) return true;
    return false;
}

/* What the tenant could run on a let that is not its own. */
static struct mo_gpulet_offer offer_there(struct mo_gpulet_serve *v, const struct mo_planned_let *let,
                                          int tenant, int64_t room) {
    struct mo_gpulet_offer o = {.n = 0};
    if (v->taken[tenant] >= v->view->tenants[tenant].n_waiting || has_idle_let(v, tenant)) return o;
    o = mo_gpulet_offer_of(v, let, tenant, NULL, room);
    if (o.late || (o.n && mo_gpulet_is_barred(v, let, tenant, o.n))) o.n = 0;
    return o;
}

/* The offer with least slack of the tenants of the GPU's lets that have a priority above one. */
static struct mo_gpulet_offer best_there(struct mo_gpulet_serve *v, const struct mo_planned_let *let,
                                         int above, int64_t room) {
    const struct mo_lets_plan *plan = v->view->lets;
    struct mo_gpulet_offer best = {.n = 0};
    for (int i = 0; i < plan->n_lets; i++)
        for (int e = 0; plan->lets[i].gpu == let->gpu && e < plan->lets[i].n_entries; e++) {
            const int tenant = plan->lets[i].entries[e].tenant;
            const struct mo_view_tenant *t = &v->view->tenants[tenant];
            if (t->priority <= above) continue;
            struct mo_gpulet_offer o = offer_there(v, let, tenant, room);
            if (o.n && v->options->careful && t->best_effort &&
                !mo_gpulet_orion_allows(v->view, let, tenant, o.n))
                continue;
            if (o.n && (!best.n || o.slack < best.slack)) best = o;
        }
    return best;
}

void mo_gpulet_lend(struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    if (!may_lend(v, let)) return;
    int64_t room = mo_gpulet_free_by(v, let, -1);
    if (room != MO_NEVER) room = v->view->now + (room - v->view->now) / 2; /* its own may come in numbers */
    const struct mo_gpulet_offer best = best_there(v, let, INT_MIN, room);
    if (best.n) mo_gpulet_run(v, let, &best);
}

/* Of the let's own tenants, and of those whose cut batch goes on there. */
static int highest_priority(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    int highest = INT_MIN;
    for (int i = 0; i < v->view->n_tenants; i++) {
        const int priority = v->view->tenants[i].priority;
        bool belongs = mo_gpulet_entry(let, i) || mo_gpulet_is_home(v, let, i);
        if (belongs && priority > highest) highest = priority;
    }
    return highest;
}

/* Have all queries of the let's own more than half of their targets before them?  Where they have not, guests
 * and the blocks that are cut for them take more time than there is. */
static bool has_time(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    for (int e = 0; e < let->n_entries; e++) {
        const struct mo_view_tenant *t = &v->view->tenants[let->entries[e].tenant];
        if (let->entries[e].tenant >= v->view->n_tenants || !t->qos_ns) continue;
        const int64_t half = v->view->now + t->qos_ns / 2;
        if (t->n_waiting && v->view->queries[t->waiting[0]].deadline < half) return false;
        if (t->n_paused && v->view->queries[t->paused[0]].deadline < half) return false;
    }
    return true;
}

bool mo_gpulet_has_guests(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    const struct mo_lets_plan *plan = v->view->lets;
    const int own = highest_priority(v, let);
    if (!v->options->cut || !may_lend(v, let) || !has_time(v, let)) return false;
    for (int i = 0; i < plan->n_lets; i++)
        if (plan->lets[i].gpu == let->gpu && highest_priority(v, &plan->lets[i]) > own) return true;
    return false;
}

bool mo_gpulet_host(struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    if (!mo_gpulet_has_guests(v, let)) return false;
    const int64_t rest = mo_gpulet_paused_slack(v, let);
    int64_t room = mo_gpulet_free_by(v, let, -1);
    if (rest < MO_SHARE_NEVER && v->view->now + rest < room) room = v->view->now + rest;
    const struct mo_gpulet_offer best = best_there(v, let, highest_priority(v, let), room);
    if (!best.n) return false;
    mo_gpulet_overtake(v, let);
    mo_gpulet_run(v, let, &best);
    return true;
}
