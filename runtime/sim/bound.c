/* SPDX-License-Identifier: Apache-2.0
 * bound.c - ranks by earliest deadline, and the limits that follow from them; see bound.h.
 *
 * A rank takes one pass over the queries and is kept, for both limits ask for the same sets of tenants. */
#include "runtime/sim/bound.h"

#include <math.h>
#include <string.h>

enum { HALVINGS = 60, KEPT = 8 * MO_BOUND_TENANTS };
static const double DEAREST = 1e6;
/* Rounding may not lower a limit: relative to a sum, and of a number that is whole. */
static const double rounding = 1e-9, whole = 1e-6;

struct solver {
    const struct mo_bound_case *of;
    double n[MO_BOUND_TENANTS];         /* queries of each tenant */
    int order[MO_BOUND_TENANTS], asked; /* tenants that have any, by need */
    int *heap;                          /* of queries with work left, by deadline */
    double *left;
    int n_heap;
    struct {
        uint64_t set;
        double rank;
    } kept[KEPT];
    int n_kept;
};

/* Least time of a layer alone, in whatever version runs at any pressure: which one is the fastest depends on
 * the core count, and the profile's own rows are those of the first version. */
static double layer_time(const struct mo_profile *p, int cores, int layer) {
    int64_t least = mo_profile_time(p, cores, layer, layer + 1);
    for (int k = 0; p->level && k < MO_PROFILE_LEVELS; k++) {
        const struct mo_profile_does *sum = mo_profile_level(p, k, cores);
        int64_t time = sum[layer + 1].solo - sum[layer].solo;
        if (time < least) least = time;
    }
    return (double)least;
}

/* min over core counts of (cores + price) x time, summed over the layers; *time: how long those counts take.
 * `price`: cores that a unit of time is worth. */
static double cheapest(const struct mo_profile *p, int cores, double price, double *time) {
    double sum = 0;
    *time = 0;
    for (int l = 0; l < p->n_layers; l++) {
        double least = INFINITY, takes = 0;
        for (int c = 1; c <= cores; c++) {
            double t = layer_time(p, c, l);
            if ((c + price) * t >= least) continue;
            least = (c + price) * t;
            takes = t;
        }
        sum += least;
        *time += takes;
    }
    return sum;
}

/* Every price gives a lower limit, cheapest(price) - price x target; the largest lies where the time meets
 * the target. */
double mo_bound_need(const struct mo_profile *p, int cores, double target) {
    double low = 0, high = DEAREST, time, best = cheapest(p, cores, 0, &time);
    if (time <= target) return best;
    for (int i = 0; i < HALVINGS; i++) {
        double price = (low + high) / 2, need = cheapest(p, cores, price, &time) - price * target;
        if (need > best) best = need;
        if (time > target)
            low = price;
        else
            high = price;
    }
    return best;
}

int64_t mo_bound_least_time(const struct mo_profile *p, int cores) {
    double sum = 0;
    for (int l = 0; l < p->n_layers; l++) {
        double least = INFINITY;
        for (int c = 1; c <= cores; c++)
            least = fmin(least, layer_time(p, c, l));
        sum += least;
    }
    return (int64_t)sum;
}

/* --- the most work of a set of tenants ------------------------------------------------------------------ */
static bool sooner(const struct solver *s, int a, int b) {
    const struct mo_bound_query *q = s->of->queries;
    return q[a].deadline != q[b].deadline ? q[a].deadline < q[b].deadline : a < b;
}

static void push(struct solver *s, int query) {
    int i = s->n_heap++;
    for (; i && sooner(s, query, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = query;
}

static void pop(struct solver *s) {
    int last = s->heap[--s->n_heap], i = 0;
    for (int k; (k = 2 * i + 1) < s->n_heap; i = k) {
        if (k + 1 < s->n_heap && sooner(s, s->heap[k + 1], s->heap[k])) k++;
        if (!sooner(s, s->heap[k], last)) break;
        s->heap[i] = s->heap[k];
    }
    s->heap[i] = last;
}

/* Works by earliest deadline from *at until `until` or until nothing is left; what is unfinished at its
 * deadline is dropped.  Returns the work done. */
static double work_until(struct solver *s, double *at, double until) {
    const double speed = s->of->cores;
    double done = 0;
    while (s->n_heap && *at < until) {
        int query = s->heap[0];
        double due = (double)s->of->queries[query].deadline, ends = fmin(*at + s->left[query] / speed, due);
        if (ends > until) {
            s->left[query] -= (until - *at) * speed;
            done += (until - *at) * speed;
            *at = until;
            break;
        }
        if (ends > *at) {
            done += (ends - *at) * speed;
            *at = ends;
        }
        pop(s);
    }
    return done;
}

static double pass(struct solver *s, uint64_t set) {
    double at = 0, done = 0;
    s->n_heap = 0;
    for (int i = 0; i < s->of->n; i++) {
        const struct mo_bound_query *q = &s->of->queries[i];
        if (!(set >> q->tenant & 1) || q->deadline <= q->arrival) continue;
        done += work_until(s, &at, (double)q->arrival);
        if (!s->n_heap) at = (double)q->arrival;
        s->left[i] = s->of->tenants[q->tenant].need;
        push(s, i);
    }
    return done + work_until(s, &at, INFINITY);
}

static double rank(struct solver *s, uint64_t set) {
    for (int k = 0; k < s->n_kept; k++)
        if (s->kept[k].set == set) return s->kept[k].rank;
    double work = pass(s, set);
    if (s->n_kept < KEPT) {
        s->kept[s->n_kept].set = set;
        s->kept[s->n_kept++].rank = work;
    }
    return work;
}

/* --- all ------------------------------------------------------------------------------------------------ */
/* What a ns of work of this tenant is worth when being in time rather than late has a price a ns. */
static double density(const struct solver *s, int tenant, double price) {
    const struct mo_bound_tenant *t = &s->of->tenants[tenant];
    return fmax(0, 1 - price * (t->need - t->late)) / t->need;
}

/* Largest worth of the work that fits; *extra: how much of it would have been spared by being late. */
static double greedy(struct solver *s, double price, double *extra) {
    int by_worth[MO_BOUND_TENANTS] = {0};
    double worth = 0, before = 0;
    uint64_t set = 0;
    for (int i = 0; i < s->asked; i++) {
        int at = i;
        for (; at && density(s, by_worth[at - 1], price) < density(s, s->order[i], price); at--)
            by_worth[at] = by_worth[at - 1];
        by_worth[at] = s->order[i];
    }
    *extra = 0;
    for (int i = 0; i < s->asked && density(s, by_worth[i], price) > 0; i++) {
        const struct mo_bound_tenant *t = &s->of->tenants[by_worth[i]];
        double work = rank(s, set |= UINT64_C(1) << by_worth[i]);
        worth += (work - before) * density(s, by_worth[i], price);
        *extra += (work - before) / t->need * (t->need - t->late);
        before = work;
    }
    return worth;
}

/* A whole number: in time, of all. */
static double overall(struct solver *s, double spare) {
    double extra, low = 0, high = 0, best = greedy(s, 0, &extra);
    for (int i = 0; i < s->asked; i++) {
        const struct mo_bound_tenant *t = &s->of->tenants[s->order[i]];
        if (t->need > t->late) high = fmax(high, 1 / (t->need - t->late));
    }
    for (int i = 0; extra > spare && i < HALVINGS; i++) {
        double price = (low + high) / 2, used, limit = greedy(s, price, &used) + price * spare;
        if (limit < best) best = limit;
        if (used > spare)
            low = price;
        else
            high = price;
    }
    return fmin(floor(best * (1 + rounding) + whole), s->of->n);
}

/* --- every ---------------------------------------------------------------------------------------------- */
/* Does what the tenants of the set need for a share v of each fit? */
static bool fits(struct solver *s, uint64_t set, double v) {
    double work = 0;
    for (int i = 0; i < s->asked; i++)
        if (set >> s->order[i] & 1)
            work += s->of->tenants[s->order[i]].need * ceil(v * s->n[s->order[i]] - whole);
    return work <= rank(s, set) * (1 + rounding) + whole;
}

static bool may_be(struct solver *s, double spare, double v) {
    double extra = 0;
    uint64_t before = 0, all = 0;
    for (int i = 0; i < s->asked; i++) {
        const struct mo_bound_tenant *t = &s->of->tenants[s->order[i]];
        extra += (t->need - t->late) * ceil(v * s->n[s->order[i]] - whole);
        all |= UINT64_C(1) << s->order[i];
    }
    if (extra > spare * (1 + rounding) + whole || !fits(s, all, v)) return false;
    for (int i = 0; i < s->asked; i++) {
        uint64_t own = UINT64_C(1) << s->order[i];
        if (!fits(s, own, v) || !fits(s, before |= own, v) || !fits(s, all & ~before, v)) return false;
    }
    return true;
}

static double every(struct solver *s, double spare) {
    double low = 0, high = 1, share = 0;
    if (may_be(s, spare, 1)) return 1;
    for (int i = 0; i < HALVINGS; i++) {
        double v = (low + high) / 2;
        if (may_be(s, spare, v))
            low = v;
        else
            high = v;
    }
    for (int i = 0; i < s->asked; i++) /* the worst tenant has a whole number */
        share = fmax(share, floor(high * s->n[s->order[i]] + whole) / s->n[s->order[i]]);
    return share;
}

/* --- both ----------------------------------------------------------------------------------------------- */
static struct mo_bound_shares shares(struct solver *s, double spare) {
    if (spare < 0) return (struct mo_bound_shares){-1, -1};
    if (!s->of->n) return (struct mo_bound_shares){1, 1};
    struct mo_bound_shares out = {overall(s, spare) / s->of->n, every(s, spare)};
    if (out.every > out.overall) out.every = out.overall;
    return out;
}

static void sort_tenants(struct solver *s) {
    for (int i = 0; i < s->of->n; i++)
        s->n[s->of->queries[i].tenant] += 1;
    for (int t = 0; t < s->of->n_tenants; t++) {
        int at = s->asked;
        if (!(s->n[t] > 0)) continue;
        for (; at && s->of->tenants[s->order[at - 1]].need > s->of->tenants[t].need; at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = t;
        s->asked++;
    }
}

int mo_bound_solve(const struct mo_env *env, const struct mo_bound_case *of, struct mo_bound_shares *any,
                   struct mo_bound_shares *answering) {
    size_t room = (size_t)of->n + 1;
    struct solver *s = mo_alloc(env, sizeof *s);
    int code = s ? MOIRE_OK : MOIRE_ENOMEM;
    if (s) {
        memset(s, 0, sizeof *s);
        s->of = of;
        s->heap = mo_alloc(env, room * sizeof *s->heap);
        s->left = mo_alloc(env, room * sizeof *s->left);
        if (!s->heap || !s->left) code = MOIRE_ENOMEM;
        if (!code) {
            sort_tenants(s);
            *any = shares(s, INFINITY);
            *answering = shares(s, of->spare);
        }
        mo_free(env, s->heap);
        mo_free(env, s->left);
    }
    mo_free(env, s);
    return code;
}
