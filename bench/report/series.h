/* SPDX-License-Identifier: Apache-2.0
 * series.h - how a system is drawn: by its name, so that it looks the same on every page.
 *
 * Policies, planners and peers that moire knows have a row each; no two rows look alike.  Other names get a
 * colour that follows from the name alone. */
#ifndef MO_BENCH_SERIES_H
#define MO_BENCH_SERIES_H
#include <stdbool.h>

struct mo_series {
    const char *colour; /* "#rrggbb", legible on light and dark pages */
    bool dashed;        /* a system beside moire, not a policy of it */
};

/* name: "moire/fcfs", "fcfs" or "ort-fcfs-all". */
struct mo_series mo_series_of(const char *name);
/* What the name says without moire's own prefix: "fcfs". */
const char *mo_series_policy(const char *name);
/* Limits for any scheduler and schedules that know the future: no policy that could run. */
bool mo_series_is_limit(const char *name);
/* Does it answer queries?  A bound counts them only, and its times mean nothing. */
bool mo_series_has_latency(const char *name);
#endif
