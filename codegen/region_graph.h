/* SPDX-License-Identifier: Apache-2.0
 * region_graph.h - a graph of layers of a region's body, once the shapes of what it is given are known. */
#ifndef MO_REGION_GRAPH_H
#define MO_REGION_GRAPH_H
#include "runtime/plan/plan.h"

/* For mo_plan_options.shaped. */
mo_plan_shaped_fn mo_region_graph;
#endif
