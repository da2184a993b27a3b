/* SPDX-License-Identifier: Apache-2.0
 * simulate_bed.h - a folder with a machine, two profiles and a scenario, and options to simulate them. */
#ifndef SIMULATE_BED_H
#define SIMULATE_BED_H
#include "bench/sim/simulate.h"

struct simulate_bed {
    struct mo_env env;
    char folder[64], machine[128], scenario[128];
};

#define ONE_CORE "{\"name\": \"m\", \"cores\": 1, \"profiles\": \".\"}"
#define FOUR_CORES                                                                                           \
    "{\"name\": \"m\", \"cores\": 4, \"profiles\": \".\", \"block_us\": 2, \"noise\": 0.1, \"corun\": 0.05}"
#define ONE_TENANT "{\"name\": \"s\", \"qos\": {\"ms\": 4}, \"tenants\": [{\"model\": \"a\"}]}"
#define TWO_TENANTS                                                                                          \
    "{\"name\": \"s\", \"qos\": {\"times_solo\": 4}, \"tenants\": [{\"model\": \"a\"}, {\"model\": "         \
    "\"x/b.onnx\"}]}"

/* Writes both texts and the profiles of models a (1 ms on one core, one layer) and b (0.5 and 0.4 ms). */
void simulate_bed_open(struct simulate_bed *p, const char *machine, const char *scenario);
/* Another file of the folder. */
void simulate_bed_put(const struct simulate_bed *p, const char *name, const char *text);
void simulate_bed_close(const struct simulate_bed *p);
struct mo_bench_simulate_options simulate_bed_options(const struct simulate_bed *p);
#endif
