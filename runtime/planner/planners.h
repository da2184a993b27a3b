/* SPDX-License-Identifier: Apache-2.0
 * planners.h - the rows of the table of planners. */
#ifndef MO_PLANNERS_H
#define MO_PLANNERS_H
#include "runtime/planner/planner.h"

extern const struct mo_planner mo_planner_sbp, mo_planner_sbp_half, mo_planner_gslice, mo_planner_igniter,
    mo_planner_gpulet, mo_planner_gpulet_int, mo_planner_ideal, mo_planner_moire, mo_planner_beam,
    mo_planner_released, mo_planner_sbp_paper, mo_planner_partitions, mo_planner_mps;
#endif
