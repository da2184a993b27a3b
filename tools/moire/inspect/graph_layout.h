/* SPDX-License-Identifier: Apache-2.0
 * graph_layout.h - where the boxes and edges of a drawn graph of layers lie.
 *
 * A box's row is its longest distance from an input; within a row, boxes are ordered by the place of
 * what they read in the row above.  An edge between neighbouring rows runs in the gap between them.  One that
 * passes rows runs in a lane: a vertical line beside the boxes of all rows that it passes, which only edges
 * from the same box share.  So no edge is drawn across a box. */
#ifndef MO_GRAPH_LAYOUT_H
#define MO_GRAPH_LAYOUT_H
#include "runtime/graph/graph.h"

enum { MO_BOX_W = 190, MO_BOX_H = 40, MO_BOX_GAP_X = 24, MO_BOX_GAP_Y = 34 };

/* A layer, or an input or output of the model. */
struct mo_graph_box {
    const struct mo_node *node;   /* NULL: a port */
    const struct mo_tensor *port; /* NULL: a layer */
    int row;
    double x; /* of its left side */
    double want;
};

struct mo_graph_edge {
    int from, to, tensor; /* boxes; what flows */
    double lane;          /* x, when it passes rows: to's row is at least two below from's */
};

struct mo_graph_layout {
    const struct mo_graph *graph;
    struct mo_graph_box *box; /* sources before those that read them */
    struct mo_graph_edge *edge;
    int n, n_edges, rows;
    double width; /* everything lies in [0, width) */
};

/* Lays out a graph in memory of the region.  False: out of memory. */
bool mo_graph_lay_out(const struct mo_graph *graph, struct mo_region *region, struct mo_graph_layout *out);
/* The edge passes rows. */
bool mo_edge_passes(const struct mo_graph_layout *layout, const struct mo_graph_edge *edge);
/* Upper side of a row's boxes, from the first row's. */
double mo_row_top(int row);
#endif
