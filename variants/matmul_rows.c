/* SPDX-License-Identifier: Apache-2.0
 * matmul_rows.c - see matmul_rows.h. */
#include "variants/matmul_rows.h"

bool mo_dense(const struct mo_graph *graph, const struct mo_tensor *t) {
    return t->data || mo_alias_is_dense(graph, t->id);
}

/* Floats from one row to the next when every image is one row. */
static int64_t image_row(const struct mo_graph *graph, const struct mo_tensor *t) {
    return (mo_dense(graph, t) ? mo_tensor_image_bytes(t) : mo_alias_stride(graph, t->id)) /
           (int64_t)sizeof(float);
}

bool mo_product_of(const struct mo_graph *graph, const struct mo_node *node, struct mo_product *p) {
    const struct mo_tensor *x = mo_node_in(graph, node, 0);
    const struct mo_tensor *y = mo_node_out(graph, node, 0);
    const struct mo_tensor *residual = mo_node_in(graph, node, node->fuse.residual);
    if (!x || !y || x->shape.rank < 1 || y->shape.rank != x->shape.rank) return false;
    if (residual && !mo_shape_equal(&residual->shape, &y->shape)) return false;
    int64_t images = x->shape.rank > 1 ? x->shape.d[0] : 1;
    int64_t k = x->shape.d[x->shape.rank - 1], n = y->shape.d[y->shape.rank - 1];
    if (images < 1 || k < 1 || n < 1) return false;
    int64_t rows = mo_shape_count(&x->shape) / k;
    if (mo_shape_count(&y->shape) / n != rows || (y->shape.rank > 1 && y->shape.d[0] != images)) return false;
    *p = (struct mo_product){.images = 1, .rows = rows, .x_row = k, .y_row = n, .residual_row = n};
    if (mo_dense(graph, x) && mo_dense(graph, y) && (!residual || mo_dense(graph, residual))) return true;
    if (rows > images) {
        p->images = images;
        p->rows = rows / images;
        p->sliced = true;
        return true;
    }
    p->x_row = image_row(graph, x);
    p->y_row = image_row(graph, y);
    p->residual_row = residual ? image_row(graph, residual) : p->y_row;
    return true;
}

bool mo_product_is_float16(const struct mo_graph *graph, const struct mo_node *node) {
    enum { FEW_ROWS = 32 };
    const struct mo_tensor *b = mo_node_in(graph, node, 1), *y = mo_node_out(graph, node, 0);
    if (!graph->float16 || !b || b->dtype != MOIRE_F32 || !b->data || b->shape.rank != 2 || !y ||
        y->shape.rank < 1)
        return false;
    const int64_t n = y->shape.d[y->shape.rank - 1];
    return graph->float16 == MO_FLOAT16_ROUNDED || (n > 0 && mo_shape_count(&y->shape) / n <= FEW_ROWS);
}
