/* SPDX-License-Identifier: Apache-2.0
 * inss_check.h - `moire interference fit --model inss`: InSS's latency model
 * (runtime/planner/inss/inss_latency.h) fitted to 16 solo runs and 3 runs beside another of each model, and
 * tested on what it was not fitted to.
 *
 *   solo            every measured batch and share that is not one of the 16.  No pair is used for it.
 *   beside one      the pairs are halved as for gpu-let's model.  Each model's three runs come from one half,
 *                   the errors from the other.  gpu-let's linear model is tested on the same samples, fitted
 *                   to the whole first half, and to both sides of the pairs that InSS's three runs belong to.
 *   beside a model never seen
 *                   the same, with no run beside the neighbour that the test has.
 *   beside two, three, four
 *                   random batches on equal shares against gpu-let's linear model, which is what the
 *                   simulator slows models down by: no data here has three models on a GPU, so these rows
 *                   compare two models and no measurement ("held_out" is false there).
 *   queue           mean latency of a Poisson stream in full batches, alone on half a GPU, against a
 *                   discrete simulation of that queue (inss_queue.h) with the measured time of the batch.
 *   waiting         the same, with the measured time given to both.
 *   equation 3      the same queries, one by one, given what the buffer held when each came.
 *
 * The three runs are chosen by what is run, never by how long it took: beside as many different neighbours as
 * there are, next to a batch of 8 on half of the GPU each, as the paper holds its neighbours at a batch of 8.
 * Nothing measured three models or more on a GPU, so nothing here says how well the sum over neighbours
 * holds. */
#ifndef MO_BENCH_INSS_CHECK_H
#define MO_BENCH_INSS_CHECK_H
#include <jansson.h>
#include "bench/data/pairs.h"
#include "runtime/planner/inss/inss_latency.h"

enum { MO_INSS_RUNS = 3 };

struct mo_inss_options {
    uint64_t seed;
    int splits; /* halves drawn with seed, seed + 1, ...: how far the errors depend on the draw */
    struct mo_inss_grid grid;
};

/* {"experiment": {...}, "models": [...], "latency_model": [{"model", "case", "predictor", "n",
 * "mean_error_pct", "max_error_pct", "held_out": true, "mean_range_pct": [least, most over the splits],
 * "mean_of_splits_pct"}],
 * "points": [{"case", "model", "beside", "batch", "share", "observed_ms", "predicted_ms", "error_pct"}]}.
 * Errors are |predicted / measured - 1|.  Predictors: "inss"; "inss as printed" (a plane in batch and share,
 * each model's two coefficients from its own runs alone); "inss, the whole half" (those coefficients from
 * all runs of the half: the best that the formula can do); "a factor a neighbour" (no formula, the mean
 * slowdown beside each); "gpu-let"; "gpu-let, same pairs"; "none"; for solo runs "interpolation"
 * (share_profile.h from the same 16).  MOIRE_EINVAL: a profile without what the grid needs, which is named by
 * its file; too few pairs. */
int mo_inss_document(const struct mo_pairs *pairs, const struct mo_inss_options *options, json_t **out,
                     moire_error *err);
void mo_inss_print(const json_t *document);
#endif
