/* SPDX-License-Identifier: Apache-2.0
 * moire_deal.c - how many cores each kept query would have, were all cores dealt anew now.
 *
 * All finish after the same fraction of their time to the deadline, the smallest for which the cores are
 * enough: what the moment leaves over goes into being early, in proportion to what each needs, and everybody
 * is equally far from being late when the next queries come.  A fraction f asks of a query the cheapest plan
 * that takes f of its slack, layer by layer (ladder.h); its share is what that plan has for its present
 * layer.  The sum of shares falls as f grows; the search begins where the last deal ended, for from one event
 * to the next little changes. */
#include "runtime/policy/moire_parts.h"

enum { STEPS = 64 }; /* fractions from EARLIEST to LATEST that are told apart */
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

/* Sets the shares for a fraction of the slack, that of a step; returns whether the cores are enough.  Rungs
 * rise as the fraction falls, so what they are narrows the search between the largest fraction that was too
 * small and the smallest that was not. */
static bool enough_at(struct mo_moire_state *s, int cores, int step) {
    double fraction = EARLIEST + (LATEST - EARLIEST) * step / STEPS;
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

/* The first step that is enough is above `few` and at most `many`, one behind the last when none may be.
 * Where to look next: ever farther away on the side that is not known yet, then halfway between. */
static int next_step(int few, int many, int *stride) {
    int at = (few + many) / 2;
    if (few < 0) at = many - *stride;
    if (many > STEPS) at = few + *stride;
    *stride *= 2;
    return at < 0 ? 0 : at < STEPS ? at : STEPS;
}

void mo_moire_deal(struct mo_moire_state *s, const struct mo_view *view) {
    int few = -1, many = STEPS + 1, stride = 1, at = s->parts->no_share ? STEPS : s->step;
    for (int i = 0; i < s->n; i++) {
        s->list[i].low = 0;
        s->list[i].high = s->list[i].top;
    }
    while (many - few > 1) {
        *(enough_at(s, view->n_cores, at) ? &many : &few) = at;
        if (s->parts->no_share) return;
        at = next_step(few, many, &stride);
    }
    s->step = many < STEPS ? many : STEPS;
    for (int i = 0; i < s->n && many <= STEPS; i++)
        if (s->list[i].keep) s->list[i].share = s->list[i].plan[s->list[i].low].cores;
}
