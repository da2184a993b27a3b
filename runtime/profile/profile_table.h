/* SPDX-License-Identifier: Apache-2.0
 * profile_table.h - profiles as data: the file that measurements, converters and models of machines write,
 * and that the engines, the policies and the reports read.  A second kind, models on shares of a GPU, is
 * runtime/profile/share_table.h.
 *
 * CSV.  The first line is "# moire-profile 1"; further lines that begin with '#' say "# KEY TEXT" (model,
 * machine, source, note; lines: how many lines of times follow, so that a cut file is known).  Then one
 * header line and one line for each layer, variant, batch and pressure:
 *
 *   layer,name,variant,batch,pressure,kib,units,block_kib,l3_kib,cold_us,mops,1,2,4,8
 *   0,conv1,0,1,0,1540,112,96,3100,64.1,236,812.4,420.1,230.0,141.7
 *
 * A variant is a version of the layer (moire tune), 0 the fastest alone.  kib is the layer's least memory
 * traffic (0 = not known).  Five columns may be missing: `units`, into how many independent pieces the
 * kernel cuts the work, and, both or neither, `block_kib`, what a unit touches over and over, and `l3_kib`,
 * the traffic past the private cache of one core (0 = not known), `cold_us`, how much longer one core takes
 * when no cache holds the layer's operands, and `mops`, millions of arithmetic operations, of which a
 * multiply-add is two (all 0 = not known).  Pressure is that of runtime/sched/core_pressure.h, 0 to 1.
 * The numbers that follow are core counts in rising order, the cells below them microseconds.
 *
 * Layers count from 0 without a gap.  The lines of a layer are in order of variant, batch and pressure;
 * variants count from 0 without a gap, and each has batch 1 under pressure 0, and under all pressures that
 * the first layer has.  Refused, with file and line: whatever breaks that, missing, extra or unreadable
 * cells, times that are not positive, that grow with the cores beyond what synchronisation explains (more
 * than twofold and 20 us), or that fall under more pressure. */
#ifndef MO_PROFILE_TABLE_H
#define MO_PROFILE_TABLE_H
#include "runtime/profile/profile.h"

enum { MO_PROFILE_COUNTS = 64, MO_PROFILE_NAME = 48 };

struct mo_profile_line {
    int layer, variant, batch;
    double pressure, kib, units, block_kib, l3_kib, cold_us, mops;
    char name[MO_PROFILE_NAME];
    const double *us; /* n_counts times */
};

struct mo_profile_table {
    struct mo_region *region;                    /* owns everything below */
    const char *model, *machine, *source, *note; /* "" = not said */
    int n_layers, n_counts, n_lines;
    int counts[MO_PROFILE_COUNTS];
    bool units, locality, cold, mops; /* the file has these columns */
    struct mo_profile_line *lines;
};

/* On success *out must be freed before `env` goes; `path` is for messages. */
int mo_profile_table_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                           struct mo_profile_table *out, moire_error *err);
int mo_profile_table_read(const struct mo_env *env, const char *path, struct mo_profile_table *out,
                          moire_error *err);
void mo_profile_table_free(struct mo_profile_table *table);

/* Makes the n measured times of a line such as a reader takes, for what it refuses is noise: a time that
 * falls under more pressure becomes that under less (`before`, that line's times after this call; NULL =
 * none), one that grows with the cores beyond the limit becomes the limit, and what is no time or out of
 * range becomes the nearest in range.  Returns how many it changed. */
int mo_profile_settle(double *us, const double *before, int n);

/* The text of a table, n bytes and a NUL, in its region; NULL: out of memory.  The reader takes it when lines
 * are in order and their times settled. */
char *mo_profile_table_text(const struct mo_profile_table *table, size_t *n);

/* The profile of one variant at batch 1 without pressure, for up to max_cores cores; the caller's. */
int mo_profile_table_profile(const struct mo_env *env, const struct mo_profile_table *table, int variant,
                             int max_cores, struct mo_profile **out, moire_error *err);
#endif
