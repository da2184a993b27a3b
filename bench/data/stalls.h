/* SPDX-License-Identifier: Apache-2.0
 * stalls.h - a shared machine: cores that stand still now and then, and seconds in which all are slow.
 *
 * Stalls of a core come at random at a mean rate and last a random time between two bounds.  Slow times of
 * the whole machine come in turns with fast ones, each of a random length with the exponential distribution.
 * Drawn as what the simulator takes (runtime/sim/pace.h), in steps of 1 ms. */
#ifndef MO_BENCH_STALLS_H
#define MO_BENCH_STALLS_H
#include <stdbool.h>
#include "runtime/base/env.h"
#include "runtime/sim/pace.h"

struct mo_bench_stalls {
    double a_second; /* of each core; 0 = none */
    double least_ns, most_ns;
    double slow; /* times its time that everything takes in slow times; 0 = there are none */
    double fast_for_ns, slow_for_ns; /* mean lengths */
};

/* "RATE:MS" or "RATE:MS-MS": stalls of each core a second, and how long they last: "2:10-50". */
bool mo_bench_stalls_parse(const char *text, struct mo_bench_stalls *out);
/* "FACTOR:FAST:SLOW": slow times, and mean seconds of fast and slow ones: "2:1:0.5". */
bool mo_bench_slow_parse(const char *text, struct mo_bench_stalls *out);
static inline bool mo_bench_stalls_any(const struct mo_bench_stalls *s) {
    return s->a_second > 0 || s->slow > 0;
}
/* The machine's speed for that long.  MOIRE_OK, and out->done is freed by mo_free(); MOIRE_ENOMEM. */
int mo_bench_stalls_draw(const struct mo_env *env, const struct mo_bench_stalls *stalls, int n_cores,
                         int64_t length_ns, uint64_t seed, struct mo_sim_pace *out, moire_error *err);
#endif
