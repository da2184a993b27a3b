/* SPDX-License-Identifier: Apache-2.0
 * pack_small.c - filters of 8-bit numbers, in the order of the dot-product kernels or as floats. */
#include "variants/conv_geometry.h"

#include <string.h>
#include "variants/packed.h"

/* [group][OC/16][IC/16][taps][steps][16 oc][4 ic], 4 steps a block or 1 in all; merged groups leave zeros off
 * the diagonal. */
static void pack_dot(const struct mo_conv *c, int64_t steps, int8_t *out, int32_t *sums) {
    const int8_t *w = c->weights->data;
    int64_t taps = c->kh * c->kw, cg = c->cg / c->merge, og = c->og / c->merge;
    for (int64_t o = 0; o < c->o; o++) {
        int64_t block = o / c->og * c->ocb + o % c->og / 16, lane = o % c->og % 16;
        for (int64_t i = 0; i < cg; i++) {
            int64_t ic = o % c->og / og * cg + i;
            int8_t *to = out + ((block * c->icb + ic / 16) * taps * steps + ic % 16 / 4) * 64 + lane * 4 + ic % 4;
            for (int64_t t = 0; t < taps; t++) {
                to[t * steps * 64] = w[(o * cg + i) * taps + t];
                sums[block * 16 + lane] += w[(o * cg + i) * taps + t];
            }
        }
    }
}

/* The same packing as that of a filter of floats. */
static bool pack_floats(const struct mo_graph *graph, const struct mo_conv *c, enum mo_packing packing,
                        float *out) {
    int64_t n = mo_shape_count(&c->weights->shape);
    float *wide = mo_alloc(graph->env, (size_t)n * sizeof *wide);
    if (!wide) return false;
    for (int64_t i = 0; i < n; i++)
        wide[i] = ((const int8_t *)c->weights->data)[i];
    struct mo_tensor weights = *c->weights;
    struct mo_conv floats = *c;
    weights.data = wide;
    floats.weights = &weights;
    mo_pack_filter(packing, &floats, out);
    mo_free(graph->env, wide);
    return true;
}

int mo_pack_small(enum mo_packing packing, const struct mo_graph *graph, const struct mo_node *node,
                  struct mo_region *region, const void **weights, const int32_t **sums, moire_error *err) {
    struct mo_conv c;
    struct mo_qconv q;
    bool read = mo_qconv_geometry(graph, node, &c, &q), filled;
    bool narrow = packing == MO_PACK_NARROW16, dot = narrow || packing == MO_PACK_DOT16;
    int64_t blocks = c.groups * c.ocb, steps = narrow ? 1 : 4;
    int64_t products = blocks * c.icb * c.kh * c.kw * steps * 64;
    int64_t bytes = dot ? products + blocks * 64 : 4 * mo_filter_floats(packing, &c);
    if (!read || bytes < 0 || (dot && c.depthwise) || (narrow && (c.groups > 1 || c.c > 4)))
        return mo_fail(err, MOIRE_EUNSUPPORTED, "node '%s' (%s): weights do not fit packing %d", node->name,
                       node->op_type, (int)packing);
    char *w = mo_packed_take(graph, node, region, (int)packing, (size_t)bytes, &filled);
    if (!w) return mo_packed_fault(graph, node, err);
    if (dot && !filled) pack_dot(&c, steps, (int8_t *)w, (int32_t *)(w + products));
    if (!dot && !filled && !pack_floats(graph, &c, packing, (float *)w))
        return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory for packed weights", node->name);
    *weights = w;
    *sums = dot ? (const int32_t *)(w + products) : NULL;
    return MOIRE_OK;
}
