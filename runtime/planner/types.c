/* SPDX-License-Identifier: Apache-2.0
 * types.c - the types of a GPU: all ways to cut it and to give the lets to tenants or blocks; see exact.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/exact.h"

static bool is_block(unsigned label) {
    return label & (label - 1);
}

static struct mo_share_use use_of(const struct mo_exact *e, int kind, int size, unsigned label) {
    struct mo_share_use use = {0};
    for (int t = 0; label >> t; t++)
        if (label >> t & 1) {
            const struct mo_share_use *u = &mo_space_cell(e->space, kind, size, t)->out;
            use.sm = fmax(use.sm, u->sm);
            use.l2 = fmax(use.l2, u->l2);
            use.dram = fmax(use.dram, u->dram);
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

/* Fills gains and worth; false: someone on it is not served at all. */
static bool evaluate(const struct mo_exact *e, int kind, struct mo_gpu_type *type) {
    type->own = type->in_blocks = 0;
    type->block_worth = type->worth = 0;
    memset(type->gain, 0, sizeof type->gain);
    if (!memory_fits(e, kind, type)) return false;
    for (int l = 0; l < type->n; l++) {
        unsigned label = type->label[l];
        double most = 0;
        for (int t = 0; label >> t; t++) {
            if (!(label >> t & 1)) continue;
            double rate = mo_type_alone(e, kind, type, l, t);
            if (!(rate > 0)) return false;
            most = fmax(most, e->price[t] * rate);
            if (!is_block(label)) type->gain[t] += rate;
        }
        if (is_block(label)) {
            type->in_blocks |= (unsigned char)label;
            type->block_worth += most;
        } else {
            type->own |= (unsigned char)label;
        }
        type->worth += most;
    }
    return true;
}

/* Is the let of a block at least as good in `a` as in `b`?  Times fall with the size. */
static bool block_no_worse(const struct mo_exact *e, int kind, const struct mo_gpu_type *a, int la,
                           const struct mo_gpu_type *b, int lb) {
    struct mo_share_use oa[MO_TYPE_LETS], ob[MO_TYPE_LETS];
    if (a->size[la] < b->size[lb]) return false;
    int na = mo_type_others(e, kind, a, la, oa), nb = mo_type_others(e, kind, b, lb, ob);
    for (int t = 0; a->label[la] >> t; t++)
        if (a->label[la] >> t & 1 && mo_space_slowdown(e->space, kind, a->size[la], t, oa, na) >
                                         mo_space_slowdown(e->space, kind, b->size[lb], t, ob, nb))
            return false;
    return true;
}

/* Of two types of one group. */
static bool no_worse(const struct mo_exact *e, int kind, const struct mo_gpu_type *a,
                     const struct mo_gpu_type *b) {
    for (int t = 0; t < e->n_tenants; t++)
        if (a->gain[t] < b->gain[t]) return false;
    for (int i = 0; a->in_blocks && i < a->n; i++)
        for (int j = 0; is_block(a->label[i]) && j < b->n; j++)
            if (a->label[i] == b->label[j] && !block_no_worse(e, kind, a, i, b, j)) return false;
    return true;
}

/* Keeps the group free of dominated types; it is the last in the pool. */
static bool take(struct mo_exact *e, struct mo_type_group *group, const struct mo_gpu_type *type) {
    struct mo_gpu_type *list = &e->pool[group->begin];
    int n = 0;
    for (int i = 0; i < group->n; i++)
        if (no_worse(e, group->kind, &list[i], type)) return true;
    for (int i = 0; i < group->n; i++)
        if (!no_worse(e, group->kind, type, &list[i])) list[n++] = list[i];
    group->n = n;
    if (group->begin + n == MO_EXACT_TYPES) return false;
    list[group->n++] = *type;
    return true;
}

struct listing {
    struct mo_exact *exact;
    struct mo_type_group *group;
    struct mo_gpu_type type;
    unsigned wanted; /* tenants of the group's blocks */
};

static unsigned label_of(const struct listing *l, int i) {
    return i < l->exact->n_tenants ? 1u << i : l->group->block[i - l->exact->n_tenants];
}

/* One more let on the type, not before (size, label) in order, and so on.  One more let makes nobody faster
 * and frees no memory: what does not work needs no extension. */
static bool extend(struct listing *l, int units, int from, unsigned placed) {
    struct mo_exact *e = l->exact;
    struct mo_gpu_type *type = &l->type;
    const struct mo_plan_kind *k = &e->space->view->kinds[l->group->kind];
    int labels = e->n_tenants + l->group->n_blocks;
    if (type->n == k->max_lets || type->n == MO_TYPE_LETS) return true;
    for (int at = from; at < k->n_sizes * labels; at++) {
        unsigned label = label_of(l, at % labels), now = placed;
        if (k->sizes[at / labels] > units) break;
        if (is_block(label) && (placed & label)) continue;
        if (is_block(label)) now |= label;
        type->size[type->n] = (unsigned char)(at / labels);
        type->label[type->n++] = (unsigned char)label;
        bool ok = true;
        if (evaluate(e, l->group->kind, type))
            ok = (now != l->wanted || take(e, l->group, type)) &&
                 extend(l, units - k->sizes[at / labels], at, now);
        type->n--;
        if (!ok) return false;
    }
    return true;
}

void mo_type_group_price(struct mo_exact *e, const struct mo_type_group *group) {
    struct mo_gpu_type *list = &e->pool[group->begin];
    for (int i = 0; i < group->n; i++) {
        struct mo_gpu_type one = list[i];
        int at = i;
        if (!group->n_blocks) {
            one.worth = 0;
            for (int t = 0; t < e->n_tenants; t++)
                one.worth += e->price[t] * one.gain[t];
        }
        for (; at > 0 && list[at - 1].worth < one.worth; at--)
            list[at] = list[at - 1];
        list[at] = one;
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
        group->block[b] = block[b];
        listing.wanted |= block[b];
    }
    if (!extend(&listing, e->space->view->kinds[kind].units, 0, 0)) return NULL;
    mo_type_group_price(e, group);
    e->n_pool += group->n;
    e->n_groups++;
    return group;
}

/* Merges a group into the order of its kind. */
static bool merge(struct mo_exact *e, const struct mo_type_group *group) {
    struct mo_type_order *order = e->order[group->kind];
    int have = e->n_order[group->kind], at = have + group->n - 1;
    if (have + group->n > MO_EXACT_TYPES) return false;
    e->n_order[group->kind] = have + group->n;
    for (int i = have - 1, j = group->n - 1; j >= 0; at--) {
        const struct mo_gpu_type *type = &e->pool[group->begin + j];
        if (i >= 0 && order[i].worth < type->worth)
            order[at] = order[i--];
        else
            order[at] = (struct mo_type_order){type->worth, (unsigned short)(group->begin + j--), type->own,
                                               type->in_blocks};
    }
    return true;
}

/* The groups of all subsets of the partition's blocks. */
bool mo_types_order(struct mo_exact *e) {
    for (int k = 0; k < e->space->view->n_kinds; k++) {
        e->n_order[k] = 0;
        for (unsigned set = 0; set < 1u << e->n_blocks; set++) {
            unsigned char block[MO_EXACT_BLOCKS];
            int n = 0;
            for (int b = 0; b < e->n_blocks; b++)
                if (set >> b & 1) block[n++] = e->block[b];
            if (n > e->space->view->kinds[k].max_lets) continue;
            const struct mo_type_group *group = mo_type_group(e, k, block, n);
            if (!group || !merge(e, group)) return false;
        }
        e->gpu_worth[k] = e->n_order[k] ? e->order[k][0].worth : 0;
    }
    return true;
}
