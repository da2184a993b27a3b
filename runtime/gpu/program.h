/* SPDX-License-Identifier: Apache-2.0
 * program.h - a model lowered for a GPU: what a device has to do, in terms of no vendor's library.
 *
 * mo_gpu_lower() turns a graph of layers into a list of device operations over one arena and a list of
 * weights.  It is pure: it needs no GPU and no CUDA, and the same graph gives the same program.  A device
 * (runtime/gpu/gpu_ops.h) loads programs; it never sees a graph.
 *
 * A program is for one batch and one precision.  Images and feature maps lie channels last (NHWC); all else
 * row-major.  Tensors of fp32 have the program's storage type on the device, sums are fp32; tensors of other
 * types keep theirs.  Inputs and outputs are the model's own (row-major, own type) and have places in the
 * arena: who runs a program copies inputs there before the first segment and outputs from there after the
 * last.  Contents of the arena are valid from one segment to the next and need no initial value.
 *
 * Operations run in order.  `conv` and `gemm` are meant for cuDNN and cuBLASLt; each also names a generated
 * kernel that computes the same, for a device without the library or a case that the library refuses.
 * A layer that none of these computes is done by a core, in the order of the others.
 * Generated kernels are CUDA C in `source`, numbers only: no text of a model reaches it.  They include
 * "moire_device.h", which the device provides (types of 16 bits, conversions). */
#ifndef MO_GPU_PROGRAM_H
#define MO_GPU_PROGRAM_H
#include <stdbool.h>
#include "moire.h"

enum { MO_GPU_ARGS = 16, MO_GPU_ALIGN = 256 /* of every place in the arena and every weight, bytes */ };

/* TF32 stores fp32 and multiplies with ten bits of mantissa. */
enum mo_gpu_precision { MO_GPU_FP32, MO_GPU_TF32, MO_GPU_FP16, MO_GPU_BF16 };

enum mo_gpu_space { MO_GPU_NONE, MO_GPU_ARENA, MO_GPU_WEIGHT };

/* Where an operand begins: `offset` bytes into the arena or into weight `index`. */
struct mo_gpu_place {
    enum mo_gpu_space space; /* MO_GPU_NONE: operand not given */
    int index;
    int64_t offset;
};

/* Constant contents in the form that the device reads.  Programs with the same `model` share weights on a
 * device when `sum` and `bytes` are equal: batches of one model hold them once. */
struct mo_gpu_weight {
    moire_dtype dtype;
    int64_t bytes;
    const void *data;
    uint64_t sum;
};

/* An input or output as the model has it. */
struct mo_gpu_port {
    const char *name; /* untrusted text */
    moire_dtype dtype;
    int rank;
    int64_t shape[MOIRE_MAX_RANK];
    int64_t offset, bytes; /* in the arena */
};

enum mo_gpu_act { MO_GPU_LINEAR, MO_GPU_RELU, MO_GPU_GELU_TANH /* gemm only */ };

/* y = act(conv(x, w) + bias + residual).  x [n,h,w,c], w [k,r,s,c/groups], bias [k], residual and y
 * [n,oh,ow,k], all of the storage type.  Padding is the same at both ends. */
struct mo_gpu_conv {
    int64_t n, h, w, c, k, r, s, oh, ow, groups;
    int64_t pad[2], stride[2], dilation[2];
    enum mo_gpu_act act;
    struct mo_gpu_place x, weights, bias, residual, y;
};

/* d = act(a b + bias + c) for `count` matrices: a [m,k], b [k,n] (or [n,k] when transposed), c and d [m,n],
 * bias [n].  Row-major; `row` elements from one row to the next, `step` from one matrix to the next (0: the
 * same for all). */
struct mo_gpu_matrix {
    struct mo_gpu_place at;
    int64_t row, step;
};
struct mo_gpu_gemm {
    int64_t count, m, n, k;
    bool transposed; /* b */
    float alpha;     /* factor of the product */
    enum mo_gpu_act act;
    struct mo_gpu_matrix a, b, c, d;
    struct mo_gpu_place bias;
};

/* A function of the source: all arguments are pointers, sizes are in its text. */
struct mo_gpu_kernel {
    char symbol[24];
    unsigned grid[3], block[3];
    size_t text_at, text_bytes; /* its arguments and body in the source */
};

struct mo_gpu_launch {
    int kernel; /* index, -1: none; of a layer on cores the arguments are its operands */
    int n_args;
    struct mo_gpu_place args[MO_GPU_ARGS];
};

/* A layer that a core computes (core_layer.h): operands [0, n_in) of its launch are inputs, the others
 * outputs. */
struct mo_gpu_core {
    const void *layer; /* packed */
    int64_t layer_bytes;
    int64_t bytes[MO_GPU_ARGS]; /* of each operand */
    int n_in;
};

enum mo_gpu_op_kind { MO_GPU_CONV, MO_GPU_GEMM, MO_GPU_KERNEL, MO_GPU_CORE, MO_GPU_KINDS };

struct mo_gpu_op {
    enum mo_gpu_op_kind kind;
    int layer;            /* of the graph that was lowered */
    const char *label;    /* "node 'n' (Op)", for messages; untrusted text */
    int64_t flops, moved; /* nominal work, and bytes read and written */
    union {
        struct mo_gpu_conv conv;
        struct mo_gpu_gemm gemm;
        struct mo_gpu_core core;
    };
    struct mo_gpu_launch launch; /* the generated kernel; of conv and gemm, the one in the library's stead */
};

/* Libraries have a function for it. */
static inline bool mo_gpu_has_library(const struct mo_gpu_op *op) {
    return op->kind == MO_GPU_CONV || op->kind == MO_GPU_GEMM;
}

/* Operations [begin, end): those of whole layers [first_layer, end_layer). */
struct mo_gpu_segment {
    int begin, end, first_layer, end_layer;
    int64_t flops, moved;
};

struct mo_gpu_program {
    uint64_t model; /* whose weights these are; given by the caller */
    enum mo_gpu_precision precision;
    int64_t batch;
    int64_t arena_bytes, weight_bytes;
    int n_inputs, n_outputs, n_weights, n_kernels, n_ops, n_segments, n_layers;
    struct mo_gpu_port *inputs, *outputs;
    struct mo_gpu_weight *weights;
    struct mo_gpu_kernel *kernels;
    struct mo_gpu_op *ops;
    struct mo_gpu_segment *segments; /* cover all operations, in order */
    const char *source;              /* CUDA C of all kernels */
    struct mo_region *region;        /* owns everything above */
};

struct mo_gpu_options {
    enum mo_gpu_precision precision;
    uint64_t model;   /* the same for every program of one loaded model, and for no other */
    int max_segments; /* at most so many, of about equal cost; 0 = 1 */
    /* The same model at another batch, whose layers are these: it is cut at the same of them.  NULL: by cost,
     * which depends on the batch. */
    const struct mo_gpu_program *like;
};

struct mo_graph;
/* Lowers a graph (after the passes, with or without the layout ones).  The graph is only read, and not needed
 * afterwards.  MOIRE_EUNSUPPORTED names node and operator. */
int mo_gpu_lower(const struct mo_graph *graph, const struct mo_gpu_options *options,
                 struct mo_gpu_program **out, moire_error *err);
/* Whether that operator runs in programs, if only on cores; a node of it may still be refused for its types,
 * or because its shapes depend on data. */
bool mo_gpu_lowers(const char *op, const char *domain);
void mo_gpu_program_destroy(struct mo_gpu_program *program); /* NULL is fine */

/* program_pack.c: a program in one piece of memory, for processes of the same build.  Bytes that it takes. */
size_t mo_gpu_packed_bytes(const struct mo_gpu_program *program);
/* Packs all but the weights' contents: their `data` become weight_at[i], NULL without that. */
void mo_gpu_pack(const struct mo_gpu_program *program, const int64_t *weight_at, void *out);
/* Makes a packed program, wherever it was copied to, a program; it owns nothing and lies where it is. */
struct mo_gpu_program *mo_gpu_unpack(void *packed);

/* Bytes of an element on the device in that precision. */
int mo_gpu_storage_bytes(enum mo_gpu_precision precision);
const char *mo_gpu_precision_name(enum mo_gpu_precision precision);
/* The precision of that name ("fp32", "tf32", "fp16", "bf16"); false: there is none. */
bool mo_gpu_precision_of(const char *name, enum mo_gpu_precision *out);
#endif
