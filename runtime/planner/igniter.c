/* SPDX-License-Identifier: Apache-2.0
 * igniter.c - iGniter (Xu et al., IEEE TPDS 2023): for each workload a batch and the least share by formula,
 * then the GPU where placing it costs the fewest shares in all.
 *
 * With T half of the target, R the rate and d the time to bring a query in, its Theorem 1 gives
 *
 *   batch = ceil(T R / (1 + R d)),
 *
 * the queries that come while a batch is not being loaded, and as share the least on which that batch takes
 * no longer than T alone.  Workloads are placed by falling share: on each GPU in use the new one gets its
 * least share, and while anybody there would take too long beside the others, he gets a step more; the GPU
 * where the shares grow least has it, and an empty one is begun when none holds it.  Lets are never shared by
 * turns.
 *
 * What is ours: times and use come from the profiles and interference from the machine's model, as every
 * planner here gets them, in place of iGniter's fits of kernels, power and frequency.  Shares are the sizes
 * of lets that the machine has.  The batch is held to what the profile has, and its cycle D to min(T, batch /
 * R), so that a query's wait and its batch are within the target.  A tenant that no GPU holds whole (iGniter
 * gives up on it) is placed in parts, each three quarters of the last that did not fit. */
#include <string.h>
#include "runtime/planner/model.h"
#include "runtime/planner/planners.h"

/* A workload on a let. */
struct placed {
    int tenant, size, batch;
    double rate, duty_ns;
    int64_t latency_ns;
};

struct gpu {
    int kind, n;
    struct placed lets[MO_PLAN_UNITS];
};

struct work {
    struct mo_space *space;
    int n_gpus;
    struct gpu *gpus, *tried; /* tried: the GPU as it would be, for one candidate */
};

static const struct mo_plan_kind *kind_of(const struct work *w, const struct gpu *gpu) {
    return &w->space->view->kinds[gpu->kind];
}

static const struct mo_share_profile *profile_of(const struct work *w, int kind, int tenant) {
    return w->space->view->tenants[w->space->index[tenant]].profile[kind];
}

/* --- the two formulas ----------------------------------------------------------------------------------- */
/* T: half of the target; without one, the time of the largest batch on a whole GPU, twice. */
static double half_target(const struct work *w, int kind, int tenant) {
    const struct mo_share_profile *p = profile_of(w, kind, tenant);
    int64_t target = mo_space_target(w->space, tenant);
    if (target < MO_SHARE_NEVER) return (double)target / 2;
    return 2 * (double)(mo_share_latency(p, p->max_batch, MO_SHARE_WHOLE) + mo_share_copy(p, p->max_batch));
}

/* Batch and cycle of a workload; false: the model does not run on that kind. */
static bool set_batch(const struct work *w, int kind, struct placed *let) {
    const struct mo_share_profile *p = profile_of(w, kind, let->tenant);
    if (!p) return false;
    double half = half_target(w, kind, let->tenant);
    double load = p->copy_bytes_ns > 0 ? (double)p->in_bytes / p->copy_bytes_ns : 0; /* d, ns */
    double while_ns = half / (1 + let->rate * 1e-9 * load);
    let->batch = mo_plan_batch(let->rate, w->space->view->burst, (int64_t)while_ns);
    if (let->batch > p->max_batch) let->batch = p->max_batch;
    let->duty_ns = w->space->mean[let->batch] * 1e9 / let->rate;
    if (let->duty_ns > half) let->duty_ns = half;
    return true;
}

/* Time of its batch on a size beside others; false: longer than its cycle. */
static bool in_time(struct work *w, int kind, struct placed *let, const struct mo_share_use *others, int n) {
    const double rounding_ns = 1;
    const struct mo_plan_cell *cell = mo_space_cell(w->space, kind, let->size, let->tenant);
    w->space->steps++;
    if (let->batch > cell->max_batch) return false;
    double slowdown = mo_space_slowdown(w->space, kind, let->size, let->tenant, others, n);
    let->latency_ns = mo_cell_time(cell, let->batch, slowdown);
    return (double)let->latency_ns <= let->duty_ns + rounding_ns;
}

/* The least size on which it is in time alone; false: not even a whole GPU. */
static bool set_least_size(struct work *w, int kind, struct placed *let) {
    for (let->size = 0; let->size < w->space->view->kinds[kind].n_sizes; let->size++)
        if (in_time(w, kind, let, NULL, 0)) return true;
    return false;
}

/* --- placement ------------------------------------------------------------------------------------------ */
static int units_of(const struct work *w, const struct gpu *gpu) {
    int sum = 0;
    for (int l = 0; l < gpu->n; l++)
        sum += kind_of(w, gpu)->sizes[gpu->lets[l].size];
    return sum;
}

static bool on_earlier_let(const struct gpu *gpu, int let) {
    for (int l = 0; l < let; l++)
        if (gpu->lets[l].tenant == gpu->lets[let].tenant) return true;
    return false;
}

static bool memory_fits(const struct work *w, const struct gpu *gpu) {
    int64_t sum = 0;
    for (int l = 0; l < gpu->n; l++)
        if (!(kind_of(w, gpu)->shared_weights && on_earlier_let(gpu, l)))
            sum += mo_space_memory(w->space, gpu->kind, gpu->lets[l].tenant);
    return sum <= kind_of(w, gpu)->memory_bytes;
}

/* One pass of iGniter's allocation: whoever takes too long gets a step more.  Returns how many did, -1 when
 * somebody has the whole GPU already. */
static int widen(struct work *w, struct gpu *gpu) {
    struct mo_share_use others[MO_PLAN_UNITS];
    int step[MO_PLAN_UNITS] = {0}, widened = 0;
    for (int l = 0; l < gpu->n; l++) {
        int n = 0;
        for (int o = 0; o < gpu->n; o++)
            if (o != l)
                others[n++] = mo_space_cell(w->space, gpu->kind, gpu->lets[o].size, gpu->lets[o].tenant)->out;
        step[l] = !in_time(w, gpu->kind, &gpu->lets[l], others, n);
    }
    for (int l = 0; l < gpu->n; l++) {
        gpu->lets[l].size += step[l];
        if (gpu->lets[l].size == kind_of(w, gpu)->n_sizes) return -1;
        widened += step[l];
    }
    return widened;
}

/* Puts a workload with its least share on a GPU and widens until everybody is in time. */
static bool try_gpu(struct work *w, struct gpu *gpu, const struct placed *let) {
    if (gpu->n >= kind_of(w, gpu)->max_lets || gpu->n >= MO_PLAN_UNITS) return false;
    gpu->lets[gpu->n++] = *let;
    if (!memory_fits(w, gpu)) return false;
    for (int widened = 1; widened > 0;) {
        if (units_of(w, gpu) > kind_of(w, gpu)->units) return false;
        widened = widen(w, gpu);
        if (widened < 0) return false;
    }
    return true;
}

/* The GPU, in use or not, whose shares grow least; false: none holds it. */
static bool place_on(struct work *w, int tenant, double rate, bool in_use) {
    struct gpu best;
    int at = -1;
    double least = 2;
    for (int g = 0; g < w->n_gpus; g++) {
        const struct gpu *gpu = &w->gpus[g];
        struct placed let = {.tenant = tenant, .rate = rate};
        if ((gpu->n > 0) != in_use || !set_batch(w, gpu->kind, &let) || !set_least_size(w, gpu->kind, &let))
            continue;
        *w->tried = *gpu;
        if (!try_gpu(w, w->tried, &let)) continue;
        double grown = (double)(units_of(w, w->tried) - units_of(w, gpu)) / kind_of(w, gpu)->units;
        if (grown < least) {
            least = grown;
            best = *w->tried;
            at = g;
        }
    }
    if (at >= 0) w->gpus[at] = best;
    return at >= 0;
}

static bool place(struct work *w, int tenant, double rate) {
    return place_on(w, tenant, rate, true) || place_on(w, tenant, rate, false);
}

/* The most that any whole GPU serves of it. */
static double most_of(const struct work *w, int tenant) {
    double most = 0;
    for (int g = 0; g < w->n_gpus; g++) {
        int kind = w->gpus[g].kind, whole = w->space->view->kinds[kind].n_sizes - 1;
        double rate = mo_space_cell(w->space, kind, whole, tenant)->rate;
        if (rate > most) most = rate;
    }
    return most;
}

static void place_all_of(struct work *w, int tenant) {
    const double smaller = 0.75, nothing = 1.0 / 64, rounding = 1e-9;
    double left = w->space->rate[tenant], most = most_of(w, tenant), part = left;
    while (left > rounding * w->space->rate[tenant] && most > 0) {
        if (part > left) part = left;
        if (part > most) part = most;
        if (place(w, tenant, part)) {
            left -= part;
            continue;
        }
        part *= smaller;
        if (part < nothing * most && part < nothing * w->space->rate[tenant]) return;
    }
}

/* The least share, 0 to 1, of the whole rate on any kind; 2: no GPU holds it whole. */
static double least_share(struct work *w, int tenant) {
    double least = 2;
    for (int k = 0; k < w->space->view->n_kinds; k++) {
        const struct mo_plan_kind *kind = &w->space->view->kinds[k];
        struct placed let = {.tenant = tenant, .rate = w->space->rate[tenant]};
        if (!set_batch(w, k, &let) || !set_least_size(w, k, &let)) continue;
        double share = (double)kind->sizes[let.size] / kind->units;
        if (share < least) least = share;
    }
    return least;
}

/* Critical tenants first, each group by falling share; of equals the first in canonical order. */
static void in_order(struct work *w, int order[MO_PLAN_TENANTS]) {
    double share[MO_PLAN_TENANTS];
    for (int t = 0; t < w->space->n; t++) {
        int at = t;
        share[t] = least_share(w, t);
        for (; at > 0 && share[order[at - 1]] < share[t] &&
               (order[at - 1] < w->space->n_critical) == (t < w->space->n_critical);
             at--)
            order[at] = order[at - 1];
        order[at] = t;
    }
}

static void write_plan(const struct work *w, struct mo_lets_plan *out) {
    out->n_lets = 0;
    for (int g = 0; g < w->n_gpus; g++)
        for (int l = 0, first = 0; l < w->gpus[g].n; l++) {
            const struct placed *let = &w->gpus[g].lets[l];
            struct mo_planned_let *to = &out->lets[out->n_lets++];
            *to = (struct mo_planned_let){.gpu = g, .first = first, .duty_ns = (int64_t)let->duty_ns};
            to->units = kind_of(w, &w->gpus[g])->sizes[let->size];
            to->entries[to->n_entries++] = (struct mo_let_entry){.tenant = w->space->index[let->tenant],
                                                                 .batch = let->batch,
                                                                 .rate = let->rate,
                                                                 .latency_ns = let->latency_ns};
            first += to->units;
        }
    out->steps = w->space->steps;
}

static int plan(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    struct mo_space space;
    struct work w = {.space = &space, .n_gpus = view->n_gpus};
    int order[MO_PLAN_TENANTS], code = mo_space_open(&space, view, scratch, true, err);
    if (code) return code;
    w.gpus = mo_scratch_take(scratch, (size_t)view->n_gpus + 1, sizeof *w.gpus);
    if (!w.gpus)
        return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    w.tried = &w.gpus[view->n_gpus];
    for (int g = 0; g < view->n_gpus; g++)
        w.gpus[g].kind = view->gpu_kind[g];
    in_order(&w, order);
    for (int i = 0; i < space.n; i++)
        place_all_of(&w, order[i]);
    write_plan(&w, out);
    return MOIRE_OK;
}

const struct mo_planner mo_planner_igniter = {
    .name = "igniter",
    .description = "iGniter: batch and least share by formula, where shares grow least",
    .plan = plan};
