/* SPDX-License-Identifier: Apache-2.0
 * placement.c - see placement.h. */
#include <string.h>
#include "runtime/planner/placement.h"

enum { PARTS = 64 }; /* less than such a part of a rate is not worth a place */

int mo_placement_open(struct mo_placement *placement, struct mo_space *space, struct mo_plan_scratch *scratch,
                      moire_error *err) {
    *placement = (struct mo_placement){.space = space, .n_gpus = space->view->n_gpus};
    placement->gpus = mo_scratch_take(scratch, (size_t)placement->n_gpus, sizeof *placement->gpus);
    placement->left = mo_scratch_take(scratch, (size_t)space->n + 1, sizeof *placement->left);
    if (!placement->gpus || !placement->left)
        return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    mo_placement_clear(placement);
    return MOIRE_OK;
}

void mo_placement_clear(struct mo_placement *placement) {
    const struct mo_plan_view *view = placement->space->view;
    for (int g = 0; g < placement->n_gpus; g++) {
        placement->gpus[g].kind = view->gpu_kind[g];
        placement->gpus[g].n = 0;
        placement->gpus[g].free_units = view->kinds[view->gpu_kind[g]].units;
    }
    memcpy(placement->left, placement->space->rate, (size_t)placement->space->n * sizeof *placement->left);
}

static bool on_earlier_let(const struct mo_placement_gpu *gpu, int let, int tenant) {
    for (int l = 0; l < let; l++)
        for (int i = 0; i < gpu->lets[l].n; i++)
            if (gpu->lets[l].pieces[i].tenant == tenant) return true;
    return false;
}

static bool memory_fits(const struct mo_placement *placement, const struct mo_placement_gpu *gpu) {
    const struct mo_plan_kind *kind = &placement->space->view->kinds[gpu->kind];
    int64_t sum = 0;
    for (int l = 0; l < gpu->n; l++)
        for (int i = 0; i < gpu->lets[l].n; i++) {
            int tenant = gpu->lets[l].pieces[i].tenant;
            if (kind->shared_weights && on_earlier_let(gpu, l, tenant)) continue;
            sum += mo_space_memory(placement->space, gpu->kind, tenant);
        }
    return sum <= kind->memory_bytes;
}

static void sum_use(const struct mo_space *space, int kind, struct mo_placement_let *let) {
    let->use = (struct mo_share_use){0};
    for (int i = 0; i < let->n; i++) {
        const struct mo_share_use *u = &mo_space_cell(space, kind, let->size, let->pieces[i].tenant)->out;
        if (u->sm > let->use.sm) let->use.sm = u->sm;
        if (u->l2 > let->use.l2) let->use.l2 = u->l2;
        if (u->dram > let->use.dram) let->use.dram = u->dram;
    }
}

int mo_placement_beside(const struct mo_placement_gpu *gpu, int let, struct mo_share_use *others) {
    int n = 0;
    for (int l = 0; l < gpu->n; l++)
        if (l != let) others[n++] = gpu->lets[l].use;
    return n;
}

static bool let_fits(struct mo_placement *placement, struct mo_placement_gpu *gpu, int l) {
    struct mo_share_use others[MO_PLAN_UNITS];
    struct mo_placement_let *let = &gpu->lets[l];
    return mo_let_fits(placement->space, gpu->kind, let->size, let->pieces, let->n, others,
                       mo_placement_beside(gpu, l, others), &let->duty_ns);
}

int mo_placement_misfit(struct mo_placement *placement, int g) {
    struct mo_placement_gpu *gpu = &placement->gpus[g];
    if (gpu->n > placement->space->view->kinds[gpu->kind].max_lets || gpu->free_units < 0)
        return MO_PLACEMENT_FULL;
    if (!memory_fits(placement, gpu)) return MO_PLACEMENT_FULL;
    for (int l = 0; l < gpu->n; l++)
        sum_use(placement->space, gpu->kind, &gpu->lets[l]);
    for (int l = 0; l < gpu->n; l++)
        if (!let_fits(placement, gpu, l)) return l;
    return MO_PLACEMENT_FITS;
}

bool mo_placement_fits(struct mo_placement *placement, int g) {
    return mo_placement_misfit(placement, g) == MO_PLACEMENT_FITS;
}

static void push_let(struct mo_placement *placement, struct mo_placement_gpu *gpu, int size, int tenant,
                     double rate) {
    struct mo_placement_let *let = &gpu->lets[gpu->n++];
    *let = (struct mo_placement_let){.size = size, .n = 1};
    let->pieces[0] = (struct mo_piece){.tenant = tenant, .rate = rate};
    gpu->free_units -= placement->space->view->kinds[gpu->kind].sizes[size];
}
static void pop_let(struct mo_placement *placement, int g) {
    struct mo_placement_gpu *gpu = &placement->gpus[g];
    gpu->free_units += placement->space->view->kinds[gpu->kind].sizes[gpu->lets[gpu->n - 1].size];
    gpu->n--;
    mo_placement_fits(placement, g); /* what was computed beside it */
}

double mo_placement_alone(const struct mo_placement *placement, int g, int size, int tenant) {
    const struct mo_placement_gpu *gpu = &placement->gpus[g];
    const struct mo_plan_kind *kind = &placement->space->view->kinds[gpu->kind];
    struct mo_share_use others[MO_PLAN_UNITS];
    if (gpu->n >= kind->max_lets || kind->sizes[size] > gpu->free_units) return 0;
    if (gpu->n == 0) return mo_space_cell(placement->space, gpu->kind, size, tenant)->rate;
    int n = mo_placement_beside(gpu, -1, others);
    double slowdown = mo_space_slowdown(placement->space, gpu->kind, size, tenant, others, n);
    return mo_space_rate(placement->space, gpu->kind, size, tenant, slowdown);
}

double mo_placement_room(struct mo_placement *placement, int g, int size, int tenant) {
    struct mo_placement_gpu *gpu = &placement->gpus[g];
    double rate = mo_placement_alone(placement, g, size, tenant);
    if (!(rate > 0)) return 0;
    push_let(placement, gpu, size, tenant, rate);
    bool fits = mo_placement_fits(placement, g);
    pop_let(placement, g);
    return fits ? rate : 0;
}

bool mo_placement_add(struct mo_placement *placement, int g, int size, int tenant, double rate) {
    struct mo_placement_gpu *gpu = &placement->gpus[g];
    if (gpu->n >= placement->space->view->kinds[gpu->kind].max_lets) return false;
    push_let(placement, gpu, size, tenant, rate);
    if (!mo_placement_fits(placement, g)) {
        pop_let(placement, g);
        return false;
    }
    placement->left[tenant] -= rate;
    return true;
}

/* Takes from the let's tenants, the last first, until it fits; a piece that is cut to nothing goes. */
static bool shrink(struct mo_placement *placement, struct mo_placement_gpu *gpu, int l) {
    struct mo_placement_let *let = &gpu->lets[l];
    while (let->n > 0 && !let_fits(placement, gpu, l)) {
        struct mo_piece *last = &let->pieces[let->n - 1];
        double had = last->rate, low = 0, high = had;
        for (int i = 0; i < 12; i++) {
            last->rate = (low + high) / 2;
            if (let_fits(placement, gpu, l))
                low = last->rate;
            else
                high = last->rate;
        }
        placement->left[last->tenant] += had - low;
        last->rate = low;
        if (!(low > 0)) let->n--;
    }
    return let->n > 0;
}

bool mo_placement_displace(struct mo_placement *placement, int g, int size, int tenant, double rate) {
    struct mo_placement_gpu *gpu = &placement->gpus[g];
    push_let(placement, gpu, size, tenant, rate);
    placement->left[tenant] -= rate;
    if (!memory_fits(placement, gpu)) return false;
    sum_use(placement->space, gpu->kind, &gpu->lets[gpu->n - 1]);
    for (int l = 0; l < gpu->n - 1; l++)
        if (!shrink(placement, gpu, l)) return false;
    return mo_placement_fits(placement, g);
}

/* Is the let's time gone?  A tenant at rate r takes r / (most that the let serves of it alone) at least. */
static bool too_busy(const struct mo_placement *placement, int kind, const struct mo_placement_let *let,
                     int tenant, double rate) {
    const double most = mo_space_cell(placement->space, kind, let->size, tenant)->rate;
    double busy = most > 0 ? rate / most : 2;
    for (int i = 0; i < let->n; i++)
        busy += let->pieces[i].rate /
                mo_space_cell(placement->space, kind, let->size, let->pieces[i].tenant)->rate;
    return busy > 1 + 1e-6;
}

/* Puts a piece on a let, or takes more of the one that is there. */
static bool try_share(struct mo_placement *placement, int g, int l, int tenant, double rate) {
    struct mo_placement_let *let = &placement->gpus[g].lets[l], old;
    int i = 0;
    if (too_busy(placement, placement->gpus[g].kind, let, tenant, rate)) return false;
    old = *let;
    while (i < let->n && let->pieces[i].tenant != tenant)
        i++;
    if (i >= placement->space->view->max_share) return false;
    if (i == let->n) let->pieces[let->n++] = (struct mo_piece){.tenant = tenant};
    let->pieces[i].rate += rate;
    if (mo_placement_fits(placement, g)) return true;
    *let = old;
    mo_placement_fits(placement, g);
    return false;
}

bool mo_placement_share(struct mo_placement *placement, int g, int l, int tenant, double rate) {
    if (!try_share(placement, g, l, tenant, rate)) return false;
    placement->left[tenant] -= rate;
    return true;
}

double mo_placement_share_part(struct mo_placement *placement, int g, int l, int tenant, double rate) {
    struct mo_placement_let *let = &placement->gpus[g].lets[l];
    double low = 0, high = rate;
    struct mo_placement_let whole = *let;
    if (mo_placement_share(placement, g, l, tenant, rate)) return rate;
    if (!try_share(placement, g, l, tenant, rate / PARTS)) return 0; /* as it mostly is */
    *let = whole;
    for (int i = 0; i < 10; i++) {
        double middle = (low + high) / 2;
        struct mo_placement_let old = *let;
        if (try_share(placement, g, l, tenant, middle)) {
            low = middle;
            *let = old;
        } else {
            high = middle;
        }
    }
    mo_placement_fits(placement, g);
    return low > rate / PARTS && mo_placement_share(placement, g, l, tenant, low) ? low : 0;
}

/* Units are given out in the order of the lets. */
void mo_placement_write(const struct mo_placement *placement, struct mo_lets_plan *out) {
    const struct mo_space *space = placement->space;
    out->n_lets = 0;
    for (int g = 0; g < placement->n_gpus; g++) {
        const struct mo_placement_gpu *gpu = &placement->gpus[g];
        for (int l = 0, first = 0; l < gpu->n; l++) {
            const struct mo_placement_let *let = &gpu->lets[l];
            struct mo_planned_let *to = &out->lets[out->n_lets++];
            *to = (struct mo_planned_let){.gpu = g, .first = first, .duty_ns = let->duty_ns};
            to->units = space->view->kinds[gpu->kind].sizes[let->size];
            first += to->units;
            for (int i = 0; i < let->n; i++)
                to->entries[to->n_entries++] =
                    (struct mo_let_entry){.tenant = space->index[let->pieces[i].tenant],
                                          .batch = let->pieces[i].batch,
                                          .rate = let->pieces[i].rate,
                                          .latency_ns = let->pieces[i].latency_ns};
        }
    }
    out->steps = space->steps;
}
