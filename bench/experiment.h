/* SPDX-License-Identifier: Apache-2.0
 * experiment.h - the block that every result carries: machine, build, command, load of the machine. */
#ifndef MO_BENCH_EXPERIMENT_H
#define MO_BENCH_EXPERIMENT_H
#include <jansson.h>

/* A new object; NULL when out of memory.  `command` is the command line as typed. */
json_t *mo_bench_experiment(const char *command, int cores);
#endif
