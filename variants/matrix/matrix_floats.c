/* SPDX-License-Identifier: Apache-2.0
 * matrix_floats.c - the family of float convolutions and matrix products that a matrix unit computes from
 * bfloat16 numbers, where the graph allows that (graph->halves).
 *
 * What lies in memory between layers stays float32: inputs are rounded as they are packed, weights once, and
 * products are added in float32.  The relative error of a product is at most 2^-8.  Weights of a step that no
 * filter has are zeros: an infinity or a NaN that they meet makes a NaN of sums nearby. */
#include "variants/generic/bind.h"
#include "variants/halves.h"
#include "variants/matrix/matrix_walk.h"
#include "variants/packed.h"

static bool is_product(const struct mo_node *node) {
    return mo_node_is(node, "MatMul") || mo_node_is_ours(node, "MatMul") ||
           (mo_node_is(node, "Gemm") && !mo_attr_int(node, "transA", 0));
}

/* Winograd's algorithm takes such layers, and does 2 to 4 times less work. */
static bool is_winograd(const struct mo_conv *c) {
    return c->kh == 3 && c->kw == 3 && c->sh == 1 && c->sw == 1 && c->dh == 1 && c->dw == 1 &&
           c->groups * c->merge == 1 && c->x->layout != MO_PLAIN;
}

/* Filled from the node; false: no convolution that the unit could do in some layout. */
static bool conv_of(const struct mo_graph *g, const struct mo_node *node, bool narrow, struct mo_conv *c) {
    struct mo_matrix_shape shape;
    return mo_conv_read(g, node, c) && mo_matrix_shape_of(c, MO_MATRIX_HALVES, narrow, &shape) &&
           mo_matrix_walk_fits(c, &shape) && !(g->halves_by_vectors && is_winograd(c));
}

static bool product_of(const struct mo_graph *g, const struct mo_node *node, struct mo_product *rows) {
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    return is_product(node) && mo_f32(a) && mo_f32(y) && mo_product_of(g, node, rows) &&
           (node->fuse.residual < 0 || mo_f32(mo_node_in(g, node, node->fuse.residual))) &&
           mo_pack_bytes(MO_PACK_MATRIX_HALVES, g, node) > 0 && mo_f32(b);
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    struct mo_conv c;
    struct mo_product rows;
    if (!g->halves) return 0;
    const unsigned can = conv_of(g, node, false, &c) ? MO_CAN_C16 : 0;
    if (can) return conv_of(g, node, true, &c) ? can | MO_CAN_ENTER : can;
    return product_of(g, node, &rows) ? MO_CAN_PLAIN : 0;
}

bool mo_matrix_takes(const struct mo_graph *g, const struct mo_node *node) {
    return layouts(g, node) != 0;
}

/* In blocks of float32 or bfloat16, where the output of a layer is such. */
static bool blocked(const struct mo_tensor *t) {
    return !t || t->layout == MO_C16 || t->layout == MO_C16_HALVES;
}

/* Layouts are final. */
static bool lies_well(const struct mo_conv *c) {
    if (!blocked(c->y) || !blocked(c->residual)) return false;
    if (c->gate && (c->gate->layout != MO_C16 || c->gate->data)) return false;
    return c->x->layout == MO_PLAIN ? mo_matrix_narrow(c) : true;
}

enum mo_halves mo_matrix_halves(const struct mo_graph *g, const struct mo_node *node) {
    struct mo_conv c;
    const struct mo_tensor *x = mo_node_in(g, node, 0);
    const bool takes = g->halves && x && conv_of(g, node, x->layout == MO_PLAIN, &c) && lies_well(&c);
    return takes ? MO_HALVES_FREE : MO_HALVES_NONE;
}

static int pack(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    step->packing = MO_PACK_MATRIX_HALVES;
    step->mixes = true;
    return mo_pack_weights(step->packing, binder->graph, node, binder->region, &step->weights, &step->bias,
                           err);
}

static int bind_conv(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *c,
                     const struct mo_matrix_unit *unit, struct mo_step *step, moire_error *err) {
    struct mo_matrix_shape shape;
    if (!lies_well(c) || !mo_matrix_shape_of(c, MO_MATRIX_HALVES, mo_matrix_narrow(c), &shape))
        return MOIRE_EUNSUPPORTED;
    int rc = mo_matrix_walk_plan(binder, node, c, NULL, &shape, unit, NULL, step, err);
    step->kernel = unit->conv[MO_MATRIX_HALVES];
    return rc ? rc : pack(binder, node, step, err);
}

static int bind_product(const struct mo_binder *binder, const struct mo_node *node,
                        const struct mo_product *rows, const struct mo_matrix_unit *unit,
                        struct mo_step *step, moire_error *err) {
    const struct mo_tensor *a = mo_node_in(binder->graph, node, 0), *y = mo_node_out(binder->graph, node, 0);
    struct mo_matrix_shape shape;
    struct mo_conv c;
    if (a->layout != MO_PLAIN || y->layout != MO_PLAIN) return MOIRE_EUNSUPPORTED;
    if (node->fuse.residual >= 0 && mo_node_in(binder->graph, node, node->fuse.residual)->layout != MO_PLAIN)
        return MOIRE_EUNSUPPORTED;
    mo_matrix_product(a->shape.d[a->shape.rank - 1], y->shape.d[y->shape.rank - 1], &c);
    c.n = rows->images, c.w = c.ow = rows->rows;
    c.x = a, c.y = y;
    c.residual = node->fuse.residual < 0 ? NULL : mo_node_in(binder->graph, node, node->fuse.residual);
    if (!mo_matrix_shape_of(&c, MO_MATRIX_HALVES, false, &shape)) return MOIRE_EUNSUPPORTED;
    int rc = mo_matrix_walk_plan(binder, node, &c, rows, &shape, unit, NULL, step, err);
    step->kernel = unit->gemm[MO_MATRIX_HALVES];
    return rc ? rc : pack(binder, node, step, err);
}

int mo_matrix_bind_floats(const struct mo_binder *binder, const struct mo_node *node,
                          const struct mo_matrix_unit *unit, struct mo_step *step, moire_error *err) {
    struct mo_conv c;
    struct mo_product rows;
    const int64_t bytes = mo_pack_bytes(MO_PACK_MATRIX_HALVES, binder->graph, node);
    if (!unit || !mo_packed_has(binder->graph, node, MO_PACK_MATRIX_HALVES, bytes)) return MOIRE_EUNSUPPORTED;
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0);
    if (conv_of(binder->graph, node, x->layout == MO_PLAIN, &c))
        return bind_conv(binder, node, &c, unit, step, err);
    if (!product_of(binder->graph, node, &rows)) return MOIRE_EUNSUPPORTED;
    return bind_product(binder, node, &rows, unit, step, err);
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    if (!binder->graph->halves) return MOIRE_EUNSUPPORTED;
    return mo_matrix_bind_floats(binder, node, binder->unit[MO_MATRIX_HALVES], step, err);
}

extern const struct mo_family mo_family_matrix;
const struct mo_family mo_family_matrix = {"matrix", layouts, bind};
