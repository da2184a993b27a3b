/* SPDX-License-Identifier: Apache-2.0
 * scaling.h - what more threads gain one model: moire alone, all numbers of threads in turns. */
#ifndef MO_BENCH_SCALING_H
#define MO_BENCH_SCALING_H
#include "bench/data/journal.h"
#include "bench/alone/latency.h"

/* Appends a row for each number of threads but the smallest to the list "scaling" of the document: {"model",
 * "threads", "from", "gain", "gain_median", "rounds"}.  gain: shortest time on `from` threads over the
 * shortest on `threads`; gain_median: of the rounds' own ratios.  Nothing where there is one number only. */
int mo_bench_scaling(struct mo_bench_journal *journal, struct mo_bench_session *session,
                     const struct mo_bench_latency_options *options, const struct mo_bench_tenant *tenant,
                     moire_error *err);
/* The gains in a table, and their geometric means over the models. */
void mo_bench_scaling_print(const json_t *document);
#endif
