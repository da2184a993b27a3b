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

int mo_exact_open(struct mo_exact *e, struct mo_space *space, struct mo_plan_scratch *scratch,
                  moire_error *err) {
    const struct mo_plan_view *view = space->view;
    *e = (struct mo_exact){.space = space, .n_tenants = space->n_critical};
    if (e->n_tenants > MO_EXACT_TENANTS || view->n_gpus > MO_EXACT_GPUS)
        return mo_fail(err, MOIRE_ELIMIT, "searching all plans: %d tenants on %d GPUs, %d on %d at most",
                       e->n_tenants, view->n_gpus, MO_EXACT_TENANTS, MO_EXACT_GPUS);
    e->pool = mo_scratch_raw(scratch, MO_EXACT_TYPES, sizeof *e->pool);
    e->groups = mo_scratch_raw(scratch, MO_EXACT_GROUPS, sizeof *e->groups);
    bool room = e->pool && e->groups;
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
    double need = mo_prices(e, e->price);
    for (int i = 0; i < e->n_groups; i++)
        mo_type_group_price(e, &e->groups[i]);
    return need;
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

/* Lets that are still needed at least: one for each block and each tenant outside blocks. */
static int lets_needed(const struct mo_exact *e, unsigned want, unsigned placed) {
    int n = 0;
    for (; want; want &= want - 1)
        n++;
    for (int b = 0; b < e->n_blocks; b++)
        n += !(placed & e->block[b]);
    return n;
}

/* The last GPU: a type that serves what is left and holds the blocks that are left. */
static bool finish(struct mo_exact *e, int from, unsigned want, unsigned placed, double need) {
    int kind = kind_at(e, e->n_chosen);
    for (int i = from; i < e->n_order[kind]; i++) {
        const struct mo_type_order *o = &e->order[kind][i];
        if (need > o->worth + EXACT_EPS) break;
        if ((want & ~(unsigned)o->own) || (placed & o->in_blocks) || (placed | o->in_blocks) != e->in_blocks)
            continue;
        const struct mo_gpu_type *type = &e->pool[o->at];
        for (int t = 0; t < e->n_tenants; t++)
            e->left[t] -= type->gain[t];
        e->chosen[e->n_chosen++] = o->at;
        if (solved(e)) return true;
        e->n_chosen--;
        for (int t = 0; t < e->n_tenants; t++)
            e->left[t] += type->gain[t];
    }
    return false;
}

/* placed: tenants of the blocks that have their lets, which are worth so much at most. */
static bool descend(struct mo_exact *e, int from, unsigned placed, double placed_worth) {
    int depth = e->n_chosen, n_gpus = e->space->view->n_gpus;
    unsigned want = wanting(e);
    double rest = 0, need = needed(e) - placed_worth;
    if (++e->nodes > e->stop) e->stopped = true;
    if (e->stopped || lets_needed(e, want, placed) > e->lets_behind[depth]) return false;
    if (placed == e->in_blocks && !want && solved(e)) return true;
    if (depth == n_gpus) return false;
    if (depth == n_gpus - 1) return finish(e, from, want, placed, need);
    int kind = kind_at(e, depth), alike = 1;
    while (depth + alike < n_gpus && kind_at(e, depth + alike) == kind)
        alike++;
    for (int g = depth + alike; g < n_gpus; g++)
        rest += e->gpu_worth[kind_at(e, g)];
    for (int i = from; i < e->n_order[kind]; i++) {
        const struct mo_type_order *o = &e->order[kind][i];
        if (need > o->worth * alike + rest + EXACT_EPS) break; /* types come by falling worth */
        if (o->in_blocks & placed) continue;
        const struct mo_gpu_type *type = &e->pool[o->at];
        for (int t = 0; t < e->n_tenants; t++)
            e->left[t] -= type->gain[t];
        e->chosen[e->n_chosen++] = o->at;
        if (descend(e, alike > 1 ? i : 0, placed | type->in_blocks, placed_worth + type->block_worth))
            return true;
        e->n_chosen--;
        for (int t = 0; t < e->n_tenants; t++)
            e->left[t] += type->gain[t];
    }
    return false;
}

/* Puts one let on the board: of its own as far as the rate goes, of a block with what is left. */
static bool put_let(const struct mo_exact *e, struct mo_board *board, int depth, int l) {
    const struct mo_gpu_type *type = &e->pool[e->chosen[depth]];
    const unsigned label = type->label[l];
    bool block = label & (label - 1), first = true;
    for (int t = 0; label >> t; t++) {
        double left = board->left[t];
        int g = e->gpu[depth];
        if (!(label >> t & 1) || left <= EXACT_EPS * e->space->rate[t]) continue;
        if (!block) left = fmin(left, mo_type_alone(e, kind_at(e, depth), type, l, t));
        if (!(first ? mo_board_add(board, g, type->size[l], t, left)
                    : mo_board_share(board, g, board->gpus[g].n - 1, t, left)))
            return false;
        first = false;
    }
    return true;
}

static bool carry_out(const struct mo_exact *e, struct mo_board *board) {
    mo_board_clear(board);
    for (int blocks = 0; blocks < 2; blocks++)
        for (int d = 0; d < e->n_chosen; d++)
            for (int l = 0; l < e->pool[e->chosen[d]].n; l++) {
                unsigned label = e->pool[e->chosen[d]].label[l];
                if (((label & (label - 1)) != 0) == blocks && !put_let(e, board, d, l)) return false;
            }
    return true;
}

static bool search_partition(struct mo_exact *e, struct mo_board *board) {
    if (!mo_types_order(e)) {
        e->overflow = true;
        return false;
    }
    memcpy(e->left, e->space->rate, sizeof e->left);
    e->n_chosen = 0;
    e->stopped = false;
    e->stop = e->nodes + e->slice;
    if (e->limit && e->stop > e->limit) e->stop = e->limit;
    bool found = descend(e, 0, 0, 0);
    e->unfinished |= e->stopped;
    return found && carry_out(e, board);
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

/* Partitions: tenant t joins one of the groups that the tenants before it made, or makes one. */
static bool partitions(struct mo_exact *e, struct mo_board *board, unsigned *group, int n_groups, int t) {
    if (e->overflow || (e->limit && e->nodes >= e->limit)) return false;
    if (t == e->n_tenants) {
        e->n_blocks = e->in_blocks = 0;
        for (int g = 0; g < n_groups; g++)
            if (group[g] & (group[g] - 1)) {
                e->block[e->n_blocks++] = (unsigned char)group[g];
                e->in_blocks |= (unsigned char)group[g];
            }
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

/* Rounds with ever larger slices: most plans are found soon in some partition, and the last round, which
 * finishes every partition, is most of the work of all. */
bool mo_exact_search(struct mo_exact *e, struct mo_board *board) {
    const int n_gpus = e->space->view->n_gpus;
    unsigned group[MO_EXACT_TENANTS];
    e->hopeless = !(mo_exact_bound(e) <= n_gpus + EXACT_EPS);
    if (e->hopeless) return false;
    for (int d = n_gpus - 1; d >= 0; d--)
        e->lets_behind[d] = e->lets_behind[d + 1] + e->space->view->kinds[kind_at(e, d)].max_lets;
    for (e->slice = FIRST_SLICE;; e->slice *= 16) {
        e->unfinished = false;
        if (partitions(e, board, group, 0, 0)) return true;
        e->cut_short = e->overflow || (e->limit && e->nodes >= e->limit);
        if (e->cut_short || !e->unfinished) return false;
    }
}
