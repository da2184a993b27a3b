/* SPDX-License-Identifier: Apache-2.0
 * cost.h - nominal work of a node, from its shapes alone. */
#ifndef MO_COST_H
#define MO_COST_H
#include "runtime/graph/graph.h"

/* Operations, a multiply-add being two, and the least number of bytes read and written.  Operators without
 * products take one operation an element of their results. */
void mo_plan_cost(const struct mo_graph *graph, const struct mo_node *node, int64_t *flops, int64_t *bytes);
/* An operator that multiplies and adds: its flops are twice its multiply-adds. */
bool mo_plan_multiplies(const struct mo_node *node);
#endif
