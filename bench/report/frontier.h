/* SPDX-License-Identifier: Apache-2.0
 * frontier.h - two classes on one machine: the share in time of the latency-critical tenants against the
 * throughput of the best-effort ones, a point for each system and load, all seeds together.
 *
 * Shares are of all queries of all seeds, throughputs the mean over the seeds (bench/load/worth.h says what
 * they count).  A point is on the frontier when no other system has at the same load at least as much of
 * both, and more of one. */
#ifndef MO_BENCH_FRONTIER_H
#define MO_BENCH_FRONTIER_H
#include "bench/data/scenario.h"
#include "bench/report/report_page.h"

/* "frontier" of a document: a list of {"system", "load", "seeds", "critical", "critical_range",
 * "worst_critical", "qps", "of_alone", "of_alone_range", "of_own_alone", "best"} in order of load; ranges are
 * those of the seeds.  Runs that were stopped early are left out.  null for results without two classes; NULL
 * without memory. */
json_t *mo_frontier_json(const struct mo_bench_scenario *scenario, const json_t *results);
/* The table for the terminal, and the section of the page; nothing without a frontier. */
void mo_text_frontier(FILE *out, const json_t *document);
void mo_page_frontier(FILE *out, const struct mo_page_view *view);
#endif
