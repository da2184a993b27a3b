/* SPDX-License-Identifier: Apache-2.0
 * prepare.h - the steps between import and passes: bind the input shapes, widen half precision, infer all
 * other shapes, fold constants. */
#ifndef MO_PREPARE_H
#define MO_PREPARE_H
#include "codegen/frontend.h"
#include "codegen/import/import.h"

/* bind_shapes.c: gives every graph input a static shape from options, symbols and the default batch. */
int mo_bind_shapes(struct mo_graph *g, const struct mo_symbols *symbols,
                   const struct mo_frontend_options *options, moire_error *err);
/* old_broadcast.c: operands of a node that met by an attribute before opset 7 meet as today.  Their shapes
 * are known, or it is MOIRE_EUNSUPPORTED.  *added: the graph has another node, at its end. */
int mo_align_broadcast(struct mo_graph *g, struct mo_node *node, bool *added, moire_error *err);
/* half.c: graphs whose products read float16 or bfloat16 compute in float32; g->n_halves counts constants. */
int mo_widen_halves(struct mo_graph *g, moire_error *err);
/* fold_work.c: steps that computing a node takes, from above, where they are more than a few an element; else
 * 0. Boxes need the shapes of inputs only, all others those of outputs, too. */
int64_t mo_fold_steps(const struct mo_graph *g, const struct mo_node *node);
/* frontend.c: all that comes after shapes are bound, and the checks at its end. */
int mo_prepare(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err);
/* infer.c: types and shapes of all tensors; nodes with constant inputs are computed and removed. */
int mo_infer_and_fold(struct mo_graph *g, moire_error *err);
#endif
