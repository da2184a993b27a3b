/* SPDX-License-Identifier: Apache-2.0
 * energy_by_load.h - what a simulated machine draws at each load: its energy-proportionality curve.
 *
 * A machine would be proportional if its watts rose from none in proportion to the load.  The yardstick is
 * the line from no watts at no load to what the first system of the document draws at the highest load. */
#ifndef MO_BENCH_ENERGY_BY_LOAD_H
#define MO_BENCH_ENERGY_BY_LOAD_H
#include "bench/report/report_page.h"

/* The table for the terminal, and the section of the page; nothing where points have no "watts". */
void mo_text_energy(FILE *out, const struct mo_page_view *view);
void mo_page_energy(FILE *out, const struct mo_page_view *view);
#endif
