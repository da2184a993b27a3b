/* SPDX-License-Identifier: Apache-2.0
 * moire.h - the policy `moire` with parts of it left out, to see what each brings (moire_without.c). */
#ifndef MO_POLICY_MOIRE_H
#define MO_POLICY_MOIRE_H
#include "runtime/policy/policy.h"

enum { MO_MOIRE_CANDIDATES = 128 };

struct mo_moire_candidate {
    int query, tenant;
    bool running, keep;
    int64_t deadline, order; /* order: of acceptance */
    int lean;                /* fewest cores that make it in time; 1 where none does */
    double left, weight;     /* core time to finish on those; harm of setting it aside */
};

struct mo_moire_parts {
    bool fit;      /* what cannot all make it is thinned out */
    bool balance;  /* tenants below their target attainment are spared */
    bool reserve;  /* room is kept for tenants with tighter targets */
    bool spare;    /* cores that nobody needs are handed out */
    bool early;    /* a query takes cores to be early */
    bool meet;     /* waits for cores that come free in a moment */
    bool quick;    /* what is set aside holds no core for longer than a block's time */
    bool versions; /* layers run in the versions that suit the pressure */
};

struct mo_moire_state {
    struct mo_moire_candidate list[MO_MOIRE_CANDIDATES];
    const struct mo_moire_parts *parts;
    int n, n_aside, blocks;
    short by_deadline[MO_MOIRE_CANDIDATES], aside[MO_MOIRE_CANDIDATES]; /* indices into list */
    double balance; /* 0: every miss counts the same .. 1: tenants are balanced */
};

/* One dispatch with these parts. */
void mo_moire_dispatch(struct mo_moire_state *state, const struct mo_view *view, struct mo_decisions *out,
                       const struct mo_moire_parts *parts);
#endif
