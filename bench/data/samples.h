/* SPDX-License-Identifier: Apache-2.0
 * samples.h - what counters said under known pressure: the data that a proxy is fitted to.
 *
 *   # moire-pressure 1
 *   # source papi                              whose observables the columns are
 *   # note level 0 to 5 of moire stress        any number of such lines
 *   pressure,slowdown,l3_miss_rate,l3_accesses,ipc
 *   0.2,1.03,0.11,812.5,1.9
 *
 * pressure is 0 to 1, slowdown how much longer work took than alone; the other columns are the source's, in
 * its order.  Refused with file and line: missing or surplus cells, what is no number, and a pressure out of
 * range. */
#ifndef MO_BENCH_SAMPLES_H
#define MO_BENCH_SAMPLES_H
#include "runtime/proxy/source.h"

enum {
    MO_SAMPLE_PRESSURE,
    MO_SAMPLE_SLOWDOWN,
    MO_SAMPLE_FIRST,
    MO_SAMPLE_CELLS = MO_SAMPLE_FIRST + MO_OBSERVABLES
};

struct mo_sample {
    double cell[MO_SAMPLE_CELLS];
};

struct mo_samples {
    const struct mo_env *env;
    const struct mo_source *source; /* NULL until the first file names it */
    int n, room;
    struct mo_sample *row;
};

void mo_samples_free(struct mo_samples *samples);
/* MOIRE_ENOMEM, MOIRE_ELIMIT. */
int mo_samples_add(struct mo_samples *samples, const struct mo_sample *row, moire_error *err);
/* Appends the rows of a text; its source must be that of the rows that are there. */
int mo_samples_parse(struct mo_samples *samples, const char *path, const char *text, size_t n,
                     moire_error *err);
/* Name of a column of a source's rows. */
const char *mo_samples_column(const struct mo_source *source, int column);
/* Columns of a source's rows. */
int mo_samples_columns(const struct mo_source *source);
/* Writes the file, whole or not at all. */
int mo_samples_write(const struct mo_samples *samples, const char *note, const char *path, moire_error *err);
#endif
