/* SPDX-License-Identifier: Apache-2.0
 * kernel.h - what a kernel is to the runtime: a function over a range of independent units, its arguments,
 * and the families that bind a layer to a kernel.
 *
 * A kernel does one layer.  Its work is `units` independent pieces, numbered from 0; any split of
 * [0, units) over any number of threads gives the same bytes.  Batch is part of the units (image outermost).
 * The same signature serves built-in (generic, shape-parametric) kernels and emitted, specialised ones;
 * emitted C repeats `struct mo_kargs` as text, so its layout is ABI: change MO_KERNEL_ABI with it. */
#ifndef MO_KERNEL_H
#define MO_KERNEL_H
#include "runtime/graph/graph.h"

enum { MO_KERNEL_ABI = 2, MO_KERNEL_IN = 16, MO_KERNEL_OUT = 4 };

/* Arguments of one layer of one query; filled once when an activation arena is bound. */
struct mo_kargs {
    const void *in[MO_KERNEL_IN];   /* node->in order; constants too; NULL = absent */
    void *out[MO_KERNEL_OUT];       /* node->out order */
    int64_t in_image[MO_KERNEL_IN]; /* bytes from one image (outermost index) to the next */
    int64_t out_image[MO_KERNEL_OUT];
    const void *weights;  /* packed, read-only, shared by all queries; NULL if none */
    const float *bias;    /* padded to the packing's channel count; never NULL for conv/GEMM */
    const void *residual; /* = in[fuse.residual], or NULL */
    int64_t residual_image;
    const void *params; /* what bind() prepared; of compiled kernels, see struct mo_step.compiled_params */
};

/* Runs units [begin, end).  scratch: 64-byte aligned, step->scratch_bytes, private to the caller. */
typedef void mo_kernel(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch);

/* Instruction set levels a kernel may need; detected by CPUID and what the OS enabled (XCR0).  Kernels of
 * every level can be emitted anywhere. */
enum mo_isa { MO_ISA_BASE = 0, MO_ISA_AVX2 = 1, MO_ISA_AVX512 = 2, MO_ISA_NEON = 3, MO_ISA_COUNT };
enum mo_isa mo_isa_detect(void);
/* Whether a machine of level `have` runs kernels of level `need`: its own, and lesser ones of its family. */
bool mo_isa_covers(enum mo_isa have, enum mo_isa need);
/* To go through the levels that this machine runs: the next one above `isa` (-1: the first), MO_ISA_COUNT at
 * the end. */
int mo_isa_next(int isa);
/* Sets that add products of bytes, beside the levels: what a machine of such a set has for a level.  AVX2's
 * own products are of int16; NEON's are of signed bytes, with I8MM also of unsigned by signed ones. */
enum mo_dot {
    MO_DOT_NONE,
    MO_DOT_AVX512_VNNI,
    MO_DOT_AVX_VNNI,
    MO_DOT_AVX2,
    MO_DOT_NEON,
    MO_DOT_NEON_I8MM,
    MO_DOT_COUNT
};
enum mo_dot mo_isa_dot(enum mo_isa isa);
/* Whether this machine has any: layers of 8-bit numbers are then worth it. */
bool mo_isa_has_dot(void);
/* Whether it has AVX512_VBMI, which permutes bytes. */
bool mo_isa_has_vbmi(void);
const char *mo_isa_name(enum mo_isa isa); /* "base", "avx2", "avx512", "neon" */
/* A kernel's names by level: an initializer of `const char *[MO_ISA_COUNT]`. */
#define MO_LEVEL_NAMES(kernel)                                                                               \
    {                                                                                                        \
        [MO_ISA_BASE] = kernel " base", [MO_ISA_AVX2] = kernel " avx2", [MO_ISA_AVX512] = kernel " avx512",  \
        [MO_ISA_NEON] = kernel " neon"                                                                       \
    }

/* How weights are packed; kernels with the same packing share one copy.  Winograd's have no names: each has a
 * row in winograd_matrices.c (tile, filter, stride, whole or half transformed), whose index it is.  Compiled
 * kernels and the store hold the numbers. */
enum mo_packing {
    MO_PACK_NONE = 0,
    MO_PACK_CONV16 = 1,  /* [group][OC/16][IC/16][KH][KW][16 ic][16 oc]: direct conv and 1x1 on C16 input */
    MO_PACK_FIRST16 = 2, /* [OC/16][IC][KH][KW][16 oc]: conv that reads a plain NCHW input */
    MO_PACK_DW16 = 3,    /* [C/16][KH][KW][16]: depthwise */
    MO_PACK_GEMM16 = 4,  /* [N/16][K][16 n]: right operand of MatMul/Gemm */
    /* of 1x1 filters and right operands, see strassen_terms.h: [N/2/16/B][7][K/2][B * 16 n], B = 1, 2 or 4 */
    MO_PACK_STRASSEN = 7,
    MO_PACK_DOT16 =
        22, /* [group][OC/16][IC/16][KH][KW][4][16 oc][4 ic] int8, then sums [group][OC/16][16] int32 */
    MO_PACK_NARROW16 =
        23, /* the same of inputs of at most 4 channels: [OC/16][KH][KW][16 oc][4 ic], then sums */
    MO_PACK_DOTDW16 = 24, /* [C/16][KH][KW/4][16][4 kw] int8, then sums [C/16][16] int32 */
    /* the same three in int16, by two channels or columns where those have four: [...][8][16 oc][2 ic],
     * [...][2][16 oc][2 ic], [C/16][KH][KW/4][2][16][2 kw] */
    MO_PACK_PAIRS16 = 25,
    MO_PACK_PAIRS_NARROW16 = 26,
    MO_PACK_PAIRS_DW16 = 27,
    /* filters of F(2x2,3x3) and F(4x4,3x3), each row of G times what makes it whole (pack_small.c):
     * [OC/16][alpha^2][IC/16][8][16 oc][2 ic] int16, then sums */
    MO_PACK_WHOLE_WINO2 = 28,
    MO_PACK_WHOLE_WINO4 = 29,
    MO_PACK_MATRIX_BYTES = 30, /* of a matrix unit, see matrix_shape.h; then sums [group][OC/16][16] int32 */
    MO_PACK_MATRIX_HALVES = 31,
    MO_PACK_GEMM16_FLOAT16 = 32, /* as MO_PACK_GEMM16, each number as float16 */
    /* 33 .. 42 are Winograd's */
    MO_PACK_GROUPS16 = 43, /* [OC/16][IC of a group][KH][KW][16 oc]: groups of any width, not merged */
    MO_PACK_STRASSEN2 = 44,
    MO_PACK_STRASSEN4 = 45,
    /* the same by another scheme: [N/4/16/B][26][K/4][B * 16 n] */
    MO_PACK_HOPCROFT = 46,
    MO_PACK_HOPCROFT2 = 47,
    MO_PACK_HOPCROFT4 = 48,
    MO_PACK_MATRIX_FLOATS = 49, /* of a matrix unit, each number as three of bfloat16 */
    MO_PACK_COUNT = 50
};

/* The same of a layer in rounds: units of one round are independent, and every round needs all of the one
 * before. `shared`: what they hand on. */
typedef void mo_round_kernel(const struct mo_kargs *args, void *shared, int64_t round, int64_t begin,
                             int64_t end, void *scratch);

/* How a layer of few units runs on more workers than it has units: in rounds, which a team begins together.
 * Gives the bytes that the units give. */
struct mo_rounds {
    int64_t n, units; /* rounds, and units of each */
    int64_t pieces;   /* of a round that are worth a worker each, at most; at least 2 */
    int64_t shared_bytes;
    /* Before the first round: `shared` is 64-byte aligned and holds anything. */
    void (*begin)(const struct mo_kargs *args, void *shared);
    mo_round_kernel *run;
};

struct mo_version;
/* One layer bound to a kernel: everything that does not depend on the query. */
struct mo_step {
    const struct mo_node *node;
    mo_kernel *run;     /* NULL: the operator's reference runs, as one unit */
    const char *kernel; /* name for inspect, profiles and traces */
    const char *kind;   /* "specialised", "generic", "reference", "view" */
    const void *params;
    const void *compiled_params; /* params of a compiled kernel in its place: NULL, or of 8-bit numbers a
                                    struct mo_small_args (variants/small_args.h) */
    enum mo_packing packing;
    const void *weights;
    const float *bias;
    int64_t units, scratch_bytes;
    const struct mo_rounds *rounds; /* NULL: only units */
    int64_t flops, bytes; /* nominal 2*MACs; bytes moved at least once (inputs + weights + outputs) */
    int64_t executed;     /* flops the kernel does: fewer with Winograd or skipped padding; set by a binder
                             that knows, else as nominal */
    bool mixes;           /* pixels before it sums (Winograd, Strassen): rounding errors are relative to the
                             largest value of a tile, and a NaN reaches the whole tile */
    bool joint;           /* units of one call share what it prepares first: best left together */
    int n_versions;       /* 0: this one only */
    const struct mo_version *version; /* runtime/plan/versions.h; the first is this one */
    bool dynamic;                     /* shapes known at run time only: reference with allocation */
    const struct mo_op_parts *parts;  /* of a layer without kernel: work that cores may share; or NULL */
};

/* Layouts in which a family can run a node. */
enum {
    MO_CAN_PLAIN = 1, /* activations in and out plain */
    MO_CAN_C16 = 2,   /* activations in and out MO_C16 (constants stay plain) */
    MO_CAN_ENTER = 4, /* plain in, C16 out (first layers, reorder) */
    MO_CAN_LEAVE = 8  /* C16 in, plain out */
};

/* Which matrix unit kernels use (variants/matrix/matrix.h): this machine's, if it has one; none; or, for
 * tests, the model of one in C on any machine, and vectors in place of one where the processor has the
 * instruction. */
enum mo_units { MO_UNITS_OWN, MO_UNITS_NONE, MO_UNITS_MODEL, MO_UNITS_VECTORS };

/* What a matrix unit multiplies: uint8 by int8 into int32, or bfloat16 by bfloat16 into float32; or float32,
 * each number as the sum of three of bfloat16. */
enum mo_matrix_type { MO_MATRIX_BYTES, MO_MATRIX_HALVES, MO_MATRIX_FLOATS, MO_MATRIX_TYPES };
struct mo_matrix_unit;

/* What bind() may use: memory that lives as long as the plan, and packed weights found by key. */
struct mo_binder {
    const struct mo_env *env;
    struct mo_region *region; /* of the plan: params, packed weights */
    enum mo_isa isa;
    const struct mo_matrix_unit *unit[MO_MATRIX_TYPES]; /* NULL: none */
    const struct mo_graph *graph;
};

/* Of a layer without kernel: fills step->parts, if its operator has any (variants/generic/bind_parts.c). */
int mo_bind_parts(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                  moire_error *err);

/* A family of generic kernels: a layer predicate and a binder.  One file + one row in variants/families.c. */
struct mo_family {
    const char *name;
    /* Bit set of MO_CAN_*; 0 = not mine.  Looks at node, shapes and attributes, not at tensor layouts. */
    unsigned (*layouts)(const struct mo_graph *graph, const struct mo_node *node);
    /* Tensor layouts are final now: fills step (run, params, weights, bias, units, scratch, kernel).
     * MOIRE_EUNSUPPORTED: not in these layouts, ask the next family. */
    int (*bind)(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err);
};

/* Union of MO_CAN_* over the families, MO_CAN_PLAIN always (the reference). */
unsigned mo_layouts_of(const struct mo_graph *graph, const struct mo_node *node);
/* First family that binds; falls back to the reference (step->run == NULL). */
int mo_bind_generic(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                    moire_error *err);

/* Bumped whenever emitted code changes, or what it has to be faster than; part of the store's key. */
#define MO_GENERATOR_VERSION 29

/* What an emitted shared object exports as `const struct mo_variant mo_variant`. */
struct mo_variant {
    int32_t abi;     /* MO_KERNEL_ABI */
    int32_t packing; /* enum mo_packing it expects */
    int64_t units, scratch_bytes;
    int64_t parallelism_milli; /* 1000 * units * ilp / 28 */
    int64_t block_bytes, l3_bytes, flops_executed;
    int64_t mixes; /* 1: as of a step; else 0 */
    mo_kernel *run;
    const char *name;
};

/* Canonical text of a layer for the store and for reports: operator, shapes, attributes, epilogue, layouts;
 * no byte of the model's names.  E.g. "conv:f32:n1:c64:h56:w56:o64:k3x3:s1x1:p1,1,1,1:d1x1:g1:relu:c16>c16".
 * False when the layer has no specialised family or out is too small. */
bool mo_layer_signature(const struct mo_graph *graph, const struct mo_node *node, char *out, size_t n);
#endif
