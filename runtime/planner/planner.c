/* SPDX-License-Identifier: Apache-2.0
 * planner.c - the way from a view to a plan that is the same for every planner; see planner.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/planner/beam.h"
#include "runtime/planner/check.h"
#include "runtime/planner/model.h"
#include "runtime/planner/exact.h"
#include "runtime/planner/planners.h"
#include "runtime/planner/settle.h"

static const struct mo_planner *const planners[] = {&mo_planner_moire,
                                                    &mo_planner_ideal,
                                                    &mo_planner_beam,
                                                    &mo_planner_gpulet_int,
                                                    &mo_planner_gpulet,
                                                    &mo_planner_igniter,
                                                    &mo_planner_gslice,
                                                    &mo_planner_sbp_half,
                                                    &mo_planner_sbp,
                                                    &mo_planner_mps,
                                                    NULL};

static const struct mo_planner *const published[] = {&mo_planner_partitions, &mo_planner_released,
                                                     &mo_planner_sbp_paper, NULL};

const struct mo_planner *const *mo_planners_published(void) {
    return published;
}

const struct mo_planner *const *mo_planners(void) {
    return planners;
}

const struct mo_planner *mo_planner_find(const char *name) {
    for (int i = 0; planners[i]; i++)
        if (!strcmp(planners[i]->name, name)) return planners[i];
    for (int i = 0; published[i]; i++)
        if (!strcmp(published[i]->name, name)) return published[i];
    return NULL;
}

void mo_plan_sizes(struct mo_plan_kind *kind, int min, int align) {
    kind->n_sizes = 0;
    for (int u = min; u > 0 && u < kind->units && kind->n_sizes<MO_PLAN_SIZES - 1; u += align> 0 ? align : 1)
        kind->sizes[kind->n_sizes++] = u;
    kind->sizes[kind->n_sizes++] = kind->units;
}

/* Tells what is needed at most: the tables of the model dominate; a search takes a few placements. */
size_t mo_plan_scratch_bytes(int n_tenants, int n_kinds, int n_gpus) {
    size_t t = (size_t)n_tenants + 1, k = (size_t)n_kinds, g = (size_t)n_gpus + 1;
    size_t cells = t * k * MO_PLAN_SIZES;
    size_t tables = cells * ((MO_SHARE_BATCH + 1) * sizeof(int64_t) + 64 + sizeof(struct mo_plan_cell));
    size_t exact = mo_exact_scratch_bytes(n_kinds), beam = mo_beam_scratch_bytes(n_gpus);
    return tables + g * (96 << 10) + t * (4 << 10) + k * (64 << 10) + (exact > beam ? exact : beam);
}

static int check_kind(const struct mo_plan_kind *k, moire_error *err) {
    const char *name = k->name ? k->name : "(no name)";
    if (k->units < 1 || k->units > MO_PLAN_UNITS)
        return mo_fail(err, MOIRE_EINVAL, "GPU '%s': %d units, must be 1 to %d", name, k->units,
                       MO_PLAN_UNITS);
    if (k->n_sizes < 1 || k->n_sizes > MO_PLAN_SIZES || k->sizes[0] < 1)
        return mo_fail(err, MOIRE_EINVAL, "GPU '%s': it has no sizes of lets", name);
    for (int s = 1; s < k->n_sizes; s++)
        if (k->sizes[s] <= k->sizes[s - 1])
            return mo_fail(err, MOIRE_EINVAL, "GPU '%s': sizes of lets must rise", name);
    if (k->sizes[0] > k->units)
        return mo_fail(err, MOIRE_EINVAL,
                       "GPU '%s': too small for any let: it has %d units, the smallest let %d", name,
                       k->units, k->sizes[0]);
    if (k->sizes[k->n_sizes - 1] != k->units)
        return mo_fail(err, MOIRE_EINVAL, "GPU '%s': the largest let must be the whole GPU, %d units", name,
                       k->units);
    if (k->max_lets < 1 || k->memory_bytes < 0)
        return mo_fail(err, MOIRE_EINVAL, "GPU '%s': lets and memory must not be negative or none", name);
    const double *c =
        (const double[]){k->interference.l2_self, k->interference.l2_other, k->interference.dram_self,
                         k->interference.dram_other, k->interference.constant};
    for (int i = 0; i < 5; i++)
        if (!isfinite(c[i]))
            return mo_fail(err, MOIRE_EINVAL, "GPU '%s': constants of interference must be finite", name);
    return MOIRE_OK;
}

static int check_tenant(const struct mo_plan_view *view, int i, moire_error *err) {
    const struct mo_plan_tenant *t = &view->tenants[i];
    if (!t->name || !*t->name) return mo_fail(err, MOIRE_EINVAL, "tenant %d has no name", i);
    for (int j = 0; j < i; j++)
        if (!strcmp(view->tenants[j].name, t->name))
            return mo_fail(err, MOIRE_EINVAL, "two tenants are called '%s'", t->name);
    if (!(t->rate >= 0 && t->rate <= MO_PLAN_RATE))
        return mo_fail(err, MOIRE_EINVAL, "'%s': a rate of %g queries/s; must be 0 to %g", t->name, t->rate,
                       MO_PLAN_RATE);
    if (t->target_ns < 0 || t->target_ns > MO_PLAN_TARGET_NS)
        return mo_fail(err, MOIRE_EINVAL, "'%s': a target of %g s", t->name, (double)t->target_ns * 1e-9);
    if (!t->target_ns && !t->best_effort)
        return mo_fail(err, MOIRE_EINVAL, "'%s' has no target and is not best-effort", t->name);
    return MOIRE_OK;
}

int mo_plan_check_view(const struct mo_plan_view *v, moire_error *err) {
    int code = MOIRE_OK;
    if (v->n_tenants < 0 || v->n_tenants > MO_PLAN_TENANTS)
        return mo_fail(err, MOIRE_ELIMIT, "%d tenants, %d at most", v->n_tenants, MO_PLAN_TENANTS);
    if (v->n_gpus < 1 || v->n_gpus > MO_PLAN_GPUS || v->n_kinds < 1 || v->n_kinds > MO_PLAN_KINDS)
        return mo_fail(err, MOIRE_ELIMIT, "%d GPUs of %d kinds; 1 to %d of 1 to %d", v->n_gpus, v->n_kinds,
                       MO_PLAN_GPUS, MO_PLAN_KINDS);
    if (v->max_share < 1 || v->max_share > MO_LET_TENANTS)
        return mo_fail(err, MOIRE_EINVAL, "%d tenants on a let; 1 to %d", v->max_share, MO_LET_TENANTS);
    if (!(v->burst >= 0 && v->burst <= 10) || !(v->keep >= 0 && v->keep <= 1) || v->budget < 0)
        return mo_fail(err, MOIRE_EINVAL, "burst must be 0 to 10, keep 0 to 1, budget not negative");
    for (int k = 0; !code && k < v->n_kinds; k++)
        code = check_kind(&v->kinds[k], err);
    for (int g = 0; !code && g < v->n_gpus; g++)
        if (v->gpu_kind[g] < 0 || v->gpu_kind[g] >= v->n_kinds)
            code = mo_fail(err, MOIRE_EINVAL, "GPU %d: there is no kind %d", g, v->gpu_kind[g]);
    for (int i = 0; !code && i < v->n_tenants; i++)
        code = check_tenant(v, i, err);
    return code;
}

/* May the plan in force stay? */
static bool may_keep(const struct mo_plan_view *view) {
    const struct mo_lets_plan *old = view->in_force;
    if (!old || !old->complete || old->n_tenants != view->n_tenants) return false;
    for (int t = 0; t < view->n_tenants; t++) {
        double made_for = old->tenants[t].rate, rate = view->tenants[t].rate;
        if (rate > made_for || rate < made_for * (1 - view->keep)) return false;
        if (old->tenants[t].placed < made_for && view->tenants[t].best_effort) return false;
    }
    return mo_plan_check(view, old, NULL) == MOIRE_OK;
}

/* Time of one query on a whole GPU of the fastest kind, copies included; 0 = no profile. */
static int64_t alone_ns(const struct mo_plan_view *view, int tenant) {
    int64_t least = 0;
    for (int g = 0; g < view->n_gpus; g++) {
        const struct mo_share_profile *p = view->tenants[tenant].profile[view->gpu_kind[g]];
        int64_t ns = p ? mo_share_latency(p, 1, MO_SHARE_WHOLE) + mo_share_copy(p, 1) : 0;
        if (ns && (!least || ns < least)) least = ns;
    }
    return least;
}

static bool memory_fits(const struct mo_plan_view *view, int tenant) {
    for (int g = 0; g < view->n_gpus; g++) {
        const struct mo_share_profile *p = view->tenants[tenant].profile[view->gpu_kind[g]];
        if (p && p->memory_bytes <= view->kinds[view->gpu_kind[g]].memory_bytes) return true;
    }
    return false;
}

static void give_reason(const struct mo_plan_view *view, struct mo_lets_plan *plan, int tenant) {
    struct mo_planned_tenant *t = &plan->tenants[tenant];
    int64_t alone = alone_ns(view, tenant), target = view->tenants[tenant].target_ns;
    t->least_ns = 2 * alone;
    if (t->placed >= t->rate * (1 - 1e-6))
        t->reason = MO_PLAN_PLACED;
    else if (!alone)
        t->reason = MO_PLAN_NO_PROFILE;
    else if (target && 2 * alone > target)
        t->reason = MO_PLAN_TARGET;
    else
        t->reason = memory_fits(view, tenant) ? MO_PLAN_CAPACITY : MO_PLAN_MEMORY;
}

static void account(const struct mo_plan_view *view, struct mo_lets_plan *plan) {
    for (int l = 0; l < plan->n_lets; l++)
        for (int e = 0; e < plan->lets[l].n_entries; e++)
            plan->tenants[plan->lets[l].entries[e].tenant].placed += plan->lets[l].entries[e].rate;
    plan->complete = true;
    for (int t = 0; t < view->n_tenants; t++) {
        give_reason(view, plan, t);
        if (plan->tenants[t].reason != MO_PLAN_PLACED && !view->tenants[t].best_effort)
            plan->complete = false;
    }
}

int mo_plan_make(const struct mo_planner *planner, const struct mo_plan_view *view, void *scratch,
                 size_t scratch_bytes, struct mo_lets_plan *out, moire_error *err) {
    struct mo_plan_scratch memory = {.base = scratch, .bytes = scratch_bytes};
    int code = mo_plan_check_view(view, err);
    if (code) return code;
    if (may_keep(view)) {
        *out = *view->in_force;
        out->kept = true;
        out->steps = 0;
        return MOIRE_OK;
    }
    /* the lets themselves are written before they are read */
    memset(out, 0, offsetof(struct mo_lets_plan, lets));
    memset(out->tenants, 0, sizeof out->tenants);
    out->n_tenants = view->n_tenants;
    for (int t = 0; t < view->n_tenants; t++)
        out->tenants[t].rate = view->tenants[t].rate;
    code = planner->plan(view, &memory, out, err);
    if (code) return code;
    account(view, out);
    mo_plan_settle(view, out);
    return MOIRE_OK;
}

void mo_plan_why(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int tenant, char *text,
                 size_t n) {
    const struct mo_planned_tenant *t = &plan->tenants[tenant];
    const struct mo_plan_tenant *v = &view->tenants[tenant];
    text[0] = 0;
    switch (t->reason) {
    case MO_PLAN_PLACED:
        break;
    case MO_PLAN_NO_PROFILE:
        snprintf(text, n, "'%s' has no profile for any GPU of this machine", v->name);
        break;
    case MO_PLAN_TARGET:
        snprintf(text, n,
                 "'%s': the target of %.3f ms is out of reach; the least is %.3f ms, two queries' time",
                 v->name, (double)v->target_ns * 1e-6, (double)t->least_ns * 1e-6);
        break;
    case MO_PLAN_MEMORY:
        snprintf(text, n, "'%s' does not fit into the memory of any GPU that it has a profile for", v->name);
        break;
    case MO_PLAN_CAPACITY:
        snprintf(text, n, "'%s': %.1f of %.1f queries/s are placed, the rest finds no let", v->name,
                 t->placed, t->rate);
        break;
    }
}
