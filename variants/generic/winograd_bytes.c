/* SPDX-License-Identifier: Apache-2.0
 * winograd_bytes.c - binds 3x3 convolutions of 8-bit numbers to Winograd's algorithm where products are of
 * int16 anyway and it does less work in all.
 *
 * Nothing is rounded.  With points 0, 1, -1, 2, -2 and infinity and each row of G times the least number that
 * makes it whole, filters U of F(4x4,3x3) are at most 7 x 7 x 128 and tiles V of x - 128 at most
 * 10 x 10 x 128: both fit int16.  Products are added modulo 2^32, and AT is multiplied so that its result is
 * the sum times 2^6 x 9 at most.  Divided by 9, which modulo 2^32 is a product, 26 bits of the sum are there:
 * they are all of it up to 227 input channels, and layers of more add up parts.  F(2x2,3x3) multiplies by 4.
 */
#include "variants/generic/winograd_bytes.h"

#include <math.h>
#include "variants/generic/bind.h"
#include "variants/packed.h"

enum {
    MIN_UNITS = 64,
    V_BYTES = 192 << 10, /* of a chunk of tiles, beside M and the filters in a private cache */
    MIN_CHUNK = 28,      /* tiles */
    DEEPEST = 14,        /* input blocks of a part, F(4x4,3x3): 9 x 128 x 128 x 227 < 2^25 */
    DEEPEST_SMALL = 224, /* F(2x2,3x3): 4 x 9 x 128 x 128 x 3640 < 2^31 */
    PACKED_BYTES =
        5 << 20 /* of filters of F(4x4,3x3), twice those of float32; F(2x2,3x3) has less than these */
};

/* Costs in products of vectors, as those of floats (variants/generic/winograd.c). */
static const double transform_cost = 8, weight_cost = 2.5, direct_cost_each = 1.15;

static const struct form {
    enum mo_packing packing;
    int m;
    const char *name;
} forms[] = {{MO_PACK_WHOLE_WINO4, 4, "qconv F(4x4,3x3)"}, {MO_PACK_WHOLE_WINO2, 2, "qconv F(2x2,3x3)"}};
enum { N_FORMS = sizeof forms / sizeof *forms };

static int64_t tiles_along(int64_t pixels, int m) {
    return (pixels + m - 1) / m;
}

static int64_t square_of(const struct form *form) {
    return (form->m + 2) * (form->m + 2);
}

/* INFINITY: not to be used. */
static double form_cost(const struct mo_conv *c, const struct form *form) {
    const double tiles = (double)(c->n * tiles_along(c->oh, form->m) * tiles_along(c->ow, form->m));
    const double in = (double)c->icb, out = (double)c->ocb, square = (double)square_of(form);
    if (form->m == 4 && square * in * out * 512 > PACKED_BYTES) return INFINITY;
    return square *
           (16 * in * out * tiles + transform_cost * (in + out) * tiles + 16 * in * out * weight_cost);
}

static double direct_cost(const struct mo_conv *c) {
    return 144 * (double)c->icb * (double)c->ocb *
           (direct_cost_each * (double)(c->n * c->oh * c->ow) + weight_cost);
}

/* Of a model whose weights are in memory packed only, none that wants them in another form. */
enum mo_packing mo_winograd_bytes_packing(const struct mo_binder *binder, const struct mo_node *node,
                                          const struct mo_conv *c) {
    const struct mo_tiles *tiles = mo_dot_tiles_of(binder->isa, false);
    bool fits = mo_conv_is_three(c) && !c->rows && c->c > 4 && c->icb <= DEEPEST_SMALL;
    if (!fits || !tiles || !tiles->wide[1]) return MO_PACK_NONE;
    enum mo_packing best = MO_PACK_NONE;
    bool direct = mo_packed_has(binder->graph, node, MO_PACK_PAIRS16, (9 * c->icb * 512 + 64) * c->ocb);
    double least = direct ? direct_cost(c) : INFINITY;
    for (int i = 0; i < N_FORMS; i++) {
        double cost = form_cost(c, &forms[i]);
        int64_t bytes = (square_of(&forms[i]) * c->icb * 512 + 64) * c->ocb;
        if (cost < least && mo_packed_has(binder->graph, node, forms[i].packing, bytes))
            least = cost, best = forms[i].packing;
    }
    return best;
}

/* Chunks of tiles as large as a private cache allows; groups of output blocks where the chunks are few.  No
 * two planes begin in the same cache set. */
static void choose_units(struct mo_winograd_bytes_params *p) {
    int64_t square = (p->m + 2) * (p->m + 2), most = V_BYTES / (square * p->blocks_in * 32);
    if (most < MIN_CHUNK) most = MIN_CHUNK;
    p->chunks = (p->total + most - 1) / most;
    p->groups = (MIN_UNITS + p->chunks - 1) / p->chunks;
    if (p->groups > p->blocks_out) p->groups = p->blocks_out;
    int64_t tiles = (p->total + p->chunks - 1) / p->chunks | 1;
    p->v_block = tiles * 32;
    p->v_plane = (p->blocks_in * p->v_block + 63) / 64 * 64 + 64;
    p->m_plane = tiles * 64 + 64;
    p->sum_row = tiles * p->m * 64;
    p->m_at = square * p->v_plane;
    p->sum_at = p->m_at + square * p->m_plane;
}

static void describe(const struct mo_binder *binder, const struct mo_conv *c, const struct form *form,
                     const struct mo_conv_small *small, struct mo_winograd_bytes_params *p) {
    p->tiles = mo_dot_tiles_of(binder->isa, false);
    p->m = form->m;
    p->blocks_in = c->icb, p->blocks_out = c->ocb;
    p->h = c->h, p->w = c->w, p->oh = c->oh, p->ow = c->ow, p->pt = c->pt, p->pl = c->pl;
    p->columns = tiles_along(c->ow, form->m);
    p->image_tiles = tiles_along(c->oh, form->m) * p->columns;
    p->total = c->n * p->image_tiles;
    p->parts = form->m == 4 ? (c->icb + DEEPEST - 1) / DEEPEST : 1;
    p->u_plane = c->icb * 512;
    p->zero = small->zero;
    p->y_pixel = c->y->dtype == MOIRE_F32 ? 64 : 16;
    choose_units(p);
    p->tile = (struct mo_tile){.n_taps = 1,
                               .x_outer = p->v_block,
                               .w_outer = 512,
                               .w_ahead = p->u_plane,
                               .bias = mo_keep_padded(binder, NULL, 16, 0)};
}

int mo_winograd_bytes_plan(const struct mo_binder *binder, const struct mo_node *node,
                           const struct mo_conv *c, enum mo_packing packing,
                           const struct mo_conv_small *small, struct mo_step *step, moire_error *err) {
    const struct form *form = packing == forms[0].packing ? &forms[0] : &forms[1];
    struct mo_winograd_bytes_params *p = mo_region_alloc(binder->region, sizeof *p);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    describe(binder, c, form, small, p);
    if (!p->tile.bias) return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory", node->name);
    p->requant = small->requant;
    p->factor = small->factor, p->bias = small->bias;
    step->kind = "generic";
    step->joint = p->groups > 1;
    step->flops = 18 * c->n * c->o * c->oh * c->ow * c->cg;
    step->bytes = c->n * (c->c * c->h * c->w + p->y_pixel / 16 * c->o * c->oh * c->ow) + 9 * c->o * c->cg;
    step->executed = 512 * square_of(form) * p->total * p->blocks_in * p->blocks_out;
    step->scratch_bytes = p->sum_at + p->m * p->sum_row;
    return mo_bound(step, mo_simd_of(binder->isa)->winograd_bytes, form->name, p, p->chunks * p->groups, err);
}
