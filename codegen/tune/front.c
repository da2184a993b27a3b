/* SPDX-License-Identifier: Apache-2.0
 * front.c - from sampled points to versions; see front.h. */
#include "codegen/tune/front.h"

#include <stdlib.h>
#include "codegen/family/wide.h"

static const double COVER = 0.9, ALIKE = 0.8, ODD = 0.9, ODD_NS = 2000;
enum { MANY_UNITS = 4 }; /* for each core */

static int by_time(const void *a, const void *b) {
    double x = ((const struct mo_store_point *)a)->ns[0], y = ((const struct mo_store_point *)b)->ns[0];
    return x < y ? -1 : x > y;
}

double mo_front_time(const struct mo_store_front *f, const struct mo_store_point *p, int cores) {
    int64_t units = p->units > 0 ? p->units : 1, each = mo_wide_most(units, cores);
    if (cores > 1 && cores == f->cores && p->part_ns > 0) return p->part_ns;
    return p->ns[0] * (double)each / (double)units;
}

/* The kept point first, the others by time. */
static void order(struct mo_store_front *f, int kept) {
    struct mo_store_point first;
    int from = kept > 0;
    if (from) {
        first = f->point[kept - 1];
        f->point[kept - 1] = f->point[0];
        f->point[0] = first;
    }
    qsort(f->point + from, (size_t)(f->n - from), sizeof *f->point, by_time);
}

static double price(const struct mo_store_front *f, int at, int cores) {
    const struct mo_store_point *p = &f->point[at];
    return mo_wide_price(mo_front_time(f, p, cores), p->units, cores);
}

/* The point that serves `cores` best: one with the kept one's packed weights if it does nearly as well. */
static int widest(const struct mo_store_front *f, int cores) {
    int best = 0, alike = 0;
    for (int i = 1; i < f->n; i++) {
        double ns = price(f, i, cores);
        if (ns < price(f, best, cores)) best = i;
        if (f->point[i].packing == f->point[0].packing && ns < price(f, alike, cores)) alike = i;
    }
    return ALIKE * price(f, alike, cores) <= price(f, best, cores) ? alike : best;
}

/* Makes the point that serves `cores` best a version, unless one nearly as good is, or the kept one's units
 * leave nothing to win: in place of the version that serves them worst when there are enough. */
static void keep_widest(struct mo_store_front *f, const struct mo_front_rule *rule) {
    int best = widest(f, rule->cores), worst = 0;
    double least = price(f, best, rule->cores);
    if (f->point[0].units >= (int64_t)MANY_UNITS * rule->cores) return;
    for (int i = 0; i < f->n; i++)
        if (f->point[i].state == MO_POINT_VERSION && COVER * price(f, i, rule->cores) <= least) return;
    for (int i = 1; i < f->n; i++)
        if (f->point[i].state == MO_POINT_VERSION &&
            (!worst || price(f, i, rule->cores) > price(f, worst, rule->cores)))
            worst = i;
    if (worst && mo_front_versions(f) >= rule->versions) f->point[worst].state = MO_POINT_SPARE;
    f->point[best].state = MO_POINT_VERSION;
}

bool mo_front_widen(struct mo_store_front *f, const struct mo_front_rule *rule) {
    order(f, rule->kept);
    f->share_ns = rule->share_ns;
    for (int i = 0; i < f->n; i++)
        f->point[i].state = i ? MO_POINT_SPARE : MO_POINT_VERSION;
    keep_widest(f, rule);
    return mo_front_versions(f) > 1;
}

static bool no_worse(const struct mo_store_point *a, const struct mo_store_point *b) {
    return a->parallelism_milli >= b->parallelism_milli && a->block_bytes >= b->block_bytes &&
           a->l3_bytes <= b->l3_bytes;
}

/* Equal points: the faster one, which stands first, dominates. */
static bool dominates(const struct mo_store_front *f, int a, int b) {
    const struct mo_store_point *p = &f->point[a], *q = &f->point[b];
    if (a == b || p->state == MO_POINT_LATE || !no_worse(p, q)) return false;
    return !no_worse(q, p) || a < b;
}

static int by_blocking(const void *a, const void *b) {
    const struct mo_store_point *x = *(struct mo_store_point *const *)a,
                                *y = *(struct mo_store_point *const *)b;
    if (x->block_bytes != y->block_bytes) return x->block_bytes < y->block_bytes ? -1 : 1;
    return x->ns[0] < y->ns[0] ? -1 : x->ns[0] > y->ns[0];
}

/* Evenly along the front; the fastest takes the place nearest to it. */
static void spread(struct mo_store_point **list, int n, int versions, const struct mo_store_point *fastest) {
    int picks = versions < n ? versions : n, at = 0, nearest = 0;
    while (at < n - 1 && list[at] != fastest)
        at++;
    for (int i = 0; i < picks; i++) {
        int k = picks > 1 ? (i * (n - 1) + (picks - 1) / 2) / (picks - 1) : at;
        list[k]->state = MO_POINT_VERSION;
        if (abs(k - at) < abs(nearest - at) || !i) nearest = k;
    }
    list[nearest]->state = MO_POINT_SPARE;
    list[at]->state = MO_POINT_VERSION;
}

void mo_front_select(struct mo_store_front *f, const struct mo_front_rule *rule) {
    struct mo_store_point *list[MO_FRONT_POINTS];
    int n = 0;
    order(f, rule->kept);
    f->share_ns = rule->share_ns;
    for (int i = 0; i < f->n; i++) {
        bool late = i && rule->share_ns > 0 && mo_front_time(f, &f->point[i], rule->cores) > rule->share_ns;
        f->point[i].state = late ? MO_POINT_LATE : MO_POINT_SPARE;
    }
    for (int i = 0; i < f->n; i++) {
        bool dominated = false;
        for (int k = 0; i && k < f->n; k++)
            dominated = dominated || dominates(f, k, i);
        if (f->point[i].state == MO_POINT_LATE) continue;
        if (dominated)
            f->point[i].state = MO_POINT_DOMINATED;
        else
            list[n++] = &f->point[i];
    }
    if (!n) return;
    qsort(list, (size_t)n, sizeof *list, by_blocking);
    spread(list, n, rule->versions, &f->point[0]);
    keep_widest(f, rule);
}

/* How much slower the best of the other versions is than this one, at the level where that is most, or on the
 * front's cores. */
static double worst_loss(const struct mo_store_front *f, int at) {
    double worst = 0;
    for (int level = 0; level < MO_STORE_LEVELS; level++) {
        double best = 0;
        for (int i = 0; i < f->n; i++) {
            double ns = f->point[i].ns[level];
            if (i != at && f->point[i].state == MO_POINT_VERSION && (best <= 0 || ns < best)) best = ns;
        }
        if (best <= 0) return INT32_MAX; /* it is the only one */
        double loss = best / f->point[at].ns[level];
        if (loss > worst) worst = loss;
    }
    double best = 0;
    for (int i = 0; i < f->n; i++) {
        double ns = mo_front_time(f, &f->point[i], f->cores);
        if (i != at && f->point[i].state == MO_POINT_VERSION && (best <= 0 || ns < best)) best = ns;
    }
    double loss = f->cores > 1 ? best / mo_front_time(f, &f->point[at], f->cores) : 0;
    return loss > worst ? loss : worst;
}

void mo_front_prune(struct mo_store_front *f) {
    for (;;) {
        int least = -1;
        double loss = 1 / COVER;
        for (int i = 1; i < f->n; i++) { /* 0 is the fastest without pressure */
            if (f->point[i].state != MO_POINT_VERSION) continue;
            double l = worst_loss(f, i);
            if (l <= loss) loss = l, least = i;
        }
        if (least < 0) return;
        f->point[least].state = MO_POINT_COVERED;
    }
}

bool mo_front_is_odd(const struct mo_store_front *f, struct mo_front_odd *odd) {
    double most = 1 / ODD;
    bool found = false;
    for (int i = 0; i < f->n; i++) {
        const double *ns = f->point[i].ns;
        if (f->point[i].state != MO_POINT_VERSION) continue;
        for (int more = 1; more < MO_STORE_LEVELS; more++)
            for (int less = 0; less < more; less++) {
                if (!(ns[more] > 0) || ns[less] / ns[more] <= most || ns[less] - ns[more] <= ODD_NS) continue;
                most = ns[less] / ns[more];
                *odd = (struct mo_front_odd){i, less, more, ns[less], ns[more]};
                found = true;
            }
    }
    return found;
}

int mo_front_versions(const struct mo_store_front *f) {
    int n = 0;
    for (int i = 0; i < f->n; i++)
        n += f->point[i].state == MO_POINT_VERSION;
    return n;
}
