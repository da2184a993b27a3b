/* SPDX-License-Identifier: Apache-2.0
 * moire_deal.c - how many cores each kept query would have, were all cores dealt anew now.
 *
 * All finish after the same fraction of their time to the deadline, the smallest for which the cores are
 * enough: what the moment leaves over goes into being early, in proportion to what each needs, and everybody
 * is equally far from being late when the next queries come.  A fraction f asks of a query the fewest cores
 * on which its rest takes f of its slack, so the sum of cores falls as f grows and halving finds it.
 *
 * That fraction also says whether there is anything to spare for what is set aside.
 *
 * Blocks that run keep their cores until they end; their share says what will be asked for then.  With blocks
 * that are short beside the targets, dealing at every end of a block comes close to dealing all the time. */
#include "runtime/policy/moire.h"

enum { HALVINGS = 8 };
/* Nobody gains from being earlier; beyond the latest the deal is not for all. */
static const double EARLIEST = 0.1, LATEST = 0.85;

int mo_moire_fewest(const struct mo_view_tenant *t, int begin, double budget, int wide) {
    int64_t most = (int64_t)(budget / t->residual);
    int low = 0, high = wide; /* low is not enough */
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (mo_profile_time(t->profile, mid, begin, t->profile->n_layers) > most)
            low = mid;
        else
            high = mid;
    }
    return high;
}

/* Sets the shares for a fraction of the slack; returns their sum. */
static int share_at(struct mo_moire_state *s, const struct mo_view *view, double fraction) {
    int sum = 0;
    for (int i = 0; i < s->n; i++) {
        struct mo_moire_candidate *c = &s->list[i];
        if (!c->keep) continue;
        const struct mo_view_tenant *t = &view->tenants[c->tenant];
        double slack = (double)(c->deadline - view->now - c->rest);
        bool last = c->begin == t->profile->n_layers; /* its last block runs */
        c->share = last ? c->cores : mo_moire_fewest(t, c->begin, slack * fraction, c->wide);
        sum += c->share;
    }
    return sum;
}

void mo_moire_deal(struct mo_moire_state *s, const struct mo_view *view) {
    double early = EARLIEST, late = LATEST;
    s->fraction = EARLIEST;
    if (!s->parts->no_share && share_at(s, view, early) <= view->n_cores) return;
    bool enough = share_at(s, view, late) <= view->n_cores;
    if (!enough) s->fraction = 1;
    if (!enough || s->parts->no_share) return;
    for (int i = 0; i < HALVINGS; i++) {
        double mid = (early + late) / 2;
        if (share_at(s, view, mid) > view->n_cores)
            early = mid;
        else
            late = mid;
    }
    share_at(s, view, late);
    s->fraction = late;
}
