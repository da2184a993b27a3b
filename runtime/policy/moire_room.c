/* SPDX-License-Identifier: Apache-2.0
 * moire_room.c - room for queries with targets beside best-effort work whose layers are long.
 *
 * A block with one core gives that back when its layer ends, and no sooner: the largest layers of image
 * networks take tens of milliseconds on a core, longer than queries of small networks may wait.  A block with
 * more cores gives all but one back at once.  So long blocks of best-effort work are fewer than cores, where there is more than one core:
 * the cores that others of them would begin on join those that run.  Little is lost, for layers that are long
 * are large enough for many cores. */
#include "runtime/policy/moire_parts.h"

/* Blocks are so many times shorter than the core's bound: only at its end a block can make room altogether.
 */
static const int BRIEF = 2;

int mo_moire_block(const struct mo_view *view, int query, int n) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    int64_t bound = (int64_t)((double)view->block_ns / BRIEF / t->residual);
    return mo_profile_block(t->profile, n, q->next_layer, bound);
}

/* How long a query that comes now can wait for a core and still be in time on this one: of the tenant for
 * which that is least.  MO_NEVER: nobody has a target. */
static int64_t patience(const struct mo_moire_state *s, const struct mo_view *view) {
    int64_t least = MO_NEVER;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open || t->best_effort || !t->qos_ns) continue;
        int64_t takes = (int64_t)((double)mo_ladder_from(t->profile, s->crowded, 0)[0].time * t->residual);
        int64_t waits = t->qos_ns > takes ? t->qos_ns - takes : 0;
        if (waits < least) least = waits;
    }
    return least;
}

static int64_t next_block(const struct mo_view *view, int query) {
    const struct mo_view_query *q = &view->queries[query];
    return mo_view_time(&view->tenants[q->tenant], 1, q->next_layer, mo_moire_block(view, query, 1));
}

int mo_moire_hold(struct mo_moire_state *s, const struct mo_view *view) {
    const int64_t most = s->parts->no_room ? MO_NEVER : patience(s, view);
    int room = view->n_cores > 1 ? view->n_cores - 1 : 1, held = 0;
    if (most == MO_NEVER) return 0;
    for (int i = 0; i < s->n; i++)
        room -= s->list[i].running && s->list[i].best_effort && s->list[i].rest > most;
    for (int i = 0; i < s->n_aside; i++) {
        struct mo_moire_candidate *c = &s->list[s->aside[i]];
        if (!c->best_effort || next_block(view, c->query) <= most) continue;
        c->held = room <= 0;
        held += c->held;
        room -= !c->held;
    }
    return held;
}
