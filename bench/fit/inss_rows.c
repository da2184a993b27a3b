/* SPDX-License-Identifier: Apache-2.0
 * inss_rows.c - rows and points of the test of InSS's latency model; see inss_errors.h. */
#include "bench/fit/inss_errors.h"

#include <string.h>

int mo_inss_add_row(struct mo_inss_test *t, const char *model, const char *what, const char *predictor,
                    const struct mo_inss_errors *e, const struct mo_inss_spread *spread, moire_error *err) {
    if (!e->n) return MOIRE_OK;
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:b}", "model", model, "case", what, "predictor", predictor,
                  "n", e->n, "mean_error_pct", 100 * mo_inss_mean_error(e), "max_error_pct", 100 * e->worst,
                  "held_out", !!strcmp(predictor, MO_INSS_MODEL_ONLY));
    int bad = !row;
    if (row && spread)
        bad = json_object_set_new(row, "mean_range_pct",
                                  json_pack("[f,f]", 100 * spread->least, 100 * spread->most)) ||
              json_object_set_new(row, "mean_of_splits_pct", json_real(100 * spread->sum / spread->n));
    if (bad) json_decref(row);
    return bad || json_array_append_new(t->rows, row) ? mo_fail(err, MOIRE_ENOMEM, "out of memory")
                                                      : MOIRE_OK;
}

int mo_inss_add_point(struct mo_inss_test *t, const char *what, const struct mo_pair_side *self,
                      const char *beside, double observed_ms, double predicted_ms, moire_error *err) {
    json_t *point = json_pack("{s:s, s:s, s:s?, s:i, s:i, s:f, s:f, s:f}", "case", what, "model",
                              t->pairs->model[self->model].name, "beside", beside, "batch", self->batch,
                              "share", self->share, "observed_ms", observed_ms, "predicted_ms", predicted_ms,
                              "error_pct", 100 * fabs(predicted_ms / observed_ms - 1));
    return json_array_append_new(t->points, point) ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}
