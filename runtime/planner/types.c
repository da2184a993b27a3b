/* SPDX-License-Identifier: Apache-2.0
 * types.c - the types of a GPU: all ways to cut it and to give the lets to tenants or blocks; see exact.h.
 *
 * A group's types come by who has the lets, the blocks first, and for each such list by the cuts.  A type is
 * compared with those of the same list, without blocks with all of the group: another owner of a let beside a
 * block serves somebody else, so hardly any type is dominated by one of another list. */
#include <math.h>
#include <string.h>
#include "runtime/planner/exact.h"

/* What a turn's time may be off by: times are whole ns, batches have a millionth of a query of slack. */
static const double turn_margin = 1 - 1e-5;

static bool is_block(unsigned label) {
    return label & (label - 1);
}

/* fmax() is a call. */
static double larger(double a, double b) {
    return a > b ? a : b;
}

static struct mo_share_use use_of(const struct mo_exact *e, int kind, int size, unsigned label) {
    struct mo_share_use use = {0};
    for (int t = 0; label >> t; t++)
        if (label >> t & 1) {
            const struct mo_share_use *u = &mo_space_cell(e->space, kind, size, t)->out;
            use.sm = larger(use.sm, u->sm);
            use.l2 = larger(use.l2, u->l2);
            use.dram = larger(use.dram, u->dram);
        }
    return use;
}

int mo_type_others(const struct mo_exact *e, int kind, const struct mo_gpu_type *type, int at,
                   struct mo_share_use *others) {
    int n = 0;
    for (int l = 0; l < type->n; l++)
        if (l != at) others[n++] = use_of(e, kind, type->size[l], type->label[l]);
    return n;
}

double mo_type_alone(const struct mo_exact *e, int kind, const struct mo_gpu_type *type, int at, int tenant) {
    struct mo_share_use others[MO_TYPE_LETS];
    int n = mo_type_others(e, kind, type, at, others);
    if (n == 0) return mo_space_cell(e->space, kind, type->size[at], tenant)->rate;
    double slowdown = mo_space_slowdown(e->space, kind, type->size[at], tenant, others, n);
    return mo_space_rate(e->space, kind, type->size[at], tenant, slowdown);
}

double mo_type_rate(struct mo_exact *e, int kind, int size, int tenant, double slowdown) {
    const struct mo_plan_cell *cell = mo_space_cell(e->space, kind, size, tenant);
    uint64_t bits;
    if (!(slowdown > 1)) return cell->rate;
    memcpy(&bits, &slowdown, sizeof bits);
    bits = (bits ^ (uint64_t)(cell - e->space->cells)) * UINT64_C(0x9e3779b97f4a7c15);
    struct mo_rate_memo *memo = &e->memo[bits >> 32 & (MO_RATE_MEMO - 1)];
    if (memo->cell != cell || memo->slowdown != slowdown)
        *memo = (struct mo_rate_memo){cell, slowdown, mo_space_rate(e->space, kind, size, tenant, slowdown)};
    return memo->rate;
}

static bool memory_fits(const struct mo_exact *e, int kind, const struct mo_gpu_type *type) {
    const struct mo_plan_kind *k = &e->space->view->kinds[kind];
    unsigned seen = 0;
    int64_t sum = 0;
    for (int l = 0; l < type->n; l++) {
        unsigned who = type->label[l];
        if (k->shared_weights) who &= ~seen;
        seen |= who;
        for (int t = 0; who >> t; t++)
            if (who >> t & 1) sum += mo_space_memory(e->space, kind, t);
    }
    return sum <= k->memory_bytes;
}

/* Slowdowns and gains on one let; false: someone is not served at all. */
static bool evaluate_let(struct mo_exact *e, int kind, struct mo_gpu_type *type, int l,
                         const struct mo_share_use *use) {
    struct mo_share_use others[MO_TYPE_LETS];
    const unsigned label = type->label[l];
    int n = 0;
    for (int i = 0; i < type->n; i++)
        if (i != l) others[n++] = use[i];
    for (int t = 0; label >> t; t++) {
        if (!(label >> t & 1)) continue;
        double slow = mo_space_slowdown(e->space, kind, type->size[l], t, others, n);
        if (is_block(label)) {
            const struct mo_plan_cell *cell = mo_space_cell(e->space, kind, type->size[l], t);
            type->slow[t] = slow;
            type->part[t] = type->size[l];
            if (!cell->max_batch || 2 * mo_cell_time(cell, 1, slow) > mo_space_target(e->space, t))
                return false;
        } else {
            double rate = mo_type_rate(e, kind, type->size[l], t, slow);
            if (!(rate > 0)) return false;
            type->gain[t] += rate;
        }
    }
    return true;
}

/* Nobody has more than it asks for. */
static void cap(const struct mo_exact *e, struct mo_gpu_type *type) {
    for (int t = 0; t < e->n_tenants; t++)
        if (type->gain[t] > e->space->rate[t]) type->gain[t] = e->space->rate[t];
}

/* Fills all but turns and worth; false: someone on it is not served at all. */
static bool evaluate(struct mo_exact *e, int kind, struct mo_gpu_type *type) {
    struct mo_share_use use[MO_TYPE_LETS];
    type->own = type->in_blocks = 0;
    memset(type->gain, 0, sizeof type->gain);
    if (!memory_fits(e, kind, type)) return false;
    for (int l = 0; l < type->n; l++) {
        use[l] = use_of(e, kind, type->size[l], type->label[l]);
        *(is_block(type->label[l]) ? &type->in_blocks : &type->own) |= type->label[l];
    }
    for (int l = 0; l < type->n; l++)
        if (!evaluate_let(e, kind, type, l, use)) return false;
    if (e->capped) cap(e, type);
    return true;
}

/* Largest batch that takes at most so long; 0: none. */
static int batch_within(const struct mo_plan_cell *cell, double slow, int64_t most) {
    int low = 0, high = cell->max_batch;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (mo_cell_time(cell, middle, slow) <= most)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* With x queries in a cycle of D a batch b holds them for x <= mean[b]; the others take one query's time at
 * least, so
 *
 *   time(b) + others <= D <= every target - that tenant's time
 *   x / D <= time(b) / D mean[b] / time(b)
 *
 * Over batches up to the largest so allowed, time(b) / mean[b] is at least slow lean[b] + copy b / mean[b].
 * false: there is no time for one query each. */
bool mo_type_turns(const struct mo_exact *e, int kind, int size, unsigned label, const double *slow,
                   double *turn) {
    int64_t time[MO_EXACT_TENANTS], sum = 0, latest = MO_SHARE_NEVER;
    for (int t = 0; label >> t; t++) {
        if (!(label >> t & 1)) continue;
        const struct mo_plan_cell *cell = mo_space_cell(e->space, kind, size, t);
        if (!cell->max_batch) return false;
        time[t] = mo_cell_time(cell, 1, slow[t]);
        sum += time[t];
        if (mo_space_target(e->space, t) - time[t] < latest) latest = mo_space_target(e->space, t) - time[t];
    }
    for (int t = 0; label >> t; t++) {
        if (!(label >> t & 1)) continue;
        const struct mo_plan_cell *cell = mo_space_cell(e->space, kind, size, t);
        int64_t others = sum - time[t], most = latest - others;
        if ((mo_space_target(e->space, t) - others) / 2 < most)
            most = (mo_space_target(e->space, t) - others) / 2;
        int b = batch_within(cell, slow[t], most);
        if (!b) return false;
        double ns = slow[t] * e->lean[kind][t][size][b] + cell->copy * b / e->space->mean[b];
        turn[t] = turn_margin * ns * 1e-9;
    }
    return true;
}

/* Fills turns; false: a block on it cannot take any. */
static bool all_take_turns(const struct mo_exact *e, int kind, struct mo_gpu_type *type) {
    memset(type->turn, 0, sizeof type->turn);
    for (int l = 0; l < type->n; l++)
        if (is_block(type->label[l]) &&
            !mo_type_turns(e, kind, type->size[l], type->label[l], type->slow, type->turn))
            return false;
    return true;
}

/* Of two types of one group.  Times fall with the size. */
static bool no_worse(const struct mo_gpu_type *a, const struct mo_gpu_type *b) {
    if (b->own & ~(unsigned)a->own) return false;
    for (unsigned who = b->own; who; who &= who - 1) {
        int t = mo_first_of(who);
        if (a->gain[t] < b->gain[t]) return false;
    }
    for (unsigned who = a->in_blocks; who; who &= who - 1) {
        int t = mo_first_of(who);
        if (a->part[t] < b->part[t] || a->slow[t] > b->slow[t]) return false;
    }
    return true;
}

struct listing {
    struct mo_exact *exact;
    struct mo_type_group *group;
    struct mo_gpu_type type;
    int n_lets, list;       /* lets of the list; where its types begin in the group */
    int from[MO_TYPE_LETS]; /* sizes below cannot be the let's: of no use to a block even without neighbours
                             */
};

/* The smallest size on which the block can take turns. */
static int smallest(const struct mo_exact *e, int kind, unsigned block) {
    static const double alone[MO_EXACT_TENANTS] = {1, 1, 1, 1, 1, 1, 1, 1};
    double turn[MO_EXACT_TENANTS];
    int s = 0;
    while (s < e->space->view->kinds[kind].n_sizes && !mo_type_turns(e, kind, s, block, alone, turn))
        s++;
    return s;
}

/* Keeps the list free of dominated types; it is the last in the pool. */
static bool take(struct listing *l) {
    struct mo_exact *e = l->exact;
    struct mo_gpu_type *pool = &e->pool[l->group->begin], *type = &l->type;
    int n = l->list;
    for (int i = l->list; i < l->group->n; i++)
        if (no_worse(&pool[i], type)) return true;
    for (int i = l->list; i < l->group->n; i++) {
        if (no_worse(type, &pool[i])) continue;
        if (n != i) pool[n] = pool[i];
        n++;
    }
    l->group->n = n;
    if (l->group->begin + n == MO_EXACT_TYPES) return false;
    pool[l->group->n++] = *type;
    return true;
}

/* All cuts for a list of lets, the same owner's by falling size.  One more let makes nobody faster and frees
 * no memory: what does not work needs no further let. */
static bool cut(struct listing *l, int units) {
    struct mo_gpu_type *type = &l->type;
    const struct mo_plan_kind *k = &l->exact->space->view->kinds[l->group->kind];
    const int at = type->n;
    if (at == l->n_lets) return take(l);
    int most = at && type->label[at] == type->label[at - 1] ? type->size[at - 1] : k->n_sizes - 1;
    for (int s = l->from[at]; s <= most && k->sizes[s] <= units; s++) {
        type->size[type->n++] = (unsigned char)s;
        bool works = (type->n < 2 && type->n < l->n_lets) || evaluate(l->exact, l->group->kind, type);
        bool ok = !works || cut(l, units - k->sizes[s]);
        type->n--;
        if (!ok) return false;
    }
    return true;
}

/* Turns of the types of a list; one that dominates another has time for turns if that has. */
static void finish_list(struct listing *l) {
    struct mo_type_group *group = l->group;
    struct mo_gpu_type *pool = &l->exact->pool[group->begin];
    int n = l->list;
    for (int i = l->list; i < group->n; i++) {
        if (!all_take_turns(l->exact, group->kind, &pool[i])) continue;
        if (n != i) pool[n] = pool[i];
        n++;
    }
    group->n = n;
}

/* All lists: `n` owners so far, the next of those with one let to themselves no earlier than `from`. */
static bool lists(struct listing *l, int n, int from) {
    struct mo_exact *e = l->exact;
    const struct mo_plan_kind *k = &e->space->view->kinds[l->group->kind];
    l->n_lets = n;
    if (l->group->n_blocks) l->list = l->group->n;
    if (n && !cut(l, k->units)) return false;
    if (l->group->n_blocks) finish_list(l);
    if (n == k->max_lets || n == MO_TYPE_LETS) return true;
    for (int t = from; t < e->n_tenants; t++) {
        l->type.label[n] = (unsigned char)(1u << t);
        if (!lists(l, n + 1, t)) return false;
    }
    return true;
}

static bool comes_before(const struct mo_type_order *a, const struct mo_type_order *b) {
    return a->worth != b->worth ? a->worth > b->worth : a->at < b->at;
}

/* Shell's sort. */
static void sort_by_worth(struct mo_type_order *list, int n) {
    static const int gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (int i = gaps[g]; i < n; i++) {
            struct mo_type_order one = list[i];
            int at = i;
            for (; at >= gaps[g] && comes_before(&one, &list[at - gaps[g]]); at -= gaps[g])
                list[at] = list[at - gaps[g]];
            list[at] = one;
        }
}

void mo_type_group_price(struct mo_exact *e, const struct mo_type_group *group) {
    for (int i = group->begin; i < group->begin + group->n; i++) {
        struct mo_gpu_type *type = &e->pool[i];
        type->block_worth = type->worth = 0;
        for (int l = 0; l < type->n; l++) {
            double most = 0;
            for (int t = 0; is_block(type->label[l]) && type->label[l] >> t; t++)
                if (type->label[l] >> t & 1) most = fmax(most, e->price[t] / type->turn[t]);
            type->block_worth += most;
        }
        for (int t = 0; t < e->n_tenants; t++)
            type->worth += e->price[t] * type->gain[t];
        type->worth += type->block_worth;
        e->sorted[i] = (struct mo_type_order){type->worth, (unsigned short)i, type->own, type->in_blocks};
    }
    sort_by_worth(&e->sorted[group->begin], group->n);
}

void mo_types_cap(struct mo_exact *e) {
    e->capped = true;
    for (int g = 0; g < e->n_groups; g++) {
        struct listing listing = {.exact = e, .group = &e->groups[g]};
        const int n = listing.group->n;
        listing.group->n = 0;
        for (int i = 0; i < n; i++) { /* the types that are kept move down */
            listing.type = e->pool[listing.group->begin + i];
            cap(e, &listing.type);
            take(&listing);
        }
        mo_type_group_price(e, listing.group);
    }
}

const struct mo_type_group *mo_type_group(struct mo_exact *e, int kind, const unsigned char *block,
                                          int n_blocks) {
    struct mo_type_group *group = &e->groups[e->n_groups];
    struct listing listing = {.exact = e, .group = group};
    for (int i = 0; i < e->n_groups; i++)
        if (e->groups[i].kind == kind && e->groups[i].n_blocks == n_blocks &&
            (!n_blocks || !memcmp(e->groups[i].block, block, (size_t)n_blocks)))
            return &e->groups[i];
    if (e->n_groups == MO_EXACT_GROUPS) return NULL;
    *group = (struct mo_type_group){
        .kind = (unsigned char)kind, .n_blocks = (unsigned char)n_blocks, .begin = e->n_pool};
    for (int b = 0; b < n_blocks; b++) {
        group->block[b] = listing.type.label[b] = block[b];
        listing.from[b] = smallest(e, kind, block[b]);
    }
    if (!lists(&listing, n_blocks, 0)) return NULL;
    mo_type_group_price(e, group);
    e->n_pool += group->n;
    e->n_groups++;
    if (n_blocks) e->nodes += MO_GROUP_NODES;
    return group;
}

/* Merges a group into the order of its kind. */
static bool merge(struct mo_exact *e, const struct mo_type_group *group) {
    struct mo_type_order *order = e->order[group->kind];
    const struct mo_type_order *sorted = &e->sorted[group->begin];
    int have = e->n_order[group->kind], at = have + group->n - 1;
    if (have + group->n > MO_EXACT_TYPES) return false;
    e->n_order[group->kind] = have + group->n;
    for (int i = have - 1, j = group->n - 1; j >= 0; at--)
        order[at] = i >= 0 && comes_before(&sorted[j], &order[i]) ? order[i--] : sorted[j--];
    return true;
}

/* The groups of all subsets of the partition's blocks. */
bool mo_types_order(struct mo_exact *e) {
    for (int k = 0; k < e->space->view->n_kinds; k++) {
        e->n_order[k] = 0;
        for (unsigned set = 0; set < 1u << e->n_blocks; set++) {
            unsigned char block[MO_EXACT_BLOCKS];
            int n = 0;
            e->of[k][set] = NULL;
            for (int b = 0; b < e->n_blocks; b++)
                if (set >> b & 1) block[n++] = e->block[b];
            if (n > e->space->view->kinds[k].max_lets || n > MO_TYPE_LETS) continue;
            e->of[k][set] = mo_type_group(e, k, block, n);
            if (!e->of[k][set] || !merge(e, e->of[k][set])) return false;
        }
        e->gpu_worth[k] = e->n_order[k] ? e->order[k][0].worth : 0;
    }
    return true;
}
