/* SPDX-License-Identifier: Apache-2.0
 * simulate_summary.h - means over seeds with 95 % confidence intervals (Student's t). */
#ifndef MO_BENCH_SIMULATE_SUMMARY_H
#define MO_BENCH_SIMULATE_SUMMARY_H
#include <jansson.h>
#include "bench/data/mean.h"

/* {"mean", "ci95"}; ci95 is null with one value, all of it with none. */
json_t *mo_bench_mean_json(const struct mo_mean *mean);
/* From "results" rows: a list with one object a system: name, seeds, and {"mean", "ci95"} of the highest
 * loads and, load by load, of the shares within QoS.  ci95 is half the width; null with one seed. */
json_t *mo_bench_summary(const json_t *results);
void mo_bench_summary_print(const json_t *summary);
#endif
