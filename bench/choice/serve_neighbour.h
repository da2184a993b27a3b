/* SPDX-License-Identifier: Apache-2.0
 * serve_neighbour.h - the neighbour of `moire stress` beside runners of this command: asleep, at a level, or
 * going through several levels while they serve.
 *
 * Its walkers have the cores that the runtime leaves.  Where it leaves none they share its cores: every
 * millisecond each overwrites a part of the private cache and sleeps again (codegen/tune/stress.h). */
#ifndef MO_BENCH_SERVE_NEIGHBOUR_H
#define MO_BENCH_SERVE_NEIGHBOUR_H
#include <jansson.h>
#include "codegen/tune/stress.h"

/* How long it stays at a level while it changes: many blocks, and a small part of a turn. */
enum { MO_NEIGHBOUR_STAY_MS = 200 };

struct mo_bench_neighbour;
/* Beside a runtime on the first `cores` cores; asleep at first.  MOIRE_ENOMEM, MOIRE_EIO. */
int mo_bench_neighbour_open(const struct mo_env *env, int cores, struct mo_bench_neighbour **out,
                            moire_error *err);
void mo_bench_neighbour_close(struct mo_bench_neighbour *neighbour); /* NULL is fine */

/* Keeps to one level, 0 = asleep. */
void mo_bench_neighbour_keep(struct mo_bench_neighbour *neighbour, int level);
/* Goes through the levels in turn until it is told to keep one; 1 to MO_STRESS_LEVELS of them.  MOIRE_EIO. */
int mo_bench_neighbour_change(struct mo_bench_neighbour *neighbour, const int *level, int n,
                              moire_error *err);
/* {"kind", "threads", "same_core", "change_ms", "levels": [{"level", "gbs", "victim_slowdown"}]}: what each
 * of n levels moves and does to a victim on the first core, measured now (some 50 ms each).  NULL: out of
 * memory, or no thread for the victim. */
json_t *mo_bench_neighbour_about(struct mo_bench_neighbour *neighbour, const int *level, int n);
#endif
