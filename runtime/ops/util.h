/* SPDX-License-Identifier: Apache-2.0
 * util.h - what the operator files share: typed element access, checks, broadcasting, windows, epilogue.
 *
 * References compute in double (floats) or int64 (integers) through spans: one type switch a span, then plain
 * loops.  Sums and products of two fp32 numbers in double round to the same fp32 result. */
#ifndef MO_OPS_UTIL_H
#define MO_OPS_UTIL_H
#include "runtime/ops/op.h"

/* Every family of operators: X(file) stands for `mo_ops_<file>`, the rows at the end of that file. */
#define MO_OP_FAMILIES(X)                                                                                    \
    X(unary)                                                                                                 \
    X(moire_ops)                                                                                             \
    X(attention)                                                                                             \
    X(scaled_attention)                                                                                      \
    X(rotary)                                                                                                \
    X(tensor_scatter)                                                                                        \
    X(fused)                                                                                                 \
    X(tap_sum)                                                                                               \
    X(region)                                                                                                \
    X(frames)                                                                                                \
    X(binary)                                                                                                \
    X(conv)                                                                                                  \
    X(pool)                                                                                                  \
    X(matmul)                                                                                                \
    X(norm)                                                                                                  \
    X(softmax)                                                                                               \
    X(shape)                                                                                                 \
    X(cast)                                                                                                  \
    X(move)                                                                                                  \
    X(gather)                                                                                                \
    X(reduce)                                                                                                \
    X(pad)                                                                                                   \
    X(resize)                                                                                                \
    X(select)                                                                                                \
    X(roi_align)                                                                                             \
    X(vision)                                                                                                \
    X(loss)                                                                                                  \
    X(einsum)                                                                                                \
    X(signal)                                                                                                \
    X(recurrent)                                                                                             \
    X(quantize)                                                                                              \
    X(qconv)                                                                                                 \
    X(qmean)                                                                                                 \
    X(linalg)                                                                                                \
    X(control)                                                                                               \
    X(scan_op)                                                                                               \
    X(tfidf)                                                                                                 \
    X(training)                                                                                              \
    X(sequence)                                                                                              \
    X(optional)
#define MO_OP_EXTERN(file) extern const struct mo_op mo_ops_##file[];
MO_OP_FAMILIES(MO_OP_EXTERN)
#undef MO_OP_EXTERN

/* Sets of element types. */
#define MO_TYPE(t) (1u << (t))
enum {
    MO_FLOATS = MO_TYPE(MOIRE_F32) | MO_TYPE(MOIRE_F64) | MO_TYPE(MOIRE_F16) | MO_TYPE(MOIRE_BF16),
    MO_SIGNED = MO_TYPE(MOIRE_I8) | MO_TYPE(MOIRE_I16) | MO_TYPE(MOIRE_I32) | MO_TYPE(MOIRE_I64),
    MO_UNSIGNED = MO_TYPE(MOIRE_U8) | MO_TYPE(MOIRE_U16) | MO_TYPE(MOIRE_U32) | MO_TYPE(MOIRE_U64),
    MO_INTS = MO_SIGNED | MO_UNSIGNED,
    MO_NUMBERS = MO_FLOATS | MO_INTS,
    MO_BOOLS = MO_TYPE(MOIRE_BOOL),
    MO_ANY = MO_NUMBERS | MO_BOOLS
};
static inline bool mo_type_in(moire_dtype t, unsigned set) {
    return t > 0 && t < 32 && (set >> t & 1);
}

/* Input i is there (and is not the residual of a fused epilogue). */
bool mo_given(const struct mo_op_ctx *ctx, int i);
/* Output i is asked for. */
static inline bool mo_wanted(const struct mo_op_ctx *ctx, int i) {
    return i < ctx->n_out && ctx->out[i].data;
}
/* Checks of an input: present, type in set, rank in [low, high]; 0 or an error that names it. */
int mo_check_type(const struct mo_op_ctx *ctx, int i, unsigned set);
int mo_check_rank(const struct mo_op_ctx *ctx, int i, int low, int high);
/* Type in set for input 0, and every other given input has the same type. */
int mo_check_same(const struct mo_op_ctx *ctx, unsigned set);
/* Fills output i; refuses negative dimensions, overflow and tensors over the limit.  No output i: fine. */
int mo_set_out(const struct mo_op_ctx *ctx, int i, moire_dtype dtype, const struct mo_shape *shape);

/* Reads an attribute or constant used in size arithmetic and bounds it to +-2^31, so that products of
 * two fit int64; returns the count, or <0 an error.  absent: 0. */
int mo_attr_sizes(const struct mo_op_ctx *ctx, const char *name, int64_t *out, int cap);

/* One element, any numeric type or bool.  Stores of integers wrap; stores of doubles to integers saturate. */
double mo_load(const struct mo_value *v, int64_t i);
void mo_store(const struct mo_value *v, int64_t i, double x);
int64_t mo_load_int(const struct mo_value *v, int64_t i);
void mo_store_int(const struct mo_value *v, int64_t i, int64_t x);
/* n elements from index i on, `stride` apart. */
void mo_load_span(const struct mo_value *v, int64_t i, int64_t stride, int64_t n, double *out);
void mo_store_span(const struct mo_value *v, int64_t i, int64_t stride, int64_t n, const double *x);
float mo_half_to_float(uint16_t h);
uint16_t mo_float_to_half(float f);
int64_t mo_saturate(double x, int64_t low, int64_t high);
/* Elements; 0 for an absent value. */
int64_t mo_count(const struct mo_value *v);
/* dst[i] = src[j], same type. */
void mo_copy_elem(const struct mo_value *dst, int64_t i, const struct mo_value *src, int64_t j, int64_t n);
/* Row-major strides in elements. */
void mo_strides(const struct mo_shape *s, int64_t *stride);
/* Product of d[from..to). */
int64_t mo_extent(const struct mo_shape *s, int from, int to);
/* Scratch of count doubles (at least one); NULL and an error when out of memory. */
void *mo_scratch(const struct mo_op_ctx *ctx, int64_t count, size_t size);

/* Walks the rows (innermost dimension) of an output shape; off[k] follows operand k, step[k] is its stride
 * along the row.  At most 4 operands; operands broadcast as in numpy. */
struct mo_row_walk {
    int rank, n;
    int64_t row, at[MOIRE_MAX_RANK], d[MOIRE_MAX_RANK];
    int64_t stride[4][MOIRE_MAX_RANK], off[4], step[4];
    bool more;
};
void mo_row_walk_init(struct mo_row_walk *w, const struct mo_shape *out, const struct mo_shape *const *in,
                      int n);
void mo_row_walk_next(struct mo_row_walk *w);

/* Sliding windows of conv and pool, in up to 3 spatial dimensions, right-aligned (absent ones are 1). */
struct mo_window {
    int nd;
    int64_t in[3], out[3], k[3], stride[3], dilation[3], pad[3], pad_end[3];
};
/* kernel: sizes, or NULL to read kernel_shape.  x has N, C, then the spatial dimensions. */
int mo_window_init(const struct mo_op_ctx *ctx, const struct mo_shape *x, const int64_t *kernel,
                   struct mo_window *w);
/* Of a ConvTranspose: the window of the convolution whose transpose it is, so `in` is its output's size. */
int mo_transpose_window(const struct mo_op_ctx *ctx, struct mo_window *w);
/* N, channels, spatial output sizes. */
struct mo_shape mo_window_shape(const struct mo_window *w, int64_t n, int64_t channels);
/* Of a MaxUnpool: the shape that kernel, strides and pads give, over which its indices count; 0 or an error.
 */
int mo_unpool_shape(const struct mo_op_ctx *ctx, struct mo_shape *y);
/* Output positions [*lo, *hi) along dimension i for which kernel tap k reads inside the input. */
void mo_window_range(const struct mo_window *w, int i, int64_t k, int64_t *lo, int64_t *hi);

/* act and residual of the fused epilogue over output 0 (fp32). */
int mo_epilogue(const struct mo_op_ctx *ctx);

/* Shared infer functions. */
int mo_infer_same(const struct mo_op_ctx *ctx);  /* any type; out = shape and type of input 0 */
int mo_infer_float(const struct mo_op_ctx *ctx); /* the same, floats only */
int mo_infer_number(const struct mo_op_ctx *ctx);
#endif
