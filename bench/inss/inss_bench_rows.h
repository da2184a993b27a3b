/* SPDX-License-Identifier: Apache-2.0
 * inss_bench_rows.h - what the runs of `moire bench inss` come to: results, comparisons, and the latency
 * model. */
#ifndef MO_INSS_BENCH_ROWS_H
#define MO_INSS_BENCH_ROWS_H
#include <jansson.h>
#include "bench/inss/inss_run.h"

/* One run as an object; NULL: out of memory. */
json_t *mo_inss_rows_run(const struct mo_inss_ran *ran, double seconds);
/* The row of "results" of such runs, one a seed; NULL: out of memory. */
json_t *mo_inss_rows_result(const json_t *runs, const char *system, int gpus, int models, const char *kind,
                            double load);
/* Adds "comparison", "capacity" and "latency_model" to a document with "results".  profiles: the folder with
 * the measured pairs.  Where there is no LAPACK or there are no pairs, "left_out" says so. */
int mo_inss_rows_conclude(const struct mo_env *env, const char *profiles, json_t *document, moire_error *err);
#endif
