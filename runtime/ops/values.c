/* SPDX-License-Identifier: Apache-2.0
 * values.c - element access for every type, strides, and walking broadcast operands row by row. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

float mo_half_to_float(uint16_t h) {
    uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    float sign = h >> 15 ? -1.f : 1.f;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    if (!exponent) return sign * ldexpf((float)mantissa, -24);
    return sign * ldexpf((float)(mantissa | 1024), (int)exponent - 25);
}

static uint32_t float_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Round to nearest, ties to even. */
uint16_t mo_float_to_half(float f) {
    uint32_t bits = float_bits(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more */
    if (magnitude < 0x38800000)                                    /* subnormal: units of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(fabsf(f) * 16777216.f));
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000) >> 13));
}

static float bf16_to_float(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t float_to_bf16(float f) {
    uint32_t bits = float_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int64_t mo_saturate(double x, int64_t low, int64_t high) {
    if (!(x > (double)low)) return x == x ? low : 0;
    return x >= (double)high ? high : (int64_t)x;
}

int64_t mo_load_int(const struct mo_value *v, int64_t i) {
    switch (v->dtype) {
    case MOIRE_U8:
        return ((const uint8_t *)v->data)[i];
    case MOIRE_I8:
        return ((const int8_t *)v->data)[i];
    case MOIRE_U16:
        return ((const uint16_t *)v->data)[i];
    case MOIRE_I16:
        return ((const int16_t *)v->data)[i];
    case MOIRE_I32:
        return ((const int32_t *)v->data)[i];
    case MOIRE_U32:
        return ((const uint32_t *)v->data)[i];
    case MOIRE_I64:
        return ((const int64_t *)v->data)[i];
    case MOIRE_U64:
        return (int64_t)((const uint64_t *)v->data)[i];
    case MOIRE_BOOL:
        return ((const uint8_t *)v->data)[i] != 0;
    default:
        return mo_saturate(mo_load(v, i), INT64_MIN, INT64_MAX);
    }
}

void mo_store_int(const struct mo_value *v, int64_t i, int64_t x) {
    switch (v->dtype) {
    case MOIRE_U8:
        ((uint8_t *)v->data)[i] = (uint8_t)x;
        break;
    case MOIRE_I8:
        ((int8_t *)v->data)[i] = (int8_t)x;
        break;
    case MOIRE_U16:
        ((uint16_t *)v->data)[i] = (uint16_t)x;
        break;
    case MOIRE_I16:
        ((int16_t *)v->data)[i] = (int16_t)x;
        break;
    case MOIRE_I32:
        ((int32_t *)v->data)[i] = (int32_t)x;
        break;
    case MOIRE_U32:
        ((uint32_t *)v->data)[i] = (uint32_t)x;
        break;
    case MOIRE_I64:
        ((int64_t *)v->data)[i] = x;
        break;
    case MOIRE_U64:
        ((uint64_t *)v->data)[i] = (uint64_t)x;
        break;
    case MOIRE_BOOL:
        ((uint8_t *)v->data)[i] = x != 0;
        break;
    default:
        mo_store(v, i, (double)x);
        break;
    }
}

double mo_load(const struct mo_value *v, int64_t i) {
    double x;
    mo_load_span(v, i, 1, 1, &x);
    return x;
}

void mo_store(const struct mo_value *v, int64_t i, double x) {
    mo_store_span(v, i, 1, 1, &x);
}

void mo_load_span(const struct mo_value *v, int64_t i, int64_t stride, int64_t n, double *out) {
    const uint16_t *half = v->data;
    switch (v->dtype) {
    case MOIRE_F32:
        for (int64_t k = 0; k < n; k++)
            out[k] = (double)((const float *)v->data)[i + k * stride];
        break;
    case MOIRE_F64:
        for (int64_t k = 0; k < n; k++)
            out[k] = ((const double *)v->data)[i + k * stride];
        break;
    case MOIRE_F16:
        for (int64_t k = 0; k < n; k++)
            out[k] = (double)mo_half_to_float(half[i + k * stride]);
        break;
    case MOIRE_BF16:
        for (int64_t k = 0; k < n; k++)
            out[k] = (double)bf16_to_float(half[i + k * stride]);
        break;
    case MOIRE_U64:
        for (int64_t k = 0; k < n; k++)
            out[k] = (double)((const uint64_t *)v->data)[i + k * stride];
        break;
    default:
        for (int64_t k = 0; k < n; k++)
            out[k] = (double)mo_load_int(v, i + k * stride);
        break;
    }
}

static void store_other(const struct mo_value *v, int64_t i, double x) {
    switch (v->dtype) {
    case MOIRE_F16:
        ((uint16_t *)v->data)[i] = mo_float_to_half((float)x);
        break;
    case MOIRE_BF16:
        ((uint16_t *)v->data)[i] = float_to_bf16((float)x);
        break;
    case MOIRE_U8:
        mo_store_int(v, i, mo_saturate(x, 0, UINT8_MAX));
        break;
    case MOIRE_I8:
        mo_store_int(v, i, mo_saturate(x, INT8_MIN, INT8_MAX));
        break;
    case MOIRE_U16:
        mo_store_int(v, i, mo_saturate(x, 0, UINT16_MAX));
        break;
    case MOIRE_I16:
        mo_store_int(v, i, mo_saturate(x, INT16_MIN, INT16_MAX));
        break;
    case MOIRE_U32:
        mo_store_int(v, i, mo_saturate(x, 0, UINT32_MAX));
        break;
    case MOIRE_I32:
        mo_store_int(v, i, mo_saturate(x, INT32_MIN, INT32_MAX));
        break;
    case MOIRE_I64:
        mo_store_int(v, i, mo_saturate(x, INT64_MIN, INT64_MAX));
        break;
    case MOIRE_U64:
        ((uint64_t *)v->data)[i] = !(x > 0) ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
        break;
    case MOIRE_BOOL:
        ((uint8_t *)v->data)[i] = x != 0;
        break;
    default:
        break;
    }
}

void mo_store_span(const struct mo_value *v, int64_t i, int64_t stride, int64_t n, const double *x) {
    if (v->dtype == MOIRE_F32)
        for (int64_t k = 0; k < n; k++)
            ((float *)v->data)[i + k * stride] = (float)x[k];
    else if (v->dtype == MOIRE_F64)
        for (int64_t k = 0; k < n; k++)
            ((double *)v->data)[i + k * stride] = x[k];
    else
        for (int64_t k = 0; k < n; k++)
            store_other(v, i + k * stride, x[k]);
}

int64_t mo_count(const struct mo_value *v) {
    return v->dtype == MOIRE_NONE ? 0 : mo_shape_count(&v->shape);
}

void mo_copy_elem(const struct mo_value *dst, int64_t i, const struct mo_value *src, int64_t j, int64_t n) {
    size_t size = mo_dtype_bytes(dst->dtype);
    if (n > 0)
        memcpy((char *)dst->data + (size_t)i * size, (const char *)src->data + (size_t)j * size,
               (size_t)n * size);
}

void mo_strides(const struct mo_shape *s, int64_t *stride) {
    int64_t step = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= s->d[i];
    }
}

int64_t mo_extent(const struct mo_shape *s, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= s->d[i];
    return n;
}

void mo_row_walk_init(struct mo_row_walk *w, const struct mo_shape *out, const struct mo_shape *const *in,
                      int n) {
    *w = (struct mo_row_walk){.rank = out->rank, .n = n, .row = out->rank ? out->d[out->rank - 1] : 1};
    w->more = mo_shape_count(out) > 0;
    for (int i = 0; i < out->rank; i++)
        w->d[i] = out->d[i];
    for (int k = 0; k < n; k++) {
        int64_t own[MOIRE_MAX_RANK];
        int lead = out->rank - in[k]->rank;
        mo_strides(in[k], own);
        for (int i = 0; i < in[k]->rank; i++)
            w->stride[k][lead + i] = in[k]->d[i] == 1 ? 0 : own[i];
        w->step[k] = out->rank ? w->stride[k][out->rank - 1] : 0;
    }
}

void mo_row_walk_next(struct mo_row_walk *w) {
    for (int i = w->rank - 2; i >= 0; i--) {
        for (int k = 0; k < w->n; k++)
            w->off[k] += w->stride[k][i];
        if (++w->at[i] < w->d[i]) return;
        for (int k = 0; k < w->n; k++)
            w->off[k] -= w->stride[k][i] * w->d[i];
        w->at[i] = 0;
    }
    w->more = false;
}
