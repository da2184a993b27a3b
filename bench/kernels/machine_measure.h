/* SPDX-License-Identifier: Apache-2.0
 * machine_measure.h - this machine's ceilings, and what its teams cost, as a file for bench/machines. */
#ifndef MO_BENCH_MACHINE_MEASURE_H
#define MO_BENCH_MACHINE_MEASURE_H
#include "bench/load/session.h"

/* Ceilings on 1, 2, 4, ... and all cores, in the form of bench/machines/README.md; a new object. */
int mo_bench_machine(struct mo_bench_session *session, json_t **out, moire_error *err);
#endif
