/* SPDX-License-Identifier: Apache-2.0
 * gpulet.h - serving on lets of GPUs: a planner cuts the GPUs each period, the server fills the lets.
 *
 * One server, eight knobs (struct mo_gpulet_options): which planner; whether a batch begins as soon as its
 * let is idle (eager) or at the last moment at which it and one query more are still in time (deferred,
 * Symphony); whether an idle let is lent to a tenant of the same GPU whose own lets are busy; whether
 * rates are stretched, up to twofold, as far as the GPUs can serve, and targets tightened, so that no let is
 * planned to be busy all the time while others lie idle; how much variation of a batch the planner leaves
 * room for; how long it may search; whether best-effort batches wait until they do no harm; and whether long
 * batches are cut at layer boundaries so that urgent ones may enter.  The period is the policy's
 * plan_period_ns.
 *
 * gpulet_plan.c estimates rates and plans, gpulet.c fills lets, gpulet_lend.c lends them, gpulet_cut.c cuts,
 * gpulet_rows.c holds the rows of the table. */
#ifndef MO_GPULET_H
#define MO_GPULET_H
#include "runtime/sched/policy.h"

struct mo_gpulet_options {
    const char *planner; /* a row of mo_planners(), or of mo_inss_planner() */
    bool deferred, lend, stretch;
    double burst; /* mo_plan_view.burst */
    int steps;    /* let evaluations a tenant for mo_plan_view.budget; 0: the planner's own */
    bool careful; /* best-effort batches begin by Orion's rule (gpulet_orion.c), else like any other */
    bool cut;     /* at layer boundaries, where an urgent tenant of the let gains by it (gpulet_cut.c) */
};

enum { MO_GPULET_NAME = 8 };

struct mo_gpulet_state {
    const struct mo_planner *planner;
    int64_t counted; /* arrivals are counted since then */
    int64_t arrivals[MO_PLAN_TENANTS];
    double planned[MO_PLAN_TENANTS];  /* the rates that the latest plan was made for, before any stretch */
    double rate[MO_PLAN_TENANTS];     /* queries/s, forgetting over ten seconds; negative = not known yet */
    int64_t best_ns[MO_PLAN_TENANTS]; /* a query on the tenant's fastest let; MO_SHARE_NEVER = it has none */
    int overtaken[MO_PLAN_TENANTS];   /* batches that went before the tenant's cut one since its last block */
    bool met[MO_PLAN_TENANTS];        /* a plan was made since the tenant was opened */
    bool begun, ask;                  /* a first plan was made; `fresh` waits to be asked for */
    bool stale;                       /* GPUs or tenants have gone or come since the latest plan */
    struct mo_lets_plan fresh, spare;
    /* the planner's view */
    struct mo_plan_tenant tenants[MO_PLAN_TENANTS];
    char names[MO_PLAN_TENANTS][MO_GPULET_NAME];
    struct mo_plan_kind kinds[MO_PLAN_KINDS];
    int n_gpus, gpu[MO_PLAN_GPUS], gpu_kind[MO_PLAN_GPUS]; /* those that are not lost */
    struct mo_lets_plan known;                             /* the plan in force, on them */
};

void mo_gpulet_init(void *state, const struct mo_view *view);
/* Brings the rates up to date and plans when the plan in force does not fit them any more. */
void mo_gpulet_plan(void *state, const struct mo_view *view);
/* The tenant is closed; its place may be another's the next time. */
void mo_gpulet_forget(struct mo_gpulet_state *s, int tenant);
/* Does a query wait of a tenant that no plan has been made for? */
bool mo_gpulet_has_new_tenant(const struct mo_gpulet_state *s, const struct mo_view *view);

/* mo_policy.dispatch of every row. */
void mo_gpulet_dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                        struct mo_decisions *out);

/* Would a best-effort batch on that let do the latency-critical ones that run on its GPU no harm? */
bool mo_gpulet_orion_allows(const struct mo_view *view, const struct mo_planned_let *let, int tenant,
                            int batch);
/* The longest that a best-effort batch may take on that GPU, ns; MO_NEVER: no critical tenant is on it. */
int64_t mo_gpulet_budget(const struct mo_view *view, int gpu);
#endif
