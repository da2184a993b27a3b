/* SPDX-License-Identifier: Apache-2.0
 * packed.h - memory for packed weights: new, found ready in a compiled model, or shared with other plans of
 * the same model.
 *
 * A binder that packs weights asks here for their memory.  While a plan is built from plain weights, the
 * places it gets can be recorded (for the writer of compiled models, runtime/plan/image.h); while one is
 * built from a compiled model, the same calls in the same order get the same places, filled.  A place that
 * the model does not have, because this library binds another kernel, is reported when the plan is complete.
 *
 * Plans of one model at several shapes share their packed weights (variants/packed_shared.h).  From the
 * second on the plain weights are elided; what is not there packed is then *lacking*, and the layer needs
 * another kernel or the model its file. */
#ifndef MO_PACKED_H
#define MO_PACKED_H
#include "runtime/graph/graph.h"
#include "variants/packed_shared.h"

struct mo_packed_place {
    int node, turn; /* the turn-th request of a node */
    int packing;    /* enum mo_packing, or a form of the below */
    int64_t bytes;
    void *data;
};

struct mo_packed_places {
    bool ready; /* places come from a compiled model and are complete */
    const void
        *elided; /* what plain weights that exist only packed point to; never read; NULL: there are none */
    struct mo_weights *weights; /* shared with other plans; else NULL */
    bool lacks;                 /* the latest request was for weights that are not there and are elided */
    bool lacked;                /* one request was */
    bool obtainable;            /* elided ones can be had: a plan that lacked any is made again with them */
    int n, cap;                 /* places, in order of node and turn */
    struct mo_packed_place *place;
    int node, turn; /* of the latest request */
};

/* Forms of packed weights beside enum mo_packing.  Of recurrences: [direction][gate][hidden/16][hidden][16].
 */
enum { MO_FORM_DECONV = 1000, MO_FORM_RECURRENT };
/* Memory for `bytes` of packed weights of a node, which are made of its input 1 by `packing` (or a form of
 * the above), its attributes and nothing else; 64-byte aligned.  *filled: the contents are there and must not
 * be written.  Otherwise zeroed memory, for the caller to fill; NULL: out of memory, or mo_packed_lacks(). */
void *mo_packed_take(const struct mo_graph *graph, const struct mo_node *node, struct mo_region *region,
                     int packing, size_t bytes, bool *filled);
/* Whether mo_packed_take() would not lack them; or the plan could then be made again. */
bool mo_packed_has(const struct mo_graph *graph, const struct mo_node *node, int packing, int64_t bytes);
/* Only the first of that. */
bool mo_packed_is_here(const struct mo_graph *graph, const struct mo_node *node, int packing, int64_t bytes);
/* A compiled model has weights of the node in this form. */
bool mo_packed_is_ready(const struct mo_graph *graph, const struct mo_node *node, int packing);
/* Of a request that got NULL: MOIRE_EUNSUPPORTED where the weights are elided; else MOIRE_ENOMEM. */
int mo_packed_fault(const struct mo_graph *graph, const struct mo_node *node, moire_error *err);
/* The contents of these plain weights are not to be read. */
bool mo_packed_elided(const struct mo_graph *graph, const struct mo_tensor *t);
/* Bytes of the shared ones that its layers have. */
int64_t mo_packed_shared(const struct mo_graph *graph);
/* Gives shared ones back: the plan is gone. */
void mo_packed_leave(const struct mo_graph *graph);
/* Forgets a recorded place: its memory is given back. */
void mo_packed_drop(const struct mo_graph *graph, const void *weights);
/* The place that these weights are; NULL: none. */
const struct mo_packed_place *mo_packed_find(const struct mo_packed_places *packed, const void *weights);
/* Whether a compiled model was asked for a place that it does not have. */
bool mo_packed_is_absent(const void *weights);
#endif
