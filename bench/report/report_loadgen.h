/* SPDX-License-Identifier: Apache-2.0
 * report_loadgen.h - a load as MLPerf's LoadGen would judge it. */
#ifndef MO_REPORT_LOADGEN_H
#define MO_REPORT_LOADGEN_H
#include "bench/report/merge.h"

/* Prints a row a tenant with a target: its queries, those that were late or have no answer, and whether the
 * run has shown that 99 % are in time; nothing where no tenant has one. */
void mo_report_loadgen(const json_t *document, const struct mo_merged_load *at);
#endif
