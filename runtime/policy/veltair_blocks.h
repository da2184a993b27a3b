/* SPDX-License-Identifier: Apache-2.0
 * veltair_blocks.h - layer blocks by dynamic threshold: algorithm 2 of VELTAIR (Liu et al., ASPLOS 2022, its
 * sections 4.2 and 4.3) as pure functions.
 *
 *   share       a layer's part of the target is its part of the model's operations
 *   Core        the fewest cores on which layers keep to their part of the target
 *   Avg_C       Core of the whole model
 *   thres       of the cores that the active models leave over, the model's part, in proportion to Avg_C
 *   pivot       a layer whose Core is Avg_C + thres or more: it begins a block
 *
 * Algorithm 2 says "or more", as here; the text says "exceeds".  The algorithm has two gaps.  Where no core
 * count is enough Core is not defined: here it is the fewest cores whose time is within 5 % of the least, for
 * the last few per cent cost cores by the dozen, and a layer that nothing helps needs one.  And its loops
 * leave the pivot itself out of every block; the text calls it the beginning of one. */
#ifndef MO_VELTAIR_BLOCKS_H
#define MO_VELTAIR_BLOCKS_H
#include "runtime/profile/profile.h"

/* A model at one moment. */
struct mo_blocks {
    const struct mo_profile *profile;
    int cores;       /* of the machine */
    double target;   /* ns for all layers; where times are off by a factor, that of the profile's times */
    double pressure; /* 0 to 1: layers run under it, in the versions for it; below 0: alone, the fastest */
    bool by_time;    /* shares go by one-core time; so they do for a model without operation counts */
};

/* Profiled time of layers [begin, end) on n cores under a pressure in the versions for it; below 0, or where
 * the profile knows no versions, alone in the fastest. */
int64_t mo_blocks_time(const struct mo_profile *profile, double pressure, int n, int begin, int end);
/* The fewest cores of `cores` on which layers [begin, end) take at most `most` ns, or as said above. */
int mo_blocks_core(const struct mo_profile *profile, double pressure, int cores, int begin, int end,
                   double most);

/* Of a query's time to its deadline, the part that plans may use; the rest is for waiting. */
double mo_blocks_planned(double ns);
/* Part of the target that is for layers [begin, end), 0 to 1. */
double mo_blocks_share(const struct mo_blocks *blocks, int begin, int end);
/* Core of layers [begin, end) within their share of the target. */
int mo_blocks_need(const struct mo_blocks *blocks, int begin, int end);
/* Avg_C + thres of a model, from its own Avg_C and the sum of those of all active queries, its own too. */
double mo_blocks_limit(int cores, double sum, int average);
/* FindingFirstPivot: the first pivot after layer `begin`, n_layers when there is none. */
int mo_blocks_pivot(const struct mo_blocks *blocks, int begin, double limit);
/* FormingLBs: ends of the blocks from layer `begin` on, at most n_layers of them; returns how many. */
int mo_blocks_form(const struct mo_blocks *blocks, int begin, double limit, int *end);
#endif
