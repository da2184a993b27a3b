/* SPDX-License-Identifier: Apache-2.0
 * graph.h - the intermediate representation of a model: tensors, nodes, attributes.
 *
 * A graph owns everything it points to through one region; destroying the graph frees all.  Nodes are kept
 * in a topological order.  Tensors are named by index (`id`), so arrays may grow.  After the passes one node
 * is one *layer*: an operator with its fused epilogue (struct mo_fuse).
 *
 * Invariants (mo_graph_check): every tensor has at most one producer; ids are in range; a node's inputs are
 * graph inputs, constants or outputs of earlier nodes; node->in[i] == -1 means "optional input not given". */
#ifndef MO_GRAPH_H
#define MO_GRAPH_H
#include <stdbool.h>
#include "runtime/base/env.h"

struct mo_op;            /* runtime/ops/op.h */
struct mo_packed_places; /* variants/packed.h */

/* How the elements of a tensor lie in memory.
 * MO_C16 (rank >= 3): [N][ceil(C/16)][spatial...][16]; lanes beyond C hold finite values.
 * MO_C16_HALVES (of float32): the same, each value as bfloat16; between kernels that round to that anyway. */
enum mo_layout { MO_PLAIN = 0, MO_C16 = 1, MO_C16_HALVES = 2 };

/* Which constant right operands of products are float16 in memory: none; those that are float16 anyway, of
 * products of few rows; all that its range holds, rounded. */
enum mo_float16 { MO_FLOAT16_NONE, MO_FLOAT16_EXACT, MO_FLOAT16_ROUNDED };

/* Which products of float32 a matrix unit computes from three bfloat16 numbers each: those that are faster
 * so, or, for tests, all that it could. */
enum mo_terms { MO_TERMS_NEVER, MO_TERMS_FASTER, MO_TERMS_ALWAYS };

/* Besides the types of tensors: a sequence or an optional, as a vector of bytes
 * (runtime/ops/control/bundle.h). */
#define MO_BUNDLE ((moire_dtype)120)

struct mo_shape {
    int rank; /* -1: unknown until run time */
    int64_t d[MOIRE_MAX_RANK];
};

/* A tensor's type, shape and (when known) contents; what operators see. Plain layout always. */
struct mo_value {
    moire_dtype dtype; /* MOIRE_NONE: optional input or output not present */
    struct mo_shape shape;
    void *data; /* NULL: not known */
};

struct mo_tensor {
    int id;
    const char *name; /* from the model: untrusted text */
    moire_dtype dtype;
    struct mo_shape shape;
    enum mo_layout layout;
    bool is_input, is_output;
    bool dynamic; /* shape depends on data: storage is allocated when it is produced */
    void *data;   /* constant contents (plain layout), or NULL */
    int producer; /* index of the producing node, or -1 */
    int n_uses;   /* consumers + graph output; kept by mo_graph_index() */
    int consumer; /* last node that reads it, a hint for mo_graph_sole_consumer(), or -1 */
    /* Storage shared with another tensor: this tensor starts alias_offset bytes into every image
     * (outermost index) of tensor `alias`.  Set by the views and concat passes; -1 = own storage.
     * alias_run: it starts there once and lies without gaps, as `alias` does, whatever their images are. */
    int alias;
    int64_t alias_offset;
    bool alias_run;
    uint64_t content; /* which contents these are (runtime/graph/content.h); 0 = nobody can tell */
    bool shared;      /* the contents belong to somebody else: they are not to be written or released */
};

enum mo_attr_type {
    MO_ATTR_INT,
    MO_ATTR_FLOAT,
    MO_ATTR_STRING,
    MO_ATTR_TENSOR,
    MO_ATTR_GRAPH,
    MO_ATTR_INTS,
    MO_ATTR_FLOATS,
    MO_ATTR_STRINGS,
    MO_ATTR_OTHER
};

struct mo_attr {
    const char *name;
    enum mo_attr_type type;
    int64_t i;
    float f;
    const char *s; /* NUL-terminated; s_len bytes */
    size_t s_len;
    struct mo_value tensor;
    int n; /* elements of the list forms */
    const int64_t *ints;
    const float *floats;
    const char *const *strings;
    struct mo_graph *graph; /* the body of an operator of control flow; NULL: not read */
};

/* Activation of a fused epilogue, with parameters a, b. */
enum mo_act {
    MO_ACT_NONE,
    MO_ACT_RELU,
    MO_ACT_CLIP,  /* min(max(x, a), b) */
    MO_ACT_LEAKY, /* x < 0 ? a x : x */
    MO_ACT_SIGMOID,
    MO_ACT_SILU,     /* x sigmoid(x) */
    MO_ACT_HSIGMOID, /* clip(a x + b, 0, 1) */
    MO_ACT_HSWISH,   /* x clip(a x + b, 0, 1); ONNX HardSwish has a = 1/6, b = 1/2 */
    MO_ACT_TANH,
    MO_ACT_GELU,      /* x/2 (1 + erf(x / sqrt 2)) */
    MO_ACT_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    MO_ACT_COUNT
};

enum { MO_GATE_IN = 4 }; /* the gate's place among the inputs, behind bias and residual, given or not */

/* y = act(op(x) + bias + residual), or act(op(x) + bias) + residual when residual_last.  Of a gated Conv x is
 * in[0] times in[MO_GATE_IN], which is [N,C,1,1]: a factor for every channel of an image. */
struct mo_fuse {
    enum mo_act act;
    float a, b;
    int residual; /* index into node->in, or -1 */
    bool residual_last;
    bool gated;
};

struct mo_node {
    int id;              /* index in graph->nodes */
    const char *name;    /* untrusted text; the first output's where the file gives none */
    const char *op_type; /* as in the model, e.g. "Conv"; domain "" for ai.onnx, "moire" for our own */
    const char *domain;
    const struct mo_op *op; /* row of the operator table */
    int opset;              /* version of the domain the model imports */
    int n_in, n_out;
    int *in, *out; /* tensor ids, -1 = absent */
    int n_attrs;
    struct mo_attr *attrs;
    struct mo_fuse fuse; /* residual = -1, act = NONE unless a pass fused something */
    bool dead;           /* removed by a pass; swept by mo_graph_compact() */
};

struct mo_graph {
    const struct mo_env *env;
    struct mo_region *region;
    const char *name;
    int opset;  /* of the default domain */
    bool exact; /* kernels must sum the products that the operator names: none of a faster algorithm */
    int n_tensors, cap_tensors;
    struct mo_tensor **tensors;
    int n_nodes, cap_nodes;
    struct mo_node **nodes;
    int n_inputs, n_outputs;
    int *inputs, *outputs; /* tensor ids; initializers are not inputs */
    int n_captured;        /* of a body: so many of its inputs, the last, are values of the graph around it */
    int n_meta;            /* metadata_props of the model */
    const char **meta_key, **meta_value;
    int n_outside; /* files beside the model that hold contents of tensors, relative to its folder */
    const char **outside;
    bool converts;         /* the model itself rounds activations to 8 bits */
    bool keeps_small;      /* constant filters of 8 bits are left to the passes, not folded */
    bool halves;           /* products of floats may be of bfloat16 numbers, added in float32 */
    enum mo_terms terms;   /* or of three bfloat16 numbers in place of each float32, on a matrix unit */
    bool multiplies_tiles; /* there is a matrix unit for 8-bit numbers */
    enum mo_float16 float16;
    bool halves_by_vectors; /* of those, not where Winograd's algorithm is faster */
    int n_halves;           /* constants that the model holds in half precision and that are float32 here */
    struct mo_packed_places *packed; /* where binders put or find packed weights; NULL: in new memory */
};

struct mo_graph *mo_graph_create(const struct mo_env *env); /* NULL: out of memory */
void mo_graph_destroy(struct mo_graph *g);

/* An empty graph for a body of one of the graph's nodes, in the same region: it goes with `around` and is
 * never destroyed by itself.  The body's inputs are the operator's own, then the values that it takes from
 * `around`, which are the last inputs of the node; all bodies of a node have the same of these. */
struct mo_graph *mo_graph_add_body(struct mo_graph *around);
/* An operator of that name of the default domain, or of "moire". */
bool mo_node_is(const struct mo_node *node, const char *op_type);
bool mo_node_is_ours(const struct mo_node *node, const char *op_type);
/* The body in an attribute of that name; NULL: there is none. */
struct mo_graph *mo_node_body(const struct mo_node *node, const char *name);
/* The next attribute from *at on that holds a body, and moves *at behind it; NULL: no more. */
struct mo_graph *mo_node_next_body(const struct mo_node *node, int *at);

/* New tensor / node / attribute, owned by the graph; NULL when out of memory or over a limit.  Strings are
 * copied. A node is appended at the end; mo_graph_sort() restores topological order afterwards. */
struct mo_tensor *mo_graph_add_tensor(struct mo_graph *g, const char *name, moire_dtype dtype,
                                      const struct mo_shape *shape);
struct mo_node *mo_graph_add_node(struct mo_graph *g, const char *name, const char *op_type,
                                  const char *domain, int n_in, int n_out);
struct mo_attr *mo_node_add_attr(struct mo_graph *g, struct mo_node *node, const char *name,
                                 enum mo_attr_type type);
/* A constant tensor whose zeroed storage (shape x dtype bytes) belongs to the graph. */
struct mo_tensor *mo_graph_add_const(struct mo_graph *g, const char *name, moire_dtype dtype,
                                     const struct mo_shape *shape);

/* Notes that contents come from a file beside the model; false: out of memory. */
bool mo_graph_add_outside(struct mo_graph *g, const char *location);

/* Operand i of a node, NULL when it is absent. */
static inline struct mo_tensor *mo_node_in(const struct mo_graph *g, const struct mo_node *node, int i) {
    return i >= 0 && i < node->n_in && node->in[i] >= 0 ? g->tensors[node->in[i]] : NULL;
}
static inline struct mo_tensor *mo_node_out(const struct mo_graph *g, const struct mo_node *node, int i) {
    return i >= 0 && i < node->n_out && node->out[i] >= 0 ? g->tensors[node->out[i]] : NULL;
}

/* Recomputes producer, n_uses and consumer of all tensors. */
void mo_graph_index(struct mo_graph *g);
/* Topological order of live nodes; MOIRE_EFORMAT naming a node when there is a cycle. */
int mo_graph_sort(struct mo_graph *g, moire_error *err);
/* Drops dead nodes, renumbers, re-indexes. */
void mo_graph_compact(struct mo_graph *g);
/* Checks the invariants above; used by tests and after each pass in debug runs. */
int mo_graph_check(const struct mo_graph *g, moire_error *err);
/* The only consumer of a tensor that has exactly one use and is no graph output; NULL otherwise. */
struct mo_node *mo_graph_sole_consumer(const struct mo_graph *g, int tensor);

/* Attributes by name, with the default when absent (or of another type). */
const struct mo_attr *mo_attr_find(const struct mo_node *node, const char *name);
int64_t mo_attr_int(const struct mo_node *node, const char *name, int64_t fallback);
float mo_attr_float(const struct mo_node *node, const char *name, float fallback);
const char *mo_attr_string(const struct mo_node *node, const char *name, const char *fallback);
/* Copies up to cap ints into out and returns how many there are, or -1 when the attribute is absent. */
int mo_attr_ints(const struct mo_node *node, const char *name, int64_t *out, int cap);

/* Shapes.  Element count, or -1 on unknown rank, negative dimension or overflow. */
int64_t mo_shape_count(const struct mo_shape *s);
bool mo_shape_equal(const struct mo_shape *a, const struct mo_shape *b);
/* "[1,3,224,224]" into out; returns out. */
char *mo_shape_text(const struct mo_shape *s, char *out, size_t n);
/* Bytes of one element; 0 for MOIRE_STRING and MOIRE_NONE. */
size_t mo_dtype_bytes(moire_dtype dtype);
const char *mo_dtype_name(moire_dtype dtype);
/* Bytes a tensor occupies in its layout (C16 padding included), whole and per image (outermost index). */
int64_t mo_tensor_bytes(const struct mo_tensor *t);
int64_t mo_tensor_image_bytes(const struct mo_tensor *t);
/* The tensor whose storage `tensor` lives in (itself without an alias), and the byte where it begins in every
 * image.  With a cycle of aliases the answer still has an alias: callers refuse that. */
int mo_alias_root(const struct mo_graph *g, int tensor, int64_t *offset);
/* The bytes of `part` lie `offset` behind those of `whole` in every image. */
bool mo_alias_lies_at(const struct mo_graph *g, int part, int whole, int64_t offset);
/* Bytes from one image to the next: its own image size, or its parent's when it is a slice of one. */
int64_t mo_alias_stride(const struct mo_graph *g, int tensor);
/* Whether there are no gaps between its images. */
bool mo_alias_is_dense(const struct mo_graph *g, int tensor);
/* The tensor as operators see it. */
struct mo_value mo_tensor_value(const struct mo_tensor *t);
#endif
