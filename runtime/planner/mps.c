/* SPDX-License-Identifier: Apache-2.0
 * mps.c - models side by side on whole GPUs that nobody cuts: MPS without percentages, the unpartitioned
 * baseline of gpu-let's Figure 5.
 *
 * Of k models on a GPU each is planned for as if all ran at all times: it has a k-th of the compute and
 * suffers from all others by the model of interference.  So a plan holds whatever runs.  Tenants come by
 * falling rate; each goes where most of its rate finds room beside those that are there, of equals where
 * fewest are.
 *
 * A let is only a place here: one unit, which says that the model is on the GPU.  Its times are those of the
 * sizes of mo_plan_side_by_side(), one for each k. */
#include "runtime/planner/model.h"
#include "runtime/planner/planners.h"

enum { ALL = 720720 }; /* whole for any k up to MO_PLAN_UNITS, which are no more than MO_PLAN_SIZES */

void mo_plan_side_by_side(const struct mo_plan_view *view, struct mo_plan_kind kinds[MO_PLAN_KINDS],
                          struct mo_plan_view *out) {
    *out = *view;
    out->kinds = kinds;
    for (int i = 0; i < view->n_kinds; i++) {
        kinds[i] = view->kinds[i];
        kinds[i].n_sizes = view->kinds[i].units;
        kinds[i].units = ALL;
        for (int k = kinds[i].n_sizes; k > 0; k--)
            kinds[i].sizes[kinds[i].n_sizes - k] = ALL / k;
    }
}

struct gpu {
    int kind, n;
    int64_t memory, duty_ns[MO_PLAN_UNITS];
    struct mo_piece pieces[MO_PLAN_UNITS];
};

struct work {
    struct mo_space *space;
    int n_gpus;
    struct gpu *gpus;
};

static const struct mo_plan_kind *kind_of(const struct work *w, const struct gpu *gpu) {
    return &w->space->view->kinds[gpu->kind];
}

/* What all but one piece of a GPU use where it has k of them. */
static int beside(const struct work *w, const struct gpu *gpu, int k, int self, struct mo_share_use *others) {
    int n = 0;
    for (int i = 0; i < gpu->n; i++)
        if (i != self)
            others[n++] =
                mo_space_cell(w->space, gpu->kind, kind_of(w, gpu)->n_sizes - k, gpu->pieces[i].tenant)->out;
    return n;
}

/* Batches and cycles of all pieces; false: one is late. */
static bool fits(struct work *w, struct gpu *gpu) {
    struct mo_share_use others[MO_PLAN_UNITS];
    const int size = kind_of(w, gpu)->n_sizes - gpu->n;
    for (int i = 0; i < gpu->n; i++) {
        const int n = beside(w, gpu, gpu->n, i, others);
        if (!mo_let_fits(w->space, gpu->kind, size, &gpu->pieces[i], 1, others, n, &gpu->duty_ns[i]))
            return false;
    }
    return true;
}

/* Puts as much of `rate` on the GPU as there is room for, and returns that; 0: none, and the GPU is
 * undefined. */
static double put(struct work *w, struct gpu *gpu, int tenant, double rate) {
    struct mo_share_use others[MO_PLAN_UNITS];
    const struct mo_plan_kind *kind = kind_of(w, gpu);
    const int k = gpu->n + 1, size = kind->n_sizes - k;
    gpu->memory += mo_space_memory(w->space, gpu->kind, tenant);
    if (k > kind->n_sizes || gpu->memory > kind->memory_bytes) return 0;
    for (int i = 0; i < gpu->n; i++)
        if (gpu->pieces[i].tenant == tenant) return 0;
    const int n = beside(w, gpu, k, -1, others);
    const double slowdown = mo_space_slowdown(w->space, gpu->kind, size, tenant, others, n);
    const double room = mo_space_rate(w->space, gpu->kind, size, tenant, slowdown);
    gpu->pieces[gpu->n++] = (struct mo_piece){.tenant = tenant, .rate = room < rate ? room : rate};
    return room > 0 && fits(w, gpu) ? gpu->pieces[gpu->n - 1].rate : 0;
}

static double place(struct work *w, int tenant, double rate) {
    struct gpu best = {0};
    double most = 0;
    int at = -1;
    for (int g = 0; g < w->n_gpus; g++) {
        struct gpu tried = w->gpus[g];
        const double placed = put(w, &tried, tenant, rate);
        if (!(placed > most || (placed > 0 && placed >= most && tried.n < best.n))) continue;
        best = tried;
        most = placed;
        at = g;
    }
    if (at >= 0) w->gpus[at] = best;
    return most;
}

static void write_plan(const struct work *w, struct mo_lets_plan *out) {
    out->side_by_side = true;
    for (int g = 0; g < w->n_gpus; g++)
        for (int i = 0; i < w->gpus[g].n; i++) {
            const struct mo_piece *p = &w->gpus[g].pieces[i];
            out->lets[out->n_lets++] =
                (struct mo_planned_let){.gpu = g,
                                        .first = i,
                                        .units = 1,
                                        .duty_ns = w->gpus[g].duty_ns[i],
                                        .n_entries = 1,
                                        .entries = {{.tenant = w->space->index[p->tenant],
                                                     .batch = p->batch,
                                                     .rate = p->rate,
                                                     .latency_ns = p->latency_ns}}};
        }
    out->steps = w->space->steps;
}

static int plan(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    struct mo_plan_kind kinds[MO_PLAN_KINDS];
    struct mo_plan_view shared;
    struct mo_space space;
    struct work w = {.space = &space, .n_gpus = view->n_gpus};
    mo_plan_side_by_side(view, kinds, &shared);
    int code = mo_space_open(&space, &shared, scratch, true, err);
    if (code) return code;
    w.gpus = mo_scratch_take(scratch, (size_t)view->n_gpus, sizeof *w.gpus);
    if (!w.gpus)
        return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    for (int g = 0; g < view->n_gpus; g++)
        w.gpus[g].kind = view->gpu_kind[g];
    for (int t = 0; t < space.n; t++) {
        double left = space.rate[t], placed;
        while (left > 1e-9 * space.rate[t] && (placed = place(&w, t, left)) > 0)
            left -= placed;
    }
    write_plan(&w, out);
    return MOIRE_OK;
}

const struct mo_planner mo_planner_mps = {
    .name = "mps",
    .description = "models side by side on whole GPUs, not cut: MPS without percentages",
    .plan = plan};
