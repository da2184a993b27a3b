/* SPDX-License-Identifier: Apache-2.0
 * gpulet_serve.h - the inside of the server on lets, shared by its files: one dispatch, what a batch takes on
 * a let, and batches that are cut into blocks (gpulet_cut.c). */
#ifndef MO_GPULET_SERVE_H
#define MO_GPULET_SERVE_H
#include "runtime/policy/gpulet.h"

static const double MO_GPULET_MARGIN = 0.05; /* of a batch's time: how much earlier than need be it begins */

/* One dispatch. */
struct mo_gpulet_serve {
    struct mo_gpulet_state *s;
    const struct mo_view *view;
    struct mo_decisions *out;
    const struct mo_gpulet_options *options;
    struct mo_cores idle;
    int64_t
        at; /* when a batch that is looked at now would begin: now, or when the one before it should end */
    int64_t timer;
    bool changing;                /* to the plan made last */
    int taken[MO_PLAN_TENANTS];   /* waiting queries that decisions of this dispatch have dealt with */
    int started[MO_PLAN_TENANTS]; /* instances that they take */
    bool cut[MO_PLAN_TENANTS];    /* a batch of the tenant is cut by this dispatch, or goes on */
};

/* A tenant on a let: what it could run there now. */
struct mo_gpulet_offer {
    int tenant, first, n; /* waiting[first .. first + n); n 0 = nothing */
    int64_t slack;        /* until it must begin to be in time */
    int64_t ns;           /* that the batch takes */
    bool late;            /* infeasible ones */
};

int64_t mo_gpulet_rounded(double ns);
/* The entry of a tenant on a let; NULL: the plan does not have it there. */
const struct mo_let_entry *mo_gpulet_entry(const struct mo_planned_let *let, int tenant);
/* Expected slowdown of a tenant on a let, at least 1. */
double mo_gpulet_slowdown(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant,
                          const struct mo_let_entry *entry);
/* Time of a batch of n with its copies; MO_SHARE_NEVER when it is too large. */
int64_t mo_gpulet_batch_ns(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant,
                           int n, double slow);

bool mo_gpulet_is_idle(const struct mo_gpulet_serve *v, const struct mo_planned_let *let);
/* When the let must be free again for its tenants but `self`: each one's next batch shall be in time. */
int64_t mo_gpulet_free_by(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int self);
/* What a tenant can run on an idle let now; `room`: when the let must be free again; `entry`: what the plan
 * grants it there whatever the room, NULL: nothing. */
struct mo_gpulet_offer mo_gpulet_offer_of(struct mo_gpulet_serve *v, const struct mo_planned_let *let,
                                          int tenant, const struct mo_let_entry *entry, int64_t room);
/* The offer's batch begins there. */
void mo_gpulet_run(struct mo_gpulet_serve *v, const struct mo_planned_let *let,
                   const struct mo_gpulet_offer *offer);

/* --- gpulet_lend.c --- */
/* An idle let for which its own tenants have nothing runs a batch of another's, where policy and GPU allow.
 */
void mo_gpulet_lend(struct mo_gpulet_serve *v, const struct mo_planned_let *let);
/* May a batch of a tenant of higher priority come from another let, between two blocks? */
bool mo_gpulet_has_guests(const struct mo_gpulet_serve *v, const struct mo_planned_let *let);
/* Such a one begins there now, before what the let's own tenants have.  False: none does. */
bool mo_gpulet_host(struct mo_gpulet_serve *v, const struct mo_planned_let *let);

/* --- gpulet_ahead.c --- */
/* May a batch be queued now behind the one that the let runs?  v->at is when that should end.  Where one may
 * be later, the timer is set. */
bool mo_gpulet_ahead(struct mo_gpulet_serve *v, const struct mo_planned_let *let);
/* A batch of so many ns begins on an idle let: sets the timer for what may be queued behind it. */
void mo_gpulet_look_ahead(struct mo_gpulet_serve *v, const struct mo_planned_let *let, int64_t ns);

/* --- gpulet_cut.c --- */
/* Last layer of the block in which a batch begins, or goes on, at layer `begin` of the let. */
int mo_gpulet_end(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant, int begin,
                  int batch);
/* Must a batch not begin there now, because an urgent tenant would have to wait for all of it: the tenant has
 * a cut batch already, and may have no second? */
bool mo_gpulet_is_barred(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant,
                         int batch);
/* May a batch of the tenant that begins there now be cut? */
bool mo_gpulet_may_cut(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant);
/* The tenant whose cut batch would go on on that let now, -1 = none. */
int mo_gpulet_paused(const struct mo_gpulet_serve *v, const struct mo_planned_let *let);
/* Is the let where the cut batch of the tenant goes on, if no other does before? */
bool mo_gpulet_is_home(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int tenant);
/* How long the cut batch that would go on there can wait; 0: others have gone before it as often as may be;
 * MO_SHARE_NEVER: as long as may be, or there is none. */
int64_t mo_gpulet_paused_slack(const struct mo_gpulet_serve *v, const struct mo_planned_let *let);
/* A batch is about to go before those that were cut on the let: counts it. */
void mo_gpulet_overtake(struct mo_gpulet_serve *v, const struct mo_planned_let *let);
/* Does an offer go before the cut batch of `paused`? */
bool mo_gpulet_overtakes(const struct mo_gpulet_serve *v, const struct mo_planned_let *let, int paused,
                         const struct mo_gpulet_offer *offer);
/* Would the plan leave a batch that is cut on a GPU without a let? */
bool mo_gpulet_strands(const struct mo_view *view, const struct mo_lets_plan *plan);
#endif
