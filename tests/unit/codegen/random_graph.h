/* SPDX-License-Identifier: Apache-2.0
 * random_graph.h - random convolutional graphs from a seed, for tests that compare ways of running a model.
 */
#ifndef MO_TEST_RANDOM_GRAPH_H
#define MO_TEST_RANDOM_GRAPH_H
#include "runtime/graph/graph.h"

/* The same seed gives the same graph: one input "x" of 4 dimensions, one to three outputs, shapes inferred.
 */
struct mo_graph *random_graph(const struct mo_env *env, uint64_t seed);
/* A random tensor for input 0, in the graph's region. */
moire_tensor random_input(struct mo_graph *g, uint64_t seed);
#endif
