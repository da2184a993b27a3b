/* SPDX-License-Identifier: Apache-2.0
 * problem.c - a layer of a graph as the generator sees it. */
#include <string.h>
#include "codegen/family/family.h"
#include "variants/conv_geometry.h"
#include "variants/matmul_rows.h"
#include "variants/matrix/matrix_walk.h"

static void set_geometry(const struct mo_conv *c, struct mo_problem *p) {
    p->n = c->n, p->c = c->c, p->h = c->h, p->w = c->w, p->o = c->o, p->oh = c->oh, p->ow = c->ow;
    p->kh = (int)c->kh, p->kw = (int)c->kw, p->sh = (int)c->sh, p->sw = (int)c->sw, p->dh = (int)c->dh,
    p->dw = (int)c->dw;
    p->pt = (int)c->pt, p->pl = (int)c->pl, p->pb = (int)c->pb, p->pr = (int)c->pr;
    p->groups = c->depthwise ? (int)c->c : (int)c->groups;
    p->own_groups = c->depthwise ? (int)c->c : (int)(c->c / (c->cg / c->merge));
    p->rest = c->rest;
    p->in_layout = c->x->layout, p->out_layout = c->y->layout;
}

static bool conv_problem(const struct mo_graph *graph, const struct mo_node *node, struct mo_problem *p) {
    struct mo_conv c;
    if (!mo_conv_read(graph, node, &c)) return false;
    set_geometry(&c, p);
    if (c.gate && (c.gate->layout != MO_C16 || p->in_layout != MO_C16)) return false;
    return p->out_layout == MO_C16 && (!c.residual || c.residual->layout == MO_C16);
}

static bool qconv_problem(const struct mo_graph *graph, const struct mo_node *node, struct mo_problem *p) {
    struct mo_conv c;
    struct mo_qconv q;
    if (!p->dot || !mo_qconv_geometry(graph, node, &c, &q)) return false;
    set_geometry(&c, p);
    p->to = q.to;
    p->x_row = c.c, p->y_row = c.o;
    if (c.rows) return p->in_layout == MO_PLAIN && p->out_layout == MO_PLAIN;
    p->fills = q.x_zero && c.pt + c.pl + c.pb + c.pr;
    return p->out_layout == MO_C16;
}

/* Rows of the left operand become the width of a 1x1 layer: c = K, w = rows of an image, o = N. */
static bool gemm_problem(const struct mo_graph *graph, const struct mo_node *node, struct mo_problem *p) {
    const struct mo_tensor *a = graph->tensors[node->in[0]], *y = graph->tensors[node->out[0]];
    struct mo_product rows;
    if (a->layout != MO_PLAIN || y->layout != MO_PLAIN || !mo_product_of(graph, node, &rows)) return false;
    if (node->fuse.residual >= 0 && graph->tensors[node->in[node->fuse.residual]]->layout != MO_PLAIN)
        return false;
    p->n = rows.images;
    p->h = p->oh = 1;
    p->c = a->shape.d[a->shape.rank - 1];
    p->o = y->shape.d[y->shape.rank - 1];
    p->w = p->ow = rows.rows;
    p->x_row = rows.x_row, p->y_row = rows.y_row;
    p->kh = p->kw = p->sh = p->sw = p->dh = p->dw = 1;
    p->groups = 1;
    return rows.residual_row == rows.y_row;
}

bool mo_problem_from_node(const struct mo_graph *graph, const struct mo_node *node, enum mo_isa isa,
                          struct mo_problem *p) {
    return mo_problem_for_dot(graph, node, isa, mo_isa_dot(isa), p);
}

bool mo_problem_for_dot(const struct mo_graph *graph, const struct mo_node *node, enum mo_isa isa,
                        enum mo_dot dot, struct mo_problem *p) {
    memset(p, 0, sizeof *p);
    if (!mo_layer_signature(graph, node, p->signature, sizeof p->signature)) return false;
    p->isa = isa;
    p->dot = mo_is_qconv(node) ? dot : MO_DOT_NONE;
    p->fuse = node->fuse;
    p->exact = graph->exact;
    bool ok = !strcmp(node->op_type, "Conv") ? conv_problem(graph, node, p)
              : mo_is_qconv(node)            ? qconv_problem(graph, node, p)
                                             : gemm_problem(graph, node, p);
    for (int i = 0; ok && mo_emit_families()[i]; i++)
        if (mo_emit_families()[i]->takes(p)) return true;
    return false;
}

bool mo_problem_on_unit(const struct mo_graph *graph, const struct mo_node *node, const struct mo_problem *p,
                        enum mo_units units) {
    const enum mo_matrix_type type = p->dot ? MO_MATRIX_BYTES : MO_MATRIX_FLOATS;
    const struct mo_matrix_unit *unit = mo_matrix_choose(units, p->isa, type);
    return unit && !unit->vectors && unit->run[type] && (p->dot || mo_matrix_stays(graph, node));
}
