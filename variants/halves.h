/* SPDX-License-Identifier: Apache-2.0
 * halves.h - which layers read and write tensors of MO_C16_HALVES, where those about them do. */
#ifndef MO_HALVES_H
#define MO_HALVES_H
#include "runtime/graph/graph.h"

enum mo_halves {
    MO_HALVES_NONE,
    MO_HALVES_FREE,   /* image, residual and output may be, each by itself */
    MO_HALVES_BOTH,   /* image and output must be alike */
    MO_HALVES_READER, /* the image may be; the output is never */
};
/* Layouts are final but for this. */
enum mo_halves mo_matrix_halves(const struct mo_graph *graph, const struct mo_node *node);
enum mo_halves mo_pool_halves(const struct mo_graph *graph, const struct mo_node *node);
#endif
