/* SPDX-License-Identifier: Apache-2.0
 * calibrate.h - measures a model's solo profile where the workers of a device of cores are: time of every
 * layer at 1, 2, 4, ... and all cores, the minimum of a few repetitions; and how much longer a layer takes on
 * one core when all caches were swept before the model ran, as other tenants sweep them.  Tenants that serve
 * meanwhile have their cores whenever they want them.  And the ceiling of memory, for which cores are held
 * for a millisecond at a time. */
#ifndef MO_CALIBRATE_H
#define MO_CALIBRATE_H
#include "runtime/engine/engine_cores.h"

/* Bytes that sweep the caches of such a machine, 0 = it does not say how large they are; the sweep takes as
 * much memory for a moment. */
int64_t mo_calibrate_sweep(const struct mo_topology *topology);
/* sweep 0: nothing is measured cold.  `step` and `pieces` of ops are called on `instance` with `scratch`
 * bytes for each core and some input in it, on up to `most` cores, in the versions that `select_versions`
 * picks for these (NULL: as they are).  The result is finished and belongs to the caller. */
int mo_calibrate(struct mo_device *device, const struct mo_env *env, const struct mo_model_ops *ops,
                 void *model, int instance, int n_layers, int64_t scratch, int repetitions, int most,
                 int64_t sweep, struct mo_profile **out, moire_error *err);
/* Bytes a ns, read and written, of a walk by all cores over what no cache holds, the fastest of a few; takes
 * `sweep` bytes and more, 256 MiB at most, for some hundredth of a second.  0: no memory for it, or sweep 0.
 */
double mo_calibrate_memory(struct mo_device *device, const struct mo_env *env, int64_t sweep);
/* The core count measured after `cores` of n: 1, 2, 4, ... and n itself; more than n when it was the last. */
int mo_calibrate_next(int cores, int n);
#endif
