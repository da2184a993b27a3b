/* SPDX-License-Identifier: Apache-2.0
 * winograd_bytes.c - 3x3 convolutions of 8-bit numbers at stride 1 by Winograd's algorithm in whole numbers,
 * without a rounding error (variants/generic/winograd_bytes.c says why none overflows).
 *
 * A unit takes a block of tiles and some blocks of output channels through three steps: BT d BT^T of every
 * tile, less 128, to V[alpha^2][IC/16][tile][16] of int16; for every output block and part of the input
 * blocks alpha^2 products with the packed filters to M[alpha^2][tile][16] of int32; of these AT M AT^T, whose
 * parts are added up and then converted.  V serves all units of a call that have the same tiles.  Tiles at
 * the border are copied first, the byte that stands for zero around them, and convert what exists. */
#include <string.h>
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"
#include "variants/tiles.h"

enum { PARTS = 16 / LANES, ALPHA = MO_WINO_BUILT_ALPHA };

typedef int8_t pixel __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t wide __attribute__((vector_size(32)));
typedef int16_t wide_at __attribute__((vector_size(32), aligned(2), may_alias));
/* Sums wrap around on purpose. */
typedef uint32_t sums __attribute__((vector_size(4 * LANES)));
typedef uint32_t sums_at __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Where a tile is: its output pixel (y, x). */
struct place {
    int64_t image, y, x;
};

static struct place place_of(const struct mo_winograd_bytes_params *p, int64_t tile) {
    struct place at = {.image = tile / p->image_tiles};
    int64_t rest = tile % p->image_tiles;
    at.y = rest / p->columns * p->m, at.x = rest % p->columns * p->m;
    return at;
}

/* BT d for a row or column d of alpha pixels. */
static inline __attribute__((always_inline)) void rows_in(const int alpha, const wide *d, wide *out) {
    if (alpha == 4) {
        out[0] = d[0] - d[2], out[1] = d[1] + d[2], out[2] = d[2] - d[1], out[3] = d[1] - d[3];
        return;
    }
    const wide even = d[4] - (d[2] << 2), odd = d[3] - (d[1] << 2);
    const wide even2 = d[4] - d[2], apart = d[3] - d[1], odd2 = apart + apart;
    out[0] = ((d[0] - d[2]) << 2) + even2;
    out[1] = even + odd, out[2] = even - odd;
    out[3] = even2 + odd2, out[4] = even2 - odd2;
    out[5] = (d[5] - d[3]) - (odd2 + odd2);
}

/* AT m for a row or column of alpha products, times 2 where alpha is 4, else 24, 12, 6 and 6. */
static inline __attribute__((always_inline)) void rows_out(const int alpha, const sums *m, sums *out) {
    const sums sum = m[1] + m[2], difference = m[1] - m[2];
    if (alpha == 4) {
        out[0] = m[0] + m[0] + sum, out[1] = difference - (m[3] + m[3]);
        return;
    }
    const sums sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    out[0] = ((m[0] + sum) << 2) + (m[0] + m[0]) + sum2;
    out[1] = difference + difference + difference2;
    out[2] = sum + sum2;
    const sums last = difference2 + m[5] + (m[5] + m[5]);
    out[3] = difference + last + last;
}

/* What rows_out() multiplied with in both directions: a power of two, and 9 where alpha is 6.  The product
 * with the inverse of 9 modulo 2^32 is the quotient, since nothing remains. */
static inline __attribute__((always_inline)) sums without_factor(const int alpha, int i, int j, sums x) {
    static const int powers[4] = {3, 2, 1, 1};
    const int shift = alpha == 4 ? 2 : powers[i] + powers[j];
    if (alpha != 4) x *= 0x38e38e39u;
    return (sums)((ivec)x >> shift);
}

/* One tile of 16 channels: x with `row` bytes from a row to the next, to every v_plane-th byte of v. */
static inline __attribute__((always_inline)) void
tile_in(const struct mo_winograd_bytes_params *p, const int alpha, const char *x, int64_t row, char *v) {
    wide half[ALPHA][ALPHA], d[ALPHA], out[ALPHA];
    for (int j = 0; j < alpha; j++) {
        for (int i = 0; i < alpha; i++)
            d[i] = __builtin_convertvector(*(const pixel *)(x + i * row + j * 16) ^ -128, wide);
        rows_in(alpha, d, out);
        for (int i = 0; i < alpha; i++)
            half[i][j] = out[i];
    }
    for (int i = 0; i < alpha; i++) {
        rows_in(alpha, half[i], out);
        for (int j = 0; j < alpha; j++)
            *(wide_at *)(v + (i * alpha + j) * p->v_plane) = out[j];
    }
}

/* The pixels of a tile that hangs over the border, and what padding is around them. */
static void copy_tile(const struct mo_winograd_bytes_params *p, const char *x, int64_t y0, int64_t x0,
                      char *to) {
    int alpha = p->m + 2;
    for (int i = 0; i < alpha; i++, to += alpha * 16) {
        int64_t from = x0 < 0 ? 0 : x0, end = x0 + alpha > p->w ? p->w : x0 + alpha;
        memset(to, p->zero, (size_t)alpha * 16);
        if (y0 + i >= 0 && y0 + i < p->h && from < end)
            memcpy(to + (from - x0) * 16, x + ((y0 + i) * p->w + from) * 16, (size_t)(end - from) * 16);
    }
}

/* V of the tiles [first, first + n). */
static inline __attribute__((always_inline)) void transform_in(const struct mo_winograd_bytes_params *p,
                                                               const int alpha, const struct mo_kargs *args,
                                                               int64_t first, int64_t n, char *v) {
    char copy[ALPHA * ALPHA * 16];
    for (int64_t t = 0; t < n; t++) {
        struct place at = place_of(p, first + t);
        int64_t y0 = at.y - p->pt, x0 = at.x - p->pl;
        bool inside = y0 >= 0 && x0 >= 0 && y0 + alpha <= p->h && x0 + alpha <= p->w;
        const char *image = (const char *)args->in[0] + at.image * args->in_image[0];
        for (int64_t b = 0; b < p->blocks_in; b++) {
            const char *plane = image + b * p->h * p->w * 16;
            char *to = v + b * p->v_block + t * 32;
            if (inside) {
                tile_in(p, alpha, plane + (y0 * p->w + x0) * 16, p->w * 16, to);
                continue;
            }
            copy_tile(p, plane, y0, x0, copy);
            tile_in(p, alpha, copy, alpha * 16, to);
        }
    }
}

/* M of n tiles and one output block: alpha^2 products with `depth` input blocks. */
static void multiply(const struct mo_winograd_bytes_params *p, const char *u, const char *v, int64_t depth,
                     int64_t n, char *m) {
    static const struct mo_tap tap = {0, 0};
    int64_t square = (p->m + 2) * (p->m + 2), most = p->tiles->max_pixels[1], parts = (n + most - 1) / most;
    struct mo_tile tile = p->tile;
    tile.taps = &tap;
    tile.n_outer = depth;
    for (int64_t a = 0; a < square; a++) {
        tile.w = u + a * p->u_plane;
        for (int64_t k = 0; k < parts; k++) {
            int64_t from = n * k / parts, end = n * (k + 1) / parts;
            tile.x = v + a * p->v_plane + from * 32;
            tile.y = m + a * p->m_plane + from * 64;
            p->tiles->wide[end - from](&tile);
        }
    }
}

/* A tile's AT M AT^T to the sums of its pixels, m of them in each of m rows, p->row bytes apart: added, or
 * to what they start from. */
static inline __attribute__((always_inline)) void tile_out(const struct mo_winograd_bytes_params *p,
                                                           const int alpha, const char *m, const char *start,
                                                           bool more, char *y) {
    for (int part = 0; part < PARTS; part++, m += LANES * 4, y += LANES * 4) {
        sums half[MO_WINO_BUILT_M][ALPHA], d[ALPHA], out[MO_WINO_BUILT_M];
        const sums first = *(const sums_at *)(start + part * LANES * 4);
        for (int j = 0; j < alpha; j++) {
            for (int i = 0; i < alpha; i++)
                d[i] = *(const sums_at *)(m + (i * alpha + j) * p->m_plane);
            rows_out(alpha, d, out);
            for (int i = 0; i < alpha - 2; i++)
                half[i][j] = out[i];
        }
        for (int i = 0; i < alpha - 2; i++) {
            rows_out(alpha, half[i], out);
            for (int j = 0; j < alpha - 2; j++) {
                sums_at *to = (sums_at *)(y + i * p->sum_row + j * 64);
                const sums before = more ? (sums)*to : first;
                *to = before + without_factor(alpha, i, j, out[j]);
            }
        }
    }
}

/* Sums of n tiles to the output, by runs of tiles that are neighbours. */
static void convert(const struct mo_winograd_bytes_params *p, const struct mo_kargs *args, int64_t first,
                    int64_t n, int64_t block, const char *sum) {
    for (int64_t t = 0, run; t < n; t += run) {
        struct place at = place_of(p, first + t);
        run = p->columns - at.x / p->m;
        if (run > n - t) run = n - t;
        int64_t pixels = p->ow - at.x < run * p->m ? p->ow - at.x : run * p->m;
        char *y = (char *)args->out[0] + at.image * args->out_image[0] +
                  ((block * p->oh + at.y) * p->ow + at.x) * p->y_pixel;
        for (int i = 0; i < p->m && at.y + i < p->oh; i++)
            MO_SIMD(requantize)
        (&p->requant, sum + i * p->sum_row + t * p->m * 64, p->factor + block * 16, p->bias + block * 16,
         pixels, y + i * p->ow * p->y_pixel, p->y_pixel);
    }
}

/* A chunk of tiles, groups [group, groups_end) of output blocks. */
static inline __attribute__((always_inline)) void run_chunk(const struct mo_winograd_bytes_params *p,
                                                            const int alpha, const struct mo_kargs *args,
                                                            int64_t chunk, int64_t group, int64_t groups_end,
                                                            char *v) {
    char *m = v + p->m_at, *sum = v + p->sum_at;
    int64_t first = chunk * p->total / p->chunks, n = (chunk + 1) * p->total / p->chunks - first;
    int64_t last = groups_end * p->blocks_out / p->groups;
    transform_in(p, alpha, args, first, n, v);
    for (int64_t block = group * p->blocks_out / p->groups; block < last; block++) {
        const char *u = (const char *)args->weights + block * alpha * alpha * p->u_plane;
        for (int64_t k = 0; k < p->parts; k++) {
            int64_t from = p->blocks_in * k / p->parts, end = p->blocks_in * (k + 1) / p->parts;
            multiply(p, u + from * 512, v + from * p->v_block, end - from, n, m);
            for (int64_t t = 0; t < n; t++)
                tile_out(p, alpha, m + t * 64, (const char *)(args->bias + block * 16), k > 0,
                         sum + t * p->m * 64);
        }
        convert(p, args, first, n, block, sum);
    }
}

void MO_SIMD(winograd_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_winograd_bytes_params *p = args->params;
    while (begin < end) {
        int64_t chunk = begin / p->groups, group = begin % p->groups;
        int64_t groups_end = end - begin < p->groups - group ? group + (end - begin) : p->groups;
        if (p->m == MO_WINO_BUILT_M)
            run_chunk(p, ALPHA, args, chunk, group, groups_end, scratch);
        else
            run_chunk(p, 4, args, chunk, group, groups_end, scratch);
        begin += groups_end - group;
    }
}
