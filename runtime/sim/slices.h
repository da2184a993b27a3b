/* SPDX-License-Identifier: Apache-2.0
 * slices.h - a last level of cache that is cut into slices, each of which only its own cores can use.
 *
 * A model's data lies evenly in the slices that its running blocks touch, once in each.  Of what a block
 * reads once a query, the share goes to memory that its slices do not hold, by the rule for one cache
 * (mo_demand_missed()) slice by slice.  One slice of all cores is a pooled cache. */
#ifndef MO_SIM_SLICES_H
#define MO_SIM_SLICES_H
#include "runtime/sim/sim_impl.h"

/* Fills `missed` of every running block; the machine has slices. */
void mo_sim_slices_missed(struct mo_sim *sim);
#endif
