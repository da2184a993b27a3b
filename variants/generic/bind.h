/* SPDX-License-Identifier: Apache-2.0
 * bind.h - what the binders of the built-in kernels share.  A binder checks that a layer fits its kernel,
 * prepares params and packed weights in the plan's region, and counts the units. */
#ifndef MO_GENERIC_BIND_H
#define MO_GENERIC_BIND_H
#include "variants/matmul_rows.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

/* A float32 tensor of known shape with at least one element. */
bool mo_f32(const struct mo_tensor *t);
/* The same of uint8 or int8. */
bool mo_eight_bits(const struct mo_tensor *t);
/* Product of dimensions [from, to). */
int64_t mo_span(const struct mo_tensor *t, int from, int to);
/* Lanes beyond the channels of an image of t. */
struct mo_padding mo_padding_of(const struct mo_tensor *t);
/* Dimension counted from the end with a possibly negative axis; -1 when out of range. */
int mo_axis_of(int64_t axis, int rank);
/* Integers of an attribute or, when input i is a constant, of that input; -1 when there are none. */
int mo_ints_of(const struct mo_graph *g, const struct mo_node *node, const char *attr, int i, int64_t *out,
               int cap);
/* Params that live as long as the plan: a copy of `from`. */
const void *mo_keep(const struct mo_binder *binder, const void *from, size_t bytes);
/* `n` floats padded with `filler` to a multiple of 16; from NULL: all filler. */
float *mo_keep_padded(const struct mo_binder *binder, const float *from, int64_t n, float filler);
/* Fills run, kernel name, params and units; MOIRE_ENOMEM when params is NULL. */
int mo_bound(struct mo_step *step, mo_kernel *run, const char *kernel, const void *params, int64_t units,
             moire_error *err);

/* A two-dimensional window of pooling or (transposed) convolution; a missing height is 1. */
struct mo_window2 {
    int64_t h, w, oh, ow, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr;
};
/* From shapes and attributes; false when rank or attributes do not fit. */
bool mo_window_of(const struct mo_node *node, const struct mo_tensor *x, const struct mo_tensor *y,
                  const int64_t *kernel, bool transposed, struct mo_window2 *out);

extern const struct mo_family mo_family_gemm, mo_family_matmul, mo_family_unary, mo_family_affine,
    mo_family_fused, mo_family_binary, mo_family_softmax, mo_family_layernorm, mo_family_reduce,
    mo_family_pool, mo_family_reorder, mo_family_copy, mo_family_resize, mo_family_lrn, mo_family_deconv,
    mo_family_attention, mo_family_concat, mo_family_winograd, mo_family_instance;
#endif
