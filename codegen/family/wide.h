/* SPDX-License-Identifier: Apache-2.0
 * wide.h - points for many cores.
 *
 * A family lists its points by their time on one core.  The best of them have large units: what a unit makes
 * for itself (a transformed block of tiles, packed rows) is then made once for much work.  When a layer may
 * get more cores than such a point has units, the family adds the point of the same packing whose part for
 * the core with most to do takes least: both then run from one copy of the weights. */
#ifndef MO_WIDE_H
#define MO_WIDE_H
#include "codegen/family/family.h"

/* Units of the busiest core. */
static inline int64_t mo_wide_most(int64_t units, int cores) {
    return cores > 1 ? (units + cores - 1) / cores : units;
}

/* Whether points of a packing are listed and none of them feeds that many cores. */
static inline bool mo_wide_lacks(const struct mo_point *points, int n, enum mo_packing packing, int cores) {
    bool listed = false;
    for (int i = 0; i < n; i++) {
        if (points[i].packing != packing) continue;
        if (points[i].units >= cores) return false;
        listed = true;
    }
    return listed;
}

/* To compare points that so many cores share: a unit for each of them is worth a tenth, as it serves the
 * numbers between too. */
static inline double mo_wide_price(double part_ns, int64_t units, int cores) {
    return units < cores ? 1.1 * part_ns : part_ns;
}

/* Takes a point for many cores if its part is shorter than that of the best so far (part_ns 0: none yet). */
static inline void mo_wide_take(struct mo_point *best, const struct mo_point *point) {
    if (best->part_ns > 0 && best->part_ns <= point->part_ns) return;
    *best = *point;
    best->wide = true;
}
#endif
