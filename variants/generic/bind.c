/* SPDX-License-Identifier: Apache-2.0
 * bind.c - helpers of the binders, and the kernel tables by level. */
#include "variants/generic/bind.h"

#include <string.h>
#include "variants/conv_geometry.h"

extern const struct mo_simd_table mo_simd_table_base, mo_simd_table_avx2, mo_simd_table_avx512,
    mo_simd_table_neon;

const struct mo_simd_table *mo_simd_of(enum mo_isa isa) {
#if defined(__x86_64__)
    if (isa == MO_ISA_AVX512) return &mo_simd_table_avx512;
    if (isa == MO_ISA_AVX2) return &mo_simd_table_avx2;
#elif defined(__aarch64__)
    if (isa == MO_ISA_NEON) return &mo_simd_table_neon;
#endif
    (void)isa;
    return &mo_simd_table_base;
}

bool mo_f32(const struct mo_tensor *t) {
    return t && t->dtype == MOIRE_F32 && !t->dynamic && mo_shape_count(&t->shape) > 0;
}

bool mo_eight_bits(const struct mo_tensor *t) {
    return t && (t->dtype == MOIRE_U8 || t->dtype == MOIRE_I8) && !t->dynamic &&
           mo_shape_count(&t->shape) > 0;
}

int64_t mo_span(const struct mo_tensor *t, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to && i < t->shape.rank; i++)
        n *= t->shape.d[i];
    return n;
}

struct mo_padding mo_padding_of(const struct mo_tensor *t) {
    if (t->layout != MO_C16 || t->shape.d[1] % 16 == 0) return (struct mo_padding){0};
    return (struct mo_padding){.from = t->shape.d[1] / 16 * mo_span(t, 2, t->shape.rank) * 16,
                               .used = (int)(t->shape.d[1] % 16)};
}

int mo_axis_of(int64_t axis, int rank) {
    if (axis < -(int64_t)rank || axis >= rank) return -1;
    return (int)(axis < 0 ? axis + rank : axis);
}

int mo_ints_of(const struct mo_graph *g, const struct mo_node *node, const char *attr, int i, int64_t *out,
               int cap) {
    int n = attr ? mo_attr_ints(node, attr, out, cap) : -1;
    if (n >= 0) return n <= cap ? n : -1;
    const struct mo_tensor *t = i >= 0 ? mo_node_in(g, node, i) : NULL;
    int64_t count = t && t->data ? mo_shape_count(&t->shape) : -1;
    if (count < 0 || count > cap || (t->dtype != MOIRE_I64 && t->dtype != MOIRE_I32)) return -1;
    for (int64_t k = 0; k < count; k++)
        out[k] = t->dtype == MOIRE_I64 ? ((const int64_t *)t->data)[k] : ((const int32_t *)t->data)[k];
    return (int)count;
}

const void *mo_keep(const struct mo_binder *binder, const void *from, size_t bytes) {
    void *copy = mo_region_alloc(binder->region, bytes);
    if (copy) memcpy(copy, from, bytes);
    return copy;
}

float *mo_keep_padded(const struct mo_binder *binder, const float *from, int64_t n, float filler) {
    int64_t padded = (n + 15) / 16 * 16;
    float *copy = mo_region_array(binder->region, (size_t)padded, sizeof *copy);
    for (int64_t i = 0; copy && i < padded; i++)
        copy[i] = from && i < n ? from[i] : filler;
    return copy;
}

int mo_bound(struct mo_step *step, mo_kernel *run, const char *kernel, const void *params, int64_t units,
             moire_error *err) {
    if (!params) return mo_fail(err, MOIRE_ENOMEM, "out of memory while binding kernel %s", kernel);
    step->run = run;
    step->kernel = kernel;
    step->params = params;
    step->units = units;
    return MOIRE_OK;
}

/* The last two of `n` list values, or `fallback`; false when the list does not fit the rank. */
static bool pair(const struct mo_node *node, const char *name, int dims, int64_t fallback, int64_t *y,
                 int64_t *x) {
    int64_t v[2];
    int n = mo_attr_ints(node, name, v, 2);
    *y = *x = fallback;
    if (n < 0) return true;
    if (n != dims) return false;
    *x = v[n - 1];
    if (n == 2) *y = v[0];
    if (n == 1) *y = 1;
    return *x > 0 && *y > 0 && *x < INT32_MAX && *y < INT32_MAX;
}

bool mo_window_of(const struct mo_node *node, const struct mo_tensor *x, const struct mo_tensor *y,
                  const int64_t *kernel, bool transposed, struct mo_window2 *out) {
    int dims = x->shape.rank - 2;
    int64_t pads[4] = {0};
    if (dims < 1 || dims > 2 || y->shape.rank != x->shape.rank) return false;
    *out =
        (struct mo_window2){.h = 1, .w = x->shape.d[dims + 1], .oh = 1, .ow = y->shape.d[dims + 1], .kh = 1};
    if (dims == 2) {
        out->h = x->shape.d[2];
        out->oh = y->shape.d[2];
    }
    if (kernel) {
        out->kw = kernel[dims - 1];
        if (dims == 2) out->kh = kernel[0];
    } else if (!pair(node, "kernel_shape", dims, 1, &out->kh, &out->kw)) {
        return false;
    }
    if (!pair(node, "strides", dims, 1, &out->sh, &out->sw)) return false;
    if (!pair(node, "dilations", dims, 1, &out->dh, &out->dw)) return false;
    const char *mode = mo_attr_string(node, "auto_pad", "NOTSET");
    int64_t narrow_h = transposed ? out->h : out->oh, wide_h = transposed ? out->oh : out->h;
    int64_t narrow_w = transposed ? out->w : out->ow, wide_w = transposed ? out->ow : out->w;
    if (!strncmp(mode, "SAME_", 5)) {
        bool upper = !strcmp(mode, "SAME_UPPER");
        mo_same_pads(wide_h, narrow_h, out->kh, out->sh, out->dh, upper, &out->pt, &out->pb);
        mo_same_pads(wide_w, narrow_w, out->kw, out->sw, out->dw, upper, &out->pl, &out->pr);
        return !transposed;
    }
    int n = mo_attr_ints(node, "pads", pads, 4);
    if (n > 0 && n != 2 * dims) return false;
    if (n > 0) {
        out->pl = pads[dims - 1];
        out->pr = pads[2 * dims - 1];
        if (dims == 2) {
            out->pt = pads[0];
            out->pb = pads[2];
        }
    }
    return out->pt >= 0 && out->pl >= 0 && out->pb >= 0 && out->pr >= 0 && out->kh > 0 && out->kw > 0;
}
