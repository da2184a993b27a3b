/* SPDX-License-Identifier: Apache-2.0
 * loads.h - the models and the grid of loads on which gpu-let (ATC 2022) compares planners: five models, each
 * asked 0, 200, 400 or 600 times a second, in all 1,023 combinations that ask at all. */
#ifndef MO_BENCH_LOADS_H
#define MO_BENCH_LOADS_H
#include <stdint.h>

enum { MO_LOADS_MODELS = 5, MO_LOADS_GRID = 1023 };

struct mo_loads_model {
    const char *name; /* zoo name, and that of the profile */
    int64_t target_ns;
};

/* By name, as in the paper's table 4. */
extern const struct mo_loads_model mo_loads_models[MO_LOADS_MODELS];

/* Queries a second of load 0 <= index < MO_LOADS_GRID: the digits of index + 1 to base 4, the last model the
 * lowest digit, times 200. */
void mo_loads_rates(int index, double rate[MO_LOADS_MODELS]);
#endif
