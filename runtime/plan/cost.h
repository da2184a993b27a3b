/* SPDX-License-Identifier: Apache-2.0
 * cost.h - nominal work of a node, from its shapes alone. */
#ifndef MO_COST_H
#define MO_COST_H
#include "runtime/graph/graph.h"

/* A product that stays below INT64_MAX whatever the shapes ask for. */
static inline int64_t mo_cost_times(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX / 4 : product;
}
/* Elements of a tensor; NULL and shapes that are not known have none. */
static inline int64_t mo_cost_elements(const struct mo_tensor *t) {
    int64_t n = t ? mo_shape_count(&t->shape) : 0;
    return n > 0 ? n : 0;
}

/* Operations, a multiply-add being two, and the least number of bytes read and written.  Operators without
 * products take one operation an element of their results. */
void mo_plan_cost(const struct mo_graph *graph, const struct mo_node *node, int64_t *flops, int64_t *bytes);
/* An operator that multiplies and adds: its flops are twice its multiply-adds. */
bool mo_plan_multiplies(const struct mo_node *node);
#endif
