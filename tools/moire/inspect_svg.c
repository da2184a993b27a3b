/* SPDX-License-Identifier: Apache-2.0
 * inspect_svg.c - the graph of layers as a drawing, without any outside tool.
 *
 * Layered: a box's row is its longest distance from an input; within a row, boxes are ordered by the mean
 * place of what they read.  Text in the drawing is our own (operators and shapes) except names of inputs and
 * outputs, which are escaped. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/output.h"
#include "tools/moire/inspect.h"

enum { BOX_W = 190, BOX_H = 40, GAP_X = 24, GAP_Y = 34, MARGIN = 20 };

/* One box: a layer, or an input or output of the model. */
struct box {
    const struct mo_node *node; /* NULL: a port */
    const struct mo_tensor *port;
    int row;
    double x, want;
};

struct drawing {
    const struct mo_plan *plan;
    const struct mo_graph *g;
    struct box *boxes;
    int n, rows;
    int *maker; /* of every tensor: the box that gives it, or -1 */
    struct box **order;
    double width;
    FILE *out;
};

static int add_box(struct drawing *d, const struct mo_node *node, const struct mo_tensor *port) {
    struct box *b = &d->boxes[d->n];
    *b = (struct box){.node = node, .port = port};
    if (node)
        for (int k = 0; k < node->n_in; k++) {
            int from = node->in[k] < 0 ? -1 : d->maker[node->in[k]];
            if (from >= 0 && d->boxes[from].row >= b->row) b->row = d->boxes[from].row + 1;
        }
    else if (port && d->maker[port->id] >= 0)
        b->row = d->boxes[d->maker[port->id]].row + 1;
    if (b->row >= d->rows) d->rows = b->row + 1;
    return d->n++;
}

static void add_boxes(struct drawing *d) {
    for (int i = 0; i < d->g->n_tensors; i++)
        d->maker[i] = -1;
    for (int i = 0; i < d->g->n_inputs; i++)
        d->maker[d->g->inputs[i]] = add_box(d, NULL, d->g->tensors[d->g->inputs[i]]);
    for (int i = 0; i < d->g->n_nodes; i++) {
        const struct mo_node *node = d->g->nodes[i];
        int at = add_box(d, node, NULL);
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0) d->maker[node->out[k]] = at;
    }
    for (int i = 0; i < d->g->n_outputs; i++)
        add_box(d, NULL, d->g->tensors[d->g->outputs[i]]);
}

/* Calls fn for every box that box `b` reads. */
static void each_source(const struct drawing *d, const struct box *b,
                        void (*fn)(void *, const struct box *, int), void *ctx) {
    int n = b->node ? b->node->n_in : 1;
    for (int k = 0; k < n; k++) {
        int id = b->node ? b->node->in[k] : b->port->id;
        int from = id < 0 ? -1 : d->maker[id];
        if (from >= 0 && &d->boxes[from] != b) fn(ctx, &d->boxes[from], id);
    }
}

struct mean {
    double sum;
    int n;
};

static void add_place(void *ctx, const struct box *from, int tensor) {
    struct mean *m = ctx;
    (void)tensor;
    m->sum += from->x;
    m->n++;
}

static int by_want(const void *a, const void *b) {
    const struct box *x = *(struct box *const *)a, *y = *(struct box *const *)b;
    if (x->want != y->want) return x->want < y->want ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int by_row(const void *a, const void *b) {
    const struct box *x = *(struct box *const *)a, *y = *(struct box *const *)b;
    if (x->row != y->row) return x->row - y->row;
    return x < y ? -1 : x > y;
}

/* Places row by row: each box as near to the mean of its sources as its neighbours allow. */
static void place_row(struct drawing *d, struct box **row, int n) {
    for (int i = 0; i < n; i++) {
        struct mean m = {0};
        each_source(d, row[i], add_place, &m);
        row[i]->want = m.n ? m.sum / m.n : i * (double)(BOX_W + GAP_X);
    }
    qsort(row, (size_t)n, sizeof *row, by_want);
    double at = 0, drift = 0;
    for (int i = 0; i < n; i++) {
        row[i]->x = i && row[i]->want < at ? at : row[i]->want;
        at = row[i]->x + BOX_W + GAP_X;
        drift += row[i]->x - row[i]->want;
    }
    for (int i = 0; i < n; i++)
        row[i]->x -= drift / n; /* back to the middle */
}

static void place_all(struct drawing *d) {
    double left = 0, right = 0;
    for (int i = 0; i < d->n; i++)
        d->order[i] = &d->boxes[i];
    qsort(d->order, (size_t)d->n, sizeof *d->order, by_row);
    for (int i = 0, j; i < d->n; i = j) {
        for (j = i; j < d->n && d->order[j]->row == d->order[i]->row;)
            j++;
        place_row(d, d->order + i, j - i);
    }
    for (int i = 0; i < d->n; i++) {
        if (d->boxes[i].x < left) left = d->boxes[i].x;
        if (d->boxes[i].x > right) right = d->boxes[i].x;
    }
    for (int i = 0; i < d->n; i++)
        d->boxes[i].x += MARGIN - left;
    d->width = right - left + BOX_W + 2 * MARGIN;
}

/* --- output -------------------------------------------------------------------------------------------- */

static double top_of(const struct box *b) {
    return MARGIN + b->row * (double)(BOX_H + GAP_Y);
}

struct edge {
    struct drawing *d;
    const struct box *to;
};

static void draw_edge(void *ctx, const struct box *from, int tensor) {
    const struct edge *e = ctx;
    double x0 = from->x + BOX_W / 2.0, y0 = top_of(from) + BOX_H, x1 = e->to->x + BOX_W / 2.0,
           y1 = top_of(e->to);
    bool blocked = e->d->g->tensors[tensor]->layout == MO_C16;
    fprintf(e->d->out, "<path d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\" stroke=\"%s\"/>\n", x0, y0, x0,
            y0 + GAP_Y, x1, y1 - GAP_Y, x1, y1, blocked ? "#2563a8" : "#8a8a8a");
}

static void put_escaped(FILE *out, const char *s, int most) {
    for (; *s && most > 0; s++, most--) {
        unsigned char c = (unsigned char)*s;
        if (c == '<' || c == '&' || c == '>' || c == '"' || c < 32 || c > 126)
            fprintf(out, "&#%d;", c < 32 || c > 126 ? '?' : c);
        else
            fputc(c, out);
    }
}

static const char *color_of(const struct drawing *d, const struct box *b) {
    if (!b->node) return "#fdf3d0";
    const struct mo_step *step = &d->plan->steps[b->node->id];
    if (!strcmp(step->kind, "view")) return "#f2f2f2";
    if (!strcmp(step->kind, "reference")) return "#f9dcd8";
    return mo_step_macs(step) ? "#d7e6f8" : "#e2f3e0";
}

static void draw_box(const struct drawing *d, const struct box *b) {
    const struct mo_tensor *t = b->port;
    char line[100], shape[160] = "";
    if (b->node && b->node->n_out && b->node->out[0] >= 0) t = d->g->tensors[b->node->out[0]];
    if (t) mo_shape_text(&t->shape, shape, sizeof shape);
    double y = top_of(b), middle = b->x + BOX_W / 2.0;
    fprintf(d->out, "<g><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"/>", b->x,
            y, BOX_W, BOX_H, b->node ? 4 : 18, color_of(d, b));
    if (b->node) {
        const struct mo_step *step = &d->plan->steps[b->node->id];
        fprintf(d->out, "<title>layer %d, %s kernel %s, %.2f MMAC, %.3f MB</title>", b->node->id, step->kind,
                step->kernel, (double)mo_step_macs(step) / 1e6, (double)step->bytes / 1e6);
    }
    fprintf(d->out, "<text x=\"%.0f\" y=\"%.0f\">", middle, y + 17);
    if (b->node) {
        mo_layer_text(d->g, b->node, line, sizeof line);
        put_escaped(d->out, line, 30);
    } else {
        put_escaped(d->out, b->port->name, 28);
    }
    fprintf(d->out, "</text><text x=\"%.0f\" y=\"%.0f\" class=\"s\">%s</text></g>\n", middle, y + 32, shape);
}

static void draw(struct drawing *d) {
    double height = 2 * MARGIN + d->rows * (double)(BOX_H + GAP_Y) - GAP_Y;
    fprintf(d->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
            "%.0f\">\n"
            "<style>text{font:12px sans-serif;text-anchor:middle}.s{font-size:10px;fill:#555}"
            "rect{stroke:#666;stroke-width:.8}path{fill:none;stroke-width:1.3}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" style=\"fill:#fff;stroke:none\"/>\n",
            d->width, height, d->width, height);
    for (int i = 0; i < d->n; i++) {
        struct edge e = {d, &d->boxes[i]};
        each_source(d, &d->boxes[i], draw_edge, &e);
    }
    for (int i = 0; i < d->n; i++)
        draw_box(d, &d->boxes[i]);
    fprintf(d->out, "</svg>\n");
}

int mo_inspect_svg(const struct mo_inspection *in, const char *path, moire_error *err) {
    struct drawing d = {.plan = in->plan, .g = in->plan->graph};
    size_t most = (size_t)d.g->n_nodes + (size_t)d.g->n_inputs + (size_t)d.g->n_outputs + 1;
    d.boxes = mo_region_array(in->region, most, sizeof *d.boxes);
    d.order = mo_region_array(in->region, most, sizeof *d.order);
    d.maker = mo_region_array(in->region, (size_t)d.g->n_tensors + 1, sizeof *d.maker);
    char *text = NULL;
    size_t n = 0;
    if (d.boxes && d.order && d.maker) d.out = open_memstream(&text, &n);
    if (!d.out) return mo_fail(err, MOIRE_ENOMEM, "out of memory drawing the graph");
    add_boxes(&d);
    place_all(&d);
    draw(&d);
    int rc = fclose(d.out) ? mo_fail(err, MOIRE_ENOMEM, "out of memory drawing the graph")
                           : mo_output_write(in->env, path, text, n, err);
    free(text);
    return rc;
}
