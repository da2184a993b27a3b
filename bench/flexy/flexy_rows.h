/* SPDX-License-Identifier: Apache-2.0
 * flexy_rows.h - what runs of `moire bench flexy` become in its document. */
#ifndef MO_FLEXY_ROWS_H
#define MO_FLEXY_ROWS_H
#include <jansson.h>
#include "bench/flexy/flexy_run.h"

/* A run, as a worker hands it on. */
json_t *mo_flexy_rows_run(const struct mo_flexy_ran *ran);
/* Runs [first, first + n) of a point as its row; NULL: out of memory. */
json_t *mo_flexy_rows_result(const json_t *runs, size_t first, int n, const char *workload,
                             const char *policy, double f);
/* Adds "summary": {"policies": [{"workload", "policy", "within_sla_pct_at_70" (at 70 % utilisation, on the
 * line between the two points around it; null: it is not reached), "utilisation_as_flexy_1" (the highest up
 * to which the share stays at what flexy-1 has at 70 %; null likewise), "highest_utilisation"}], "resets":
 * [{"workload", "f", "utilisation" (flexy-reset's), "priority", "flexy", "ratio" (null: flexy-reset made
 * none)}], "claims": [{"what", "claimed", "reached"}]}. */
int mo_flexy_rows_conclude(json_t *document, moire_error *err);
#endif
