/* SPDX-License-Identifier: Apache-2.0
 * passes.h - graph passes: each takes a valid graph (shapes inferred) and leaves a valid, equal one.
 *
 * A pass may leave dead nodes and a stale index behind; mo_run_passes() sorts, compacts and checks after
 * each.  Adding a pass = one file + one row in passes.c. */
#ifndef MO_PASSES_H
#define MO_PASSES_H
#include "codegen/frontend.h"

typedef int mo_pass_fn(struct mo_graph *g, moire_error *err);

/* All passes in order; layout passes last, skipped when options->no_layout. */
int mo_run_passes(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err);

/* Drops nodes that nobody reads, and absent trailing outputs of the others. */
mo_pass_fn mo_pass_dead;
#endif
