/* SPDX-License-Identifier: Apache-2.0
 * matrix_terms.c - whether a layer of float32 is faster on a matrix unit, where each number is the sum of
 * three of bfloat16, than by vectors.
 *
 * Both are estimated in cycles of a core that has such a unit: AVX-512 with two multipliers and AMX with 16
 * cycles a product of tiles (Intel since Sapphire Rapids).  Its numbers were fitted to layers of ResNet-50,
 * most of which they meet within 20 %; layers of RegNet, ViT and MobileNet-v3 are decided rightly by them. */
#include "variants/matrix/matrix_walk.h"

/* Cycles: of a product of tiles, 80 % of the unit's pace; of a float of the input, read and made three; and
 * of one of the output.  Bytes of weights in a cycle, from the last cache. */
static const double product = 16 / 0.8, gathered = 1.1, written = 0.3, weight_bytes = 6;
enum { PRODUCTS = 6 }; /* of terms for one of numbers */

/* Of vectors: operations in a cycle; bytes of weights; transforms of Winograd's, of a float. */
static const double operations = 54, vector_weight_bytes = 12, winograd_weight_bytes = 8.5, transform = 1.4;

static double unit_cycles(const struct mo_conv *c, const struct mo_matrix_shape *s) {
    const double images = (double)(c->n * c->groups), outputs = (double)(c->ocb * 16 * c->oh * c->ow);
    const double tiles = (double)mo_matrix_image_tiles(c, s), inputs = (double)(c->icb * 16 * c->h * c->w);
    const double products = tiles * (double)(c->ocb * s->steps * PRODUCTS);
    return images * (products * product + inputs * gathered + outputs * (c->residual ? 2 : 1) * written) +
           (double)mo_matrix_weight_bytes(s, c) / weight_bytes;
}

/* F(4x4,3x3): 36 products of channels for a tile of 16 outputs, and 36 weights for 9. */
static double winograd_cycles(const struct mo_conv *c) {
    const int64_t across = (c->ow + 3) / 4, down = (c->oh + 3) / 4;
    const double tiles = (double)(c->n * across * down), weights = (double)(c->c * c->o);
    return tiles * 36 * 2 * weights / operations + tiles * 16 * (double)(c->c + c->o) * transform +
           36 * 4 * weights / winograd_weight_bytes;
}

static double direct_cycles(const struct mo_conv *c) {
    const int64_t channels = c->cg / c->merge;
    const double weights = (double)(channels * c->o * c->kh * c->kw);
    return (double)(c->n * c->oh * c->ow) * 2 * weights / operations + 4 * weights / vector_weight_bytes;
}

double mo_matrix_terms_gain(const struct mo_conv *c, const struct mo_matrix_shape *s) {
    double vectors = direct_cycles(c);
    if (mo_conv_is_three(c) && winograd_cycles(c) < vectors) vectors = winograd_cycles(c);
    return vectors / unit_cycles(c, s);
}
