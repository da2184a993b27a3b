/* SPDX-License-Identifier: Apache-2.0
 * lets_bed.h - GPUs in virtual time, with the kinds and tenants of gpu-let's paper: what tests of servers on
 * lets lay, start and take away. */
#ifndef MO_LETS_BED_H
#define MO_LETS_BED_H
#include "runtime/sim/sim.h"
#include "tests/unit/planner/plan_case.h"

struct lets_bed {
    struct plan_case c;
    struct mo_gpus gpus; /* may be changed until the start */
    struct mo_profile *profile;
    struct mo_events *events;
    struct mo_sim *sim;
};

/* So many GPUs, and a model whose layers take so long. */
void lets_bed_lay(struct lets_bed *b, int n_gpus, const int64_t *layer_ns, int n_layers);
/* The simulation: the caller says its policy, limits, noise and whom it answers. */
void lets_bed_start(struct lets_bed *b, struct mo_sim_config config, int n_events);
/* When all has been answered: the checker accepts the history of so many queries (-1: it is not asked), and
 * all is given back. */
void lets_bed_strike(struct lets_bed *b, int accepted);
#endif
