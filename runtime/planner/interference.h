/* SPDX-License-Identifier: Apache-2.0
 * interference.h - how much slower a model runs beside others on the same GPU: the linear model of gpu-let
 * (ATC 2022), slowdown = c1 l2_self + c2 l2_other + c3 dram_self + c4 dram_other + c5, at least 1.
 *
 * Use of L2 and memory is that of the solo run on the same share, as fractions of the GPU (share_profile.h).
 * The model was fitted to pairs.  Beside several, the use of all others is added up, each sum at most 1: what
 * a model suffers from is the traffic, whoever causes it.  Adding a neighbour never makes anything faster as
 * long as c2 and c4 are not negative. */
#ifndef MO_INTERFERENCE_H
#define MO_INTERFERENCE_H
#include "runtime/profile/share_profile.h"

struct mo_interference {
    double l2_self, l2_other, dram_self, dram_other, constant;
};

/* Slowdown (>= 1) of `self` while `others` (n of them) run beside it; 1 with none.  All zeros: always 1. */
double mo_interference(const struct mo_interference *model, const struct mo_share_use *self,
                       const struct mo_share_use *others, int n);
#endif
