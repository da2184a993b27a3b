/* SPDX-License-Identifier: Apache-2.0
 * copy.h - copies of graphs, whole or without what passes have left behind. */
#ifndef MO_GRAPH_COPY_H
#define MO_GRAPH_COPY_H
#include "runtime/graph/graph.h"

/* Where a copy lies.  Deep ones have texts and lists of their own, others point to those of the original. */
struct mo_copier {
    struct mo_graph *to;
    bool deep, failed;
};

/* A copy of `from` in the copier's graph, of these bytes; NULL stays NULL. */
void *mo_copy_bytes(struct mo_copier *copier, const void *from, size_t bytes);
const char *mo_copy_text(struct mo_copier *copier, const char *text);

/* A copy whose tensors point to the contents of `from`, which are marked as shared.  NULL: out of memory. */
struct mo_graph *mo_graph_copy(const struct mo_graph *from, bool deep);
/* Contents of bodies in a copy that still lie in the memory of `from` go to that of `to`.  False: out of
 * memory.
 */
bool mo_graph_take_bodies(struct mo_graph *to, struct mo_graph *from);
/* Replaces a graph by one that has what its living nodes and its ports need, and nothing else: passes leave
 * most tensors and nodes of a large model behind.  Tensors get new numbers in the same order; contents in
 * the graph's memory move with it; `packed` is the caller's to set again.  Graphs with texts stay as they
 * are. Returns: MOIRE_OK; MOIRE_ENOMEM: the graph is good for nothing but mo_graph_destroy(). */
int mo_graph_squeeze(struct mo_graph **graph, moire_error *err);
#endif
