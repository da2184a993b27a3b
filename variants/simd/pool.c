/* SPDX-License-Identifier: Apache-2.0
 * pool.c - max and average pooling over windows, and global pooling, in both layouts.
 * Windows are clipped to the input, so padding costs nothing; 16 channels move together when blocked. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

/* Elements an average divides by: taps inside the input, or inside the padded input. */
static float divisor(const struct mo_pool_params *p, int64_t y0, int64_t x0, int64_t inside) {
    if (!p->include_pad) return (float)(inside ? inside : 1);
    int64_t lo, hi, rows, columns;
    mo_clip_taps(y0 + p->pt, p->kh, p->dh, p->h + p->pt + p->pb, &lo, &hi);
    rows = hi - lo;
    mo_clip_taps(x0 + p->pl, p->kw, p->dw, p->w + p->pl + p->pr, &lo, &hi);
    columns = hi - lo;
    return rows > 0 && columns > 0 ? (float)(rows * columns) : 1.0f;
}

static inline __attribute__((always_inline)) float join(const bool max, float a, float b) {
    return max ? most(a, b) : a + b;
}

/* Down the columns: line = join of the rows [first, last) of the window, two at a time. */
static inline __attribute__((always_inline)) void join_rows(const struct mo_pool_params *p, const float *x,
                                                            float *restrict line, const bool max, int64_t y0,
                                                            int64_t first, int64_t last) {
    const int64_t n = p->w * p->lanes;
    const float *a = x + (y0 + first * p->dh) * n;
    int64_t i = first + 1;
    if (first >= last) {
        for (int64_t j = 0; j < n; j++)
            line[j] = max ? -INFINITY : 0.0f;
        return;
    }
    if ((last - first) % 2) {
        memcpy(line, a, (size_t)n * sizeof *line);
    } else {
        const float *b = x + (y0 + i * p->dh) * n;
        for (int64_t j = 0; j < n; j++)
            line[j] = join(max, a[j], b[j]);
        i++;
    }
    for (; i < last; i += 2) {
        const float *b = x + (y0 + i * p->dh) * n, *c = x + (y0 + (i + 1) * p->dh) * n;
        for (int64_t j = 0; j < n; j++)
            line[j] = join(max, line[j], join(max, b[j], c[j]));
    }
}

/* Along the line: one output of `lanes` channels from taps [left, right). */
static inline __attribute__((always_inline)) void join_taps(const struct mo_pool_params *p, const float *line,
                                                            float *y, const int lanes, const bool max,
                                                            int64_t x0, int64_t left, int64_t right,
                                                            float scale) {
    float acc[16], tap[16];
    const int64_t step = p->dw * lanes;
    const float *at = line + (x0 + left * p->dw) * lanes;
    for (int l = 0; l < lanes; l++)
        acc[l] = left < right ? at[l] : max ? -INFINITY : 0.0f;
    for (int64_t j = left + 1; j < right; j++) {
        at += step;
        memcpy(tap, at, (size_t)lanes * sizeof *tap);
        for (int l = 0; l < lanes; l++)
            acc[l] = join(max, acc[l], tap[l]);
    }
    for (int l = 0; l < lanes; l++)
        acc[l] = max ? acc[l] : acc[l] * scale;
    memcpy(y, acc, (size_t)lanes * sizeof *y);
}

/* The most common windows, 2 and 3 wide, away from the edges: no loop over taps. */
static inline __attribute__((always_inline)) void join_inside(const struct mo_pool_params *p,
                                                              const float *line, float *y, const int lanes,
                                                              const bool max, const int taps, int64_t first,
                                                              int64_t last, float scale) {
    for (int64_t i = first; i < last; i++) {
        const float *at = line + (i * p->sw - p->pl) * lanes;
        float a[16], b[16], c[16];
        memcpy(a, at, (size_t)lanes * sizeof *a);
        memcpy(b, at + p->dw * lanes, (size_t)lanes * sizeof *b);
        if (taps == 3) memcpy(c, at + 2 * p->dw * lanes, (size_t)lanes * sizeof *c);
        for (int l = 0; l < lanes; l++) {
            float v = join(max, a[l], b[l]);
            if (taps == 3) v = join(max, v, c[l]);
            a[l] = max ? v : v * scale;
        }
        memcpy(y + i * lanes, a, (size_t)lanes * sizeof *y);
    }
}

static inline __attribute__((always_inline)) void window_row(const struct mo_pool_params *p, const float *x,
                                                             float *y, float *line, const int lanes,
                                                             const bool max, int64_t y0) {
    int64_t top, bottom, left, right, i = 0;
    int64_t first = (p->pl + p->sw - 1) / p->sw, last = (p->w + p->pl - (p->kw - 1) * p->dw - 1) / p->sw + 1;
    mo_clip_taps(y0, p->kh, p->dh, p->h, &top, &bottom);
    join_rows(p, x, line, max, y0, top, bottom);
    if (last > p->ow) last = p->ow;
    bool quick = (p->kw == 2 || p->kw == 3) && p->w + p->pl > (p->kw - 1) * p->dw && first < last;
    if (!quick) first = last = 0;
    while (i < p->ow) {
        if (i == first && first < last) {
            float scale = max ? 1.0f : 1.0f / divisor(p, y0, i * p->sw - p->pl, (bottom - top) * p->kw);
            if (p->kw == 3)
                join_inside(p, line, y, lanes, max, 3, first, last, scale);
            else
                join_inside(p, line, y, lanes, max, 2, first, last, scale);
            i = last;
            continue;
        }
        int64_t x0 = i * p->sw - p->pl;
        mo_clip_taps(x0, p->kw, p->dw, p->w, &left, &right);
        float scale = max ? 1.0f : 1.0f / divisor(p, y0, x0, (bottom - top) * (right - left));
        join_taps(p, line, y + i * lanes, lanes, max, x0, left, right, scale);
        i++;
    }
}

/* The largest of column j, clamped into [0, last], of three rows (the same one twice where the window has
 * fewer). */
static inline __attribute__((always_inline)) vec_value largest_of(const float *const row[3], int64_t j,
                                                                  int64_t last) {
    const int64_t at = (j < 0 ? 0 : j > last ? last : j) * 16;
    return vec_larger(vec_larger(*(const vec *)(row[0] + at), *(const vec *)(row[1] + at)),
                      *(const vec *)(row[2] + at));
}

/* Maxima of 3 x 3 in C16, `step` 1 or 2: a column's maximum is taken once and stays in a register for the
 * windows that share it.  Every window meets the image, so that a column or row beyond an edge can be
 * replaced by the one at the edge. */
static inline __attribute__((always_inline)) void max3_row(const struct mo_pool_params *p, const float *x,
                                                           float *y, const int step, int64_t y0) {
    const int64_t line = p->w * 16, last = p->w - 1, bottom = p->h - 1;
    for (int part = 0; part < 16; part += LANES) {
        const float *row[3];
        for (int i = 0; i < 3; i++)
            row[i] = x + part + (y0 + i < 0 ? 0 : y0 + i > bottom ? bottom : y0 + i) * line;
        vec_value a = largest_of(row, -p->pl, last), b = largest_of(row, 1 - p->pl, last), c;
        for (int64_t i = 0; i < p->ow; i++) {
            const int64_t x0 = i * step - p->pl;
            if (step == 2) b = largest_of(row, x0 + 1, last);
            c = largest_of(row, x0 + 2, last);
            *(vec *)(y + i * 16 + part) = vec_larger(vec_larger(a, b), c);
            a = step == 2 ? c : b;
            b = c;
        }
    }
}

/* Whether max3_row() takes the layer. */
static bool is_max3(const struct mo_pool_params *p) {
    return p->max && p->lanes == 16 && p->kh == 3 && p->kw == 3 && p->dh == 1 && p->dw == 1 &&
           (p->sw == 1 || p->sw == 2) && p->pt < 3 && p->pl < 3 && (p->oh - 1) * p->sh - p->pt < p->h &&
           (p->ow - 1) * p->sw - p->pl < p->w;
}

/* Whole-plane average or maximum: four accumulators hide the latency of the additions. */
static void global_blocked(const struct mo_pool_params *p, const float *x, float *y) {
    float acc[4][16];
    int64_t area = p->h * p->w, i = 0;
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < 16; l++)
            acc[k][l] = p->max ? -INFINITY : 0.0f;
    if (p->max) {
        for (; i < area; i++)
            for (int l = 0; l < 16; l++)
                acc[0][l] = most(acc[0][l], x[i * 16 + l]);
        memcpy(y, acc[0], 64);
        return;
    }
    for (; i + 4 <= area; i += 4)
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 16; l++)
                acc[k][l] += x[(i + k) * 16 + l];
    for (; i < area; i++)
        for (int l = 0; l < 16; l++)
            acc[0][l] += x[i * 16 + l];
    const float scale = 1.0f / (float)area;
    for (int l = 0; l < 16; l++)
        y[l] = ((acc[0][l] + acc[1][l]) + (acc[2][l] + acc[3][l])) * scale;
}

static void global_plain(const struct mo_pool_params *p, const float *x, float *y) {
    float lane[16];
    int64_t area = p->h * p->w, whole = area / 16 * 16;
    for (int l = 0; l < 16; l++)
        lane[l] = p->max ? -INFINITY : 0.0f;
    for (int64_t i = 0; i < whole; i += 16)
        for (int l = 0; l < 16; l++)
            lane[l] = p->max ? most(lane[l], x[i + l]) : lane[l] + x[i + l];
    for (int64_t i = whole; i < area; i++)
        lane[i - whole] = p->max ? most(lane[i - whole], x[i]) : lane[i - whole] + x[i];
    for (int step = 8; step; step /= 2)
        for (int l = 0; l < step; l++)
            lane[l] = p->max ? most(lane[l], lane[l + step]) : lane[l] + lane[l + step];
    *y = p->max ? lane[0] : lane[0] / (float)area;
}

static void pool_global(const struct mo_pool_params *p, const float *x, float *y, int64_t plane) {
    if (p->lanes == 1) {
        global_plain(p, x, y);
    } else if (p->out_lanes == 16) {
        global_blocked(p, x, y);
    } else { /* only real channels exist in a plain output */
        float all[16];
        int64_t valid = p->channels - plane * 16 < 16 ? p->channels - plane * 16 : 16;
        global_blocked(p, x, all);
        memcpy(y, all, (size_t)valid * sizeof *y);
    }
}

void MO_SIMD(pool)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_pool_params *p = args->params;
    bool near = !p->pt && !p->pl && p->dh == 1 && p->dw == 1;
    bool whole = near && p->oh == 1 && p->ow == 1 && p->kh == p->h && p->kw == p->w;
    bool max3 = is_max3(p);
    float *line = scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit % p->oh, plane = unit / p->oh % p->planes, image = unit / p->oh / p->planes;
        const float *x = (const float *)((const char *)args->in[0] + image * args->in_image[0]) +
                         plane * p->h * p->w * p->lanes;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) +
                   (p->lanes == p->out_lanes ? (plane * p->oh + row) * p->ow * p->lanes : plane * 16);
        int64_t y0 = row * p->sh - p->pt;
        if (whole)
            pool_global(p, x, y, plane);
        else if (max3 && p->sw == 1)
            max3_row(p, x, y, 1, y0);
        else if (max3)
            max3_row(p, x, y, 2, y0);
        else if (p->lanes == 16 && p->max)
            window_row(p, x, y, line, 16, true, y0);
        else if (p->lanes == 16)
            window_row(p, x, y, line, 16, false, y0);
        else
            window_row(p, x, y, line, 1, p->max, y0);
        if (p->fuse.act != MO_ACT_NONE && p->lanes == p->out_lanes)
            finish_row(&p->fuse, NULL, y, p->ow * p->lanes);
        /* a maximum over no element is minus infinity */
        mo_clear_padding(&p->padding, y, (plane * p->oh + row) * p->ow * p->lanes, p->ow * p->lanes);
    }
}
