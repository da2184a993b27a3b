/* SPDX-License-Identifier: Apache-2.0
 * replay_gpus.h - the GPUs of a recorded run as those of a simulation. */
#ifndef MO_BENCH_REPLAY_GPUS_H
#define MO_BENCH_REPLAY_GPUS_H
#include "bench/sim/simulate.h"
#include "bench/data/trace.h"

/* Fills simulation->side, and what of its machine and mix depends on it: of the trace, or with `other` of the
 * simulation's own machine, whose profiles are found by the tenants' names.  The tenants of mix.scenario are
 * there.  A tenant that nobody said a rate of expects the mean of `schedule`.  Close the simulation also
 * after an error.  MOIRE_EINVAL: the machine has no GPUs, or no profile of a tenant. */
int mo_replay_gpus(const struct mo_trace *trace, const struct mo_bench_schedule *schedule, bool other,
                   struct mo_bench_simulation *simulation, moire_error *err);
#endif
