/* SPDX-License-Identifier: Apache-2.0
 * device_kinds.h - a machine's devices as planners see them: types of GPU, and groups of cores as one more.
 *
 * Cores beside GPUs are groups of at most 16: "GPUs" of type "cores" whose units are cores, whose lets need
 * no preparation and which run one query at a time. */
#ifndef MO_BENCH_DEVICE_KINDS_H
#define MO_BENCH_DEVICE_KINDS_H
#include "bench/data/machine.h"

/* The GPUs type by type in the order of the file, then the groups of cores.  kinds[MO_PLAN_KINDS] and
 * kind[MO_PLAN_GPUS] are filled as far as *n_kinds and *n_gpus; groups beyond the last GPU that planners know
 * are left out. */
void mo_bench_kinds(const struct mo_bench_machine *machine, struct mo_plan_kind *kinds, int *n_kinds,
                    int *kind, int *n_gpus);

/* The profile of a model on a kind that mo_bench_kinds() listed, with the link of its GPUs; *out is freed
 * with mo_share_destroy().  There may be none: MOIRE_OK and NULL; *err then says what is missing. */
int mo_bench_kind_profile(const struct mo_env *env, const struct mo_bench_machine *machine,
                          const struct mo_plan_kind *kinds, int kind, const char *model,
                          struct mo_share_profile **out, moire_error *err);
#endif
