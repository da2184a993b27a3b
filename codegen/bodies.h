/* SPDX-License-Identifier: Apache-2.0
 * bodies.h - inference of the bodies of If, Loop and Scan, within that of the graph around them. */
#ifndef MO_BODIES_H
#define MO_BODIES_H
#include "codegen/frontend.h"

/* What folding may still take, for a graph and its bodies together. */
struct mo_fold_budget {
    int64_t steps, bytes;
};

/* Types and shapes of all tensors of the bodies and of the node's outputs; what cannot be known is dynamic.
 * The node's inputs have theirs. */
int mo_infer_bodies(struct mo_graph *g, struct mo_node *node, struct mo_fold_budget *budget,
                    moire_error *err);
/* The passes of all bodies of a graph, nested ones too, after its own. */
int mo_prepare_bodies(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err);
/* Trips of a Loop that has been inferred, where they are known: a constant number, and a condition that stays
 * true.  Else -1. */
int64_t mo_known_trips(const struct mo_graph *g, const struct mo_node *node, const struct mo_graph *body);
/* inline.c: bodies of which it is known how often they run become part of the graph, in bodies, too.  Sets
 * *any where there are some: then all is to be inferred again. */
int mo_inline_bodies(struct mo_graph *g, bool *any, moire_error *err);
/* infer.c: of one graph. */
int mo_infer_within(struct mo_graph *g, struct mo_fold_budget *budget, moire_error *err);
#endif
