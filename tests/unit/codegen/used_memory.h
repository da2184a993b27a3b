/* SPDX-License-Identifier: Apache-2.0
 * used_memory.h - a plan run in an arena and scratch that others have used, as in a runtime of many tenants.
 *
 * It runs once for each of two fillings, and a third time with its activations spilled before each layer
 * (runtime/plan/live.h); all answers must have the same bits: an answer depends on its inputs only.  Under
 * MemorySanitizer the memory counts as never written instead, so that also a byte that is read and makes no
 * difference is found. */
#ifndef MO_USED_MEMORY_H
#define MO_USED_MEMORY_H
#include "runtime/plan/plan.h"

/* Outputs belong to the caller, who gives them back with mo_way_free(). */
int run_in_used_memory(const struct mo_plan *plan, const moire_tensor *inputs, int n_inputs,
                       moire_tensor *outputs, moire_error *err);
/* The same from a graph, which it takes ownership of in every case. */
int run_graph_in_used_memory(struct mo_graph *graph, const struct mo_plan_options *options,
                             const moire_tensor *inputs, int n_inputs, moire_tensor *outputs,
                             moire_error *err);
#endif
