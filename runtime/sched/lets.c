/* SPDX-License-Identifier: Apache-2.0
 * lets.c - which lets of the GPUs are in force, and the way from one plan to the next.
 *
 * A policy asks for a plan (MO_LETS).  The core checks it and has the engine prepare it while the lets in
 * force go on serving; when the engine says so the new ones take their place.  Blocks under way keep their
 * units until they end, so a new let begins when the last of them has.
 *
 * Memory: while a GPU is prepared it holds the models of both plans.  Where that is too much, its old lets
 * go first and the GPU serves nothing (`down`) until the new ones are there.
 *
 * A GPU that is lost is `down` too, until it is back and a plan has lets on it again.
 *
 * A tenant that has left is in no plan any more, neither in force nor coming: its profile is gone, and who
 * takes its place has lets only from a plan of its own.  Its lets stay, empty, until the next plan.
 *
 * A run on GPUs takes exactly one let that is in force, for a tenant that the plan has put on it; where lets
 * of a GPU share weights, for any tenant that the plan has on that GPU. */
#include <string.h>
#include "runtime/sched/core_impl.h"

int mo_sched_lets_create(struct mo_sched *s, const struct mo_gpus *gpus) {
    struct mo_sched_lets *l = mo_alloc(s->env, sizeof *l);
    if (!l) return MOIRE_ENOMEM;
    s->lets = l;
    l->gpus = gpus;
    l->force = mo_alloc(s->env, sizeof *l->force);
    l->coming = mo_alloc(s->env, sizeof *l->coming);
    l->hosts = mo_alloc(s->env, (size_t)gpus->n_gpus * (size_t)s->max_tenants);
    l->scratch_bytes = mo_plan_scratch_bytes(s->max_tenants, gpus->n_kinds, gpus->n_gpus);
    l->scratch = mo_alloc(s->env, l->scratch_bytes);
    for (int i = 0; i < MO_MAX_CORES; i++)
        l->at[i] = -1;
    return l->force && l->coming && l->hosts && l->scratch ? MOIRE_OK : MOIRE_ENOMEM;
}

void mo_sched_lets_destroy(struct mo_sched *s) {
    struct mo_sched_lets *l = s->lets;
    if (!l) return;
    mo_free(s->env, l->force);
    mo_free(s->env, l->coming);
    mo_free(s->env, l->hosts);
    mo_free(s->env, l->scratch);
    mo_free(s->env, l);
}

/* --- memory --------------------------------------------------------------------------------------------- */
static int64_t weight(const struct mo_sched *s, int gpu, int tenant) {
    const struct mo_share_profile *p = mo_view_share(&s->view, tenant, gpu);
    return p ? p->memory_bytes : 0;
}

static bool has_let(const struct mo_lets_plan *plan, const struct mo_planned_let *let, int tenant) {
    for (int i = 0; i < plan->n_lets; i++) {
        const struct mo_planned_let *l = &plan->lets[i];
        if (l->gpu != let->gpu || l->first != let->first || l->units != let->units) continue;
        for (int e = 0; e < l->n_entries; e++)
            if (l->entries[e].tenant == tenant) return true;
    }
    return false;
}

static bool has_tenant(const struct mo_lets_plan *plan, int n_lets, int gpu, int tenant) {
    for (int i = 0; i < n_lets; i++)
        for (int e = 0; plan->lets[i].gpu == gpu && e < plan->lets[i].n_entries; e++)
            if (plan->lets[i].entries[e].tenant == tenant) return true;
    return false;
}

/* What the plan's lets on a GPU hold, without what those of `beside` (or NULL) hold already. */
static int64_t memory_of(const struct mo_sched *s, const struct mo_lets_plan *plan, int gpu,
                         const struct mo_lets_plan *beside) {
    bool shared = mo_gpus_kind(s->lets->gpus, gpu)->shared_weights;
    int64_t sum = 0;
    for (int i = 0; i < plan->n_lets; i++) {
        const struct mo_planned_let *l = &plan->lets[i];
        for (int e = 0; l->gpu == gpu && e < l->n_entries; e++) {
            int t = l->entries[e].tenant;
            bool there = shared ? has_tenant(plan, i, gpu, t) : false;
            if (beside) there |= shared ? has_tenant(beside, beside->n_lets, gpu, t) : has_let(beside, l, t);
            if (!there) sum += weight(s, gpu, t);
        }
    }
    return sum;
}

/* --- checks --------------------------------------------------------------------------------------------- */
static bool entry_is_good(const struct mo_sched *s, const struct mo_planned_let *l, int e) {
    int t = l->entries[e].tenant;
    return t >= 0 && t < s->view.n_tenants && l->entries[e].batch >= 1 && mo_view_share(&s->view, t, l->gpu);
}

static bool let_is_good(const struct mo_sched *s, const struct mo_planned_let *l, bool any_size,
                        unsigned *taken) {
    const struct mo_gpus *g = s->lets->gpus;
    if (l->gpu < 0 || l->gpu >= g->n_gpus || l->n_entries < 1 || l->n_entries > MO_LET_TENANTS) return false;
    if (s->lets->lost[l->gpu]) return false;
    const struct mo_plan_kind *kind = mo_gpus_kind(g, l->gpu);
    bool size = any_size;
    for (int i = 0; i < kind->n_sizes; i++)
        size |= kind->sizes[i] == l->units;
    if (!size || l->units < 1 || l->first < 0 || l->first + l->units > kind->units) return false;
    unsigned units = ((1u << l->units) - 1) << l->first;
    if (taken[l->gpu] & units) return false;
    taken[l->gpu] |= units;
    for (int e = 0; e < l->n_entries; e++)
        if (!entry_is_good(s, l, e)) return false;
    return true;
}

static bool plan_is_good(const struct mo_sched *s, const struct mo_lets_plan *plan) {
    unsigned taken[MO_PLAN_GPUS] = {0};
    int lets[MO_PLAN_GPUS] = {0};
    if (plan->n_lets < 0 || plan->n_lets > MO_PLAN_LETS) return false;
    for (int i = 0; i < plan->n_lets; i++) {
        if (!let_is_good(s, &plan->lets[i], plan->side_by_side, taken)) return false;
        int gpu = plan->lets[i].gpu;
        if (++lets[gpu] > mo_gpus_kind(s->lets->gpus, gpu)->max_lets && !plan->side_by_side) return false;
    }
    for (int g = 0; g < s->lets->gpus->n_gpus; g++)
        if (memory_of(s, plan, g, NULL) > mo_gpus_kind(s->lets->gpus, g)->memory_bytes) return false;
    for (int i = 0; i < s->view.n_tenants; i++) { /* a batch that is cut must have where to go on */
        int gpu = s->tenant_views[i].paused_gpu;
        if (gpu >= 0 && !lets[gpu] && !s->lets->lost[gpu]) return false;
    }
    return true;
}

/* NULL: these units are no let in force. */
static const struct mo_planned_let *let_at(const struct mo_sched_lets *l, const struct mo_cores *cores) {
    int lead = mo_cores_next(cores, -1), at = lead >= 0 ? l->at[lead] : -1;
    if (at < 0) return NULL;
    const struct mo_planned_let *let = &l->force->lets[at];
    struct mo_cores whole = mo_gpus_let(l->gpus, let);
    bool same = mo_cores_subset(&whole, cores) && mo_cores_subset(cores, &whole);
    return same && !l->down[let->gpu] ? let : NULL;
}

bool mo_sched_is_let(const struct mo_sched *s, const struct mo_cores *cores) {
    return let_at(s->lets, cores) != NULL;
}

bool mo_sched_let_runs(const struct mo_sched *s, int tenant, const struct mo_cores *cores) {
    const struct mo_sched_lets *l = s->lets;
    const struct mo_planned_let *let = let_at(l, cores);
    if (!let) return false;
    if (mo_gpus_kind(l->gpus, let->gpu)->shared_weights) return l->hosts[let->gpu * s->max_tenants + tenant];
    for (int e = 0; e < let->n_entries; e++)
        if (let->entries[e].tenant == tenant) return true;
    return false;
}

bool mo_sched_let_of(const struct mo_sched *s, int tenant, int gpu, struct mo_cores *out) {
    const struct mo_sched_lets *l = s->lets;
    for (int i = 0; i < l->force->n_lets; i++) {
        *out = mo_gpus_let(l->gpus, &l->force->lets[i]);
        if (gpu >= 0 ? l->force->lets[i].gpu == gpu && mo_sched_is_let(s, out)
                     : mo_sched_let_runs(s, tenant, out))
            return true;
    }
    return false;
}

static bool has_gpu(const struct mo_lets_plan *plan, int gpu) {
    for (int i = 0; i < plan->n_lets; i++)
        if (plan->lets[i].gpu == gpu) return true;
    return false;
}

bool mo_sched_gpu_stays(const struct mo_sched *s, int gpu) {
    return has_gpu(s->lets->pending ? s->lets->coming : s->lets->force, gpu);
}

/* --- from one plan to the next -------------------------------------------------------------------------- */
static void install(struct mo_sched *s) {
    struct mo_sched_lets *l = s->lets;
    struct mo_lets_plan *old = l->force;
    l->force = l->coming;
    l->coming = old;
    l->pending = false;
    memcpy(l->down, l->lost, sizeof l->down);
    memset(l->hosts, 0, (size_t)l->gpus->n_gpus * (size_t)s->max_tenants);
    for (int i = 0; i < MO_MAX_CORES; i++)
        l->at[i] = -1;
    for (int i = 0; i < l->force->n_lets; i++) {
        const struct mo_planned_let *let = &l->force->lets[i];
        l->at[l->gpus->first[let->gpu] + let->first] = (short)i;
        for (int e = 0; e < let->n_entries; e++)
            l->hosts[let->gpu * s->max_tenants + let->entries[e].tenant] = true;
    }
    s->view.lets = l->force;
    s->view.lets_coming = false;
    s->stats.reorganised++;
    s->stats.incomplete += !l->force->complete;
}

/* Do the plans have other lets, or other tenants on one, on this GPU? */
static bool differ(const struct mo_lets_plan *a, const struct mo_lets_plan *b, int gpu) {
    int n[2] = {0, 0};
    for (int i = 0; i < a->n_lets; i++)
        for (int e = 0; a->lets[i].gpu == gpu && e < a->lets[i].n_entries; e++, n[0]++)
            if (!has_let(b, &a->lets[i], a->lets[i].entries[e].tenant)) return true;
    for (int i = 0; i < b->n_lets; i++)
        n[1] += b->lets[i].gpu == gpu ? b->lets[i].n_entries : 0;
    return n[0] != n[1];
}

bool mo_sched_lets_ask(struct mo_sched *s, const struct mo_lets_plan *plan) {
    struct mo_sched_lets *l = s->lets;
    if (l->pending || !plan || !plan_is_good(s, plan)) return false;
    *l->coming = *plan;
    l->pending = s->view.lets_coming = true;
    int64_t longest = 0; /* the first plan is there before anything is to be served */
    for (int g = 0; g < l->gpus->n_gpus && s->view.lets; g++) {
        int64_t both = memory_of(s, l->force, g, NULL) + memory_of(s, plan, g, l->force);
        l->down[g] = l->lost[g] || both > mo_gpus_kind(l->gpus, g)->memory_bytes;
        int64_t cost = l->gpus->prepare_ns[l->gpus->kind[g]];
        if (cost > longest && differ(plan, l->force, g)) longest = cost;
    }
    s->ops->prepare(s->engine, longest);
    return true;
}

const struct mo_lets_plan *mo_sched_lets_coming(const struct mo_sched *s) {
    return s->lets->pending ? s->lets->coming : NULL;
}

void mo_sched_prepared(struct mo_sched *s, int64_t now) {
    if (!s->lets->pending) return;
    install(s);
    mo_sched_dispatch(s, MO_EVENT_LETS, -1, -1, now);
}

static void forget(struct mo_lets_plan *plan, int tenant) {
    for (int i = 0; i < plan->n_lets; i++) {
        struct mo_planned_let *let = &plan->lets[i];
        int kept = 0;
        for (int e = 0; e < let->n_entries; e++)
            if (let->entries[e].tenant != tenant) let->entries[kept++] = let->entries[e];
        let->n_entries = kept;
    }
}

void mo_sched_lets_forget(struct mo_sched *s, int tenant) {
    struct mo_sched_lets *l = s->lets;
    forget(l->force, tenant);
    forget(l->coming, tenant);
    for (int g = 0; g < l->gpus->n_gpus; g++)
        l->hosts[g * s->max_tenants + tenant] = false;
}

/* --- lost GPUs ------------------------------------------------------------------------------------------ */
void mo_sched_gpu_lost(struct mo_sched *s, int gpu, bool lost, int64_t now) {
    struct mo_sched_lets *l = s->lets;
    int others = 0;
    for (int g = 0; g < l->gpus->n_gpus; g++)
        others += g != gpu && !l->lost[g];
    if (l->lost[gpu] == lost || (lost && !others)) return;
    l->lost[gpu] = lost;
    if (lost || !l->pending) l->down[gpu] = lost;
    for (int i = 0; lost && i < s->view.n_tenants; i++)
        while (s->tenant_views[i].paused_gpu == gpu && s->tenants[i].paused.n)
            mo_sched_resolve(s, s->tenants[i].paused.slot[0], MOIRE_EDEVICE, now);
    mo_sched_dispatch(s, MO_EVENT_GPUS, -1, -1, now);
}
