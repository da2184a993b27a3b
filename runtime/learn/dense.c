/* SPDX-License-Identifier: Apache-2.0
 * dense.c - see dense.h. */
#include "runtime/learn/dense.h"

#include <string.h>
#include "runtime/base/numbers.h"

/* Loops over so many at once are what compilers turn into vectors. */
enum { LANES = 16 };
static const double mean_decay = 0.9, square_decay = 0.999, epsilon = 1e-8;

size_t mo_net_values(const int size[MO_NET_LAYERS + 1]) {
    size_t n = 0;
    for (int l = 0; l < MO_NET_LAYERS; l++)
        n += ((size_t)size[l] + 1) * (size_t)size[l + 1];
    return n;
}

/* W of a layer; its b follows. */
static float *weights_of(const struct mo_net *net, int layer) {
    float *at = net->values;
    for (int l = 0; l < layer; l++)
        at += ((size_t)net->size[l] + 1) * (size_t)net->size[l + 1];
    return at;
}

static size_t n_weights(const struct mo_net *net, int layer) {
    return (size_t)net->size[layer] * (size_t)net->size[layer + 1];
}

bool mo_net_make(struct mo_region *region, const int size[MO_NET_LAYERS + 1], struct mo_net *out) {
    memcpy(out->size, size, sizeof out->size);
    out->n = mo_net_values(size);
    out->values = mo_region_array(region, out->n, sizeof *out->values);
    return out->values;
}

void mo_net_draw(struct mo_net *net, uint64_t *rng) {
    float *at = net->values;
    for (int l = 0; l < MO_NET_LAYERS; l++) {
        const double bound = 1 / sqrt(net->size[l]);
        for (size_t n = n_weights(net, l) + (size_t)net->size[l + 1]; n; n--)
            *at++ = (float)(bound * (2 * mo_draw_unit(rng) - 1));
    }
}

void mo_net_copy(struct mo_net *to, const struct mo_net *from) {
    memcpy(to->values, from->values, from->n * sizeof *from->values);
}

void mo_net_follow(struct mo_net *to, const struct mo_net *from, double part) {
    float *restrict values = to->values;
    const float *restrict goal = from->values;
    const float step = (float)part;
    for (size_t i = 0; i < to->n; i++)
        values[i] += step * (goal[i] - values[i]);
}

bool mo_pass_make(struct mo_region *region, const struct mo_net *net, int rows, struct mo_pass *out) {
    bool ok = true;
    out->rows = rows;
    for (int l = 0; l < MO_NET_LAYERS; l++) {
        const size_t n = (size_t)rows * (size_t)net->size[l + 1];
        out->out[l] = mo_region_array(region, n, sizeof(float));
        out->slope[l] = mo_region_array(region, n, sizeof(float));
        ok = ok && out->out[l] && out->slope[l];
    }
    return ok;
}

/* What is no number stays so. */
static void rectify(float *y, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            y[i + l] = y[i + l] < 0 ? 0 : y[i + l];
    for (; i < n; i++)
        y[i] = y[i] < 0 ? 0 : y[i];
}

static void rectify_slope(const float *restrict y, float *restrict slope, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            slope[i + l] = y[i + l] > 0 ? slope[i + l] : 0;
    for (; i < n; i++)
        slope[i] = y[i] > 0 ? slope[i] : 0;
}

float *mo_net_forward(const struct mo_sgemm *sgemm, const struct mo_net *net, const float *x, int ldx,
                      int rows, struct mo_pass *pass) {
    pass->rows = rows;
    for (int l = 0; l < MO_NET_LAYERS; l++) {
        const int in = net->size[l], out = net->size[l + 1];
        const float *w = weights_of(net, l), *b = w + n_weights(net, l);
        float *y = pass->out[l];
        for (int r = 0; r < rows; r++)
            memcpy(y + (size_t)r * (size_t)out, b, (size_t)out * sizeof *b);
        mo_multiply(sgemm, &(struct mo_matrix_product){.m = rows,
                                                       .n = out,
                                                       .k = in,
                                                       .a = x,
                                                       .lda = ldx,
                                                       .b = w,
                                                       .ldb = out,
                                                       .c = y,
                                                       .ldc = out,
                                                       .add = true});
        if (l == MO_NET_LAYERS - 1) break;
        rectify(y, (size_t)rows * (size_t)out);
        x = y;
        ldx = out;
    }
    return pass->out[MO_NET_LAYERS - 1];
}

float *mo_pass_slope(struct mo_pass *pass) {
    return pass->slope[MO_NET_LAYERS - 1];
}

/* The slope by W and b of a layer from that by its outputs. */
static void slope_of_values(const struct mo_sgemm *sgemm, const struct mo_net *net, int layer, const float *x,
                            int ldx, const struct mo_pass *pass, float *to) {
    const int in = net->size[layer], out = net->size[layer + 1];
    const float *y = pass->slope[layer];
    float *bias = to + n_weights(net, layer);
    mo_multiply(sgemm, &(struct mo_matrix_product){.m = in,
                                                   .n = out,
                                                   .k = pass->rows,
                                                   .a = x,
                                                   .lda = ldx,
                                                   .a_across = true,
                                                   .b = y,
                                                   .ldb = out,
                                                   .c = to,
                                                   .ldc = out});
    memset(bias, 0, (size_t)out * sizeof *bias);
    for (int r = 0; r < pass->rows; r++)
        for (int j = 0; j < out; j++)
            bias[j] += y[(size_t)r * (size_t)out + (size_t)j];
}

static void slope_of_inputs(const struct mo_sgemm *sgemm, const struct mo_net *net, int layer,
                            const struct mo_pass *pass, float *to) {
    const int in = net->size[layer], out = net->size[layer + 1];
    mo_multiply(sgemm, &(struct mo_matrix_product){.m = pass->rows,
                                                   .n = in,
                                                   .k = out,
                                                   .a = pass->slope[layer],
                                                   .lda = out,
                                                   .b = weights_of(net, layer),
                                                   .ldb = out,
                                                   .b_across = true,
                                                   .c = to,
                                                   .ldc = in});
}

void mo_net_backward(const struct mo_sgemm *sgemm, const struct mo_net *net, const float *x, int ldx,
                     struct mo_pass *pass, float *values, float *x_slope) {
    for (int l = MO_NET_LAYERS - 1; l >= 0; l--) {
        const float *in = l ? pass->out[l - 1] : x;
        float *to = values ? values + (weights_of(net, l) - net->values) : NULL;
        if (to) slope_of_values(sgemm, net, l, in, l ? net->size[l] : ldx, pass, to);
        if (l == 0) break;
        float *before = pass->slope[l - 1];
        slope_of_inputs(sgemm, net, l, pass, before);
        rectify_slope(in, before, (size_t)pass->rows * (size_t)net->size[l]);
    }
    if (x_slope) slope_of_inputs(sgemm, net, 0, pass, x_slope);
}

bool mo_adam_make(struct mo_region *region, size_t n, struct mo_adam *out) {
    *out = (struct mo_adam){.n = n,
                            .mean = mo_region_array(region, n, sizeof(float)),
                            .square = mo_region_array(region, n, sizeof(float))};
    return out->mean && out->square;
}

void mo_adam_step(struct mo_adam *adam, float *values, const float *slope, double rate) {
    float *restrict mean = adam->mean, *restrict square = adam->square, *restrict to = values;
    const float *restrict g = slope;
    adam->steps++;
    const double mean_part = 1 - pow(mean_decay, (double)adam->steps);
    const double square_part = 1 - pow(square_decay, (double)adam->steps);
    const float step = (float)(rate / mean_part), scale = (float)(1 / sqrt(square_part)),
                small = (float)epsilon;
    const float keep = (float)mean_decay, keep_square = (float)square_decay;
    size_t i = 0;
    for (; i + LANES <= adam->n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            mean[i + l] = keep * mean[i + l] + (1 - keep) * g[i + l];
            square[i + l] = keep_square * square[i + l] + (1 - keep_square) * g[i + l] * g[i + l];
            to[i + l] -= step * mean[i + l] / (sqrtf(square[i + l]) * scale + small);
        }
    for (; i < adam->n; i++) {
        mean[i] = keep * mean[i] + (1 - keep) * g[i];
        square[i] = keep_square * square[i] + (1 - keep_square) * g[i] * g[i];
        to[i] -= step * mean[i] / (sqrtf(square[i]) * scale + small);
    }
}
