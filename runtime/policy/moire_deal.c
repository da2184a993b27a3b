/* SPDX-License-Identifier: Apache-2.0
 * moire_deal.c - how many cores each kept query would have, were all cores dealt anew now.
 *
 * All finish after the same fraction of their time to the deadline, the smallest for which the cores are
 * enough: what the moment leaves over goes into being early, in proportion to what each needs, and everybody
 * is equally far from being late when the next queries come.  A fraction f asks of a query the cheapest plan
 * that takes f of its slack, layer by layer (ladder.h); its share is what that plan has for its present
 * layer.  The sum of shares falls as f grows; the search begins where the last deal ended, for from one event
 * to the next little changes. */
#include <math.h>
#include "runtime/policy/moire_parts.h"

enum { STEPS = 64 }; /* fractions from EARLIEST to LATEST that are told apart */
/* No query gains from a smaller fraction than EARLIEST: on more cores it takes more core time, and the next
 * queries would miss it.  Where LATEST still leaves too few cores, the deal is not made for all. */
static const double EARLIEST = 0.15, LATEST = 0.9;

void mo_moire_climb(struct mo_moire_candidate *c, double budget) {
    int low = 0, high = c->top;
    c->slower = INFINITY;
    while (low < high) {
        int mid = (low + high) / 2;
        double time = mo_moire_time(c, mid);
        if (time <= budget) {
            c->takes = time;
            high = mid;
        } else {
            c->slower = time;
            low = mid + 1;
        }
    }
    if (low == c->top) c->takes = mo_moire_time(c, low);
    c->rung = low;
}

/* The same from the rung that it is on: from one budget to the next most stay there. */
static void step_to(struct mo_moire_candidate *c, double budget) {
    while (c->takes > budget && c->rung < c->top) {
        c->slower = c->takes;
        c->takes = mo_moire_time(c, ++c->rung);
    }
    while (c->slower <= budget) {
        c->takes = c->slower;
        c->rung--;
        c->slower = c->rung > 0 ? mo_moire_time(c, c->rung - 1) : INFINITY;
    }
}

/* Of a tenant with a bound no more than that; what runs keeps a core. */
static int within_bound(struct mo_moire_state *s, const struct mo_moire_candidate *c, int share) {
    struct mo_moire_account *a = &s->account[c->tenant];
    if (!a->most) return share;
    const int left = a->most - a->dealt;
    if (share > left) share = left;
    if (share < c->running) share = c->running;
    a->dealt += share;
    return share;
}

/* Sets the shares for a fraction of the slack, that of a step; returns the cores that they take. */
static int deal_at(struct mo_moire_state *s, int step) {
    double fraction = EARLIEST + (LATEST - EARLIEST) * step / STEPS;
    int sum = 0;
    for (int i = 0; s->bounded && i < s->n; i++)
        s->account[s->list[i].tenant].dealt = 0;
    for (int i = 0; i < s->n; i++) {
        struct mo_moire_candidate *c = &s->list[i];
        if (!c->keep) continue;
        step_to(c, c->slack * fraction);
        c->share = c->plan[c->rung].cores;
        if (s->bounded) c->share = within_bound(s, c, c->share);
        sum += c->share;
    }
    return sum;
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
    int few = -1, many = STEPS + 1, stride = 1, at = s->parts->no_share ? STEPS : s->step, dealt = at;
    while (many - few > 1) {
        *(deal_at(s, at) <= view->n_cores ? &many : &few) = dealt = at;
        if (s->parts->no_share) return;
        at = next_step(few, many, &stride);
    }
    s->step = many < STEPS ? many : STEPS;
    if (dealt != s->step) deal_at(s, s->step);
}
