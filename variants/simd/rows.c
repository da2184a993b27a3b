/* SPDX-License-Identifier: Apache-2.0
 * rows.c - what runs along one dimension: softmax, layer normalization, reductions.
 * Sums go over fixed lanes, so the order of additions does not depend on the vector length. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

enum { LANE_COUNT = 16, LANE_VECS = LANE_COUNT / LANES };

typedef float half_lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef float quarter_lanes __attribute__((vector_size(16), aligned(4), may_alias));

/* By halves: lane i and lane i + 8, then 4, 2 and 1 apart. */
static inline float sum_lanes(const float *lane) {
    const half_lanes s = *(const half_lanes *)lane + *(const half_lanes *)(lane + 8);
    const quarter_lanes t =
        __builtin_shufflevector(s, s, 0, 1, 2, 3) + __builtin_shufflevector(s, s, 4, 5, 6, 7);
    return (t[0] + t[2]) + (t[1] + t[3]);
}

/* Sums of a row: four sets of lanes, so that an addition does not wait for the one before. */
enum { SETS = 4, STEP = SETS * LANE_COUNT };
struct row_sums {
    vec set[SETS][LANE_VECS];
};

/* Adds elements, or the squares of their distances from `mean`, of 16 lanes to a set. */
static inline __attribute__((always_inline)) void add_lanes(vec *set, const float *x, float mean,
                                                            bool squares) {
    for (int v = 0; v < LANE_VECS; v++) {
        const vec at = *(const vec *)(x + v * LANES);
        if (squares)
            set[v] += (at - mean) * (at - mean);
        else
            set[v] += at;
    }
}

static inline __attribute__((always_inline)) float sum_row(const float *x, int64_t n, float mean,
                                                           bool squares) {
    struct row_sums sum = {{{{0}}}};
    float lane[LANE_COUNT];
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP)
#pragma GCC unroll 4
        for (int s = 0; s < SETS; s++)
            add_lanes(sum.set[s], x + i + s * LANE_COUNT, mean, squares);
    const int64_t rest = (n - i) / LANE_COUNT;
#pragma GCC unroll 4
    for (int s = 0; s < SETS - 1; s++)
        if (s < rest) add_lanes(sum.set[s], x + i + s * LANE_COUNT, mean, squares);
    i += rest * LANE_COUNT;
    for (int v = 0; v < LANE_VECS; v++)
        *(vec *)(lane + v * LANES) = (sum.set[0][v] + sum.set[1][v]) + (sum.set[2][v] + sum.set[3][v]);
    for (int k = 0; i < n; i++, k++)
        lane[k] += squares ? (x[i] - mean) * (x[i] - mean) : x[i];
    return sum_lanes(lane);
}

static float row_sum(const float *x, int64_t n) {
    return sum_row(x, n, 0.0f, false);
}

static float row_squares(const float *x, int64_t n, float mean) {
    return sum_row(x, n, mean, true);
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

/* y may be x; without a bias it is NULL. */
static void normalize_row(const float *x, float *y, int64_t n, float mean, float scaled, const float *scale,
                          const float *bias) {
    int64_t i = 0;
    for (; bias && i + LANES <= n; i += LANES)
        *(vec *)(y + i) =
            (*(const vec *)(x + i) - mean) * scaled * *(const vec *)(scale + i) + *(const vec *)(bias + i);
    for (; i + LANES <= n; i += LANES)
        *(vec *)(y + i) = (*(const vec *)(x + i) - mean) * scaled * *(const vec *)(scale + i);
    for (; i < n; i++)
        y[i] = (x[i] - mean) * scaled * scale[i] + (bias ? bias[i] : 0.0f);
}

/* Several rows at a time, so that the divisions of one do not hold up the sums of the next. */
void MO_SIMD(layernorm)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    enum { ROWS = 4 };
    const struct mo_layernorm_params *p = args->params;
    const int64_t n = p->n;
    const float epsilon = p->epsilon;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit += ROWS) {
        const int64_t rows = end - unit < ROWS ? end - unit : ROWS;
        const float *x = (const float *)args->in[0] + unit * n;
        float *y = (float *)args->out[0] + unit * n, mean[ROWS], scaled[ROWS];
        for (int64_t r = 0; r < rows; r++)
            mean[r] = p->centred ? row_sum(x + r * n, n) / (float)n : 0.0f;
        for (int64_t r = 0; r < rows; r++)
            scaled[r] = 1.0f / sqrtf(row_squares(x + r * n, n, mean[r]) / (float)n + epsilon);
        for (int64_t r = 0; r < rows; r++)
            normalize_row(x + r * n, y + r * n, n, mean[r], scaled[r], args->in[1], args->in[2]);
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
