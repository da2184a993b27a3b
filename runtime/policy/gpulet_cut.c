/* SPDX-License-Identifier: Apache-2.0
 * gpulet_cut.c - batches in several blocks, so that an urgent query need not wait for the end of a long one.
 *
 * A batch is cut where it pays: when what is left of it takes longer than some latency-critical tenant of the
 * let could wait if a query of it came now.  One of higher priority is not kept waiting at all.  A block is
 * then as many layers as take a millisecond, at least one; otherwise the batch runs to its end.
 *
 * Between two blocks the let is idle and chooses anew.  Whoever would be late behind the rest of the cut
 * batch goes first, unless that makes the cut batch late and it has less slack; higher priorities always do,
 * and critical batches before best-effort ones.  After MOST_OVERTAKERS of them the batch runs a block
 * whatever waits, so it always ends, and nobody waits for more than that block and who is before him.
 *
 * A tenant has at most one cut batch, which goes on on the let where it was, or on one of its tenant's own on
 * the same GPU that is idle first; meanwhile the tenant begins nothing else on the former. */
#include "runtime/policy/gpulet_serve.h"

enum { MOST_OVERTAKERS = 4 };
static const int64_t BLOCK_NS = MO_SHARE_SEGMENT_NS;

/* Predicted time of layers [begin, end) of a batch. */
static int64_t part_ns(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant,
                       int begin, int end, int batch) {
    double slow = mo_gpulet_slowdown(v, let, tenant, mo_gpulet_entry(let, tenant));
    double part = mo_view_part(v->view->tenants[tenant].profile, let->units, begin, end);
    return mo_gpulet_rounded((double)mo_gpulet_batch_ns(v, let, tenant, batch, slow) * part);
}

static bool is_critical(const struct mo_view_tenant *t) {
    return t->open && t->qos_ns && !t->best_effort;
}

/* How long the other tenants of the let can wait from now on; MO_NEVER: as long as may be. */
static int64_t others_slack(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant) {
    int64_t least = MO_NEVER;
    for (int e = 0; e < let->n_entries; e++) {
        const struct mo_let_entry *entry = &let->entries[e];
        if (entry->tenant == tenant || entry->tenant >= v->view->n_tenants) continue;
        const struct mo_view_tenant *t = &v->view->tenants[entry->tenant];
        if (!is_critical(t)) continue;
        int64_t can = t->qos_ns - mo_gpulet_rounded((double)entry->latency_ns * (1 + MO_GPULET_MARGIN));
        if (t->priority > v->view->tenants[tenant].priority || can < 0) can = 0;
        if (can < least) least = can;
    }
    return least;
}

static bool has_gpu(const struct mo_lets_plan *plan, int gpu) {
    for (int i = 0; i < plan->n_lets; i++)
        if (plan->lets[i].gpu == gpu) return true;
    return false;
}

bool mo_gpulet_strands(const struct mo_view *view, const struct mo_lets_plan *plan) {
    for (int i = 0; i < view->n_tenants; i++)
        if (view->tenants[i].paused_gpu >= 0 && !has_gpu(plan, view->tenants[i].paused_gpu)) return true;
    return false;
}

bool mo_gpulet_may_cut(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    return v->options->cut && t->profile->n_layers > 1 && t->paused_gpu < 0 && !v->cut[tenant] &&
           (!v->changing || has_gpu(&v->s->fresh, let->gpu));
}

/* Would some other tenant have to wait too long for layers from `begin` on? */
static bool is_long(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant, int begin,
                    int batch, int64_t can) {
    const int n = v->view->tenants[tenant].profile->n_layers;
    return part_ns(v, let, tenant, begin, n, batch) > (can > BLOCK_NS ? can : BLOCK_NS);
}

bool mo_gpulet_is_barred(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant,
                         int batch) {
    bool going = v->view->tenants[tenant].paused_gpu >= 0 || v->cut[tenant];
    return going && others_slack(v, let, tenant) == 0 && is_long(v, let, tenant, 0, batch, 0);
}

int mo_gpulet_end(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant, int begin,
                  int batch) {
    const int n = v->view->tenants[tenant].profile->n_layers;
    if (begin ? !v->options->cut : !mo_gpulet_may_cut(v, let, tenant)) return n;
    const int64_t can = mo_gpulet_has_guests(v, let) ? 0 : others_slack(v, let, tenant);
    if (!is_long(v, let, tenant, begin, batch, can)) return n;
    int end = begin + 1;
    while (end < n && part_ns(v, let, tenant, begin, end + 1, batch) <= BLOCK_NS)
        end++;
    return end;
}

/* --- batches that are cut ------------------------------------------------------------------------------- */
static bool is_paused(const struct mo_gpulet_serve *v, int tenant) {
    return v->view->tenants[tenant].n_paused > 0 && !v->cut[tenant];
}

/* Where a cut batch was, or after a change of plan the best let of its GPU. */
static const struct mo_planned_let *home_of(const struct mo_gpulet_serve *v, int tenant) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    const struct mo_view_query *q = &v->view->queries[t->paused[0]];
    const struct mo_planned_let *best = NULL;
    for (int i = 0; i < v->view->lets->n_lets; i++) {
        const struct mo_planned_let *let = &v->view->lets->lets[i];
        if (let->gpu != t->paused_gpu) continue;
        if (v->view->gpus->first[let->gpu] + let->first == q->last_core && let->units == q->last_cores)
            return let;
        bool own = mo_gpulet_entry(let, tenant) != NULL;
        bool best_own = best && mo_gpulet_entry(best, tenant) != NULL;
        if (!best || (own && !best_own) || (own == best_own && let->units > best->units)) best = let;
    }
    return best;
}

bool mo_gpulet_is_home(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant) {
    return is_paused(v, tenant) && home_of(v, tenant) == let;
}

/* Slack of a cut batch on a let. */
static int64_t slack_of(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant) {
    const struct mo_view_tenant *t = &v->view->tenants[tenant];
    const struct mo_view_query *q = &v->view->queries[t->paused[0]];
    if (q->deadline == MO_NEVER) return MO_SHARE_NEVER;
    return q->deadline - v->view->now -
           part_ns(v, let, tenant, q->next_layer, t->profile->n_layers, t->n_paused);
}

static bool has_waited(const struct mo_gpulet_serve *v, int tenant) {
    return v->s->overtaken[tenant] >= MOST_OVERTAKERS;
}

int mo_gpulet_paused(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    int best = -1;
    int64_t least = 0;
    for (int i = 0; i < v->view->n_tenants && i < MO_PLAN_TENANTS; i++) {
        const struct mo_view_tenant *t = &v->view->tenants[i];
        if (!is_paused(v, i) || t->paused_gpu != let->gpu) continue;
        if (!mo_gpulet_entry(let, i) && !mo_gpulet_is_home(v, let, i)) continue;
        int64_t slack = slack_of(v, let, i);
        bool first = best >= 0 && has_waited(v, i) == has_waited(v, best) ? slack < least : has_waited(v, i);
        if (best < 0 || first) {
            best = i;
            least = slack;
        }
    }
    return best;
}

int64_t mo_gpulet_paused_slack(const struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    const int paused = mo_gpulet_paused(v, let);
    if (paused < 0) return MO_SHARE_NEVER;
    return has_waited(v, paused) ? 0 : slack_of(v, let, paused);
}

void mo_gpulet_overtake(struct mo_gpulet_serve *v, const struct mo_planned_let *let) {
    for (int i = 0; i < v->view->n_tenants && i < MO_PLAN_TENANTS; i++)
        v->s->overtaken[i] += mo_gpulet_is_home(v, let, i);
}

bool mo_gpulet_overtakes(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int paused,
                         const struct mo_gpulet_offer *o) {
    const struct mo_view_tenant *t = &v->view->tenants[paused], *other = &v->view->tenants[o->tenant];
    if (!o->n || o->late || has_waited(v, paused)) return false;
    int mine = v->view->queries[other->waiting[o->first]].priority;
    int its = v->view->queries[t->paused[0]].priority;
    if (mine != its) return mine > its;
    int begin = v->view->queries[t->paused[0]].next_layer;
    if (!is_long(v, let, paused, begin, t->n_paused, others_slack(v, let, paused))) return false;
    if (other->best_effort != t->best_effort) return t->best_effort;
    if (o->slack >= part_ns(v, let, paused, begin, t->profile->n_layers, t->n_paused)) return false;
    int64_t slack = slack_of(v, let, paused);
    return slack < 0 || slack >= o->ns || o->slack < slack;
}
