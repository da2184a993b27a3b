/* SPDX-License-Identifier: Apache-2.0
 * exact.c - the search; see exact.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/exact.h"

enum { FIRST_SLICE = 256 }; /* nodes */
#define EXACT_EPS 1e-9      /* of a rate, and of a GPU's worth */

static int kind_at(const struct mo_exact *e, int depth) {
    return e->space->view->gpu_kind[e->gpu[depth]];
}

/* lean[b] = least time / mean[b] of all batches up to b. */
static bool fill_cells(struct mo_exact *e, struct mo_plan_scratch *scratch) {
    const struct mo_plan_view *view = e->space->view;
    for (int k = 0; k < view->n_kinds; k++)
        for (int t = 0; t < e->n_tenants; t++)
            for (int s = 0; s < view->kinds[k].n_sizes; s++) {
                const struct mo_plan_cell *cell = mo_space_cell(e->space, k, s, t);
                double *lean = mo_scratch_raw(scratch, (size_t)cell->max_batch + 1, sizeof *lean);
                if (!lean) return false;
                lean[0] = INFINITY;
                for (int b = 1; b <= cell->max_batch; b++)
                    lean[b] = fmin(lean[b - 1], (double)cell->solo[b] / e->space->mean[b]);
                e->lean[k][t][s] = lean;
            }
    return true;
}

size_t mo_exact_scratch_bytes(int n_kinds) {
    const size_t lean =
        (size_t)MO_EXACT_TENANTS * MO_PLAN_SIZES * ((MO_SHARE_BATCH + 1) * sizeof(double) + 64);
    const size_t order = MO_EXACT_TYPES * sizeof(struct mo_type_order) + 64;
    return (size_t)n_kinds * (lean + order) + order + MO_EXACT_TYPES * sizeof(struct mo_gpu_type) +
           MO_EXACT_GROUPS * sizeof(struct mo_type_group) +
           MO_EXACT_PARTITIONS * sizeof(struct mo_partition) + 256;
}

int mo_exact_open(struct mo_exact *e, struct mo_space *space, struct mo_plan_scratch *scratch,
                  moire_error *err) {
    const struct mo_plan_view *view = space->view;
    *e = (struct mo_exact){.space = space, .n_tenants = space->n_critical};
    if (e->n_tenants > MO_EXACT_TENANTS || view->n_gpus > MO_EXACT_GPUS)
        return mo_fail(err, MOIRE_ELIMIT, "searching all plans: %d tenants on %d GPUs, %d on %d at most",
                       e->n_tenants, view->n_gpus, MO_EXACT_TENANTS, MO_EXACT_GPUS);
    e->pool = mo_scratch_raw(scratch, MO_EXACT_TYPES, sizeof *e->pool);
    e->sorted = mo_scratch_raw(scratch, MO_EXACT_TYPES, sizeof *e->sorted);
    e->groups = mo_scratch_raw(scratch, MO_EXACT_GROUPS, sizeof *e->groups);
    e->partitions = mo_scratch_raw(scratch, MO_EXACT_PARTITIONS, sizeof *e->partitions);
    bool room = e->partitions && e->pool && e->sorted && e->groups && fill_cells(e, scratch);
    for (int k = 0; k < view->n_kinds; k++) {
        if (view->kinds[k].max_lets > MO_TYPE_LETS)
            return mo_fail(err, MOIRE_ELIMIT, "searching all plans: %s has up to %d lets, %d at most",
                           view->kinds[k].name, view->kinds[k].max_lets, MO_TYPE_LETS);
        e->order[k] = mo_scratch_raw(scratch, MO_EXACT_TYPES, sizeof **e->order);
        room = room && e->order[k];
    }
    if (!room)
        return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    for (int g = 0, n = 0; g < view->n_gpus; g++, n++) { /* by kind */
        int at = n;
        for (; at > 0 && view->gpu_kind[e->gpu[at - 1]] > view->gpu_kind[g]; at--)
            e->gpu[at] = e->gpu[at - 1];
        e->gpu[at] = g;
    }
    return MOIRE_OK;
}

double mo_exact_bound(struct mo_exact *e) {
    for (int k = 0; k < e->space->view->n_kinds; k++)
        if (!mo_type_group(e, k, NULL, 0)) return 0;
    for (int t = 0; t < e->n_tenants; t++) {
        bool served = false;
        for (int i = 0; i < e->n_pool; i++)
            served |= e->pool[i].gain[t] > 0;
        if (!served) return INFINITY;
    }
    return mo_prices(e, e->price);
}

/* The let of a block: the GPU's place in the search, and the let. */
static bool find_block(const struct mo_exact *e, int block, int *depth, int *let) {
    for (*depth = 0; *depth < e->n_chosen; ++*depth) {
        const struct mo_gpu_type *type = &e->pool[e->chosen[*depth]];
        for (*let = 0; *let < type->n; ++*let)
            if (type->label[*let] == e->block[block]) return true;
    }
    return false;
}

/* Can the block take turns on its let with what remains of its members? */
static bool block_fits(struct mo_exact *e, int block) {
    struct mo_piece pieces[MO_LET_TENANTS];
    struct mo_share_use others[MO_TYPE_LETS];
    int depth, let, n = 0;
    int64_t duty;
    if (!find_block(e, block, &depth, &let)) return false;
    int kind = kind_at(e, depth);
    const struct mo_gpu_type *type = &e->pool[e->chosen[depth]];
    for (int t = 0; t < e->n_tenants; t++)
        if (e->block[block] >> t & 1 && e->left[t] > EXACT_EPS * e->space->rate[t])
            pieces[n++] = (struct mo_piece){.tenant = t, .rate = e->left[t]};
    return n == 0 || mo_let_fits(e->space, kind, type->size[let], pieces, n, others,
                                 mo_type_others(e, kind, type, let, others), &duty);
}

static bool solved(struct mo_exact *e) {
    for (int t = 0; t < e->n_tenants; t++)
        if (!(e->in_blocks >> t & 1) && e->left[t] > EXACT_EPS * e->space->rate[t]) return false;
    for (int b = 0; b < e->n_blocks; b++)
        if (mo_need_turns(e, e->block[b], e->turn) > 1) return false;
    for (int b = 0; b < e->n_blocks; b++)
        if (!block_fits(e, b)) return false;
    return true;
}

/* Priced rates that are left; what lets of placed blocks can be worth is taken off by the caller. */
static double needed(const struct mo_exact *e) {
    double sum = 0;
    for (int t = 0; t < e->n_tenants; t++)
        if (e->left[t] > 0) sum += e->price[t] * e->left[t];
    return sum;
}

/* Tenants outside blocks that need more. */
static unsigned wanting(const struct mo_exact *e) {
    unsigned who = 0;
    for (int t = 0; t < e->n_tenants; t++)
        if (e->left[t] > EXACT_EPS * e->space->rate[t]) who |= 1u << t;
    return who & ~(unsigned)e->in_blocks;
}

/* Takes the type for the next GPU; its blocks' turns count from now on. */
static void choose(struct mo_exact *e, int at) {
    const struct mo_gpu_type *type = &e->pool[at];
    for (int t = 0; t < e->n_tenants; t++)
        e->left[t] -= type->gain[t];
    for (int t = 0; type->in_blocks >> t; t++)
        if (type->in_blocks >> t & 1) e->turn[t] = type->turn[t];
    e->chosen[e->n_chosen++] = at;
}

static void undo(struct mo_exact *e, const double *left, const double *turn) {
    memcpy(e->left, left, sizeof e->left);
    memcpy(e->turn, turn, sizeof e->turn);
    e->n_chosen--;
}

/* The set of the blocks that have no let yet, as an index. */
static unsigned missing(const struct mo_exact *e, unsigned placed) {
    unsigned set = 0;
    for (int b = 0; b < e->n_blocks; b++)
        if (!(placed & e->block[b])) set |= 1u << b;
    return set;
}

/* Does the type serve all who want, to the end? */
static bool serves(const struct mo_exact *e, const struct mo_gpu_type *type, unsigned want) {
    if (want & ~(unsigned)type->own) return false;
    for (int t = 0; want >> t; t++)
        if (want >> t & 1 && e->left[t] - type->gain[t] > EXACT_EPS * e->space->rate[t]) return false;
    return true;
}

/* The last GPU: a type that serves what is left and holds the blocks that are left.  most: worth of the
 * types that come. */
static bool finish(struct mo_exact *e, double most, unsigned want, unsigned placed, double need) {
    const struct mo_type_group *group = e->of[kind_at(e, e->n_chosen)][missing(e, placed)];
    double left[MO_EXACT_TENANTS], turn[MO_EXACT_TENANTS];
    memcpy(left, e->left, sizeof left);
    memcpy(turn, e->turn, sizeof turn);
    for (int i = 0; group && i < group->n; i++) {
        const struct mo_type_order *o = &e->sorted[group->begin + i];
        if (need > o->worth + EXACT_EPS) break;
        if (o->worth > most || !serves(e, &e->pool[o->at], want)) continue;
        choose(e, o->at);
        if (solved(e)) return true;
        undo(e, left, turn);
    }
    return false;
}

/* What a block of this type takes off what is needed, at the current prices: its worth as a block and, of
 * each tenant, what it gains, but no more than the tenant's part of the need, parts[]. */
static double taken(const struct mo_exact *e, const struct mo_gpu_type *type, const double *parts) {
    double sum = type->block_worth;
    for (int t = 0; t < e->n_tenants; t++) {
        double gain = e->price[t] * type->gain[t];
        sum += gain < parts[t] ? gain : parts[t];
    }
    return sum;
}

/* The most that a type takes, of those from `from` on that are worth at least so much. */
static double most_taken(const struct mo_exact *e, int kind, int from, unsigned placed, const double *parts,
                         double least) {
    double most = 0;
    for (int i = from; i < e->n_order[kind]; i++) {
        const struct mo_type_order *o = &e->order[kind][i];
        if (o->worth < least || o->worth <= most) break;
        if (o->in_blocks & placed) continue;
        double one = taken(e, &e->pool[o->at], parts);
        if (one > most) most = one;
    }
    return most;
}

static bool descend(struct mo_exact *e, int from, unsigned placed, double placed_worth);

/* All types for a GPU that is not the last; `alike` GPUs from it on are of its kind, the others are worth
 * `rest`. */
static bool branch(struct mo_exact *e, int from, unsigned placed, double placed_worth, double need, int alike,
                   double rest) {
    int kind = kind_at(e, e->n_chosen);
    double left[MO_EXACT_TENANTS], turn[MO_EXACT_TENANTS], parts[MO_EXACT_TENANTS] = {0};
    memcpy(left, e->left, sizeof left);
    memcpy(turn, e->turn, sizeof turn);
    for (int t = 0; t < e->n_tenants; t++)
        parts[t] = left[t] > 0 ? e->price[t] * left[t] : 0;
    const double least = (need - rest - EXACT_EPS) / alike;
    const double most = most_taken(e, kind, from, placed, parts, least);
    for (int i = from; most >= least && i < e->n_order[kind]; i++) {
        const struct mo_type_order *o = &e->order[kind][i];
        if (o->worth < least) break; /* types come by falling worth */
        if (o->in_blocks & placed) continue;
        const struct mo_gpu_type *type = &e->pool[o->at];
        if (need - taken(e, type, parts) > fmin(most, o->worth) * (alike - 1) + rest + EXACT_EPS) continue;
        choose(e, o->at);
        if (descend(e, alike > 1 ? i : 0, placed | type->in_blocks, placed_worth + type->block_worth))
            return true;
        undo(e, left, turn);
    }
    return false;
}

/* placed: tenants of the blocks that have their lets, which are worth so much at most. */
static bool descend(struct mo_exact *e, int from, unsigned placed, double placed_worth) {
    const int depth = e->n_chosen, n_gpus = e->space->view->n_gpus;
    unsigned want = wanting(e);
    double rest = 0, need = needed(e) - placed_worth;
    if (++e->nodes > e->stop) e->stopped = true;
    if (e->stopped || mo_need_room(e, want, placed) < 0) return false;
    if (placed == e->in_blocks && !want && solved(e)) return true;
    if (depth == n_gpus) return false;
    int kind = kind_at(e, depth), alike = 1;
    if (depth == n_gpus - 1)
        return from < e->n_order[kind] && finish(e, e->order[kind][from].worth, want, placed, need);
    while (depth + alike < n_gpus && kind_at(e, depth + alike) == kind)
        alike++;
    for (int g = depth + alike; g < n_gpus; g++)
        rest += e->gpu_worth[kind_at(e, g)];
    return branch(e, from, placed, placed_worth, need, alike, rest);
}

/* Puts one let on the placement: of its own as far as the rate goes, of a block with what is left. */
static bool put_let(const struct mo_exact *e, struct mo_placement *placement, int depth, int l) {
    const struct mo_gpu_type *type = &e->pool[e->chosen[depth]];
    const unsigned label = type->label[l];
    bool block = label & (label - 1), first = true;
    for (int t = 0; label >> t; t++) {
        double left = placement->left[t];
        int g = e->gpu[depth];
        if (!(label >> t & 1) || left <= EXACT_EPS * e->space->rate[t]) continue;
        if (!block) left = fmin(left, mo_type_alone(e, kind_at(e, depth), type, l, t));
        if (!(first ? mo_placement_add(placement, g, type->size[l], t, left)
                    : mo_placement_share(placement, g, placement->gpus[g].n - 1, t, left)))
            return false;
        first = false;
    }
    return true;
}

static bool carry_out(const struct mo_exact *e, struct mo_placement *placement) {
    mo_placement_clear(placement);
    for (int blocks = 0; blocks < 2; blocks++)
        for (int d = 0; d < e->n_chosen; d++)
            for (int l = 0; l < e->pool[e->chosen[d]].n; l++) {
                unsigned label = e->pool[e->chosen[d]].label[l];
                if (((label & (label - 1)) != 0) == blocks && !put_let(e, placement, d, l)) return false;
            }
    return true;
}

static void take_partition(struct mo_exact *e, const struct mo_partition *p) {
    e->n_blocks = p->n_blocks;
    e->in_blocks = 0;
    for (int b = 0; b < p->n_blocks; b++)
        e->in_blocks |= e->block[b] = p->block[b];
    memcpy(e->left, e->space->rate, (size_t)e->n_tenants * sizeof *e->left);
    e->n_chosen = 0;
    mo_need_partition(e);
}

static bool search_partition(struct mo_exact *e, struct mo_partition *p, struct mo_placement *placement) {
    take_partition(e, p);
    if (!mo_types_order(e)) {
        e->overflow = true;
        return false;
    }
    e->stopped = false;
    e->stop = e->nodes + e->slice;
    if (e->limit && e->stop > e->limit) e->stop = e->limit;
    bool found = descend(e, 0, 0, 0);
    p->done = !e->stopped;
    e->unfinished |= e->stopped;
    return found && carry_out(e, placement);
}

/* May these take turns at all: one query each, on some whole GPU without neighbours? */
static bool may_share(struct mo_exact *e, unsigned members) {
    struct mo_piece pieces[MO_LET_TENANTS];
    int n = 0;
    int64_t duty;
    if (e->may_share[members]) return e->may_share[members] == 2;
    for (int t = 0; t < e->n_tenants; t++)
        if (members >> t & 1) pieces[n++] = (struct mo_piece){.tenant = t, .rate = 1e-6};
    e->may_share[members] = 1;
    for (int k = 0; n <= e->space->view->max_share && k < e->space->view->n_kinds; k++)
        if (mo_let_fits(e->space, k, e->space->view->kinds[k].n_sizes - 1, pieces, n, NULL, 0, &duty))
            e->may_share[members] = 2;
    return e->may_share[members] == 2;
}

/* Keeps a partition whose needs can be met, those with most room first. */
static void keep_partition(struct mo_exact *e, const unsigned *group, int n_groups) {
    struct mo_partition p = {0}, *list = e->partitions;
    for (int g = 0; g < n_groups; g++)
        if (group[g] & (group[g] - 1)) p.block[p.n_blocks++] = (unsigned char)group[g];
    take_partition(e, &p);
    p.room = mo_need_room(e, wanting(e), 0);
    if (p.room < 0) return;
    int at = e->n_partitions++;
    for (; at > 0 && list[at - 1].room < p.room; at--)
        list[at] = list[at - 1];
    list[at] = p;
}

/* Partitions: tenant t joins one of the groups that the tenants before it made, or makes one. */
static void list_partitions(struct mo_exact *e, unsigned *group, int n_groups, int t) {
    if (t == e->n_tenants) {
        keep_partition(e, group, n_groups);
        return;
    }
    group[n_groups] = 1u << t;
    list_partitions(e, group, n_groups + 1, t + 1);
    for (int g = 0; g < n_groups; g++) {
        group[g] |= 1u << t;
        if (may_share(e, group[g])) list_partitions(e, group, n_groups, t + 1);
        group[g] &= ~(1u << t);
    }
}

/* The partition without blocks, the cheapest to look at, comes first; then rounds with ever larger slices:
 * most plans are found soon in some partition, and the last round, which finishes every partition, is most of
 * the work of all. */
bool mo_exact_search(struct mo_exact *e, struct mo_placement *placement) {
    const int n_gpus = e->space->view->n_gpus;
    struct mo_partition single = {0};
    unsigned group[MO_EXACT_TENANTS];
    e->infeasible = !(mo_exact_bound(e) <= n_gpus + EXACT_EPS);
    if (e->infeasible) return false;
    mo_types_cap(e);
    for (int d = n_gpus - 1; d >= 0; d--)
        e->lets_behind[d] = e->lets_behind[d + 1] + e->space->view->kinds[kind_at(e, d)].max_lets;
    mo_need_open(e);
    e->slice = FIRST_SLICE;
    if (search_partition(e, &single, placement)) return true;
    list_partitions(e, group, 0, 0);
    for (;; e->slice *= 16) {
        e->unfinished = false;
        for (int i = 0; i < e->n_partitions; i++) {
            if (!e->partitions[i].done && search_partition(e, &e->partitions[i], placement)) return true;
            e->cut_short = e->overflow || (e->limit && e->nodes >= e->limit);
            if (e->cut_short) return false;
        }
        if (!e->unfinished) return false;
    }
}
