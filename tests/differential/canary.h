/* SPDX-License-Identifier: Apache-2.0
 * canary.h - whether the net finds what it is there to find: every deliberate fault, in built-in kernels and
 * in the C of every family of the generator, must make a wrong answer that is seen. */
#ifndef MO_DT_CANARY_H
#define MO_DT_CANARY_H
#include "tests/differential/net.h"

/* Faults that were not found among the graphs of so many seeds; one line for each fault.  emitted: those in
 * emitted C as well, which takes a compiler and time. */
int dt_canaries(struct dt_net *net, uint64_t seed, int graphs, bool emitted);
#endif
