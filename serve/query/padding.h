/* SPDX-License-Identifier: Apache-2.0
 * padding.h - buckets: a dimension of a model's inputs is padded up to the next of a few sizes, and outputs
 * are cut again, so that few shapes serve any size.
 *
 * Only where the graph allows it: it is shown from operator to operator, for each shape that is padded to,
 * that every position is computed by itself (moire_model_positions_are_separate()).  A model whose graph does
 * not is not served with buckets: its answers would depend on the padding.  Padding repeats the last
 * position, so it has no value that the client has not given. */
#ifndef MS_PADDING_H
#define MS_PADDING_H
#include "serve/query/infer_query.h"

/* The loader's: makes the model ready for every bucket.  MOIRE_EUNSUPPORTED: the graph mixes positions. */
int ms_buckets_prepare(struct ms_model *model, moire_error *err);
/* The same without a repository, for the largest bucket; at most MS_PORTS inputs and outputs. */
int ms_buckets_check(const struct ms_settings *settings, const char *name, const moire_model *file,
                     moire_error *err);
/* Whether outputs of the shapes can be cut, into binding->output_axis.  MOIRE_OK: also where they are no
 * bucket's. */
int ms_binding_prove(const struct ms_model *model, struct ms_binding *binding, moire_error *err);

/* Pads the inputs of a query that is in order to the next bucket.  One that is larger than all, or a bucket's
 * size already, stays as it is.  Returns: the code of query->error; MOIRE_ENOMEM. */
int ms_query_pad(struct ms_query *query);
/* What the query's client asked for, of the outputs of a padded run; they lie in *memory, to be freed.
 * MOIRE_ESHAPE: an output has not as many positions as inputs had. */
int ms_query_cut(const struct ms_query *query, const moire_tensor *outputs, moire_tensor cut[MS_PORTS],
                 void **memory, moire_error *err);
#endif
