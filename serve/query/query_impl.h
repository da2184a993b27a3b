/* SPDX-License-Identifier: Apache-2.0
 * query_impl.h - inside infer_query: a query's tensors in shared memory. */
#ifndef MS_QUERY_IMPL_H
#define MS_QUERY_IMPL_H
#include "serve/query/infer_query.h"
#include "serve/query/regions.h"

/* Fills inputs that lie in regions; takes the regions of outputs.  Returns: the code of q->error. */
int ms_query_load_regions(struct ms_query *q);
int ms_query_take_regions(struct ms_query *q);
/* Copies outputs to their regions; q->error says what went wrong. */
void ms_query_store_regions(struct ms_query *q);
/* Gives back what was taken; the model is still held. */
void ms_query_give_regions(struct ms_query *q);
#endif
