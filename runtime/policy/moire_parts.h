/* SPDX-License-Identifier: Apache-2.0
 * moire_parts.h - the policy `moire` and its parts, each of which can be left out to see what it brings
 * (moire_without.c). */
#ifndef MO_POLICY_MOIRE_H
#define MO_POLICY_MOIRE_H
#include "runtime/sched/policy.h"

enum { MO_MOIRE_CANDIDATES = 128, MO_MOIRE_TENANTS = 256 };

/* Answers of a tenant. */
struct mo_moire_count {
    int64_t answered, in_time;
};

struct mo_moire_account {
    struct mo_moire_count since, turned; /* at the beginnings of the window and of its second half */
    int late;                            /* queries at hand that cannot be in time any more */
    double price;                        /* of a miss */
    double owed;                         /* core time, ns, that its floor is ahead of what it had */
};

struct mo_moire_candidate {
    int query, tenant;
    bool running, keep, started;
    int begin, wide, cores;  /* layer after its block; cores on which the rest is fastest; of the block */
    int64_t rest;            /* what is left of its block */
    int64_t deadline, order; /* order: of acceptance */
    int share;               /* cores of the allotment; what is not kept has none */
    double left;             /* core time to finish just in time */
};

/* The options of a row: which parts are left out. */
struct mo_moire_parts {
    bool no_fit;        /* what cannot all make it is thinned out */
    bool no_reserve;    /* room is kept for tenants with tighter targets */
    bool no_share;      /* cores that nobody needs are allotted */
    bool no_meet;       /* waits for cores that come free in a moment */
    bool no_brief;      /* the more cores, the shorter the blocks */
    bool no_ease;       /* what is set aside waits until the others have time to spare */
    bool no_room;       /* cores are kept free of what is set aside */
    bool no_quick;      /* what is set aside holds no core for longer than a block's time */
    bool no_versions;   /* layers run in the versions that suit the pressure */
    bool no_neighbours; /* that pressure is predicted, not only measured */
};

struct mo_moire_state {
    struct mo_moire_candidate list[MO_MOIRE_CANDIDATES];
    const struct mo_moire_parts *parts;
    int n, n_aside;
    short by_deadline[MO_MOIRE_CANDIDATES], aside[MO_MOIRE_CANDIDATES]; /* indices into list */
    double fraction; /* of their time to the deadline that kept queries take in the allotment; 1: all of it */
    double debt;     /* core time, ns, that others get before the next turn of what has waited too long */
    struct mo_moire_account account[MO_MOIRE_TENANTS];
    int64_t turned_at, seen_at;
};

/* Fewest cores on which layers [begin, end of the model) take at most `budget` ns; `wide` when none is
 * enough, and none beyond it. */
int mo_moire_fewest(const struct mo_view_tenant *tenant, int begin, double budget, int wide);
/* moire_prices.c: the price of a miss of every tenant, by what of theirs is late. */
void mo_moire_prices(struct mo_moire_state *state, const struct mo_view *view);
/* moire_allot.c: the share of every candidate that is kept. */
void mo_moire_allot(struct mo_moire_state *state, const struct mo_view *view);
/* moire_pressure.c: the blocks of the dispatch get the pressure that they will meet. */
void mo_moire_predict_pressure(const struct mo_moire_state *state, const struct mo_view *view,
                               struct mo_decisions *out);
/* mo_policy.dispatch of every row. */
void mo_moire_dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                       struct mo_decisions *out);
#endif
