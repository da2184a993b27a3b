/* SPDX-License-Identifier: Apache-2.0
 * extend.h - profiles for a machine that is not at hand, from those measured on one that is.
 *
 * Some models have profiles on both machines (of the far one, published ones); they tie the two together.
 * Layer l takes on c cores of the far machine
 *
 *   t(c) = ratio x t1 / c + sync + sync_core x c,   at least bytes / memory bandwidth
 *
 * t1: its measured time on one core here; the last two terms: what it costs c workers to begin together and
 * to meet; the floor: what has to come from memory, at the far machine's ceiling.  A layer of a single unit
 * stays on one core; one of several is taken to be cut as finely as the far machine needs, as kernels
 * compiled there would be: the units at hand are those of kernels chosen for the machine here, and dividing
 * by whole ones of them predicts the published curves two to three times as badly
 * (docs/results/simulator.md). ratio, sync and sync_core are no knobs: they are the non-negative weighted
 * least squares over the curves T(c) of the tying models, each T(c) the sum over the model's convolutions,
 * for those are what has been published.
 *
 * Each version of a layer has its own t1, and keeps what describes its parallelism and locality; what
 * pressure does to it there follows from these and the far machine's caches
 * (runtime/profile/profile_versions.h).  A model that was published, without versions, takes them over: each
 * with the published time of its convolution times the predicted ratio of the version to the first.
 *
 * How good that is says the error of the models that were left out of the fit (mo_extend_validate). */
#ifndef MO_BENCH_EXTEND_H
#define MO_BENCH_EXTEND_H
#include "runtime/profile/profile_table.h"

struct mo_extend_model {
    double ratio, sync_us, sync_core_us;
    double bytes_us; /* memory ceiling of the far machine, bytes a us; 0 = none */
};

/* One model measured on both machines. */
struct mo_extend_tie {
    const struct mo_profile_table *here, *there;
};

/* Least squares over the ties; bytes_us is taken as it is.  MOIRE_EINVAL names the table that cannot serve:
 * no one-core times here, other convolutions there. */
int mo_extend_fit(const struct mo_extend_tie *ties, int n, double bytes_us, struct mo_extend_model *out,
                  moire_error *err);

/* Predicted time in us of one layer measured `here` on `cores` cores there. */
double mo_extend_time(const struct mo_extend_model *model, const struct mo_profile_line *line, int cores);

/* Relative error of the predicted curve of one tie: mean of |predicted / published - 1| over its core counts,
 * and the largest of them. */
struct mo_extend_error {
    double mean, worst;
    int worst_cores;
};
struct mo_extend_error mo_extend_validate(const struct mo_extend_model *model,
                                          const struct mo_extend_tie *tie);
/* Predicted and published time of the convolutions, us; column `at` of tie->there. */
void mo_extend_curve(const struct mo_extend_model *model, const struct mo_extend_tie *tie, int at,
                     double *predicted, double *published);

/* The table of a model on the far machine at 1, 2, 4, 8, 16, ... `cores` cores; its region is the result's
 * own.  Free with mo_profile_table_free(). */
int mo_extend_table(const struct mo_env *env, const struct mo_extend_model *model,
                    const struct mo_profile_table *here, int cores, struct mo_profile_table *out,
                    moire_error *err);

/* The published table of a tying model with the versions measured here; as mo_extend_table(). */
int mo_extend_versions(const struct mo_env *env, const struct mo_extend_model *model,
                       const struct mo_extend_tie *tie, struct mo_profile_table *out, moire_error *err);
#endif
