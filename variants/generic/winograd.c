/* SPDX-License-Identifier: Apache-2.0
 * winograd.c - binds 3x3 convolutions to the built-in Winograd kernels where these do less work in all.
 *
 * F(4x4,3x3) needs 4 times fewer products than the sum itself, F(2x2,3x3) 2.25 times; both pay with
 * transforms of the tiles, with tiles that hang over the border, and with transformed filters U that are 4 or
 * 1.8 times as large.  U comes in two ways:
 *   packed, where it is small (MO_WINO_PACKED_BYTES);
 *   everywhere else transformed by the kernel from the packing of the direct kernels, so that weights are in
 *   memory once and at their size.  That costs some 6 products for each element of U, which few tiles do not
 *   repay.
 * The choice counts in units of one product of vectors (costs measured on two Zen 4 cores with weights out of
 * cache). */
#include <math.h>
#include "variants/conv_geometry.h"
#include "variants/generic/bind.h"
#include "variants/packed.h"
#include "variants/winograd_matrices.h"

enum {
    MIN_UNITS = 64,
    V_BYTES = 512 << 10, /* of a chunk of tiles: stays in a private cache */
    MIN_CHUNK = 28,      /* tiles: with fewer, weights arrive slower than they are used */
    NEAR_BYTES = 2048,
    SLICE_BYTES = 32 << 10,
    U_BYTES = 320 << 10, /* of a set and a part of the input blocks, in the scratch */
    REUSE_CHUNK = 64     /* tiles that share a transform of the filters, if there are so many */
};

/* Costs in products of vectors: an element of a transformed tile; a vector of weights that is streamed; a
 * transformed vector of weights, and what each filter costs besides; a product of the plain sum, whose tiles
 * at the border are short. */
static const double transform_cost = 8, weight_cost = 2.5, element_cost = 4.4, filter_cost = 58,
                    direct_cost_each = 1.15;

static const struct form {
    int m;
    bool transforms;
    const char *names[MO_ISA_COUNT];
} forms[] = {
    {4, false, MO_LEVEL_NAMES("conv F(4x4,3x3)")},
    {2, false, MO_LEVEL_NAMES("conv F(2x2,3x3)")},
    {4, true, MO_LEVEL_NAMES("conv F(4x4,3x3) plain")},
    {2, true, MO_LEVEL_NAMES("conv F(2x2,3x3) plain")},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static enum mo_packing packing_of(const struct form *form) {
    return mo_winograd_packing(form->m, 3, 1, false);
}

static int64_t tiles_along(int64_t pixels, int m) {
    return (pixels + m - 1) / m;
}

/* INFINITY: not to be used. */
static double form_cost(const struct mo_conv *c, const struct form *form) {
    struct mo_winograd w;
    if (!mo_winograd_of(packing_of(form), &w)) return INFINITY;
    double tiles = (double)(c->n * tiles_along(c->oh, w.m) * tiles_along(c->ow, w.m));
    double in = (double)c->icb, out = (double)c->ocb, square = w.alpha * w.alpha;
    double weights = square * weight_cost;
    if (form->transforms)
        weights = square * element_cost + filter_cost;
    else if (square * in * out * 1024 > MO_WINO_PACKED_BYTES)
        return INFINITY;
    return square * (16 * in * out * tiles + transform_cost * (in + out) * tiles) + 16 * in * out * weights;
}

static double direct_cost(const struct mo_conv *c) {
    /* taps outside the image are skipped */
    double rows = 3 * (double)c->oh - (c->pt > 0) - (c->pb > 0),
           cols = 3 * (double)c->ow - (c->pl > 0) - (c->pr > 0);
    return 16 * (double)c->icb * (double)c->ocb *
           (direct_cost_each * (double)c->n * rows * cols + 9 * weight_cost);
}

static bool has_weights(const struct mo_graph *graph, const struct mo_node *node, enum mo_packing packing) {
    return mo_packed_has(graph, node, packing, mo_pack_bytes(packing, graph, node));
}

/* The form to use, or NULL: the plain sum is as fast, or asked for.  Of a model whose weights are in memory
 * packed only, none that wants them in another form. */
static const struct form *choose(const struct mo_graph *graph, const struct mo_node *node,
                                 const struct mo_conv *c) {
    if (!mo_conv_is_three(c) || graph->exact) return NULL;
    const struct form *best = NULL;
    double least = has_weights(graph, node, MO_PACK_CONV16) ? direct_cost(c) : INFINITY;
    for (int i = 0; i < N_FORMS; i++) {
        double cost = form_cost(c, &forms[i]);
        const enum mo_packing packing = forms[i].transforms ? MO_PACK_CONV16 : packing_of(&forms[i]);
        if (cost < least && has_weights(graph, node, packing)) least = cost, best = &forms[i];
    }
    return best;
}

static unsigned layouts(const struct mo_graph *graph, const struct mo_node *node) {
    struct mo_conv c;
    return mo_conv_read(graph, node, &c) && choose(graph, node, &c) ? MO_CAN_C16 : 0;
}

/* Where transformed filters are: packed, or a part of them in the scratch. */
static void choose_parts(struct mo_winograd_params *p) {
    int64_t square = (p->m + 2) * (p->m + 2), depth = U_BYTES / (square * p->set * 1024);
    p->u_at = p->m_at + square * p->set * p->m_block;
    p->parts = p->transforms ? (p->blocks_in + depth - 1) / depth : 1;
    p->u_plane = (p->blocks_in + p->parts - 1) / p->parts * 256;
    if (p->transforms) p->u_plane += 16; /* planes in different sets, as below */
}

/* Chunks of tiles as large as a private cache allows; groups of output blocks where the chunks are few. */
static void choose_units(struct mo_winograd_params *p) {
    int64_t square = (p->m + 2) * (p->m + 2), most = V_BYTES / (square * p->blocks_in * 64);
    int64_t least = p->transforms ? REUSE_CHUNK : MIN_CHUNK;
    if (most < least) most = least;
    p->chunks = (p->total + most - 1) / most;
    p->groups = (MIN_UNITS + p->chunks - 1) / p->chunks;
    if (p->groups > p->blocks_out) p->groups = p->blocks_out;
    /* an odd number of lines between blocks, one more between planes: no two planes in the same cache sets */
    int64_t tiles = (p->total + p->chunks - 1) / p->chunks | 1;
    p->v_block = p->m_block = tiles * 16;
    p->v_plane = p->blocks_in * p->v_block + 16;
    p->m_at = square * p->v_plane;
    choose_parts(p);
}

static void describe_tile(struct mo_winograd_params *p, const float *zeros) {
    int64_t slice = p->u_plane * 4, square = (p->m + 2) * (p->m + 2);
    p->tile = (struct mo_tile){.n_taps = 1,
                               .x_outer = p->v_block * 4,
                               .w_outer = 1024,
                               .w_ahead = slice <= SLICE_BYTES ? slice : NEAR_BYTES,
                               .w_block = square * slice,
                               .y_block = p->m_block * 4,
                               .res_block = p->m_block * 4,
                               .px = 64,
                               .bias = zeros,
                               .lo = -INFINITY,
                               .hi = INFINITY};
}

static void describe_epilogue(struct mo_winograd_params *p, const struct mo_fuse *f) {
    p->fuse = *f;
    p->clamp = (f->act == MO_ACT_NONE || f->act == MO_ACT_RELU || f->act == MO_ACT_CLIP) &&
               (f->residual < 0 || !f->residual_last || f->act == MO_ACT_NONE);
    p->lo = f->act == MO_ACT_RELU ? 0 : f->act == MO_ACT_CLIP ? f->a : -INFINITY;
    p->hi = f->act == MO_ACT_CLIP ? f->b : INFINITY;
}

static struct mo_winograd_params *describe(const struct mo_binder *binder, const struct mo_conv *c,
                                           const struct form *form, const struct mo_fuse *fuse) {
    struct mo_winograd_params *p = mo_region_alloc(binder->region, sizeof *p);
    const float *zeros = mo_keep_padded(binder, NULL, 16 * MO_TILE_BLOCKS, 0);
    struct mo_winograd w;
    if (!p || !zeros || !mo_winograd_of(packing_of(form), &w)) return NULL;
    p->tiles = mo_tiles_of(binder->isa);
    p->m = w.m;
    p->transforms = form->transforms;
    p->blocks_in = c->icb, p->blocks_out = c->ocb;
    p->h = c->h, p->w = c->w, p->oh = c->oh, p->ow = c->ow, p->pt = c->pt, p->pl = c->pl;
    p->columns = tiles_along(c->ow, w.m);
    p->image_tiles = tiles_along(c->oh, w.m) * p->columns;
    p->total = c->n * p->image_tiles;
    p->set = c->ocb > 1 && p->tiles->max_pixels[2] ? 2 : 1;
    for (int i = 0; i < MO_WINO_BUILT_ALPHA; i++)
        for (int j = 0; j < MO_WINO_BUILT_ALPHA; j++) {
            if (j < 3) p->g[i][j] = (float)w.g[i][j];
            p->bt[i][j] = (float)w.bt[i][j];
            if (i < MO_WINO_BUILT_M) p->at[i][j] = (float)w.at[i][j];
        }
    choose_units(p);
    describe_tile(p, zeros);
    describe_epilogue(p, fuse);
    return p;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    struct mo_conv c;
    if (!mo_conv_read(binder->graph, node, &c) || c.x->layout != MO_C16 || c.y->layout != MO_C16 ||
        (c.residual && c.residual->layout != MO_C16))
        return MOIRE_EUNSUPPORTED;
    const struct form *form = choose(binder->graph, node, &c);
    if (!form) return MOIRE_EUNSUPPORTED;
    const struct mo_winograd_params *p = describe(binder, &c, form, &node->fuse);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    step->packing = form->transforms ? MO_PACK_CONV16 : packing_of(form);
    int rc =
        mo_pack_weights(step->packing, binder->graph, node, binder->region, &step->weights, &step->bias, err);
    if (rc) return rc;
    int64_t square = (p->m + 2) * (p->m + 2);
    step->mixes = true;
    step->joint = p->groups > 1; /* of one chunk of tiles, transformed */
    step->executed = 512 * square * p->total * p->blocks_in * p->blocks_out; /* of the products */
    step->scratch_bytes = 4 * (p->u_at + (p->transforms ? square * p->set * p->u_plane : 0));
    return mo_bound(step, mo_simd_of(binder->isa)->winograd, form->names[binder->isa], p,
                    p->chunks * p->groups, err);
}

const struct mo_family mo_family_winograd = {"winograd", layouts, bind};
