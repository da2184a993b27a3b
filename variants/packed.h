/* SPDX-License-Identifier: Apache-2.0
 * packed.h - memory for packed weights: new, or found ready in a compiled model.
 *
 * A binder that packs weights asks here for their memory.  While a plan is built from plain weights, the
 * places it gets can be recorded (for the writer of compiled models, runtime/plan/image.h); while one is
 * built from a compiled model, the same calls in the same order get the same places, filled.  A place that
 * the model does not have, because this library binds another kernel, is reported when the plan is complete.
 */
#ifndef MO_PACKED_H
#define MO_PACKED_H
#include "runtime/graph/graph.h"

struct mo_packed_place {
    int node, turn; /* the turn-th request of a node */
    int64_t bytes;
    void *data;
};

struct mo_packed_places {
    bool ready;         /* places come from a compiled model and are complete */
    const void *elided; /* when ready: what plain weights that exist only packed point to; never read */
    int n, cap;         /* places, in order of node and turn */
    struct mo_packed_place *place;
    int node, turn; /* of the latest request */
};

/* Memory for `bytes` of packed weights of a node, 64-byte aligned.  *filled: the contents are there and must
 * not be written.  Otherwise zeroed memory of the region, for the caller to fill; NULL: out of memory. */
void *mo_packed_take(const struct mo_graph *graph, const struct mo_node *node, struct mo_region *region,
                     size_t bytes, bool *filled);
/* Forgets a recorded place: its memory is given back. */
void mo_packed_drop(const struct mo_graph *graph, const void *weights);
/* The place that these weights are; NULL: none. */
const struct mo_packed_place *mo_packed_find(const struct mo_packed_places *packed, const void *weights);
/* Whether a compiled model was asked for a place that it does not have. */
bool mo_packed_is_absent(const void *weights);
#endif
