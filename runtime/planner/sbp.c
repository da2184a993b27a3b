/* SPDX-License-Identifier: Apache-2.0
 * sbp.c - squishy bin packing (Nexus, SOSP 2019), on whole GPUs (`sbp`) and with every GPU cut into two even
 * lets (`sbp-half`).
 *
 * A tenant takes as many nodes as it fills; what remains of it is a residual session with the largest batch
 * whose gathering and running meet the target.  Residuals, by falling occupancy, are merged into the node
 * that is fullest afterwards, or open a node.  Two differences to Nexus: a merged duty cycle is the least
 * that works (model.h) instead of the smaller of the two, so that nothing Nexus merges is refused; and there
 * are only so many nodes.  Interference is not looked at. */
#include "runtime/planner/priced_fill.h"
#include "runtime/planner/planners.h"

struct residual {
    int tenant;
    double occupancy;
};

/* A node = the next let of that size with nobody on it; room in *rate. */
static int open_node(struct mo_placement *placement, int parts, int tenant, double *rate) {
    int best = -1;
    *rate = 0;
    for (int g = 0; g < placement->n_gpus; g++) {
        const struct mo_plan_kind *kind = &placement->space->view->kinds[placement->gpus[g].kind];
        int size = mo_kind_size(kind, kind->units / parts);
        if (placement->gpus[g].n >= parts) continue;
        double room = mo_placement_room(placement, g, size, tenant);
        if (room > *rate) {
            *rate = room;
            best = g;
        }
    }
    return best;
}

static bool add_node(struct mo_placement *placement, int parts, int tenant, double rate) {
    double room;
    int g = open_node(placement, parts, tenant, &room);
    if (g < 0) return false;
    const struct mo_plan_kind *kind = &placement->space->view->kinds[placement->gpus[g].kind];
    return mo_placement_add(placement, g, mo_kind_size(kind, kind->units / parts), tenant,
                            rate < room ? rate : room);
}

/* Share of its time that the residual would keep a node of its own busy. */
static double occupancy(struct mo_space *space, int kind, int size, int tenant, double rate) {
    const struct mo_plan_cell *cell = mo_space_cell(space, kind, size, tenant);
    int64_t target = mo_space_target(space, tenant);
    for (int b = cell->max_batch; b > 1; b--) {
        double time = (double)mo_cell_time(cell, b, 1), gather = b / rate * 1e9;
        if (time + gather <= (double)target) return time / gather;
    }
    return cell->max_batch ? (double)mo_cell_time(cell, 1, 1) * rate * 1e-9 : 0;
}

/* Times of one let's batches over its duty cycle. */
static double busy(const struct mo_placement_let *let) {
    double sum = 0, queries = 0;
    for (int i = 0; i < let->n; i++) {
        double gather = let->pieces[i].batch / let->pieces[i].rate * 1e9;
        sum += (double)let->pieces[i].latency_ns;
        if (gather > queries) queries = gather;
    }
    return queries > 0 ? sum / queries : 0;
}

static bool merge(struct mo_placement *placement, int tenant, double rate) {
    double best = -1;
    int gpu = -1, let = -1;
    for (int g = 0; g < placement->n_gpus; g++)
        for (int l = 0; l < placement->gpus[g].n; l++) {
            struct mo_placement_gpu old = placement->gpus[g];
            if (!mo_placement_share(placement, g, l, tenant, rate)) continue;
            double full = busy(&placement->gpus[g].lets[l]);
            placement->gpus[g] = old;
            placement->left[tenant] += rate;
            if (full > best) {
                best = full;
                gpu = g;
                let = l;
            }
        }
    return gpu >= 0 && mo_placement_share(placement, gpu, let, tenant, rate);
}

/* Full nodes of tenants [begin, end), then their residuals. */
static void pack_some(struct mo_placement *placement, int parts, int begin, int end) {
    struct mo_space *space = placement->space;
    const int kind = space->view->gpu_kind[0];
    const struct mo_plan_kind *k = &space->view->kinds[kind];
    const int size = mo_kind_size(k, k->units / parts);
    struct residual rest[MO_PLAN_TENANTS];
    int n = 0;
    for (int t = begin; t < end; t++) {
        double room = mo_space_cell(space, kind, size, t)->rate;
        int at = n;
        while (room > 0 && placement->left[t] >= room && add_node(placement, parts, t, placement->left[t])) {
        }
        if (!(placement->left[t] > 1e-9 * space->rate[t])) continue;
        double share = occupancy(space, kind, size, t, placement->left[t]);
        for (; at > 0 && rest[at - 1].occupancy < share; at--)
            rest[at] = rest[at - 1];
        rest[at] = (struct residual){t, share};
        n++;
    }
    for (int i = 0; i < n; i++) {
        int t = rest[i].tenant;
        if (merge(placement, t, placement->left[t])) continue;
        while (placement->left[t] > 1e-9 * space->rate[t] &&
               add_node(placement, parts, t, placement->left[t])) {
        }
    }
}

static int pack(const struct mo_plan_view *view, int parts, struct mo_plan_scratch *scratch,
                struct mo_lets_plan *out, moire_error *err) {
    struct mo_space space;
    struct mo_placement placement;
    int code = mo_space_open(&space, view, scratch, false, err);
    if (!code) code = mo_placement_open(&placement, &space, scratch, err);
    if (code) return code;
    pack_some(&placement, parts, 0, space.n_critical);
    pack_some(&placement, parts, space.n_critical, space.n);
    mo_placement_write(&placement, out);
    return MOIRE_OK;
}

void mo_sbp_pack(struct mo_placement *placement) {
    pack_some(placement, 1, 0, placement->space->n_critical);
}

static int whole(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                 moire_error *err) {
    return pack(view, 1, scratch, out, err);
}

static int half(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    for (int g = 0; g < view->n_gpus; g++) {
        const struct mo_plan_kind *kind = &view->kinds[view->gpu_kind[g]];
        int size = mo_kind_size(kind, kind->units / 2);
        if (kind->max_lets < 2 || kind->units % 2 || kind->sizes[size] != kind->units / 2)
            return mo_fail(err, MOIRE_ELIMIT, "sbp-half: %s cannot be cut into two even lets", kind->name);
    }
    return pack(view, 2, scratch, out, err);
}

const struct mo_planner mo_planner_sbp = {
    .name = "sbp", .description = "squishy bin packing of whole GPUs, as in Nexus", .plan = whole};
const struct mo_planner mo_planner_sbp_half = {
    .name = "sbp-half", .description = "squishy bin packing of half GPUs", .plan = half};
