/* SPDX-License-Identifier: Apache-2.0
 * graph_svg.c - see graph_svg.h.  Text in the drawing is our own (operators and shapes) except the title and
 * names of inputs and outputs, which are escaped. */
#define _GNU_SOURCE
#include "tools/moire/inspect/graph_svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/output.h"
#include "runtime/plan/describe.h"
#include "tools/moire/inspect/graph_layout.h"

static const double MARGIN = 20, LEAST_WIDTH = 520, LINE = 22;
/* Of boxes by what they are, or by time: from `cold` to `hot`. */
static const char *const PORT = "#fdf3d0", *const VIEW = "#f2f2f2", *const SLOW = "#f6c4bd",
                         *const MACS = "#d7e6f8", *const OTHER = "#e2f3e0", *const BLOCKED = "#2563a8",
                         *const PLAIN = "#8a8a8a";
static const int COLD[3] = {255, 251, 240}, HOT[3] = {240, 110, 70};

struct pen {
    const struct mo_graph_drawing *d;
    struct mo_graph_layout layout;
    int64_t most, sum; /* of d->ns */
    double left, top;  /* of the graph, below the legend */
    FILE *out;
};

/* --- legend --------------------------------------------------------------------------------------------- */
/* Entries flow from left to right, and on to the next line. */
struct flow {
    struct pen *p;
    double x, y, width;
    bool drawn; /* false: only measured */
};

static void put_escaped(FILE *out, const char *s, int most) {
    for (; *s && most > 0; s++, most--) {
        unsigned char c = (unsigned char)*s;
        if (c == '<' || c == '&' || c == '>' || c == '"' || c < 32 || c > 126)
            fprintf(out, "&#%d;", c < 32 || c > 126 ? '?' : c);
        else
            fputc(c, out);
    }
}

/* Makes room for `sign` and a text; where the sign begins. */
static double flow_next(struct flow *f, double sign, const char *text) {
    double need = sign + 8 + 6.1 * (double)strlen(text) + 16;
    if (f->x > MARGIN && f->x + need > f->width) f->x = MARGIN, f->y += LINE;
    double at = f->x;
    if (f->drawn)
        fprintf(f->p->out, "<text class=\"l\" x=\"%.0f\" y=\"%.0f\">%s</text>\n", at + sign + 8, f->y + 4,
                text);
    f->x += need;
    return at;
}

static void flow_box(struct flow *f, const char *fill, const char *frame, bool round, const char *text) {
    double x = flow_next(f, 26, text);
    if (f->drawn)
        fprintf(
            f->p->out,
            "<rect class=\"%s\" x=\"%.0f\" y=\"%.0f\" width=\"26\" height=\"14\" rx=\"%d\" fill=\"%s\"/>\n",
            frame, x, f->y - 7, round ? 7 : 3, fill);
}

static void flow_line(struct flow *f, const char *colour, const char *text) {
    double x = flow_next(f, 26, text);
    if (f->drawn) fprintf(f->p->out, "<path d=\"M%.0f %.0fh26\" stroke=\"%s\"/>\n", x, f->y, colour);
}

static void flow_scale(struct flow *f) {
    char text[80];
    const struct mo_graph_drawing *d = f->p->d;
    snprintf(text, sizeof text, "0 to %.3g ms a layer, the shortest of its runs, on %d thread%s",
             (double)f->p->most * 1e-6, d->threads, d->threads == 1 ? "" : "s");
    double x = flow_next(f, 90, text);
    if (f->drawn)
        fprintf(f->p->out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"90\" height=\"14\" fill=\"url(#heat)\"/>\n",
                x, f->y - 7);
}

static bool has_kind(const struct mo_plan *plan, const char *kind) {
    for (int i = 0; i < plan->n_steps; i++)
        if (!strcmp(plan->steps[i].kind, kind)) return true;
    return false;
}

/* What the colours mean, of those that are there; the y below it. */
static double legend(struct pen *p, double width, bool drawn) {
    const struct mo_plan *plan = p->d->plan;
    struct flow f = {.p = p, .x = MARGIN, .y = MARGIN + 30, .width = width, .drawn = drawn};
    if (p->d->ns) {
        flow_scale(&f);
    } else {
        flow_box(&f, MACS, "", false, "layer that multiplies and adds");
        flow_box(&f, OTHER, "", false, "other layer");
    }
    if (has_kind(plan, "reference"))
        flow_box(&f, p->d->ns ? "#fff" : SLOW, p->d->ns ? "ref" : "", false, "runs by the slow reference");
    if (has_kind(plan, "view")) flow_box(&f, VIEW, "", false, "moves nothing");
    flow_box(&f, PORT, "", true, "input, output");
    flow_line(&f, BLOCKED, "in blocks of 16 channels");
    flow_line(&f, PLAIN, "plain layout");
    return f.y + 34;
}

static void draw_title(struct pen *p) {
    const struct mo_plan *plan = p->d->plan;
    const char *slash = strrchr(p->d->title, '/');
    int64_t macs = 0;
    for (int i = 0; i < plan->n_steps; i++)
        macs += mo_step_macs(&plan->steps[i]);
    fprintf(p->out, "<text class=\"t\" x=\"%.0f\" y=\"%.0f\">", MARGIN, MARGIN + 8);
    put_escaped(p->out, slash ? slash + 1 : p->d->title, 48);
    fprintf(p->out, "<tspan class=\"l\" dx=\"10\">%d layers, %.3g G multiply-adds", plan->n_steps,
            (double)macs * 1e-9);
    if (p->d->ns) fprintf(p->out, ", %.3g ms in all", (double)p->sum * 1e-6);
    fprintf(p->out, "</tspan></text>\n");
}

/* --- graph ---------------------------------------------------------------------------------------------- */
static double top_of(const struct pen *p, int row) {
    return p->top + mo_row_top(row);
}

/* Within the gap below a row: from one x to another. */
static void turn(const struct pen *p, double from, double to, double top) {
    double bottom = top + MO_BOX_GAP_Y, half = MO_BOX_GAP_Y * 0.7;
    if (from == to)
        fprintf(p->out, "V%.1f", bottom);
    else
        fprintf(p->out, "C%.1f %.1f %.1f %.1f %.1f %.1f", from, top + half, to, bottom - half, to, bottom);
}

static void draw_edge(const struct pen *p, const struct mo_graph_edge *e) {
    const struct mo_graph_box *from = &p->layout.box[e->from], *to = &p->layout.box[e->to];
    double x0 = p->left + from->x + MO_BOX_W / 2.0, x1 = p->left + to->x + MO_BOX_W / 2.0,
           y = top_of(p, from->row) + MO_BOX_H, lane = p->left + e->lane;
    bool blocked = p->layout.graph->tensors[e->tensor]->layout != MO_PLAIN;
    fprintf(p->out, "<path stroke=\"%s\" d=\"M%.1f %.1f", blocked ? BLOCKED : PLAIN, x0, y);
    if (mo_edge_passes(&p->layout, e)) {
        turn(p, x0, lane, y);
        y = top_of(p, to->row) - MO_BOX_GAP_Y;
        fprintf(p->out, "V%.1f", y);
        turn(p, lane, x1, y);
    } else {
        turn(p, x0, x1, y);
    }
    fprintf(p->out, "\"/>\n");
}

/* Square root: layers of a tenth of the largest time are still told from those that take none. */
static void heat_of(const struct pen *p, int64_t ns, char out[16]) {
    double t = p->most > 0 && ns > 0 ? sqrt((double)ns / (double)p->most) : 0;
    int c[3];
    for (int i = 0; i < 3; i++)
        c[i] = (int)(COLD[i] + t * (HOT[i] - COLD[i]));
    snprintf(out, 16, "#%02x%02x%02x", c[0], c[1], c[2]);
}

static void fill_of(const struct pen *p, const struct mo_step *step, char out[16]) {
    const char *fill = mo_step_macs(step) ? MACS : OTHER;
    if (!strcmp(step->kind, "view"))
        fill = VIEW;
    else if (p->d->ns) {
        heat_of(p, p->d->ns[step->node->id], out);
        return;
    } else if (!strcmp(step->kind, "reference"))
        fill = SLOW;
    snprintf(out, 16, "%s", fill);
}

/* "0.32 ms", with three digits. */
static void put_time(FILE *out, int64_t ns) {
    double ms = (double)ns * 1e-6;
    fprintf(out, "%.*f ms", ms >= 100 ? 0 : ms >= 10 ? 1 : ms >= 1 ? 2 : 3, ms);
}

static void draw_layer(const struct pen *p, const struct mo_graph_box *b, double x, double y) {
    const struct mo_step *step = &p->d->plan->steps[b->node->id];
    const struct mo_tensor *t = mo_node_out(p->layout.graph, b->node, 0);
    bool framed = p->d->ns && !strcmp(step->kind, "reference"), view = !strcmp(step->kind, "view");
    char fill[16], line[100], shape[160] = "";
    fill_of(p, step, fill);
    mo_layer_text(p->layout.graph, b->node, line, sizeof line);
    if (t) mo_shape_text(&t->shape, shape, sizeof shape);
    fprintf(p->out,
            "<g><rect%s x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\"/>"
            "<title>layer %d, %s kernel %s, %.2f MMAC, %.3f MB</title>",
            framed ? " class=\"ref\"" : "", x, y, MO_BOX_W, MO_BOX_H, fill, b->node->id, step->kind,
            step->kernel, (double)mo_step_macs(step) / 1e6, (double)step->bytes / 1e6);
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\">", x + MO_BOX_W / 2.0, y + 17);
    put_escaped(p->out, line, 30);
    fprintf(p->out, "</text><text x=\"%.1f\" y=\"%.1f\" class=\"s\">%s", x + MO_BOX_W / 2.0, y + 32, shape);
    if (p->d->ns && !view) {
        fprintf(p->out, " <tspan class=\"ms\"> ");
        put_time(p->out, p->d->ns[b->node->id]);
        fprintf(p->out, "</tspan>");
    }
    fprintf(p->out, "</text></g>\n");
}

static void draw_port(const struct pen *p, const struct mo_graph_box *b, double x, double y) {
    char shape[160] = "";
    mo_shape_text(&b->port->shape, shape, sizeof shape);
    fprintf(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"18\" fill=\"%s\"/>", x, y,
            MO_BOX_W, MO_BOX_H, PORT);
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\">", x + MO_BOX_W / 2.0, y + 17);
    put_escaped(p->out, b->port->name, 28);
    fprintf(p->out, "</text><text x=\"%.1f\" y=\"%.1f\" class=\"s\">%s</text>\n", x + MO_BOX_W / 2.0, y + 32,
            shape);
}

static void draw(struct pen *p) {
    double width = fmax(p->layout.width + 2 * MARGIN, LEAST_WIDTH);
    p->left = (width - p->layout.width) / 2;
    p->top = legend(p, width, false);
    double height = p->top + mo_row_top(p->layout.rows) - MO_BOX_GAP_Y + MARGIN;
    fprintf(p->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
            "%.0f\">\n"
            "<style>text{font:12px sans-serif;text-anchor:middle}.s{font-size:10px;fill:#555}"
            ".l{text-anchor:start;fill:#333;font-weight:400;font-size:12px}"
            ".t{text-anchor:start;font-size:15px;font-weight:700}.ms{fill:#000;font-weight:700}"
            "rect{stroke:#666;stroke-width:.8}.ref{stroke:#c0392b;stroke-width:2.5}"
            "path{fill:none;stroke-width:1.3}</style>\n"
            "<defs><linearGradient id=\"heat\">",
            width, height, width, height);
    for (int i = 0; i <= 4; i++) {
        char colour[16];
        heat_of(p, p->most / 4 * i, colour);
        fprintf(p->out, "<stop offset=\"%d%%\" stop-color=\"%s\"/>", 25 * i, colour);
    }
    fprintf(p->out, "</linearGradient></defs>\n"
                    "<rect width=\"100%%\" height=\"100%%\" style=\"fill:#fff;stroke:none\"/>\n");
    draw_title(p);
    legend(p, width, true);
    for (int i = 0; i < p->layout.n_edges; i++)
        draw_edge(p, &p->layout.edge[i]);
    for (int i = 0; i < p->layout.n; i++) {
        const struct mo_graph_box *b = &p->layout.box[i];
        (b->node ? draw_layer : draw_port)(p, b, p->left + b->x, top_of(p, b->row));
    }
    fprintf(p->out, "</svg>\n");
}

int mo_graph_draw(const struct mo_graph_drawing *d, const char *path, moire_error *err) {
    struct mo_region *region = mo_region_create(d->env);
    struct pen p = {.d = d};
    char *text = NULL;
    size_t n = 0;
    for (int i = 0; d->ns && i < d->plan->n_steps; i++) {
        p.sum += d->ns[i];
        if (d->ns[i] > p.most) p.most = d->ns[i];
    }
    if (region && mo_graph_lay_out(d->plan->graph, region, &p.layout)) p.out = open_memstream(&text, &n);
    if (p.out) draw(&p);
    bool bad = !p.out || fclose(p.out);
    int rc = bad ? mo_fail(err, MOIRE_ENOMEM, "out of memory drawing the graph")
                 : mo_output_write(d->env, path, text, n, err);
    free(text);
    mo_region_destroy(region);
    return rc;
}
