/* SPDX-License-Identifier: Apache-2.0
 * trial.h - inputs for the runs that only measure or compare: calibration, profiles, benchmarks, builds.
 *
 * No operator should fail on them: where an input reaches an operand that asks for more than a type and a
 * shape (a divisor, an index, a size, axes) it holds what that operand takes.  What arithmetic in the graph
 * makes of an input is not followed far, so a trial run may still fail: whoever makes one goes on without. */
#ifndef MO_TRIAL_H
#define MO_TRIAL_H
#include "runtime/graph/graph.h"

/* Fills graph input `input`, data of mo_tensor_bytes(): small positive numbers in floats (no denormals, and
 * no path of a kernel that zeros would make faster), ones in integers; then as mo_trial_repair(). */
void mo_trial_fill(const struct mo_graph *g, int input, void *data);
/* Random contents: floats in [-1, 1), integers in {0, 1}: valid token ids, masks and segment ids. */
void mo_trial_random(moire_tensor *tensor, uint64_t *state);
/* Changes of data that is there (finite numbers) what an operator would refuse. */
void mo_trial_repair(const struct mo_graph *g, int input, void *data);
#endif
