/* SPDX-License-Identifier: Apache-2.0
 * types.c - the types of a GPU: all ways to cut it and to give the lets to tenants or blocks; see exact.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/exact.h"

static struct mo_share_use use_of(const struct mo_exact *e, int kind, int size, int label) {
    struct mo_share_use use = {0};
    for (int t = 0; t < e->n_tenants; t++)
        if (e->member[label] >> t & 1) {
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

/* Queries/s of one tenant alone on a let of the type. */
static double alone(const struct mo_exact *e, int kind, const struct mo_gpu_type *type, int at, int tenant) {
    struct mo_share_use others[MO_TYPE_LETS];
    int n = mo_type_others(e, kind, type, at, others);
    double slowdown = mo_space_slowdown(e->space, kind, type->size[at], tenant, others, n);
    return mo_space_rate(e->space, kind, type->size[at], tenant, slowdown);
}

static bool memory_fits(const struct mo_exact *e, int kind, const struct mo_gpu_type *type) {
    const struct mo_plan_kind *k = &e->space->view->kinds[kind];
    unsigned seen = 0;
    int64_t sum = 0;
    for (int l = 0; l < type->n; l++) {
        unsigned who = e->member[type->label[l]];
        if (k->shared_weights) who &= ~seen;
        seen |= who;
        for (int t = 0; t < e->n_tenants; t++)
            if (who >> t & 1) sum += mo_space_memory(e->space, kind, t);
    }
    return sum <= k->memory_bytes;
}

/* Fills gains and worth; false: someone on it is not served at all. */
static bool evaluate(const struct mo_exact *e, int kind, struct mo_gpu_type *type) {
    type->blocks = 0;
    type->block_worth = type->worth = 0;
    memset(type->gain, 0, sizeof type->gain);
    if (!memory_fits(e, kind, type)) return false;
    for (int l = 0; l < type->n; l++) {
        double most = 0;
        for (int t = 0; t < e->n_tenants; t++) {
            if (!(e->member[type->label[l]] >> t & 1)) continue;
            double rate = alone(e, kind, type, l, t);
            if (!(rate > 0)) return false;
            most = fmax(most, e->price[t] * rate);
            if (type->label[l] < e->n_tenants) type->gain[t] += rate;
        }
        if (type->label[l] >= e->n_tenants) {
            type->blocks |= 1u << (type->label[l] - e->n_tenants);
            type->block_worth += most;
        }
        type->worth += most;
    }
    return true;
}

/* Is the let of a block at least as good in `a` as in `b`?  Times fall with the size. */
static bool block_no_worse(const struct mo_exact *e, int kind, const struct mo_gpu_type *a, int la,
                           const struct mo_gpu_type *b, int lb) {
    struct mo_share_use oa[MO_TYPE_LETS], ob[MO_TYPE_LETS];
    int na = mo_type_others(e, kind, a, la, oa), nb = mo_type_others(e, kind, b, lb, ob);
    if (a->size[la] < b->size[lb]) return false;
    for (int t = 0; t < e->n_tenants; t++)
        if (e->member[a->label[la]] >> t & 1 && mo_space_slowdown(e->space, kind, a->size[la], t, oa, na) >
                                                    mo_space_slowdown(e->space, kind, b->size[lb], t, ob, nb))
            return false;
    return true;
}

static bool no_worse(const struct mo_exact *e, int kind, const struct mo_gpu_type *a,
                     const struct mo_gpu_type *b) {
    if (a->blocks != b->blocks) return false;
    for (int t = 0; t < e->n_tenants; t++)
        if (a->gain[t] < b->gain[t]) return false;
    for (int i = 0; a->blocks && i < a->n; i++)
        for (int j = 0; a->label[i] >= e->n_tenants && j < b->n; j++)
            if (a->label[i] == b->label[j] && !block_no_worse(e, kind, a, i, b, j)) return false;
    return true;
}

/* Keeps the list free of dominated types. */
static bool take(struct mo_exact *e, int kind, const struct mo_gpu_type *type) {
    struct mo_gpu_type *list = e->types[kind];
    int n = 0;
    for (int i = 0; i < e->n_types[kind]; i++)
        if (no_worse(e, kind, &list[i], type)) return true;
    for (int i = 0; i < e->n_types[kind]; i++)
        if (!no_worse(e, kind, type, &list[i])) list[n++] = list[i];
    e->n_types[kind] = n;
    if (n == MO_EXACT_TYPES) return false;
    list[e->n_types[kind]++] = *type;
    return true;
}

static bool twice(const struct mo_gpu_type *type, int n_tenants) {
    for (int l = 1; l < type->n; l++)
        for (int m = 0; m < l; m++)
            if (type->label[l] >= n_tenants && type->label[l] == type->label[m]) return true;
    return false;
}

/* One more let on the type, not before (size, label) in order, and so on. */
static bool extend(struct mo_exact *e, int kind, struct mo_gpu_type *type, int units, int from) {
    const struct mo_plan_kind *k = &e->space->view->kinds[kind];
    int labels = e->n_tenants + e->n_blocks;
    if (type->n == k->max_lets || type->n == MO_TYPE_LETS) return true;
    for (int at = from; at < k->n_sizes * labels; at++) {
        int size = at / labels;
        if (k->sizes[size] > units) break;
        type->size[type->n] = (unsigned char)size;
        type->label[type->n++] = (unsigned char)(at % labels);
        /* one more let makes nobody faster and frees no memory: what does not work needs no extension */
        bool works = !twice(type, e->n_tenants) && evaluate(e, kind, type);
        bool ok = !works || (take(e, kind, type) && extend(e, kind, type, units - k->sizes[size], at));
        type->n--;
        if (!ok) return false;
    }
    return true;
}

bool mo_types_list(struct mo_exact *e, int kind) {
    struct mo_gpu_type type = {0};
    e->n_types[kind] = 0;
    if (!extend(e, kind, &type, e->space->view->kinds[kind].units, 0)) return false;
    struct mo_gpu_type *list = e->types[kind];
    for (int i = 1; i < e->n_types[kind]; i++) { /* by falling worth */
        struct mo_gpu_type one = list[i];
        int at = i;
        for (; at > 0 && list[at - 1].worth < one.worth; at--)
            list[at] = list[at - 1];
        list[at] = one;
    }
    e->gpu_worth[kind] = e->n_types[kind] ? list[0].worth : 0;
    return true;
}
