/* SPDX-License-Identifier: Apache-2.0
 * profile_versions.h - which version of a layer runs under which pressure, and what it asks of the machine.
 *
 * Of every version a profile table knows its time by cores, into how many units it cuts the layer (its
 * parallelism) and what it moves past the private cache (its locality).  On a machine
 *
 *   traffic   a version on more cores than it has units is cut finer and reads its operands again so many
 *             times more; so does one whose unit touches more than the private cache holds:
 *             l3(c) = l3_bytes x max(1, c / units) x max(1, block_bytes / private cache)
 *   misses    what l3(c) has beyond the layer's own bytes is read again, and goes to memory as far as these
 *             exceed the let's part of the shared cache: alone the slices of its cores, else its even share
 *   time      under pressure p the let has at least its even share of the memory ceiling, at most what p
 *             leaves:  max(time alone, bytes to memory / (ceiling x max(1 - p, c / cores)))
 *
 * Where a table has times under pressure these are taken instead of the last rule.  At each level that
 * version is chosen whose time is least, and another than the first only when it is 2 % faster
 * (mo_version_choose() does the same to live layers).  Without l3_kib nothing is read again. */
#ifndef MO_PROFILE_VERSIONS_H
#define MO_PROFILE_VERSIONS_H
#include "runtime/profile/profile_table.h"

/* What the rules need to know; zeros: caches and memory without limit. */
struct mo_profile_machine {
    int cores;
    double private_bytes; /* cache of one core */
    double slice_bytes;   /* one shared cache of the last level, */
    int slice_cores;      /* and how many cores share it */
    double bytes_ns;      /* memory ceiling */
    int versions;         /* at most so many of a layer, evenly among those it has, the first and the last of
                             them included; 1 = the first alone, 0 = all */
};

/* Which of `all` versions is the i-th of the `most` that are kept; i below mo_version_count(). */
static inline int mo_version_count(int all, int most) {
    return most > 0 && most < all ? most : all;
}
static inline int mo_version_kept(int all, int most, int i) {
    int n = mo_version_count(all, most);
    return n > 1 ? (i * (all - 1) + (n - 1) / 2) / (n - 1) : 0;
}

/* Bytes that a version reads again from memory; shared: all cores are busy. */
double mo_profile_reread(const struct mo_profile_machine *machine, const struct mo_profile_line *line,
                         int cores, bool shared);

/* Adds levels to the finished profile of a table's variant 0; nothing to do when the table knows neither
 * other variants nor locality.  Also counts how many versions a layer needs, and makes
 * the plans for crowded memory (ladder.h). */
int mo_profile_versions(const struct mo_profile_machine *machine, const struct mo_profile_table *table,
                        struct mo_profile *profile, moire_error *err);
#endif
