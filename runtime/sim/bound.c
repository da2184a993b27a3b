/* SPDX-License-Identifier: Apache-2.0
 * bound.c - the greedy of bound.h.
 *
 * How much of a query still fits: add all of it and let the machine work by earliest deadline.  At each
 * deadline b, what is unfinished of the work due by b is the largest excess of any interval that ends at b.
 * What was there before did fit, so every interval in excess contains the new query's window, and taking the
 * largest excess off the new query makes all fit again; one pass finds it.  A pass covers the busy periods
 * that the query touches: it begins where the machine was last idle before the arrival, which is remembered
 * for every query, and ends where it falls idle after the deadline. */
#define _GNU_SOURCE
#include "runtime/sim/bound.h"

#include <math.h>
#include <stdlib.h>

enum { HALVINGS = 60 };
static const double DEAREST = 1e6;

struct solver {
    struct mo_bound_query *q;
    int n;
    double speed;   /* core time done in a ns */
    double *amount; /* core time granted to each query */
    int *first;     /* where a pass begins that must cover this arrival */
    int *order;     /* by need */
    int *heap;      /* of queries with work left, by deadline */
    double *left;
    int n_heap;
};

/* min over core counts of (cores + price) x time, summed over the layers; *time: how long those counts take.
 * `price`: cores that a unit of time is worth. */
static double cheapest(const struct mo_profile *p, int cores, double price, double *time) {
    double sum = 0;
    *time = 0;
    for (int l = 0; l < p->n_layers; l++) {
        double least = INFINITY, takes = 0;
        for (int c = 1; c <= cores; c++) {
            double t = (double)mo_profile_time(p, c, l, l + 1);
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
    int64_t sum = 0;
    for (int l = 0; l < p->n_layers; l++) {
        int64_t least = INT64_MAX;
        for (int c = 1; c <= cores; c++)
            if (mo_profile_time(p, c, l, l + 1) < least) least = mo_profile_time(p, c, l, l + 1);
        sum += least;
    }
    return sum;
}

/* --- heap by deadline ----------------------------------------------------------------------------------- */
static bool sooner(const struct solver *s, int a, int b) {
    return s->q[a].deadline != s->q[b].deadline ? s->q[a].deadline < s->q[b].deadline : a < b;
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

/* --- one pass ------------------------------------------------------------------------------------------- */
/* Works by earliest deadline from *at until `until` or until nothing is left; returns the largest amount by
 * which a query ran past its deadline, counted as work. */
static double work_until(struct solver *s, double *at, double until) {
    double most = 0;
    while (s->n_heap && *at < until) {
        int query = s->heap[0];
        double ends = *at + s->left[query] / s->speed;
        if (ends > until) {
            s->left[query] -= (until - *at) * s->speed;
            *at = until;
            break;
        }
        double late = (ends - (double)s->q[query].deadline) * s->speed;
        if (late > most) most = late;
        *at = ends;
        pop(s);
    }
    if (!s->n_heap && *at < until) *at = until;
    return most;
}

/* Largest excess when query `added` gets all it needs; with `remember`, notes where busy periods begin. */
static double pass(struct solver *s, int added, bool remember) {
    int begin = s->first[added];
    double at = (double)s->q[begin].arrival, most = 0;
    s->n_heap = 0;
    for (int i = begin; i < s->n; i++) {
        double late = work_until(s, &at, (double)s->q[i].arrival);
        if (late > most) most = late;
        if (!s->n_heap) {
            if (s->q[i].arrival >= s->q[added].deadline) return most;
            begin = i;
        }
        if (remember) s->first[i] = begin;
        s->left[i] = s->amount[i];
        if (s->left[i] > 0) push(s, i);
    }
    double late = work_until(s, &at, 1e300);
    return late > most ? late : most;
}

static void grant(struct solver *s, int query) {
    struct mo_bound_query *q = &s->q[query];
    if (q->deadline <= q->arrival) return;
    s->amount[query] = q->need;
    double excess = pass(s, query, false);
    if (excess > 0) s->amount[query] = excess < q->need ? q->need - excess : 0;
    if (s->amount[query] > 0) pass(s, query, true);
    q->fraction = s->amount[query] / q->need;
}

/* --- all ------------------------------------------------------------------------------------------------ */
static int by_need(const void *pa, const void *pb, void *ctx) {
    const struct mo_bound_query *q = ctx;
    int a = *(const int *)pa, b = *(const int *)pb;
    if (q[a].need != q[b].need) return q[a].need < q[b].need ? -1 : 1;
    return (a > b) - (a < b);
}

int mo_bound_solve(const struct mo_env *env, struct mo_bound_query *queries, int n, int cores) {
    size_t room = (size_t)n + 1;
    struct solver s = {.q = queries,
                       .n = n,
                       .speed = cores,
                       .amount = mo_alloc(env, room * sizeof(double)),
                       .first = mo_alloc(env, room * sizeof(int)),
                       .order = mo_alloc(env, room * sizeof(int)),
                       .heap = mo_alloc(env, room * sizeof(int)),
                       .left = mo_alloc(env, room * sizeof(double))};
    bool ok = s.amount && s.first && s.order && s.heap && s.left;
    for (int i = 0; ok && i < n; i++) {
        queries[i].fraction = 0;
        s.order[i] = s.first[i] = i;
    }
    if (ok) qsort_r(s.order, (size_t)n, sizeof *s.order, by_need, queries);
    for (int i = 0; ok && i < n; i++)
        grant(&s, s.order[i]);
    mo_free(env, s.amount);
    mo_free(env, s.first);
    mo_free(env, s.order);
    mo_free(env, s.heap);
    mo_free(env, s.left);
    return ok ? MOIRE_OK : MOIRE_ENOMEM;
}

struct mo_bound_shares mo_bound_shares(const struct mo_bound_query *q, int n) {
    double met = 0, granted = 0, all = 0;
    for (int i = 0; i < n; i++) {
        met += q[i].fraction;
        granted += q[i].fraction * q[i].need;
        all += q[i].need;
    }
    struct mo_bound_shares s = {n ? met / n : 1, all > 0 ? granted / all : 1};
    if (s.every > s.overall) s.every = s.overall;
    return s;
}
