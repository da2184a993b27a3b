/* SPDX-License-Identifier: Apache-2.0
 * pace.h - how fast a machine was over time: on a shared host cores lose time to other guests, now and then
 * and for seconds on end, which no profile and no model of our own load can know.
 *
 * By core and in equal steps from time 0: how much profile time a core can do until each step begins.  Behind
 * the last step one ns takes one ns.  Sums must rise by step.
 *
 * A team runs a layer together: its cores claim the layer's units, so that a slow one does less and the team
 * is as fast as its cores are in the mean; but a core that stands still keeps the unit it has begun, and the
 * others wait for it. */
#ifndef MO_SIM_PACE_H
#define MO_SIM_PACE_H
#include "runtime/base/cores.h"

struct mo_sim_pace {
    int64_t step_ns;
    int n_steps, n_cores;
    double *done; /* [n_cores][n_steps + 1], ns; the first of a core is 0 */
};

/* Profile time that a core does between two moments, 0 <= from <= to. */
double mo_sim_pace_work(const struct mo_sim_pace *pace, int core, int64_t from, int64_t to);
/* When a core that begins at `from` has done `work` ns of profile time. */
int64_t mo_sim_pace_end(const struct mo_sim_pace *pace, int core, int64_t from, double work);
/* Whether a core stands still. */
bool mo_sim_pace_stands(const struct mo_sim_pace *pace, int core, int64_t at);
/* The same of a team, of at least one core; `work` is profile time on so many. */
double mo_sim_pace_team_work(const struct mo_sim_pace *pace, const struct mo_cores *cores, int64_t from,
                             int64_t to);
int64_t mo_sim_pace_team_end(const struct mo_sim_pace *pace, const struct mo_cores *cores, int64_t from,
                             double work);
#endif
