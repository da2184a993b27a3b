/* SPDX-License-Identifier: Apache-2.0
 * imported.h - a model as it was imported, before its shapes are bound: kept beside the first plan of the
 * model, so that plans for other shapes need neither the file nor its weights.
 *
 * Weights that only products, convolutions and recurrences read are *elided* here: they exist packed only, in
 * variants/packed_shared.h, and every tensor that is made of them by a pass has a number that tells what it
 * would hold (runtime/graph/content.h).  All other constants are here once, for all plans: graphs that were
 * bound point to them.
 *
 * A graph bound from here has elided weights, which no step may read.  Where one would (a kernel wants them
 * packed in a way that nobody has yet, a pass would fold them), binding or planning ends with MOIRE_ESTORE,
 * and the model is to be loaded from its file, sharing what is here: mo_frontend_load() with `share`. */
#ifndef MO_IMPORTED_H
#define MO_IMPORTED_H
#include "codegen/frontend.h"
#include "codegen/import/import.h"
#include "variants/packed.h"

/* Immutable once made; outlives all graphs that share it. */
struct mo_imported;
void mo_imported_destroy(struct mo_imported *imported); /* NULL is fine */
/* What it holds. */
int64_t mo_imported_bytes(const struct mo_imported *imported);
/* Its graph: ports, nodes and names of files with external data; weights are elided. */
const struct mo_graph *mo_imported_graph(const struct mo_imported *imported);

/* A graph of layers for these shapes, as mo_frontend_load() would make it.  `weights` as there.
 * Returns: as there; MOIRE_ESTORE: weights that are elided are needed. */
int mo_imported_bind(const struct mo_imported *imported, struct mo_weights *weights,
                     const struct mo_frontend_options *options, struct mo_graph **out, moire_error *err);

/* The steps of that, for whoever has a graph that is not a file's: numbers for the constants that are
 * weights; those of them that are large point to `elided` from now on; where packed weights are, and what
 * elided ones point to (NULL: none are elided). */
int mo_number_weights(struct mo_graph *g, moire_error *err);
void mo_elide_weights(struct mo_graph *g, const void *elided);
int mo_use_weights(struct mo_graph *g, struct mo_weights *weights, const void *elided, moire_error *err);

/* For the frontend: `g` was imported just now.  Makes share->imported where it is NULL; else lets `g` use its
 * constants, MOIRE_ESTORE when it is another model. */
int mo_imported_share(struct mo_frontend_share *share, struct mo_graph *g, const struct mo_symbols *symbols,
                      moire_error *err);
#endif
