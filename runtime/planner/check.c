/* SPDX-License-Identifier: Apache-2.0
 * check.c - see check.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/check.h"

static const struct mo_plan_kind *kind_of(const struct mo_plan_view *view, const struct mo_planned_let *let) {
    return &view->kinds[view->gpu_kind[let->gpu]];
}
static const struct mo_share_profile *profile_of(const struct mo_plan_view *view,
                                                 const struct mo_planned_let *let, int entry) {
    return view->tenants[let->entries[entry].tenant].profile[view->gpu_kind[let->gpu]];
}
/* Of k lets that are no more than places on a GPU each has a k-th of it. */
static int share_of(const struct mo_plan_view *view, const struct mo_lets_plan *plan,
                    const struct mo_planned_let *let) {
    int k = 1;
    if (!plan->side_by_side) return mo_share_of_units(let->units, kind_of(view, let)->units);
    for (int l = 0; l < plan->n_lets; l++)
        k += &plan->lets[l] != let && plan->lets[l].gpu == let->gpu;
    return MO_SHARE_WHOLE / k;
}

/* The most of each resource that anything on the let uses at any time. */
static struct mo_share_use most_use(const struct mo_plan_view *view, const struct mo_lets_plan *plan,
                                    const struct mo_planned_let *let) {
    struct mo_share_use most = {0};
    for (int e = 0; e < let->n_entries; e++)
        for (int b = 1; b <= let->entries[e].batch; b++) {
            struct mo_share_use use = mo_share_use_at(profile_of(view, let, e), b, share_of(view, plan, let));
            most.sm = fmax(most.sm, use.sm);
            most.l2 = fmax(most.l2, use.l2);
            most.dram = fmax(most.dram, use.dram);
        }
    return most;
}

static double slowdown_of(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int at,
                          int entry) {
    const struct mo_planned_let *let = &plan->lets[at];
    struct mo_share_use others[MO_PLAN_UNITS];
    double worst = 1;
    int n = 0;
    for (int l = 0; l < plan->n_lets && n < MO_PLAN_UNITS; l++)
        if (l != at && plan->lets[l].gpu == let->gpu) others[n++] = most_use(view, plan, &plan->lets[l]);
    for (int b = 1; b <= let->entries[entry].batch; b++) {
        struct mo_share_use self =
            mo_share_use_at(profile_of(view, let, entry), b, share_of(view, plan, let));
        worst = fmax(worst, mo_interference(&kind_of(view, let)->interference, &self, others, n));
    }
    return worst;
}

static int64_t batch_time(const struct mo_plan_view *view, const struct mo_lets_plan *plan,
                          const struct mo_planned_let *let, int entry, double slowdown) {
    const struct mo_share_profile *p = profile_of(view, let, entry);
    int batch = let->entries[entry].batch;
    int64_t solo = mo_share_latency(p, batch, share_of(view, plan, let));
    return solo >= MO_SHARE_NEVER ? solo : (int64_t)((double)solo * slowdown) + mo_share_copy(p, batch);
}

void mo_plan_latency(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int at, int entry,
                     struct mo_plan_latency *out) {
    const struct mo_planned_let *let = &plan->lets[at];
    int64_t duty = let->duty_ns;
    *out = (struct mo_plan_latency){.slowdown = slowdown_of(view, plan, at, entry)};
    for (int e = 0; e < let->n_entries; e++) {
        double slowdown = e == entry ? out->slowdown : slowdown_of(view, plan, at, e);
        int64_t time = batch_time(view, plan, let, e, slowdown);
        if (e == entry) out->batch_ns = time;
        out->cycle_ns = out->cycle_ns + time < MO_SHARE_NEVER ? out->cycle_ns + time : MO_SHARE_NEVER;
    }
    if (out->cycle_ns > duty) duty = out->cycle_ns;
    out->worst_ns = duty + out->batch_ns;
    double mean = let->entries[entry].batch, root = view->burst;
    if (root > 0) { /* mean + burst sqrt(mean) = batch */
        double x = (sqrt(root * root + 4 * mean) - root) / 2;
        mean = x * x;
    }
    out->served = duty > 0 ? mean * 1e9 / (double)duty : 0;
}

static int check_entry(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int at, int e,
                       moire_error *err) {
    const struct mo_planned_let *let = &plan->lets[at];
    const struct mo_let_entry *entry = &let->entries[e];
    const struct mo_plan_tenant *t = &view->tenants[entry->tenant];
    struct mo_plan_latency model;
    if (!t->profile[view->gpu_kind[let->gpu]])
        return mo_fail(err, MOIRE_EINVAL, "GPU %d, let %d: '%s' has no profile for it", let->gpu, at,
                       t->name);
    if (entry->batch < 1 || !(entry->rate > 0))
        return mo_fail(err, MOIRE_EINVAL, "GPU %d, let %d: '%s' has no batch or no rate", let->gpu, at,
                       t->name);
    mo_plan_latency(view, plan, at, e, &model);
    /* a microsecond of rounding, and a millionth of the rate */
    if (model.cycle_ns > let->duty_ns + 1000)
        return mo_fail(err, MOIRE_EINVAL, "GPU %d, let %d: a cycle of %.3f ms takes %.3f ms", let->gpu, at,
                       (double)let->duty_ns * 1e-6, (double)model.cycle_ns * 1e-6);
    if (t->target_ns && model.worst_ns > t->target_ns + 1000)
        return mo_fail(err, MOIRE_EINVAL, "GPU %d, let %d: '%s' takes up to %.3f ms, its target is %.3f ms",
                       let->gpu, at, t->name, (double)model.worst_ns * 1e-6, (double)t->target_ns * 1e-6);
    if (model.served * (1 + 1e-5) < entry->rate)
        return mo_fail(err, MOIRE_EINVAL, "GPU %d, let %d: '%s' gets %.3f queries/s of the planned %.3f",
                       let->gpu, at, t->name, model.served, entry->rate);
    return MOIRE_OK;
}

static bool allowed_size(const struct mo_plan_kind *kind, int units) {
    for (int s = 0; s < kind->n_sizes; s++)
        if (kind->sizes[s] == units) return true;
    return false;
}

static int check_let(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int at,
                     moire_error *err) {
    const struct mo_planned_let *let = &plan->lets[at];
    if (let->gpu < 0 || let->gpu >= view->n_gpus)
        return mo_fail(err, MOIRE_EINVAL, "let %d: there is no GPU %d", at, let->gpu);
    const struct mo_plan_kind *kind = kind_of(view, let);
    if (let->first < 0 || let->first + let->units > kind->units ||
        (!plan->side_by_side && !allowed_size(kind, let->units)))
        return mo_fail(err, MOIRE_EINVAL, "GPU %d, let %d: units %d to %d are no let of %s", let->gpu, at,
                       let->first, let->first + let->units - 1, kind->name);
    if (let->n_entries < 1 || let->n_entries > view->max_share || let->n_entries > MO_LET_TENANTS)
        return mo_fail(err, MOIRE_EINVAL, "GPU %d, let %d: %d tenants, %d at most", let->gpu, at,
                       let->n_entries, view->max_share);
    for (int e = 0; e < let->n_entries; e++)
        if (let->entries[e].tenant < 0 || let->entries[e].tenant >= view->n_tenants)
            return mo_fail(err, MOIRE_EINVAL, "GPU %d, let %d: there is no tenant %d", let->gpu, at,
                           let->entries[e].tenant);
    for (int l = 0; l < at; l++) {
        const struct mo_planned_let *o = &plan->lets[l];
        if (o->gpu == let->gpu && o->first < let->first + let->units && let->first < o->first + o->units)
            return mo_fail(err, MOIRE_EINVAL, "GPU %d: lets %d and %d overlap", let->gpu, l, at);
    }
    return MOIRE_OK;
}

static bool seen_before(const struct mo_lets_plan *plan, int let, int tenant) {
    for (int l = 0; l < let; l++)
        for (int e = 0; plan->lets[l].gpu == plan->lets[let].gpu && e < plan->lets[l].n_entries; e++)
            if (plan->lets[l].entries[e].tenant == tenant) return true;
    return false;
}

static int check_gpu(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int gpu,
                     moire_error *err) {
    const struct mo_plan_kind *kind = &view->kinds[view->gpu_kind[gpu]];
    int64_t memory = 0;
    int lets = 0;
    for (int l = 0; l < plan->n_lets; l++) {
        const struct mo_planned_let *let = &plan->lets[l];
        if (let->gpu != gpu) continue;
        lets++;
        for (int e = 0; e < let->n_entries; e++) {
            const struct mo_share_profile *p = profile_of(view, let, e);
            if (p && !(kind->shared_weights && seen_before(plan, l, let->entries[e].tenant)))
                memory += p->memory_bytes;
        }
    }
    if (lets > kind->max_lets && !plan->side_by_side)
        return mo_fail(err, MOIRE_EINVAL, "GPU %d: %d lets, %s has %d at most", gpu, lets, kind->name,
                       kind->max_lets);
    if (memory > kind->memory_bytes)
        return mo_fail(err, MOIRE_EINVAL, "GPU %d: its lets hold %.3f GB, %s has %.3f", gpu,
                       (double)memory * 1e-9, kind->name, (double)kind->memory_bytes * 1e-9);
    return MOIRE_OK;
}

static int check_tenant(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int tenant,
                        moire_error *err) {
    const struct mo_planned_tenant *t = &plan->tenants[tenant];
    double sum = 0;
    for (int l = 0; l < plan->n_lets; l++)
        for (int e = 0; e < plan->lets[l].n_entries; e++)
            if (plan->lets[l].entries[e].tenant == tenant) sum += plan->lets[l].entries[e].rate;
    if (fabs(sum - t->placed) > 1e-5 * (sum + t->placed))
        return mo_fail(err, MOIRE_EINVAL, "'%s': the plan says %.3f queries/s, its lets say %.3f",
                       view->tenants[tenant].name, t->placed, sum);
    if (plan->complete && !view->tenants[tenant].best_effort && t->placed < t->rate * (1 - 1e-5))
        return mo_fail(err, MOIRE_EINVAL, "'%s': the plan says complete, but places %.3f of %.3f queries/s",
                       view->tenants[tenant].name, t->placed, t->rate);
    return MOIRE_OK;
}

int mo_plan_check(const struct mo_plan_view *view, const struct mo_lets_plan *plan, moire_error *err) {
    int code = MOIRE_OK;
    if (plan->n_tenants != view->n_tenants || plan->n_lets < 0 || plan->n_lets > MO_PLAN_LETS)
        return mo_fail(err, MOIRE_EINVAL, "a plan for %d tenants of %d, with %d lets", plan->n_tenants,
                       view->n_tenants, plan->n_lets);
    for (int l = 0; !code && l < plan->n_lets; l++)
        code = check_let(view, plan, l, err);
    for (int g = 0; !code && g < view->n_gpus; g++)
        code = check_gpu(view, plan, g, err);
    for (int l = 0; l < plan->n_lets; l++)
        for (int e = 0; !code && e < plan->lets[l].n_entries; e++)
            code = check_entry(view, plan, l, e, err);
    for (int t = 0; !code && t < view->n_tenants; t++)
        code = check_tenant(view, plan, t, err);
    return code;
}
