/* SPDX-License-Identifier: Apache-2.0
 * describe.h - layers in words, for inspect, profiles and traces; only text of our own, no byte of the model.
 */
#ifndef MO_PLAN_DESCRIBE_H
#define MO_PLAN_DESCRIBE_H
#include "runtime/plan/plan.h"

/* "Conv 3x3/2 g32 +relu +add" into out. */
void mo_layer_text(const struct mo_graph *g, const struct mo_node *node, char *out, size_t n);
/* Name of an activation, "relu"; "" for none. */
const char *mo_act_text(enum mo_act act);
/* Multiply-adds of a step; 0 for layers that have none. */
int64_t mo_step_macs(const struct mo_step *step);
#endif
