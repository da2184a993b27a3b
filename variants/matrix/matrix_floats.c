/* SPDX-License-Identifier: Apache-2.0
 * matrix_floats.c - the family of float convolutions and matrix products that a matrix unit computes from
 * bfloat16 numbers, where the graph allows that.
 *
 * graph->halves: each number is rounded to one.  What lies in memory between layers stays float32: inputs are
 * rounded as they are packed, weights once, and products are added in float32.  The relative error of a
 * product is at most 2^-8.
 *
 * graph->terms: each number is the sum of three, which loses nothing of its 24 bits.  Six of the nine
 * products of terms are added up; those left out are at most 2^-22 of the product of the numbers, and some
 * 2^-25 as a rule, as its rounding in float32 is.  A unit that does them twice as fast as vectors do one
 * product of float32 is the better way where a layer has enough work (matrix_terms.c).
 *
 * Weights of a step that no filter has are zeros: an infinity or a NaN that they meet makes a NaN of sums
 * nearby.  An infinity makes a NaN of its own sums, too, where it is one of three terms. */
#include "variants/generic/bind.h"
#include "variants/halves.h"
#include "variants/matrix/matrix_walk.h"
#include "variants/packed.h"

/* Of terms, against built-in kernels of vectors: to be used, and to make compiled ones hopeless. */
static const double LEAST_GAIN = 1.1, SURE_GAIN = 1.6;

static bool is_product(const struct mo_node *node) {
    return mo_node_is(node, "MatMul") || mo_node_is_ours(node, "MatMul") ||
           (mo_node_is(node, "Gemm") && !mo_attr_int(node, "transA", 0));
}

/* Winograd's algorithm takes such layers, and does 2 to 4 times less work. */
static bool is_winograd(const struct mo_conv *c) {
    return mo_conv_is_three(c) && c->x->layout != MO_PLAIN;
}

/* What numbers become here; false: nothing, layers are for other families. */
static bool type_of(const struct mo_graph *g, enum mo_matrix_type *type) {
    *type = g->halves ? MO_MATRIX_HALVES : MO_MATRIX_FLOATS;
    return g->halves || g->terms;
}

static enum mo_packing packing_of(enum mo_matrix_type type) {
    return type == MO_MATRIX_HALVES ? MO_PACK_MATRIX_HALVES : MO_PACK_MATRIX_FLOATS;
}

/* Filled from the node; false: no convolution that the unit could do in some layout, or is to do: `least`
 * times as fast as vectors where numbers are of terms.  Vectors have kernels for narrow inputs and groups. */
static bool conv_of(const struct mo_graph *g, const struct mo_node *node, bool narrow, double least,
                    struct mo_conv *c) {
    struct mo_matrix_shape shape;
    enum mo_matrix_type type;
    if (!type_of(g, &type) || !mo_conv_read(g, node, c) || !mo_matrix_shape_of(c, type, narrow, &shape) ||
        !mo_matrix_walk_fits(c, &shape))
        return false;
    if (type == MO_MATRIX_HALVES) return !(g->halves_by_vectors && is_winograd(c));
    if (g->terms == MO_TERMS_ALWAYS) return true;
    return !narrow && c->groups * c->merge == 1 && mo_matrix_terms_gain(c, &shape) >= least;
}

/* A product's geometry, but for its tensors. */
static void geometry(const struct mo_tensor *a, const struct mo_tensor *y, const struct mo_product *rows,
                     struct mo_conv *c) {
    mo_matrix_product(a->shape.d[a->shape.rank - 1], y->shape.d[y->shape.rank - 1], c);
    c->n = rows->images, c->w = c->ow = rows->rows;
}

static bool product_of(const struct mo_graph *g, const struct mo_node *node, double least,
                       struct mo_product *rows) {
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    struct mo_matrix_shape shape;
    struct mo_conv c;
    enum mo_matrix_type type;
    if (!type_of(g, &type) || !is_product(node) || !mo_f32(a) || !mo_f32(y) ||
        !mo_product_of(g, node, rows) ||
        (node->fuse.residual >= 0 && !mo_f32(mo_node_in(g, node, node->fuse.residual))) ||
        mo_pack_bytes(packing_of(type), g, node) <= 0 || !mo_f32(b))
        return false;
    if (type == MO_MATRIX_HALVES || g->terms == MO_TERMS_ALWAYS) return true;
    geometry(a, y, rows, &c);
    return mo_matrix_shape_of(&c, type, false, &shape) && mo_matrix_terms_gain(&c, &shape) >= least;
}

static unsigned layouts_of(const struct mo_graph *g, const struct mo_node *node, double least) {
    struct mo_conv c;
    struct mo_product rows;
    if (!g->halves && !g->terms) return 0;
    const unsigned can = conv_of(g, node, false, least, &c) ? MO_CAN_C16 : 0;
    if (can) return conv_of(g, node, true, least, &c) ? can | MO_CAN_ENTER : can;
    return product_of(g, node, least, &rows) ? MO_CAN_PLAIN : 0;
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    return layouts_of(g, node, LEAST_GAIN);
}

bool mo_matrix_takes(const struct mo_graph *g, const struct mo_node *node) {
    return g->halves && layouts(g, node) != 0;
}

bool mo_matrix_stays(const struct mo_graph *g, const struct mo_node *node) {
    return !g->halves && layouts_of(g, node, SURE_GAIN) != 0;
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
    const bool takes =
        g->halves && x && conv_of(g, node, x->layout == MO_PLAIN, LEAST_GAIN, &c) && lies_well(&c);
    return takes ? MO_HALVES_FREE : MO_HALVES_NONE;
}

static int pack(const struct mo_binder *binder, const struct mo_node *node, enum mo_matrix_type type,
                struct mo_step *step, moire_error *err) {
    step->packing = packing_of(type);
    step->mixes = true;
    return mo_pack_weights(step->packing, binder->graph, node, binder->region, &step->weights, &step->bias,
                           err);
}

static int bind_conv(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *c,
                     enum mo_matrix_type type, struct mo_step *step, moire_error *err) {
    const struct mo_matrix_unit *unit = binder->unit[type];
    struct mo_matrix_shape shape;
    if (!lies_well(c) || !mo_matrix_shape_of(c, type, mo_matrix_narrow(c), &shape)) return MOIRE_EUNSUPPORTED;
    int rc = mo_matrix_walk_plan(binder, node, c, NULL, &shape, unit, NULL, step, err);
    step->kernel = unit->conv[type];
    return rc ? rc : pack(binder, node, type, step, err);
}

static int bind_product(const struct mo_binder *binder, const struct mo_node *node,
                        const struct mo_product *rows, enum mo_matrix_type type, struct mo_step *step,
                        moire_error *err) {
    const struct mo_matrix_unit *unit = binder->unit[type];
    const struct mo_tensor *a = mo_node_in(binder->graph, node, 0), *y = mo_node_out(binder->graph, node, 0);
    struct mo_matrix_shape shape;
    struct mo_conv c;
    if (a->layout != MO_PLAIN || y->layout != MO_PLAIN) return MOIRE_EUNSUPPORTED;
    if (node->fuse.residual >= 0 && mo_node_in(binder->graph, node, node->fuse.residual)->layout != MO_PLAIN)
        return MOIRE_EUNSUPPORTED;
    geometry(a, y, rows, &c);
    c.x = a, c.y = y;
    c.residual = node->fuse.residual < 0 ? NULL : mo_node_in(binder->graph, node, node->fuse.residual);
    if (!mo_matrix_shape_of(&c, type, false, &shape)) return MOIRE_EUNSUPPORTED;
    int rc = mo_matrix_walk_plan(binder, node, &c, rows, &shape, unit, NULL, step, err);
    step->kernel = unit->gemm[type];
    return rc ? rc : pack(binder, node, type, step, err);
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    struct mo_conv c;
    struct mo_product rows;
    enum mo_matrix_type type;
    if (!type_of(binder->graph, &type) || !binder->unit[type] || !binder->unit[type]->run[type])
        return MOIRE_EUNSUPPORTED;
    const int64_t bytes = mo_pack_bytes(packing_of(type), binder->graph, node);
    if (!mo_packed_has(binder->graph, node, packing_of(type), bytes)) return MOIRE_EUNSUPPORTED;
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0);
    if (conv_of(binder->graph, node, x->layout == MO_PLAIN, LEAST_GAIN, &c))
        return bind_conv(binder, node, &c, type, step, err);
    if (!product_of(binder->graph, node, LEAST_GAIN, &rows)) return MOIRE_EUNSUPPORTED;
    return bind_product(binder, node, &rows, type, step, err);
}

extern const struct mo_family mo_family_matrix;
const struct mo_family mo_family_matrix = {"matrix", layouts, bind};
