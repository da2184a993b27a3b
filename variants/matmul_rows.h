/* SPDX-License-Identifier: Apache-2.0
 * matmul_rows.h - how the rows of a matrix product with constant weights lie in memory.
 *
 * Left operand, result and residual are plain; leading dimensions count as rows.  Each of the three may be a
 * slice of a larger tensor, whose images (outermost index) then lie further apart than their own size.
 *   no slice                   one image of all rows, rows follow each other
 *   slices, one row an image   one image of all rows, `x_row` and `y_row` are the strides of the images
 *   slices, more rows          as many images as the tensors have; these lie apart by mo_kargs.in_image,
 *                              .out_image and .residual_image
 * Everything that walks such a layer takes these numbers from here: the built-in kernel, the signature of
 * stored kernels (so that no kernel made for other strides is found) and the generator. */
#ifndef MO_PRODUCT_H
#define MO_PRODUCT_H
#include "variants/kernel.h"

struct mo_product {
    int64_t images, rows; /* rows of one image */
    int64_t x_row, y_row; /* floats from row to row, of the left operand and of the result */
    int64_t residual_row; /* the same of the residual; y_row when there is none */
    bool sliced;          /* images: they lie apart by more than their size */
};

/* All images of t follow each other without gaps. */
bool mo_dense(const struct mo_graph *graph, const struct mo_tensor *t);
/* Whether the constant right operand of such a node is kept as float16 where its numbers allow that: where
 * the graph says so, and for few rows, whose product waits for memory, if nothing is to be rounded. */
bool mo_product_is_float16(const struct mo_graph *graph, const struct mo_node *node);
/* Of a Gemm or MatMul whose left operand (rank 1 and more, not transposed), result and residual are floats of
 * known shape, the last two of one shape.  False: the shapes do not make a product. */
bool mo_product_of(const struct mo_graph *graph, const struct mo_node *node, struct mo_product *out);
#endif
