/* SPDX-License-Identifier: Apache-2.0
 * flexy.h - options of the policies of two classes in flexy.c. */
#ifndef MO_POLICY_FLEXY_H
#define MO_POLICY_FLEXY_H
#include "runtime/sched/policy.h"

/* How devices are shared: not told apart; user-facing tasks first; or by Algorithm 1 of the paper. */
enum mo_flexy_order { MO_FLEXY_ROUND_ROBIN, MO_FLEXY_PRIORITY, MO_FLEXY_ELASTIC };

struct mo_flexy_options {
    enum mo_flexy_order order;
    int keep;    /* K: devices that are kept for user-facing tasks; at most all but one count */
    bool resets; /* kills batch tasks; with cuts their blocks alone */
    bool cuts;   /* batch tasks run block by block (view.block_ns), not whole */
    bool packs;  /* ELASTIC: devices that serve user-facing tasks go on to, before idle ones do */
};

/* flexy-K, or priority-K, for any K: a copy of the row whose options are `options`. */
struct mo_policy mo_policy_flexy(const struct mo_flexy_options *options);
#endif
