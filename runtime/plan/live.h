/* SPDX-License-Identifier: Apache-2.0
 * live.h - what of a query's activations lives between two of its layers, and how it is kept without the
 * arena.
 *
 * An arena is as large as the widest place of a model.  Between two layers only those tensors count that a
 * later layer reads, or that are outputs: as a rule a small part.  Tensors that share bytes (views, slices of
 * a concat) live together, from their first producer to their last reader. */
#ifndef MO_LIVE_H
#define MO_LIVE_H
#include "runtime/plan/plan.h"

struct mo_live;
/* Lives as long as the plan; freed with mo_live_destroy().  MOIRE_ENOMEM. */
int mo_live_create(const struct mo_plan *plan, struct mo_live **out, moire_error *err);
void mo_live_destroy(struct mo_live *live); /* NULL is fine */

/* Bytes that live before layer `next`, when all layers below it have run; 0 <= next <= n_steps.  Known: it is
 * asked under locks. */
size_t mo_live_bytes(const struct mo_live *live, int next);
/* Copies them out of an arena and into one; `kept` has room for mo_live_bytes(). */
void mo_live_save(const struct mo_live *live, int next, const char *arena, char *kept);
void mo_live_restore(const struct mo_live *live, int next, char *arena, const char *kept);
#endif
