/* SPDX-License-Identifier: Apache-2.0
 * alias.c - tensors that live in the storage of others: views and slices of a concat. */
#include "runtime/graph/graph.h"

int mo_alias_root(const struct mo_graph *g, int tensor, int64_t *offset) {
    int64_t at = 0;
    for (int hops = 0; g->tensors[tensor]->alias >= 0 && hops < g->n_tensors; hops++) {
        at += g->tensors[tensor]->alias_offset;
        tensor = g->tensors[tensor]->alias;
    }
    if (offset) *offset = at;
    return tensor;
}

bool mo_alias_lies_at(const struct mo_graph *g, int part, int whole, int64_t offset) {
    int64_t a, b;
    return mo_alias_root(g, part, &a) == mo_alias_root(g, whole, &b) && a == b + offset;
}

/* A view has as many bytes as what it views, a slice has fewer; above a run there are no gaps. */
int64_t mo_alias_stride(const struct mo_graph *g, int tensor) {
    const struct mo_tensor *t = g->tensors[tensor];
    int64_t stride = mo_tensor_image_bytes(t);
    for (int hops = 0; t->alias >= 0 && !t->alias_run && hops < g->n_tensors; hops++) {
        const struct mo_tensor *parent = g->tensors[t->alias];
        if (mo_tensor_bytes(parent) != mo_tensor_bytes(t)) stride = mo_tensor_image_bytes(parent);
        t = parent;
    }
    return stride;
}

bool mo_alias_is_dense(const struct mo_graph *g, int tensor) {
    const struct mo_tensor *t = g->tensors[tensor];
    return t->shape.rank < 1 || t->shape.d[0] <= 1 || mo_alias_stride(g, tensor) == mo_tensor_image_bytes(t);
}
