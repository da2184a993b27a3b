/* SPDX-License-Identifier: Apache-2.0
 * small_layer.c - layers of 8-bit numbers in the harness; see small_layer.h. */
#include "codegen/search/small_layer.h"

#include <math.h>
#include <string.h>
#include "codegen/search/oracle.h"
#include "runtime/base/numbers.h"
#include "runtime/ops/moire/qconv.h"

/* Steps of the output that its values deviate by: some reach the ends of the range. */
static const double SPREAD = 50;

/* A step of the output; 1 of floats. */
static double step_of(const struct mo_qconv *q) {
    return q->to == MOIRE_F32 ? 1 : (double)q->y_scale;
}

static uint32_t draw(uint64_t *state) {
    return (uint32_t)(mo_lcg(state) >> 16);
}

/* In [0, 1). */
static double share(uint64_t *state) {
    return (double)(draw(state) & 0xffffff) * 0x1p-24;
}

void mo_small_constants(struct mo_harness *h) {
    struct mo_qconv q;
    uint64_t state = 20251;
    const struct mo_tensor *w = mo_node_in(h->graph, h->node, MO_QCONV_WEIGHTS);
    const struct mo_tensor *f = mo_node_in(h->graph, h->node, MO_QCONV_FACTOR);
    const struct mo_tensor *b = mo_node_in(h->graph, h->node, MO_QCONV_BIAS);
    if (!mo_qconv_read(h->node, &q)) return;
    const int64_t n = mo_shape_count(&w->shape), outputs = w->shape.d[0], products = n / outputs;
    const double centre = 127.5 - q.x_zero, x2 = 256.0 * 256 / 12 + centre * centre;
    const double w2 = 255.0 * 255 / 12, deviation = sqrt(x2 * w2 * (double)products);
    for (int64_t i = 0; i < n; i++)
        ((int8_t *)w->data)[i] = (int8_t)((int)(draw(&state) % 255) - 127);
    for (int64_t i = 0; i < outputs; i++)
        ((float *)f->data)[i] = (float)(SPREAD * step_of(&q) * (0.5 + share(&state)) / deviation);
    for (int64_t i = 0; b && i < outputs; i++)
        ((float *)b->data)[i] = (float)(SPREAD * step_of(&q) * (share(&state) - 0.5));
}

void mo_small_fill(const struct mo_harness *h, enum mo_trial_data dataset, uint64_t seed, uint8_t *to,
                   int64_t n) {
    struct mo_qconv q;
    uint64_t state = seed * 7919;
    if (!mo_qconv_read(h->node, &q)) return;
    const uint8_t edges[4] = {0, 255, (uint8_t)q.x_zero, 0};
    for (int64_t i = 0; i < n; i++) {
        const uint32_t random = draw(&state);
        to[i] = dataset == MO_DATA_EDGES ? edges[random % 4] : (uint8_t)random;
    }
}

/* Exact. */
static int64_t product_at(const struct mo_harness *h, const struct mo_qconv *q, int64_t row, int64_t column) {
    const struct mo_tensor *w = mo_node_in(h->graph, h->node, MO_QCONV_WEIGHTS);
    const int64_t n = w->shape.d[1];
    const uint8_t *x = (const uint8_t *)h->args.in[MO_QCONV_X] + row * n;
    const int8_t *weights = (const int8_t *)w->data + column * n;
    int64_t sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += (int64_t)(x[k] - q->x_zero) * weights[k];
    return sum;
}

static int64_t sum_at(const struct mo_harness *h, const struct mo_qconv *q, const int64_t at[4]) {
    const struct mo_tensor *x = mo_node_in(h->graph, h->node, MO_QCONV_X);
    const struct mo_tensor *w = mo_node_in(h->graph, h->node, MO_QCONV_WEIGHTS);
    const uint8_t *data = h->args.in[MO_QCONV_X];
    const int8_t *weights = w->data;
    int64_t s[2] = {1, 1}, d[2] = {1, 1}, p[2], sum = 0;
    mo_attr_ints(h->node, "strides", s, 2);
    mo_attr_ints(h->node, "dilations", d, 2);
    const int64_t *k = w->shape.d + 2, per_group = w->shape.d[1];
    for (int i = 0; i < 2; i++)
        p[i] = mo_oracle_pad(h, i, k[i], s[i], d[i]);
    const int64_t group = at[1] / (w->shape.d[0] / mo_attr_int(h->node, "group", 1));
    for (int64_t c = 0; c < per_group; c++)
        for (int64_t i = 0; i < k[0]; i++)
            for (int64_t j = 0; j < k[1]; j++) {
                const int64_t from[4] = {at[0], group * per_group + c, at[2] * s[0] + i * d[0] - p[0],
                                         at[3] * s[1] + j * d[1] - p[1]};
                if (from[2] < 0 || from[2] >= x->shape.d[2] || from[3] < 0 || from[3] >= x->shape.d[3])
                    continue;
                sum += (int64_t)(data[mo_oracle_element(h, x, from)] - q->x_zero) *
                       weights[((at[1] * per_group + c) * k[0] + i) * k[1] + j];
            }
    return sum;
}

bool mo_small_oracle(const struct mo_harness *h, int64_t flat, const int64_t at[4], double *want,
                     double *allowed) {
    struct mo_qconv q;
    const struct mo_fuse *f = &h->node->fuse;
    const bool rows = !strcmp(h->node->op_type, "QMatMul");
    const int64_t n = h->out->shape.d[h->out->shape.rank - 1], channel = rows ? flat % n : at[1];
    if (!mo_qconv_read(h->node, &q) || (!rows && h->out->shape.rank != 4)) return false;
    const int64_t sum = rows ? product_at(h, &q, flat / n, channel) : sum_at(h, &q, at);
    const float *factor = mo_node_in(h->graph, h->node, MO_QCONV_FACTOR)->data;
    const struct mo_tensor *b = mo_node_in(h->graph, h->node, MO_QCONV_BIAS);
    const double product = (double)factor[channel] * (double)sum,
                 bias = b ? (double)((const float *)b->data)[channel] : 0;
    const double v = mo_oracle_activate(f->act, f->a, f->b, product + bias), step = step_of(&q);
    const bool clamps = f->act == MO_ACT_NONE || f->act == MO_ACT_RELU || f->act == MO_ACT_CLIP;
    *allowed =
        1e-6 * (fabs(product) + fabs(bias)) / step + (clamps ? 0 : 1e-5 * fmax(1, fabs(v)) / step) + 1e-6;
    *want = v / step + (q.to == MOIRE_F32 ? 0 : q.y_zero);
    if (q.to == MOIRE_F32) return true;
    const double low = q.to == MOIRE_I8 ? -128 : 0;
    *want = fmin(fmax(*want, low), low + 255);
    *allowed += 0.5;
    return true;
}
