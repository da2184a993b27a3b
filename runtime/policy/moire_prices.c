/* SPDX-License-Identifier: Apache-2.0
 * moire_prices.c - what a miss of each tenant costs, by the objective.
 *
 * Under `all` a miss is a miss, under `weighted` it counts by the tenant's priority, in either case times its
 * weight, and nothing is remembered.  Under `every` a tenant has a budget: of what it asks in a window it may
 * miss the part ALLOWED. A tenant of weight w may miss a w-th of that, and where all miss more, their shares
 * of misses are in inverse proportion to their weights.  Counted are its answers, exactly, and the queries at
 * hand that are late already, so that a miss shows in the price when it is certain and not when it is at last
 * answered.  While the budget lasts a miss costs 1; beyond it the price rises with a high power of the
 * overdraft, so that the tenant with the smaller share in time is spared even when its queries are a hundred
 * times as heavy, and tenants that all miss too much end up with nearly equal shares.
 *
 * The window is the present span of WINDOW_NS and the one before: long enough for the budget of a tenant with
 * a few queries a second, and what is older is forgiven. */
#include "runtime/policy/moire_parts.h"

#include <math.h>

static const int64_t WINDOW_NS = 20000000000;
static const double ALLOWED = 0.03, STEEPNESS = 8;
/* A tenant with queries at hand has this part of its even share of the cores, whatever others ask for.  One
 * that had more has to wait at most so long for that to count again. */
static const double FLOOR = 0.2, MOST_OWED_NS = 1e8, MOST_AHEAD_NS = 1e9;
static const double PRIOR =
    30; /* answers in time that a tenant begins with: its first miss is within budget */

/* The window's first moment moves on; a tenant that is new in its slot begins with nothing. */
static void turn(struct mo_moire_account *a, const struct mo_view_tenant *t, bool over) {
    if (t->answered < a->since.answered || t->answered < a->turned.answered)
        *a = (struct mo_moire_account){.most = a->most, .room = a->room};
    if (!over) return;
    a->since = a->turned;
    a->turned = (struct mo_moire_count){t->answered, t->in_time};
}

static double price_of(const struct mo_moire_account *a, const struct mo_view_tenant *t) {
    double asked = (double)(t->answered - a->since.answered + a->late) + PRIOR;
    double missed = (double)(t->answered - a->since.answered - (t->in_time - a->since.in_time) + a->late);
    double overdraft = missed / (ALLOWED * asked) * mo_view_weight(t);
    return overdraft <= 1 ? 1 : pow(overdraft, STEEPNESS);
}

/* What it is owed of its floor grows with time, and shrinks by what its blocks take (moire_give.c). */
static void owe(struct mo_moire_account *a, double floor, int64_t since) {
    a->owed += floor * (double)since;
    if (a->owed > floor * MOST_OWED_NS) a->owed = floor * MOST_OWED_NS;
    if (a->owed < -floor * MOST_AHEAD_NS) a->owed = -floor * MOST_AHEAD_NS;
}

/* A slot without a tenant counts as one of weight 1. */
static double sum_of_weights(const struct mo_view *view) {
    double sum = 0;
    for (int i = 0; i < view->n_tenants; i++)
        sum += mo_view_weight(&view->tenants[i]);
    return sum;
}

void mo_moire_prices(struct mo_moire_state *s, const struct mo_view *view) {
    bool over = view->now - s->turned_at >= WINDOW_NS;
    if (over) s->turned_at = view->now;
    double weights = sum_of_weights(view);
    int64_t since = view->now - s->seen_at;
    s->seen_at = view->now;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        struct mo_moire_account *a = &s->account[i];
        if (!t->open) continue;
        turn(a, t, over);
        double floor = FLOOR * view->n_cores / weights * mo_view_weight(t);
        if (a->most && floor > FLOOR * a->most) floor = FLOOR * a->most;
        owe(a, floor, since);
        a->price = view->objective == MO_OBJECTIVE_EVERY ? price_of(a, t)
                   : view->objective == MO_OBJECTIVE_WEIGHTED
                       ? mo_objective_weight(t->priority) * mo_view_weight(t)
                       : mo_view_weight(t);
    }
}
