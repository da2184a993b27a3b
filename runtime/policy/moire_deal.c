/* SPDX-License-Identifier: Apache-2.0
 * moire_deal.c - how many cores each kept query would have, were all cores dealt anew now.
 *
 * All finish after the same fraction of their time to the deadline, the smallest for which the cores are
 * enough: what the moment leaves over goes into being early, in proportion to what each needs, and everybody
 * is equally far from being late when the next queries come.  A fraction f asks of a query the cheapest plan
 * that takes f of its slack, layer by layer (ladder.h); its share is what that plan has for its present
 * layer. The sum of shares falls as f grows, and halving finds it. */
#include "runtime/policy/moire_parts.h"

enum { HALVINGS = 6 };
/* No query gains from a smaller fraction than EARLIEST: on more cores it takes more core time, and the next
 * queries would miss it.  Where LATEST still leaves too few cores, the deal is not made for all. */
static const double EARLIEST = 0.15, LATEST = 0.9;

/* The same of rungs low to high, where high is enough, or the top. */
static int rung_between(const struct mo_moire_candidate *c, double budget, int low, int high) {
    while (low < high) {
        int mid = (low + high) / 2;
        if (mo_moire_time(c, mid) <= budget)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

int mo_moire_rung(const struct mo_moire_candidate *c, double budget) {
    return rung_between(c, budget, 0, c->top);
}

/* Sets the shares for a fraction of the slack; returns whether the cores are enough.  Rungs rise as the
 * fraction falls, so what they are narrows the search between the largest fraction that was too small and the
 * smallest that was not. */
static bool enough_at(struct mo_moire_state *s, int cores, double fraction) {
    int sum = 0;
    for (int i = 0; i < s->n; i++) {
        struct mo_moire_candidate *c = &s->list[i];
        if (!c->keep) continue;
        c->rung = rung_between(c, c->slack * fraction, c->low, c->high);
        c->share = c->plan[c->rung].cores;
        sum += c->share;
    }
    bool enough = sum <= cores;
    for (int i = 0; i < s->n; i++)
        *(enough ? &s->list[i].low : &s->list[i].high) = s->list[i].rung;
    return enough;
}

void mo_moire_deal(struct mo_moire_state *s, const struct mo_view *view) {
    double early = EARLIEST, late = LATEST;
    for (int i = 0; i < s->n; i++) {
        s->list[i].low = 0;
        s->list[i].high = s->list[i].top;
    }
    if (!enough_at(s, view->n_cores, late) || s->parts->no_share) return;
    if (enough_at(s, view->n_cores, early)) return;
    for (int i = 0; i < HALVINGS; i++) {
        double mid = (early + late) / 2;
        *(enough_at(s, view->n_cores, mid) ? &late : &early) = mid;
    }
    for (int i = 0; i < s->n; i++)
        if (s->list[i].keep) s->list[i].share = s->list[i].plan[s->list[i].low].cores;
}
