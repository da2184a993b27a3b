/* SPDX-License-Identifier: Apache-2.0
 * rows.c - what runs along one dimension: softmax, layer normalization, reductions.
 * Sums go over 16 fixed lanes, so the order of additions does not depend on the vector length. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

enum { LANE_COUNT = 16 };

static float sum_lanes(const float *lane) {
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = lane[i] + lane[i + 8];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static float row_sum(const float *x, int64_t n) {
    float lane[LANE_COUNT] = {0};
    int64_t whole = n / LANE_COUNT * LANE_COUNT;
    for (int64_t i = 0; i < whole; i += LANE_COUNT)
        for (int l = 0; l < LANE_COUNT; l++)
            lane[l] += x[i + l];
    for (int64_t i = whole; i < n; i++)
        lane[i - whole] += x[i];
    return sum_lanes(lane);
}

/* Largest element (sign 1) or smallest (sign -1), or NaN when there is one. */
static float row_extreme(const float *x, int64_t n, float sign) {
    float best = sign * x[0], lane[LANES];
    int64_t i = 0;
    if (n >= LANES) {
        vec most = sign * *(const vec *)x;
        for (i = LANES; i + LANES <= n; i += LANES)
            most = vec_most(sign * *(const vec *)(x + i), most);
        memcpy(lane, &most, sizeof lane);
        for (int l = 0; l < LANES; l++)
            best = nan_most(lane[l], best);
    }
    for (; i < n; i++)
        best = nan_most(sign * x[i], best);
    return sign * best;
}

static void softmax_row(const float *x, float *y, int64_t n, bool log) {
    float top = row_extreme(x, n, 1.0f);
    float lane[LANE_COUNT] = {0};
    int64_t whole = n / LANE_COUNT * LANE_COUNT;
    if (log) {
        for (int64_t i = 0; i < n; i++)
            lane[i % LANE_COUNT] += fast_exp(x[i] - top);
        float shift = top + logf(sum_lanes(lane));
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] - shift;
        return;
    }
    for (int64_t i = 0; i < whole; i += LANE_COUNT)
        for (int l = 0; l < LANE_COUNT; l++) {
            float e = fast_exp(x[i + l] - top);
            y[i + l] = e;
            lane[l] += e;
        }
    for (int64_t i = whole; i < n; i++) {
        y[i] = fast_exp(x[i] - top);
        lane[i - whole] += y[i];
    }
    float scale = 1.0f / sum_lanes(lane);
    for (int64_t i = 0; i < n; i++)
        y[i] *= scale;
}

/* `width` columns of [n][inner], in steps of at most MO_SLICE. */
static void softmax_columns(const float *x, float *y, int64_t n, int64_t inner, int64_t width, bool log) {
    float top[MO_SLICE], sum[MO_SLICE];
    for (int64_t j = 0; j < width; j++) {
        top[j] = x[j];
        sum[j] = 0.0f;
    }
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = 0; j < width; j++)
            top[j] = most(x[i * inner + j], top[j]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++) {
            float e = fast_exp(x[i * inner + j] - top[j]);
            if (!log) y[i * inner + j] = e;
            sum[j] += e;
        }
    for (int64_t j = 0; j < width; j++)
        sum[j] = log ? top[j] + logf(sum[j]) : 1.0f / sum[j];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++)
            y[i * inner + j] = log ? x[i * inner + j] - sum[j] : y[i * inner + j] * sum[j];
}

void MO_SIMD(softmax)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_softmax_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t at = unit / p->chunks * p->n * p->inner, column = unit % p->chunks * MO_SLICE;
        const float *x = (const float *)args->in[0] + at + column;
        float *y = (float *)args->out[0] + at + column;
        if (p->inner == 1)
            softmax_row(x, y, p->n, p->log);
        else
            softmax_columns(x, y, p->n, p->inner, p->inner - column < MO_SLICE ? p->inner - column : MO_SLICE,
                            p->log);
    }
}

void MO_SIMD(layernorm)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_layernorm_params *p = args->params;
    const float *scale = args->in[1], *bias = args->in[2];
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const float *x = (const float *)args->in[0] + unit * p->n;
        float *y = (float *)args->out[0] + unit * p->n;
        float mean = row_sum(x, p->n) / (float)p->n, lane[LANE_COUNT] = {0};
        int64_t whole = p->n / LANE_COUNT * LANE_COUNT;
        for (int64_t i = 0; i < whole; i += LANE_COUNT)
            for (int l = 0; l < LANE_COUNT; l++)
                lane[l] += (x[i + l] - mean) * (x[i + l] - mean);
        for (int64_t i = whole; i < p->n; i++)
            lane[i - whole] += (x[i] - mean) * (x[i] - mean);
        float scaled = 1.0f / sqrtf(sum_lanes(lane) / (float)p->n + p->epsilon);
        if (bias)
            for (int64_t i = 0; i < p->n; i++)
                y[i] = (x[i] - mean) * scaled * scale[i] + bias[i];
        else
            for (int64_t i = 0; i < p->n; i++)
                y[i] = (x[i] - mean) * scaled * scale[i];
    }
}

static float reduce_row(const struct mo_reduce_params *p, const float *x) {
    switch (p->op) {
    case MO_REDUCE_MAX:
        return row_extreme(x, p->n, 1.0f);
    case MO_REDUCE_MIN:
        return row_extreme(x, p->n, -1.0f);
    case MO_REDUCE_SUM:
        return row_sum(x, p->n);
    default:
        return row_sum(x, p->n) / (float)p->n;
    }
}

static void reduce_columns(const struct mo_reduce_params *p, const float *x, float *y, int64_t width) {
    for (int64_t j = 0; j < width; j++)
        y[j] = x[j];
    for (int64_t i = 1; i < p->n; i++) {
        const float *row = x + i * p->inner;
        if (p->op == MO_REDUCE_MAX)
            for (int64_t j = 0; j < width; j++)
                y[j] = nan_most(row[j], y[j]);
        else if (p->op == MO_REDUCE_MIN)
            for (int64_t j = 0; j < width; j++)
                y[j] = nan_least(row[j], y[j]);
        else
            for (int64_t j = 0; j < width; j++)
                y[j] += row[j];
    }
    if (p->op == MO_REDUCE_MEAN)
        for (int64_t j = 0; j < width; j++)
            y[j] /= (float)p->n;
}

void MO_SIMD(reduce)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_reduce_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t outer = unit / p->chunks, column = unit % p->chunks * MO_SLICE;
        const float *x = (const float *)args->in[0] + outer * p->n * p->inner + column;
        float *y = (float *)args->out[0] + outer * p->inner + column;
        if (p->inner == 1)
            *y = reduce_row(p, x);
        else
            reduce_columns(p, x, y, p->inner - column < MO_SLICE ? p->inner - column : MO_SLICE);
    }
}
