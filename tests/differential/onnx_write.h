/* SPDX-License-Identifier: Apache-2.0
 * onnx_write.h - a graph, or a part of one, as the bytes of an ONNX file. */
#ifndef MO_DT_ONNX_WRITE_H
#define MO_DT_ONNX_WRITE_H
#include "runtime/graph/graph.h"

/* A part is a set of nodes and the tensors that are its outputs.  What its nodes read and none of them makes
 * becomes an input, in the order of the tensors; constants go along. */
struct dt_part {
    const struct mo_graph *g;
    const bool *keep; /* of every node; NULL = all */
    int n_outputs;
    const int *outputs;
};

/* Bytes that live as long as the region. */
const uint8_t *dt_write_onnx(const struct dt_part *part, struct mo_region *region, size_t *n);
#endif
