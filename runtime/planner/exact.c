/* SPDX-License-Identifier: Apache-2.0
 * exact.c - the search; see exact.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/exact.h"

#define EXACT_EPS 1e-9 /* of a rate, and of a GPU's worth */

static int kind_at(const struct mo_exact *e, int depth) {
    return e->space->view->gpu_kind[e->gpu[depth]];
}

int mo_exact_open(struct mo_exact *e, struct mo_space *space, struct mo_plan_scratch *scratch,
                  moire_error *err) {
    const struct mo_plan_view *view = space->view;
    *e = (struct mo_exact){.space = space, .n_tenants = space->n_critical};
    if (e->n_tenants > MO_EXACT_TENANTS || view->n_gpus > MO_EXACT_GPUS)
        return mo_fail(err, MOIRE_ELIMIT, "searching all plans: %d tenants on %d GPUs, %d on %d at most",
                       e->n_tenants, view->n_gpus, MO_EXACT_TENANTS, MO_EXACT_GPUS);
    for (int k = 0; k < view->n_kinds; k++) {
        if (view->kinds[k].max_lets > MO_TYPE_LETS)
            return mo_fail(err, MOIRE_ELIMIT, "searching all plans: %s has up to %d lets, %d at most",
                           view->kinds[k].name, view->kinds[k].max_lets, MO_TYPE_LETS);
        e->types[k] = mo_scratch_take(scratch, MO_EXACT_TYPES, sizeof *e->types[k]);
        if (!e->types[k])
            return mo_fail(err, MOIRE_ENOMEM, "planning: %zu bytes of scratch are too few", scratch->bytes);
    }
    for (int g = 0, n = 0; g < view->n_gpus; g++, n++) { /* by kind */
        int at = n;
        for (; at > 0 && view->gpu_kind[e->gpu[at - 1]] > view->gpu_kind[g]; at--)
            e->gpu[at] = e->gpu[at - 1];
        e->gpu[at] = g;
    }
    return MOIRE_OK;
}

static bool list_all(struct mo_exact *e) {
    for (int k = 0; k < e->space->view->n_kinds; k++)
        if (!mo_types_list(e, k)) return false;
    return true;
}

static void no_blocks(struct mo_exact *e) {
    e->n_blocks = 0;
    for (int t = 0; t < e->n_tenants; t++)
        e->member[t] = 1u << t;
}

double mo_exact_bound(struct mo_exact *e) {
    no_blocks(e);
    if (!list_all(e)) return 0;
    for (int t = 0; t < e->n_tenants; t++) {
        bool served = false;
        for (int k = 0; k < e->space->view->n_kinds; k++)
            for (int i = 0; i < e->n_types[k]; i++)
                served |= e->types[k][i].gain[t] > 0;
        if (!served) return INFINITY;
    }
    return mo_prices(e, e->price);
}

/* The let of a block: the GPU's place in the search, and the let. */
static bool find_block(const struct mo_exact *e, int block, int *depth, int *let) {
    for (*depth = 0; *depth < e->n_chosen; ++*depth) {
        const struct mo_gpu_type *type = &e->types[kind_at(e, *depth)][e->chosen[*depth]];
        for (*let = 0; *let < type->n; ++*let)
            if (type->label[*let] == e->n_tenants + block) return true;
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
    const struct mo_gpu_type *type = &e->types[kind][e->chosen[depth]];
    for (int t = 0; t < e->n_tenants; t++)
        if (e->member[e->n_tenants + block] >> t & 1 && e->left[t] > EXACT_EPS * e->space->rate[t])
            pieces[n++] = (struct mo_piece){.tenant = t, .rate = e->left[t]};
    return n == 0 || mo_let_fits(e->space, kind, type->size[let], pieces, n, others,
                                 mo_type_others(e, kind, type, let, others), &duty);
}

static bool solved(struct mo_exact *e) {
    unsigned in_blocks = 0;
    for (int b = 0; b < e->n_blocks; b++)
        in_blocks |= e->member[e->n_tenants + b];
    for (int t = 0; t < e->n_tenants; t++)
        if (!(in_blocks >> t & 1) && e->left[t] > EXACT_EPS * e->space->rate[t]) return false;
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

static bool descend(struct mo_exact *e, int from, unsigned blocks, double placed_worth) {
    int depth = e->n_chosen, n_gpus = e->space->view->n_gpus;
    double rest = 0, need = needed(e) - placed_worth;
    if (e->limit && ++e->nodes > e->limit) e->cut_short = true;
    if (e->cut_short) return false;
    if (blocks == (1u << e->n_blocks) - 1 && solved(e)) return true;
    if (depth == n_gpus) return false;
    int kind = kind_at(e, depth), alike = 1;
    while (depth + alike < n_gpus && kind_at(e, depth + alike) == kind)
        alike++;
    for (int g = depth + alike; g < n_gpus; g++)
        rest += e->gpu_worth[kind_at(e, g)];
    for (int i = from; i < e->n_types[kind]; i++) {
        const struct mo_gpu_type *type = &e->types[kind][i];
        if (need > type->worth * alike + rest + EXACT_EPS) break; /* types come by falling worth */
        if (type->blocks & blocks) continue;
        for (int t = 0; t < e->n_tenants; t++)
            e->left[t] -= type->gain[t];
        e->chosen[e->n_chosen++] = i;
        bool found = descend(e, alike > 1 ? i : 0, blocks | type->blocks, placed_worth + type->block_worth);
        if (found) return true;
        e->n_chosen--;
        for (int t = 0; t < e->n_tenants; t++)
            e->left[t] += type->gain[t];
    }
    return false;
}

/* Puts the types that were chosen on the board: own lets first, as far as the rate goes, then blocks. */
static bool carry_out(const struct mo_exact *e, struct mo_board *board) {
    mo_board_clear(board);
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < e->n_chosen; d++) {
            const struct mo_gpu_type *type = &e->types[kind_at(e, d)][e->chosen[d]];
            for (int l = 0; l < type->n; l++) {
                bool block = type->label[l] >= e->n_tenants, first = true;
                for (int t = 0; block == pass && t < e->n_tenants; t++) {
                    double left = board->left[t];
                    if (!(e->member[type->label[l]] >> t & 1) || left <= EXACT_EPS * e->space->rate[t])
                        continue;
                    int g = e->gpu[d];
                    struct mo_share_use others[MO_TYPE_LETS];
                    int n = mo_type_others(e, kind_at(e, d), type, l, others);
                    double slow = mo_space_slowdown(e->space, kind_at(e, d), type->size[l], t, others, n);
                    double cap = mo_space_rate(e->space, kind_at(e, d), type->size[l], t, slow);
                    double rate = block || left < cap ? left : cap;
                    bool ok = first ? mo_board_add(board, g, type->size[l], t, rate)
                                    : mo_board_share(board, g, board->gpus[g].n - 1, t, rate);
                    if (!ok) return false;
                    first = false;
                }
            }
        }
    return true;
}

static bool search_partition(struct mo_exact *e, struct mo_board *board) {
    if (!list_all(e)) {
        e->cut_short = true;
        return false;
    }
    memcpy(e->left, e->space->rate, sizeof e->left);
    e->n_chosen = 0;
    return descend(e, 0, 0, 0) && carry_out(e, board);
}

/* May these take turns at all: one query each, on some whole GPU without neighbours? */
static bool may_share(struct mo_exact *e, unsigned members) {
    struct mo_piece pieces[MO_LET_TENANTS];
    int n = 0;
    int64_t duty;
    for (int t = 0; t < e->n_tenants; t++)
        if (members >> t & 1) {
            if (n == e->space->view->max_share) return false;
            pieces[n++] = (struct mo_piece){.tenant = t, .rate = 1e-6};
        }
    for (int k = 0; k < e->space->view->n_kinds; k++)
        if (mo_let_fits(e->space, k, e->space->view->kinds[k].n_sizes - 1, pieces, n, NULL, 0, &duty))
            return true;
    return false;
}

/* Partitions: tenant t joins one of the groups that the tenants before it made, or makes one. */
static bool partitions(struct mo_exact *e, struct mo_board *board, unsigned *group, int n_groups, int t) {
    if (e->cut_short) return false;
    if (t == e->n_tenants) {
        no_blocks(e);
        for (int g = 0; g < n_groups; g++)
            if (group[g] & (group[g] - 1)) e->member[e->n_tenants + e->n_blocks++] = group[g];
        return search_partition(e, board);
    }
    group[n_groups] = 1u << t;
    if (partitions(e, board, group, n_groups + 1, t + 1)) return true;
    for (int g = 0; g < n_groups; g++) {
        group[g] |= 1u << t;
        bool found = may_share(e, group[g]) && partitions(e, board, group, n_groups, t + 1);
        group[g] &= ~(1u << t);
        if (found) return true;
    }
    return false;
}

bool mo_exact_search(struct mo_exact *e, struct mo_board *board) {
    unsigned group[MO_EXACT_TENANTS];
    e->hopeless = !(mo_exact_bound(e) <= e->space->view->n_gpus + EXACT_EPS);
    if (e->hopeless) return false;
    return partitions(e, board, group, 0, 0);
}
