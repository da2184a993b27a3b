/* SPDX-License-Identifier: Apache-2.0
 * worth.h - what a run was worth to each class: latency-critical tenants want their answers in time,
 * best-effort ones want many.
 *
 * The throughput of a best-effort tenant is that of the answers which it got in the measure window, whenever
 * they were asked, and as a share of what it gets alone: one query after the other on the machine, on the
 * fastest system and number of cores that was measured.  Of several tenants these shares are added up. */
#ifndef MO_BENCH_WORTH_H
#define MO_BENCH_WORTH_H
#include "bench/load/serve.h"

/* Answers that a tenant got in the measure window, or until cut_ns. */
int mo_bench_answers(const struct mo_bench_schedule *schedule, const struct mo_bench_record *records,
                     int tenant, int64_t cut_ns);
/* Seconds of the measure window that were played before cut_ns. */
double mo_bench_window_s(const struct mo_bench_schedule *schedule, int64_t cut_ns);
/* "classes" of a point: {"critical": {"n", "met", "within_qos", "within_interval"}, "best_effort":
 * {"answers", "qps", "of_alone", "of_own_alone", "tenants": [{"name", "answers", "qps", "alone_qps",
 * "of_alone", "of_own_alone"}]}}; "own": alone on the family of systems that was measured.  What is not known
 * is null.  NULL for a scenario with one class only, or without memory. */
json_t *mo_bench_classes_json(const struct mo_bench_mix *mix, const char *family,
                              const struct mo_bench_schedule *schedule, const struct mo_bench_record *records,
                              const struct mo_bench_score *score, int64_t cut_ns);
#endif
