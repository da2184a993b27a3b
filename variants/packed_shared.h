/* SPDX-License-Identifier: Apache-2.0
 * packed_shared.h - packed weights that the plans of one model share, whatever their shapes: each is made by
 * the plan that needs it first and goes with the last that has it.
 *
 * A packed weight is known by the number of its contents (runtime/graph/content.h) and of how it is packed.
 * Whoever takes one that is not there yet fills it before any other plan of the model is built: the caller
 * sees to that with a lock of its own.  Giving back may happen at any time. */
#ifndef MO_PACKED_SHARED_H
#define MO_PACKED_SHARED_H
#include "runtime/base/env.h"

struct mo_weights;
struct mo_weights *mo_weights_create(const struct mo_env *env); /* NULL: out of memory */
/* Nobody may have any of them.  NULL is fine. */
void mo_weights_destroy(struct mo_weights *weights);

/* How a weight is packed: numbers that only have to differ where the bytes may.  No padding. */
struct mo_weights_form {
    int64_t packing, bytes, group, turned;
    double scale;
};
/* What to do about one that nobody has.  Streamed ones are read once a query, and are many. */
enum mo_weights_make { MO_WEIGHTS_FIND, MO_WEIGHTS_MAKE, MO_WEIGHTS_STREAMED };
/* The packed weight, 64-byte aligned, for as long as the caller has it.  *filled: it is there; else it is
 * zeroed memory for the caller to fill, or NULL when it was to be found only or there is no memory. */
void *mo_weights_take(struct mo_weights *weights, uint64_t content, const struct mo_weights_form *form,
                      enum mo_weights_make make, bool *filled);
void mo_weights_give(struct mo_weights *weights, const void *packed);
/* Whether somebody has it in this form. */
bool mo_weights_has_form(struct mo_weights *weights, uint64_t content, const struct mo_weights_form *form);
/* Whether somebody has these contents, packed in any way. */
bool mo_weights_has(struct mo_weights *weights, uint64_t content);
/* Of all. */
int64_t mo_weights_bytes(struct mo_weights *weights);
#endif
