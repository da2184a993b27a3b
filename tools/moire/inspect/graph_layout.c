/* SPDX-License-Identifier: Apache-2.0
 * graph_layout.c - see graph_layout.h. */
#include "tools/moire/inspect/graph_layout.h"

#include <math.h>
#include <stdlib.h>

static const double LANE = 10, BESIDE = 12; /* between lanes; between a lane and a box */

/* Work of one layout. */
struct work {
    struct mo_graph_layout *l;
    int *maker;                  /* of every tensor: the box that gives it, or -1 */
    struct mo_graph_box **order; /* boxes row by row */
    int *first;                  /* of every row: its place in order; one more behind the last */
    struct mo_graph_edge **turn; /* edges in the order in which they get lanes */
    struct span *taken;
};

/* What a lane must keep out of. */
struct span {
    double from, to;
};

/* --- boxes and edges ------------------------------------------------------------------------------------ */
static void add_edge(struct work *w, int from, int to, int tensor) {
    struct mo_graph_layout *l = w->l;
    for (int i = l->n_edges - 1; i >= 0 && l->edge[i].to == to; i--)
        if (l->edge[i].from == from) return;
    l->edge[l->n_edges++] = (struct mo_graph_edge){.from = from, .to = to, .tensor = tensor};
    if (l->box[from].row >= l->box[to].row) l->box[to].row = l->box[from].row + 1;
}

static int add_box(struct work *w, const struct mo_node *node, const struct mo_tensor *port) {
    struct mo_graph_layout *l = w->l;
    int at = l->n++, n = node ? node->n_in : port != NULL;
    l->box[at] = (struct mo_graph_box){.node = node, .port = port};
    for (int k = 0; k < n; k++) {
        int id = node ? node->in[k] : port->id, from = id < 0 ? -1 : w->maker[id];
        if (from >= 0) add_edge(w, from, at, id);
    }
    if (l->box[at].row >= l->rows) l->rows = l->box[at].row + 1;
    return at;
}

static void add_boxes(struct work *w) {
    const struct mo_graph *g = w->l->graph;
    for (int i = 0; i < g->n_tensors; i++)
        w->maker[i] = -1;
    for (int i = 0; i < g->n_inputs; i++)
        w->maker[g->inputs[i]] = add_box(w, NULL, g->tensors[g->inputs[i]]);
    for (int i = 0; i < g->n_nodes; i++) {
        int at = add_box(w, g->nodes[i], NULL);
        for (int k = 0; k < g->nodes[i]->n_out; k++)
            if (g->nodes[i]->out[k] >= 0) w->maker[g->nodes[i]->out[k]] = at;
    }
    for (int i = 0; i < g->n_outputs; i++)
        add_box(w, NULL, g->tensors[g->outputs[i]]);
}

bool mo_edge_passes(const struct mo_graph_layout *l, const struct mo_graph_edge *e) {
    return l->box[e->to].row > l->box[e->from].row + 1;
}

/* --- rows ----------------------------------------------------------------------------------------------- */
static int by_want(const void *a, const void *b) {
    const struct mo_graph_box *x = *(struct mo_graph_box *const *)a, *y = *(struct mo_graph_box *const *)b;
    if (x->want != y->want) return x->want < y->want ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int by_row(const void *a, const void *b) {
    const struct mo_graph_box *x = *(struct mo_graph_box *const *)a, *y = *(struct mo_graph_box *const *)b;
    if (x->row != y->row) return x->row - y->row;
    return x < y ? -1 : x > y;
}

/* Where a box would like to be: below the only one that it reads in the row above, so that a chain stays
 * straight whatever joins it from afar; else at the mean of all that it reads; `otherwise` when it reads
 * nothing. */
static double place_of(const struct mo_graph_layout *l, int box, int edges, double otherwise) {
    double all = 0, near = 0;
    int n = 0, above = 0;
    for (int i = edges; i < l->n_edges && l->edge[i].to == box; i++, n++) {
        double x = l->box[l->edge[i].from].x;
        all += x;
        if (mo_edge_passes(l, &l->edge[i])) continue;
        near = x;
        above++;
    }
    return above == 1 ? near : n ? all / n : otherwise;
}

/* Each box as near to where it would like to be as its neighbours allow.  first_edge: of every box. */
static void place_row(const struct work *w, struct mo_graph_box **row, int n, const int *first_edge) {
    const double step = MO_BOX_W + MO_BOX_GAP_X;
    double at = 0, drift = 0;
    for (int i = 0; i < n; i++) {
        int box = (int)(row[i] - w->l->box);
        row[i]->want = place_of(w->l, box, first_edge[box], i * step);
    }
    qsort(row, (size_t)n, sizeof *row, by_want);
    for (int i = 0; i < n; i++) {
        row[i]->x = i && row[i]->want < at ? at : row[i]->want;
        at = row[i]->x + step;
        drift += row[i]->x - row[i]->want;
    }
    for (int i = 0; i < n; i++)
        row[i]->x -= drift / n; /* back to the middle */
}

static void place_rows(struct work *w, int *first_edge) {
    struct mo_graph_layout *l = w->l;
    for (int i = 0, e = 0; i < l->n; i++) {
        first_edge[i] = e;
        while (e < l->n_edges && l->edge[e].to == i)
            e++;
        w->order[i] = &l->box[i];
    }
    qsort(w->order, (size_t)l->n, sizeof *w->order, by_row);
    for (int row = 0, i = 0; row < l->rows; row++) {
        w->first[row] = i;
        while (i < l->n && w->order[i]->row == row)
            i++;
        w->first[row + 1] = i;
        place_row(w, w->order + w->first[row], i - w->first[row], first_edge);
    }
}

/* --- lanes ---------------------------------------------------------------------------------------------- */
static int length_of(const struct mo_graph_layout *l, const struct mo_graph_edge *e) {
    return l->box[e->to].row - l->box[e->from].row;
}

static int by_place(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* The free place nearest to `wish`, between sorted spans; right of it when both sides are as near. */
static double free_near(const struct span *taken, int n, double wish) {
    double best = INFINITY, end = -INFINITY;
    for (int i = 0; i <= n; i++) {
        double next = i < n ? taken[i].from : INFINITY;
        if (end <= next) { /* free from end to next */
            double x = wish < end ? end : wish > next ? next : wish;
            if (fabs(x - wish) <= fabs(best - wish)) best = x;
        }
        if (i < n && taken[i].to > end) end = taken[i].to;
    }
    return best;
}

/* What lies in the rows that the edge passes: boxes, and lanes of edges from elsewhere that had their turn.
 */
static int collect(const struct work *w, int turn) {
    const struct mo_graph_layout *l = w->l;
    const struct mo_graph_edge *e = w->turn[turn];
    int top = l->box[e->from].row, bottom = l->box[e->to].row, n = 0;
    for (int i = w->first[top + 1]; i < w->first[bottom]; i++)
        w->taken[n++] = (struct span){w->order[i]->x - BESIDE, w->order[i]->x + MO_BOX_W + BESIDE};
    for (int i = 0; i < turn; i++) {
        const struct mo_graph_edge *o = w->turn[i];
        if (o->from != e->from && l->box[o->from].row < bottom && l->box[o->to].row > top)
            w->taken[n++] = (struct span){o->lane - LANE, o->lane + LANE};
    }
    qsort(w->taken, (size_t)n, sizeof *w->taken, by_place);
    return n;
}

/* In the lane of another edge from there, or straight down from its source, or straight down to its reader,
 * and when none of that is free as near to both as it can. */
static double choose_lane(const struct work *w, int turn) {
    const struct mo_graph_edge *e = w->turn[turn];
    double from = w->l->box[e->from].x + MO_BOX_W / 2.0, to = w->l->box[e->to].x + MO_BOX_W / 2.0;
    int n = collect(w, turn);
    for (int i = turn - 1; i >= 0; i--)
        if (w->turn[i]->from == e->from && free_near(w->taken, n, w->turn[i]->lane) == w->turn[i]->lane)
            return w->turn[i]->lane;
    if (free_near(w->taken, n, from) == from) return from;
    if (free_near(w->taken, n, to) == to) return to;
    return free_near(w->taken, n, (from + to) / 2);
}

/* Short edges choose first, and so lie nearest to the boxes. */
static void choose_lanes(struct work *w) {
    struct mo_graph_layout *l = w->l;
    int turns = 0;
    for (int length = 2; length < l->rows; length++)
        for (int i = 0; i < l->n_edges; i++)
            if (length_of(l, &l->edge[i]) == length) w->turn[turns++] = &l->edge[i];
    for (int i = 0; i < turns; i++)
        w->turn[i]->lane = choose_lane(w, i);
}

/* The leftmost thing comes to 0. */
static void set_width(struct mo_graph_layout *l) {
    double left = INFINITY, right = -INFINITY;
    for (int i = 0; i < l->n; i++) {
        left = fmin(left, l->box[i].x);
        right = fmax(right, l->box[i].x + MO_BOX_W);
    }
    for (int i = 0; i < l->n_edges; i++) {
        if (!mo_edge_passes(l, &l->edge[i])) continue;
        left = fmin(left, l->edge[i].lane - BESIDE);
        right = fmax(right, l->edge[i].lane + BESIDE);
    }
    for (int i = 0; i < l->n; i++)
        l->box[i].x -= left;
    for (int i = 0; i < l->n_edges; i++)
        l->edge[i].lane -= left;
    l->width = l->n ? right - left : 0;
}

double mo_row_top(int row) {
    return row * (double)(MO_BOX_H + MO_BOX_GAP_Y);
}

bool mo_graph_lay_out(const struct mo_graph *g, struct mo_region *region, struct mo_graph_layout *l) {
    size_t boxes = (size_t)g->n_nodes + (size_t)g->n_inputs + (size_t)g->n_outputs + 1;
    size_t edges = (size_t)g->n_outputs + 1;
    for (int i = 0; i < g->n_nodes; i++)
        edges += (size_t)g->nodes[i]->n_in;
    *l = (struct mo_graph_layout){.graph = g};
    l->box = mo_region_array(region, boxes, sizeof *l->box);
    l->edge = mo_region_array(region, edges, sizeof *l->edge);
    struct work w = {.l = l};
    w.maker = mo_region_array(region, (size_t)g->n_tensors + 1, sizeof *w.maker);
    w.order = mo_region_array(region, boxes, sizeof *w.order);
    w.first = mo_region_array(region, boxes + 1, sizeof *w.first);
    w.turn = mo_region_array(region, edges, sizeof *w.turn);
    w.taken = mo_region_array(region, boxes + edges, sizeof *w.taken);
    int *first_edge = mo_region_array(region, boxes, sizeof *first_edge);
    if (!l->box || !l->edge || !w.maker || !w.order || !w.first || !w.turn || !w.taken || !first_edge)
        return false;
    add_boxes(&w);
    place_rows(&w, first_edge);
    choose_lanes(&w);
    set_width(l);
    return true;
}
