/* SPDX-License-Identifier: Apache-2.0
 * lower.h - what the files of runtime/gpu share: views of tensors, buffers of the arena, text of kernels.
 *
 * Lowering walks the layers in order.  Every tensor of the graph is a *view*: a place and a stride for each
 * of its dimensions, so that transposing, slicing, splitting and broadcasting cost nothing; generated kernels
 * read any view, and only libraries make demands (mo_lower_dense, mo_lower_channels_last).
 *
 * Errors are sticky: after the first, every function does nothing and hands out empty views. */
#ifndef MO_GPU_LOWER_H
#define MO_GPU_LOWER_H
#include <stdarg.h>
#include "runtime/gpu/program.h"
#include "runtime/ops/moire/fused.h"
#include "runtime/ops/util.h"

enum { MO_ELEMENTWISE_INPUTS = MO_FUSED_INPUTS + 2, MO_VIEW_RANK = MOIRE_MAX_RANK, MO_EACH_ARGS = 16 };

struct mo_gpu_text {
    const struct mo_env *env;
    char *at;
    size_t n, cap;
    bool failed; /* out of memory */
};

struct mo_gpu_view {
    struct mo_gpu_place place; /* in the arena: `index` is the buffer until the arena is planned */
    moire_dtype dtype;         /* on the device */
    int rank;
    int64_t d[MO_VIEW_RANK], stride[MO_VIEW_RANK]; /* stride in elements; 0 = broadcast */
};

/* A piece of the arena, needed from operation `first` to operation `last`. */
struct mo_gpu_buffer {
    int64_t bytes, offset;
    int first, last;
};

/* A constant in one of its forms. */
struct mo_gpu_form {
    int tensor, form, weight;
    moire_dtype dtype;
};

struct mo_lower {
    const struct mo_env *env;
    const struct mo_graph *graph;
    const struct mo_gpu_options *options;
    struct mo_gpu_program *program;
    moire_error *err;
    int rc;
    moire_dtype storage;        /* of fp32 tensors */
    const struct mo_node *node; /* being lowered */
    const char *label;          /* of it */
    struct mo_gpu_view *views;  /* of every tensor; rank -1: not there yet */
    struct mo_gpu_buffer *buffers;
    struct mo_gpu_form *forms;
    int n_buffers, cap_buffers, n_forms, cap_forms, cap_ops, cap_weights, cap_kernels;
    struct mo_gpu_text source;
};

/* --- kernel_text.c ------------------------------------------------------------------------------------- */
void mo_gpu_printf(struct mo_gpu_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mo_gpu_vprintf(struct mo_gpu_text *t, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
void mo_gpu_text_free(struct mo_gpu_text *t);
/* Type of an element in memory, NULL: kernels know no such type; and of a value in a register. */
const char *mo_gpu_memory_type(moire_dtype dtype);
const char *mo_gpu_value_type(moire_dtype dtype);
/* Values of that type are float in registers. */
bool mo_gpu_is_float(moire_dtype dtype);
/* Appends the expression that makes a value of what is in memory, and the reverse. */
void mo_gpu_get(struct mo_gpu_text *t, moire_dtype dtype, const char *at);
void mo_gpu_put(struct mo_gpu_text *t, moire_dtype dtype, const char *value);
void mo_gpu_literal(struct mo_gpu_text *t, float value);
/* Appends "r OP value;" for what is in memory. */
void mo_gpu_take(struct mo_gpu_text *t, const char *op, moire_dtype dtype, const char *at);
/* Appends "r = act(r);" for a float r. */
void mo_gpu_act_text(struct mo_gpu_text *t, enum mo_act act, float a, float b);
/* Whether the device has vectors of that type. */
bool mo_gpu_has_vectors(moire_dtype dtype);
/* What every source begins with. */
const char *mo_gpu_prelude(void);

/* --- state.c ------------------------------------------------------------------------------------------- */
int mo_lower_fail(struct mo_lower *l, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Makes room for one more element; false when out of memory. */
bool mo_lower_grow(struct mo_lower *l, void *array, int n, int *cap, size_t size);
/* A new operation of the current layer; NULL after an error. */
struct mo_gpu_op *mo_lower_op(struct mo_lower *l, enum mo_gpu_op_kind kind);
/* The operation reads or writes that place: its buffer lives until then. */
void mo_lower_use(struct mo_lower *l, struct mo_gpu_place place);
/* The kernel with this text behind its name, "(arguments) { body }"; a new one unless there is one.  Takes
 * the text. */
int mo_lower_kernel(struct mo_lower *l, struct mo_gpu_text *text, int64_t blocks_x, int64_t blocks_y,
                    int64_t blocks_z, unsigned threads);
/* An operation of one launch. */
void mo_lower_launch(struct mo_lower *l, int kernel, const struct mo_gpu_place *args, int n_args,
                     int64_t flops);

/* --- views.c ------------------------------------------------------------------------------------------- */
/* A new buffer; dimensions lie in memory in the order of `order` (outermost first), NULL: as they are. */
struct mo_gpu_view mo_lower_new(struct mo_lower *l, moire_dtype dtype, int rank, const int64_t *d,
                                const int *order);
/* The order with channels last for ranks 3 to 5, NULL for any other. */
const int *mo_gpu_channels_last(int rank);
/* Type on the device of a tensor of the graph. */
moire_dtype mo_lower_dtype(const struct mo_lower *l, moire_dtype dtype);
/* Input k of the node; constants as they are in the model. */
struct mo_gpu_view mo_lower_in(struct mo_lower *l, int k);
/* The attribute `axis`, counted from the front. */
static inline int mo_lower_axis(const struct mo_lower *l, int64_t fallback, int rank) {
    int64_t axis = mo_attr_int(l->node, "axis", fallback);
    return (int)(axis < 0 ? axis + rank : axis);
}
/* The same, constants in the type of fp32 tensors on the device. */
struct mo_gpu_view mo_lower_stored(struct mo_lower *l, int k);
/* Input 2 as a vector of that type, for the epilogue of a product; space NONE: it is not given. */
struct mo_gpu_place mo_lower_bias(struct mo_lower *l);
/* The node as functions of runtime/ops see it: inputs in `in`, contents only of constants. */
struct mo_op_ctx mo_lower_ctx(const struct mo_lower *l, struct mo_value *in, int cap);
/* Where output k goes: a new buffer in that order. */
struct mo_gpu_view mo_lower_out(struct mo_lower *l, int k, const int *order);
/* Output k of the node is this view. */
void mo_lower_set(struct mo_lower *l, int k, struct mo_gpu_view view);
/* The node has an input k. */
bool mo_lower_has(const struct mo_lower *l, int k);
int64_t mo_gpu_count(const struct mo_gpu_view *v);
/* Elements lie one behind the other, the dimensions in that order (NULL: as they are), and aligned. */
bool mo_gpu_lies_in(const struct mo_gpu_view *v, const int *order);
/* The same elements seen under another shape; false when strides do not allow it. */
bool mo_gpu_reshape(const struct mo_gpu_view *v, int rank, const int64_t *d, struct mo_gpu_view *out);
struct mo_gpu_view mo_gpu_broadcast(const struct mo_gpu_view *v, int rank, const int64_t *d);
/* A vector of channels, [C], as it broadcasts to [N,C,...]. */
struct mo_gpu_view mo_gpu_by_channel(struct mo_gpu_view v, int rank);
struct mo_gpu_view mo_gpu_permute(const struct mo_gpu_view *v, const int *perm);
/* The part of `v` that begins at `start` and has `n` elements along `axis`, `step` apart. */
struct mo_gpu_view mo_gpu_slice(const struct mo_gpu_view *v, int axis, int64_t start, int64_t n,
                                int64_t step);
/* The view with elements in memory in `order`, of `dtype`; a copy unless it is so. */
struct mo_gpu_view mo_lower_ordered(struct mo_lower *l, struct mo_gpu_view v, const int *order,
                                    moire_dtype dtype);
/* Memory order of a result that is best made of `like`: the order of its strides. */
void mo_gpu_order_of(const struct mo_gpu_view *like, int order[MO_VIEW_RANK]);
/* Places all buffers, and makes the places of all operations final. */
int mo_lower_arena(struct mo_lower *l);

/* --- weights.c ----------------------------------------------------------------------------------------- */
enum mo_gpu_form_kind {
    MO_FORM_AS_IS,
    MO_FORM_KRSC, /* [K,C,R,S] to [K,R,S,C] */
    MO_FORM_RSK   /* [K,1,R,S] to [R,S,K] */
};
/* A constant of the graph on the device in that form and type; its shape is the model's, whatever the form.
 */
struct mo_gpu_view mo_lower_weight(struct mo_lower *l, int tensor, enum mo_gpu_form_kind form,
                                   moire_dtype dtype);

/* n numbers of the lowering's own, as a view of one dimension. */
struct mo_gpu_view mo_lower_numbers(struct mo_lower *l, moire_dtype dtype, int64_t n, const void *numbers);

/* --- kernel_elementwise.c: kernels that compute every element on its own -------------------------------- */
struct mo_elementwise {
    int n;
    struct mo_gpu_view in[MO_ELEMENTWISE_INPUTS]; /* of out's shape, broadcast */
    struct mo_gpu_view out;
    struct mo_gpu_text body; /* statements over values x0, x1, ... that set r */
    const char *type;        /* of r */
    int64_t flops;
};
void mo_elementwise_init(struct mo_lower *l, struct mo_elementwise *p, struct mo_gpu_view out);
/* Adds an operand, broadcast to the output. */
void mo_elementwise_in(struct mo_elementwise *p, const struct mo_gpu_view *v);
void mo_elementwise_done(struct mo_lower *l, struct mo_elementwise *p);
/* out = v, of any types. */
void mo_lower_copy(struct mo_lower *l, const struct mo_gpu_view *v, const struct mo_gpu_view *out);
/* out = act(in) and residual, in the order of the fused epilogue; in place is fine. */
void mo_lower_epilogue(struct mo_lower *l, const struct mo_gpu_view *v, const struct mo_gpu_view *residual,
                       const struct mo_fuse *fuse, const struct mo_gpu_view *out);
/* Loops of indices: appends "unsigned iK = ..." that take a flat index `t` apart, innermost last. */
void mo_gpu_take_apart(struct mo_gpu_text *t, const int64_t *d, int n, int64_t inner);

/* --- kernel_element.c: kernels of a thread an element that know its coordinates ------------------------- */
struct mo_each {
    struct mo_gpu_view over; /* a thread for each of its elements */
    int n, out;              /* out: the operand that is output 0 */
    struct mo_gpu_view arg[MO_EACH_ARGS];
    bool written[MO_EACH_ARGS];
    struct mo_gpu_text body; /* statements over coordinates o0, o1, ... */
    int64_t flops;
};
extern const char *const mo_each_here[MO_VIEW_RANK]; /* "o0", "o1", ... */
void mo_each_init(struct mo_lower *l, struct mo_each *e, const struct mo_gpu_view *over);
/* Adds an operand, of any shape; its number. */
int mo_each_arg(struct mo_each *e, const struct mo_gpu_view *v, bool written);
/* Output 0 is `value` at the thread's coordinates; all is said. */
void mo_each_close(struct mo_lower *l, struct mo_each *e, const char *value);
/* A new output k that lies like that view. */
struct mo_gpu_view mo_lower_out_like(struct mo_lower *l, int k, const struct mo_gpu_view *x);
/* Appends to the body what printf() makes of it, in which "$1" is the type of a value of operand 1, "@1" the
 * value at the thread's coordinates, "@1(i, j + 1)" at these, and "@1{2:j}" at the thread's but for axis 2,
 * where it is j. */
void mo_each_text(struct mo_each *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends to the body the value of operand k at these coordinates, or the statement that stores one there. */
void mo_each_value(struct mo_each *e, int k, const char *const *at);
void mo_each_store(struct mo_each *e, int k, const char *const *at, const char *value);
void mo_each_done(struct mo_lower *l, struct mo_each *e);

/* --- kernel_reduce.c: kernels that sum along axes ------------------------------------------------------- */
enum mo_row_kind { MO_ROW_SOFTMAX, MO_ROW_LOG_SOFTMAX, MO_ROW_NORM, MO_ROW_RMS };
struct mo_row {
    enum mo_row_kind kind;
    int axis;                        /* first of the axes that make a row: all from here to the last */
    struct mo_gpu_view x, out;       /* of one shape */
    struct mo_gpu_view scale, shift; /* of a norm, or place NONE; broadcast to x */
    struct mo_gpu_view mask;         /* of softmax, or place NONE */
    enum { MO_ROW_ADD, MO_ROW_FILL, MO_ROW_KEEP } masking;
    float factor, fill, epsilon;
};
void mo_lower_row(struct mo_lower *l, const struct mo_row *row);
/* Reduction over the axes whose flag is set; out has extent 1 there. `name` is that of an ONNX reduction. */
void mo_lower_reduce(struct mo_lower *l, const char *name, const struct mo_gpu_view *x, const bool *axes,
                     const struct mo_gpu_view *out);

/* --- kernel_window.c: kernels of convolution and pooling ------------------------------------------------ */
enum mo_window_kind {
    MO_WINDOW_MAX,
    MO_WINDOW_AVERAGE,
    MO_WINDOW_DEPTHWISE,
    MO_WINDOW_CONV,
    MO_WINDOW_TRANSPOSED /* mo_transpose_window() */
};
struct mo_window_job {
    enum mo_window_kind kind;
    struct mo_window window;
    int64_t groups;
    bool count_pads;         /* average */
    struct mo_gpu_view x, y; /* [N,C,H,W] or [N,C,D,H,W] */
    struct mo_gpu_place weights, bias;
    const struct mo_gpu_view *residual; /* of y's strides, or NULL */
    struct mo_fuse fuse;
};
/* Fills a launch; the caller makes it an operation, or the kernel in a library's stead. */
void mo_lower_window(struct mo_lower *l, const struct mo_window_job *job, struct mo_gpu_launch *out);

/* --- core.c -------------------------------------------------------------------------------------------- */
/* The layer becomes one that a core computes; false: it cannot be one. */
bool mo_lower_core(struct mo_lower *l);

/* --- gemm.c --------------------------------------------------------------------------------------------- */
/* Adds a product with the fused epilogue: what the library cannot do of it follows as a kernel of its own.
 * y: where d is, with the residual's shape. */
void mo_lower_gemm(struct mo_lower *l, const struct mo_gpu_gemm *gemm, const struct mo_gpu_view *y,
                   const struct mo_gpu_view *residual, const struct mo_fuse *fuse);
/* An operand as matrices; copied when it lies otherwise.  With `flip` columns may lie together. */
struct mo_gpu_matrix mo_lower_operand(struct mo_lower *l, struct mo_gpu_view v, bool *flip);
void mo_lower_product(struct mo_lower *l);
void mo_lower_attention(struct mo_lower *l);

/* --- formulas.c ----------------------------------------------------------------------------------------- */
bool mo_gpu_has_formula(const struct mo_node *node);
/* The expression over A, B, P, Q and the attributes P and Q; NULL: there is none for such operands. */
const char *mo_gpu_formula(const struct mo_node *node, bool integers, float *p, float *q);

/* --- one function an operator; table in lower.c -------------------------------------------------------- */
void mo_lower_conv(struct mo_lower *l);
void mo_lower_pool(struct mo_lower *l);
void mo_lower_global_pool(struct mo_lower *l);
void mo_lower_fused(struct mo_lower *l);
void mo_lower_step(struct mo_lower *l);
bool mo_gpu_is_step(const struct mo_node *node);
void mo_lower_variadic(struct mo_lower *l);
void mo_lower_batch_norm(struct mo_lower *l);
void mo_lower_cast(struct mo_lower *l);
void mo_lower_view(struct mo_lower *l);
void mo_lower_transpose(struct mo_lower *l);
void mo_lower_concat(struct mo_lower *l);
void mo_lower_split(struct mo_lower *l);
void mo_lower_slice(struct mo_lower *l);
void mo_lower_expand(struct mo_lower *l);
void mo_lower_pad(struct mo_lower *l);
void mo_lower_gather(struct mo_lower *l);
void mo_lower_softmax(struct mo_lower *l);
void mo_lower_norm(struct mo_lower *l);
void mo_lower_reduction(struct mo_lower *l);
void mo_lower_conv_transpose(struct mo_lower *l);
void mo_lower_quantize(struct mo_lower *l);
void mo_lower_resize(struct mo_lower *l);
void mo_lower_lrn(struct mo_lower *l);
void mo_lower_recurrent(struct mo_lower *l);
#endif
