/* SPDX-License-Identifier: Apache-2.0
 * watt_rows.h - runs as rows of the document of `moire bench wattwiser` (watt_bench.h). */
#ifndef MO_BENCH_WATT_ROWS_H
#define MO_BENCH_WATT_ROWS_H
#include <jansson.h>
#include "bench/wattwiser/watt_run.h"

/* One run; NULL: out of memory. */
json_t *mo_watt_rows_run(const struct mo_watt_ran *ran, int n_steps);
/* A result of all runs of a pair under a policy; NULL: out of memory. */
json_t *mo_watt_rows_result(const json_t *runs, const char *pair, const char *policy);
/* Fills in what results save of uniform's watts, and the means over pairs. */
int mo_watt_rows_conclude(json_t *document, moire_error *err);
/* What the machine file says of a GPU's power. */
json_t *mo_watt_rows_power(const struct mo_power_kind *kind);
#endif
