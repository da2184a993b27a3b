/* SPDX-License-Identifier: Apache-2.0
 * allocation.h - what policies that allocate cores one query at a time have in common.
 *
 * Within a dispatch the view does not change, so the allocation keeps count: cores left, and how far it has
 * got in every tenant's queues.  Queues are in order of deadline, so a tenant offers its first paused query,
 * or its first waiting one when none is paused and an instance is free; orders compare these heads. */
#ifndef MO_ALLOCATION_H
#define MO_ALLOCATION_H
#include "runtime/sched/policy.h"

enum { MO_ALLOCATION_TENANTS = 256 }; /* limit of loaded models; later ones wait for an idle machine */

struct mo_allocation {
    const struct mo_view *view;
    struct mo_decisions *out;
    struct mo_cores pool;
    int idle, n_tenants, runs;
    short paused[MO_ALLOCATION_TENANTS], waiting[MO_ALLOCATION_TENANTS], begun[MO_ALLOCATION_TENANTS];
};

/* Which query comes first: the one with the smallest score. */
typedef double mo_score(const struct mo_view *view, int query);

void mo_allocation_open(struct mo_allocation *allocation, const struct mo_view *view,
                        struct mo_decisions *out);
/* The head with the smallest score, ties by acceptance; -1 when no query is left. */
int mo_allocation_best(const struct mo_allocation *allocation, mo_score *score);
/* Leaves a head alone for this dispatch. */
void mo_allocation_skip(struct mo_allocation *allocation, int query);
/* Runs a head's layers up to `end` on n <= idle cores; it had wanted `wanted`. */
void mo_allocation_run(struct mo_allocation *allocation, int query, int end, int n, int wanted);
/* Sheds a head when its tenant allows that; false: it does not. */
bool mo_allocation_shed(struct mo_allocation *allocation, int query);

/* late_blocks.c: sheds the first queries of late blocks that could not be in time if their block ended this
 * moment, where their tenant allows that. */
void mo_shed_from_late(const struct mo_view *view, struct mo_decisions *out);
/* And where others wait, leaves a late block its lead: the rest of its team has nothing to do until the core
 * that stands still is back.  Which one that is nobody knows; should it be one of these, it leaves when it is
 * back. */
void mo_let_go_late(const struct mo_view *view, struct mo_decisions *out);
/* Fewest cores on which layers [begin, end) take at most `budget` ns; when none is enough, those that
 * mo_blocks_core() takes then. */
int mo_need(const struct mo_view *view, const struct mo_view_tenant *tenant, int begin, int end,
            double budget);
/* Time that layers [next_layer, end) of a query may take: their share, by one-core time, of what is left to
 * the deadline; once that has passed, of the whole target.  Without a target their one-core time. */
double mo_budget(const struct mo_view *view, int query, int end);
/* True when the query cannot be in time even alone on the machine. */
bool mo_infeasible(const struct mo_view *view, int query);

/* Scores. */
double mo_by_arrival(const struct mo_view *view, int query);
/* Infeasible ones behind all others that have a deadline. */
double mo_by_deadline(const struct mo_view *view, int query);
#endif
