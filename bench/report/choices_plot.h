/* SPDX-License-Identifier: Apache-2.0
 * choices_plot.h - the drawings of the section "How moire chose"; see report_choices.c. */
#ifndef MO_BENCH_CHOICES_PLOT_H
#define MO_BENCH_CHOICES_PLOT_H
#include <jansson.h>
#include <stdio.h>

/* Colour of a layer's version, 0 the first. */
const char *mo_plot_version_colour(int version);
/* One layer's front: parallelism against blocking, every sampled kernel, the versions kept in colour. */
void mo_plot_front(FILE *out, const json_t *layer, const char *title);
/* Time of its versions by pressure. */
void mo_plot_front_times(FILE *out, const json_t *layer, const char *title);
/* Blocks by time and pressure; versions of layers by pressure. */
void mo_plot_pressure(FILE *out, const json_t *choices);
void mo_plot_bins(FILE *out, const json_t *choices);
/* Times of a tenant's layers, the bound on a block, and where blocks began. */
void mo_plot_blocks(FILE *out, const json_t *tenant, const char *name, double bound_ms);
#endif
