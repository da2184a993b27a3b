/* SPDX-License-Identifier: Apache-2.0
 * footprint.h - what of the memory of the runner's own process a model takes. */
#ifndef MO_BENCH_FOOTPRINT_H
#define MO_BENCH_FOOTPRINT_H
#include <jansson.h>
#include <stdio.h>
#include "runtime/serve/parts.h"

/* Resident MiB of the mappings, in the text of /proc/PID/smaps, that hold any of n addresses; each counts
 * once. */
double mo_resident_of(FILE *smaps, const void *const *at, int n);

/* Of a loaded model, MiB:
 *   weights_mib           packed weights and constants: its compiled model, or what was packed at load
 *   weights_resident_mib  of the compiled model, now (other processes may share them); -1: not mapped
 *   code_resident_mib     pages of compiled kernels (models may share them)
 *   activations_mib, inputs_mib  of one query under way
 *   queries               most that can hold such activations at once
 * NULL: out of memory. */
json_t *mo_bench_footprint(const moire_tenant *tenant);
#endif
