/* SPDX-License-Identifier: Apache-2.0
 * qconv.c - binds moire.QConv and QMatMul: convolutions and products of 8-bit numbers, by tiles of bytes
 * where the machine multiplies these, else by those of floats. */
#include "variants/generic/bind.h"
#include "variants/generic/conv_walk.h"
#include "variants/generic/winograd_bytes.h"
#include "variants/matrix/matrix_walk.h"
#include "variants/packed.h"
#include "variants/small_args.h"

#include <math.h>
#include <string.h>

static unsigned layouts(const struct mo_graph *graph, const struct mo_node *node) {
    struct mo_conv c;
    struct mo_qconv q;
    if (!mo_qconv_geometry(graph, node, &c, &q)) return 0;
    return c.rows ? MO_CAN_PLAIN : MO_CAN_C16;
}

/* Bounds of the output, in its steps: those of the type, and of an activation that is nothing else. */
static void set_bounds(struct mo_requant *r, const struct mo_qconv *q, const struct mo_fuse *fuse) {
    bool bytes = q->to != MOIRE_F32;
    float steps = bytes ? 1 / q->y_scale : 1;
    float low = q->to == MOIRE_I8 ? -128 : 0;
    r->lo = bytes ? low - (float)q->y_zero : -INFINITY;
    r->hi = bytes ? low + 255 - (float)q->y_zero : INFINITY;
    if (fuse->act == MO_ACT_RELU) r->lo = fmaxf(r->lo, 0);
    if (fuse->act != MO_ACT_CLIP) return;
    r->hi = fminf(r->hi, fmaxf(r->lo, fuse->b * steps));
    r->lo = fminf(r->hi, fmaxf(r->lo, fuse->a * steps));
}

static void set_requant(struct mo_requant *r, const struct mo_qconv *q, const struct mo_fuse *fuse,
                        bool ints) {
    bool clamp = fuse->act == MO_ACT_NONE || fuse->act == MO_ACT_RELU || fuse->act == MO_ACT_CLIP;
    *r = (struct mo_requant){.ints = ints,
                             .to = q->to,
                             .act = clamp ? MO_ACT_NONE : fuse->act,
                             .a = fuse->a,
                             .b = fuse->b,
                             .steps = q->to == MOIRE_F32 || clamp ? 1 : 1 / q->y_scale,
                             .zero = q->y_zero};
    set_bounds(r, q, fuse);
}

/* Every value fits an int32: x is a byte, weights are at most 128. */
static bool values_fit(const struct mo_conv *c, const struct mo_conv_small *small) {
    const double most = 255.0 * 128 * (double)((c->depthwise ? 1 : c->cg) * c->kh * c->kw);
    for (int64_t o = 0; o < c->o; o++)
        if (!(most * fabs((double)small->factor[o]) + fabs((double)small->bias[o]) < 2e9)) return false;
    return true;
}

/* Of the weights of every output of a product, padded to blocks. */
static const int32_t *sums_of(const struct mo_binder *binder, const struct mo_conv *c) {
    int32_t *sums = mo_region_array(binder->region, (size_t)c->ocb * 16, sizeof *sums);
    const int8_t *w = c->weights->data;
    for (int64_t i = 0; sums && i < c->o * c->c; i++)
        sums[i / c->c] += w[i];
    return sums;
}

/* Of channels that are set: for tiles that write uint8 themselves, if this layer's output can be written so.
 */
static bool set_pack(const struct mo_binder *binder, struct mo_conv_small *small) {
    const struct mo_requant *r = &small->requant;
    if (!r->packs || r->to != MOIRE_U8) return true;
    struct mo_tile_pack *p = mo_region_alloc(binder->region, sizeof *p);
    for (int i = 0; p && i < 64; i++) {
        p->zero[i / 2] = (int16_t)r->zero;
        p->lo[i] = (uint8_t)((int)rintf(r->lo) + r->zero);
        p->hi[i] = (uint8_t)((int)rintf(r->hi) + r->zero);
    }
    small->pack = p;
    return p;
}

/* By output channel in padded blocks: a factor, a bias, and where sums of x less `centre` start. */
static bool set_channels(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *c,
                         const struct mo_qconv *q, int centre, struct mo_conv_small *small,
                         const int32_t *sums, struct mo_step *step) {
    int64_t blocks = c->depthwise ? (c->o + 15) / 16 : c->groups * c->ocb;
    float *factor = mo_region_array(binder->region, (size_t)blocks * 16, sizeof *factor);
    float *bias = mo_region_array(binder->region, (size_t)blocks * 16, sizeof *bias);
    int32_t *start = mo_region_array(binder->region, (size_t)blocks * 16, sizeof *start);
    if (!factor || !bias || !start) return false;
    const float *f = mo_node_in(binder->graph, node, MO_QCONV_FACTOR)->data;
    const float *b = c->bias ? c->bias->data : NULL;
    float steps = small->requant.act == MO_ACT_NONE && q->to != MOIRE_F32 ? 1 / q->y_scale : 1;
    for (int64_t o = 0; o < c->o; o++) {
        factor[o] = f[o] * steps;
        bias[o] = b ? b[o] * steps : 0;
    }
    for (int64_t i = 0; sums && i < blocks * 16; i++)
        start[i] = (centre - q->x_zero) * sums[i];
    small->factor = factor, small->bias = bias;
    if (c->x_zero && !(small->sums = sums_of(binder, c))) return false;
    small->requant.packs = small->requant.act == MO_ACT_NONE && q->to != MOIRE_F32 && values_fit(c, small);
    step->bias = (const float *)start; /* zero is the same in both types */
    return true;
}

/* Of a layer that is complete: the same for a compiled kernel in place of this one, whose sums are whole
 * numbers also where this one's are floats. */
static bool set_args(const struct mo_binder *binder, const struct mo_qconv *q, struct mo_conv_small *small,
                     struct mo_step *step) {
    struct mo_small_args *a = mo_region_alloc(binder->region, sizeof *a);
    struct mo_requant *requant = mo_region_alloc(binder->region, sizeof *requant);
    struct mo_conv_small packs = *small;
    if (!a || !requant || (!packs.pack && !set_pack(binder, &packs))) return false;
    *requant = small->requant;
    requant->ints = true;
    *a = (struct mo_small_args){.factor = small->factor,
                                .shift = small->bias,
                                .pack = packs.pack,
                                .requant = requant,
                                .requantize = small->requantize};
    memset(a->zero, q->x_zero, sizeof a->zero);
    step->compiled_params = a;
    return true;
}

/* `tiles` of bytes, or NULL. */
static enum mo_packing packing_of(const struct mo_conv *c, const struct mo_tiles *tiles) {
    if (!tiles) return c->depthwise ? MO_PACK_DW16 : MO_PACK_CONV16;
    if (c->depthwise) return tiles->pairs ? MO_PACK_PAIRS_DW16 : MO_PACK_DOTDW16;
    if (c->c <= 4) return tiles->pairs ? MO_PACK_PAIRS_NARROW16 : MO_PACK_NARROW16;
    return tiles->pairs ? MO_PACK_PAIRS16 : MO_PACK_DOT16;
}

/* Of the kernel for matrices, depthwise filters, or others. */
static const char *name_of(const struct mo_conv *c, enum mo_isa isa, bool dot) {
    static const char *const names[3][MO_ISA_COUNT] = {
        MO_LEVEL_NAMES("qconv"), MO_LEVEL_NAMES("qconv depthwise"), MO_LEVEL_NAMES("qgemm")};
    static const char *const dots[3][MO_DOT_COUNT] = {
        {"", "qconv vnni", "qconv avx-vnni", "qconv pairs"},
        {"", "qconv depthwise vnni", "qconv depthwise avx-vnni", "qconv depthwise pairs"},
        {"", "qgemm vnni", "qgemm avx-vnni", "qgemm pairs"}};
    const int kind = c->rows ? 2 : c->depthwise;
    return dot ? dots[kind][mo_isa_dot(isa)] : names[kind][isa];
}

/* On a matrix unit.  `small` has no factors yet, and is the plan's. */
static int bind_matrix(const struct mo_binder *binder, const struct mo_node *node, const struct mo_conv *c,
                       const struct mo_qconv *q, const struct mo_matrix_unit *unit,
                       struct mo_conv_small *small, struct mo_step *step, moire_error *err) {
    struct mo_matrix_shape shape;
    const int32_t *sums;
    if (!unit || !mo_matrix_shape_of(c, MO_MATRIX_BYTES, mo_matrix_narrow(c), &shape) ||
        !mo_packed_has(binder->graph, node, MO_PACK_MATRIX_BYTES,
                       mo_matrix_weight_bytes(&shape, c) + c->groups * c->ocb * 64))
        return MOIRE_EUNSUPPORTED;
    small->dot = true;
    set_requant(&small->requant, q, &node->fuse, true);
    int rc = mo_matrix_walk_plan(binder, node, c, NULL, &shape, unit, small, step, err);
    step->packing = MO_PACK_MATRIX_BYTES;
    step->kernel = (c->rows ? unit->gemm : unit->conv)[MO_MATRIX_BYTES];
    if (!rc)
        rc = mo_pack_small(step->packing, binder->graph, node, binder->region, &step->weights, &sums, err);
    if (rc) return rc;
    if (set_channels(binder, node, c, q, 0, small, sums, step) &&
        (!unit->small_pixels || set_pack(binder, small)) && set_args(binder, q, small, step))
        return MOIRE_OK;
    return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
}

/* Blocked; or rows one after the other, in and out. */
static bool lies_well(const struct mo_graph *g, const struct mo_conv *c) {
    if (!c->rows) return c->x->layout == MO_C16 && c->y->layout == MO_C16;
    return c->x->layout == MO_PLAIN && c->y->layout == MO_PLAIN && mo_dense(g, c->x) && mo_dense(g, c->y);
}

/* Fills what every kernel of the layer shares. */
static struct mo_conv_small *small_of(const struct mo_binder *binder, const struct mo_conv *c,
                                      const struct mo_qconv *q) {
    const struct mo_simd_table *simd = mo_simd_of(binder->isa);
    struct mo_conv_small *small = mo_region_alloc(binder->region, sizeof *small);
    if (!small) return NULL;
    small->zero = c->x_zero ? 0 : q->x_zero; /* one that queries bring is in the sums' start */
    small->requantize = simd->requantize, small->widen = simd->widen;
    small->copy_pixels = simd->copy_pixels;
    return small;
}

int mo_qconv_bind_matrix(const struct mo_binder *binder, const struct mo_node *node,
                         const struct mo_matrix_unit *unit, struct mo_step *step, moire_error *err) {
    struct mo_conv c;
    struct mo_qconv q;
    if (!mo_qconv_geometry(binder->graph, node, &c, &q) || !lies_well(binder->graph, &c))
        return MOIRE_EUNSUPPORTED;
    struct mo_conv_small *small = small_of(binder, &c, &q);
    if (!small) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    return bind_matrix(binder, node, &c, &q, unit, small, step, err);
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    int rc = mo_qconv_bind_matrix(binder, node, binder->unit[MO_MATRIX_BYTES], step, err);
    if (rc != MOIRE_EUNSUPPORTED) return rc;
    struct mo_conv c;
    struct mo_qconv q;
    if (!mo_qconv_geometry(binder->graph, node, &c, &q) || !lies_well(binder->graph, &c))
        return MOIRE_EUNSUPPORTED;
    bool narrow = c.c <= 4 && c.groups == 1 && c.merge == 1; /* a matrix has 16 columns at least */
    struct mo_conv_small *small = small_of(binder, &c, &q);
    if (!small) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    bool tiles = c.depthwise ? c.dw == 1 : c.c > 4 || narrow;
    const struct mo_tiles *dot = tiles ? mo_dot_tiles_of(binder->isa, narrow) : NULL;
    small->dot = dot;
    set_requant(&small->requant, &q, &node->fuse, small->dot);
    enum mo_conv_kind kind = c.depthwise ? MO_CONV_DEPTHWISE : MO_CONV_BLOCKED;
    const enum mo_packing winograd = mo_winograd_bytes_packing(binder, node, &c);
    rc = winograd ? MOIRE_OK : mo_conv_walk_plan(binder, node, &c, kind, small, step, err);
    if (rc) return rc;
    const int32_t *sums;
    step->packing = winograd ? winograd : packing_of(&c, dot);
    step->kernel = name_of(&c, binder->isa, dot);
    rc = mo_pack_small(step->packing, binder->graph, node, binder->region, &step->weights, &sums, err);
    if (rc) return rc;
    if (!set_channels(binder, node, &c, &q, winograd ? MO_WINO_BYTES_CENTRE : 0, small, sums, step) ||
        (small->dot && !c.rows && !set_pack(binder, small)) ||
        (mo_isa_dot(binder->isa) && !set_args(binder, &q, small, step)))
        return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    return winograd ? mo_winograd_bytes_plan(binder, node, &c, winograd, small, step, err) : MOIRE_OK;
}

extern const struct mo_family mo_family_qconv;
const struct mo_family mo_family_qconv = {"qconv", layouts, bind};
