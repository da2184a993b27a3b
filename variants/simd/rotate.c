/* SPDX-License-Identifier: Apache-2.0
 * rotate.c - rotary positions: pairs of columns turned by the angles of their row (RotaryEmbedding). */
#include <string.h>
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

/* (x, y) -> (x cos - y sin, x sin + y cos) for pairs (c, c + half). */
static void turn_halves(const float *x, const float *cosine, const float *sine, int64_t half, float *to) {
    int64_t c = 0;
    for (; c + LANES <= half; c += LANES) {
        const vec a = *(const vec *)(x + c), b = *(const vec *)(x + half + c);
        const vec cs = *(const vec *)(cosine + c), sn = *(const vec *)(sine + c);
        *(vec *)(to + c) = a * cs - b * sn;
        *(vec *)(to + half + c) = a * sn + b * cs;
    }
    for (; c < half; c++) {
        const float a = x[c], b = x[half + c];
        to[c] = a * cosine[c] - b * sine[c];
        to[half + c] = a * sine[c] + b * cosine[c];
    }
}

/* The same for pairs (2c, 2c + 1). */
static void turn_neighbours(const float *x, const float *cosine, const float *sine, int64_t half, float *to) {
    for (int64_t c = 0; c < half; c++) {
        const float a = x[2 * c], b = x[2 * c + 1];
        to[2 * c] = a * cosine[c] - b * sine[c];
        to[2 * c + 1] = a * sine[c] + b * cosine[c];
    }
}

void MO_SIMD(rotate)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_rotate_params *p = args->params;
    const int64_t half = p->turned / 2, n = p->columns;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / p->inner, row = unit % p->inner;
        const int64_t angle = p->heads_inner ? group : group / p->heads * p->inner + row;
        const float *x = (const float *)args->in[0] + unit * n;
        const float *cosine = (const float *)args->in[1] + angle * half;
        const float *sine = (const float *)args->in[2] + angle * half;
        float *y = (float *)args->out[0] + unit * n;
        if (p->interleaved)
            turn_neighbours(x, cosine, sine, half, y);
        else
            turn_halves(x, cosine, sine, half, y);
        memcpy(y + p->turned, x + p->turned, (size_t)(n - p->turned) * sizeof *y);
    }
}
