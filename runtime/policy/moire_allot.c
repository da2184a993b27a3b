/* SPDX-License-Identifier: Apache-2.0
 * moire_allot.c - how many cores each kept query would have, were all cores allotted anew now.
 *
 * All finish after the same fraction of their time to the deadline, the smallest for which the cores are
 * enough: what the moment leaves over goes into being early, in proportion to what each needs, and everybody
 * is equally far from being late when the next queries come.  A fraction f asks of a query the fewest cores
 * on which its rest takes f of its slack, so the sum of cores falls as f grows and halving finds it.
 *
 * That fraction also says whether there is anything to spare for what is set aside.
 *
 * Blocks that run keep their cores until they end; their share says what will be asked for then.  With blocks
 * that are short beside the targets, allotting at every end of a block comes close to allotting all the
 * time. */
#include "runtime/policy/moire_parts.h"

enum { HALVINGS = 8 };
/* Cores are allotted so that queries end at a fraction of the time they have.  No query gains from a smaller
 * fraction than EARLIEST; where LATEST still leaves too few cores, the allotment is not made for all. */
static const double EARLIEST = 0.1, LATEST = 0.85;

/* The least of (low, high] that is enough; low is not, high is taken when none below it is. */
static int fewest_between(const struct mo_view_tenant *t, int begin, double budget, int low, int high) {
    const int64_t *rest = mo_profile_rest(t->profile, begin), most = (int64_t)(budget / t->residual);
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (rest[mid] > most)
            low = mid;
        else
            high = mid;
    }
    return high;
}

int mo_moire_fewest(const struct mo_view_tenant *t, int begin, double budget, int wide) {
    return fewest_between(t, begin, budget, 0, wide);
}

/* What is still to be found for one query: its share lies in [few, many]. */
struct ask {
    const struct mo_view_tenant *tenant;
    struct mo_moire_candidate *of;
    double slack;
    int few, many;
};

struct allotment {
    struct ask open[MO_MOIRE_CANDIDATES];
    int n, settled, cores; /* settled: cores of those whose share is known */
};

static void settle(struct allotment *d, int at) {
    d->settled += d->open[at].of->share = d->open[at].few;
    d->open[at] = d->open[--d->n];
}

static void begin_allotment(struct allotment *d, struct mo_moire_state *s, const struct mo_view *view) {
    d->n = d->settled = 0;
    d->cores = view->n_cores;
    for (int i = 0; i < s->n; i++) {
        struct mo_moire_candidate *c = &s->list[i];
        if (!c->keep) continue;
        const struct mo_view_tenant *t = &view->tenants[c->tenant];
        bool last = c->begin == t->profile->n_layers; /* its last block runs */
        d->open[d->n++] = (struct ask){.tenant = t,
                                       .of = c,
                                       .slack = (double)(c->deadline - view->now - c->rest),
                                       .few = last ? c->cores : 1,
                                       .many = last ? c->cores : c->wide};
        if (last || c->wide == 1) settle(d, d->n - 1);
    }
}

/* Sets the shares for a fraction of the slack; returns whether the cores are enough.  What they are narrows
 * the search for all fractions between the largest that was not and the smallest that was. */
static bool enough_at(struct allotment *d, double fraction) {
    int sum = d->settled;
    for (int i = 0; i < d->n; i++) {
        const struct ask *a = &d->open[i];
        a->of->share = fewest_between(a->tenant, a->of->begin, a->slack * fraction, a->few - 1, a->many);
        sum += a->of->share;
    }
    bool enough = sum <= d->cores;
    for (int i = d->n - 1; i >= 0; i--) {
        struct ask *a = &d->open[i];
        *(enough ? &a->few : &a->many) = a->of->share;
        if (a->few == a->many) settle(d, i);
    }
    return enough;
}

void mo_moire_allot(struct mo_moire_state *s, const struct mo_view *view) {
    struct allotment d;
    double early = EARLIEST, late = LATEST;
    begin_allotment(&d, s, view);
    s->fraction = EARLIEST;
    if (!s->parts->no_share && enough_at(&d, early)) return;
    bool enough = enough_at(&d, late);
    if (!enough) s->fraction = 1;
    if (!enough || s->parts->no_share) return;
    for (int i = 0; i < HALVINGS; i++) {
        double mid = (early + late) / 2;
        *(enough_at(&d, mid) ? &late : &early) = mid;
    }
    while (d.n)
        settle(&d, d.n - 1);
    s->fraction = late;
}
