/* SPDX-License-Identifier: Apache-2.0
 * winograd.c - 3x3 convolutions of stride 1 by Winograd's algorithm (variants/winograd_matrices.h), for
 * shapes known at run time only.
 *
 * A unit takes a block of tiles (alpha x alpha input pixels, overlapping by two) and some blocks of output
 * channels through three steps: BT d BT^T of every tile to V[alpha^2][IC/16][tile][16]; for every set of
 * output blocks alpha^2 products with the packed weights, by the micro-kernels of the 1x1 convolution, to
 * M[alpha^2][block][tile][16]; AT M AT^T, bias and epilogue to the output.  V serves all units of a call that
 * have the same tiles, and their blocks come in sets whatever the units are.  Filters that come as the model
 * has them (p->transforms) become U = G g G^T in the scratch, for one set of output blocks and some input
 * blocks at a time: U stays in a private cache, and only the model's nine taps of a filter come from memory,
 * ahead of time.  Tiles at the border are copied with zeros around first, and store what exists. */
#include <string.h>
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"
#include "variants/tiles.h"
#include "variants/winograd_matrices.h"

enum { PARTS = 16 / LANES, MAX_SQUARE = MO_WINO_BUILT_ALPHA * MO_WINO_BUILT_ALPHA, FILTERS = 9 * 256 };

/* Where a tile is: its output pixel (y, x), and how many of its rows and columns the output has. */
struct place {
    int64_t image, y, x;
    int rows, cols;
};

static struct place place_of(const struct mo_winograd_params *p, int64_t tile) {
    struct place at = {.image = tile / p->image_tiles};
    int64_t rest = tile % p->image_tiles;
    at.y = rest / p->columns * p->m, at.x = rest % p->columns * p->m;
    at.rows = p->oh - at.y < p->m ? (int)(p->oh - at.y) : p->m;
    at.cols = p->ow - at.x < p->m ? (int)(p->ow - at.x) : p->m;
    return at;
}

/* BT d for a row or column d of alpha pixels; rows 2k+1 and 2k+2 share their even and odd parts. */
static inline __attribute__((always_inline)) void rows_in(const struct mo_winograd_params *p, const int alpha,
                                                          const vec *d, vec *out) {
    if (alpha == 4) {
        out[0] = d[2] - d[0], out[1] = d[1] + d[2], out[2] = d[2] - d[1], out[3] = d[3] - d[1];
        return;
    }
    const float(*c)[MO_WINO_BUILT_ALPHA] = p->bt;
    vec even = d[4] + c[1][2] * d[2], odd = c[1][1] * d[1] + c[1][3] * d[3];
    out[1] = even + odd, out[2] = even - odd;
    even = d[4] + c[3][2] * d[2], odd = c[3][1] * d[1] + c[3][3] * d[3];
    out[3] = even + odd, out[4] = even - odd;
    out[0] = d[4] + c[0][2] * d[2] + c[0][0] * d[0];
    out[5] = d[5] + c[5][3] * d[3] + c[5][1] * d[1];
}

/* AT m for a row or column of alpha products. */
static inline __attribute__((always_inline)) void rows_out(const struct mo_winograd_params *p,
                                                           const int alpha, const vec *m, vec *out) {
    vec sum = m[1] + m[2], difference = m[1] - m[2];
    if (alpha == 4) {
        out[0] = m[0] + sum, out[1] = difference + m[3];
        return;
    }
    const float(*c)[MO_WINO_BUILT_ALPHA] = p->at;
    vec sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    out[0] = m[0] + sum + sum2;
    out[1] = c[1][1] * difference + c[1][3] * difference2;
    out[2] = c[2][1] * sum + c[2][3] * sum2;
    out[3] = m[5] + c[3][1] * difference + c[3][3] * difference2;
}

/* One tile of 16 channels: x with `row` floats from a row to the next, to every `plane`-th float of v. */
static inline __attribute__((always_inline)) void tile_in(const struct mo_winograd_params *p, const int alpha,
                                                          const float *x, int64_t row, float *v) {
    for (int part = 0; part < PARTS; part++, x += LANES, v += LANES) {
        vec half[MO_WINO_BUILT_ALPHA][MO_WINO_BUILT_ALPHA], d[MO_WINO_BUILT_ALPHA], out[MO_WINO_BUILT_ALPHA];
        for (int j = 0; j < alpha; j++) {
            for (int i = 0; i < alpha; i++)
                d[i] = *(const vec *)(x + i * row + j * 16);
            rows_in(p, alpha, d, out);
            for (int i = 0; i < alpha; i++)
                half[i][j] = out[i];
        }
        for (int i = 0; i < alpha; i++) {
            rows_in(p, alpha, half[i], out);
            for (int j = 0; j < alpha; j++)
                *(vec *)(v + (i * alpha + j) * p->v_plane) = out[j];
        }
    }
}

/* The pixels of a tile that hangs over the border, zeros around them. */
static void copy_tile(const struct mo_winograd_params *p, const float *x, int64_t y0, int64_t x0, float *to) {
    int alpha = p->m + 2;
    for (int i = 0; i < alpha; i++, to += alpha * 16) {
        int64_t from = x0 < 0 ? 0 : x0, end = x0 + alpha > p->w ? p->w : x0 + alpha;
        memset(to, 0, (size_t)alpha * 64);
        if (y0 + i >= 0 && y0 + i < p->h && from < end)
            memcpy(to + (from - x0) * 16, x + ((y0 + i) * p->w + from) * 16, (size_t)(end - from) * 64);
    }
}

/* V of the tiles [first, first + n). */
static inline __attribute__((always_inline)) void transform_in(const struct mo_winograd_params *p,
                                                               const int alpha, const struct mo_kargs *args,
                                                               int64_t first, int64_t n, float *v) {
    float window[MAX_SQUARE * 16] __attribute__((aligned(64)));
    for (int64_t t = 0; t < n; t++) {
        struct place at = place_of(p, first + t);
        int64_t y0 = at.y - p->pt, x0 = at.x - p->pl;
        const float *x = (const float *)((const char *)args->in[0] + at.image * args->in_image[0]);
        bool inside = y0 >= 0 && x0 >= 0 && y0 + alpha <= p->h && x0 + alpha <= p->w;
        for (int64_t b = 0; b < p->blocks_in; b++, x += p->h * p->w * 16) {
            float *to = v + b * p->v_block + t * 16;
            if (!inside) copy_tile(p, x, y0, x0, window);
            if (inside)
                tile_in(p, alpha, x + (y0 * p->w + x0) * 16, p->w * 16, to);
            else
                tile_in(p, alpha, window, alpha * 16, to);
        }
    }
}

/* Stores `n` floats of an output row with residual and activation. */
static inline void finish(const struct mo_winograd_params *p, const float *from, const float *res, float *y,
                          int64_t n) {
    if (!p->clamp) {
        memcpy(y, from, (size_t)n * sizeof *y);
        finish_row(&p->fuse, res, y, n);
        return;
    }
    const float lo = p->lo, hi = p->hi;
    for (int64_t i = 0; i < n; i++) {
        float v = from[i] + (res ? res[i] : 0);
        v = v < lo ? lo : v;
        y[i] = v > hi ? hi : v;
    }
}

/* One tile of 16 output channels, from every `plane`-th float of m. */
static inline __attribute__((always_inline)) void tile_out(const struct mo_winograd_params *p,
                                                           const int alpha, const float *m, int64_t plane,
                                                           const float *bias, struct place at,
                                                           const float *res, float *y) {
    const int size = alpha - 2;
    float result[MO_WINO_BUILT_M * MO_WINO_BUILT_M * 16] __attribute__((aligned(64)));
    for (int part = 0; part < PARTS; part++) {
        vec half[MO_WINO_BUILT_M][MO_WINO_BUILT_ALPHA], d[MO_WINO_BUILT_ALPHA], out[MO_WINO_BUILT_M],
            b = *(const vec *)(bias + part * LANES);
        for (int j = 0; j < alpha; j++) {
            for (int i = 0; i < alpha; i++)
                d[i] = *(const vec *)(m + (i * alpha + j) * plane + part * LANES);
            rows_out(p, alpha, d, out);
            for (int i = 0; i < size; i++)
                half[i][j] = out[i];
        }
        for (int i = 0; i < size; i++) {
            rows_out(p, alpha, half[i], out);
            for (int j = 0; j < size; j++)
                *(vec *)(result + (i * size + j) * 16 + part * LANES) = out[j] + b;
        }
    }
    int64_t row = p->ow * 16;
    for (int i = 0; i < at.rows; i++) {
        const float *r = res ? res + i * row : NULL;
        if (at.cols == size)
            finish(p, result + i * size * 16, r, y + i * row, size * 16);
        else
            finish(p, result + i * size * 16, r, y + i * row, at.cols * 16);
    }
}

/* The outputs of the tiles [first, first + n) and of the `count` blocks from `block` on. */
static inline __attribute__((always_inline)) void transform_out(const struct mo_winograd_params *p,
                                                                const int alpha, const struct mo_kargs *args,
                                                                int64_t first, int64_t n, int64_t block,
                                                                int count, const float *m) {
    for (int64_t t = 0; t < n; t++) {
        struct place at = place_of(p, first + t);
        int64_t pixel = (block * p->oh * p->ow + at.y * p->ow + at.x) * 16;
        float *y = (float *)((char *)args->out[0] + at.image * args->out_image[0]) + pixel;
        const float *res = args->residual;
        if (res) res = (const float *)((const char *)res + at.image * args->residual_image) + pixel;
        for (int b = 0; b < count; b++) {
            int64_t skip = b * p->oh * p->ow * 16;
            tile_out(p, alpha, m + b * p->m_block + t * 16, p->m_block * count, args->bias + (block + b) * 16,
                     at, res ? res + skip : NULL, y + skip);
        }
    }
}

/* G g for a row or column g of three weights; rows 2k+1 and 2k+2 share their even and odd parts. */
static inline __attribute__((always_inline)) void rows_filter(const struct mo_winograd_params *p,
                                                              const int alpha, const vec *g, vec *out) {
    const float(*c)[3] = p->g;
    out[0] = c[0][0] * g[0];
    for (int i = 1; i < alpha - 1; i += 2) {
        vec even = c[i][0] * g[0] + c[i][2] * g[2], odd = c[i][1] * g[1];
        out[i] = even + odd, out[i + 1] = even - odd;
    }
    out[alpha - 1] = g[2];
}

/* G g G^T of LANES filters, whose taps are 256 floats apart, to every `plane`-th float of u.  What the next
 * filters read and write is fetched first: stores that miss would be done one after the other. */
static inline __attribute__((always_inline)) void filter(const struct mo_winograd_params *p, const int alpha,
                                                         const float *g, float *u) {
    vec half[MO_WINO_BUILT_ALPHA][3], d[3], out[MO_WINO_BUILT_ALPHA];
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < 3; i++) {
            d[i] = *(const vec *)(g + (i * 3 + j) * 256);
            __builtin_prefetch(g + (i * 3 + j + 9) * 256);
        }
        rows_filter(p, alpha, d, out);
        for (int i = 0; i < alpha; i++)
            half[i][j] = out[i];
    }
    for (int i = 0; i < alpha; i++) {
        rows_filter(p, alpha, half[i], out);
        for (int j = 0; j < alpha; j++, u += p->u_plane) {
            *(vec *)u = out[j];
            __builtin_prefetch(u + 16);
        }
    }
}

/* U of the input blocks [from, end) and of `count` output blocks from `block` on. */
static inline __attribute__((always_inline)) void
transform_filters(const struct mo_winograd_params *p, const int alpha, const struct mo_kargs *args,
                  int64_t block, int count, int64_t from, int64_t end, float *u) {
    for (int b = 0; b < count; b++, u += alpha * alpha * p->u_plane) {
        const float *g = (const float *)args->weights + ((block + b) * p->blocks_in + from) * FILTERS;
        for (int64_t i = from; i < end; i++, g += FILTERS)
            for (int k = 0; k < 256; k += LANES)
                filter(p, alpha, g + k, u + (i - from) * 256 + k);
    }
}

/* Filters that will be transformed next: one stream for each of `count` output blocks. */
struct ahead {
    const float *from;
    int64_t stride, lines; /* floats from stream to stream; cache lines of each */
    int count;
};

/* The part-th part of a set of output blocks from `block` on, which ends before `last`. */
static struct ahead filters_of(const struct mo_winograd_params *p, const struct mo_kargs *args, int64_t block,
                               int64_t last, int64_t part) {
    if (!p->transforms || block >= last) return (struct ahead){.count = 0};
    int64_t from = p->blocks_in * part / p->parts, end = p->blocks_in * (part + 1) / p->parts;
    struct ahead next = {.stride = p->blocks_in * FILTERS, .lines = (end - from) * FILTERS / 16};
    next.from = (const float *)args->weights + block * next.stride + from * FILTERS;
    next.count = last - block < p->set ? (int)(last - block) : p->set;
    return next;
}

/* Prefetches the part-th of `parts` shares. */
static void fetch(const struct ahead *next, int64_t part, int64_t parts) {
    int64_t end = next->lines * (part + 1) / parts;
    for (int b = 0; b < next->count; b++)
        for (int64_t i = next->lines * part / parts; i < end; i++)
            __builtin_prefetch(next->from + b * next->stride + i * 16);
}

/* Adds the products of `n` tiles with `depth` input blocks to M, or sets it: alpha^2 products with the
 * micro-kernels.  u: the transformed filters of `count` output blocks. */
static void multiply(const struct mo_winograd_params *p, const float *u, const float *v, int64_t depth,
                     bool more, int64_t n, int count, float *m, const struct ahead *next) {
    static const struct mo_tap tap = {0, 0};
    int64_t square = (p->m + 2) * (p->m + 2), most = p->tiles->max_pixels[count];
    int64_t parts = (n + most - 1) / most;
    struct mo_tile tile = p->tile;
    tile.taps = &tap;
    tile.n_outer = depth;
    for (int64_t a = 0; a < square; a++) {
        tile.w = (const char *)(u + a * p->u_plane);
        for (int64_t k = 0; k < parts; k++) {
            int64_t from = n * k / parts, end = n * (k + 1) / parts;
            tile.x = (const char *)(v + a * p->v_plane + from * 16);
            tile.y = (char *)(m + a * p->m_block * count + from * 16);
            tile.res = more ? tile.y : NULL;
            fetch(next, a * parts + k, square * parts);
            p->tiles->conv[count][end - from][MO_TILE_S1](&tile);
        }
    }
}

/* M of `n` tiles for the `count` blocks from `block` on; those up to `last` are next.  Filters that come as
 * the model has them are transformed for some input blocks at a time, so that U stays in a private cache. */
static inline __attribute__((always_inline)) void products(const struct mo_winograd_params *p,
                                                           const int alpha, const struct mo_kargs *args,
                                                           const float *v, int64_t n, int64_t block,
                                                           int64_t last, int count, float *m, float *u) {
    const float *packed = (const float *)args->weights + block * alpha * alpha * p->u_plane;
    for (int64_t k = 0; k < p->parts; k++) {
        int64_t from = p->blocks_in * k / p->parts, end = p->blocks_in * (k + 1) / p->parts;
        struct ahead next = k + 1 < p->parts ? filters_of(p, args, block, last, k + 1)
                                             : filters_of(p, args, block + count, last, 0);
        if (p->transforms) transform_filters(p, alpha, args, block, count, from, end, u);
        multiply(p, p->transforms ? u : packed, v + from * p->v_block, end - from, k > 0, n, count, m, &next);
    }
}

/* A chunk of tiles, groups [group, groups_end) of output blocks. */
static inline __attribute__((always_inline)) void run_chunk(const struct mo_winograd_params *p,
                                                            const int alpha, const struct mo_kargs *args,
                                                            int64_t chunk, int64_t group, int64_t groups_end,
                                                            float *scratch) {
    float *v = scratch, *m = v + p->m_at, *u = v + p->u_at;
    int64_t first = chunk * p->total / p->chunks, n = (chunk + 1) * p->total / p->chunks - first, count;
    int64_t block = group * p->blocks_out / p->groups, last = groups_end * p->blocks_out / p->groups;
    transform_in(p, alpha, args, first, n, v);
    for (; block < last; block += count) {
        count = last - block < p->set ? last - block : p->set;
        products(p, alpha, args, v, n, block, last, (int)count, m, u);
        transform_out(p, alpha, args, first, n, block, (int)count, m);
    }
}

void MO_SIMD(winograd)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_winograd_params *p = args->params;
    while (begin < end) {
        int64_t chunk = begin / p->groups, group = begin % p->groups;
        int64_t groups_end = end - begin < p->groups - group ? group + (end - begin) : p->groups;
        if (p->m == MO_WINO_BUILT_M)
            run_chunk(p, MO_WINO_BUILT_ALPHA, args, chunk, group, groups_end, scratch);
        else
            run_chunk(p, 4, args, chunk, group, groups_end, scratch);
        begin += groups_end - group;
    }
}
