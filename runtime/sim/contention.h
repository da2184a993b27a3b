/* SPDX-License-Identifier: Apache-2.0
 * contention.h - how blocks on a simulated machine of cores slow each other down.
 *
 *   memory        they share the memory ceiling (demand.h): what was measured here, and the rule by default
 *   none          they do not
 *   factor:M      a block takes up to M times its time, in proportion to the share of the machine's cores
 *                 that run other blocks; every version alike
 *   versions:M    likewise, but layers have the assumed versions of assumed_versions.h: the one that is
 *                 fastest alone takes up to M times its time, at most 7, and others are less sensitive
 *
 * The last two are made from what VELTAIR's paper prints, to see what its policy gains in such a world: no
 * machine was measured.  What neighbours do to a block depends on how much of the machine they have, not on
 * how large it is itself.  So the pressure that policies see, from the share of all cores that are busy, is
 * what a block suffers that begins now.  Under `memory` it is the share of the ceiling that is asked for. */
#ifndef MO_CONTENTION_H
#define MO_CONTENTION_H
#include <stdbool.h>

enum mo_contention_kind {
    MO_CONTENTION_MEMORY,
    MO_CONTENTION_NONE,
    MO_CONTENTION_FACTOR,
    MO_CONTENTION_VERSIONS
};

struct mo_contention {
    enum mo_contention_kind kind;
    double most;  /* M */
    int versions; /* of a layer that may be used, under `versions`; 0 = all */
};

/* "memory", "none", "factor:1.8", "versions:7"; false: not such a text, and M must be 1 to 100, for versions
 * 7 at most. */
bool mo_contention_parse(const char *text, struct mo_contention *out);
/* Whether blocks slow each other down by how many cores are busy. */
static inline bool mo_contention_crowds(const struct mo_contention *c) {
    return c->kind == MO_CONTENTION_FACTOR || c->kind == MO_CONTENTION_VERSIONS;
}
/* Pressure from 0 to 1 where other blocks have that share of all cores. */
double mo_contention_pressure(const struct mo_contention *contention, double busy);
/* Times its time alone that a block takes where others have that share of all cores; `chosen`: the pressure
 * that its versions were chosen for. */
double mo_contention_pace(const struct mo_contention *contention, double busy, double chosen);
#endif
