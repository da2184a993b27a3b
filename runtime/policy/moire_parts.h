/* SPDX-License-Identifier: Apache-2.0
 * moire_parts.h - the policy `moire` and its parts, each of which can be left out to see what it brings
 * (moire_without.c). */
#ifndef MO_POLICY_MOIRE_H
#define MO_POLICY_MOIRE_H
#include "runtime/sched/policy.h"

/* Looked at are all queries that run, each tenant's first ones, and MO_MOIRE_OTHERS in all that do not run:
 * on a large machine with many tenants a decision must end, too. */
enum {
    MO_MOIRE_TENANTS = 256,
    MO_MOIRE_FIRST = 3, /* of a tenant: paused, waiting and late, waiting and not late */
    MO_MOIRE_OTHERS = 128,
    MO_MOIRE_CANDIDATES = MO_MAX_CORES + MO_MOIRE_FIRST * MO_MOIRE_TENANTS + MO_MOIRE_OTHERS
};

/* Answers of a tenant. */
struct mo_moire_count {
    int64_t answered, in_time;
};

struct mo_moire_account {
    struct mo_moire_count since, turned; /* at the beginnings of the window and of its second half */
    int late;                            /* queries at hand that cannot be in time any more */
    int first;                           /* of those that wait, the first that can */
    int begun;                           /* of those that are late, how many have begun */
    double price;                        /* of a miss */
    double owed;                         /* core time, ns, that its floor is ahead of what it had */
    int most, room, dealt; /* cores: its bound, 0 = none; what that leaves; dealt to it at this fraction */
    double had;            /* core time, ns, by its weight; only kept while weights differ */
    bool busy;             /* it had something to do at the dispatch before */
    double ahead;          /* the same that its candidates so far would take */
};

struct mo_moire_candidate {
    int query, tenant;
    bool running, keep, started, late; /* late: it cannot be in time, or has no target */
    bool best_effort;                  /* it has none */
    /* Where it is: the plans from its layer on, and the part of that layer that is done. */
    const struct mo_ladder_step *plan;
    double part, residual;
    int top, rung;        /* last rung that this machine can climb; and the one that it is on, */
    double takes, slower; /* by which the rest takes so long; and by the one before */
    double slack;         /* ns until its deadline */
    int64_t deadline, order;
    double turn;      /* by what its tenant had; only known while weights differ */
    int begin, cores; /* layer after its block; cores that stay in the block */
    int64_t rest;     /* what is left of its block */
    int share;        /* cores of the deal; what is not kept has none */
    double left;      /* core time to finish just in time */
};

/* The options of a row: which parts are left out. */
struct mo_moire_parts {
    bool no_fit;        /* what cannot all make it is thinned out */
    bool no_share;      /* cores that nobody needs are dealt out */
    bool no_resize;     /* blocks gain and lose cores while they run, where the engine can do it */
    bool no_versions;   /* layers run in the versions that suit the pressure */
    bool no_neighbours; /* that pressure is predicted, not only measured */
};

struct mo_moire_state {
    struct mo_moire_candidate list[MO_MOIRE_CANDIDATES];
    const struct mo_moire_parts *parts;
    int n, n_others, n_aside; /* n_others: of the n that do not run */
    bool weighted, bounded;   /* some tenant has a weight that is not 1; a bound on its cores */
    bool crowded;             /* the shared cache holds little of the models: which plans count, ladder.h */
    int step;                 /* of the deal before this one, moire_deal.c */
    double debt; /* core time, ns, that others get before the next turn of what has waited too long */
    struct mo_moire_account account[MO_MOIRE_TENANTS];
    int64_t turned_at, seen_at;
    short by_deadline[MO_MOIRE_CANDIDATES], aside[MO_MOIRE_CANDIDATES]; /* indices into list */
    short place_before[MO_MOIRE_CANDIDATES]; /* of those of aside without a target, moire_tenants.c */
};

/* ns that are left of a query by the plan of a rung, and the core time of that. */
static inline double mo_moire_time(const struct mo_moire_candidate *c, int rung) {
    const struct mo_ladder_step *here = &c->plan[rung], *next = here + MO_LADDER_RUNGS;
    return c->residual * ((double)here->time - c->part * (double)(here->time - next->time));
}
static inline double mo_moire_work(const struct mo_moire_candidate *c, int rung) {
    const struct mo_ladder_step *here = &c->plan[rung], *next = here + MO_LADDER_RUNGS;
    return c->residual * ((double)here->work - c->part * (double)(here->work - next->work));
}
/* Puts it on the first rung by which the rest takes at most `budget` ns; on its top when none does. */
void mo_moire_climb(struct mo_moire_candidate *c, double budget);
/* moire_prices.c: the price of a miss of every tenant, by what of theirs is late. */
void mo_moire_prices(struct mo_moire_state *state, const struct mo_view *view);
/* moire_tenants.c: what the dispatch has to know of tenants with bounds and weights, before `gather`. */
void mo_moire_look(struct mo_moire_state *state, const struct mo_view *view);
/* Of what is set aside and has no target: by what its tenants had, in the places that it has by age. */
void mo_moire_take_turns(struct mo_moire_state *state);
/* moire_deal.c: the share of every candidate that is kept. */
void mo_moire_deal(struct mo_moire_state *state, const struct mo_view *view);
/* moire_give.c: who starts, grows and shrinks. */
void mo_moire_give(struct mo_moire_state *state, const struct mo_view *view, struct mo_decisions *out);
/* moire_pressure.c: the blocks of the dispatch get the pressure that they will meet. */
void mo_moire_predict_pressure(const struct mo_moire_state *state, const struct mo_view *view,
                               struct mo_decisions *out);
/* mo_policy.dispatch of every row. */
void mo_moire_dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                       struct mo_decisions *out);
#endif
