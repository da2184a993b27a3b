/* SPDX-License-Identifier: Apache-2.0
 * assumed_versions.h - a family of versions of a layer that nobody measured, the same for every layer.
 *
 * VELTAIR's figure 6 shows four versions of one convolution by interference.  Its numbers were not released;
 * the text says that the version which is fastest alone becomes 7 times slower at the highest level, that the
 * last is slowest alone and fastest there, and that each is best within a narrow interval.  Here version k of
 * V takes, in units of the fastest version alone and under a pressure p from 0 to 1,
 *
 *   alone(k) + slope(k) p^3,  alone(k) = 1 + k d,  slope(0) = 6,  slope(V - 1) = 0
 *
 * where each version is best on an interval of length 1/V, which leaves d to be found: 0.041 for V = 5.  The
 * cube is the paper's figure 13: where the fastest version alone takes 1.6 times its time, the best of these
 * takes 1.11 (1.6 and 1.1 there); a square would give 1.35.  An assumption, and labelled so wherever it is
 * used. */
#ifndef MO_ASSUMED_VERSIONS_H
#define MO_ASSUMED_VERSIONS_H
#include "runtime/profile/profile.h"

enum { MO_ASSUMED_VERSIONS = 5 };

/* Of a version from 0 (fastest alone) to MO_ASSUMED_VERSIONS - 1, under a pressure from 0 to 1. */
double mo_assumed_time(int version, double pressure);
/* The fastest under a pressure, of `most` versions that lie evenly among all, the first and the last of them
 * included (1: the first alone; 0: all). */
int mo_assumed_choice(int most, double pressure);
/* The pressure at which the fastest version alone takes `times` its time, 1 to 7. */
double mo_assumed_pressure(double times);

/* The version that a block runs whose versions were chosen for a pressure: the choice at the level that
 * mo_profile_at() takes. */
int mo_assumed_version(int most, double pressure);
/* Gives every layer of a finished profile without levels these versions.  MOIRE_OK or MOIRE_ENOMEM. */
int mo_profile_assume_versions(struct mo_profile *profile, int most);
#endif
