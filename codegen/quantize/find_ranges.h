/* SPDX-License-Identifier: Apache-2.0
 * find_ranges.h - runs a model of floats on samples and finds the range of every point. */
#ifndef MO_QUANTIZE_CALIBRATE_H
#define MO_QUANTIZE_CALIBRATE_H
#include "codegen/quantize/fold.h"
#include "codegen/quantize/insert.h"
#include "codegen/quantize/run_rewritten.h"
#include "codegen/quantize/value_tally.h"

/* Told before every step that may take long; false: stop here (MOIRE_EINTERRUPTED). */
struct mo_quantize_progress {
    bool (*tell)(void *ctx, const char *stage, int done, int total);
    void *ctx;
};
int mo_quantize_tell(const struct mo_quantize_progress *p, const char *stage, int done, int total,
                     moire_error *err);

/* Fills range[by value] for the points; a point that turns out not to be float32 is none any more.  n_bad
 * counts values that were NaN or infinite. */
int mo_quantize_calibrate(struct mo_edit *e, const struct mo_qlayers *layers, struct mo_points *points,
                          const struct mo_model_samples *samples, enum mo_range_method method,
                          const struct mo_quantize_progress *progress, struct mo_qrange *range,
                          int64_t *n_bad);
/* Where batch normalization tells a tensor's distribution, its range without data: six deviations around the
 * means (Nagel et al., ICCV 2019, section 4.2.1), cut by a Relu or Clip behind.  How many. */
int mo_quantize_by_norms(struct mo_edit *e, const struct mo_norm_list *norms, const struct mo_points *points,
                         struct mo_qrange *range);
/* Ranges as insertion wants them: those that share a scale are united. */
void mo_unite_ranges(const struct mo_points *points, const struct mo_qrange *own, struct mo_qrange *united);
#endif
