/* SPDX-License-Identifier: Apache-2.0
 * soften.h - what kernels of attention share: where operands and masks lie, and the softmax of one row. */
#ifndef MO_SIMD_SOFTEN_H
#define MO_SIMD_SOFTEN_H
#include "variants/simd/math.h"
#include "variants/simd/params.h"

static inline const float *at(const void *base, const struct mo_attention_operand *o, int64_t b, int64_t h) {
    return (const float *)base + o->at + b * o->batch + h * o->head;
}

/* Bytes from the mask of a query to the next one's, and from that of a key. */
static inline int64_t mask_row_bytes(const struct mo_attention_params *p) {
    return p->mask_stride[2] * (p->mask == MO_MASK_ADD ? 4 : 1);
}

static inline int64_t mask_key_bytes(const struct mo_attention_params *p) {
    return p->mask_stride[3] * (p->mask == MO_MASK_ADD ? 4 : 1);
}

/* Of query `first` of a head; NULL: there is none. */
static inline const char *mask_at(const struct mo_attention_params *p, const void *mask, int64_t b, int64_t h,
                                  int64_t first) {
    if (p->mask == MO_MASK_NONE) return NULL;
    return (const char *)mask + (b * p->mask_stride[0] + h * p->mask_stride[1] + first * p->mask_stride[2]) *
                                    (p->mask == MO_MASK_ADD ? 4 : 1);
}

/* s = the masked, scaled scores of one query; `mask` is its row. */
static inline void mask_row(const struct mo_attention_params *p, float *s, const void *mask) {
    const int64_t n = p->view.keys, step = p->mask_stride[3];
    const float scale = p->view.scale, fill = p->fill;
    const float *add = mask;
    const uint8_t *flag = mask;
    const uint8_t hit = p->mask == MO_MASK_FILL;
    switch (p->mask) {
    case MO_MASK_ADD:
        if (step)
            for (int64_t i = 0; i < n; i++)
                s[i] = s[i] * scale + add[i];
        else
            for (int64_t i = 0; i < n; i++)
                s[i] = s[i] * scale + *add;
        return;
    case MO_MASK_FILL:
    case MO_MASK_KEEP:
        for (int64_t i = 0; i < n; i++)
            s[i] = (flag[i * step] != 0) == hit ? fill : s[i] * scale;
        return;
    case MO_MASK_NONE:
        for (int64_t i = 0; i < n; i++)
            s[i] *= scale;
    }
}

/* Vectors of four, on any level. */
typedef float four_lanes __attribute__((vector_size(16)));
typedef int32_t four_bits __attribute__((vector_size(16)));

static inline __attribute__((always_inline)) four_lanes combine(four_lanes a, four_lanes b, const bool sum) {
    const four_bits mine = a > b;
    if (sum) return a + b;
    return (four_lanes)(((four_bits)a & mine) | ((four_bits)b & ~mine));
}

/* Sixteen lanes to one number: their sum, or the largest. */
static inline __attribute__((always_inline)) float fold_lanes(const float *lane, const bool sum) {
    four_lanes part[4];
    memcpy(part, lane, sizeof part);
    const four_lanes four = combine(combine(part[0], part[2], sum), combine(part[1], part[3], sum), sum);
    const float x = sum ? four[0] + four[2] : most(four[0], four[2]);
    const float y = sum ? four[1] + four[3] : most(four[1], four[3]);
    return sum ? x + y : most(x, y);
}

static inline float largest(const float *s, int64_t n) {
    float lane[16];
    int64_t whole = n / 16 * 16;
    for (int l = 0; l < 16; l++)
        lane[l] = s[0];
    for (int64_t i = 0; i < whole; i += 16)
        for (int l = 0; l < 16; l++)
            lane[l] = most(s[i + l], lane[l]);
    for (int64_t i = whole; i < n; i++)
        lane[i - whole] = most(s[i], lane[i - whole]);
    return fold_lanes(lane, false);
}

/* s = e^(s - largest); returns one over the sum, which the caller multiplies into the shorter result. */
static inline float soften(float *s, int64_t n) {
    const float top = largest(s, n);
    float lane[16] = {0};
    int64_t whole = n / 16 * 16;
    for (int64_t i = 0; i < whole; i += 16)
        for (int l = 0; l < 16; l++) {
            s[i + l] = fast_exp(s[i + l] - top);
            lane[l] += s[i + l];
        }
    for (int64_t i = whole; i < n; i++) {
        s[i] = fast_exp(s[i] - top);
        lane[i - whole] += s[i];
    }
    return 1.0f / fold_lanes(lane, true);
}
#endif
